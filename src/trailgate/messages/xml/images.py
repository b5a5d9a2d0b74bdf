"""The before and after images of operations, from the columns that rules found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.errors import DecodeError, TrailgateError, did_you_mean
from trailgate.messages.parsing.bad_messages import errors_by_row
from trailgate.messages.parsing.record_groups import MessageErrors, RecordGroup
from trailgate.messages.xml.findings import Findings, Places
from trailgate.messages.xml.kernels import cells as kernels
from trailgate.messages.xml.options import XmlOptions
from trailgate.messages.xml.records import XmlRecords
from trailgate.messages.xml.rules import Rule
from trailgate.model.changes import ABSENT, DELETE, INSERT, TRUNCATE, Image, StateColumn
from trailgate.model.tables import Table
from trailgate.operations.values import Convert, parser_for

_UNNAMED: Final = -1  # a column that has an error


@dataclass(frozen=True, slots=True)
class _Side:
    """One image: where the value of each column and row is, column by column; a length may be NULL or MISSING."""

    starts: Longs
    lengths: Longs


class _Pass(NamedTuple):
    """A property, the rules that an image uses it of, and what it means where it is found; None for a value."""

    name: str
    by: Mask
    meaning: int | None


_MEANINGS: Final = (("value", None), ("isnull", kernels.NULL), ("ismissing", kernels.MISSING))


class XmlImageReader:
    """Reads images by one set of options; what a table's columns decide is made once and kept."""

    def __init__(self, options: XmlOptions) -> None:
        rules = options.all_rules()
        self._passes = {
            (image, shared): _passes(rules, image, shared=shared)
            for image in ("before.", "after.")
            for shared in (False, True)
        }
        self._converters: dict[str, tuple[Convert, ...]] = {}

    def images(
        self, records: XmlRecords, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Return before and after of operations; what is wrong is added to the errors."""
        absent = (ABSENT,) * len(table.columns)
        if kind == TRUNCATE:
            return absent, absent
        group = _XmlGroup(records, table, rows, errors)
        group.find_cells()
        sides = []
        for image, wanted in (("before.", kind != INSERT), ("after.", kind != DELETE)):
            shared = (image == "before.") == (kind == DELETE)
            found = group.side(self._passes[image, shared]) if wanted else None
            sides.append(found)
        keyed = sides[0] if kind == DELETE else sides[1]
        assert keyed is not None
        group.check_keys(keyed)
        converters = self._converters_of(table)
        before, after = (
            absent if side is None else group.image(side, converters) for side in sides
        )
        return before, after

    def _converters_of(self, table: Table) -> tuple[Convert, ...]:
        if table.name not in self._converters:
            self._converters[table.name] = tuple(map(parser_for, table.columns))
        return self._converters[table.name]


class _XmlGroup(RecordGroup[XmlRecords]):
    """Operations of one table and type, and the cells of their columns."""

    cells: Longs  # numbers of the columns found for these operations
    row: Longs  # each cell's place among the group's rows
    column: Longs  # each cell's column

    @property
    def findings(self) -> Findings:
        """Return what was found in the batch."""
        return self.records.findings

    def find_cells(self) -> None:
        """Find the cells of these operations, and the column of each."""
        findings = self.findings
        place = np.full(len(findings.message), -1)
        place[self.rows] = np.arange(len(self.rows))
        cells, row = (np.empty(len(findings.operation), np.int64) for _ in range(2))
        count = kernels.find_cells(place, findings.operation, cells, row)
        self.cells, self.row = cells[:count], row[:count]
        names, found = self.records.column_words("name")
        numbers, digits = self.records.column_words("index")
        codes = names[self.cells]
        self.column = self._by_name(codes, found)
        if not digits and len(codes) and codes.min() >= 0:
            return
        indexes = numbers[self.cells]
        if digits:
            self._by_index(codes, found, indexes, digits)
        neither = np.flatnonzero((codes < 0) & (indexes < 0))
        self._refuse_cells(neither, lambda _: ("a column has neither a name nor an index", ""))

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

        self._refuse_cells(np.flatnonzero((column < 0) & (codes >= 0)), problem)
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
        self._refuse_cells(
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

        self._refuse_cells(differ, problem)
        self.column = np.where(numbered & ~named, own, self.column)

    def side(self, passes: Sequence[_Pass]) -> _Side:
        """Return the cells of an image."""
        count, rows = len(self.cells), len(self.rows)
        start, length = np.zeros(count, np.int64), np.full(count, kernels.MISSING)
        columns = self.findings.columns
        for name, by, meaning in passes:
            places = columns.values.get(name)
            if meaning is None:
                own = places or Places(*np.full((2, len(columns)), -1))
                kernels.put_values(
                    self.cells, columns.rule, by, own.starts, own.lengths, start, length
                )
            elif places is not None:
                kernels.mark_cells(self.cells, columns.rule, by, places.lengths, meaning, length)
        size = rows * len(self.table.columns)
        starts, lengths = np.zeros(size, np.int64), np.full(size, kernels.MISSING)
        again = kernels.scatter(self.column, self.row, start, length, rows, starts, lengths)
        if again:
            self._refuse_again(length)
        return _Side(starts, lengths)

    def _refuse_again(self, length: Longs) -> None:
        """Add an error where an operation has a column twice."""
        kept = np.flatnonzero((length != kernels.MISSING) & (self.column >= 0))
        place = self.column[kept] * max(1, len(self.rows)) + self.row[kept]
        again = np.setdiff1d(np.arange(len(place)), np.unique(place, return_index=True)[1])

        def problem(cell: int) -> tuple[str, str]:
            column = self.table.columns[int(self.column[cell])].name
            return f"column {column} is found twice", "Do two rules match it?"

        self._refuse_cells(kept[again], problem)

    def check_keys(self, side: _Side) -> None:
        """Add an error for each operation without the value of a key."""
        missing = (side.lengths == kernels.MISSING).reshape(-1, len(self.rows))
        for i, column in enumerate(self.table.columns):
            if column.key and missing[i].any():
                self._refuse_rows(
                    np.flatnonzero(missing[i]), f"key column {column.name} is missing", column.name
                )

    def image(self, side: _Side, converters: Sequence[Convert]) -> Image:
        """Return the columns of an image in three states: all are gathered together."""
        rows = len(self.rows)
        missing = (side.lengths == kernels.MISSING).reshape(-1, rows)
        texts = Places(side.starts, side.lengths).text(self.findings.text)
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

    def _refuse_cells(self, cells: Longs, problem: Callable[[int], tuple[str, str]]) -> None:
        """Add errors for cells, by number among those of the group."""
        for cell in cells.tolist():
            text, hint = problem(cell)
            self._refuse_rows(self.row[[cell]], text, None, hint)

    def _refuse_rows(self, rows: Longs, problem: str, name: str | None, hint: str = "") -> None:
        def error(row: int) -> TrailgateError:
            return self.records.error(row, problem, hint, table=self.table.name, field=name)

        self.add(self.rows[rows], error)


def _passes(rules: Sequence[Rule], image: str, *, shared: bool) -> tuple[_Pass, ...]:
    """Return how an image is made of its own properties; with ``shared`` of those without prefix too."""
    there = [set(rule.values) for rule in rules]
    found = []
    for what, meaning in _MEANINGS:
        own = np.array([image + what in names for names in there])
        found.append(_Pass(image + what, own, meaning))
        if shared or meaning is not None:
            found.append(_Pass(what, np.array([what in names for names in there]) & ~own, meaning))
    valued = {image + "value", "value"} if shared else {image + "value"}
    with_value = np.array([not names.isdisjoint(valued) for names in there])
    return tuple(each._replace(by=each.by & with_value) for each in found if each.by.any())
