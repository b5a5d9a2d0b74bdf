"""Loops over rows: select rows of a string column, and group rows by equal keys without sorting the keys."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.compiling import kernel
from trailgate.columnar.gather_kernels import MAX_INT32, OUTSIDE, TOO_MANY
from trailgate.columnar.word_kernels import copy_value

FULL: Final = -1


@kernel(writes=("codes", "known", "sizes"))
def number_keys(keys: Longs, codes: Longs, known: Longs, sizes: Longs) -> int:
    """Write a code for the key of each row: the distinct keys of the rows are numbered in order of appearance.

    ``known[code]`` becomes the key with this code, and ``sizes[code]`` the number of its rows.
    Returns the number of distinct keys, or ``FULL`` if ``known`` has no room for them.
    """
    # Example: the keys 7 7 3 7 give codes = 0 0 1 0, known = 7 3 and sizes = 3 1. Most rows have the
    # key of the row before, and the loop over the known keys is short, because they are few.
    count = code = 0
    for row in range(len(keys)):
        if count == 0 or known[code] != keys[row]:
            code = 0
            while code < count and known[code] != keys[row]:
                code += 1
            if code == count:
                if count == len(known):
                    return FULL
                known[count], sizes[count] = keys[row], 0
                count += 1
        codes[row] = code
        sizes[code] += 1
    return count


@kernel(writes=("rows", "next_place"))
def order_rows(codes: Longs, next_place: Longs, rows: Longs) -> None:
    """Write the rows sorted by their codes. Rows with the same code keep their order.

    Before the call, ``next_place[code]`` is the index in ``rows`` at which the rows of this code
    begin; after it, the index at which they end.
    """
    for row in range(len(codes)):
        code = codes[row]
        rows[next_place[code]] = row
        next_place[code] += 1


@kernel(writes=("taken",))
def measure_selected_rows(offsets: Offsets, size: int, rows: Longs, taken: Offsets) -> int:
    """Write the Arrow offsets of the selected rows of a string column. Return the sum of their lengths, ``OUTSIDE`` or ``TOO_MANY``.

    ``size`` is the number of data bytes of the column.
    """
    # Example: of the offsets 0 3 4 9, the rows 2 and 0 have the sizes 5 and 3: taken = 0 5 8.
    total = 0
    taken[0] = 0
    for at in range(len(rows)):
        row = rows[at]
        if row < 0 or row + 1 >= len(offsets):
            return OUTSIDE
        start, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if start < 0 or end < start or end > size:
            return OUTSIDE
        total += end - start
        if total > MAX_INT32:
            return TOO_MANY
        taken[at + 1] = total
    return total


@kernel(writes=("out",))
def copy_selected_rows(
    data: Octets, offsets: Offsets, rows: Longs, taken: Offsets, out: Octets
) -> None:
    """Copy the selected rows that ``measure_selected_rows`` has checked to a new string column. ``out`` has ``SPARE`` more bytes than their values."""
    for at in range(len(rows)):
        to = np.int64(taken[at])
        copy_value(data, np.int64(offsets[rows[at]]), np.int64(taken[at + 1]) - to, out, to)
