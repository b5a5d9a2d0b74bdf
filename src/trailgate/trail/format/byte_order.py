"""The byte order of a trail: one row an order, chosen once a file.

Lengths, indexes and header integers are in the trail's order; binary column values are always
big-endian (trail format §3). A frame is read as one word: ``code`` and ``info`` are its first two
bytes, whatever the order, and ``lengths`` the last two.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from trailgate.arrays import Octets
from trailgate.columnar.views import BIG_ENDIAN, LITTLE_ENDIAN, words

Words = npt.NDArray[Any]


class ByteOrder(Enum):
    """Big-endian trails are the default before 19c, little-endian ones observed from there on."""

    BIG = BIG_ENDIAN
    LITTLE = LITTLE_ENDIAN

    @property
    def label(self) -> Literal["big", "little"]:
        """Return the name for people and for ``int.to_bytes``."""
        return "big" if self is ByteOrder.BIG else "little"

    def words(self, data: Octets, kind: str) -> Words:
        """Return one word of this order for every byte offset (see ``columnar.views.words``)."""
        return words(data, kind, self.value)

    def frames(self, data: Octets) -> Words:
        """Return one frame, as a u32 of this order, for every byte offset."""
        return words(data, "u4", self.value)

    def lengths(self, frames: Words) -> Words:
        """Return the length of each frame."""
        return frames & 0xFFFF if self is ByteOrder.BIG else frames >> 16

    def codes(self, frames: Words) -> Words:
        """Return the token id of each frame."""
        return frames >> 24 if self is ByteOrder.BIG else frames & 0xFF

    def halves(self, frames: Words) -> tuple[Words, Words]:
        """Return the two u16 numbers that each four bytes hold."""
        if self is ByteOrder.BIG:
            return frames >> 16, frames & 0xFFFF
        return frames & 0xFFFF, frames >> 16

    def pair(self, first: int, second: Words | int) -> Words | int:
        """Return four bytes that hold two u16 numbers, to be compared with ``frames``."""
        return (first << 16) + second if self is ByteOrder.BIG else (second << 16) + first

    def frame(self, code: int, info: int, lengths: Words | int) -> Words:
        """Return frames of one id and info as u32 numbers, to be compared or stored."""
        sizes = np.asarray(lengths, np.uint32)
        if self is ByteOrder.BIG:
            found: Words = sizes + np.uint32(code << 24 | info << 16)
        else:
            found = (sizes << 16) + np.uint32(info << 8 | code)
        return found

    def number(self, raw: bytes) -> int:
        """Return an unsigned number of any width."""
        return int.from_bytes(raw, self.label)

    def raw(self, number: int, width: int) -> bytes:
        """Return an unsigned number as bytes."""
        return number.to_bytes(width, self.label)
