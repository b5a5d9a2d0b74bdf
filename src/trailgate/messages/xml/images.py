"""The before and after images of operations, from the columns that rules found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from trailgate.arrays import Longs
from trailgate.messages.parsing.record_groups import MessageErrors
from trailgate.messages.properties.values import ValueSource
from trailgate.messages.xml.cell_columns import UNNAMED, CellColumns, columns_by_name
from trailgate.messages.xml.cell_groups import CellConverter, CellGroup, Placed
from trailgate.messages.xml.findings import Findings, Found
from trailgate.messages.xml.kernels import cells as kernels
from trailgate.messages.xml.options import XmlOptions
from trailgate.messages.xml.records import XmlRecords
from trailgate.messages.xml.rules import Rule
from trailgate.model.changes import ABSENT, DELETE, INSERT, TRUNCATE, UPDATE, Image
from trailgate.model.tables import Table
from trailgate.operations.values import bytes_unchecked, parser_for

_NO_WORDS: Final = np.zeros(0, np.int64)
_BEFORE, _AFTER = "before.", "after."
_SIDES: Final = {INSERT: (1, 2), DELETE: (0, 1)}  # the images that others than updates have


class XmlImageReader:
    """Reads images by one set of options; what a table's columns decide is made once and kept."""

    def __init__(self, options: XmlOptions) -> None:
        self._rules = options.all_rules()
        self._indexed = any("index" in rule.values for rule in self._rules)
        self._converters: dict[str, tuple[CellConverter, ...]] = {}
        self._fields: Mapping[str, int] = {}
        self._plans: dict[tuple[str, int], Longs] = {}

    def images(
        self, records: XmlRecords, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Return before and after of operations; what is wrong is added to the errors."""
        absent = (ABSENT,) * len(table.columns)
        if kind == TRUNCATE:
            return absent, absent
        first, last = _SIDES.get(kind, (0, 2))
        group = _XmlGroup(records, table, rows, errors)
        plan = self._plan(records.findings.columns, table, kind)
        placed = group.placed(plan, (first, last), indexed=self._indexed)
        group.check_keys(placed, 0 if kind == DELETE else last - first - 1)
        columns = group.columns(
            placed, records.findings.text, self._converters_of(table) * (last - first)
        )
        before = columns[: len(absent)] if first == 0 else absent
        after = columns[-len(absent) :] if last > 1 else absent
        return before, after

    def _converters_of(self, table: Table) -> tuple[CellConverter, ...]:
        if table.name not in self._converters:
            self._converters[table.name] = tuple(
                CellConverter(i, parser_for(column), bytes_unchecked(column))
                for i, column in enumerate(table.columns)
            )
        return self._converters[table.name]

    def _plan(self, found: Found, table: Table, kind: int) -> Longs:
        """Return what each rule gives, as ``place_cells`` takes it."""
        if self._fields is not found.fields:
            self._fields, self._plans = found.fields, {}
        plan = self._plans.get((table.name, kind))
        if plan is None:
            known = columns_by_name(table)
            rows = [_planned(rule, found.fields, known, kind) for rule in self._rules]
            plan = np.array(rows, np.int64).reshape(-1)
            self._plans[table.name, kind] = plan
        return plan


class _XmlGroup(CellGroup[XmlRecords]):
    """Operations of one table and type."""

    @property
    def findings(self) -> Findings:
        """Return what was found in the batch."""
        return self.records.findings

    def placed(self, plan: Longs, sides: tuple[int, int], *, indexed: bool) -> Placed:
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
        return Placed(starts, lengths)


def _planned(
    rule: Rule, fields: Mapping[str, int], columns: Mapping[str, int], kind: int
) -> list[int]:
    """Return what a rule gives operations of a type, as ``place_cells`` takes it.

    What has no prefix is of the before image of deletes, and of the after image of others; conditions without one are of both.
    Where ``before.value``, or ``after.value`` of an update, finds no element, the column is missing: others are NULL (decision 0047).
    """

    def field(names: Sequence[str]) -> int:
        own = next((name for name in names if name in rule.values), "")
        return fields.get(own, kernels.NO_FIELD)

    found = []
    for image in (_BEFORE, _AFTER):
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
