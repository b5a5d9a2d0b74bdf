"""The column that each cell names or numbers, and what is wrong with those that have none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from trailgate.arrays import Longs
from trailgate.errors import TrailgateError, did_you_mean
from trailgate.messages.parsing.record_groups import RecordGroup
from trailgate.messages.xml.kernels import cells as kernels
from trailgate.messages.xml.kernels.layout import ABSENT
from trailgate.messages.xml.records import XmlRecords
from trailgate.model.tables import Table

UNNAMED: Final = -1  # a column that has an error


def columns_by_name(table: Table) -> dict[str, int]:
    """Return the number of each column by its name, without case."""
    return {column.name.casefold(): i for i, column in enumerate(table.columns)}


class CellColumns:
    """The cells of a group of operations and their columns; errors are added to the group's.

    It is for rules that number columns, and for cells that ``place_cells`` refuses.
    """

    def __init__(self, group: RecordGroup[XmlRecords]) -> None:
        self.group, self.table = group, group.table
        findings = group.records.findings
        place = np.full(len(findings.message), -1)
        place[group.rows] = np.arange(len(group.rows))
        cells, row = (np.empty(len(findings.operation), np.int64) for _ in range(2))
        count = kernels.find_cells(place, findings.operation, cells, row)
        self.cells, self.row = cells[:count], row[:count]
        self.column = self._found()

    def of_all(self) -> Longs:
        """Return the column of every cell of the batch, -1 for those of other operations."""
        found = np.full(len(self.group.records.findings.operation), UNNAMED)
        found[self.cells] = self.column
        return found

    def refuse_again(self, plan: Longs, sides: tuple[int, int]) -> None:
        """Add an error where an operation has a column of an image twice."""
        rows = self.group.records.findings.columns.rows[self.cells]
        own = plan.reshape(-1, kernels.PLAN)[rows[:, 0]]
        which = np.arange(len(rows))
        for side in range(*sides):
            value, null, missing, absent = own[:, side * kernels.SIDE :][:, : kernels.SIDE].T
            lengths = (
                np.where(at >= 0, rows[which, at + 1], ABSENT) for at in (value, null, missing)
            )
            found, is_null, is_missing = lengths
            given = (found != ABSENT) | (is_null >= 0) | (absent != kernels.MISSING)
            given &= (value != kernels.NO_FIELD) & (is_missing < 0)
            kept = np.flatnonzero(given & (self.column >= 0))
            place = self.column[kept] * max(1, len(self.group.rows)) + self.row[kept]
            again = np.setdiff1d(np.arange(len(place)), np.unique(place, return_index=True)[1])
            self._refuse(kept[again], self._twice)

    def _twice(self, cell: int) -> tuple[str, str]:
        column = self.table.columns[int(self.column[cell])].name
        return f"column {column} is found twice", "Do two rules match it?"

    def _found(self) -> Longs:
        """Return the column of each cell; add an error where it has none, or two that differ."""
        names, found = self.group.records.column_words("name")
        numbers, digits = self.group.records.column_words("index")
        codes, indexes = names[self.cells], numbers[self.cells]
        column = self._by_name(codes, found)
        if digits:
            column = self._by_index(column, codes, found, indexes, digits)
        neither = np.flatnonzero((codes < 0) & (indexes < 0))
        self._refuse(neither, lambda _: ("a column has neither a name nor an index", ""))
        return column

    def _by_name(self, codes: Longs, found: Sequence[str]) -> Longs:
        """Return the column that each cell names; add an error where the table has none of the name."""
        known = columns_by_name(self.table)
        numbers = [known.get(name.casefold(), UNNAMED) for name in found]
        column: Longs = np.array([*numbers, UNNAMED])[codes]  # the last one is that of no name

        def problem(cell: int) -> tuple[str, str]:
            name = found[codes[cell]]
            hint = did_you_mean(name, [each.name for each in self.table.columns])
            return f"the table has no column {name!r}", hint

        self._refuse(np.flatnonzero((column < 0) & (codes >= 0)), problem)
        return column

    def _by_index(
        self,
        column: Longs,
        codes: Longs,
        names: Sequence[str],
        indexes: Longs,
        found: Sequence[str],
    ) -> Longs:
        """Return the column that each cell names or numbers; add an error where name and number differ."""
        width = len(self.table.columns)
        numbers = [
            int(t) if t.isascii() and t.isdecimal() and int(t) < width else UNNAMED for t in found
        ]
        own = np.array([*numbers, UNNAMED])[indexes]
        numbered, named = indexes >= 0, codes >= 0
        self._refuse(
            np.flatnonzero(numbered & (own < 0)),
            lambda cell: (
                f"the table has no column {found[indexes[cell]]!r} of 0 to {width - 1}",
                "The first column has the index 0",
            ),
        )
        differ = numbered & named & (own >= 0) & (column >= 0) & (own != column)

        def problem(cell: int) -> tuple[str, str]:
            other = self.table.columns[int(own[cell])].name
            return f"column {found[indexes[cell]]} is {other}, not {names[codes[cell]]}", ""

        self._refuse(np.flatnonzero(differ), problem)
        return np.where(numbered & ~named, own, column)

    def _refuse(self, cells: Longs, problem: Callable[[int], tuple[str, str]]) -> None:
        """Add errors for cells, by number among those of the group."""
        for cell in cells.tolist():
            text, hint = problem(cell)
            self._refuse_row(int(self.row[cell]), text, hint)

    def _refuse_row(self, at: int, problem: str, hint: str) -> None:
        group = self.group

        def error(row: int) -> TrailgateError:
            return group.records.error(row, problem, hint, table=self.table.name)

        group.add(group.rows[[at]], error)
