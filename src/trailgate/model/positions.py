"""Positions of operations: 20 digits whose text order is the operations' order."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import Longs, Octets
from trailgate.errors import OptionError

DIGITS: Final = 10
_LIMIT: Final = 10**DIGITS


def format_positions(numbers: Longs | int, offsets: Longs) -> pa.StringArray:
    """Return 10 digits of file number and 10 of byte offset, one text a row.

    Raises OptionError for a number that is negative or has more than 10 digits.
    """
    rows = len(offsets)
    files = np.broadcast_to(np.asarray(numbers, np.int64), (rows,))
    for part in (files, offsets):
        if rows and (part.min() < 0 or part.max() >= _LIMIT):
            raise OptionError(f"a part of a position does not have 1 to {DIGITS} digits")
    matrix = np.empty((2 * DIGITS, rows), np.uint8)
    for start, part in ((0, files), (DIGITS, offsets)):
        # Two halves of five digits: 32 bit division is several times faster than 64 bit.
        upper, lower = np.divmod(part, 100_000)
        for at, half in ((start, upper.astype(np.uint32)), (start + 5, lower.astype(np.uint32))):
            _digits(matrix[at : at + 5], half)
    lines = np.ascontiguousarray(matrix.T)
    ends = np.arange(0, (rows + 1) * 2 * DIGITS, 2 * DIGITS, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(ends), pa.py_buffer(lines))


def _digits(lines: Octets, part: npt.NDArray[np.uint32]) -> None:
    for line in lines[::-1]:
        rest = part // 10
        line[:] = part - rest * 10 + ord("0")
        part = rest


def parse_position(text: str) -> tuple[int, int]:
    """Return (file number, byte offset) of a position; raises OptionError."""
    if len(text) != 2 * DIGITS or not (text.isascii() and text.isdigit()):
        raise OptionError(
            f"{text!r} is not a position",
            hint=f"A position is {DIGITS} digits of file number and {DIGITS} of byte offset",
        )
    return int(text[:DIGITS]), int(text[DIGITS:])
