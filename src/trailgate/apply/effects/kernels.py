"""Loops over the operations of one target table, by the codes of their keys."""

from __future__ import annotations

from typing import Final

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.kernels.compiled import kernel
from trailgate.model.changes import DELETE, INSERT, KEY_UPDATE

NONE: Final = -1


@kernel(writes=("first", "last", "last_delete", "leading", "inserted", "unclean"))
def scan_keys(
    op_type: Octets,
    weight: Longs,
    key: Longs,
    old_key: Longs,
    first: Longs,
    last: Longs,
    last_delete: Longs,
    leading: Longs,
    inserted: Mask,
    unclean: Mask,
) -> None:
    """Write for each key its first, last and last deleting operation, how many it has before it is inserted (by their ``weight``), and whether it must be replayed.

    A key is replayed where an operation moves it, where it is inserted while it is there, and where it is updated or deleted after it was deleted.
    As an example, I U D I of one key is clean, with the last delete in row 2; I I is not. D I U has one leading operation.
    ``first``, ``last`` and ``last_delete`` are ``NONE`` before, ``leading`` 0, ``inserted`` and ``unclean`` False.
    """
    for row in range(len(op_type)):
        code, kind = key[row], op_type[row]
        before = last[code]
        if kind == KEY_UPDATE:
            unclean[code] = unclean[old_key[row]] = True
        elif kind == INSERT:
            if before >= 0 and op_type[before] != DELETE:
                unclean[code] = True
        elif before >= 0 and op_type[before] == DELETE:
            unclean[code] = True
        if before < 0:
            first[code] = row
        if kind == INSERT:
            inserted[code] = True
        elif not inserted[code]:
            leading[code] += weight[row]
        last[code] = row
        if kind == DELETE:
            last_delete[code] = row


@kernel(writes=("found",))
def find_last_logged(key: Longs, missing: Mask, last_delete: Longs, found: Longs) -> None:
    """Write for each key the last row that logs a column, after the key's last delete; it is ``NONE`` before.

    An empty ``missing`` misses no row. As an example, of I(a) U(b) U(a) of one key, row 2 is the last one that logs a.
    """
    for row in range(len(key)):
        if (len(missing) == 0 or not missing[row]) and row > last_delete[key[row]]:
            found[key[row]] = row
