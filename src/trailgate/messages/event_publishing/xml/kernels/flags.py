"""Rows whose large objects have messages of their own, found in the bytes of messages before these are read."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Octets
from trailgate.columnar.kernels.compiled import inner, kernel
from trailgate.columnar.kernels.words import first_mark, marks64
from trailgate.messages.xml.kernels.texts import is_blank

WINDOW: Final = 64
RARE: Final = 5  # place of the letter in the word that is looked for
LETTER: Final = 0x42  # B
ONE: Final = np.uint64(1)


@kernel()
def is_set(data: Octets, start: int, end: int, word: Octets) -> bool:
    """Return whether an attribute of this name has a value other than ``0`` and ``false`` anywhere from ``start`` to before ``end``.

    The word's letter at ``RARE`` is ``LETTER``.
    """
    at = start
    while at + WINDOW <= end:
        marks = marks64(data, at, LETTER)
        while marks:
            if is_set_at(data, at + first_mark(marks) - RARE, start, end, word):
                return True
            marks &= marks - ONE
        at += WINDOW
    while at < end:
        if data[at] == LETTER and is_set_at(data, at - RARE, start, end, word):
            return True
        at += 1
    return False


@inner
def is_set_at(data: Octets, at: int, start: int, end: int, word: Octets) -> bool:
    """Return whether such an attribute is at a place; one that is cut off is."""
    if at < start or at + len(word) > end:
        return False
    for place in range(len(word)):
        if data[at + place] != word[place]:
            return False
    at += len(word)
    while at < end and (
        is_blank(data[at]) or data[at] == 0x3D or data[at] == 0x22 or data[at] == 0x27
    ):
        at += 1
    return bool(at >= end or (data[at] != 0x30 and data[at] != 0x66))
