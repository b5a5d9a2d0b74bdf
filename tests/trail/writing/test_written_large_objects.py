"""Large objects and rows beyond a record: how they are cut, and which record says what."""

from __future__ import annotations

from typing import Any

import pytest

from trail.batches import batch_of
from trail.written_formats import DEFINITIONS, LARGE, read_again, records_of, written
from trailgate.errors import EncodeError
from trailgate.model.tables import Column, Definitions, Table
from trailgate.trail.format.record_header import AFTER_IMAGE, BEFORE_IMAGE
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.writing.trail_format import LEVEL_3, TrailFormat, UpdateFormat
from trailgate.trail.writing.writer import encode

ROW: dict[str, Any] = {
    "table": "S.LARGE",
    "op_type": "I",
    "op_ts": 0,
    "tx_ind": "W",
    "tx_id": "1",
    "csn": "7",
    "before": {},
    "after": {},
    "tokens": {},
}
BASE, PIECE, FRAGMENT = 5, 116, 161
DOC = [column.name for column in LARGE.columns].index("DOC")


def records(form: TrailFormat = LEVEL_3, tables: Definitions = DEFINITIONS, **row: Any) -> Any:
    data, encoded = written([ROW | row], form, tables)
    return records_of(data[len(data) - encoded.body.size :], form.order)


@pytest.mark.parametrize("order", ByteOrder)
def test_the_printed_large_object_is_cut_as_printed(order: ByteOrder) -> None:
    """trail format §11: 7,070 bytes are pieces of 1070, 2000, 2000 and 2000, the odd one first."""
    value = "".join(chr(65 + i // 500) for i in range(7070))

    base, *pieces = records(TrailFormat(4, order), after={"ID": 1, "DOC": value})

    assert base.data is not None
    assert base.data.endswith(order.raw(DOC, 2) + order.raw(4, 2) + b"\xff\xff\0\0")
    words = [[order.number(p.data[i : i + 4]) for i in range(0, 20, 4)] for p in pieces]
    assert words == [
        [DOC, 4, 1, 0, 1070],
        [DOC, 4, 2, 0x42E, 2000],
        [DOC, 4, 3, 0xBFE, 2000],
        [DOC, 4, 4, 0x13CE, 2000],
    ]
    assert b"".join(piece.data[20:] for piece in pieces) == value.encode()
    assert [p.io_type for p in (base, *pieces)] == [BASE, *[PIECE] * 4]
    assert [p.continued for p in (base, *pieces)] == [0, 1, 1, 1, 0]
    assert [p.record_count for p in (base, *pieces)] == [1, 4, 4, 4, 4]
    assert [p.trans_ind for p in (base, *pieces)] == [0, 1, 1, 1, 2]
    assert {p.name for p in pieces} == {"S.LARGE"}


@pytest.mark.assumed
def test_pieces_have_no_tokens_and_count_to_255() -> None:
    base, *pieces = records(after={"DOC": "x" * 2000 * 300})

    assert len(pieces) == 300
    assert {piece.record_count for piece in pieces} == {255}
    assert {piece.tokens for piece in pieces} == {None}  # no T, as printed by 21.3
    assert base.tokens != ()


@pytest.mark.assumed
@pytest.mark.parametrize(
    ("after", "pieces"),
    [
        ({"DOC": "x" * 4000}, 0),
        ({"DOC": "x" * 4001}, 3),
        ({"WIDE": "x" * 4001}, 0),
        ({"WIDE": "x" * 65_531}, 0),
        ({"WIDE": "x" * 65_532}, 33),
        ({"RAW": "AF" * 4001}, 3),
        ({"NDOC": "x" * 2000}, 0),
        ({"NDOC": "x" * 2001}, 3),
    ],
    ids=lambda value: (
        "-".join(f"{k}-{len(v)}" for k, v in value.items())
        if isinstance(value, dict)
        else str(value)
    ),
)
def test_what_is_long_by_its_definition_or_for_a_cell_stands_in_pieces(
    after: dict[str, Any], pieces: int
) -> None:
    found = [record.io_type for record in records(after=after)]

    assert found.count(PIECE) == pieces


def test_the_pieces_of_a_before_image_stand_behind_it() -> None:
    rows: dict[str, Any] = {"before": {"DOC": "b" * 5000}, "after": {"DOC": "a" * 4500}}

    found = records(op_type="U", **rows)

    assert [record.image for record in found] == [BEFORE_IMAGE] * 4 + [AFTER_IMAGE] * 4
    assert [record.trans_ind for record in found] == [0, *[1] * 6, 2]
    assert found[1].data[20:] == b"b" * 1000
    assert found[5].data[20:] == b"a" * 500


@pytest.mark.assumed
def test_a_row_beyond_a_record_goes_on_in_fragments() -> None:
    value = {"WIDE": "w" * 60_000, "MORE": "m" * 60_000}

    base, *fragments = records(TrailFormat(5), after=value)

    assert [base.length, *(f.length for f in fragments)][:-1] == [65_535] * len(fragments)
    assert [f.io_type for f in fragments] == [FRAGMENT] * len(fragments)
    assert [f.continued for f in (base, *fragments)] == [1] * len(fragments) + [0]
    joined = b"".join(record.data for record in (base, *fragments))
    assert len(joined) == 2 * (4 + 4 + 60_000)
    assert {f.tokens for f in fragments} == {None}


@pytest.mark.assumed
def test_an_update_with_a_large_object_is_never_unified() -> None:
    form = TrailFormat(7, ByteOrder.LITTLE, UpdateFormat.FULL)

    found = records(form, op_type="U", before={"ID": 1}, after={"DOC": "x" * 5000})

    assert [record.io_type for record in found] == [15, 15, *[PIECE] * 3]


KEYED = Definitions(
    (Table("S.K", (Column("A", 64, 60_000, key=True), Column("B", 64, 60_000, key=True))),)
)


@pytest.mark.assumed
@pytest.mark.parametrize("order", ByteOrder)
def test_a_key_beyond_a_short_length_is_of_type_117(order: ByteOrder) -> None:
    row = ROW | {
        "table": "S.K",
        "op_type": "K",
        "before": {"A": "a" * 50_000, "B": "b" * 50_000},
        "after": {"A": "new"},
    }
    form = TrailFormat(4, order)

    data, _ = written([row], form, KEYED)

    base, *fragments = records_of(data, order)
    assert base.io_type == 117
    assert base.data is not None
    assert order.number(base.data[:4]) == 2 * (4 + 4 + 50_000)
    assert {fragment.io_type for fragment in fragments} == {FRAGMENT}
    (again,) = read_again(data, form, KEYED)
    assert (again["before"], again["after"]) == (row["before"], row["after"])


def test_a_before_value_of_a_key_update_must_fit_its_cell() -> None:
    row = ROW | {"table": "S.K", "op_type": "K", "before": {"A": "a" * 65_532}}

    with pytest.raises(EncodeError, match=r"does not fit in a record .*table S.K, field A"):
        encode(batch_of(KEYED, [row | {"after": {"B": "x"}}]))


def test_bytes_that_are_no_digits_are_named() -> None:
    with pytest.raises(EncodeError, match=r"hexadecimal digits .*table S.LARGE, field RAW"):
        records(after={"RAW": "xy" * 3000})


def test_other_rows_of_the_batch_keep_their_places() -> None:
    rows = [ROW | {"after": {"ID": i, "DOC": "x" * (5000 if i % 3 == 1 else 5)}} for i in range(9)]

    data, encoded = written(rows, LEVEL_3, DEFINITIONS)

    assert [op["after"] for op in read_again(data, LEVEL_3, DEFINITIONS)] == [
        row["after"] for row in rows
    ]
    sizes = encoded.starts[1:] - encoded.starts[:-1]
    assert [int(size) > 5000 for size in sizes] == [i % 3 == 1 for i in range(9)]
