"""Trails of all releases: without header, in either order, with metadata, with and without definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raw_trail import BIG, LITTLE, definition, inserts, write_files
from sample_trail import DEFINITIONS, ORDERS
from trail.building import METADATA, cell, record, table_record, text
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.errors import DefinitionError, OptionError, TrailgateError
from trailgate.model.tables import Column, DatabaseLines, Definitions, Table
from trailgate.storage.files.trail_files import find_trail
from trailgate.storage.reading import splits as trail_splits
from trailgate.storage.reading import trail_definitions as trail_tables
from trailgate.storage.reading.splits import plan_splits
from trailgate.storage.reading.trail_file import TrailFileReader
from trailgate.storage.reading.trails import read_split, read_trail
from trailgate.trail.format.file_header import DatabaseInfo, FileHeader, TrailInfo, encode_header
from trailgate.trail.format.tokens import ByteOrder

OTHER = Table("MY.OTHER", (Column("A", 64, 20, key=True), Column("B", 64, 20)))


def rows(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def images(batches: Any) -> list[dict[str, str]]:
    return [dict(row["after"]) for row in rows(batches)]


@pytest.mark.parametrize("order", list(ByteOrder))
@pytest.mark.parametrize("level", [None, 1, 3, 4, 5, 7, 9])
def test_every_level_in_either_order(tmp_path: Path, level: int | None, order: ByteOrder) -> None:
    prefix = write_files(tmp_path / "ot", [inserts([1, 2], order=order), inserts([3], order=order)])
    write_files(prefix, [inserts([1, 2], order=order), inserts([3], order=order)], level=level)

    assert [image["ID"] for image in images(read_trail(prefix))] == ["1", "2", "3"]


def indexed(order: ByteOrder, transactions: int = 40) -> list[bytes]:
    """Return records of one file: metadata in front, and once more in the middle."""
    found = [definition(1, order)]
    for tx in range(transactions):
        if tx == transactions // 2:
            found.append(definition(2, order))
        index = 2 if tx >= transactions // 2 and tx % 2 else 1
        found += inserts([tx, 1000 + tx], tx=tx, index=index, order=order)
    return found


@pytest.mark.parametrize("order", list(ByteOrder))
@pytest.mark.parametrize("size", [100, 700, 5000])
def test_a_split_knows_the_metadata_in_front_of_it(
    tmp_path: Path, order: ByteOrder, size: int
) -> None:
    files = [indexed(order), indexed(order)]
    trail = find_trail(write_files(tmp_path / "ot", files, level=5, definitions=False))

    parts = [
        image for split in plan_splits(trail, size) for image in images(read_split(trail, split))
    ]

    assert parts == images(read_trail(trail))
    assert len(parts) == 160
    assert parts[1] == {"ID": "1000", "NAME": "row 1000"}


def test_a_reference_in_a_later_split_counts_on_from_all_metadata_in_front(tmp_path: Path) -> None:
    reference = record(
        METADATA, name="MY.COPY", node=3, partition=0, tokens=None, audit_rba=(1 << 16) + 1
    )
    body = [definition(1), definition(2), *inserts([1], index=1), *inserts([2, 3], index=1)]
    body += [*inserts([4], index=1), reference, *inserts([5], index=3)]
    trail = find_trail(write_files(tmp_path / "ot", [body], level=5, definitions=False))

    for size in (150, 300, 500):
        splits = plan_splits(trail, size)
        names = [row["table"] for split in splits for row in rows(read_split(trail, split))]
        assert names == ["MY.ORDERS"] * 4 + ["MY.COPY"]


def test_metadata_at_a_files_begin_are_found_without_a_search_of_all_in_front(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = [definition(), *(r for tx in range(400) for r in inserts([tx], tx=tx, index=1))]
    trail = find_trail(write_files(tmp_path / "ot", [body], level=5, definitions=False))
    searched: list[int] = []
    real = TrailFileReader.tables

    def tables(self: Any, until: int, start: int | None = None, *more: Any) -> Any:
        searched.append(until - (start or 0))
        return real(self, until, start, *more)

    monkeypatch.setattr(TrailFileReader, "tables", tables)
    monkeypatch.setattr(trail_tables, "SCAN", 1000)
    monkeypatch.setattr(trail_splits, "CHUNK", 4000)

    found = [row for split in plan_splits(trail, 8000) for row in rows(read_split(trail, split))]

    assert len(found) == 400
    assert len(searched) == len(plan_splits(trail, 8000)) - 1
    assert max(searched) <= 1000


def test_the_trails_own_definition_goes_before_the_one_given(tmp_path: Path) -> None:
    renamed = Table(ORDERS.name, (ORDERS.columns[0], Column("OLD_NAME", 64, 60)))
    prefix = write_files(tmp_path / "ot", [[definition(), *inserts([1], index=1)]], level=5)
    Path(f"{prefix}.def").write_bytes(write_sourcedefs(Definitions((renamed,))))

    assert images(read_trail(prefix)) == [{"ID": "1", "NAME": "row 1"}]
    assert rows(read_trail(prefix, table="my.orders"))[0]["NAME"] == "row 1"


def test_without_definitions_columns_are_numbered(tmp_path: Path) -> None:
    prefix = write_files(tmp_path / "ot", [inserts([1, 2])], definitions=False)

    found = images(read_trail(prefix))

    assert [len(image) for image in found] == [2, 2]
    assert "row 2" in found[1].values()
    with pytest.raises(DefinitionError, match=r"MY\.ORDERS"):
        list(read_trail(prefix, table="MY.ORDERS"))


def test_definitions_given_go_before_those_beside_the_trail(tmp_path: Path) -> None:
    renamed = Table(ORDERS.name, (Column("KEY", 134, 8, key=True), Column("TEXT", 64, 60)))
    prefix = write_files(tmp_path / "ot", [inserts([1])])

    given = read_trail(prefix, definitions=Definitions((renamed,)))

    assert images(given) == [{"KEY": "1", "TEXT": "row 1"}]


LATIN = "Müller".encode("latin-1")


def _latin(prefix: Path, number: int, named: str = "") -> Path:
    data = cell(0, b"\0\0" + bytes(8)) + cell(1, text(LATIN))
    header = FileHeader(trail=TrailInfo(), database=DatabaseInfo(charset=number))
    body = record(5, data, name=ORDERS.name)
    Path(f"{prefix}000000000").write_bytes(encode_header(header) + body)
    tables = Definitions(DEFINITIONS.tables, DatabaseLines(version="2.0", character_set=named))
    Path(f"{prefix}.def").write_bytes(write_sourcedefs(tables))
    return prefix


def test_strings_are_in_the_character_set_that_is_named(tmp_path: Path) -> None:
    prefix = _latin(tmp_path / "ot", 31)

    with pytest.raises(TrailgateError, match="UTF-8"):
        list(read_trail(prefix))
    assert images(read_trail(prefix, charset="ISO-8859-1"))[0]["NAME"] == "Müller"
    assert images(read_trail(prefix, charset="WE8MSWIN1252"))[0]["NAME"] == "Müller"
    with pytest.raises(OptionError, match="klingon"):
        list(read_trail(prefix, charset="klingon"))


def test_the_definitions_name_the_character_set_where_the_header_does_not(tmp_path: Path) -> None:
    told = images(read_trail(_latin(tmp_path / "aa", 31, "windows-1252")))

    assert told[0]["NAME"] == "Müller"


@pytest.mark.assumed
def test_a_header_of_utf_8_goes_before_the_definitions(tmp_path: Path) -> None:
    with pytest.raises(TrailgateError, match="UTF-8"):
        list(read_trail(_latin(tmp_path / "bb", 0x20000000, "windows-1252")))


def test_both_orders_may_be_in_one_trail(tmp_path: Path) -> None:
    files = [inserts([1, 2], order=BIG), inserts([3, 4], order=LITTLE)]

    found = images(read_trail(write_files(tmp_path / "ot", files)))

    assert [image["ID"] for image in found] == ["1", "2", "3", "4"]


def test_an_operation_whose_pieces_go_on_in_the_next_file_is_refused_with_its_place(
    tmp_path: Path,
) -> None:
    piece = record(116, bytes(24), name=ORDERS.name, trans_ind=2)
    files = [inserts([1, 2])[:1], [piece]]

    with pytest.raises(TrailgateError, match=r"ot000000001, byte \d+"):
        list(read_trail(write_files(tmp_path / "ot", files)))


WIDER = Table(ORDERS.name, (*ORDERS.columns, Column("MORE", 64, 10)))
NARROWER = Table(ORDERS.name, ORDERS.columns[1:])


def _redefined(prefix: Path, table: Table) -> Path:
    first = [definition(), *inserts([1], index=1)]
    data = cell(len(table.columns) - 1, text("value"))
    second = [table_record(table, 1, BIG), record(5, data, table_index=1)]
    return write_files(prefix, [first, second], level=5, definitions=False)


def test_a_table_defined_anew_with_fewer_columns_misses_the_others(tmp_path: Path) -> None:
    found = rows(read_trail(_redefined(tmp_path / "ot", NARROWER), table="MY.ORDERS"))

    assert [(row["ID"], row["NAME"], row["_missing"]) for row in found] == [
        (1, "row 1", []),
        (None, "value", ["ID"]),
    ]


def test_a_column_that_is_new_is_not_lost_in_silence(tmp_path: Path) -> None:
    prefix = _redefined(tmp_path / "ot", WIDER)

    with pytest.raises(DefinitionError, match=r"column MORE is new at 0000000001\d{10}"):
        list(read_trail(prefix, table="MY.ORDERS"))
    behind = rows(read_trail(prefix, table="MY.ORDERS", from_position="0000000001" + "0" * 10))
    assert [row["MORE"] for row in behind] == ["value"]
    assert len(rows(read_trail(prefix))) == 2
