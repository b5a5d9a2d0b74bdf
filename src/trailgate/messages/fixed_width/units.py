"""What offsets in fixed-width messages count, bytes or the characters of UTF-8 text; records in these units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from trailgate.arrays import Longs, Octets
from trailgate.cobol.records.framing import FrameKind, Framing, StretchFrames, frames_in
from trailgate.columnar.views import octets, rows_at
from trailgate.messages.parsing.message_text import check_utf8
from trailgate.messages.parsing.messages import MessageBatch

UnitMatrix: TypeAlias = npt.NDArray[Any]  # a row a value: bytes, or code points
_BETWEEN: Final = b"\n"  # any ASCII character
_NOT_UTF8: Final = "Name the code page of the messages: fixed.codepage"


@dataclass(frozen=True, slots=True, eq=False)
class MessageUnits:
    """The bodies of messages in units: bytes, or code points where text is not all ASCII.

    ``first_bytes`` has the offset of each unit's first byte, and one more for the end; None if
    units are bytes.
    """

    messages: MessageBatch
    data: Octets
    units: UnitMatrix
    first_bytes: Longs | None = None

    def of_bytes(self, offsets: Longs) -> Longs:
        """Return the units that begin at these bytes."""
        if self.first_bytes is None:
            return offsets
        return np.searchsorted(self.first_bytes, offsets)

    def byte(self, units: Longs) -> Longs:
        """Return the bytes at which these units begin."""
        return units if self.first_bytes is None else self.first_bytes[units]

    def rows(self, starts: Longs, width: int) -> UnitMatrix:
        """Return a matrix with ``width`` units from each start on."""
        if self.first_bytes is None:
            return rows_at(self.data, starts, width)
        taken: UnitMatrix = self.units[starts[:, None] + np.arange(width)]
        return taken

    def records(self, framing: Framing | None) -> StretchFrames:
        """Return the records of the messages, in units; without a framing each body is one.

        An empty body has no record. The last record of a body may be shorter, or lack its delimiter.
        """
        full = np.flatnonzero(self.messages.ends > self.messages.starts)
        starts, ends = self.messages.starts[full], self.messages.ends[full]
        if framing is not None and framing.kind is FrameKind.LINE:
            stretch, starts, ends = frames_in(self.data, starts, ends, framing)
            return StretchFrames(full[stretch], self.of_bytes(starts), self.of_bytes(ends))
        starts, ends = self.of_bytes(starts), self.of_bytes(ends)
        if framing is None:
            return StretchFrames(full, starts, ends)
        stretch, starts, ends = frames_in(self.data, starts, ends, framing)
        return StretchFrames(full[stretch], starts, ends)


def units_of(messages: MessageBatch, *, characters: bool) -> MessageUnits:
    """Return the messages' units; with ``characters`` they are those of UTF-8 text.

    Raises BadMessagesError for bodies that are not such text.
    """
    data = octets(messages.data)
    if not characters or not len(messages):
        return MessageUnits(messages, data, data)
    if bool((data[int(messages.starts[0]) : int(messages.ends[-1])] < 0x80).all()):
        return MessageUnits(messages, data, data)
    check_utf8(messages, _NOT_UTF8)
    messages = messages.apart(_BETWEEN)  # bytes between bodies need not be text
    data = octets(messages.data)
    units = np.frombuffer(data.tobytes().decode().encode("utf-32-le"), "<u4")
    begins = np.flatnonzero((data & 0xC0) != 0x80)
    return MessageUnits(messages, data, units, np.append(begins, len(data)))
