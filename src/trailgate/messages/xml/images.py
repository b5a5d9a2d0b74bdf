"""The before and after images of operations, from the columns that rules found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.messages.parsing.record_groups import MessageErrors
from trailgate.messages.xml.cell_groups import CellGroup, Side
from trailgate.messages.xml.findings import Places
from trailgate.messages.xml.kernels import cells as kernels
from trailgate.messages.xml.options import XmlOptions
from trailgate.messages.xml.records import XmlRecords
from trailgate.messages.xml.rules import Rule
from trailgate.model.changes import ABSENT, DELETE, INSERT, TRUNCATE, Image
from trailgate.model.tables import Table
from trailgate.operations.values import Convert, parser_for


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
        operation = records.findings.operation
        group.find_cells(operation, records.column_words("name"), records.column_words("index"))
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
            absent if side is None else group.image(side, records.findings.text, converters)
            for side in sides
        )
        return before, after

    def _converters_of(self, table: Table) -> tuple[Convert, ...]:
        if table.name not in self._converters:
            self._converters[table.name] = tuple(map(parser_for, table.columns))
        return self._converters[table.name]


class _XmlGroup(CellGroup[XmlRecords]):
    """Operations whose images are made by rules."""

    def side(self, passes: Sequence[_Pass]) -> Side:
        """Return the cells of an image."""
        count = len(self.cells)
        start, length = np.zeros(count, np.int64), np.full(count, kernels.MISSING)
        columns = self.records.findings.columns
        for name, by, meaning in passes:
            places = columns.values.get(name)
            if meaning is None:
                own = places or Places(*np.full((2, len(columns)), -1))
                kernels.put_values(
                    self.cells, columns.rule, by, own.starts, own.lengths, start, length
                )
            elif places is not None:
                kernels.mark_cells(self.cells, columns.rule, by, places.lengths, meaning, length)
        return self.placed(start, length)


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
