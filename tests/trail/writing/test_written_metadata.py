"""What a file begins with: the header of its level, and the tables by index."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from trail.batches import batch_of
from trail.operation_strategies import DEFINITIONS, NARROW, WIDE
from trail.written_formats import records_of
from trailgate.errors import EncodeError, OptionError
from trailgate.model.tables import Column, DatabaseLines, Definitions, Table
from trailgate.trail.format.file_header import (
    FileHeader,
    ProducerInfo,
    TrailInfo,
    decode_header,
    encode_header,
)
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.records.table_metadata import NO_TABLES, MetadataType
from trailgate.trail.writing.file_headers import encode_file_start, encode_metadata
from trailgate.trail.writing.trail_format import RELEASES, TrailFormat, UpdateFormat
from trailgate.trail.writing.writer import encode

HEADER = FileHeader(TrailInfo(creation_time=5, uri="uri:a", filename="aa000000000"))


@pytest.mark.parametrize("level", range(1, 8))
@pytest.mark.parametrize("order", ByteOrder)
def test_a_file_begins_with_the_header_of_its_format(level: int, order: ByteOrder) -> None:
    if order is ByteOrder.LITTLE and level < 4:
        return
    form = TrailFormat(level, order)
    begin = encode_file_start(HEADER, form, DEFINITIONS)

    header, length = decode_header(begin)

    release = RELEASES[form.release]
    assert header.order is order
    assert header.trail == replace(HEADER.trail, compatibility=level)
    assert header.producer == ProducerInfo(major_version=release.major, minor_version=release.minor)
    assert len(records_of(begin[length:], order)) == (len(DEFINITIONS) + 1 if level >= 5 else 0)


def test_level_0_has_no_header() -> None:
    assert encode_file_start(HEADER, TrailFormat(0), DEFINITIONS) == b""


@pytest.mark.assumed
@pytest.mark.parametrize("order", ByteOrder)
def test_tables_are_listed_in_order_and_read_again(order: ByteOrder) -> None:
    form = TrailFormat(5, order)
    database = DatabaseLines(database_type="ORACLE", character_set="UTF-8", time_zone="GMT+09:00")
    tables = Definitions(DEFINITIONS.tables, database)

    first, *others = records_of(encode_metadata(tables, form, 7), order)

    assert (first.node, first.metadata_indexes, first.name) == (MetadataType.DATABASE, (1, 0), "")
    assert first.data is not None
    assert b"ORACLE" in first.data
    assert b"GMT+09:00" in first.data
    assert [r.metadata_indexes for r in others] == [(1, i + 1) for i in range(len(tables))]
    for record in (first, *others):
        assert (record.trans_ind, record.record_count, record.tokens) == (3, 1, None)
        assert (record.partition, record.io_time) == (0, 7)
    known = NO_TABLES
    for record in others:
        known = known.with_record(record)
    found = [known.tables[i + 1].table for i in range(len(tables))]
    assert [t and (t.name, t.columns) for t in found] == [(t.name, t.columns) for t in tables]


@pytest.mark.assumed
def test_a_printed_table_definition_has_its_printed_length() -> None:
    """trail format §12 and §14: the definition of c1 and c2 has 138 bytes, its record 202."""
    table = Table("test.ogg_test", (Column("c1", 132, 11, key=True), Column("c2", 64, 120)))

    _, record = records_of(encode_metadata(Definitions((table,)), TrailFormat(5), 0))

    assert record.data is not None
    assert (len(record.data), record.length) == (138, 202)


def test_an_attribute_that_does_not_fit_names_its_column() -> None:
    table = Table("S.T", (Column("ID", 134, 8), Column("DOC", 64, 70_000)))

    with pytest.raises(EncodeError, match=r"external length 70000 .*table S.T, field DOC.*12\.1"):
        encode_metadata(Definitions((table,)), TrailFormat(5), 0)


@pytest.mark.parametrize("known", [(), (replace(NARROW, columns=NARROW.columns[:1]),)])
def test_a_table_that_the_file_does_not_tell_is_not_written(known: tuple[Table, ...]) -> None:
    row = {"table": "S.NARROW", "op_type": "T", "op_ts": 0, "tx_ind": "W", "tx_id": "1", "csn": "1"}
    batch = batch_of(DEFINITIONS, [row | {"before": {}, "after": {}}])

    with pytest.raises(EncodeError, match=r"the table has no index.*table S.NARROW"):
        encode(batch, TrailFormat(5), Definitions(known))


def test_a_table_that_does_not_fit_a_record_is_named() -> None:
    table = replace(
        WIDE, columns=tuple(replace(WIDE.columns[0], name=f"C{i}") for i in range(2000))
    )

    with pytest.raises(EncodeError, match=r"table definition of \d+ bytes .*table S.WIDE"):
        encode_metadata(Definitions((table,)), TrailFormat(5), 0)


@pytest.mark.parametrize(
    ("release", "level"),
    [
        ("9.5", 0),
        ("10.0", 1),
        ("10.4", 2),
        ("11.2", 3),
        ("12.1", 4),
        ("12.2", 5),
        ("12.3", 6),
        ("19.1", 7),
    ],
)
def test_a_release_names_its_level(release: str, level: int) -> None:
    assert TrailFormat.from_options(release).level == level
    assert TrailFormat(level).release == release


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("21.3",), "format of release 21.3 is not public.*Known: 9.5, 10.0"),
        (("11.1",), "format of release 11.1 is not public"),
        (("11.2", "little"), "release 11.2 is big-endian.*12.1"),
        (("10.0", None, "full"), "release 10.0 has no unified updates.*12.1"),
        (("12.2", "middle"), "byte order is big or little, not 'middle'"),
        (("12.2", None, "half"), "update format is separate or full or compact"),
    ],
)
def test_a_format_that_is_not_there_is_refused(
    options: tuple[str | None, ...], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        TrailFormat.from_options(*options)


def test_level_8_is_refused() -> None:
    with pytest.raises(OptionError, match="level 8 is not one of 0 to 7"):
        TrailFormat(8)


def test_the_default_is_what_was_written_before() -> None:
    assert TrailFormat.from_options() == TrailFormat(3, ByteOrder.BIG, UpdateFormat.SEPARATE)


@settings(max_examples=examples(30), deadline=None)
@given(st.data())
def test_a_header_is_read_in_the_order_it_was_written_in(data: st.DataObject) -> None:
    order = data.draw(st.sampled_from(ByteOrder))
    text = st.text(max_size=40)
    number = st.none() | st.integers(0, 2**60)
    trail = TrailInfo(
        compatibility=data.draw(st.integers(4, 7)),
        uri=data.draw(text),
        seqno=data.draw(st.integers(0, 2**32 - 1)),
        file_size=data.draw(number),
        last_io_time=data.draw(number),
        log_bsn=data.draw(st.none() | st.just("1145074")),
        uri_history=data.draw(st.none() | st.lists(text, max_size=2).map(tuple)),
    )
    form = TrailFormat(trail.compatibility, order)

    begin = encode_file_start(FileHeader(trail), form, DEFINITIONS)

    assert decode_header(begin)[0].trail == trail


def test_a_header_whose_length_reads_alike_in_both_orders_is_read() -> None:
    """The trailer repeats 03 03 in either order: the frames inside tell which one it is."""
    short = FileHeader(order=ByteOrder.LITTLE)
    more = 0x0303 - len(encode_header(short))
    header = replace(short, trail=replace(short.trail, uri="u" * more))

    written = encode_header(header)

    assert written[2:4] == b"\x03\x03"
    assert decode_header(written) == (header, 0x0303)
