"""Loops that parse columns of integers, and that write numbers of ten digits."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.word_kernels import SPARE, copy_value

OUTSIDE: Final = -1
ZERO: Final = ord("0")
HALF: Final = 5  # digits per half of a number: 32-bit divisions are much faster than 64-bit ones
DIGITS: Final = 2 * HALF
LIMIT: Final = 10**HALF
POINT: Final = ord(".")
MOST: Final = 2**31 - 1  # Arrow's string offsets are int32
TEN: Final = np.uint32(10)
MINUS: Final = ord("-")
MOST_DIGITS: Final = 18  # any number of 18 digits fits in 64 bits


@inner
def write_ten_digits(number: int, strings: Octets, place: int) -> None:
    """Write a number as ten digits, with leading zeros, into the bytes of a string column."""
    # Two halves of five digits: 32-bit divisions are faster than 64-bit ones. Both halves are
    # written in one loop, so that the processor can overlap them.
    upper = np.uint32(np.uint64(number) // np.uint64(LIMIT))
    lower = np.uint32(np.uint64(number) - np.uint64(upper) * np.uint64(LIMIT))
    for digit in range(HALF - 1, -1, -1):
        rest = upper // TEN
        strings[place + digit] = ZERO + upper - rest * TEN
        upper = rest
        rest = lower // TEN
        strings[place + HALF + digit] = ZERO + lower - rest * TEN
        lower = rest


@kernel(writes=("placed", "out"))
def append_numbers(
    data: Octets, offsets: Offsets, numbers: Longs, placed: Offsets, out: Octets
) -> int:
    """Copy each string, and append a dot and a number of ten digits. Return the total size, or ``OUTSIDE``.

    ``placed`` becomes the offsets, with one item more than strings. ``out`` has ``SPARE`` more
    bytes than the result.
    """
    # Example: the strings A and BC with the numbers 7 and 12 become A.0000000007BC.0000000012, and
    # placed = 0 12 25.
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
        write_ten_digits(numbers[row], out, to + size + 1)
        to = last
        placed[row + 1] = to
    return int(to)


@kernel(writes=("numbers",))
def read_integers(
    data: Octets, offsets: Offsets, valid: Octets, low: int, high: int, numbers: Longs
) -> int:
    """Parse a column of integers: strings of at most a minus sign and 1 to 18 digits.

    ``valid`` is empty or has Arrow's validity bits; a null becomes 0. Returns the first row with any
    other text, or with a number outside ``low`` to ``high``; -1 if there is none.
    """
    # Example: "-12" is -(10 * 1 + 2). The loop over the digits has no branch: wrong characters are only recorded,
    # and the number that they result in is discarded. 18 digits cannot overflow.
    rows = len(offsets) - 1
    if len(numbers) < rows or 0 < 8 * len(valid) < rows:
        return 0
    for row in range(rows):
        begin, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if begin < 0 or end > len(data):
            return row
        numbers[row] = 0
        if len(valid) and not (valid[row >> 3] >> np.uint8(row & 7)) & 1:
            continue
        minus = begin < end and data[begin] == MINUS
        if minus:
            begin += 1
        if begin >= end or end - begin > MOST_DIGITS:
            return row
        number, wrong = np.int64(0), False
        for at in range(begin, end):
            digit = np.int64(data[at]) - ZERO
            wrong |= (digit < 0) | (digit > 9)
            number = 10 * number + digit
        if minus:
            number = -number
        if wrong or number < low or number > high:
            return row
        numbers[row] = number
    return -1
