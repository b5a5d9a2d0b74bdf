"""Build the before and after images of XML operations from the column records ("cells") of rules.

Each cell states the name or the number of its column. `place_columns` assigns the cells of a group
of operations to columns and rows, and each column is then converted from text. `CellColumns` finds
the errors if a cell cannot be assigned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.gather import measure_error
from trailgate.columnar.word_kernels import SPARE
from trailgate.errors import DecodeError, did_you_mean
from trailgate.formats.xml.kernels import cells as kernels
from trailgate.formats.xml.kernels.tables import ABSENT_CELL
from trailgate.formats.xml.matches import MatchRecords, RuleMatches
from trailgate.formats.xml.options import XmlOptions
from trailgate.formats.xml.records import XmlRecords
from trailgate.formats.xml.rules import XmlRule
from trailgate.messages.bad_values import errors_by_row
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.problems import MessageErrors
from trailgate.messages.property_reader import ValueSource
from trailgate.messages.records import MessageRecordGroup, MessageRecords
from trailgate.model.changes import ABSENT, DELETE, INSERT, TRUNCATE, UPDATE, Image, StateColumn
from trailgate.model.tables import Column, Table
from trailgate.model.values import Convert, parser_for, unchecked_size

UNNAMED: Final = -1  # the column of a cell with an error


R = TypeVar("R", bound=MessageRecords)
_NO_WORDS: Final = np.zeros(0, np.int64)
SIDES: Final = {INSERT: (1, 2), DELETE: (0, 1)}  # images [first, last); updates have both, (0, 2)
_OPERATIONS: Final = {DELETE: "A delete", INSERT: "An insert"}
_BEFORE, _AFTER = "before.", "after."


class CellColumns:
    """Finds the table column of each XML cell in a group. Errors are added to the group.

    This is the slow path, for rules that number columns and for cells that `place_columns` refuses.
    `cells` are the indexes of the group's cells in the batch; `row` is the row in the group, and
    `column` the column, of each.
    """

    def __init__(self, group: MessageRecordGroup[XmlRecords]) -> None:
        self.group, self.table = group, group.table
        matches = group.records.matches
        # For each operation of the batch, its row in the group, or -1.
        place = np.full(len(matches.message), -1)
        place[group.rows] = np.arange(len(group.rows))
        row = place[matches.operation]
        self.cells = np.flatnonzero(row >= 0)
        self.row = row[self.cells]
        self.column = self._columns_of_cells()

    def of_all(self) -> Longs:
        """Return the column of each XML cell of the batch, or -1 for operations in other groups."""
        columns = np.full(len(self.group.records.matches.operation), UNNAMED)
        columns[self.cells] = self.column
        return columns

    def refuse_again(self, plan: Longs, sides: tuple[int, int]) -> None:
        """Add an error to each XML operation with two values for the same column of an image.

        `plan` has a row for each rule (see `place_columns`). `sides` are the images: (0, 1) the
        before image, (1, 2) the after image, (0, 2) both.
        """
        rows = self.group.records.matches.columns.rows[self.cells]
        own = plan.reshape(-1, kernels.PLAN)[rows[:, 0]]
        which = np.arange(len(rows))
        for side in range(*sides):
            value, null, missing, absent = own[:, side * kernels.SIDE :][:, : kernels.SIDE].T
            lengths = (
                np.where(at >= 0, rows[which, at + 1], ABSENT_CELL) for at in (value, null, missing)
            )
            found, is_null, is_missing = lengths
            # A cell has a value in this image if its path found an element, if it is marked NULL,
            # or if a missing element means NULL; and if the rule supplies this image and does not
            # mark the cell as missing.
            given = (found != ABSENT_CELL) | (is_null >= 0) | (absent != kernels.MISSING)
            given &= (value != kernels.NO_FIELD) & (is_missing < 0)
            kept = np.flatnonzero(given & (self.column >= 0))
            # One number for each pair of column and row. `unique` keeps the index of the first of equal
            # numbers; the other indexes repeat a column. Example: 4 7 4: unique finds 0 and 1, so 2 repeats.
            place = self.column[kept] * max(1, len(self.group.rows)) + self.row[kept]
            again = np.setdiff1d(np.arange(len(place)), np.unique(place, return_index=True)[1])
            self._refuse(kept[again], self._repeated_problem)

    def _repeated_problem(self, cell: int) -> tuple[str, str]:
        column = self.table.columns[int(self.column[cell])].name
        return f"column {column} is found twice", "Do two rules match it?"

    def _columns_of_cells(self) -> Longs:
        """Return the column of each XML cell of the group.

        Adds an error if a cell states no column, or two different ones.
        """
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
        """Return the column that each XML cell names: cell i has the name `found[codes[i]]`.

        Adds an error if the table does not have the column.
        """
        known = self.table.column_indexes()
        numbers = [known.get(name.casefold(), UNNAMED) for name in found]
        column: Longs = np.array([*numbers, UNNAMED])[
            codes
        ]  # code -1 (no name) selects the last one

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
        """Return the column that each XML cell names or numbers.

        `column` is the column that each cell names. Its name is `names[codes[i]]`, and its number
        `found[indexes[i]]`. Adds an error if there is no such column, or name and number differ.
        """
        width = len(self.table.columns)
        numbers = [
            int(t) if t.isascii() and t.isdecimal() and int(t) < width else UNNAMED for t in found
        ]
        # The index -1 of a cell without a number selects the last element, UNNAMED.
        own = np.array([*numbers, UNNAMED])[indexes]
        numbered, named = indexes >= 0, codes >= 0
        self._refuse(
            np.flatnonzero(numbered & (own < 0)),
            lambda cell: (
                f"the table has no column {found[indexes[cell]]!r}; its columns are 0 to {width - 1}",
                "The first column has the index 0",
            ),
        )
        # Name and number are both known here, and are different columns.
        differ = numbered & named & (own >= 0) & (column >= 0) & (own != column)

        def problem(cell: int) -> tuple[str, str]:
            other = self.table.columns[int(own[cell])].name
            return f"column {found[indexes[cell]]} is {other}, not {names[codes[cell]]}", ""

        self._refuse(np.flatnonzero(differ), problem)
        return np.where(numbered & ~named, own, column)

    def _refuse(self, cells: Longs, problem: Callable[[int], tuple[str, str]]) -> None:
        """Add an error to the operation of each bad XML cell; the first bad cell of an operation counts.

        `cells` are indexes into `self.cells`. `problem` returns the problem and hint for a cell.
        """
        if not len(cells):
            return
        group = self.group
        # The first cell of each row counts, and most have the same text.
        _, first = np.unique(self.row[cells], return_index=True)
        kept = cells[first]
        problems, hints = (
            pa.array(part, pa.string())
            for part in zip(*[problem(cell) for cell in kept.tolist()], strict=True)
        )
        wrong = group.rows[self.row[kept]]

        def errors(rows: Longs) -> ErrorColumns:
            own = pa.array(np.searchsorted(wrong, rows))
            return group.records.errors(
                rows, problems.take(own), hints.take(own), table=self.table.name
            )

        group.add(wrong, errors)


class PlacedCells(NamedTuple):
    """The byte spans of XML values by image, column and row. A length may be NULL or MISSING."""

    starts: Offsets
    lengths: Offsets


class CellConverter(NamedTuple):
    """Converts an XML column's strings; `column` is the column's index.

    If no string of a batch is longer than `taken` bytes, `convert` is not called, because all
    strings are already valid values. With -1 it is always called.
    """

    column: int
    convert: Convert
    taken: int = -1


class CellGroup(MessageRecordGroup[R]):
    """XML operations of one table and type, whose images are built from cells."""

    def check_keys(self, placed: PlacedCells, side: int, hint: str = "") -> None:
        """Add an error to each XML operation in which an image has no value for a key column.

        `side` is the index of this image among the images in `placed`.
        """
        rows, width = len(self.rows), len(self.table.columns)
        for i, column in enumerate(self.table.columns):
            if column.key:
                begin = (side * width + i) * rows
                missing = placed.lengths[begin : begin + rows] == kernels.MISSING
                if missing.any():
                    problem = f"key column {column.name} is missing"
                    self.refuse_rows(np.flatnonzero(missing), problem, column.name, hint)

    def columns(
        self, placed: PlacedCells, text: Octets, converters: Sequence[CellConverter]
    ) -> Image:
        """Return the columns of XML operations' images, one image after the other.

        All are copied from the text in one pass. `placed` has one or both images, and `converters`
        one converter for each of their columns.
        """
        rows, count = len(self.rows), len(converters)
        bits = (rows + 7) // 8
        offsets, valid = np.empty(count * (rows + 1), np.int32), np.empty(count * bits, np.uint8)
        missing, totals = np.empty(count * rows, bool), np.empty(count * kernels.TOTALS, np.int64)
        size = kernels.measure_cells(
            len(text), rows, SPARE, *placed, offsets, valid, missing, totals
        )
        if size < 0:
            raise measure_error(size, len(text))
        out = np.empty(size, np.uint8)
        kernels.copy_cells(text, rows, *placed, offsets, totals, out)
        buffers = pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(out)
        image = []
        for i, own in enumerate(totals.reshape(count, -1).tolist()):
            length, nulls, gone, begin, longest = own
            if gone == rows:
                image.append(ABSENT)
                continue
            # Of each buffer, what belongs to column i: validity bits, rows + 1 offsets of four bytes, text.
            parts = [
                buffers[0].slice(i * bits, bits) if nulls else None,
                buffers[1].slice(4 * i * (rows + 1), 4 * (rows + 1)),
                buffers[2].slice(begin, length),
            ]
            values = pa.Array.from_buffers(pa.string(), rows, parts, nulls)
            mask = missing[i * rows : (i + 1) * rows] if gone else None
            # Short text is already a valid value, for example of a VARCHAR that is long enough.
            if longest <= converters[i].taken:
                image.append(StateColumn(values, mask))
            else:
                image.append(self._column(values, mask, converters[i]))
        return tuple(image)

    def _column(
        self, text: pa.Array, missing: Mask | None, converter: CellConverter
    ) -> StateColumn:
        try:
            return StateColumn(converter.convert(text), missing)
        except DecodeError as error:
            at, errors = errors_by_row(converter.convert, text, error)
        self.add_values(at, errors, self.table.columns[converter.column].name)
        return ABSENT

    def refuse_rows(self, rows: Longs, problem: str, name: str | None, hint: str = "") -> None:
        """Add an error to some XML operations of the group (indexes into `self.rows`).

        `name` is the column.
        """

        def errors(rows: Longs) -> ErrorColumns:
            return self.records.errors(rows, problem, hint, table=self.table.name, field=name)

        self.add(self.rows[rows], errors)


class CellImages:
    """Builds images from XML cells. Converters are created once per table, by `parser`."""

    def __init__(self, parser: Callable[[Column], Convert] = parser_for) -> None:
        self._parser = parser
        self._converters: dict[str, tuple[CellConverter, ...]] = {}

    def images(
        self, group: CellGroup[R], placed: PlacedCells, text: Octets, kind: int, key_hint: str = ""
    ) -> tuple[Image, Image]:
        """Build the before and after images of XML operations. Errors are added to the group.

        `key_hint` is the hint for a missing key.
        """
        absent = (ABSENT,) * len(group.table.columns)
        first, last = SIDES.get(kind, (0, 2))
        group.check_keys(placed, 0 if kind == DELETE else last - first - 1, key_hint)
        converters = self._converters_of(group.table) * (last - first)
        columns = group.columns(placed, text, converters)
        before = columns[: len(absent)] if first == 0 else absent
        after = columns[-len(absent) :] if last > 1 else absent
        return before, after

    def _converters_of(self, table: Table) -> tuple[CellConverter, ...]:
        if table.name not in self._converters:
            self._converters[table.name] = tuple(
                CellConverter(i, self._parser(column), unchecked_size(column))
                for i, column in enumerate(table.columns)
            )
        return self._converters[table.name]


class XmlImageReader:
    """Reads the images of XML operations with one set of options. Plans are made once per table."""

    def __init__(self, options: XmlOptions) -> None:
        self._rules = options.all_rules()
        self._indexed = any("index" in rule.values for rule in self._rules)
        self._images = CellImages()
        self._fields: Mapping[str, int] = {}
        self._plans: dict[tuple[str, int], Longs] = {}
        self._hints: dict[int, str] = {}  # for a missing key, by operation type

    def images(
        self, records: XmlRecords, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Read the before and after images of XML operations of one table and type.

        Errors are added to `errors`.
        """
        if kind == TRUNCATE:
            absent = (ABSENT,) * len(table.columns)
            return absent, absent
        group = _XmlGroup(records, table, rows, errors)
        plan = self._plan(records.matches.columns, table, kind)
        placed = group.place_values(plan, SIDES.get(kind, (0, 2)), indexed=self._indexed)
        hint = self._hints.get(kind)
        if hint is None:
            hint = self._hints[kind] = _key_hint(self._rules, kind)
        return self._images.images(group, placed, records.matches.text, kind, hint)

    def _plan(self, records: MatchRecords, table: Table, kind: int) -> Longs:
        """Return the plan of a table and operation type for `place_columns`: one row per XML rule."""
        if self._fields is not records.fields:
            self._fields, self._plans = records.fields, {}
        plan = self._plans.get((table.name, kind))
        if plan is None:
            known = table.column_indexes()
            rows = [_plan_images(rule, records.fields, known, kind) for rule in self._rules]
            plan = np.array(rows, np.int64).reshape(-1)
            self._plans[table.name, kind] = plan
        return plan


class _XmlGroup(CellGroup[XmlRecords]):
    """XML operations of one table and type, with the cells that the rules found."""

    @property
    def matches(self) -> RuleMatches:
        """The matches of the XML rules in the batch."""
        return self.records.matches

    def place_values(self, plan: Longs, sides: tuple[int, int], *, indexed: bool) -> PlacedCells:
        """Return the byte spans of XML operations' values, column by column, image by image.

        `plan` has a row for each rule (see `place_columns`). `sides` are the images: (0, 1) the
        before image, (1, 2) the after image, (0, 2) both. With `indexed`, rules number columns.
        Errors are added for cells that cannot be assigned to a column.
        """
        size = (sides[1] - sides[0]) * len(self.rows) * len(self.table.columns)
        starts, lengths = np.zeros(size, np.int32), np.full(size, kernels.MISSING, np.int32)
        found = self.matches.columns
        cells: CellColumns | None = None
        if indexed:
            columns = np.arange(len(self.table.columns))
            cells = CellColumns(self)
            words = cells.of_all()
            plan = plan.copy()
            # Columns by number: let every cell name its column, by the numbers computed here.
            plan[kernels.COLUMN :: kernels.PLAN] = UNNAMED
        else:
            words, names = self.records.cell_words("name") or (_NO_WORDS, [])
            known = self.table.column_indexes()
            columns = np.array([known.get(name.casefold(), UNNAMED) for name in names], np.int64)
        refused = kernels.place_columns(
            self.rows, self.records.cell_bounds(), found.records, found.width, plan,
            kernels.CellNames(words, columns), *sides, starts, lengths,
        )  # fmt: skip
        if refused:
            cells = CellColumns(self) if cells is None else cells
            cells.refuse_again(plan, sides)
        return PlacedCells(starts, lengths)


def _key_hint(rules: Sequence[XmlRule], kind: int) -> str:
    """Return the hint for an XML operation without a key, or "".

    The hint names a rule that supplies values only for the other image, if there is one.
    """
    wanted, other = (_BEFORE, _AFTER) if kind == DELETE else (_AFTER, _BEFORE)
    for rule in rules:
        if f"{other}value" in rule.values and rule.values.keys().isdisjoint(("value", f"{wanted}value")):  # fmt: skip
            return (
                f"{_OPERATIONS.get(kind, 'An update')} needs {wanted[:-1]} values, but the rule {rule.name} has only {other}value: "
                f"use value, or add {wanted}value"
            )
    return ""


def _plan_images(
    rule: XmlRule, fields: Mapping[str, int], columns: Mapping[str, int], kind: int
) -> list[int]:
    """Return an XML rule's row of the plan, for operations of one type (see `place_columns`).

    `value` without a prefix belongs to the before image of deletes and to the after image of other
    operations. The conditions `isnull` and `ismissing` without a prefix belong to both images. If
    `before.value`, or `after.value` of an update, finds no element, the column is missing. If any
    other value finds no element, the column is NULL (decision 0047).
    """

    def field(names: Sequence[str]) -> int:
        own = next((name for name in names if name in rule.values), "")
        return fields.get(own, kernels.NO_FIELD)

    found = []
    for image in (_BEFORE, _AFTER):
        # `value` without a prefix counts for the main image of the operation type.
        shared = "value" in rule.values and (image == _BEFORE) == (kind == DELETE)
        own = image + "value" in rule.values or (not shared and image + "isnull" in rule.values)
        value = kernels.NO_FIELD
        if own or shared:
            value = fields.get(image + "value" if own else "value", kernels.NEVER_FOUND)
        conditions = ((image + what, what) for what in ("isnull", "ismissing"))
        optional = own and (image == _BEFORE or kind == UPDATE)
        found += [
            value,
            *(field(names) for names in conditions),
            kernels.MISSING if optional else kernels.NULL,
        ]
    name = rule.values.get("name")
    written = (
        columns.get(name.name.casefold(), UNNAMED) if isinstance(name, ValueSource) else UNNAMED
    )
    return [*found, written]
