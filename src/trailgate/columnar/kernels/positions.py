"""Positions as digits."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets
from trailgate.columnar.kernels.compiled import inner, kernel

HALF: Final = 5  # digits: 32 bit division is several times faster than 64 bit
DIGITS: Final = 2 * HALF
LIMIT: Final = 10**HALF
ZERO: Final = ord("0")
TEN: Final = np.uint32(10)


@inner
def _write_number(number: int, texts: Octets, place: int) -> None:
    """Write a number as ten digits."""
    upper = np.uint32(np.uint64(number) // np.uint64(LIMIT))
    lower = np.uint32(np.uint64(number) - np.uint64(upper) * np.uint64(LIMIT))
    for digit in range(HALF - 1, -1, -1):
        rest = upper // TEN
        texts[place + digit] = ZERO + upper - rest * TEN
        upper = rest
        rest = lower // TEN
        texts[place + HALF + digit] = ZERO + lower - rest * TEN
        lower = rest


@kernel(writes=("texts",))
def write_positions(numbers: Longs, offsets: Longs, texts: Octets) -> int:
    """Write number and offset as ten digits each; return the first row in which one is not of ten digits, or -1."""
    for row in range(len(numbers)):
        number, offset = numbers[row], offsets[row]
        if min(number, offset) < 0 or max(number, offset) >= LIMIT * LIMIT:
            return row
        place = 2 * DIGITS * row
        if row and number == numbers[row - 1]:
            for digit in range(DIGITS):
                texts[place + digit] = texts[place + digit - 2 * DIGITS]
        else:
            _write_number(number, texts, place)
        _write_number(offset, texts, place + DIGITS)
    return -1
