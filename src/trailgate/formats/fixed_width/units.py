"""The units in which fixed-width messages are measured: bytes, or characters in UTF-8 messages without binary fields.

Offsets and lengths of fields count units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from trailgate.arrays import Longs, Octets, octets
from trailgate.cobol.records.framing import FrameKind, Framing, RunFrames, find_frames_in_runs
from trailgate.columnar.gather import gather_matrix
from trailgate.messages.encoding_checks import check_utf8
from trailgate.messages.message_batch import MessageBatch

UnitMatrix: TypeAlias = npt.NDArray[Any]  # a row a value: bytes, or code points
_BETWEEN: Final = b"\n"  # any ASCII character
_NOT_UTF8: Final = "Name the code page of the messages: fixed.codepage"


@dataclass(frozen=True, slots=True, eq=False)
class MessageUnits:
    """The bodies of fixed-width messages in units: bytes, or code points if the text is not all ASCII.

    `first_bytes` has the byte offset of each unit, and the end of the last one. It is None if units
    are bytes. Example: "aé" has the units 61, E9 and first_bytes 0, 1, 3.
    """

    messages: MessageBatch
    data: Octets
    units: UnitMatrix
    first_bytes: Longs | None = None

    def from_bytes(self, offsets: Longs) -> Longs:
        """Convert byte offsets in fixed-width messages to offsets in units."""
        if self.first_bytes is None:
            return offsets
        return np.searchsorted(self.first_bytes, offsets)

    def to_bytes(self, units: Longs) -> Longs:
        """Convert offsets in units to byte offsets in fixed-width messages."""
        return units if self.first_bytes is None else self.first_bytes[units]

    def rows(self, starts: Longs, width: int) -> UnitMatrix:
        """Return a matrix with `width` units of fixed-width data from each start."""
        if self.first_bytes is None:
            return gather_matrix(self.data, starts, width)
        taken: UnitMatrix = self.units[starts[:, None] + np.arange(width)]
        return taken

    def records(self, framing: Framing | None) -> RunFrames:
        """Cut fixed-width messages into records, in units.

        Without a framing each message is one record. An empty message has no record. The last
        record of a message may be shorter, or lack its delimiter.
        """
        full = np.flatnonzero(self.messages.ends > self.messages.starts)
        starts, ends = self.messages.starts[full], self.messages.ends[full]
        # Delimiters are searched in bytes, but lengths count units.
        if framing is not None and framing.kind is FrameKind.LINE:
            run, starts, ends = find_frames_in_runs(self.data, starts, ends, framing)
            return RunFrames(full[run], self.from_bytes(starts), self.from_bytes(ends))
        starts, ends = self.from_bytes(starts), self.from_bytes(ends)
        if framing is None:
            return RunFrames(full, starts, ends)
        run, starts, ends = find_frames_in_runs(self.data, starts, ends, framing)
        return RunFrames(full[run], starts, ends)


def split_into_units(messages: MessageBatch, *, characters: bool) -> MessageUnits:
    """Convert fixed-width messages to units: UTF-8 characters with `characters`, otherwise bytes.

    Raises BadMessagesError if a message is not UTF-8.
    """
    data = octets(messages.data)
    if not characters or not len(messages):
        return MessageUnits(messages, data, data)
    if bool((data[int(messages.starts[0]) : int(messages.ends[-1])] < 0x80).all()):
        return MessageUnits(messages, data, data)
    check_utf8(messages, _NOT_UTF8)
    messages = messages.separated_by(_BETWEEN)  # bytes between bodies need not be text
    data = octets(messages.data)
    units = np.frombuffer(data.tobytes().decode().encode("utf-32-le"), "<u4")
    # Continuation bytes of UTF-8 are 10xxxxxx; every other byte begins a character.
    begins = np.flatnonzero((data & 0xC0) != 0x80)
    return MessageUnits(messages, data, units, np.append(begins, len(data)))
