"""What no public document states about XML publications, as docs/assumptions.md has it."""

from __future__ import annotations

import pytest

from publication_files import (
    Captured,
    captured,
    column,
    message,
    row,
    transaction,
    xml_publications,
)
from trailgate.formats.publications.xml_schemas import parse_schema_table
from trailgate.formats.xml.documents import parse_document
from trailgate.formats.xml.faults import XmlLimits
from trailgate.messages.message_batch import messages_from

pytestmark = pytest.mark.assumed
LARGE = ' hasLOBCols="1"'


def found(*bodies: str) -> Captured:
    return captured(xml_publications(), messages_from([body.encode() for body in bodies]))


def insert(number: int, *more: str, flags: str = "") -> str:
    return row(
        "insertRow", column("ID", f"<integer>{number}</integer>"), *more, number=number, more=flags
    )


def part(number: int, text: str, *, last: int, total: int) -> str:
    given = f'isLast="{last}" srcOwner="USER1" srcName="T1" rowNum="{number}" colName="L"'
    return message(
        f'<lob {given} totalDataLen="{total}" dataLen="{len(text)}"><clob>{text}</clob></lob>'
    )


def test_parts_of_large_objects_follow_the_message_of_their_row() -> None:
    first = transaction(insert(1, flags=LARGE), segment=1, last=0)
    second = transaction(insert(2), segment=2, last=1)
    parts = [part(1, "ab", last=0, total=3), part(1, "c", last=1, total=3)]

    between, after = found(first, *parts, second), found(first, second, *parts)
    early = found(parts[0], first, parts[1], second)

    assert [one["after"] for one in between.rows] == [{"ID": "1", "L": "abc"}, {"ID": "2"}]
    assert [one["after"] for one in after.rows] == [{"ID": "1", "L": "abc"}, {"ID": "2"}]
    assert "has no row before it" in early.problems[0][1]


def test_an_empty_large_object_waits_for_its_parts() -> None:
    empty = column("L", "<clob></clob>")

    (one,) = found(transaction(insert(1, empty, flags=LARGE)), part(1, "x", last=1, total=1)).rows
    (other,) = found(transaction(insert(1, empty))).rows
    ((_, problem),) = found(transaction(insert(1, empty, flags=LARGE))).problems

    assert one["after"] == {"ID": "1", "L": "x"}
    assert other["after"] == {"ID": "1", "L": ""}
    assert "no lob message has the large object L" in problem


def test_messages_with_one_commit_position_are_a_transaction() -> None:
    def one(number: int, commit: str, more: str = "") -> str:
        given = f'cmitLSN="{commit}" cmitTime="2026-01-31T10:11:12"{more}'
        return message(f"<rowOp {given}>{insert(number)}</rowOp>")

    rows = found(one(1, "A"), one(2, "A"), one(3, "B", ' isLast="1"'), one(4, "B")).rows

    assert [(each["tx_id"], each["tx_ind"]) for each in rows] == [
        ("A", "B"),
        ("A", "E"),
        ("B", "W"),
        ("B", "W"),
    ]


@pytest.mark.parametrize("flag", ["invalidData", "rawData"])
def test_values_that_could_not_be_converted_are_refused(flag: str) -> None:
    marked = column("V", f'<varchar {flag}="1"/>')
    unmarked = column("V", f'<varchar {flag}="0">x</varchar>')

    ((_, problem),) = found(transaction(insert(1, marked))).problems
    (one,) = found(transaction(insert(1, unmarked))).rows

    assert f"column V is marked {flag}" in problem
    assert one["after"] == {"ID": "1", "V": "x"}


def test_bit_data_are_hexadecimal_digits() -> None:
    (one,) = found(transaction(insert(1, column("B", "<bitvarchar>00ff</bitvarchar>")))).rows
    described = message(
        '<subSchema srcOwner="S" srcName="T"><col name="B" type="bitchar" len="2"/></subSchema>'
    )
    document = parse_document(described.encode(), XmlLimits())
    (own,) = parse_schema_table(document.top.children[0].children[0]).columns

    assert one["after"] == {"ID": "1", "B": "00FF"}
    assert (own.family.value, own.external_length) == ("bytes", 4)
