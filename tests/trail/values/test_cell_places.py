"""Cells are found where a loop over single bytes finds them, however areas differ, in either byte order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailgate.arrays import octets
from trailgate.errors import DecodeError
from trailgate.model.tables import Column, Table
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.records.framing import RecordSpans, Spans, TrailBytes, wrap_trail_bytes
from trailgate.trail.records.record_view import view_records
from trailgate.trail.values.cell_kernels import UNKNOWN_WIDTH, VARYING
from trailgate.trail.values.cells import find_cells, have_widths, mask_filled_areas
from trailgate.trail.values.codec import TrailCells
from trailgate.trail.values.codec_table import cell_widths, select_codecs

COLUMNS = 5
TABLE = Table("S.T", tuple(Column(f"C{i}", 64, 20) for i in range(COLUMNS)))
values = st.binary(min_size=2, max_size=12)
rows = st.dictionaries(st.integers(0, COLUMNS - 1), values)
orders = st.sampled_from(list(ByteOrder))


def laid_out(areas: list[bytes], order: ByteOrder) -> tuple[TrailBytes, Spans]:
    ends = np.cumsum([len(area) for area in areas], dtype=np.int64)
    starts = ends - np.array([len(area) for area in areas], np.int64)
    buffer = pa.py_buffer(b"".join(areas) + bytes(4))
    return TrailBytes(buffer, octets(buffer), 0, order), Spans(starts, ends)


def area(row: dict[int, bytes], order: ByteOrder) -> bytes:
    return b"".join(order.raw(i, 2) + order.raw(len(v), 2) + v for i, v in row.items())


@given(st.lists(rows, min_size=1, max_size=8), orders, st.booleans())
def test_every_value_is_found(found: list[dict[int, bytes]], order: ByteOrder, alike: bool) -> None:
    expected = [found[0]] * len(found) if alike else found
    source, areas = laid_out([area(row, order) for row in expected], order)

    read: list[dict[int, bytes]] = [{} for _ in expected]
    for column, places in enumerate(find_cells(source, TABLE, areas)):
        own = np.arange(len(places)) if places.areas is None else places.areas
        for row, start, size in zip(own, places.starts, places.lengths, strict=True):
            read[row][column] = source.data[start : start + size].tobytes()

    assert read == expected
    assert mask_filled_areas(source, areas, COLUMNS).all()


@given(st.lists(st.binary(max_size=24), min_size=1, max_size=6), orders)
def test_bytes_that_are_not_cells_are_refused(areas: list[bytes], order: ByteOrder) -> None:
    source, spans = laid_out(areas, order)

    good = mask_filled_areas(source, spans, COLUMNS)

    assert good.tolist() == [are_cells(one, order) for one in areas]
    if not good.all():
        with pytest.raises(DecodeError):
            find_cells(source, TABLE, spans)


def are_cells(raw: bytes, order: ByteOrder) -> bool:
    cells = 0
    while raw:
        size = order.number(raw[2:4])
        if len(raw) < 6 or size < 2 or 4 + size > len(raw) or cells == COLUMNS:
            return False
        if order.number(raw[:2]) >= COLUMNS:
            return False
        raw, cells = raw[4 + size :], cells + 1
    return True


TYPED = Table(
    "S.TYPED",
    (
        Column("TEXT", 64, 20),
        Column("PADDED", 0, 2),
        Column("NUMBER", 134, 8),
        Column("AT", 192, 10),
    ),
)
heads = st.sampled_from([b"\0\0", b"\0\0", b"\xff\xff", b"\0\1"])
# Texts with right and wrong sizes, and values of the width of each other type or nearly.
typed_values = st.one_of(
    st.sampled_from([b"\0\0AB", b"\0\2AB", b"\2\0AB", b"\0\3AB"]),
    st.sampled_from([b"", b"A", b"AB", bytes(8), bytes(7), b"2026-11-29"]),
)
typed_rows = st.dictionaries(
    st.integers(0, 4), st.builds(lambda head, value: head + value, heads, typed_values)
)


@given(st.lists(typed_rows, min_size=1, max_size=3), orders, st.binary(max_size=1))
def test_one_loop_accepts_the_values_that_each_column_accepts(
    found: list[dict[int, bytes]], order: ByteOrder, damage: bytes
) -> None:
    source, areas = laid_out([area(row, order) + damage for row in found], order)

    assert have_widths(source, areas, cell_widths(TYPED)) == accepts_each(source, areas)


def accepts_each(source: TrailBytes, areas: Spans) -> bool:
    try:
        cells = find_cells(source, TYPED, areas)
        for column, codec, one in zip(TYPED.columns, select_codecs(TYPED), cells, strict=True):
            assert codec is not None
            if len(one):
                codec.check(TrailCells(source, TYPED.name, column, one.starts, one.lengths))
    except DecodeError:
        return False
    return True


def test_a_column_is_not_repeated_and_its_width_is_known() -> None:
    text = area({0: b"\0\0\0\2AB"}, ByteOrder.BIG)
    source, areas = laid_out([text, text], ByteOrder.BIG)
    twice = Spans(areas.starts[:1], areas.ends[1:])

    assert have_widths(source, areas, np.array([VARYING]))
    assert not have_widths(source, twice, np.array([VARYING]))
    assert not have_widths(source, areas, np.array([UNKNOWN_WIDTH]))


def test_places_outside_the_data_are_refused() -> None:
    source = wrap_trail_bytes(bytes(64), 0, ByteOrder.BIG)
    places = RecordSpans(np.array([40]), np.array([60]), 100)

    with pytest.raises(DecodeError, match="lies outside the 64 bytes"):
        view_records(source, places)
