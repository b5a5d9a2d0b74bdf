"""Rows split over records and large objects are put together, or refused with their place."""

from __future__ import annotations

from typing import Any

import pytest

from trail.batches import operations_of
from trail.building import (
    BIG,
    DELETE,
    FRAGMENT,
    FULL_UPDATE,
    INSERT,
    KEY_UPDATE,
    LARGE,
    LITTLE,
    TRUNCATE,
    UNIFIED,
    UPDATE,
    cell,
    piece,
    prefixed,
    record,
    text,
)
from trailgate.errors import DecodeError
from trailgate.model.tables import Column, Definitions, Table
from trailgate.trail.format.record_header import BEFORE_IMAGE
from trailgate.trail.reading import reader
from trailgate.trail.reading.reader import DecodedTrail, ReaderState, decode

COLUMNS = (
    Column("ID", 64, 10, key=True),
    Column("NOTE", 64, 50),
    Column("RAW", 64, 50, sub_type=4),
    Column("SIZE", 134, 8),
)
DEFINITIONS = Definitions((Table("S.T", COLUMNS), Table("S.U", COLUMNS)))
KEY = cell(0, text("k"))
LONG = KEY + cell(1, text("a long text"))


FRESH = ReaderState()


def decoded(*records: bytes, state: ReaderState = FRESH, finish: bool = True) -> DecodedTrail:
    body = b"".join(records)
    return decode(body, DEFINITIONS, file_number=1, base_offset=1000, state=state, finish=finish)


def read(*records: bytes, **options: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    found = operations_of(decoded(*records, **options).batch)
    return [(operation["before"], operation["after"]) for operation in found]


def fragments(io_type: int, data: bytes, *cuts: int, **fields: Any) -> list[bytes]:
    """Return a record and its fragments, cut at these places."""
    ends = [*cuts, len(data)]
    return [
        record(
            FRAGMENT if i else io_type,
            data[start:end],
            continued=int(end < len(data)),
            **fields,
        )
        for i, (start, end) in enumerate(zip([0, *cuts], ends, strict=True))
    ]


@pytest.mark.assumed
@pytest.mark.parametrize("cuts", [(3,), (8,), (9, 10, 20), (len(LONG) - 1,)])
def test_a_row_in_fragments_is_one_operation(cuts: tuple[int, ...]) -> None:
    plain = record(INSERT, KEY)

    found = read(plain, *fragments(INSERT, LONG, *cuts), plain)

    assert found == [({}, {"ID": "k"}), ({}, {"ID": "k", "NOTE": "a long text"}), ({}, {"ID": "k"})]


@pytest.mark.assumed
def test_each_image_of_an_update_has_its_own_fragments() -> None:
    before = fragments(UPDATE, LONG, 7, image=BEFORE_IMAGE, trans_ind=0)
    after = fragments(UPDATE, KEY + cell(1, text("new")), 5, trans_ind=2)

    found = read(*before, *after)

    assert found == [({"ID": "k", "NOTE": "a long text"}, {"ID": "k", "NOTE": "new"})]


@pytest.mark.assumed
@pytest.mark.parametrize(("io_type", "width"), [(KEY_UPDATE, 2), (UNIFIED, 2), (UNIFIED, 4)])
def test_a_record_of_both_images_may_have_fragments(io_type: int, width: int) -> None:
    data = prefixed(width, KEY, LONG)

    found = read(*fragments(io_type, data, 1, 5, len(data) - 3))

    assert found == [({"ID": "k"}, {"ID": "k", "NOTE": "a long text"})]


@pytest.mark.assumed
def test_an_error_in_joined_data_is_placed_where_its_bytes_stand() -> None:
    bad = KEY + cell(1, text(b"\xff\xff\xff"))
    first, second = fragments(INSERT, bad, len(KEY))

    with pytest.raises(DecodeError, match="UTF-8") as caught:
        decoded(record(INSERT, KEY), first, second)

    start = 1000 + len(record(INSERT, KEY)) + len(first)
    data_at = second.index(cell(1, text(b"\xff\xff\xff")))
    assert caught.value.where.offset == start + data_at + 4
    assert caught.value.where.field == "NOTE"


@pytest.mark.assumed
@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([record(INSERT, KEY, continued=1), record(INSERT, KEY)], "no fragment follows it .*1000"),
        ([record(INSERT, KEY, continued=1)], "no fragment follows it"),
        ([record(INSERT, KEY), record(FRAGMENT, KEY)], "follows a record that is not continued"),
        ([record(FRAGMENT, KEY)], "does not follow the change it belongs to"),
        (fragments(INSERT, LONG, 5, 9)[:2], "no fragment follows it"),
        (fragments(INSERT, LONG, 13, 16)[::2], "runs over its data area"),
        (
            [record(INSERT, KEY, continued=1), record(FRAGMENT, b"", name="S.U")],
            "a piece is of another table than its change",
        ),
    ],
)
def test_a_missing_fragment_is_an_error(records: list[bytes], message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decoded(*records)


@pytest.mark.assumed
def test_a_continued_record_waits_for_its_fragment() -> None:
    first, second = fragments(INSERT, LONG, 5)
    plain = record(INSERT, KEY)

    found = decoded(plain, first, finish=False)

    assert (found.batch.rows, found.consumed) == (1, len(plain))
    assert decoded(first, second, state=found.state).batch.rows == 1


def large(column: int, *parts: tuple[tuple[int, int, int], bytes]) -> list[bytes]:
    return [record(LARGE, piece(column, place, raw)) for place, raw in parts]


def test_the_printed_long_of_7070_bytes_is_put_together() -> None:
    """trail format §11: four pieces, of which the odd one of 1070 bytes comes first."""
    value = "".join(chr(ord("a") + i % 26) for i in range(7070))
    cuts = [0, 1070, 0xBFE, 0x13CE, 7070]
    pieces = [
        record(LARGE, piece(1, (4, i + 1, cuts[i]), value[cuts[i] : cuts[i + 1]].encode()))
        for i in range(4)
    ]
    base = record(INSERT, KEY + cell(1, text(None)), trans_ind=0)

    assert read(base, *pieces) == [({}, {"ID": "k", "NOTE": value})]


def test_pieces_may_come_in_any_order_and_of_several_columns() -> None:
    one = large(1, ((2, 2, 3), b"ge"), ((2, 1, 0), b"lar"))
    two = large(2, ((1, 1, 0), b"\x00\xfe"))

    found = read(record(INSERT, KEY), one[0], two[0], one[1], record(INSERT, KEY))

    assert found[0][1] == {"ID": "k", "NOTE": "large", "RAW": "00FE"}
    assert found[1][1] == {"ID": "k"}


def test_characters_may_be_cut_between_pieces() -> None:
    raw = "é€".encode()

    found = read(record(INSERT, KEY), *large(1, ((2, 1, 0), raw[:1]), ((2, 2, 1), raw[1:])))

    assert found[0][1]["NOTE"] == "é€"


def test_an_empty_large_object_is_an_empty_text() -> None:
    assert read(record(INSERT, KEY), *large(1, ((1, 1, 0), b"")))[0][1]["NOTE"] == ""


def test_a_large_object_of_more_than_a_record_holds() -> None:
    part = b"x" * 60_000
    pieces = large(1, *(((4, i + 1, 60_000 * i), part) for i in range(4)))

    assert len(read(record(INSERT, KEY), *pieces)[0][1]["NOTE"]) == 240_000


def test_large_objects_belong_to_the_after_image_but_of_a_delete() -> None:
    pieces = large(1, ((1, 1, 0), b"large"))
    update = [
        record(UPDATE, KEY, image=BEFORE_IMAGE, trans_ind=0),
        record(UPDATE, KEY, trans_ind=1),
    ]

    found = read(
        *update,
        *pieces,
        record(KEY_UPDATE, prefixed(2, KEY, KEY)),
        *pieces,
        record(DELETE, KEY, image=BEFORE_IMAGE),
        *pieces,
    )

    whole = {"ID": "k", "NOTE": "large"}
    assert found == [({"ID": "k"}, whole), ({"ID": "k"}, whole), (whole, {})]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (large(1, ((2, 1, 0), b"a")), "some pieces of a large object are missing"),
        (large(1, ((2, 1, 0), b"a"), ((2, 2, 2), b"b")), "has a gap"),
        (large(1, ((1, 1, 5), b"a")), "has a gap"),
        (large(1, ((2, 1, 0), b"aa"), ((2, 2, 1), b"b")), "overlap"),
        (large(1, ((2, 1, 0), b"a"), ((3, 2, 1), b"b")), "different numbers of pieces"),
        (large(1, ((2, 1, 0), b"a"), ((2, 3, 1), b"b")), "number is not one of 1 to"),
        (large(1, ((2, 1, 0), b"a"), ((2, 1, 1), b"b")), "appears twice"),
        (large(9, ((1, 1, 0), b"a")), "column 9 in a table of 4 columns"),
        (large(3, ((1, 1, 0), b"a")), "BIN64_S .* field SIZE"),
        (large(1, ((1, 1, 0), b"\xff")), "not UTF-8 .*field NOTE"),
        ([record(LARGE, b"short")], "shorter than its head"),
        ([record(LARGE, piece(1, (1, 1, 0), b"a")[:-1])], "size does not agree"),
        ([record(LARGE, piece(1, (1, 1, 0), b"a"), name="S.U")], "of another table"),
    ],
)
def test_pieces_that_do_not_fit_are_an_error(records: list[bytes], message: str) -> None:
    with pytest.raises(DecodeError, match=message) as caught:
        decoded(record(INSERT, KEY), *records)
    assert (caught.value.where.offset or 0) >= 1000


def test_a_truncate_has_no_large_objects() -> None:
    with pytest.raises(DecodeError, match="a truncate has no large objects"):
        decoded(record(TRUNCATE), *large(1, ((1, 1, 0), b"a")))


@pytest.mark.parametrize("order", [BIG, LITTLE])
def test_the_words_of_a_piece_are_in_the_order_of_the_trail(order: Any) -> None:
    head = cell(0, text("k", order), order)
    records = [
        record(FULL_UPDATE, head, order=order),
        record(LARGE, piece(1, (1, 1, 0), b"large", order), order=order),
    ]

    found = read(*records, state=ReaderState(order=order))

    assert found[0][1] == {"ID": "k", "NOTE": "large"}


def test_chunks_that_end_inside_an_operation_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many records an operation has, it is read whole."""
    pieces = large(1, *(((40, i + 1, i), b"x") for i in range(40)))
    rows = [record(INSERT, KEY, trans_ind=1), *pieces, *fragments(INSERT, LONG, 4, 9, trans_ind=1)]
    records = rows * 3
    whole = decoded(*records).batch

    monkeypatch.setattr(reader, "MOST_RECORDS", 4)

    assert operations_of(decoded(*records).batch) == operations_of(whole)
