"""Which table each record is of, by name or by an index into the metadata of the file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trailgate.arrays import Longs
from trailgate.model.table_patterns import table_name
from trailgate.trail.format.record_layout import NAME_AT
from trailgate.trail.records.metadata import TrailTable, TrailTables
from trailgate.trail.records.record_view import RecordView, find_names
from trailgate.trail.records.trail_bytes import TrailBytes


@dataclass(frozen=True, slots=True)
class RecordTables:
    """The tables of records, in order of appearance; ``codes`` is the place of each record's table among them."""

    codes: Longs
    tables: list[TrailTable]


def find_tables(source: TrailBytes, view: RecordView, known: TrailTables) -> RecordTables:
    """Return the tables of sound records; raises DecodeError for a name that is not one, or an index not ``known``."""
    found = find_names(source, view)
    rows = found.firsts.tolist()
    tables = [
        _table(source, view, row, known, name) for row, name in zip(rows, found.names, strict=True)
    ]
    return RecordTables(found.codes, tables)


def _table(
    source: TrailBytes, view: RecordView, row: int, known: TrailTables, name: bytes | int
) -> TrailTable:
    if isinstance(name, bytes):
        try:
            return TrailTable(0, table_name(name[:-1].decode()))
        except UnicodeDecodeError:
            start = int(view.offsets[row]) + NAME_AT
            span = (start, start + len(name) - 1)
            raise source.error("a table name is not UTF-8", span) from None
    if name not in known.tables:
        raise source.error(
            f"table index {name} is not in the metadata before the record",
            view.spans(row),
            hint="Is a part of the file missing, or does reading begin after its metadata?",
        )
    return known.tables[name]


def same_names(
    tables: RecordTables, ones: Longs, others: Longs
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which records name the table that other records do, or no table."""
    names = np.array([table.name for table in tables.tables], object)
    named = names[tables.codes[ones]]
    return np.asarray((named == names[tables.codes[others]]) | (named == ""), bool)
