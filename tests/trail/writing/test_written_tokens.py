"""Tokens of operations: where each goes, and what cannot be one."""

from __future__ import annotations

from typing import Any

import pytest

from trail.batches import batch_of
from trail.operation_strategies import NARROW
from trailgate.errors import EncodeError
from trailgate.model.tables import Definitions
from trailgate.trail.format.tokens import DDL, LOGCSN, ORAROWID, TRANID
from trailgate.trail.records.record import TrailRecord, decode_record
from trailgate.trail.writing.writer import encode

TABLES = Definitions((NARROW,))
ROW: dict[str, Any] = {
    "table": "S.NARROW",
    "op_type": "I",
    "op_ts": 0,
    "tx_ind": "W",
    "tx_id": "1.2",
    "csn": "77",
    "before": {},
    "after": {"A": "x"},
}
ROWID = "AAASf9AAEAAAAINAAA"


def records(*rows: dict[str, Any]) -> list[TrailRecord]:
    data = encode(batch_of(TABLES, [ROW | row for row in rows])).body.to_pybytes()
    found: list[TrailRecord] = []
    place = 0
    while place < len(data):
        found.append(decode_record(data, place))
        place += found[-1].length
    return found


def test_both_images_have_the_tokens_of_their_operation() -> None:
    """trail format §14: the second record of a printed pair has a ROWID and no CSN."""
    update = {"op_type": "U", "before": {"A": "w"}, "tokens": {"ORAROWID": ROWID, "TK-X": "1"}}

    before, after = records(update)

    assert [t.code for t in before.tokens or ()] == [ORAROWID, LOGCSN, TRANID]
    assert [t.code for t in after.tokens or ()] == [ORAROWID]
    assert before.user == after.user == b"TK-X\x001\0"


def test_csn_and_transaction_come_from_their_columns() -> None:
    tokens = {"LOGCSN": "other", "TRANID": "other"}

    (record,) = records({"tokens": tokens})

    assert (record.token(LOGCSN), record.token(TRANID)) == (b"77", b"1.2")


def test_rows_with_and_without_tokens_mix() -> None:
    rows: list[dict[str, Any]] = [
        {"tokens": {"DDL": "a"}},
        {},
        {"tokens": {"TK-B": "b"}},
        {"tx_ind": "W", "csn": None},
    ]

    found = records(*rows)

    assert [record.token(DDL) for record in found] == [b"a", None, None, None]
    assert [record.user for record in found] == [None, None, b"TK-B\0b\0", None]
    assert [record.token(LOGCSN) for record in found] == [b"77", b"77", b"77", None]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ({"ORAROWID": "AAA"}, "ROWID has 18 characters, not 3 .*field ORAROWID"),
        ({"ORATAG": "xyz"}, "hexadecimal digits .*field ORATAG"),
        ({"x69": "0"}, "hexadecimal digits .*field x69"),
        ({"x4c": "00"}, "the token x4c is LOGCSN"),
        ({"DDL": None}, "a token has no value .*table S.NARROW, field DDL"),
        ({"TK-A": None}, "a token has no value .*field TK-A"),
        ({"TK-A": "a" * 2000}, "user tokens of 2006 bytes.*table S.NARROW"),
        ({"DDL": "a" * 70_000}, "bytes of tokens do not fit in a record .*table S.NARROW"),
    ],
)
def test_text_that_is_not_a_token_is_named(tokens: dict[str, str | None], message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        records({"tokens": tokens})


def test_tokens_that_leave_no_room_are_an_error() -> None:
    with pytest.raises(EncodeError, match="leave no room"):
        records({"tokens": {"DDL": "a" * 65_457}})
