"""Fixed-width records as columns with places, whichever notation defines them.

A copybook's columns follow the one rule of ``definitions.copybook_tables``. Those of a definitions file lie
at their Fetch Offset for their External Length (capture properties §5.3); those of a header, and of a
table that the properties define, follow each other without gaps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate, zip_longest
from typing import Final

from trailgate.cobol.copybook.flat_columns import FlatColumn, flat_columns
from trailgate.cobol.copybook.layouts import Field, Layout, Usage
from trailgate.definitions.copybook_tables import column_of
from trailgate.definitions.defgen.record_layout import complete, layout_fault
from trailgate.errors import DefinitionError, Where
from trailgate.model.tables import Column, Table
from trailgate.model.types import Family

_PLACES: Final = (
    "A column is at its fetch offset (attribute 4) for its external length (attribute 3); "
    "the record has the record length"
)


@dataclass(frozen=True, slots=True)
class Slot:
    """One column, and the field that holds its value, from ``offset`` on."""

    column: Column
    field: Field
    offset: int

    @property
    def end(self) -> int:
        """Return where the field ends."""
        return self.offset + self.field.size

    def moved(self, by: int) -> Slot:
        """Return the slot that many units further."""
        return replace(self, offset=self.offset + by)


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The columns of a record and its size; ``defined`` is the table of a definitions file."""

    name: str
    slots: tuple[Slot, ...]
    size: int
    defined: Table | None = None

    def slot(self, name: str) -> Slot:
        """Return the slot of a column, named as the layout names it."""
        return next(slot for slot in self.slots if slot.column.name == name)

    def table(self, carried: Iterable[Slot] = ()) -> Table:
        """Return the table that the record is, with the carried columns of a header first."""
        leading = tuple(slot.column for slot in carried)
        if self.defined is not None and not leading:
            return self.defined
        return complete(Table(self.name, (*leading, *(slot.column for slot in self.slots))))


def from_copybook(layout: Layout, name: str, *, redefines: bool, text_bytes: int) -> RecordLayout:
    """Return a copybook's record; fields that redefine others are columns only if asked for.

    A text of n characters has room for n times ``text_bytes`` in the trail.
    """
    root = layout.root if redefines else _without_redefinitions(layout.root)
    flat = flat_columns(replace(layout, root=root))
    slots = tuple(Slot(_column(column, text_bytes), column.field, column.offset) for column in flat)
    return RecordLayout(name, slots, layout.size)


def _column(flat: FlatColumn, text_bytes: int) -> Column:
    column = column_of(flat)
    if flat.field.usage is not Usage.TEXT or column.family is not Family.TEXT or text_bytes == 1:
        return column
    return replace(column, internal_length=text_bytes * column.external_length)


def _without_redefinitions(field: Field) -> Field:
    kept = tuple(_without_redefinitions(c) for c in field.children if c.redefines is None)
    return replace(field, children=kept)


def from_table(table: Table) -> RecordLayout:
    """Return a table's record as its definition places the columns.

    Raises DefinitionError for a column that overlaps another one or ends after the record.
    """
    slots = tuple(_slot(column, column.fetch_offset) for column in table.columns)
    by_place = sorted(slots, key=lambda slot: slot.offset)
    for slot, after in zip_longest(by_place, by_place[1:]):
        limit = table.record_length if after is None else after.offset
        if slot.end > limit:
            begins = "the record ends" if after is None else f"column {after.column.name} begins"
            problem = f"the column ends at {slot.end}, and {begins} at {limit}"
            where = Where(table=table.name, field=slot.column.name)
            raise DefinitionError(problem, where=where, hint=_PLACES)
    return RecordLayout(table.name, slots, table.record_length, table)


def placement_note(layout: RecordLayout) -> str | None:
    """Return where a definitions file places columns otherwise than Defgen does, or None."""
    fault = None if layout.defined is None else layout_fault(layout.defined)
    if layout.defined is None or fault is None:
        return None
    what = "the record length"
    if fault.column is not None:
        what = f"the offset of {layout.defined.columns[fault.column].name}"
    return (
        f"{layout.name}: {what} is {fault.stated} in the definitions, where Defgen would have "
        f"{fault.computed}; columns are taken where the definitions state them"
    )


def in_a_row(table: Table) -> RecordLayout:
    """Return a table's record whose columns follow each other without gaps."""
    ends = list(accumulate((c.external_length for c in table.columns), initial=0))
    slots = tuple(_slot(c, at) for c, at in zip(table.columns, ends, strict=False))
    return RecordLayout(table.name, slots, ends[-1], table)


def _slot(column: Column, offset: int) -> Slot:
    field = Field(column.name, Usage.TEXT, offset, column.external_length)
    return Slot(column, field, offset)
