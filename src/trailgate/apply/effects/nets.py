"""The net effect of operations on each key of a target table, in whole columns.

A key whose operations follow one another as they must is *clean*: one pass finds its first, last and last deleting operation, and each column's value is the one that was
logged last after the last delete. All other keys, those that operations move among them, are replayed row by row (``replay.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import pyarrow as pa

from trailgate.apply.effects.kernels import NONE, find_last_logged, scan_keys
from trailgate.apply.effects.operations import TargetOperations, join_arrays
from trailgate.apply.effects.tables import TargetTable
from trailgate.arrays import Longs, Mask, Octets
from trailgate.model.changes import ABSENT, DELETE, INSERT, KEY_UPDATE, Image, StateColumn


class RowEffect(IntEnum):
    """What becomes of a row.

    INSERT: it is there, with these values, and was not. PATCH: it has these values in the columns that are not missing. REPLACE: it has these values, and none of
    those before. DELETE: it is gone.
    """

    INSERT = 0
    PATCH = 1
    REPLACE = 2
    DELETE = 3


@dataclass(frozen=True, slots=True)
class NetChanges:
    """Net effects on the rows of a target table, one slot a key.

    ``expected``: the operations take it that the row is there before them. ``first`` and ``last`` are the first and the last operation on the key, ``leading`` how many there are before it
    is inserted. ``key`` are the key's columns and ``values`` all columns.
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
        """Return the effects whose slot in ``keep`` is set."""
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
        """Return the keys, as columns of their names."""
        return pa.table(list(self.key), names=list(self.table.key_names))


def no_net_changes(table: TargetTable) -> NetChanges:
    """Return effects on no row."""
    none = np.zeros(0, np.int64)
    kinds = [table.columns[at].type for at in table.key]
    return NetChanges(
        table,
        none.astype(np.uint8),
        none.astype(bool),
        none,
        none,
        none,
        tuple(pa.nulls(0, kind) for kind in kinds),
        (ABSENT,) * len(table.columns),
    )


def encode_keys(columns: Sequence[pa.Array]) -> tuple[Longs, int]:
    """Return a number for each row, the same where all columns are equal, and how many numbers there are."""
    codes, count = _codes(columns[0])
    for column in columns[1:]:
        more, size = _codes(column)
        codes, count = _codes(pa.array(codes * size + more))
    return codes, count


def _codes(column: pa.Array) -> tuple[Longs, int]:
    found = column.dictionary_encode(null_encoding="encode")
    return found.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(found.dictionary)


def compute_net_changes(operations: TargetOperations) -> tuple[NetChanges, Longs]:
    """Return the effects on clean keys, and which of them each operation has a part in; -1 for one that is to be replayed.

    There is no truncate among the operations.
    """
    rows, table = len(operations), operations.table
    moves = np.flatnonzero(operations.op_type == KEY_UPDATE)
    picked = pa.array(moves)
    both = [
        join_arrays([key, old.take(picked)]) if len(moves) else key
        for key, old in zip(operations.key, operations.old_key, strict=True)
    ]
    codes, count = encode_keys(both)
    key = np.ascontiguousarray(codes[:rows])
    old_key = key.copy()
    old_key[moves] = codes[rows:]
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
    fresh = operations.op_type[first] == INSERT
    effect = np.where(fresh, RowEffect.INSERT, RowEffect.PATCH)
    effect[deleted] = RowEffect.REPLACE
    effect[operations.op_type[last] == DELETE] = RowEffect.DELETE
    found = np.full(count, NONE)

    def column(one: StateColumn) -> StateColumn:
        if one.values is None:
            return ABSENT
        found[:] = NONE
        find_last_logged(
            key, np.zeros(0, bool) if one.missing is None else one.missing, last_delete, found
        )
        own = found[clean]
        missing = own == NONE
        if not missing.any():
            return StateColumn(one.values.take(pa.array(own)))
        return StateColumn(one.values.take(pa.array(own, mask=missing)), missing)

    nets = NetChanges(
        table,
        effect.astype(np.uint8),
        ~fresh,
        first,
        last,
        leading[clean],
        tuple(column.take(pa.array(first)) for column in operations.key),
        tuple(map(column, operations.values)),
    )
    number = np.full(count, NONE)
    number[clean] = np.arange(len(clean))
    return nets, np.minimum(number[key], number[old_key])
