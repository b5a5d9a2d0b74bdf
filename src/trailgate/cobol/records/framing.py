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

from trailgate.arrays import Longs, Mask, Octets
from trailgate.cobol.records.kernels import (
    DESCRIPTOR,
    MOST_STATED,
    NO_BLOCK,
    NO_LENGTH,
    NO_NUMBER,
    NO_RECORD,
    NO_RULE,
    NO_SEGMENT,
    NO_TYPE,
    OVERRUN,
    common_place,
    computed_records,
    descriptor_chains,
    descriptor_records,
    line_records,
    spanned_records,
    typed_records,
)
from trailgate.cobol.records.record_lengths import RecordLengths, field_lengths
from trailgate.columnar.gather import gather
from trailgate.columnar.rows import octets
from trailgate.errors import DecodeError, OptionError, TruncatedError, Where

_RETURN: Final = 0x0D
_HINT: Final = "Is the framing right (kind, byte order, adjustment), or is the file damaged?"
_PROBLEMS: Final[Mapping[int, str]] = MappingProxyType(
    {
        NO_RECORD: "no record descriptor word: length {}",
        NO_BLOCK: "no block descriptor word: length {}",
        OVERRUN: "a record runs over its block",
        NO_LENGTH: "a length field of {} ends before its own end",
        NO_RULE: "the value of the field that distinguishes records is not one of those that have a length",
        NO_SEGMENT: "a segment of a spanned record that is not the next one of its record: length {}",
        NO_TYPE: "no record of a sequential file of Micro Focus: type {}",
        NO_NUMBER: "a field that a record's length depends on does not hold a number that it can",
    }
)


class FrameKind(Enum):
    """How records follow each other."""

    FIXED = "fixed"  # all of one length
    LINE = "line"  # a delimiter after each
    RDW = "rdw"  # a record descriptor word before each
    BDW = "bdw"  # blocks with a descriptor word, of records with theirs
    SPANNED = "spanned"  # such blocks, of segments of records, which may continue in later blocks
    LENGTH_FIELD = "length-field"  # a number inside the record, or a value that has a length
    MICRO_FOCUS = (
        "micro-focus"  # a header of 128 bytes, and a word with type and length before each
    )
    LAYOUT = (
        "layout"  # nothing but the records, each as long as its layout with the elements it has
    )


@dataclass(frozen=True, slots=True)
class Framing:
    """How a file or a message is cut into records.

    ``length`` is that of fixed records. A carriage return before a line's delimiter is not part of the record if
    ``returns``. ``little`` is the order of descriptor words and length fields.
    ``adjustment`` is added to a length as it is written: 0 where it counts its own four bytes, as on z/OS,
    4 where it does not. ``twisted`` descriptor words have the length in their second half. Those of blocks have the form of
    those of records unless ``block_little``, ``block_adjustment`` and ``block_twisted`` state another one.
    A record has ``least`` to ``most`` bytes; others are errors, or to be left out (``skips``) by who reads them. ``field_offset`` and ``field_width`` place a binary length field in
    the record, ``lengths`` are other rules. ``left`` are the bytes that are left of the block in which data begins; of a file of Micro Focus the bytes of its words, 0 where the file begins. ``skip_first`` and ``skip_last`` are the records of a file's header and trailer,
    after and before its bytes that are not of records.
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
    header_bytes: int = 0
    trailer_bytes: int = 0
    twisted: bool = False
    block_little: bool | None = None
    block_adjustment: int | None = None
    block_twisted: bool | None = None
    least: int = 0
    most: int | None = None
    skips: bool = False
    lengths: RecordLengths | None = None
    left: int = 0

    @property
    def words(self) -> Longs:
        """Return the forms of descriptor words of records and of blocks, as kernels take them."""
        own = (self.little, self.twisted, self.adjustment)
        given = (self.block_little, self.block_twisted, self.block_adjustment)
        blocks = (one if other is None else other for one, other in zip(own, given, strict=True))
        return np.array([*own, *blocks], np.int64)

    @property
    def longest(self) -> int | None:
        """Return the most bytes of a record with its descriptor word, or of a block; None where they are not limited."""
        adjustments = self.words[[2, 5]]
        if self.kind is FrameKind.BDW:
            return MOST_STATED + int(adjustments[1])
        if self.kind is not FrameKind.RDW:
            return None
        natural = MOST_STATED + int(adjustments[0])
        return natural if self.most is None or self.skips else min(natural, self.most + DESCRIPTOR)

    def others(self, starts: Longs, ends: Longs) -> Mask | None:
        """Return which records are shorter or longer than records are; None where there are no such limits."""
        if not self.least and self.most is None:
            return None
        lengths = ends - starts
        bad: Mask = lengths < self.least
        return bad if self.most is None else bad | (lengths > self.most)

    def check(self) -> None:
        """Raise OptionError where the framing cannot be."""
        if self.kind is FrameKind.FIXED and self.length < 1:
            raise OptionError(f"a record length of {self.length} bytes")
        if self.kind is FrameKind.LINE and not self.delimiter:
            raise OptionError("an empty line delimiter")
        if self.kind is FrameKind.LAYOUT and self.lengths is None:
            raise OptionError("records of the lengths of layouts, without layouts")
        if self.field_width not in (1, 2, 4, 8):
            raise OptionError(f"a length field has 1, 2, 4 or 8 bytes, not {self.field_width}")
        heads = (self.skip_first, self.skip_last, self.header_bytes, self.trailer_bytes)
        if min(self.field_offset, *heads) < 0:
            raise OptionError("offsets and counts of records cannot be negative")
        if self.least < 0 or (self.most is not None and self.most < self.least):
            raise OptionError(f"records of {self.least} to {self.most} bytes cannot be")


class Frames(NamedTuple):
    """Complete records, data[starts[i]:ends[i]], and the offset at which the last one's frame ends, with ``left`` bytes left of its block.

    Records whose bytes are not in one place have ``data`` of their own, and the offsets ``places`` at which they begin in what was framed.
    """

    starts: Longs
    ends: Longs
    end: int
    data: Octets | None = None
    places: Longs | None = None
    left: int = 0


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
    _check_lengths(data, found, framing)
    if finish and found.end < len(data):
        raise TruncatedError(
            f"the file ends inside a record: {len(data) - found.end} bytes are left over",
            where=Where(offset=found.end, raw=data[found.end : found.end + 64].tobytes()),
            hint="Is the record length or the framing the right one?",
        )
    return found


def _check_lengths(data: Octets, found: Frames, framing: Framing) -> None:
    """Raise DecodeError for a record that is shorter or longer than records are."""
    bad = framing.others(found.starts, found.ends)
    if bad is not None and not framing.skips and bad.any():
        lengths = found.ends - found.starts
        row = int(bad.argmax())
        places = found.starts if found.places is None else found.places
        begin = int(places[row]) - _HEADS.get(framing.kind, 0)
        where = Where(offset=begin, raw=data[begin : begin + 64].tobytes())
        limits = (
            f"at least {framing.least}"
            if framing.most is None
            else f"{framing.least} to {framing.most}"
        )
        problem = f"a record of {lengths[row]} bytes, where records have {limits}"
        raise DecodeError(problem, where=where, hint=_HINT)


def common_begin(data: Octets, framing: Framing, *, last: bool) -> int | None:
    """Return an offset at which a record (a block for BDW) begins, wherever one begins before it; None where that is not certain.

    The data may begin inside a record; ``last`` if the file ends with it. Each offset in the first ``longest`` bytes may be a record's begin if descriptor words
    lead from it to the end of the data. The file's own records are among these chains, since no record is longer, so that an
    offset at which all chains meet is one of theirs, whatever bytes in records look like.
    """
    longest = framing.longest
    if longest is None or len(data) <= longest:
        return None
    following = np.empty(len(data), np.int64)
    descriptor_chains(data, framing.kind is FrameKind.BDW, framing.words, longest, last, following)
    found = common_place(following, longest, np.zeros(len(data), np.uint8))
    return None if found < 0 else found


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
    return _check(data, starts, ends, descriptor_records(data, blocks, framing.words, starts, ends))


def _spanned(data: Octets, framing: Framing, finish: bool) -> Frames:  # noqa: ARG001
    begins, stops = np.empty((2, len(data) // DESCRIPTOR), np.int64)
    closes = np.empty(len(begins), np.uint8)
    filled = spanned_records(data, framing.left, framing.words, begins, stops, closes)
    count, end, left, problem, length = map(int, filled)
    if problem:
        _check(data, begins, stops, (count, end, problem, length))
    begins, stops, last = begins[:count], stops[:count], np.flatnonzero(closes[:count])
    if len(last) == count:
        return Frames(begins, stops, end, left=left)
    first = np.append(0, last[:-1] + 1)
    ends = np.cumsum(stops - begins)[last]
    joined = octets(gather(data, begins, stops).buffers()[2])
    return Frames(np.append(0, ends[:-1]), ends, end, joined, begins[first], left)


def _typed(data: Octets, framing: Framing, finish: bool) -> Frames:
    width = framing.left or _width_of_words(data)
    if not width:
        return Frames(np.zeros(0, np.int64), np.zeros(0, np.int64), 0)
    starts, ends = np.empty((2, len(data) // 4 + 1), np.int64)
    found = _check(data, starts, ends, typed_records(data, width, finish, starts, ends))
    return found._replace(left=width)


def _width_of_words(data: Octets) -> int:
    """Return the bytes of a word before a record, by the header of a file of Micro Focus; 0 if the header is not whole.

    Raises DecodeError for another header, and for a file that is not a sequential one without compression.
    """
    head = data[:HEADER_BYTES].tobytes()
    width = next((width for width, word in _HEADERS.items() if head.startswith(word)), 0)
    where = Where(offset=0, raw=head[:64])
    if not width and len(head) >= DESCRIPTOR:
        problem = "no header of a file of Micro Focus, which begins with 30 7E 00 00 or 30 00 00 7C"
        raise DecodeError(problem, where=where, hint=_HINT)
    if len(head) < HEADER_BYTES:
        return 0
    if head[39] != 1 or head[41]:
        what = "is compressed" if head[41] else f"has the organization {head[39]}"
        problem = f"the file of Micro Focus {what}"
        hint = "Sequential files (organization 1) without compression are read: unload it"
        raise DecodeError(problem, where=where, hint=hint)
    return width


def header_of(framing: Framing) -> bytes:
    """Return what a file begins with before its first record."""
    if framing.kind is not FrameKind.MICRO_FOCUS:
        return b""
    head = bytearray(HEADER_BYTES)
    head[:4] = _HEADERS[word_width(framing)]
    head[36:38], head[39], head[48] = b"\x00\x3e", 1, 1
    head[54:58] = framing.length.to_bytes(4, "big")
    return bytes(head)


def word_width(framing: Framing) -> int:
    """Return the bytes of the word before a record of Micro Focus, whose longest record has ``length`` bytes."""
    return 2 if framing.length < _WIDE_FROM else 4


HEADER_BYTES: Final = 128
_WIDE_FROM: Final = 4095
_HEADERS: Final[Mapping[int, bytes]] = MappingProxyType(
    {2: b"\x30\x7e\x00\x00", 4: b"\x30\x00\x00\x7c"}
)


def _computed(data: Octets, framing: Framing, finish: bool) -> Frames:  # noqa: ARG001
    lengths = framing.lengths or field_lengths(
        framing.field_offset, framing.field_width, little=framing.little
    )
    starts, ends = np.empty((2, len(data) // lengths.least), np.int64)
    numbers = np.empty(len(lengths.terms), np.int64)
    filled = computed_records(data, framing.adjustment, *lengths.tables(), numbers, starts, ends)
    return _check(data, starts, ends, filled, lengths)


def _check(
    data: Octets,
    starts: Longs,
    ends: Longs,
    filled: tuple[int, int, int, int],
    lengths: RecordLengths | None = None,
) -> Frames:
    """Return the records that a kernel has filled in; raises DecodeError for the problem that it has met.

    ``filled`` are how many, where the next one begins, a problem with it, and its length, or the number of the term of lengths.
    """
    count, end, problem, length = map(int, filled)
    if problem:
        is_term = problem == NO_NUMBER and lengths is not None
        field = lengths.terms[length].name if is_term and lengths is not None else None
        where = Where(offset=end, field=field, raw=data[end : end + 64].tobytes())
        raise DecodeError(_PROBLEMS[problem].format(length), where=where, hint=_HINT)
    return Frames(starts[:count].copy(), ends[:count].copy(), end)


# Bytes of a record's frame before the record.
_HEADS: Final[Mapping[FrameKind, int]] = MappingProxyType(
    dict.fromkeys((FrameKind.RDW, FrameKind.BDW, FrameKind.SPANNED), DESCRIPTOR)
)
_FINDERS: Final[Mapping[FrameKind, Callable[[Octets, Framing, bool], Frames]]] = MappingProxyType(
    {
        FrameKind.FIXED: _equal_lengths,
        FrameKind.LINE: _lines,
        FrameKind.RDW: _descriptors,
        FrameKind.BDW: _descriptors,
        FrameKind.SPANNED: _spanned,
        FrameKind.LENGTH_FIELD: _computed,
        FrameKind.LAYOUT: _computed,
        FrameKind.MICRO_FOCUS: _typed,
    }
)
