"""XML publications in other encodings, and after an MQRFH2 header."""

from __future__ import annotations

import struct

import pytest

from publication_files import captured, column, message, row, xml_publications
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.message_batch import messages_from as messages_of

DOCUMENT = message(
    '<rowOp cmitLSN="AA" cmitTime="2026-01-31T10:11:12">'
    + row("insertRow", column("ID", "<integer>1</integer>"), column("V", "<varchar>gr\u00f6\u00dfer [x]</varchar>"))
    + "</rowOp>"
)  # fmt: skip
AFTER = {"ID": "1", "V": "gr\u00f6\u00dfer [x]"}


def after_of(body: bytes, properties: str = "") -> object:
    found = captured(xml_publications(properties), messages_of([body]))
    assert found.problems == []
    return found.rows[0]["after"]


def header(ccsid: int, order: str = ">", name: bytes = b"RFH ", length: int = 44) -> bytes:
    """Return an MQRFH2 with one pair of names and values."""
    words = struct.pack(f"{order}4i", 2, length, 273, ccsid)
    rest = struct.pack(f"{order}2i", 0, 1208)
    return (
        name
        + words[:4]
        + words[4:8]
        + words[8:16]
        + b"MQSTR   "
        + rest
        + struct.pack(f"{order}i", 4)
        + b"    "
    )


@pytest.mark.parametrize("declared", ["", '<?xml version="1.0" encoding="IBM-1047"?>'])
def test_a_code_page_that_is_given_decodes_ebcdic_whatever_is_declared(declared: str) -> None:
    assert after_of((declared + DOCUMENT).encode("cp037"), "codepage=37") == AFTER


def test_ebcdic_is_decoded_by_the_page_that_it_declares() -> None:
    declared = '<?xml version="1.0" encoding="IBM-037"?>\u0085'

    assert after_of((declared + DOCUMENT + "\u0085").encode("cp037")) == AFTER


def test_ebcdic_without_a_page_is_refused_with_what_to_set() -> None:
    (problem,) = captured(xml_publications(), messages_of([DOCUMENT.encode("cp037")])).problems

    assert "the message is EBCDIC of an unknown code page" in problem[1]
    assert "event_publishing.codepage" in problem[1]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_other_encodings_are_those_that_documents_declare(encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?>{DOCUMENT}'

    assert after_of(text.encode(encoding)) == AFTER


def test_bytes_that_are_not_of_the_page_are_refused() -> None:
    (problem,) = captured(
        xml_publications("codepage=1208"), messages_of([b"<msg>\xff</msg>"])
    ).problems

    assert problem[0] == 0


@pytest.mark.parametrize(
    ("ccsid", "encoding"),
    [(1208, "utf-8"), (37, "cp037"), (819, "latin-1"), (0, "utf-8"), (1200, "utf-16-be")],
)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("name", [b"RFH ", "RFH ".encode("cp037")])
def test_a_header_is_removed_and_names_the_code_page(
    ccsid: int, encoding: str, order: str, name: bytes
) -> None:
    body = header(ccsid, order, name) + DOCUMENT.encode(encoding)

    assert after_of(body) == AFTER
    assert after_of(header(0) + body) == AFTER


@pytest.mark.parametrize("length", [-1, 0, 35, 4000])
def test_a_header_that_is_not_whole_is_refused(length: int) -> None:
    body = header(1208, length=length) + DOCUMENT.encode()

    (problem,) = captured(xml_publications(), messages_of([body])).problems

    assert "MQRFH2" in problem[1]


def test_a_header_that_is_cut_off_is_refused() -> None:
    (problem,) = captured(xml_publications(), messages_of([header(1208)[:20]])).problems

    assert "MQRFH2" in problem[1]


def test_batches_joined_keep_their_messages_apart() -> None:
    batch = MessageBatch.join([messages_of([DOCUMENT.encode(), b"<msg/>"]), messages_of([b"<x/>"])])

    problems = captured(xml_publications(), batch).problems

    assert [number for number, _ in problems] == [1, 2]
