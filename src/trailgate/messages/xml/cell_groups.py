"""The cells of operations: which column each is of, and the image that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.errors import DecodeError, TrailgateError, did_you_mean
from trailgate.messages.parsing.bad_messages import errors_by_row
from trailgate.messages.parsing.record_groups import RecordGroup
from trailgate.messages.parsing.records import Records
from trailgate.messages.xml.findings import Places
from trailgate.messages.xml.kernels import cells as kernels
from trailgate.model.changes import ABSENT, Image, StateColumn
from trailgate.operations.values import Convert

_UNNAMED: Final = -1  # a column that has an error
R = TypeVar("R", bound=Records)
Words = tuple[Longs, Sequence[str]]  # the number of each cell's word, -1 for none, and the words


@dataclass(frozen=True, slots=True)
class Side:
    """One image: where the value of each column and row is, column by column; a length may be NULL or MISSING."""

    starts: Longs
    lengths: Longs


class CellGroup(RecordGroup[R]):
    """Operations of one table and type, and the cells of their columns."""

    cells: Longs  # numbers of the columns found for these operations
    row: Longs  # each cell's place among the group's rows
    column: Longs  # each cell's column

    def find_cells(self, operation: Longs, names: Words, indexes: Words | None = None) -> None:
        """Find the cells of these operations, and the column of each; all cells' operation, name and index are given."""
        place = np.full(len(self.records.message), -1)
        place[self.rows] = np.arange(len(self.rows))
        cells, row = (np.empty(len(operation), np.int64) for _ in range(2))
        count = kernels.find_cells(place, operation, cells, row)
        self.cells, self.row = cells[:count], row[:count]
        codes, found = names[0][self.cells], names[1]
        self.column = self._by_name(codes, found)
        digits = () if indexes is None else indexes[1]
        if not digits and len(codes) and codes.min() >= 0:
            return
        numbered = np.full(count, -1) if indexes is None else indexes[0][self.cells]
        if digits:
            self._by_index(codes, found, numbered, digits)
        neither = np.flatnonzero((codes < 0) & (numbered < 0))
        self.refuse_cells(neither, lambda _: ("a column has neither a name nor an index", ""))

    def _by_name(self, codes: Longs, found: Sequence[str]) -> Longs:
        """Return the column that each cell names; add an error where the table has none of the name."""
        known = {column.name.casefold(): i for i, column in enumerate(self.table.columns)}
        numbers = [known.get(name.casefold(), _UNNAMED) for name in found]
        column: Longs = np.array([*numbers, _UNNAMED])[codes]  # the last one is that of no name
        if len(column) and column.min() >= 0:
            return column

        def problem(cell: int) -> tuple[str, str]:
            name = found[codes[cell]]
            hint = did_you_mean(name, [each.name for each in self.table.columns])
            return f"the table has no column {name!r}", hint

        self.refuse_cells(np.flatnonzero((column < 0) & (codes >= 0)), problem)
        return column

    def _by_index(
        self, codes: Longs, names: Sequence[str], indexes: Longs, found: Sequence[str]
    ) -> None:
        """Take the columns that cells number; add an error where name and number differ."""
        width = len(self.table.columns)
        numbers = [
            int(t) if t.isascii() and t.isdecimal() and int(t) < width else _UNNAMED for t in found
        ]
        own = np.array([*numbers, _UNNAMED])[indexes]
        numbered, named = indexes >= 0, codes >= 0
        self.refuse_cells(
            np.flatnonzero(numbered & (own < 0)),
            lambda cell: (
                f"the table has no column {found[indexes[cell]]!r} of 0 to {width - 1}",
                "The first column has the index 0",
            ),
        )
        differ = np.flatnonzero(
            numbered & named & (own >= 0) & (self.column >= 0) & (own != self.column)
        )

        def problem(cell: int) -> tuple[str, str]:
            column = self.table.columns[int(own[cell])].name
            return f"column {found[indexes[cell]]} is {column}, not {names[codes[cell]]}", ""

        self.refuse_cells(differ, problem)
        self.column = np.where(numbered & ~named, own, self.column)

    def placed(self, start: Longs, length: Longs) -> Side:
        """Return the image of these places, one a cell of the group."""
        rows = len(self.rows)
        size = rows * len(self.table.columns)
        starts, lengths = np.zeros(size, np.int64), np.full(size, kernels.MISSING)
        again = kernels.scatter(self.column, self.row, start, length, rows, starts, lengths)
        if again:
            self._refuse_again(length)
        return Side(starts, lengths)

    def _refuse_again(self, length: Longs) -> None:
        """Add an error where an operation has a column twice."""
        kept = np.flatnonzero((length != kernels.MISSING) & (self.column >= 0))
        place = self.column[kept] * max(1, len(self.rows)) + self.row[kept]
        again = np.setdiff1d(np.arange(len(place)), np.unique(place, return_index=True)[1])

        def problem(cell: int) -> tuple[str, str]:
            column = self.table.columns[int(self.column[cell])].name
            return f"column {column} is found twice", "Do two rules match it?"

        self.refuse_cells(kept[again], problem)

    def check_keys(self, side: Side) -> None:
        """Add an error for each operation without the value of a key."""
        missing = (side.lengths == kernels.MISSING).reshape(-1, len(self.rows))
        for i, column in enumerate(self.table.columns):
            if column.key and missing[i].any():
                self.refuse_rows(
                    np.flatnonzero(missing[i]), f"key column {column.name} is missing", column.name
                )

    def image(self, side: Side, text: Octets, converters: Sequence[Convert]) -> Image:
        """Return the columns of an image in three states: all are gathered together from one text."""
        rows = len(self.rows)
        missing = (side.lengths == kernels.MISSING).reshape(-1, rows)
        texts = Places(side.starts, side.lengths).text(text)
        return tuple(
            self._column(i, texts.slice(i * rows, rows), missing[i], convert)
            for i, convert in enumerate(converters)
        )

    def _column(self, i: int, text: pa.Array, missing: Mask, convert: Convert) -> StateColumn:
        if missing.all():
            return ABSENT
        try:
            return StateColumn(convert(text), missing if missing.any() else None)
        except DecodeError as error:
            errors = errors_by_row(convert, text, error)
        for at, found in errors.items():
            self._add(at, found, self.table.columns[i].name)
        return ABSENT

    def _add(self, at: int, error: DecodeError, name: str) -> None:
        row = int(self.rows[at])

        def placed(row: int) -> TrailgateError:
            found = self.records.error(row, error.problem, error.hint)
            found.where = replace(found.where, raw=error.where.raw)
            return found.located(table=self.table.name, field=name)

        self.add(np.array([row]), placed)

    def refuse_cells(self, cells: Longs, problem: Callable[[int], tuple[str, str]]) -> None:
        """Add errors for cells, by number among those of the group."""
        for cell in cells.tolist():
            text, hint = problem(cell)
            self.refuse_rows(self.row[[cell]], text, None, hint)

    def refuse_rows(self, rows: Longs, problem: str, name: str | None, hint: str = "") -> None:
        """Add errors for rows, by number among those of the group; ``name`` is the column's."""

        def error(row: int) -> TrailgateError:
            return self.records.error(row, problem, hint, table=self.table.name, field=name)

        self.add(self.rows[rows], error)
