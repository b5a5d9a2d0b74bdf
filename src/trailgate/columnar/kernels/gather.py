"""The loops that copy values scattered in a buffer into the offsets and data of an Arrow column."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.compiling import kernel
from trailgate.columnar.kernels.words import SPARE, copy_value, high_bits

MAX_INT32: Final = 2**31 - 1  # Arrow's binary and string arrays count bytes in int32
OUTSIDE: Final = -1
TOO_MANY: Final = -2


@kernel(writes=("offsets",))
def measure(starts: Longs, ends: Longs, nulls: Mask, size: int, offsets: Offsets) -> int:
    """Write the Arrow offsets of the values [start, end) in ``size`` bytes. Return the sum of their lengths.

    ``nulls`` is empty or has one item per row; the span of a null row is ignored. Returns
    ``OUTSIDE`` if a value is not within the bytes, and ``TOO_MANY`` if the sum exceeds int32.
    """
    # Example: the values [2, 5), null and [5, 6) have the offsets 0 3 3 4.
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
    """Return the size of a column's longest value by its Arrow offsets, or 0 if there are none."""
    most = np.int32(0)
    for row in range(len(offsets) - 1):
        most = max(most, offsets[row + 1] - offsets[row])
    return int(most)


@kernel(writes=("out",))
def copy(data: Octets, starts: Longs, offsets: Offsets, out: Octets) -> bool:
    """Copy the values that ``measure`` has checked. Return whether all bytes are ASCII.

    ``out`` has ``SPARE`` more bytes than the values: a copy may write beyond its value, and the
    copy of the next value overwrites that. Bytes after the data are never read.
    """
    for row in range(len(starts)):
        at, size = np.int64(offsets[row]), np.int64(offsets[row + 1]) - np.int64(offsets[row])
        copy_value(data, starts[row], size, out, at)
    return bool(high_bits(out, np.int64(offsets[-1])) < 128)


@kernel(writes=("taken",))
def measure_rows(offsets: Offsets, size: int, rows: Longs, taken: Offsets) -> int:
    """Write the Arrow offsets of a selection of a string column's rows. Return the sum of their lengths, ``OUTSIDE`` or ``TOO_MANY``.

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
def copy_rows(data: Octets, offsets: Offsets, rows: Longs, taken: Offsets, out: Octets) -> None:
    """Copy the rows that ``measure_rows`` has checked. ``out`` has ``SPARE`` more bytes than their values."""
    for at in range(len(rows)):
        to = np.int64(taken[at])
        copy_value(data, np.int64(offsets[rows[at]]), np.int64(taken[at + 1]) - to, out, to)


@kernel()
def unmarked(data: Octets, offsets: Offsets, width: int, mark: int) -> int:
    """Return the first row in which the first ``mark`` is not at offset ``width``, or -1."""
    for row in range(len(offsets) - 1):
        start, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if start < 0 or end > len(data) or end - start <= width or data[start + width] != mark:
            return row
        earlier = 0
        for at in range(start, start + width):
            earlier += data[at] == mark
        if earlier:
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
    """Join the values of two string columns row by row, with a byte between. Return the total size, or ``OUTSIDE``.

    ``placed`` becomes the Arrow offsets, with one item more than rows. ``out`` has ``SPARE`` more
    bytes than the result.
    """
    # Example: (a, b) and (1, 2) with ":" become a:1 b:2 with the offsets 0, 3, 6.
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
    """Gather the values of several string columns into one column, row by row. Return the total size, or ``OUTSIDE``.

    ``offsets`` has one column after the other: column c has value c * rows + r in row r. ``kept``
    is empty, or states for each value, row by row, whether it is copied. ``placed`` becomes the
    Arrow offsets, with one item more than copied values. ``out`` has ``SPARE`` more bytes than all
    values.
    """
    # Example: the columns (a, b) and (1, 2) are stored as a b 1 2 and written as a 1 b 2.
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
