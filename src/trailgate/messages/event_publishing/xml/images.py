"""The before and after images of published rows."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.errors import did_you_mean
from trailgate.messages.event_publishing.xml.cells import Cells
from trailgate.messages.event_publishing.xml.kernels.cells import scatter
from trailgate.messages.event_publishing.xml.records import XmlPublicationRecords
from trailgate.messages.parsing.record_groups import MessageErrors
from trailgate.messages.xml.cell_columns import columns_by_name
from trailgate.messages.xml.cell_groups import CellConverter, CellGroup, Placed
from trailgate.messages.xml.kernels.cells import MISSING
from trailgate.model.changes import ABSENT, DELETE, INSERT, Image
from trailgate.model.tables import Column, Table
from trailgate.model.types import Family
from trailgate.operations.values import Convert, bytes_unchecked, parser_for

_BLANKS: Final = " \t\r\n"
_SIDES: Final = {INSERT: (1, 2), DELETE: (0, 1)}  # the images that others than updates have
_COLLAPSED: Final = (
    Family.BYTES,
    Family.FLOAT,
)  # blanks around them do not count; others see to that


class PublicationImageReader:
    """Reads images; what a table's columns decide is made once and kept."""

    def __init__(self) -> None:
        self._converters: dict[str, tuple[CellConverter, ...]] = {}

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
        first, last = _SIDES.get(kind, (0, 2))
        group = _PublicationGroup(records, table, rows, errors)
        placed = group.placed((first, last))
        group.check_keys(placed, 0 if kind == DELETE else last - first - 1)
        converters = self._converters_of(table) * (last - first)
        columns = group.columns(placed, records.buffer, converters)
        before = columns[: len(absent)] if first == 0 else absent
        after = columns[-len(absent) :] if last > 1 else absent
        return before, after

    def _converters_of(self, table: Table) -> tuple[CellConverter, ...]:
        if table.name not in self._converters:
            self._converters[table.name] = tuple(
                CellConverter(i, _converter(column), bytes_unchecked(column))
                for i, column in enumerate(table.columns)
            )
        return self._converters[table.name]


class _PublicationGroup(CellGroup[XmlPublicationRecords]):
    """Rows of one table and type."""

    def placed(self, sides: tuple[int, int]) -> Placed:
        """Return the places of the cells of some images; add errors for those that have none."""
        cells, size = self.records.cells, len(self.rows) * len(self.table.columns)
        whole = (sides[1] - sides[0]) * size
        found = Placed(np.zeros(whole, np.int32), np.full(whole, MISSING, np.int32))
        known = columns_by_name(self.table)
        columns = np.array([known.get(word.casefold(), -1) for word in cells.words], np.int64)
        refused = 0
        for number, own in enumerate((cells.before, cells.after)[slice(*sides)]):
            refused += scatter(
                self.rows, cells.bounds, cells.names, columns, *own, number * size, size, *found
            )
        if refused:
            self._refuse(cells, columns)
        return found

    def _refuse(self, cells: Cells, columns: Longs) -> None:
        """Add the errors of cells whose column the table does not have, or the row has twice."""
        for at, row in enumerate(self.rows.tolist()):
            seen: set[int] = set()
            for cell in range(int(cells.bounds[row]), int(cells.bounds[row + 1])):
                column, name = int(columns[cells.names[cell]]), cells.name(cell)
                if column < 0:
                    hint = did_you_mean(name, [each.name for each in self.table.columns])
                    self.refuse_rows(
                        np.array([at]), f"the table has no column {name!r}", None, hint
                    )
                elif column in seen:
                    self.refuse_rows(np.array([at]), f"column {name} is found twice", None)
                if cells.before.lengths[cell] != MISSING or cells.after.lengths[cell] != MISSING:
                    seen.add(column)


def _converter(column: Column) -> Convert:
    """Return what makes a column's values of their texts (event publishing §3: lexical forms)."""
    parse = parser_for(column)
    if column.family not in _COLLAPSED:
        return parse

    def collapsed(values: pa.Array) -> pa.Array:
        return parse(pc.utf8_trim(values, _BLANKS))

    return collapsed
