"""Where a trail file cannot be read, and whether it is the file that its name states: one function decides each, and every reader, check and view asks it.

A record whose length reaches beyond the end of the file may still be being written, or its length may be damaged. It is
damaged if a good record begins in the bytes that it claims.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trailgate.errors import DecodeError
from trailgate.trail.format.file_header import FileHeader
from trailgate.trail.format.tokens import FRAME, ByteOrder
from trailgate.trail.records.framing import length_at
from trailgate.trail.records.record import LONGEST, Read, find_good

UNFINISHED: Final = "the file ends inside a record"
MISNUMBERED: Final = "the header states file number {}, and the name {}: another file of the trail was copied or renamed to this name"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Bytes [start, end) of a file that are not records. ``is_followed``: a good record begins at ``end``, so they are damaged."""

    start: int
    end: int
    problem: str
    is_followed: bool

    @property
    def size(self) -> int:
        """Return the number of bytes."""
        return self.end - self.start

    @property
    def sentence(self) -> str:
        """Return the problem; if the length is damaged, with the bytes that are lost by it."""
        if not self.is_followed:
            return self.problem
        return f"{self.problem}: {self.size:,} bytes cannot be read, and a record follows at byte {self.end}"


def unreadable_at(read: Read, place: int, size: int, order: ByteOrder) -> Unreadable:
    """Return what is wrong at a place at which no complete record of a file of ``size`` bytes begins, up to the next good one."""
    end = find_good(read, place + 1, size, order)
    return Unreadable(place, end, _problem(read, place, size, order, end < size), end < size)


def other_number(header: FileHeader | None, number: int) -> int | None:
    """Return the sequence number that a file's header states, if it is not the one of its name; None also if it states none."""
    stated = None if header is None else header.trail.seqno
    return None if stated == number else stated


def _problem(read: Read, place: int, size: int, order: ByteOrder, is_followed: bool) -> str:
    data = read(place, LONGEST)
    try:
        length_at(data, place=0, order=order)
    except DecodeError as error:
        return error.problem
    if is_followed and len(data) >= FRAME:
        length = order.number(data[2:FRAME].tobytes())
        return f"the record's length is damaged: it states {length} bytes, and the file has {size - place} from here on"
    return UNFINISHED
