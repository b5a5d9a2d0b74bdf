"""Decide which bytes of a trail file cannot be read as records.

Every reader, check and view calls these functions, so all of them report the same damage. If a
record's length extends beyond the end of the file, either the record is still being written or its
length is damaged. The length is damaged if a good record begins within the bytes that it covers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trailgate.errors import DecodeError
from trailgate.trail.format.tokens import FRAME, ByteOrder
from trailgate.trail.records.framing import read_record_length
from trailgate.trail.records.record import LONGEST, Read, find_next_record

UNFINISHED: Final = "the file ends inside a record"


@dataclass(frozen=True, slots=True)
class UnreadableBytes:
    """Bytes [start, end) of a trail file that are not records.

    If ``is_followed``, a good record begins at ``end``, so the bytes are damaged. Otherwise ``end``
    is the end of the file, and the last record may just be incomplete.
    """

    start: int
    end: int
    problem: str
    is_followed: bool

    @property
    def size(self) -> int:
        """Return the number of unreadable bytes of the trail file."""
        return self.end - self.start

    @property
    def sentence(self) -> str:
        """Describe the unreadable bytes and, if a record follows, how many bytes are lost."""
        if not self.is_followed:
            return self.problem
        return f"{self.problem}: {self.size:,} bytes cannot be read, and a record follows at byte {self.end}"


def describe_unreadable(read: Read, offset: int, size: int, order: ByteOrder) -> UnreadableBytes:
    """Describe the unreadable bytes from an offset of a trail file to the next good record.

    No complete record begins at ``offset``. ``size`` is the size of the file.
    """
    end = find_next_record(read, offset + 1, size, order)
    return UnreadableBytes(offset, end, _problem(read, offset, size, order, end < size), end < size)


def _problem(read: Read, offset: int, size: int, order: ByteOrder, is_followed: bool) -> str:
    data = read(offset, LONGEST)
    try:
        read_record_length(data, 0, order)
    except DecodeError as error:
        return error.problem
    if is_followed and len(data) >= FRAME:
        length = order.number(data[2:FRAME].tobytes())
        return f"the record's length is damaged: it states {length} bytes, but the file has only {size - offset} from here on"
    return UNFINISHED
