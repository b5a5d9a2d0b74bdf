"""Combine the operations on each key of a target table into one net change, with array operations.

A key is *clean* if each of its operations fits the previous one: for example I U D, but not I I.
One pass over the operations finds the first, last and last deleting operation of each clean key,
and the value of each column is the last value logged after the last delete. All other keys, and
both keys of each key update, are replayed row by row (``replay``).

Example: I(a=1, b=1), U(a=2), U(b=3) of one key become one INSERT with a=2, b=3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import pyarrow as pa

from trailgate.apply.effects.kernels import NONE, find_last_logged, scan_keys
from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.row_keys import encode_keys
from trailgate.apply.effects.tables import TargetTable
from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.rows import join_arrays
from trailgate.model.changes import ABSENT, DELETE, INSERT, KEY_UPDATE, Image, StateColumn


class RowEffect(IntEnum):
    """The net change of one row of a target table.

    - INSERT: the row is new, with these values.
    - PATCH: the row gets these values in the columns that are not missing.
    - REPLACE: the row gets these values, and keeps none of its earlier ones.
    - DELETE: the row is removed.
    """

    INSERT = 0
    PATCH = 1
    REPLACE = 2
    DELETE = 3


@dataclass(frozen=True, slots=True)
class NetChanges:
    """Net changes of a target table's rows, as arrays with one element per key.

    - ``effect``: a ``RowEffect``
    - ``expected``: the operations assume that the row exists before them
    - ``first``, ``last``: the indexes of the first and last operation on the key
    - ``leading``: the number of operations on the key before its first insert (of all, if it is not
      inserted), counted by their ``weight``
    - ``key``: the key columns
    - ``values``: all columns; a value is missing if no operation logs it
    """

    table: TargetTable
    effect: Octets
    expected: Mask
    first: Longs
    last: Longs
    leading: Longs
    key: tuple[pa.Array, ...]
    values: Image

    def __len__(self) -> int:
        return len(self.effect)

    def where(self, keep: Mask) -> NetChanges:
        """Return the net changes selected by the mask ``keep``."""
        if keep.all():
            return self
        rows = np.flatnonzero(keep)
        picked = pa.array(rows)
        return replace(
            self,
            effect=self.effect[rows],
            expected=self.expected[rows],
            first=self.first[rows],
            last=self.last[rows],
            leading=self.leading[rows],
            key=tuple(column.take(picked) for column in self.key),
            values=tuple(
                StateColumn(
                    None if one.values is None else one.values.take(picked),
                    None if one.missing is None else one.missing[rows],
                )
                for one in self.values
            ),
        )

    def keys(self) -> pa.Table:
        """Return the keys of the changed rows as a table of the key columns."""
        return pa.table(list(self.key), names=list(self.table.key_names))


def no_net_changes(table: TargetTable) -> NetChanges:
    """Build empty ``NetChanges`` of a target table, for a batch that changes no row."""
    none = np.zeros(0, np.int64)
    types = [table.columns[at].type for at in table.key]
    return NetChanges(
        table=table,
        effect=none.astype(np.uint8),
        expected=none.astype(bool),
        first=none,
        last=none,
        leading=none,
        key=tuple(pa.nulls(0, key_type) for key_type in types),
        values=(ABSENT,) * len(table.columns),
    )


def _number_keys(operations: TargetOperations) -> tuple[Longs, Longs, int]:
    """Return the number of each operation's new key and old key, and the number of different keys."""
    # Old keys differ only in key updates, so only theirs are encoded, after the new keys.
    moves = np.flatnonzero(operations.op_type == KEY_UPDATE)
    picked = pa.array(moves)
    both = [
        join_arrays([key, old.take(picked)]) if len(moves) else key
        for key, old in zip(operations.key, operations.old_key, strict=True)
    ]
    codes, count = encode_keys(both)
    key = np.ascontiguousarray(codes[: len(operations)])
    old_key = key.copy()
    old_key[moves] = codes[len(operations) :]
    return key, old_key, count


def compute_net_changes(operations: TargetOperations) -> tuple[NetChanges, Longs]:
    """Compute the net changes of clean keys, and for each operation the index of its key among them.

    The index is -1 if the operation must be replayed. The operations must not include a truncate.
    """
    key, old_key, count = _number_keys(operations)
    first, last, last_delete = (np.full(count, NONE) for _ in range(3))
    leading = np.zeros(count, np.int64)
    inserted, unclean = np.zeros(count, bool), np.zeros(count, bool)
    scan_keys(
        operations.op_type,
        operations.weight,
        key,
        old_key,
        first,
        last,
        last_delete,
        leading,
        inserted,
        unclean,
    )
    clean = np.flatnonzero(~unclean)
    first, last, deleted = first[clean], last[clean], last_delete[clean] != NONE
    # A delete in the middle means that no earlier value survives: the row is replaced.
    starts_with_insert = operations.op_type[first] == INSERT
    effect = np.where(starts_with_insert, RowEffect.INSERT, RowEffect.PATCH)
    # The order of these lines matters: a key that is deleted in the middle and at the end is a
    # DELETE.
    effect[deleted] = RowEffect.REPLACE
    effect[operations.op_type[last] == DELETE] = RowEffect.DELETE
    last_logging = np.full(count, NONE)

    def column(one: StateColumn) -> StateColumn:
        if one.values is None:
            return ABSENT
        # The array is used again for each column, so it is cleared first.
        last_logging[:] = NONE
        find_last_logged(
            key,
            np.zeros(0, bool) if one.missing is None else one.missing,
            last_delete,
            last_logging,
        )
        chosen = last_logging[clean]
        missing = chosen == NONE
        if not missing.any():
            return StateColumn(one.values.take(pa.array(chosen)))
        # The value of the last operation that logs the column; null for keys none of whose
        # operations does.
        return StateColumn(one.values.take(pa.array(chosen, mask=missing)), missing)

    nets = NetChanges(
        table=operations.table,
        effect=effect.astype(np.uint8),
        expected=~starts_with_insert,
        first=first,
        last=last,
        leading=leading[clean],
        key=tuple(column.take(pa.array(first)) for column in operations.key),
        values=tuple(map(column, operations.values)),
    )
    number = np.full(count, NONE)
    number[clean] = np.arange(len(clean))
    # A key update is replayed if one of its keys is: NONE is the minimum.
    return nets, np.minimum(number[key], number[old_key])


def join_net_changes(parts: list[NetChanges]) -> NetChanges:
    """Concatenate net changes of one target table that have no key in common."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return replace(
        parts[0],
        effect=np.concatenate([part.effect for part in parts]),
        expected=np.concatenate([part.expected for part in parts]),
        first=np.concatenate([part.first for part in parts]),
        last=np.concatenate([part.last for part in parts]),
        leading=np.concatenate([part.leading for part in parts]),
        key=tuple(join_arrays([part.key[at] for part in parts]) for at in range(len(parts[0].key))),
        values=tuple(_join(parts, at) for at in range(len(parts[0].values))),
    )


def _join(parts: list[NetChanges], at: int) -> StateColumn:
    columns = [(part.values[at], len(part)) for part in parts]
    column_type = parts[0].table.columns[at].type
    if all(one.values is None for one, _ in columns):
        return ABSENT
    values = [
        pa.nulls(rows, column_type) if one.values is None else one.values for one, rows in columns
    ]
    missing = np.concatenate([one.is_missing(rows) for one, rows in columns])
    return StateColumn(join_arrays(values), missing if missing.any() else None)


def build_complete_rows(nets: NetChanges) -> pa.Table:
    """Build the complete rows of net changes, for targets that write rows: columns that were not logged are NULL."""
    columns = [
        pa.nulls(len(nets), column.type) if one.values is None else one.values
        for column, one in zip(nets.table.columns, nets.values, strict=True)
    ]
    return pa.table(columns, schema=nets.table.schema)
