"""What places in fixed-width messages count: bytes, or the characters of UTF-8 text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trailgate.arrays import Longs, Octets
from trailgate.columnar.views import octets, rows_at
from trailgate.messages.parsing.message_text import check_utf8
from trailgate.messages.parsing.messages import MessageBatch

Matrix = npt.NDArray[Any]
_NOT_UTF8: Final = "Name the code page of the messages: fixed.codepage"


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The messages of a batch as cells: bytes, or code points where text is not all ASCII.

    ``first_bytes`` has the byte at which each cell begins, and one more for the end; None says that
    cells are bytes.
    """

    messages: MessageBatch
    data: Octets
    units: Matrix
    first_bytes: Longs | None = None

    def of_bytes(self, places: Longs) -> Longs:
        """Return the cells that begin at these bytes."""
        if self.first_bytes is None:
            return places
        return np.searchsorted(self.first_bytes, places)

    def byte(self, places: Longs) -> Longs:
        """Return the bytes at which these cells begin."""
        return places if self.first_bytes is None else self.first_bytes[places]

    def rows(self, starts: Longs, width: int) -> Matrix:
        """Return a matrix with so many cells at each start."""
        if self.first_bytes is None:
            return rows_at(self.data, starts, width)
        taken: Matrix = self.units[starts[:, None] + np.arange(width)]
        return taken


def cells_of(messages: MessageBatch, between: bytes, *, characters: bool) -> Cells:
    """Return the messages' cells; with ``characters`` they are those of UTF-8 text.

    Bodies that must be copied have ``between`` between them. Raises BadMessagesError for bodies that are no such text.
    """
    data = octets(messages.data)
    if not characters or not len(messages):
        return Cells(messages, data, data)
    if bool((data[int(messages.starts[0]) : int(messages.ends[-1])] < 0x80).all()):
        return Cells(messages, data, data)
    check_utf8(messages, _NOT_UTF8)
    messages = messages.apart(between)  # bytes between bodies need not be text
    data = octets(messages.data)
    units = np.frombuffer(data.tobytes().decode().encode("utf-32-le"), "<u4")
    begins = np.flatnonzero((data & 0xC0) != 0x80)
    return Cells(messages, data, units, np.append(begins, len(data)))
