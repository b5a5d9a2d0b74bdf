"""The loops that copy values scattered in a buffer into the offsets and data of an Arrow column."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.compiling import kernel
from trailgate.columnar.word_kernels import SPARE, copy_value, high_bits

MAX_INT32: Final = 2**31 - 1  # Arrow's binary and string arrays count bytes in int32
OUTSIDE: Final = -1
TOO_MANY: Final = -2


@kernel(writes=("offsets",))
def measure_values(starts: Longs, ends: Longs, nulls: Mask, size: int, offsets: Offsets) -> int:
    """Write the Arrow offsets of the scattered values [start, end) in a buffer of ``size`` bytes. Return the sum of their lengths.

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


@kernel(writes=("out",))
def copy_values(data: Octets, starts: Longs, offsets: Offsets, out: Octets) -> bool:
    """Copy the scattered values that ``measure_values`` has checked to the data of an Arrow column. Return whether all bytes are ASCII.

    ``out`` has ``SPARE`` more bytes than the values: a copy may write beyond its value, and the
    copy of the next value overwrites that. Bytes after the data are never read.
    """
    for row in range(len(starts)):
        at, size = np.int64(offsets[row]), np.int64(offsets[row + 1]) - np.int64(offsets[row])
        copy_value(data, starts[row], size, out, at)
    return bool(high_bits(out, np.int64(offsets[-1])) < 128)


@kernel(writes=("placed", "out"))
def interleave_columns(
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
