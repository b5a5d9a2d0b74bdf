"""Values scattered in a buffer, copied into Arrow's offsets and data."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.kernels.compiled import kernel
from trailgate.columnar.kernels.words import SPARE, copy_value, high_bits

MAX_INT32: Final = 2**31 - 1  # Arrow's binary and string arrays count bytes in int32
OUTSIDE: Final = -1
TOO_MANY: Final = -2


@kernel(writes=("offsets",))
def measure(starts: Longs, ends: Longs, nulls: Mask, size: int, offsets: Offsets) -> int:
    """Write Arrow's offsets of the values [start, end) of ``size`` bytes; return the sum of their lengths.

    ``nulls`` is empty or has an item a row; the places of a null row are not looked at. Returns
    ``OUTSIDE`` for a value that is not within the bytes, ``TOO_MANY`` for more than int32 counts.
    """
    total = 0
    offsets[0] = 0
    for row in range(len(starts)):
        if len(nulls) == 0 or not nulls[row]:
            start, end = starts[row], ends[row]
            if start < 0 or end < start or end > size:
                return OUTSIDE
            total += end - start
            if total > MAX_INT32:
                return TOO_MANY
        offsets[row + 1] = total
    return total


@kernel()
def longest(offsets: Offsets) -> int:
    """Return the bytes of the longest value, 0 for none."""
    most = np.int32(0)
    for row in range(len(offsets) - 1):
        most = max(most, offsets[row + 1] - offsets[row])
    return int(most)


@kernel(writes=("out",))
def copy(data: Octets, starts: Longs, offsets: Offsets, out: Octets) -> bool:
    """Copy the values that ``measure`` found within the data; return whether all bytes are ASCII.

    ``out`` has ``SPARE`` bytes more than the values: copies run over the end of a value, and the next value
    overwrites what is too much. Bytes after the data are never read.
    """
    for row in range(len(starts)):
        at, size = np.int64(offsets[row]), np.int64(offsets[row + 1]) - np.int64(offsets[row])
        copy_value(data, starts[row], size, out, at)
    return bool(high_bits(out, np.int64(offsets[-1])) < 128)


@kernel(writes=("taken",))
def measure_rows(offsets: Offsets, size: int, rows: Longs, taken: Offsets) -> int:
    """Write the offsets of rows of a column of ``size`` bytes; return the sum of their lengths, ``OUTSIDE`` or ``TOO_MANY``."""
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
def copy_rows(data: Octets, offsets: Offsets, rows: Longs, taken: Offsets, out: Octets) -> None:
    """Copy the rows that ``measure_rows`` found within the data; ``out`` has ``SPARE`` bytes more than they."""
    for at in range(len(rows)):
        to = np.int64(taken[at])
        copy_value(data, np.int64(offsets[rows[at]]), np.int64(taken[at + 1]) - to, out, to)


@kernel()
def unmarked(data: Octets, offsets: Offsets, width: int, mark: int) -> int:
    """Return the first row in which the first byte ``mark`` is not at ``width``, or -1."""
    for row in range(len(offsets) - 1):
        start, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if start < 0 or end > len(data) or end - start <= width or data[start + width] != mark:
            return row
        found = 0
        for at in range(start, start + width):
            found += data[at] == mark
        if found:
            return row
    return -1


@kernel(writes=("placed", "out"))
def pair_values(
    data: Octets,
    offsets: Offsets,
    others: Octets,
    other_offsets: Offsets,
    between: int,
    placed: Offsets,
    out: Octets,
) -> int:
    """Copy the values of two columns, row by row, with a byte between; return the sum of their lengths, or ``OUTSIDE``.

    ``placed`` has an item more than rows; ``out`` has ``SPARE`` bytes more than all.
    """
    to = np.int64(0)
    placed[0] = 0
    for row in range(len(placed) - 1):
        start, other = np.int64(offsets[row]), np.int64(other_offsets[row])
        size, more = offsets[row + 1] - start, other_offsets[row + 1] - other
        if start < 0 or size < 0 or start + size > len(data):
            return OUTSIDE
        if other < 0 or more < 0 or other + more > len(others):
            return OUTSIDE
        last = to + size + 1 + more
        if last > min(len(out) - SPARE, MAX_INT32):
            return OUTSIDE
        copy_value(data, start, size, out, to)
        out[to + size] = between
        copy_value(others, other, more, out, to + size + 1)
        to = last
        placed[row + 1] = to
    return int(to)


@kernel(writes=("placed", "out"))
def interleave(
    data: Octets, offsets: Offsets, columns: int, kept: Mask, placed: Offsets, out: Octets
) -> int:
    """Copy the values of columns, which follow one another, row by row; return the sum of their lengths, or ``OUTSIDE``.

    ``kept`` is empty, or states of each value, row by row, whether it is copied. ``placed`` becomes Arrow's offsets
    and has one item more than values are copied; ``out`` has ``SPARE`` bytes more than all values.
    """
    rows = (len(offsets) - 1) // columns
    to = np.int64(0)
    at = 0
    placed[0] = 0
    for row in range(rows):
        for column in range(columns):
            if len(kept) and not kept[row * columns + column]:
                continue
            start = np.int64(offsets[column * rows + row])
            size = np.int64(offsets[column * rows + row + 1]) - start
            if start < 0 or size < 0 or start + size > len(data) or to + size > len(out) - SPARE:
                return OUTSIDE
            copy_value(data, start, size, out, to)
            to += size
            at += 1
            placed[at] = to
    return int(to)
