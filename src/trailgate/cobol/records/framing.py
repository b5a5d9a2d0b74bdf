"""Where the records of a file lie: fixed length, lines, RDW and BDW, a length field.

A portion's complete records are found, and where they end; an unfinished one waits for more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, Literal

import numpy as np

from trailgate.arrays import Longs, Octets
from trailgate.errors import DecodeError, OptionError, TruncatedError, Where

DESCRIPTOR: Final = 4  # bytes of an RDW or BDW: a length and two bytes of flags, zero here
EXTENDED: Final = 0x80000000  # a BDW with this bit has a length of 31 bits


class FrameKind(Enum):
    """How records stand one behind the other."""

    FIXED = "fixed"  # all of one length
    LINE = "line"  # a delimiter behind each
    RDW = "rdw"  # a record descriptor word in front of each
    BDW = "bdw"  # blocks with a descriptor word, of records with theirs
    LENGTH_FIELD = "length-field"  # a binary number inside the record


@dataclass(frozen=True, slots=True)
class Framing:
    """How a file is cut into records.

    ``length`` is that of fixed records. ``little`` is the order of descriptor words and length
    fields. ``adjustment`` is added to a length as it is written: 0 where it counts its own four bytes, as on z/OS,
    4 where it does not. ``field_offset`` and ``field_width`` place a length field in
    the record. ``skip_first`` and ``skip_last`` are the records of a file's header and trailer.
    """

    kind: FrameKind
    length: int = 0
    delimiter: bytes = b"\n"
    little: bool = False
    adjustment: int = 0
    field_offset: int = 0
    field_width: int = 4
    skip_first: int = 0
    skip_last: int = 0

    @property
    def order(self) -> Literal["little", "big"]:
        """Return the order's name for ``int.from_bytes``."""
        return "little" if self.little else "big"

    def check(self) -> None:
        """Raise OptionError where the framing cannot be."""
        if self.kind is FrameKind.FIXED and self.length < 1:
            raise OptionError(f"a record length of {self.length} bytes")
        if self.kind is FrameKind.LINE and not self.delimiter:
            raise OptionError("an empty line delimiter")
        if self.field_width not in (1, 2, 4, 8):
            raise OptionError(f"a length field has 1, 2, 4 or 8 bytes, not {self.field_width}")
        if min(self.field_offset, self.skip_first, self.skip_last) < 0:
            raise OptionError("offsets and counts of records cannot be negative")


@dataclass(frozen=True, slots=True)
class Framed:
    """Complete records, data[starts[i]:ends[i]], and the offset at which the last one's frame ends."""

    starts: Longs
    ends: Longs
    end: int


def find_frames(data: Octets, framing: Framing, *, finish: bool = False) -> Framed:
    """Return the complete records of ``data``, which begin at a frame (a block's for BDW).

    With ``finish`` an unfinished record raises TruncatedError. A descriptor that cannot be raises DecodeError
    with its offset. Records of a header or trailer are not left out here: only a whole file has those.
    """
    found = _FINDERS[framing.kind](data, framing, finish)
    if finish and found.end < len(data):
        raise TruncatedError(
            f"the file ends inside a record: {len(data) - found.end} bytes are left over",
            where=Where(offset=found.end, raw=data[found.end : found.end + 64].tobytes()),
            hint="Is the record length or the framing the right one?",
        )
    return found


def _fixed(data: Octets, framing: Framing, finish: bool) -> Framed:  # noqa: ARG001
    count = len(data) // framing.length
    starts = np.arange(count, dtype=np.int64) * framing.length
    return Framed(starts, starts + framing.length, count * framing.length)


def _lines(data: Octets, framing: Framing, finish: bool) -> Framed:
    mark = framing.delimiter
    at = np.flatnonzero(data == mark[0])
    for place, byte in enumerate(mark[1:], 1):
        at = at[at + place < len(data)]
        at = at[data[at + place] == byte]
    if len(mark) > 1:
        at = _apart(at, len(mark))
    starts = np.concatenate([[0], at + len(mark)]).astype(np.int64)
    ends = at.astype(np.int64)
    if finish and starts[-1] < len(data):
        ends = np.append(ends, len(data))  # the last line needs no delimiter
        return Framed(starts, ends, len(data))
    return Framed(starts[:-1], ends, int(starts[-1]))


def _apart(at: Longs, width: int) -> Longs:
    """Return the matches that do not overlap an earlier one."""
    kept, last = [], -width
    for place in at.tolist():
        if place >= last + width:
            kept.append(place)
            last = place
    return np.array(kept, np.int64)


def _descriptors(data: Octets, framing: Framing, finish: bool) -> Framed:  # noqa: ARG001
    starts, ends, place = _descriptors_in(memoryview(data.data), 0, len(data), framing)
    return Framed(np.array(starts, np.int64), np.array(ends, np.int64), place)


def _descriptors_in(
    data: memoryview, place: int, stop: int, framing: Framing
) -> tuple[list[int], list[int], int]:
    starts, ends = [], []
    order = framing.order
    while place + DESCRIPTOR <= stop:
        length = int.from_bytes(data[place : place + 2], order) + framing.adjustment
        if length < DESCRIPTOR or data[place + 2] or data[place + 3]:
            raise _bad(data, place, f"no record descriptor word: length {length}")
        end = place + length
        if end > stop:
            break
        starts.append(place + DESCRIPTOR)
        ends.append(end)
        place = end
    return starts, ends, place


def _blocks(data: Octets, framing: Framing, finish: bool) -> Framed:  # noqa: ARG001
    view = memoryview(data.data)
    starts: list[int] = []
    ends: list[int] = []
    place = 0
    while place + DESCRIPTOR <= len(data):
        length = _block_length(view, place, framing)
        if length < DESCRIPTOR:
            raise _bad(view, place, f"no block descriptor word: length {length}")
        end = place + length
        if end > len(data):
            break
        own_starts, own_ends, reached = _descriptors_in(view, place + DESCRIPTOR, end, framing)
        if reached != end:
            raise _bad(view, reached, "a record runs over its block")
        starts += own_starts
        ends += own_ends
        place = end
    return Framed(np.array(starts, np.int64), np.array(ends, np.int64), place)


def _block_length(data: memoryview, place: int, framing: Framing) -> int:
    if framing.little:
        return int.from_bytes(data[place : place + 2], "little") + framing.adjustment
    word = int.from_bytes(data[place : place + DESCRIPTOR], "big")
    length = word & ~EXTENDED if word & EXTENDED else word >> 16
    return length + framing.adjustment


def _length_fields(data: Octets, framing: Framing, finish: bool) -> Framed:  # noqa: ARG001
    view = memoryview(data.data)
    order = framing.order
    behind = framing.field_offset + framing.field_width
    starts, ends = [], []
    place = 0
    while place + behind <= len(data):
        raw = view[place + framing.field_offset : place + behind]
        length = int.from_bytes(raw, order) + framing.adjustment
        if length < behind:
            raise _bad(view, place, f"a length field of {length} ends in front of itself")
        if place + length > len(data):
            break
        starts.append(place)
        ends.append(place + length)
        place += length
    return Framed(np.array(starts, np.int64), np.array(ends, np.int64), place)


def _bad(data: memoryview, place: int, problem: str) -> DecodeError:
    raw = bytes(data[place : place + 64])
    hint = "Is the framing right (kind, byte order, adjustment), or is the file damaged?"
    return DecodeError(problem, where=Where(offset=place, raw=raw), hint=hint)


_FINDERS: Final[Mapping[FrameKind, Callable[[Octets, Framing, bool], Framed]]] = MappingProxyType(
    {
        FrameKind.FIXED: _fixed,
        FrameKind.LINE: _lines,
        FrameKind.RDW: _descriptors,
        FrameKind.BDW: _blocks,
        FrameKind.LENGTH_FIELD: _length_fields,
    }
)


def frame(records: list[bytes], framing: Framing) -> bytes:
    """Return records as a file of that framing: the way back, for test data."""
    order = framing.order

    def word(size: int) -> bytes:
        return (size + DESCRIPTOR - framing.adjustment).to_bytes(2, order) + b"\0\0"

    if framing.kind is FrameKind.LINE:
        return b"".join(record + framing.delimiter for record in records)
    if framing.kind in (FrameKind.RDW, FrameKind.BDW):
        body = b"".join(word(len(record)) + record for record in records)
        return word(len(body)) + body if framing.kind is FrameKind.BDW and records else body
    return b"".join(records)
