"""Promises about byte order marks before messages: that of UTF-8 is passed over in every format, those of other encodings are named."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import NamedTuple

import pytest

from held_captures import SHOP, fixed_capture, held_capture, messages_of
from message_cases import rows_of
from publication_files import column, row, transaction, xml_publications
from publication_strings import capture_of, record
from trailgate.capture.capture import Capture
from trailgate.capture.formats import PARSERS
from trailgate.formats.publications.reader import PublicationTableInference
from trailgate.messages.message_batch import MessageBatch

COPYBOOK = """
01 HEADER.
   05 OP      PIC X.
   05 REC     PIC X(4).
01 ROW.
* KEY
   05 ID      PIC 9(3).
   05 FILLER  PIC X.
   05 NAME    PIC X(4).
"""
FIXED = (
    "fixed.copybook=a.cpy\nfixed.header=HEADER\nfixed.schema=S\nfixed.optype=OP\nfixed.table=REC\n"
)
RULES = """
xml.rules=tx
tx.type=tx
tx.match=/t
tx.subrules=op
op.type=op
op.match=./o
op.schemaandtable="OGG.PAIR"
op.optype="I"
op.subrules=one
one.type=col
one.match=./ID
one.name="ID"
one.value=./text()
"""
EVENT = (
    '{"before":null,"after":{"ID":1},"op":"c","source":{"ts_ms":1,"schema":"OGG","table":"PAIR"}}'
)
FLAT = '{"table":"OGG.PAIR","op_type":"I","op_ts":"2020-01-01 00:00:00","ID":1}'


def shop(properties: str) -> Capture:
    parser = properties.partition(".")[0]
    text = f"parser.type={parser}\n{parser}.sourcedefs=shop.def\n{properties}"
    return held_capture(text, {"shop.def": SHOP})


class Form(NamedTuple):
    """One form of messages: its parser, a capture, and a message with one insert."""

    parser: str
    capture: Callable[[], Capture]
    message: str


FORMS = {
    "delimited text": Form(
        "delim",
        lambda: shop("delim.header=op,table\ndelim.optype=op\ndelim.schemaandtable=table"),
        "I,OGG.PAIR,1,a",
    ),
    "delimited text in quotes": Form(
        "delim",
        lambda: shop('delim.header=op,table\ndelim.optype=op\ndelim.schemaandtable=table\ndelim.quote="'),
        '"I","OGG.PAIR",1,"a"',
    ),
    "fixed width": Form("fixed", lambda: fixed_capture(FIXED, {"a.cpy": COPYBOOK}), "IROW 001 abcd"),
    "fixed width in UTF-8": Form(
        "fixed", lambda: fixed_capture(f"{FIXED}fixed.codepage=utf-8", {"a.cpy": COPYBOOK}), "IROW 001 abcü"
    ),
    "XML": Form("xml", lambda: shop(f"xml.{RULES.strip()[4:]}"), "<t><o><ID>1</ID></o></t>"),
    "JSON": Form("json", lambda: shop("json.model=row"), FLAT),
    "change events": Form("debezium", lambda: shop("debezium.txid=*txid"), EVENT),
    "delimited publications": Form("event_publishing", lambda: capture_of(properties="content=row"), record(',,"a",').decode()),
    "XML publications": Form(
        "event_publishing",
        xml_publications,
        transaction(row("insertRow", column("ID", "<integer>1</integer>", key=True))),
    ),
}  # fmt: skip


def test_every_parser_is_tried() -> None:
    assert {form.parser for form in FORMS.values()} == {row.name for row in PARSERS}


def captured(capture: Capture, messages: MessageBatch) -> list[object]:
    parsed = capture.parse(messages)
    end = capture.at_end(parsed.state)
    assert not parsed.problems, str(parsed.problems[0].error)
    return [(r["op_type"], r["before"], r["after"]) for r in [*rows_of(parsed), *rows_of(end)]]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("marked", [(0,), (1,), (0, 2), (0, 1, 2)])
def test_the_mark_of_utf_8_is_passed_over(name: str, marked: tuple[int, ...]) -> None:
    form = FORMS[name]
    plain = [form.message.encode()] * 3
    bodies = [codecs.BOM_UTF8 * (at in marked) + body for at, body in enumerate(plain)]

    expected = captured(form.capture(), messages_of(plain))

    assert len(expected) >= 3
    assert captured(form.capture(), messages_of(bodies)) == expected


@pytest.mark.parametrize(
    "name", [name for name in FORMS if "XML" not in name and name != "fixed width"]
)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_mark_of_another_encoding_is_named(name: str, encoding: str) -> None:
    form = FORMS[name]
    parsed = form.capture().parse(messages_of([form.message.encode(encoding)]))

    text = str(parsed.problems[0].error)

    assert f"the byte order mark of {encoding.upper()}" in text
    assert f"iconv -f {encoding.upper()} -t UTF-8" in text


def test_a_mark_before_a_bad_message_does_not_move_its_place() -> None:
    form = FORMS["JSON"]
    parsed = form.capture().parse(messages_of([codecs.BOM_UTF8 + b'{"table":}']))
    text = FORMS["delimited text"].capture()
    short = text.parse(messages_of([codecs.BOM_UTF8 + b"I"]))

    assert "byte 12" in str(parsed.problems[0].error)
    assert "byte 3" in str(short.problems[0].error)


def test_tables_are_inferred_from_marked_publications() -> None:
    capture = capture_of()
    tables = PublicationTableInference(capture.options)  # type: ignore[arg-type]
    tables.add(messages_of([codecs.BOM_UTF8 + record(',,"a",')]))

    assert [table.name for table in tables.definitions()] == ["S.T"]
