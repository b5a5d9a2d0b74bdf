"""Numbers as digits of a fixed width."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets
from trailgate.columnar.kernels.compiled import kernel

HALF: Final = 5  # digits: 32 bit division is several times faster than 64 bit
LIMIT: Final = 10**HALF
ZERO: Final = ord("0")


@kernel(writes=("texts",))
def write_digits(numbers: Longs, at: int, width: int, texts: Octets) -> int:
    """Write numbers as ten digits at a place in rows of ``width`` bytes; return the first that is not of ten digits, or -1."""
    for row in range(len(numbers)):
        number = numbers[row]
        if number < 0 or number >= LIMIT * LIMIT:
            return row
        upper = np.uint32(np.uint64(number) // np.uint64(LIMIT))
        lower = np.uint32(np.uint64(number) - np.uint64(upper) * np.uint64(LIMIT))
        place = row * width + at
        for digit in range(HALF - 1, -1, -1):
            rest = upper // np.uint32(10)
            texts[place + digit] = ZERO + upper - rest * np.uint32(10)
            upper = rest
            rest = lower // np.uint32(10)
            texts[place + HALF + digit] = ZERO + lower - rest * np.uint32(10)
            lower = rest
    return -1
