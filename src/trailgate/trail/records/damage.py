"""Decide which bytes of a trail file cannot be read as records, and find the next record after them.

Every reader, check and view calls these functions, so all of them report the same damage. If a
record's length extends beyond the end of the file, either the record is still being written or its
length is damaged. The length is damaged if a good record begins within the bytes that it covers.

After damage, reading continues at the next good record: its parts must be valid, and another record
or the end of the data must follow it. Two records in a row are enough, so little is lost between
two damaged spots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from trailgate.arrays import Octets
from trailgate.errors import DecodeError
from trailgate.trail.format.record_header import (
    INDICATOR,
)
from trailgate.trail.format.tokens import (
    FRAME,
    HEADER,
    RECORD,
    ByteOrder,
)
from trailgate.trail.records.framing import find_order, read_record_length
from trailgate.trail.records.record import LONGEST, Read, decode_record

SEARCHED: Final = 1 << 20  # bytes searched at once
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


def find_next_record(read: Read, offset: int, size: int, order: ByteOrder) -> int:
    """Find the next good trail record at or after ``offset``. Returns its offset, or ``size`` if there is none.

    Searches the file in portions, which ``read(offset, length)`` returns.
    """
    while offset < size:
        # Two records more, so that one that begins at the end of the portion and its successor
        # are complete.
        data = read(offset, SEARCHED + 2 * LONGEST)
        if not len(data):
            break
        match = find_next_record_in(data, order, SEARCHED)
        if match >= 0:
            return offset + match
        offset += SEARCHED
    return size


def find_next_record_in(data: Octets, order: ByteOrder, stop: int) -> int:
    """Find the first offset below ``stop`` at which a good trail record begins, or return -1."""
    last = min(stop, len(data) - 2 * FRAME - 1)
    if last <= 0:
        return -1
    # Candidates are offsets i with data[i] = G, data[i + 4] = H and data[i + 8] = 45 (E).
    candidates = data[:last] == RECORD
    candidates &= data[FRAME : FRAME + last] == HEADER
    candidates &= data[2 * FRAME : 2 * FRAME + last] == INDICATOR
    return next((at for at in np.flatnonzero(candidates).tolist() if _is_good(data, at, order)), -1)


def _is_good(data: Octets, offset: int, order: ByteOrder) -> bool:
    try:
        length = read_record_length(data, offset, order)
        if length is None:
            return False
        decode_record(data[offset : offset + length], order=order)
        if offset + length < len(data):
            read_record_length(data, offset + length, order)  # raises if no record can follow
    except DecodeError:
        return False
    return True


def detect_record_order(read: Read, begin: int, size: int) -> ByteOrder:
    """Detect the byte order of a trail that may be damaged: from the first record, or else from the first good one after the damage."""
    try:
        order_of_first = find_order(read(begin, LONGEST), 0)
    except DecodeError:
        order_of_first = None
    if order_of_first is not None:
        return order_of_first
    offsets = {order: find_next_record(read, begin, size, order) for order in ByteOrder}
    return min(offsets, key=offsets.__getitem__)
