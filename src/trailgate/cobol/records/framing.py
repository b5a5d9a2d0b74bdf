"""Find the boundaries of records in files and messages: fixed length, lines, RDW, BDW, length fields.

``find_frames`` takes a chunk of bytes that starts at a record and returns the complete records in
it, and where the last one ends; the caller prepends the rest to the next chunk. ``find_common_begin``
finds a record boundary in the middle of a file, so that splits can be read in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, octets
from trailgate.cobol.records.framing_kernels import (
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
    find_common_offset,
    find_computed_records,
    find_descriptor_records,
    find_line_records,
    find_spanned_records,
    find_typed_records,
    follow_descriptor_chains,
)
from trailgate.cobol.records.length_rules import RecordLengths, field_lengths
from trailgate.columnar.gather import gather
from trailgate.errors import DecodeError, OptionError, TruncatedError, Where

_RETURN: Final = 0x0D
_HINT: Final = "Is the framing right (kind, byte order, adjustment), or is the file damaged?"
# By the code that a kernel returns; {} is the wrong number.
_PROBLEMS: Final[Mapping[int, str]] = MappingProxyType(
    {
        NO_RECORD: "no record descriptor word: length {}",
        NO_BLOCK: "no block descriptor word: length {}",
        OVERRUN: "a record runs over its block",
        NO_LENGTH: "a length field of {} ends before its own end",
        NO_RULE: "no record length is known for the value of the field that distinguishes records",
        NO_SEGMENT: "a segment does not continue the spanned record before it: length {}",
        NO_TYPE: "not a record of a Micro Focus sequential file: type {}",
        NO_NUMBER: "a field on which the record's length depends is not a valid number",
    }
)
HEADER_BYTES: Final = 128
# From this length on, records of Micro Focus files have headers of four bytes instead of two.
_WIDE_FROM: Final = 4095
MICRO_FOCUS_HEADERS: Final[Mapping[int, bytes]] = MappingProxyType(
    {2: b"\x30\x7e\x00\x00", 4: b"\x30\x00\x00\x7c"}
)


class FrameKind(Enum):
    """How records are delimited in a file, such as by a fixed length, lines or descriptor words."""

    FIXED = "fixed"  # all of one length
    LINE = "line"  # a delimiter after each
    RDW = "rdw"  # a record descriptor word before each
    BDW = "bdw"  # blocks with a descriptor word, of records with theirs
    SPANNED = "spanned"  # BDW blocks of segments; a record may continue in later blocks
    LENGTH_FIELD = "length-field"  # a length inside the record, or a value with a known length
    MICRO_FOCUS = "micro-focus"  # a 128-byte header; a word with type and length before each
    LAYOUT = "layout"  # no delimiters: a record's length follows from its layout and counters


@dataclass(frozen=True, slots=True)
class Framing:
    """How to cut a file or a message into records.

    - ``length`` is the length of fixed records, or the maximum length in a Micro Focus file. With ``returns``, a carriage return before the line's delimiter is dropped.
    - ``little``: descriptor words and length fields are little-endian.
    - ``adjustment`` is added to a stated length: 0 if it counts its own four bytes, as on z/OS, otherwise 4.
    - ``twisted`` descriptor words have the length in their second half.
    - ``block_little``, ``block_adjustment`` and ``block_twisted`` override these for block descriptors.
    - A record must have ``least`` to ``most`` bytes. Others are errors; with ``skips`` the reader drops them.
    - ``field_offset`` and ``field_width`` locate a binary length field; ``lengths`` are rules for lengths that are computed otherwise.
    - ``left`` is the number of bytes left in the block in which the data starts. For Micro Focus it is the width of the record words, or 0 at the start of the file.
    - ``skip_first`` and ``skip_last`` are numbers of header and trailer records. ``header_bytes`` and ``trailer_bytes`` surround all records.
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
        """The record and block descriptor words as numbers for the kernels, see ``find_descriptor_records``."""
        record_words = (self.little, self.twisted, self.adjustment)
        block_words = (self.block_little, self.block_twisted, self.block_adjustment)
        blocks = (
            # A setting of blocks that is not stated is that of records.
            record_word if block_word is None else block_word
            for record_word, block_word in zip(record_words, block_words, strict=True)
        )
        return np.array([*record_words, *blocks], np.int64)

    @property
    def longest(self) -> int | None:
        """The maximum number of bytes of a record with its descriptor word (or of a block), or None if unlimited."""
        adjustments = self.words[[2, 5]]
        if self.kind is FrameKind.BDW:
            return MOST_STATED + int(adjustments[1])
        if self.kind is not FrameKind.RDW:
            return None
        natural = MOST_STATED + int(adjustments[0])
        return natural if self.most is None or self.skips else min(natural, self.most + DESCRIPTOR)

    def find_wrong_lengths(self, starts: Longs, ends: Longs) -> Mask | None:
        """Return a mask of the records whose length is not ``least`` to ``most``, or None if no limits are set."""
        if not self.least and self.most is None:
            return None
        lengths = ends - starts
        bad: Mask = lengths < self.least
        return bad if self.most is None else bad | (lengths > self.most)

    def check(self) -> None:
        """Raise OptionError if the options of framing contradict each other."""
        if self.kind is FrameKind.FIXED and self.length < 1:
            raise OptionError(f"a record length must be at least 1 byte, not {self.length}")
        if self.kind is FrameKind.LINE and not self.delimiter:
            raise OptionError("the line delimiter is empty")
        if self.kind is FrameKind.LAYOUT and self.lengths is None:
            raise OptionError("framing=layout needs a layout")
        if self.field_width not in (1, 2, 4, 8):
            raise OptionError(f"a length field has 1, 2, 4 or 8 bytes, not {self.field_width}")
        heads = (self.skip_first, self.skip_last, self.header_bytes, self.trailer_bytes)
        if min(self.field_offset, *heads) < 0:
            raise OptionError("offsets and counts of records cannot be negative")
        if self.least < 0 or (self.most is not None and self.most < self.least):
            raise OptionError(f"records of {self.least} to {self.most} bytes are impossible")


class RecordFrames(NamedTuple):
    """The complete records ``data[starts[i]:ends[i]]`` of framed data.

    ``end`` is the offset after the last complete record.

    ``left`` is the number of bytes after ``end`` that belong to the same block. If records were
    joined from segments, ``data`` are the joined bytes, and ``places`` the offset of each record's
    first segment in the original data.
    """

    starts: Longs
    ends: Longs
    end: int
    data: Octets | None = None
    places: Longs | None = None
    left: int = 0


class RunFrames(NamedTuple):
    """The records in several runs of bytes, such as messages, each with the index of its run."""

    run: Longs
    starts: Longs
    ends: Longs


def find_frames(data: Octets, framing: Framing, *, finish: bool = False) -> RecordFrames:
    """Find the complete COBOL records of ``data``, which must start at a record.

    BDW data must start at a block. Data of spanned records may start inside a block:
    ``framing.left`` is then the number of bytes left in the block.

    With ``finish``, raises TruncatedError if a record is incomplete. Raises DecodeError with the
    offset of an invalid descriptor. Header and trailer records are not removed, as only a complete
    file has them.
    """
    frames = _FINDERS[framing.kind](data, framing, finish)
    _check_lengths(data, frames, framing)
    if finish and frames.end < len(data):
        raise TruncatedError(
            f"the file ends inside a record: {len(data) - frames.end} bytes are left over",
            where=Where(offset=frames.end, raw=data[frames.end : frames.end + 64].tobytes()),
            hint=_framing_hint(framing),
        )
    return frames


def _framing_hint(framing: Framing) -> str:
    """Return the hint for the error of a file that ends inside a record."""
    if framing.kind is FrameKind.LENGTH_FIELD and framing.lengths is None:
        place = f"{framing.field_width} bytes at offset {framing.field_offset} of each record"
        return f"Its length was read from {place} (lengthWidth, lengthOffset). If an item of the copybook has it, set lengthField=ITEM"
    return "Is the record length or the framing wrong?"


# Bytes of the descriptor before each record.
_HEADS: Final[Mapping[FrameKind, int]] = MappingProxyType(
    dict.fromkeys((FrameKind.RDW, FrameKind.BDW, FrameKind.SPANNED), DESCRIPTOR)
)


def _check_lengths(data: Octets, frames: RecordFrames, framing: Framing) -> None:
    """Raise DecodeError if a record is shorter or longer than allowed."""
    bad = framing.find_wrong_lengths(frames.starts, frames.ends)
    if bad is not None and not framing.skips and bad.any():
        lengths = frames.ends - frames.starts
        row = int(bad.argmax())
        offsets = frames.starts if frames.places is None else frames.places
        begin = int(offsets[row]) - _HEADS.get(framing.kind, 0)
        where = Where(offset=begin, raw=data[begin : begin + 64].tobytes())
        limits = (
            f"at least {framing.least}"
            if framing.most is None
            else f"{framing.least} to {framing.most}"
        )
        problem = f"a record of {lengths[row]} bytes, but records have {limits}"
        raise DecodeError(problem, where=where, hint=_HINT)


def find_common_begin(data: Octets, framing: Framing, *, last: bool) -> int | None:
    """Find an offset at which a record (a block for BDW) certainly starts, or return None.

    The data may start inside a record; ``last`` means that the data ends where the file ends. Any
    offset in the first ``longest`` bytes could be the start of a record, if descriptor words lead
    from it to the end of the data. The true records form one of these chains, because no record is
    longer than ``longest`` bytes. An offset where all chains meet is therefore a true record
    boundary, whatever the bytes inside records look like.
    """
    longest = framing.longest
    # Chains are only reliable over more bytes than the longest record.
    if longest is None or len(data) <= longest:
        return None
    following = np.empty(len(data), np.int64)
    follow_descriptor_chains(
        data, framing.kind is FrameKind.BDW, framing.words, longest, last, following
    )
    meeting = find_common_offset(following, longest, np.zeros(len(data), np.uint8))
    return None if meeting < 0 else meeting


def find_frames_in_runs(data: Octets, starts: Longs, ends: Longs, framing: Framing) -> RunFrames:
    """Find the records in runs of bytes ``data[start:end]``, such as messages, which are in ascending order.

    Records are lines or have a fixed length. The last record of a run may be shorter, or lack its
    delimiter. An empty run has no records.
    """
    if framing.kind is FrameKind.FIXED:
        return _fixed_in(starts, ends, framing.length)
    assert framing.kind is FrameKind.LINE, "other framings are for whole files"
    found, _ = _lines_in(data, starts, ends, framing, finish=True)
    return found


def _fixed_in(starts: Longs, ends: Longs, length: int) -> RunFrames:
    # Rounded up: a run of 25 bytes has 3 records of 10 bytes, the last one shorter.
    counts = -((starts - ends) // length)
    run = np.repeat(np.arange(len(starts)), counts)
    # The number of each record inside its run: with counts 3 and 2 it is 0 1 2 0 1.
    number = np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts)
    begins = starts[run] + number * length
    return RunFrames(run, begins, np.minimum(begins + length, ends[run]))


def _lines_in(
    data: Octets, starts: Longs, ends: Longs, framing: Framing, *, finish: bool
) -> tuple[RunFrames, int]:
    """Return the lines of byte runs, and the offset after the last complete line."""
    assert not len(starts) or (starts.min() >= 0 and ends.max() <= len(data))
    mark = np.frombuffer(framing.delimiter, np.uint8)
    candidates = np.flatnonzero(data == mark[0])
    # At most one line per delimiter, plus an unfinished one per run.
    most = len(candidates) + len(starts)
    frames = RunFrames(*(np.empty(most, np.int64) for _ in RunFrames._fields))
    count, end = find_line_records(data, candidates, starts, ends, mark, finish, *frames)
    run, begins, stops = (column[:count] for column in frames)
    if framing.returns and count:
        stops -= (stops > begins) & (data[stops - 1] == _RETURN)
    return RunFrames(run, begins, stops), end


def _find_fixed(data: Octets, framing: Framing, finish: bool) -> RecordFrames:  # noqa: ARG001
    """Find records of fixed length."""
    count = len(data) // framing.length
    starts = np.arange(count, dtype=np.int64) * framing.length
    return RecordFrames(starts, starts + framing.length, count * framing.length)


def _find_lines(data: Octets, framing: Framing, finish: bool) -> RecordFrames:
    """Find the records of a file of lines."""
    complete = np.array([0]), np.array([len(data)])
    (_, starts, ends), end = _lines_in(data, *complete, framing, finish=finish)
    return RecordFrames(starts, ends, int(end))


def _find_descriptors(data: Octets, framing: Framing, finish: bool) -> RecordFrames:  # noqa: ARG001
    """Find records with descriptor words (RDW), or blocks of them (BDW)."""
    # Each record has a descriptor of four bytes, so there cannot be more records than that.
    starts, ends = np.empty((2, len(data) // DESCRIPTOR), np.int64)
    blocks = framing.kind is FrameKind.BDW
    return _check(
        data, starts, ends, find_descriptor_records(data, blocks, framing.words, starts, ends)
    )


def _find_spanned(data: Octets, framing: Framing, finish: bool) -> RecordFrames:  # noqa: ARG001
    """Find spanned records and join their segments."""
    begins, stops = np.empty((2, len(data) // DESCRIPTOR), np.int64)
    closes = np.empty(len(begins), np.uint8)
    filled = find_spanned_records(data, framing.left, framing.words, begins, stops, closes)
    count, end, left, problem, length = map(int, filled)
    if problem:
        _check(data, begins, stops, (count, end, problem, length))
    # ``closes`` marks the last segment of each record. Example: closes 0 0 1 1 means that the
    # segments 0 to 2 form one record and segment 3 another; ``first`` is then 0 and 3.
    begins, stops, last = begins[:count], stops[:count], np.flatnonzero(closes[:count])
    if len(last) == count:
        return RecordFrames(begins, stops, end, left=left)
    first = np.append(0, last[:-1] + 1)
    ends = np.cumsum(stops - begins)[last]
    joined = octets(gather(data, begins, stops).buffers()[2])
    return RecordFrames(
        starts=np.append(0, ends[:-1]),
        ends=ends,
        end=end,
        data=joined,
        places=begins[first],
        left=left,
    )


def _find_micro_focus(data: Octets, framing: Framing, finish: bool) -> RecordFrames:
    """Find the records of a Micro Focus file."""
    width = framing.left or _width_of_words(data)
    if not width:
        return RecordFrames(np.zeros(0, np.int64), np.zeros(0, np.int64), 0)
    starts, ends = np.empty((2, len(data) // 4 + 1), np.int64)
    frames = _check(data, starts, ends, find_typed_records(data, width, finish, starts, ends))
    return frames._replace(left=width)


def _width_of_words(data: Octets) -> int:
    """Determine the width of the record words of a Micro Focus file (2 or 4) from its header.

    Returns 0 if the header is still incomplete. Raises DecodeError for an unknown header, and for
    files that are compressed or not sequential.
    """
    head = data[:HEADER_BYTES].tobytes()
    width = next((width for width, word in MICRO_FOCUS_HEADERS.items() if head.startswith(word)), 0)
    where = Where(offset=0, raw=head[:64])
    if not width and len(head) >= DESCRIPTOR:
        problem = "not a Micro Focus file: its header begins with 30 7E 00 00 or 30 00 00 7C"
        raise DecodeError(problem, where=where, hint=_HINT)
    if len(head) < HEADER_BYTES:
        return 0
    if head[39] != 1 or head[41]:
        what = "is compressed" if head[41] else f"has the organization {head[39]}"
        problem = f"the Micro Focus file {what}"
        hint = "Only uncompressed sequential files (organization 1) can be read: unload it"
        raise DecodeError(problem, where=where, hint=hint)
    return width


def word_width(framing: Framing) -> int:
    """Return the width in bytes of the record headers of a Micro Focus file, which depends on its longest record (``framing.length``)."""
    return 2 if framing.length < _WIDE_FROM else 4


def _find_computed(data: Octets, framing: Framing, finish: bool) -> RecordFrames:  # noqa: ARG001
    """Find records whose length is computed from fields in them."""
    lengths = framing.lengths or field_lengths(
        framing.field_offset, framing.field_width, little=framing.little
    )
    starts, ends = np.empty((2, len(data) // lengths.least), np.int64)
    numbers = np.empty(len(lengths.terms), np.int64)
    filled = find_computed_records(
        data, framing.adjustment, lengths.tables(), numbers, starts, ends
    )
    return _check(data, starts, ends, filled, lengths)


def _check(
    data: Octets,
    starts: Longs,
    ends: Longs,
    filled: tuple[int, int, int, int],
    lengths: RecordLengths | None = None,
) -> RecordFrames:
    """Return the records that a framing kernel found.

    Raises DecodeError if the kernel reported a problem.

    ``filled`` is the result of the kernel: the number of records, the offset after them, the
    problem code, and the wrong length (or, for NO_NUMBER, the index of the length term).
    """
    count, end, problem, length = map(int, filled)
    if problem:
        # For NO_NUMBER, the last number is the index of the term whose field is wrong.
        is_term = problem == NO_NUMBER and lengths is not None
        field = lengths.terms[length].name if is_term and lengths is not None else None
        where = Where(offset=end, field=field, raw=data[end : end + 64].tobytes())
        raise DecodeError(_PROBLEMS[problem].format(length), where=where, hint=_HINT)
    return RecordFrames(starts[:count].copy(), ends[:count].copy(), end)


# By record format: the function that cuts a file into records.
_FINDERS: Final[Mapping[FrameKind, Callable[[Octets, Framing, bool], RecordFrames]]] = (
    MappingProxyType(
        {
            FrameKind.FIXED: _find_fixed,
            FrameKind.LINE: _find_lines,
            FrameKind.RDW: _find_descriptors,
            FrameKind.BDW: _find_descriptors,
            FrameKind.SPANNED: _find_spanned,
            FrameKind.LENGTH_FIELD: _find_computed,
            FrameKind.LAYOUT: _find_computed,
            FrameKind.MICRO_FOCUS: _find_micro_focus,
        }
    )
)
