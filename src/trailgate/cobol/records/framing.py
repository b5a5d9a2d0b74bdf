"""Where the records of a file or of messages lie: fixed length, lines, RDW and BDW, a length field.

A chunk's complete records are found, and where they end; an unfinished one waits for more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Octets
from trailgate.cobol.records.kernels import (
    DESCRIPTOR,
    NO_BLOCK,
    NO_LENGTH,
    NO_RECORD,
    OVERRUN,
    descriptor_records,
    length_field_records,
    line_records,
)
from trailgate.errors import DecodeError, OptionError, TruncatedError, Where

_RETURN: Final = 0x0D
_PROBLEMS: Final[Mapping[int, str]] = MappingProxyType(
    {
        NO_RECORD: "no record descriptor word: length {}",
        NO_BLOCK: "no block descriptor word: length {}",
        OVERRUN: "a record runs over its block",
        NO_LENGTH: "a length field of {} ends before its own end",
    }
)


class FrameKind(Enum):
    """How records follow each other."""

    FIXED = "fixed"  # all of one length
    LINE = "line"  # a delimiter after each
    RDW = "rdw"  # a record descriptor word before each
    BDW = "bdw"  # blocks with a descriptor word, of records with theirs
    LENGTH_FIELD = "length-field"  # a binary number inside the record


@dataclass(frozen=True, slots=True)
class Framing:
    """How a file or a message is cut into records.

    ``length`` is that of fixed records. A carriage return before a line's delimiter is not part of the record if
    ``returns``. ``little`` is the order of descriptor words and length fields.
    ``adjustment`` is added to a length as it is written: 0 where it counts its own four bytes, as on z/OS,
    4 where it does not. ``field_offset`` and ``field_width`` place a length field in
    the record. ``skip_first`` and ``skip_last`` are the records of a file's header and trailer.
    """

    kind: FrameKind
    length: int = 0
    delimiter: bytes = b"\n"
    returns: bool = False
    little: bool = False
    adjustment: int = 0
    field_offset: int = 0
    field_width: int = 4
    skip_first: int = 0
    skip_last: int = 0

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


class Frames(NamedTuple):
    """Complete records, data[starts[i]:ends[i]], and the offset at which the last one's frame ends."""

    starts: Longs
    ends: Longs
    end: int


class RunFrames(NamedTuple):
    """Records of several runs of bytes, and the number of the run that each is in."""

    run: Longs
    starts: Longs
    ends: Longs


def find_frames(data: Octets, framing: Framing, *, finish: bool = False) -> Frames:
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


def frames_in(data: Octets, starts: Longs, ends: Longs, framing: Framing) -> RunFrames:
    """Return the records of ascending runs data[start:end], which are of lines or of fixed length.

    The last record of a run may be shorter, or lack its delimiter. An empty run has no record.
    """
    if framing.kind is FrameKind.FIXED:
        return _fixed_in(starts, ends, framing.length)
    assert framing.kind is FrameKind.LINE, "other framings are those of whole files"
    found, _ = _lines_in(data, starts, ends, framing, finish=True)
    return found


def _fixed_in(starts: Longs, ends: Longs, length: int) -> RunFrames:
    counts = -((starts - ends) // length)
    run = np.repeat(np.arange(len(starts)), counts)
    number = np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts)
    begins = starts[run] + number * length
    return RunFrames(run, begins, np.minimum(begins + length, ends[run]))


def _lines_in(
    data: Octets, starts: Longs, ends: Longs, framing: Framing, *, finish: bool
) -> tuple[RunFrames, int]:
    assert not len(starts) or (starts.min() >= 0 and ends.max() <= len(data))
    mark = np.frombuffer(framing.delimiter, np.uint8)
    candidates = np.flatnonzero(data == mark[0])
    most = len(candidates) + len(starts)
    found = RunFrames(*(np.empty(most, np.int64) for _ in RunFrames._fields))
    count, end = line_records(data, candidates, starts, ends, mark, finish, *found)
    run, begins, stops = (column[:count] for column in found)
    if framing.returns and count:
        stops -= (stops > begins) & (data[stops - 1] == _RETURN)
    return RunFrames(run, begins, stops), end


def _equal_lengths(data: Octets, framing: Framing, finish: bool) -> Frames:  # noqa: ARG001
    count = len(data) // framing.length
    starts = np.arange(count, dtype=np.int64) * framing.length
    return Frames(starts, starts + framing.length, count * framing.length)


def _lines(data: Octets, framing: Framing, finish: bool) -> Frames:
    whole = np.array([0]), np.array([len(data)])
    (_, starts, ends), end = _lines_in(data, *whole, framing, finish=finish)
    return Frames(starts, ends, int(end))


def _descriptors(data: Octets, framing: Framing, finish: bool) -> Frames:  # noqa: ARG001
    starts, ends = np.empty((2, len(data) // DESCRIPTOR), np.int64)
    blocks = framing.kind is FrameKind.BDW
    order = framing.little, framing.adjustment
    return _check(data, starts, ends, descriptor_records(data, blocks, *order, starts, ends))


def _length_fields(data: Octets, framing: Framing, finish: bool) -> Frames:  # noqa: ARG001
    offset, width = framing.field_offset, framing.field_width
    starts, ends = np.empty((2, len(data) // (offset + width)), np.int64)
    order = framing.little, framing.adjustment
    filled = length_field_records(data, offset, width, *order, starts, ends)
    return _check(data, starts, ends, filled)


def _check(data: Octets, starts: Longs, ends: Longs, filled: tuple[int, int, int, int]) -> Frames:
    """Return the records that a kernel has filled in; raises DecodeError for the problem that it has met.

    ``filled`` are how many, where the next one begins, a problem with it, and its length.
    """
    count, end, problem, length = filled
    if problem:
        where = Where(offset=end, raw=data[end : end + 64].tobytes())
        hint = "Is the framing right (kind, byte order, adjustment), or is the file damaged?"
        raise DecodeError(_PROBLEMS[problem].format(length), where=where, hint=hint)
    return Frames(starts[:count].copy(), ends[:count].copy(), end)


_FINDERS: Final[Mapping[FrameKind, Callable[[Octets, Framing, bool], Frames]]] = MappingProxyType(
    {
        FrameKind.FIXED: _equal_lengths,
        FrameKind.LINE: _lines,
        FrameKind.RDW: _descriptors,
        FrameKind.BDW: _descriptors,
        FrameKind.LENGTH_FIELD: _length_fields,
    }
)
