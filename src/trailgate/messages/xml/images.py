"""The before and after images of operations, from the columns that rules found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.columnar.gather import gather
from trailgate.columnar.rows import distinct
from trailgate.errors import DecodeError, TrailgateError, did_you_mean
from trailgate.messages.parsing.bad_messages import errors_by_row
from trailgate.messages.parsing.record_groups import MessageErrors, RecordGroup
from trailgate.messages.properties.rows import SourceKind
from trailgate.messages.properties.values import ValueSource
from trailgate.messages.properties.xml_rules import RuleType
from trailgate.messages.xml.findings import Findings
from trailgate.messages.xml.options import XmlOptions
from trailgate.messages.xml.records import XmlRecords
from trailgate.messages.xml.rules import Rule
from trailgate.model.changes import ABSENT, DELETE, INSERT, TRUNCATE, Image, StateColumn
from trailgate.model.tables import Table
from trailgate.operations.values import Convert, parser_for

_VALUE, _NULL, _MISSING = 0, 1, 2
_UNNAMED: Final = -1  # a column that has an error
States = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class _Side:
    """One image: the column of each cell, its row, and where its value is or that it is NULL."""

    column: Longs
    row: Longs
    cell: Longs
    start: Longs
    length: Longs
    state: States


class XmlImageReader:
    """Reads images by one set of options; what a table's columns decide is made once and kept."""

    def __init__(self, options: XmlOptions) -> None:
        self.rules = options.all_rules()
        self._converters: dict[str, tuple[Convert, ...]] = {}

    def images(
        self, records: XmlRecords, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Return before and after of operations; what is wrong is added to the errors."""
        absent = (ABSENT,) * len(table.columns)
        if kind == TRUNCATE:
            return absent, absent
        group = _XmlGroup(records, table, rows, errors)
        group.find_cells(self.rules)
        sides = []
        for image, wanted in (("before.", kind != INSERT), ("after.", kind != DELETE)):
            shared = (image == "before.") == (kind == DELETE)
            found = group.side(self.rules, image, shared=shared) if wanted else None
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

    def find_cells(self, rules: Sequence[Rule]) -> None:
        """Find the cells of these operations, and the column of each."""
        findings = self.findings
        place = np.full(len(findings.message), -1)
        place[self.rows] = np.arange(len(self.rows))
        row = place[findings.operation]
        self.cells = np.flatnonzero(row >= 0)
        self.row = row[self.cells]
        names, indexes = self._text("name", rules), self._text("index", rules)
        self.column = self._by_name(names)
        numbered = np.asarray(indexes.is_valid())
        if numbered.any():
            self._by_index(names, indexes, numbered)
        neither = np.flatnonzero(np.asarray(names.is_null()) & ~numbered)
        self._refuse_cells(neither, lambda _: ("a column has neither a name nor an index", ""))

    def _text(self, name: str, rules: Sequence[Rule]) -> pa.Array:
        """Return each cell's text of a property, from its path or written in its rule."""
        places = self.findings.columns.values.get(name)
        if places is None:
            values = pa.nulls(len(self.cells), pa.string())
        else:
            values = places.taken(self.cells).text(self.findings.text)
        fixed = {
            rule.number: source.name
            for rule in rules
            if rule.type is RuleType.COLUMN
            and isinstance(source := rule.values.get(name), ValueSource)
            and source.kind is SourceKind.LITERAL
        }
        if not fixed:
            return values
        of_rule = pa.array([fixed.get(number) for number in range(len(rules))], pa.string())
        own = of_rule.take(pa.array(self.findings.columns.rule[self.cells]))
        return own if places is None else own.fill_null(values)

    def _by_name(self, names: pa.Array) -> Longs:
        """Return the column that each cell names; add an error where the table has none of the name."""
        codes, found = distinct(names.fill_null(""))
        known = {column.name.casefold(): i for i, column in enumerate(self.table.columns)}
        numbers = np.array([known.get(name.casefold(), _UNNAMED) for name in found] or [_UNNAMED])
        column: Longs = numbers[codes] if len(codes) else np.zeros(0, np.int64)
        wrong = np.flatnonzero((column < 0) & np.asarray(names.is_valid()))

        def problem(cell: int) -> tuple[str, str]:
            name = found[codes[cell]]
            hint = did_you_mean(name, [each.name for each in self.table.columns])
            return f"the table has no column {name!r}", hint

        self._refuse_cells(wrong, problem)
        return column

    def _by_index(self, names: pa.Array, indexes: pa.Array, numbered: Mask) -> None:
        """Take the columns that cells number; add an error where name and number differ."""
        codes, found = distinct(indexes.fill_null(""))
        width = len(self.table.columns)
        numbers = np.array(
            [
                int(t) if t.isascii() and t.isdecimal() and int(t) < width else _UNNAMED
                for t in found
            ]
        )
        own = numbers[codes]
        wrong = np.flatnonzero(numbered & (own < 0))
        self._refuse_cells(
            wrong,
            lambda cell: (
                f"the table has no column {found[codes[cell]]!r} of 0 to {width - 1}",
                "The first column has the index 0",
            ),
        )
        named = np.asarray(names.is_valid())
        differ = np.flatnonzero(
            numbered & named & (own >= 0) & (self.column >= 0) & (own != self.column)
        )

        def problem(cell: int) -> tuple[str, str]:
            column = self.table.columns[int(own[cell])].name
            return f"column {found[codes[cell]]} is {column}, not {names[cell].as_py()}", ""

        self._refuse_cells(differ, problem)
        self.column = np.where(numbered & ~named, own, self.column)

    def side(self, rules: Sequence[Rule], image: str, *, shared: bool) -> _Side:
        """Return the cells of an image; with ``shared`` those of the properties without prefix too."""
        rule = self.findings.columns.rule[self.cells]
        count = len(self.cells)
        start, length = np.zeros(count, np.int64), np.zeros(count, np.int64)
        state = np.full(count, _MISSING, np.uint8)
        for each in rules:
            value = _chosen(each, image, "value", shared=shared)
            if value is None or each.type is not RuleType.COLUMN:
                continue
            mine = np.flatnonzero(rule == each.number)
            if not len(mine):
                continue
            start[mine], length[mine] = self._found(value, mine)
            state[mine] = np.where(length[mine] < 0, _NULL, _VALUE)
            for flag, meant in (("isnull", _NULL), ("ismissing", _MISSING)):
                condition = _chosen(each, image, flag, shared=True)
                if condition is not None:
                    state[mine[self._found(condition, mine)[1] >= 0]] = meant
        kept = np.flatnonzero((state != _MISSING) & (self.column >= 0))
        found = _Side(
            self.column[kept], self.row[kept], kept, start[kept], length[kept], state[kept]
        )
        return self._once(found)

    def _found(self, name: str, cells: Longs) -> tuple[Longs, Longs]:
        places = self.findings.columns.values.get(name)
        if places is None:
            return np.zeros(len(cells), np.int64), np.full(len(cells), -1)
        taken = places.taken(self.cells[cells])
        return taken.starts, taken.lengths

    def _once(self, side: _Side) -> _Side:
        """Return a side with each column once; add an error where an operation has it twice."""
        place = side.column * max(1, len(self.rows)) + side.row
        _, first = np.unique(place, return_index=True)
        if len(first) == len(place):
            return side
        again = np.setdiff1d(np.arange(len(place)), first)

        def problem(cell: int) -> tuple[str, str]:
            column = self.table.columns[int(self.column[cell])].name
            return f"column {column} is found twice", "Do two rules match it?"

        self._refuse_cells(side.cell[again], problem)
        return side

    def check_keys(self, side: _Side) -> None:
        """Add an error for each operation without the value of a key."""
        for i, column in enumerate(self.table.columns):
            if not column.key:
                continue
            there = np.zeros(len(self.rows), bool)
            there[side.row[side.column == i]] = True
            self._refuse_rows(
                np.flatnonzero(~there), f"key column {column.name} is missing", column.name
            )

    def image(self, side: _Side, converters: Sequence[Convert]) -> Image:
        """Return the columns of an image in three states."""
        order = np.argsort(side.column, kind="stable")
        bounds = np.searchsorted(side.column[order], np.arange(len(converters) + 1))
        return tuple(
            self._column(i, side, order[bounds[i] : bounds[i + 1]], convert)
            for i, convert in enumerate(converters)
        )

    def _column(self, i: int, side: _Side, cells: Longs, convert: Convert) -> StateColumn:
        if not len(cells):
            return ABSENT
        rows = len(self.rows)
        starts, ends = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        missing, nulls = np.ones(rows, bool), np.ones(rows, bool)
        own = side.row[cells]
        missing[own] = False
        nulls[own] = side.state[cells] == _NULL
        starts[own] = side.start[cells]
        ends[own] = side.start[cells] + np.maximum(side.length[cells], 0)
        text = gather(self.findings.text, starts, ends, nulls=nulls, text=True, checked=True)
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


def _chosen(rule: Rule, image: str, name: str, *, shared: bool) -> str | None:
    """Return the property of a rule that an image has a value by: its own, else the ``shared`` one."""
    if image + name in rule.values:
        return image + name
    return name if shared and name in rule.values else None
