"""Whole numbers from text."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.kernels.compiled import kernel

ZERO: Final = ord("0")
MINUS: Final = ord("-")
MOST_DIGITS: Final = 18  # of any value they fit 64 bits


@kernel(writes=("numbers",))
def read_integers(
    data: Octets, offsets: Offsets, valid: Octets, low: int, high: int, numbers: Longs
) -> int:
    """Write the numbers of texts that are at most a minus sign and 1 to 18 digits.

    ``valid`` is empty or has Arrow's bit a row; a null becomes 0. Returns the first row that is another text or outside ``low`` to
    ``high``, -1 for none.
    """
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
