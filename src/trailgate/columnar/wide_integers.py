"""Numbers of up to 128 bits as two columns of 64-bit words: multiply, add, negate; exact."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Mask, Words

_HALF: Final = np.uint64(32)
_LOW_HALF: Final = np.uint64(0xFFFFFFFF)


class Wide(NamedTuple):
    """Columns of the high and low words."""

    high: Words
    low: Words


def widened(words: Words) -> Wide:
    """Return non-negative words as wide numbers."""
    return Wide(np.zeros(len(words), np.uint64), words)


def times(number: Wide, factor: int) -> Wide:
    """Return the product with a factor below 2^64; the result fits 128 bits."""
    most, least = np.uint64(factor >> 32), np.uint64(factor & 0xFFFFFFFF)
    above, below = number.low >> _HALF, number.low & _LOW_HALF
    middle = above * least + (below * least >> _HALF)
    cross = below * most + (middle & _LOW_HALF)
    carried = above * most + (middle >> _HALF) + (cross >> _HALF)
    return Wide(number.high * np.uint64(factor) + carried, number.low * np.uint64(factor))


def plus(number: Wide, words: Words) -> Wide:
    """Return the sum with non-negative words."""
    low = number.low + words
    return Wide(number.high + (low < words), low)


def negated(number: Wide, where: Mask) -> Wide:
    """Return two's complements, negative in the rows of ``where``."""
    low = np.where(where, ~number.low + np.uint64(1), number.low)
    high = np.where(where, ~number.high + (number.low == 0), number.high)
    return Wide(high, low)


def pairs(number: Wide) -> Words:
    """Return low and high word of each number in turn, as Arrow's decimal128 has them."""
    found = np.empty((len(number.low), 2), np.uint64)
    found[:, 0], found[:, 1] = number.low, number.high
    return found
