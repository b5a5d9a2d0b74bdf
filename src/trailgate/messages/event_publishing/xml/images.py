"""The before and after images of published rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.messages.event_publishing.xml.records import XmlPublicationRecords
from trailgate.messages.parsing.record_groups import MessageErrors
from trailgate.messages.xml.cell_groups import CellGroup
from trailgate.messages.xml.findings import Places
from trailgate.model.changes import ABSENT, DELETE, INSERT, Image
from trailgate.model.tables import Column, Table
from trailgate.model.types import Family
from trailgate.operations.values import Convert, parser_for

_BLANKS = " \t\r\n"
_COLLAPSED = (Family.BYTES, Family.FLOAT)  # blanks around them do not count; others see to that


class PublicationImageReader:
    """Reads images; what a table's columns decide is made once and kept."""

    def __init__(self) -> None:
        self._converters: dict[str, tuple[Convert, ...]] = {}

    def images(
        self,
        records: XmlPublicationRecords,
        table: Table,
        kind: int,
        rows: Longs,
        errors: MessageErrors,
    ) -> tuple[Image, Image]:
        """Return before and after of rows of one type; what is wrong is added to the errors."""
        absent = (ABSENT,) * len(table.columns)
        group, cells = CellGroup(records, table, rows, errors), records.cells
        group.find_cells(cells.operation, (cells.names, cells.words))
        places: tuple[Places | None, ...] = (
            cells.before if kind != INSERT else None,
            cells.after if kind != DELETE else None,
        )
        sides = [
            None if own is None else group.placed(own.starts[group.cells], own.lengths[group.cells])
            for own in places
        ]
        keyed = sides[0] if kind == DELETE else sides[1]
        assert keyed is not None
        group.check_keys(keyed)
        converters = self._converters_of(table)
        before, after = (
            absent if side is None else group.image(side, records.buffer, converters)
            for side in sides
        )
        return before, after

    def _converters_of(self, table: Table) -> tuple[Convert, ...]:
        if table.name not in self._converters:
            self._converters[table.name] = tuple(map(_converter, table.columns))
        return self._converters[table.name]


def _converter(column: Column) -> Convert:
    """Return what makes a column's values of their texts (event publishing §3: lexical forms)."""
    parse = parser_for(column)
    if column.family not in _COLLAPSED:
        return parse

    def collapsed(values: pa.Array) -> pa.Array:
        return parse(pc.utf8_trim(values, _BLANKS))

    return collapsed
