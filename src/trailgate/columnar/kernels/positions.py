"""Positions as digits."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.kernels.compiled import inner, kernel
from trailgate.columnar.kernels.words import SPARE, copy_value

HALF: Final = 5  # digits: 32 bit division is several times faster than 64 bit
DIGITS: Final = 2 * HALF
LIMIT: Final = 10**HALF
ZERO: Final = ord("0")
POINT: Final = ord(".")
OUTSIDE: Final = -1
MOST: Final = 2**31 - 1  # Arrow counts the bytes of texts in int32
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


@kernel(writes=("placed", "out"))
def append_numbers(
    data: Octets, offsets: Offsets, numbers: Longs, placed: Offsets, out: Octets
) -> int:
    """Copy each text of a column, and after it a point and a number of ten digits; return the bytes, or ``OUTSIDE``.

    ``placed`` becomes the offsets, with an item more than texts; ``out`` has ``SPARE`` bytes more than all.
    """
    to = np.int64(0)
    placed[0] = 0
    for row in range(len(numbers)):
        start = np.int64(offsets[row])
        size = np.int64(offsets[row + 1]) - start
        last = to + size + 1 + DIGITS
        if start < 0 or size < 0 or start + size > len(data) or last > min(len(out) - SPARE, MOST):
            return OUTSIDE
        copy_value(data, start, size, out, to)
        out[to + size] = POINT
        _write_number(numbers[row], out, to + size + 1)
        to = last
        placed[row + 1] = to
    return int(to)
