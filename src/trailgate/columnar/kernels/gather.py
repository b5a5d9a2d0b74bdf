"""Values scattered in a buffer, copied into Arrow's offsets and data."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.kernels.compiled import kernel
from trailgate.columnar.kernels.words import copy_value, high_bits

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
