"""Digits in 64-bit words to numbers, eight or sixteen at a time, for whole columns.

Neighbours are joined in steps: digits to pairs, pairs to fours, fours to eights; each step is a few operations
on a column of words, whatever the digits. Words that are no digits are found by bits that digits
leave clear, and give any number.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trailgate.arrays import Octets, Words

ZONED_DIGITS: Final = 8  # in one word
PACKED_DIGITS: Final = 16

_ONES: Final = 0x0101010101010101


def _u64(value: int) -> np.uint64:
    return np.uint64(value)


def right_aligned(matrix: Octets, width: int, fill: int) -> Octets:
    """Return the rows with ``fill`` in front, ``width`` bytes long and one behind the other."""
    rows, size = matrix.shape
    if size == width:
        return np.ascontiguousarray(matrix)
    made = np.full((rows, width), fill, np.uint8)
    place(made, width - size, matrix)
    return made


def place(target: Octets, offset: int, matrix: Octets) -> None:
    """Copy the rows of a matrix into the rows of ``target``, beginning at a column."""
    rows, size = matrix.shape
    if not rows or not size:
        return
    if matrix.strides[1] != 1:
        matrix = np.ascontiguousarray(matrix)
    # A row is copied as one opaque item: several times faster than byte by byte.
    slots: npt.NDArray[Any] = np.ndarray(
        (rows,), f"V{size}", target.data, offset=offset, strides=(target.strides[0],)
    )
    slots[:] = matrix.view(f"V{size}")[:, 0]


def zoned_word(loaded: Words, zone: int) -> tuple[Words, Words]:
    """Return the numbers of eight zoned digits a word, and words that are not 0 for other bytes.

    The words are little-endian: the first digit stands in the lowest byte.
    """
    word = loaded ^ _u64(zone * _ONES)
    wrong = word + _u64(6 * _ONES)
    wrong |= word
    wrong &= _u64(0xF0 * _ONES)
    # Ten times a digit and its neighbour are a pair.
    for factor, shift, kept in (
        (10, 8, 0x00FF00FF00FF00FF),
        (100, 16, 0x0000FFFF0000FFFF),
        (10000, 32, 0x00000000FFFFFFFF),
    ):
        beside = word >> _u64(shift)
        word *= _u64(factor)
        word += beside
        word &= _u64(kept)
    return word, wrong


def packed_word(word: Words) -> tuple[Words, Words]:
    """Return the numbers of sixteen nibbles a word, and words that are not 0 for no digits.

    The word is used up.
    """
    wrong = word << _u64(1)
    wrong |= word << _u64(2)
    wrong &= word
    wrong &= _u64(0x8888888888888888)  # eight and (four or two) is more than nine
    # 16 a + b less 6 a is 10 a + b; likewise 256, 65,536 and 2^32.
    for shift, kept, less in (
        (4, 0x0F0F0F0F0F0F0F0F, 6),
        (8, 0x00FF00FF00FF00FF, 156),
        (16, 0x0000FFFF0000FFFF, 55_536),
        (32, 0x00000000FFFFFFFF, (1 << 32) - 10**8),
    ):
        above = word >> _u64(shift)
        above &= _u64(kept)
        above *= _u64(less)
        word -= above
    return word, wrong
