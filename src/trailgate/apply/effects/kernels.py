"""Compiled loops over the operations on one target table, which find the operations that make up each key's net change.

Keys are numbered from 0, so each array has one element per key or one per operation.
"""

from __future__ import annotations

from typing import Final

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.compiling import kernel
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
    """Find each key's first, last and last deleting operation, and whether the key must be replayed.

    ``leading`` is the sum of ``weight`` over the operations before the key's first insert. A key
    must be replayed (``unclean``) if an operation moves it to or from another key, if it is
    inserted although its row exists, or if it is updated or deleted after a delete.

    Example: rows 0 to 3 are I U D I of one key. The key is clean; first is 0, last is 3,
    last_delete is 2, leading is 0. I I is not clean. In D I U the delete comes before the first
    insert, so leading is 1.

    The caller fills ``first``, ``last`` and ``last_delete`` with ``NONE``, and the other outputs
    with 0 or False.
    """
    for row in range(len(op_type)):
        code, op = key[row], op_type[row]
        before = last[code]
        if op == KEY_UPDATE:
            unclean[code] = unclean[old_key[row]] = True
        elif op == INSERT:
            # The row exists already, unless the operation before was a delete.
            if before >= 0 and op_type[before] != DELETE:
                unclean[code] = True
        elif before >= 0 and op_type[before] == DELETE:
            # An update or delete of a row that was just deleted.
            unclean[code] = True
        if before < 0:
            first[code] = row
        if op == INSERT:
            inserted[code] = True
        elif not inserted[code]:
            leading[code] += weight[row]
        last[code] = row
        if op == DELETE:
            last_delete[code] = row


@kernel(writes=("last",))
def find_last_logged(key: Longs, missing: Mask, last_delete: Longs, last: Longs) -> None:
    """For each key, find the last operation after the key's last delete that logs a column.

    Fill ``last`` with ``NONE`` before the call. An empty ``missing`` means that every operation
    logs the column. Example: if one key has the operations I(a), U(b) and U(a) in rows 0 to 2, the
    result for column a is row 2, and for column b row 1.
    """
    for row in range(len(key)):
        if (len(missing) == 0 or not missing[row]) and row > last_delete[key[row]]:
            last[key[row]] = row
