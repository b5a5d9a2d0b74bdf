"""The before and after images of operations, from the columns that rules found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Offsets
from trailgate.columnar.gather import unfit
from trailgate.columnar.kernels.words import SPARE
from trailgate.errors import DecodeError, TrailgateError
from trailgate.messages.parsing.bad_messages import errors_by_row
from trailgate.messages.parsing.record_groups import MessageErrors, RecordGroup
from trailgate.messages.properties.values import ValueSource
from trailgate.messages.xml.cell_columns import UNNAMED, CellColumns, columns_by_name
from trailgate.messages.xml.findings import Findings, Found
from trailgate.messages.xml.kernels import cells as kernels
from trailgate.messages.xml.options import XmlOptions
from trailgate.messages.xml.records import XmlRecords
from trailgate.messages.xml.rules import Rule
from trailgate.model.changes import ABSENT, DELETE, INSERT, TRUNCATE, Image, StateColumn
from trailgate.model.tables import Table
from trailgate.operations.values import Convert, bytes_unchecked, parser_for

_NO_WORDS: Final = np.zeros(0, np.int64)
_BEFORE, _AFTER = "before.", "after."
_SIDES: Final = {INSERT: (1, 2), DELETE: (0, 1)}  # the images that others than updates have


class XmlImageReader:
    """Reads images by one set of options; what a table's columns decide is made once and kept."""

    def __init__(self, options: XmlOptions) -> None:
        self._rules = options.all_rules()
        self._indexed = any("index" in rule.values for rule in self._rules)
        self._converters: dict[str, tuple[_Converter, ...]] = {}
        self._fields: Mapping[str, int] = {}
        self._plans: dict[tuple[str, bool], Longs] = {}

    def images(
        self, records: XmlRecords, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Return before and after of operations; what is wrong is added to the errors."""
        absent = (ABSENT,) * len(table.columns)
        if kind == TRUNCATE:
            return absent, absent
        first, last = _SIDES.get(kind, (0, 2))
        group = _XmlGroup(records, table, rows, errors)
        plan = self._plan(records.findings.columns, table, deletes=kind == DELETE)
        placed = group.placed(plan, (first, last), indexed=self._indexed)
        group.check_keys(placed, 0 if kind == DELETE else last - first - 1)
        columns = group.columns(placed, self._converters_of(table) * (last - first))
        before = columns[: len(absent)] if first == 0 else absent
        after = columns[-len(absent) :] if last > 1 else absent
        return before, after

    def _converters_of(self, table: Table) -> tuple[_Converter, ...]:
        if table.name not in self._converters:
            self._converters[table.name] = tuple(
                _Converter(i, bytes_unchecked(column), parser_for(column))
                for i, column in enumerate(table.columns)
            )
        return self._converters[table.name]

    def _plan(self, found: Found, table: Table, *, deletes: bool) -> Longs:
        """Return what each rule gives, as ``place_cells`` takes it."""
        if self._fields is not found.fields:
            self._fields, self._plans = found.fields, {}
        plan = self._plans.get((table.name, deletes))
        if plan is None:
            known = columns_by_name(table)
            rows = [_planned(rule, found.fields, known, deletes=deletes) for rule in self._rules]
            plan = np.array(rows, np.int64).reshape(-1)
            self._plans[table.name, deletes] = plan
        return plan


class _Converter(NamedTuple):
    """The number of a column, how many bytes text has at most that it takes as it is, and what makes longer text its values."""

    column: int
    taken: int
    convert: Convert


class _Placed(NamedTuple):
    """Where the value of each image, column and row is; a length may be NULL or MISSING."""

    starts: Offsets
    lengths: Offsets


class _XmlGroup(RecordGroup[XmlRecords]):
    """Operations of one table and type."""

    @property
    def findings(self) -> Findings:
        """Return what was found in the batch."""
        return self.records.findings

    def placed(self, plan: Longs, sides: tuple[int, int], *, indexed: bool) -> _Placed:
        """Return the places of the cells of some images; add errors for those that have none."""
        size = (sides[1] - sides[0]) * len(self.rows) * len(self.table.columns)
        starts, lengths = np.zeros(size, np.int32), np.full(size, kernels.MISSING, np.int32)
        found = self.findings.columns
        cells: CellColumns | None = None
        if indexed:
            columns = np.arange(len(self.table.columns))
            cells = CellColumns(self)
            words = cells.of_all()
            plan = plan.copy()
            plan[kernels.COLUMN :: kernels.PLAN] = UNNAMED
        else:
            words, names = self.records.cell_words("name") or (_NO_WORDS, [])
            known = columns_by_name(self.table)
            columns = np.array([known.get(name.casefold(), UNNAMED) for name in names], np.int64)
        refused = kernels.place_cells(
            self.rows, self.records.cell_bounds(), found.records, found.width, plan, words,
            columns, *sides, starts, lengths,
        )  # fmt: skip
        if refused:
            cells = CellColumns(self) if cells is None else cells
            cells.refuse_again(plan, sides)
        return _Placed(starts, lengths)

    def check_keys(self, placed: _Placed, side: int) -> None:
        """Add an error for each operation without the value of a key in an image."""
        rows, width = len(self.rows), len(self.table.columns)
        for i, column in enumerate(self.table.columns):
            if column.key:
                begin = (side * width + i) * rows
                missing = placed.lengths[begin : begin + rows] == kernels.MISSING
                if missing.any():
                    self._refuse_rows(
                        np.flatnonzero(missing), f"key column {column.name} is missing", column.name
                    )

    def columns(self, placed: _Placed, converters: Sequence[_Converter]) -> Image:
        """Return the columns of images in three states, one image after the other: all are gathered together."""
        rows, count = len(self.rows), len(converters)
        text, bits = self.findings.text, (rows + 7) // 8
        offsets, valid = np.empty(count * (rows + 1), np.int32), np.empty(count * bits, np.uint8)
        missing, totals = np.empty(count * rows, bool), np.empty(count * kernels.TOTALS, np.int64)
        size = kernels.measure_cells(
            len(text), rows, SPARE, *placed, offsets, valid, missing, totals
        )
        if size < 0:
            raise unfit(size, len(text))
        out = np.empty(size, np.uint8)
        kernels.copy_cells(text, rows, *placed, offsets, totals, out)
        buffers = pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(out)
        found = []
        for i, own in enumerate(totals.reshape(count, -1).tolist()):
            length, nulls, gone, begin, longest = own
            if gone == rows:
                found.append(ABSENT)
                continue
            parts = [
                buffers[0].slice(i * bits, bits) if nulls else None,
                buffers[1].slice(4 * i * (rows + 1), 4 * (rows + 1)),
                buffers[2].slice(begin, length),
            ]
            values = pa.Array.from_buffers(pa.string(), rows, parts, nulls)
            mask = missing[i * rows : (i + 1) * rows] if gone else None
            if longest <= converters[i].taken:
                found.append(StateColumn(values, mask))
            else:
                found.append(self._column(values, mask, converters[i]))
        return tuple(found)

    def _column(self, text: pa.Array, missing: Mask | None, converter: _Converter) -> StateColumn:
        try:
            return StateColumn(converter.convert(text), missing)
        except DecodeError as error:
            errors = errors_by_row(converter.convert, text, error)
        for at, found in errors.items():
            self._add(at, found, self.table.columns[converter.column].name)
        return ABSENT

    def _add(self, at: int, error: DecodeError, name: str) -> None:
        row = int(self.rows[at])

        def placed(row: int) -> TrailgateError:
            found = self.records.error(row, error.problem, error.hint)
            found.where = replace(found.where, raw=error.where.raw)
            return found.located(table=self.table.name, field=name)

        self.add(np.array([row]), placed)

    def _refuse_rows(self, rows: Longs, problem: str, name: str | None, hint: str = "") -> None:
        def error(row: int) -> TrailgateError:
            return self.records.error(row, problem, hint, table=self.table.name, field=name)

        self.add(self.rows[rows], error)


def _planned(
    rule: Rule, fields: Mapping[str, int], columns: Mapping[str, int], *, deletes: bool
) -> list[int]:
    """Return what a rule gives: fields for each image, and the column that it names itself.

    What has no prefix is of the before image of deletes, and of the after image of others; conditions without one are of both.
    """

    def field(names: Sequence[str], never_found: int) -> int:
        own = next((name for name in names if name in rule.values), None)
        return kernels.NO_FIELD if own is None else fields.get(own, never_found)

    found = []
    for image in (_BEFORE, _AFTER):
        names = (image + "value", "value") if (image == _BEFORE) == deletes else (image + "value",)
        found.append(field(names, kernels.NEVER_FOUND))
        conditions = ((image + what, what) for what in ("isnull", "ismissing"))
        found += [field(names, kernels.NO_FIELD) for names in conditions]
    name = rule.values.get("name")
    written = (
        columns.get(name.name.casefold(), UNNAMED) if isinstance(name, ValueSource) else UNNAMED
    )
    return [*found, written]
