"""Compute the rows that changes write to a Delta or Iceberg table, and collect those that the table cannot hold.

Each table of a lake has its own commits, so nothing can be rolled back. Therefore all rows of a
batch are checked before the first table is written. A value is checked only if the changes write
it: an update of V alone is not refused because of W.

    effect   V        W         written
    INSERT   'a'      missing   V = 'a', W = NULL
    PATCH    'a'      missing   V = 'a'
    DELETE   missing  missing   nothing
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.meta_columns import POSITION
from trailgate.apply.effects.nets import NetChanges, RowEffect, build_complete_rows
from trailgate.apply.effects.operation_errors import NULL
from trailgate.apply.targets.lake_keys import NOT_FOUND, KeyLookup
from trailgate.apply.targets.target import RefusedRows, RowRefusedError
from trailgate.arrays import Longs, Mask
from trailgate.errors import Where

NOT_NULL: Final = "the target's column {} does not allow NULL"
NULL_HINT: Final = "Allow NULL in the column, exclude the table with --tables, or discard such operations with --on-error discard"
TOO_LONG: Final = "the value is too long for a partition of a table on a disk: the name of its folder would have {} bytes, and {} are allowed"
PARTITIONS: Final = "Partition the table by another column, or not at all"
MOST_PATH: Final = 255  # bytes of a folder's name, on the file systems of Linux, macOS and Windows


class WrittenColumn(NamedTuple):
    """The values of a column in changes, and a mask of the rows to which the changes write them."""

    values: pa.Array
    written: Mask


def get_written_column(nets: NetChanges, at: int) -> WrittenColumn:
    """Return what changes write to the column at an index. A column that a new row lacks is written as NULL."""
    is_new, table, one = _mask_new(nets), nets.table, nets.values[at]
    if nets.key and at in table.key:  # a patched row has its key already
        return WrittenColumn(nets.key[table.key.index(at)], is_new)
    values = pa.nulls(len(nets), table.columns[at].type) if one.values is None else one.values
    is_patched = (nets.effect == RowEffect.PATCH) & ~one.is_missing(len(nets))
    return WrittenColumn(values, is_new | is_patched)


def _mask_new(nets: NetChanges) -> Mask:
    is_new: Mask = np.isin(nets.effect, (RowEffect.INSERT, RowEffect.REPLACE))
    return is_new


class UnfitRows:
    """Collects the first error of each row in ``nets`` that a Delta or Iceberg table cannot hold."""

    def __init__(self, nets: NetChanges) -> None:
        self._nets = nets
        self._errors: dict[int, RowRefusedError] = {}

    def add(self, rows: Longs, error: RowRefusedError) -> None:
        """Add an error of rows, by their indexes in the changes."""
        for row in rows.tolist():
            self._errors.setdefault(row, error.with_place(table=str(self._nets.table)))

    def add_nulls(self, at: int) -> None:
        """Add the rows in which the changes write NULL to the column at an index, which does not allow it."""
        name = self._nets.table.columns[at].name
        values, written = get_written_column(self._nets, at)
        rows = np.flatnonzero(written & values.is_null().to_numpy(zero_copy_only=False))
        where = Where(field=name)
        error = RowRefusedError(NOT_NULL.format(name), where=where, hint=NULL_HINT)
        self.add(rows, error.with_numbers(NULL))

    def add_long_partitions(self, at: int, name: str, parts: pa.Array) -> None:
        """Add the rows whose partition would be a folder with too long a name, ``NAME=VALUE``.

        ``parts`` are the partition values of the rows, made from the column at an index.
        """
        if not pa.types.is_string(parts.type):
            return  # the text of other values is short
        _, written = get_written_column(self._nets, at)
        # Both libraries write a character as at most three bytes for each byte of UTF-8.
        may_be_long = pc.greater(pc.binary_length(parts), (MOST_PATH - 3 * len(name.encode())) // 3)
        for row in np.flatnonzero(written & np.asarray(pc.fill_null(may_be_long, False))):
            size = len(quote(name, safe="")) + 1 + len(quote(parts[int(row)].as_py(), safe=""))
            if size > MOST_PATH:
                problem = TOO_LONG.format(size, MOST_PATH)
                where = Where(field=self._nets.table.columns[at].name)
                refusal = RowRefusedError(problem, where=where, hint=PARTITIONS)
                self.add(np.array([row]), refusal)

    def collect(self) -> RefusedRows:
        """Return the rows with their errors, in the order of the changes."""
        rows = sorted(self._errors)
        nets = self._nets
        # A table of operations (--mode append) has no key.
        keys = nets.keys() if nets.key else build_complete_rows(nets).select([POSITION])
        return RefusedRows(
            keys.take(pa.array(rows, pa.int64())),
            [self._errors[row] for row in rows],
            [""] * len(rows),
        )


def build_new_rows(nets: NetChanges) -> pa.Table:
    """Build the complete rows that changes add to a lake table: those with the effects INSERT and REPLACE."""
    return build_complete_rows(nets.where(_mask_new(nets)))


def build_written_rows(
    nets: NetChanges, fetch: Callable[[pa.Table], pa.Table]
) -> tuple[pa.Table, Longs]:
    """Build the complete rows that changes write, new and patched ones, and return for each the index of its change.

    ``fetch`` reads the table's rows with given keys. Patched rows get the values that they keep from
    these.
    """
    is_patched = nets.effect == RowEffect.PATCH
    new, index = build_new_rows(nets), np.flatnonzero(_mask_new(nets))
    if not is_patched.any():
        return new, index
    patches = nets.where(is_patched)
    stored = fetch(patches.keys())
    found = KeyLookup(patches.key).find([stored[name] for name in nets.table.key_names])
    stored, found = stored.filter(pa.array(found != NOT_FOUND)), found[found != NOT_FOUND]
    patched = patch_rows(stored, found, patches)
    rows = pa.concat_tables([new, patched])
    return rows, np.concatenate([index, np.flatnonzero(is_patched)[found]])


def patch_rows(rows: pa.Table, found: Longs, nets: NetChanges) -> pa.Table:
    """Return the rows of a lake table after the changes: without deleted and replaced rows, and with new values in patched ones.

    ``found`` is the index of each row's change, or ``NOT_FOUND``.
    """
    # ``NOT_FOUND`` is -1, which reads the last change; the first condition makes that irrelevant.
    kept = (found == NOT_FOUND) | (nets.effect[found] == RowEffect.PATCH)
    rows, at = rows.filter(pa.array(kept)), found[kept]
    for column, one in zip(nets.table.columns, nets.values, strict=True):
        is_set = at != NOT_FOUND
        if one.values is None:
            continue
        if one.missing is not None:
            is_set &= ~one.missing[at]
        if not is_set.any():
            continue
        # Rows that are not set take a null here, and keep their value in the next lines.
        new = one.values.take(pa.array(at, mask=~is_set))
        index = rows.schema.get_field_index(column.name)
        changed = pc.if_else(pa.array(is_set), new, rows[column.name])
        rows = rows.set_column(index, rows.schema.field(index), changed)
    return rows
