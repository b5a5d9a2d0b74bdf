"""Find the records of a trail by their frames, and store the bytes that are being read.

A record is G (``47 01``), a u16 length of the complete object, its content, and the trailer Z (``5A
01``) that repeats info and length (trail format §2). Records follow each other without a gap, so
one loop jumps from length to length without reading anything inside the records.

`TrailBytes` is one portion of a trail file. It maps each position back to its offset in the file
for error messages, even for values that were joined from several records and copied to the end of
the portion.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets, byte_mask, octets
from trailgate.errors import DecodeError, TruncatedError, Where
from trailgate.trail.format.record_header import HEAD_PLACES, INDICATOR
from trailgate.trail.format.tokens import FRAME, HEADER, RECORD, RECORD_INFOS, TRAILER, ByteOrder
from trailgate.trail.records import kernels
from trailgate.trail.records.kernels import MIN_RECORD

INDICATOR_AT, IO_TYPE_AT = (
    2 * FRAME + HEAD_PLACES[name] for name in ("indicator", "io_type")
)  # in a record
RECORD_INFO: Final = byte_mask(RECORD_INFOS)  # the second byte of a record
FOLLOWERS: Final = 3  # records that must follow before an offset counts as the start of a record

SPARE = 8  # bytes after appended data, so that a word read at the last byte stays within the data


@dataclass(frozen=True, slots=True)
class RecordSpans:
    """The offsets and lengths of the complete trail records in some data, and the offset after the last of them."""

    offsets: Longs
    lengths: Longs
    end: int


def find_records(
    data: Octets, start: int = 0, *, order: ByteOrder = ByteOrder.BIG, finish: bool = False
) -> RecordSpans:
    """Find the complete trail records from ``start`` on. An incomplete last record is excluded.

    With ``finish`` an incomplete record raises TruncatedError. Bytes that are not a record raise
    DecodeError.
    """
    records = _find(data, start, order)
    if records.end < len(data):
        read_record_length(data, records.end, order)  # raises if the bytes cannot be a record
    if finish and records.end < len(data):
        raise TruncatedError(
            "the input ends inside a record",
            where=Where(offset=records.end, raw=data[records.end : records.end + 64].tobytes()),
        )
    return records


def find_records_until_damage(
    data: Octets, order: ByteOrder
) -> tuple[RecordSpans, DecodeError | None]:
    """Find the complete trail records up to the first bytes that are not a record, and the error for those bytes, if any."""
    records = _find(data, 0, order)
    try:
        read_record_length(data, records.end, order)
    except DecodeError as error:
        return records, error
    return records, None


def _find(data: Octets, start: int, order: ByteOrder) -> RecordSpans:
    # No record is shorter than MIN_RECORD, so there cannot be more.
    room = max(0, len(data) - start) // MIN_RECORD
    offsets, lengths = np.empty(room, np.int64), np.empty(room, np.int64)
    big = order is ByteOrder.BIG
    count, end, _ = kernels.find_frames(data, start, big, RECORD_INFO, offsets, lengths)
    # Copy, since a view would keep the complete array alive, which has room for the most
    # records that fit into the data.
    return RecordSpans(offsets[:count].copy(), lengths[:count].copy(), end)


def find_order(data: Octets, start: int = 0) -> ByteOrder | None:
    """Detect the byte order from the trail record at ``start``, or return None if the record is incomplete.

    trail format §3: it is the order in which the first record's trailer is right. Big-endian is
    tried first. Raises DecodeError if neither order fits.
    """
    waiting = False
    first: DecodeError | None = None
    for order in ByteOrder:
        try:
            if read_record_length(data, start, order) is not None:
                return order
            # An incomplete record in one order may still be a complete one in the other: try that
            # first.
            waiting = True
        except DecodeError as error:
            first = first or error
    if waiting or first is None:
        return None
    raise first


def resync(data: Octets, start: int, order: ByteOrder = ByteOrder.BIG) -> int:
    """Find the first trail record from ``start`` on by the frames of four records in a row. Returns its offset, or -1.

    A record is only accepted if three more records follow it without a gap, or all remaining data
    are records.
    """
    return int(kernels.find_chain(data, start, order is ByteOrder.BIG, RECORD_INFO, FOLLOWERS))


def find_records_of_type(data: Octets, order: ByteOrder, io_type: int) -> Longs:
    """Find the offsets of complete trail records of one type without parsing the other records.

    Only the frames and the header's first byte are checked, so bytes inside a record that look like
    a complete record of that type are found as well.
    """
    if len(data) <= IO_TYPE_AT:
        return np.zeros(0, np.int64)
    # Search for the type first: of the bytes that must match, it is the rarest.
    starts = np.flatnonzero(data[IO_TYPE_AT:] == io_type)
    starts = starts[(data[starts] == RECORD) & (data[starts + INDICATOR_AT] == INDICATOR)]
    return np.array([at for at in starts.tolist() if _is_complete(data, at, order)], np.int64)


def _is_complete(data: Octets, offset: int, order: ByteOrder) -> bool:
    try:
        return (
            data[offset + FRAME] == HEADER and read_record_length(data, offset, order) is not None
        )
    except DecodeError:
        return False


def read_record_length(data: Octets, offset: int, order: ByteOrder) -> int | None:
    """Read the length of the trail record at an offset from its frame. Returns None if the record is incomplete.

    Raises DecodeError if the bytes cannot be a record.
    """
    head = data[offset : offset + FRAME].tobytes()
    # A first byte that is wrong is reported even if the frame is incomplete.
    if (head[:1] and head[0] != RECORD) or (head[1:] and head[1] not in RECORD_INFOS):
        raise _bad_frame(data, offset, "a record must begin with 47 01")
    if len(head) < FRAME:
        return None
    length = order.number(head[2:])
    if length < MIN_RECORD:
        raise _bad_frame(data, offset, f"a record of {length} bytes is too short")
    if offset + length > len(data):
        return None
    tail = data[offset + length - FRAME : offset + length].tobytes()
    expected = bytes((TRAILER,)) + head[1:]
    if tail != expected:
        problem = f"the record's trailer should be {expected.hex(' ')}, not {tail.hex(' ')}"
        raise _bad_frame(data, offset, problem)
    return length


def _bad_frame(data: Octets, offset: int, problem: str) -> DecodeError:
    raw = data[offset : offset + 64].tobytes()
    hint = "Is the trail damaged, or does reading begin inside a record?"
    return DecodeError(problem, where=Where(offset=offset, raw=raw), hint=hint)


@dataclass(frozen=True, slots=True)
class Spans:
    """The byte span [start, end) of one part of each record, such as its data."""

    starts: Longs
    ends: Longs

    @property
    def sizes(self) -> Longs:
        """The size of each byte span."""
        return self.ends - self.starts

    def take(self, rows: Longs | slice) -> Spans:
        """Return the byte spans of some records."""
        return Spans(self.starts[rows], self.ends[rows])


@dataclass(frozen=True, slots=True)
class CopyOrigins:
    """Maps the copied bytes at the end of trail bytes to the bytes that they were copied from.

    Values that are split over several records (fragments, large objects) are joined at the end of
    their batch, so that everything else can read them like other bytes. ``starts`` are the offsets
    of the copies, ascending, and ``origins`` the offsets from which they were copied. With starts
    [1000, 1010] and origins [20, 95], byte 1003 was copied from 23 and byte 1012 from 97. An origin
    may be a copy itself, but always an earlier one.
    """

    starts: Longs
    origins: Longs

    def original_offset(self, offset: int) -> int:
        """Convert an offset of copied trail bytes to the offset of the bytes that were copied. Other offsets are unchanged."""
        # The last run that begins at or before the offset. Joined fragments may be rewritten, so
        # what they were copied from may be copied bytes as well. Before all runs are the original data.
        while (run := int(np.searchsorted(self.starts, offset, "right")) - 1) >= 0:
            offset = int(self.origins[run]) + offset - int(self.starts[run])
        return offset

    def append(self, other: CopyOrigins) -> CopyOrigins:
        """Return the origins of these copies followed by those of ``other``, whose copies come later."""
        return CopyOrigins(
            np.concatenate([self.starts, other.starts]),
            np.concatenate([self.origins, other.origins]),
        )


NOT_EXTENDED = CopyOrigins(np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True)
class TrailBytes:
    """The bytes of a portion of a trail file, with their byte order. ``base`` is the portion's offset in the file.

    ``buffer`` and ``data`` are the same bytes for Arrow and for numpy. ``charset`` is Python's name
    for the character set of strings. ``origins`` maps bytes that were copied to the end of the data
    back to their origin.
    """

    buffer: pa.Buffer
    data: Octets
    base: int = 0
    order: ByteOrder = ByteOrder.BIG
    charset: str = "utf-8"
    origins: CopyOrigins = NOT_EXTENDED

    @property
    def big(self) -> bool:
        """Return whether the trail's numbers are big-endian."""
        return self.order is ByteOrder.BIG

    def error(
        self, problem: str, span: tuple[int, int], *, table: str | None = None, hint: str = ""
    ) -> DecodeError:
        """Build a DecodeError about the bytes [start, end) of the data, with their offset in the file."""
        start, end = span
        raw = self.data[start : max(start, end)].tobytes()
        where = Where(offset=self.base + self.origins.original_offset(start), table=table, raw=raw)
        return DecodeError(problem, where=where, hint=hint)

    def append(self, raw: bytes, sizes: Longs, origins: Longs) -> TrailBytes:
        """Append new bytes to the bytes of a trail's portion. Returns the extended bytes.

        ``sizes`` are the sizes of the runs in ``raw``, and ``origins`` the offsets of the data that
        they were built from.
        """
        # Example: runs of 3 and 2 bytes after 10 bytes: ends = 13 15, starts = 10 13.
        starts = len(self.data) + np.cumsum(sizes) - sizes
        data = np.concatenate([self.data, np.frombuffer(raw + bytes(SPARE), np.uint8)])
        known = self.origins.append(CopyOrigins(starts, origins))
        return replace(self, buffer=pa.py_buffer(data), data=data, origins=known)

    def part(self, start: int, end: int) -> TrailBytes:
        """Return the bytes [start, end) of the portion as a separate portion."""
        return replace(
            self,
            buffer=self.buffer.slice(start, end - start),
            data=self.data[start:end],
            base=self.base + start,
        )

    def extend(self, spans: Spans) -> tuple[TrailBytes, Longs]:
        """Append copies of some spans to the bytes of a trail's portion, one after another.

        Returns the extended bytes and the offset of each copy.
        """
        ends = len(self.data) + np.cumsum(spans.sizes)
        copies = ends - spans.sizes
        data = np.zeros(int(ends[-1]) + SPARE, np.uint8)
        data[: len(self.data)] = self.data
        for copy, start, end in zip(copies, spans.starts, spans.ends, strict=True):
            data[copy : copy + end - start] = self.data[start:end]
        origins = self.origins.append(CopyOrigins(copies, spans.starts))
        return replace(self, buffer=pa.py_buffer(data), data=data, origins=origins), copies


def wrap_trail_bytes(data: pa.Buffer | bytes | Octets, base: int, order: ByteOrder) -> TrailBytes:
    """Wrap bytes, a buffer or an array as trail bytes that begin at offset ``base`` of the file."""
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    return TrailBytes(buffer, octets(buffer), base, order)
