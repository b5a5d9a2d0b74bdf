"""Positions of operations: 20 digits whose text order is the operations' order; for people file:offset."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.columnar.gather import NO_NULLS, column, unfit
from trailgate.columnar.kernels.positions import DIGITS, append_numbers, write_positions
from trailgate.columnar.kernels.words import SPARE
from trailgate.columnar.rows import text_view
from trailgate.errors import OptionError

_SHORT: Final = re.compile(r"([0-9]{1,10}):([0-9]{1,10})")


def format_positions(numbers: Longs | int, offsets: Longs) -> pa.StringArray:
    """Return 10 digits of file number and 10 of byte offset, one text a row.

    Raises OptionError for a number that is negative or has more than 10 digits.
    """
    rows, width = len(offsets), 2 * DIGITS
    texts = np.empty(rows * width, np.uint8)
    files = np.full(rows, numbers, np.int64) if isinstance(numbers, int) else numbers
    if write_positions(files, np.ascontiguousarray(offsets, np.int64), texts) >= 0:
        raise OptionError(f"a part of a position has 1 to {DIGITS} digits")
    ends = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(ends), pa.py_buffer(texts))


def numbered(texts: pa.StringArray, numbers: Longs) -> pa.StringArray:
    """Return each text, a point, and ten digits of a number; there are no nulls."""
    offsets, data = text_view(texts)
    placed = np.empty(len(texts) + 1, np.int32)
    out = np.empty(int(offsets[-1]) - int(offsets[0]) + len(texts) * (DIGITS + 1) + SPARE, np.uint8)
    size = append_numbers(data, offsets, np.ascontiguousarray(numbers, np.int64), placed, out)
    if size < 0:
        raise unfit(size, len(data))
    return column(placed, out, NO_NULLS, text=True)


def parse_position(text: str) -> tuple[int, int]:
    """Return (file number, byte offset) of a position, in its long or its short form; raises OptionError."""
    if matched := _SHORT.fullmatch(text):
        return int(matched[1]), int(matched[2])
    if len(text) != 2 * DIGITS or not (text.isascii() and text.isdigit()):
        raise OptionError(
            f"{text!r} is not a position",
            hint=f"A position is file:offset, as 0:679, or {DIGITS} digits of each together",
        )
    return int(text[:DIGITS]), int(text[DIGITS:])


def long_position(number: int, offset: int) -> str:
    """Return the 20 digits of a position."""
    return f"{number:0{DIGITS}}{offset:0{DIGITS}}"


def short_position(text: str | None) -> str:
    """Return a position of 20 digits as file:offset, for people; empty for none."""
    return "" if not text else f"{int(text[:DIGITS])}:{int(text[DIGITS:])}"
