"""Trail positions as text: 20 digits for programs, and file:offset for people.

A position is 20 digits: 10 of the file number and 10 of the byte offset, so that text order is the
order of the operations. The short form for people is file:offset: the position
``00000000020000000679`` is ``2:679``.

A message can have a larger offset, in a topic of Kafka or in a file of more than 10 GB. Its position
is longer: 10 digits, then all digits of the offset (``format_message_positions``).
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.columnar.numbers_kernels import DIGITS
from trailgate.errors import OptionError
from trailgate.model.kernels import write_positions

# 0:679, the file and the offset
_SHORT: Final = re.compile(r"([0-9]{1,10}):([0-9]{1,10})")
# Ten digits of the file or partition, and at least ten of the offset, which is a 64-bit integer.
_OF_MESSAGE: Final = re.compile(rf"[0-9]{{{2 * DIGITS},{DIGITS + 19}}}")
_LARGEST: Final = 2**63 - 1


def format_positions(numbers: Longs | int, offsets: Longs) -> pa.StringArray:
    """Format file numbers and byte offsets as a column of trail positions, 20 digits each.

    Raises OptionError for a number that is negative or has more than 10 digits.
    """
    rows, width = len(offsets), 2 * DIGITS
    strings = np.empty(rows * width, np.uint8)
    files = np.full(rows, numbers, np.int64) if isinstance(numbers, int) else numbers
    if write_positions(files, np.ascontiguousarray(offsets, np.int64), strings) >= 0:
        raise OptionError(f"a part of a position has 1 to {DIGITS} digits")
    ends = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(ends), pa.py_buffer(strings))


def format_message_positions(numbers: Longs, offsets: Longs) -> pa.StringArray:
    """Format positions of messages as `format_positions` does, but an offset may have more than 10 digits.

    Raises OptionError for a number that is negative, and for a file number of more than 10 digits.
    """
    largest = 10**DIGITS - 1
    if not (offsets > largest).any():
        return format_positions(numbers, offsets)
    files = format_positions(numbers, np.minimum(offsets, largest))  # checks both
    texts = pc.utf8_lpad(pa.array(offsets).cast(pa.string()), DIGITS, "0")
    return pc.binary_join_element_wise(pc.utf8_slice_codeunits(files, 0, DIGITS), texts, "")


def parse_position(text: str) -> tuple[int, int]:
    """Parse a trail position in either form to (file number, byte offset).

    Raises OptionError if it is neither.
    """
    if matched := _SHORT.fullmatch(text):
        return int(matched[1]), int(matched[2])
    if len(text) != 2 * DIGITS or not (text.isascii() and text.isdigit()):
        raise OptionError(
            f"{text!r} is not a position",
            hint=f"A position is file:offset, such as 0:679, or {DIGITS} digits of each together",
        )
    return int(text[:DIGITS]), int(text[DIGITS:])


def long_position(number: int, offset: int) -> str:
    """Format a trail position as 20 digits."""
    return f"{number:0{DIGITS}}{offset:0{DIGITS}}"


def split_message_position(text: str) -> tuple[int, int] | None:
    """Parse a position of a message to (file number, offset), or return None if it is not one."""
    if not _OF_MESSAGE.fullmatch(text) or int(text[DIGITS:]) > _LARGEST:
        return None
    return int(text[:DIGITS]), int(text[DIGITS:])


def short_position(text: str | None) -> str:
    """Convert a trail position of 20 digits to file:offset; "" for None or an empty text."""
    return "" if not text else f"{int(text[:DIGITS])}:{int(text[DIGITS:])}"
