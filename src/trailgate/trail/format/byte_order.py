"""The byte order of a trail: one row an order, chosen once a file.

Lengths, indexes and header integers are in the trail's order; binary column values are always
big-endian (trail format §3).
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import numpy.typing as npt

from trailgate.arrays import Octets
from trailgate.columnar.views import BIG_ENDIAN, LITTLE_ENDIAN, words


class ByteOrder(Enum):
    """Big-endian trails are the default before 19c, little-endian ones observed from there on."""

    BIG = BIG_ENDIAN
    LITTLE = LITTLE_ENDIAN

    @property
    def label(self) -> Literal["big", "little"]:
        """Return the name for people and for ``int.to_bytes``."""
        return "big" if self is ByteOrder.BIG else "little"

    def words(self, data: Octets, kind: str) -> npt.NDArray[Any]:
        """Return one word of this order for every byte offset (see ``columnar.views.words``)."""
        return words(data, kind, self.value)

    def pair(self, first: int, second: npt.NDArray[Any] | int) -> npt.NDArray[Any] | int:
        """Return four bytes that hold two u16 numbers, to be compared with ``words`` of four bytes."""
        return (first << 16) + second if self is ByteOrder.BIG else (second << 16) + first

    def number(self, raw: bytes) -> int:
        """Return an unsigned number of any width."""
        return int.from_bytes(raw, "big" if self is ByteOrder.BIG else "little")

    def raw(self, number: int, width: int) -> bytes:
        """Return an unsigned number as bytes."""
        return number.to_bytes(width, self.label)
