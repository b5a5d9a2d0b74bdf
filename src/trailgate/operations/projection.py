"""Which columns are returned of changes: of the operations table, or of one table in its types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa

from trailgate.errors import OptionError, did_you_mean
from trailgate.model.changes import ChangeBatch, ChangeBlock
from trailgate.model.operations_schema import OPERATIONS_SCHEMA
from trailgate.model.tables import Table
from trailgate.operations.one_definition import in_columns_of
from trailgate.operations.operations_table import to_operations
from trailgate.operations.typed_shape import to_typed, typed_schema


def names_of(schema: pa.Schema, columns: Iterable[str] | None) -> tuple[str, ...]:
    """Return the names of columns as a schema has them, compared without case; None: all.

    Raises OptionError for an unknown one, with the nearest known name.
    """
    if columns is None:
        return tuple(schema.names)
    known = {name.casefold(): name for name in schema.names}
    for name in (wanted := tuple(columns)):
        if name.casefold() not in known:
            hint = did_you_mean(name, schema.names) or f"Known: {', '.join(schema.names)}"
            raise OptionError(f"there is no column {name}", hint=hint)
    return tuple(known[name.casefold()] for name in wanted)


@dataclass(frozen=True, slots=True)
class Projection:
    """Columns of the operations table, or of one table in its typed shape.

    ``needed`` are the columns of tables that have to be decoded, in lower case; None: all of them. ``table`` is
    the table asked for with these columns alone, and ``whole`` with all of them.
    """

    schema: pa.Schema
    needed: frozenset[str] | None = None
    table: Table | None = None
    whole: Table | None = None

    @classmethod
    def of(cls, table: Table | None, columns: Iterable[str] | None = None) -> Self:
        """Return the projection to some columns, None for all; raises OptionError."""
        everything = OPERATIONS_SCHEMA if table is None else typed_schema(table)
        names = names_of(everything, columns)
        schema = pa.schema([everything.field(name) for name in names])
        if table is None:
            return cls(schema, None if {"before", "after"} & set(names) else frozenset())
        if "_missing" in names:
            return cls(schema, None, table, table)
        own = [column for column in table.columns if column.name in names] or table.columns[:1]
        needed = frozenset(column.name.casefold() for column in own)
        return cls(schema, needed, replace(table, columns=tuple(own)), table)

    def rows(self, changes: ChangeBatch, also: Iterable[str] = ()) -> pa.RecordBatch:
        """Return changes as rows of these columns, and of others by which rows are chosen."""
        names = [*self.schema.names, *(name for name in also if name not in self.schema.names)]
        if self.table is None or self.whole is None:
            return _selected(to_operations(self._narrow(changes)), names)
        changes = in_columns_of(changes, self.whole)
        return _selected(to_typed(self._narrow(changes), self.table), names)

    def _narrow(self, changes: ChangeBatch) -> ChangeBatch:
        """Return changes with the columns alone that are needed."""
        if self.needed is None:
            return changes
        blocks = [_narrow(block, self.needed, self.table) for block in changes.blocks]
        return ChangeBatch(blocks, changes.rows)


def _selected(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    return batch if batch.schema.names == names else batch.select(names)


def _narrow(block: ChangeBlock, needed: frozenset[str], table: Table | None) -> ChangeBlock:
    kept = [i for i, c in enumerate(block.table.columns) if c.name.casefold() in needed]
    if table is None:
        table = replace(block.table, columns=tuple(block.table.columns[i] for i in kept))
    before, after = ([image[i] for i in kept] for image in (block.before, block.after))
    return replace(block, table=table, before=tuple(before), after=tuple(after))
