"""Compiled loops that prepare the texts of errors for ``error_columns.py``.

They choose how to show the bytes at fault, and check whether a text may contain a login.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Octets, Offsets
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.word_kernels import first_mark, marks64

# What an error's text shows of a value: the value itself in quotes, its beginning, what
# `error_columns.py` finds for it, or nothing.
PLAIN: Final = 0
LONG: Final = 1
ODD: Final = 2
ABSENT: Final = 3
_BLANK: Final = 0x20
_LAST_PRINTABLE: Final = 0x7E
_QUOTE: Final = 0x27
_BACKSLASH: Final = 0x5C
WINDOW: Final = 64
COLON: Final = np.uint8(0x3A)
SLASH: Final = 0x2F
EQUALS: Final = np.uint8(0x3D)
ONE: Final = np.uint64(1)


@kernel(writes=("states",))
def classify_values(data: Octets, offsets: Offsets, shown: int, states: Octets) -> None:
    """Decide how an error shows each of the bytes at fault: `PLAIN`, `LONG` (more than `shown` bytes), or `ODD`.

    Writes one of these into `states` for each value. A value is odd if it is empty, if it begins or
    ends with a blank, or if it contains a byte that is not printable ASCII, a single quote, or a
    backslash (both are escaped in quotes).
    """
    # Example: of the values AB, "A ", é and 70 times A, with 60 bytes shown: PLAIN ODD ODD LONG.
    for row in range(len(states)):
        start, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if start < 0 or end <= start or end > len(data):
            states[row] = ODD
            continue
        odd = data[start] == _BLANK or data[end - 1] == _BLANK
        for at in range(start, end):
            byte = data[at]
            odd |= byte < _BLANK or byte > _LAST_PRINTABLE or byte == _QUOTE or byte == _BACKSLASH
        if odd:
            states[row] = ODD
        else:
            states[row] = LONG if end - start > shown else PLAIN


@kernel()
def may_have_login(data: Octets) -> bool:
    """Return whether texts of error columns may contain a login or a secret that must be masked.

    That is if `data` contains `://`, or an equals sign after a g or t, the last letters of `sig`
    and `client_secret`.
    """
    window = 0
    # Two bytes are read after a mark.
    while window + WINDOW + 2 <= len(data):
        marks = marks64(data, window, COLON) | marks64(data, window, EQUALS)
        while marks:
            if _begins_login(data, window + first_mark(marks)):
                return True
            marks &= marks - ONE
        window += WINDOW
    for at in range(window, len(data)):
        if (data[at] == COLON or data[at] == EQUALS) and _begins_login(data, at):
            return True
    return False


@inner
def _begins_login(data: Octets, at: int) -> bool:
    """Return whether a login may begin at `at`: the colon of `://`, or `=` after a g or t."""
    if data[at] == COLON:
        return at + 2 < len(data) and data[at + 1] == SLASH and data[at + 2] == SLASH
    # `t` or `g` in either case.
    return at > 0 and (data[at - 1] | 0x20 == 0x74 or data[at - 1] | 0x20 == 0x67)
