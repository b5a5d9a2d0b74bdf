"""Find where the records of a trail lie; nothing inside them is looked at.

A record is G (47 01), a u16 length of the whole object, ..., and the trailer Z (5A 01) that
repeats info and length (trail format §2). Records follow each other without a gap, so one loop finds them all.

The bytes of a trail that are being read, with their place in the file and what they are in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import Longs, Octets
from trailgate.columnar.rows import octets
from trailgate.errors import DecodeError, TruncatedError, Where
from trailgate.trail.format.record_layout import HEAD_PLACES, INDICATOR
from trailgate.trail.format.tokens import FRAME, HEADER, RECORD, RECORD_INFOS, TRAILER, ByteOrder
from trailgate.trail.records import kernels
from trailgate.trail.records.kernels import MIN_RECORD

INDICATOR_AT, IO_TYPE_AT = (
    2 * FRAME + HEAD_PLACES[name] for name in ("indicator", "io_type")
)  # in a record
FOLLOWERS: Final = 3  # records that must follow before a place counts as a record's begin


@dataclass(frozen=True, slots=True)
class RecordPlaces:
    """Where complete records lie: byte offsets and lengths, and the offset at which they end."""

    offsets: Longs
    lengths: Longs
    end: int


def find_records(
    data: Octets, start: int = 0, *, order: ByteOrder = ByteOrder.BIG, finish: bool = False
) -> RecordPlaces:
    """Return the complete records from ``start`` on; an unfinished last one is left out.

    With ``finish`` an unfinished record raises TruncatedError. Bad framing raises DecodeError.
    """
    found = _found(data, start, order)
    if found.end < len(data):
        length_at(data, found.end, order)  # raises where no record can be
    if finish and found.end < len(data):
        raise TruncatedError(
            "the input ends inside a record",
            where=Where(offset=found.end, raw=data[found.end : found.end + 64].tobytes()),
        )
    return found


def find_sound(data: Octets, order: ByteOrder) -> tuple[RecordPlaces, DecodeError | None]:
    """Return the complete records up to bytes that are not a record, and what is wrong with those."""
    found = _found(data, 0, order)
    try:
        length_at(data, found.end, order)
    except DecodeError as error:
        return found, error
    return found, None


def _found(data: Octets, start: int, order: ByteOrder) -> RecordPlaces:
    room = max(0, len(data) - start) // MIN_RECORD
    offsets, lengths = np.empty(room, np.int64), np.empty(room, np.int64)
    big = order is ByteOrder.BIG
    count, end, _ = kernels.find_frames(data, start, big, _RECORD_INFO, offsets, lengths)
    # Copies: views would keep the room for the most records that there could be.
    return RecordPlaces(offsets[:count].copy(), lengths[:count].copy(), end)


def find_order(data: Octets, start: int = 0) -> ByteOrder | None:
    """Return the byte order of the record at ``start``; None while it is not all there.

    trail format §3: the order for which the first record's trailer is right; big-endian is tried
    first. Raises DecodeError where neither fits.
    """
    waiting = False
    first: DecodeError | None = None
    for order in ByteOrder:
        try:
            if length_at(data, start, order) is not None:
                return order
            waiting = True
        except DecodeError as error:
            first = first or error
    if waiting or first is None:
        return None
    raise first


def resync(data: Octets, start: int, order: ByteOrder = ByteOrder.BIG) -> int:
    """Return the first offset from ``start`` on at which a record begins; -1 if there is none.

    A record counts if three more follow it without a gap, or as many as the data hold.
    """
    return int(kernels.find_chain(data, start, order is ByteOrder.BIG, _RECORD_INFO, FOLLOWERS))


def find_typed(data: Octets, order: ByteOrder, io_type: int) -> Longs:
    """Return the offsets of complete records of one type, without a look at the others.

    Only what frames and header repeat is checked: bytes inside a record that look like a whole
    record of that type are found as well.
    """
    if len(data) <= IO_TYPE_AT:
        return np.zeros(0, np.int64)
    # The type is the rarest of the bytes that must be right.
    places = np.flatnonzero(data[IO_TYPE_AT:] == io_type)
    places = places[(data[places] == RECORD) & (data[places + INDICATOR_AT] == INDICATOR)]
    return np.array([p for p in places.tolist() if _whole(data, p, order)], np.int64)


def _whole(data: Octets, place: int, order: ByteOrder) -> bool:
    try:
        return data[place + FRAME] == HEADER and length_at(data, place, order) is not None
    except DecodeError:
        return False


def length_at(data: Octets, place: int, order: ByteOrder) -> int | None:
    """Return the length of the record there; None if it is not all there yet.

    Raises DecodeError where no record can be.
    """
    head = data[place : place + FRAME].tobytes()
    if (head[:1] and head[0] != RECORD) or (head[1:] and head[1] not in RECORD_INFOS):
        raise _bad_frame(data, place, "a record must begin with 47 01")
    if len(head) < FRAME:
        return None
    length = order.number(head[2:])
    if length < MIN_RECORD:
        raise _bad_frame(data, place, f"a record of {length} bytes is too short")
    if place + length > len(data):
        return None
    tail = data[place + length - FRAME : place + length].tobytes()
    expected = bytes((TRAILER,)) + head[1:]
    if tail != expected:
        problem = f"the record's trailer should be {expected.hex(' ')}, not {tail.hex(' ')}"
        raise _bad_frame(data, place, problem)
    return length


def _record_infos() -> npt.NDArray[np.bool_]:
    table = np.zeros(256, bool)
    table[list(RECORD_INFOS)] = True
    table.setflags(write=False)
    return table


_RECORD_INFO: Final = _record_infos()


def _bad_frame(data: Octets, place: int, problem: str) -> DecodeError:
    raw = data[place : place + 64].tobytes()
    hint = "Is the trail damaged, or does reading begin inside a record?"
    return DecodeError(problem, where=Where(offset=place, raw=raw), hint=hint)


SPARE = 8  # bytes after appended data: no word is wider


def dense(rows: Longs) -> Longs | slice:
    """Return ascending rows as a slice, which copies nothing, where they are the first ones without a gap."""
    return slice(len(rows)) if len(rows) and rows[-1] == len(rows) - 1 else rows


@dataclass(frozen=True, slots=True)
class Spans:
    """Where things lie in the data: [starts, ends), one slot a record."""

    starts: Longs
    ends: Longs

    @property
    def sizes(self) -> Longs:
        """Return the bytes of each."""
        return self.ends - self.starts

    def take(self, rows: Longs | slice) -> Spans:
        """Return the slots of some rows."""
        return Spans(self.starts[rows], self.ends[rows])


@dataclass(frozen=True, slots=True)
class Origins:
    """Where copied runs begin in extended data, ascending, and the offset that each was copied from.

    What is split over records (fragments, large objects) is copied to the end of its batch, so that
    everything else reads it like any other bytes.
    """

    starts: Longs
    origins: Longs

    def of(self, place: int) -> int:
        """Return the offset of the original data that a place in the extended data was copied from."""
        run = int(np.searchsorted(self.starts, place, "right")) - 1
        if run < 0:
            return place
        return int(self.origins[run]) + place - int(self.starts[run])

    def and_then(self, other: Origins) -> Origins:
        """Return these runs and, after them, others."""
        return Origins(
            np.concatenate([self.starts, other.starts]),
            np.concatenate([self.origins, other.origins]),
        )


NOT_EXTENDED = Origins(np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True)
class TrailBytes:
    """Bytes of a trail, as a buffer and as an array; ``base`` is their offset in the file.

    ``charset`` is Python's name of the character set of strings; ``origins`` places bytes that were copied to the
    end of the data.
    """

    buffer: pa.Buffer
    data: Octets
    base: int = 0
    order: ByteOrder = ByteOrder.BIG
    charset: str = "utf-8"
    origins: Origins = NOT_EXTENDED

    @property
    def big(self) -> bool:
        """Return whether numbers of the trail are big-endian."""
        return self.order is ByteOrder.BIG

    def error(
        self, problem: str, span: tuple[int, int], *, table: str | None = None, hint: str = ""
    ) -> DecodeError:
        """Return an error about the bytes [start, end) of the data."""
        start, end = span
        raw = self.data[start : max(start, end)].tobytes()
        where = Where(offset=self.base + self.origins.of(start), table=table, raw=raw)
        return DecodeError(problem, where=where, hint=hint)

    def append(self, raw: bytes, sizes: Longs, origins: Longs) -> tuple[TrailBytes, Longs]:
        """Return these bytes with others at the end, and where each run of them begins.

        ``sizes`` are those of the runs, ``origins`` the places of what they were made of.
        """
        ends = len(self.data) + np.cumsum(sizes)
        places = ends - sizes
        data = np.concatenate([self.data, np.frombuffer(raw + bytes(SPARE), np.uint8)])
        known = self.origins.and_then(Origins(places, origins))
        return replace(self, buffer=pa.py_buffer(data), data=data, origins=known), places

    def part(self, start: int, end: int) -> TrailBytes:
        """Return the bytes [start, end) on their own."""
        return replace(
            self,
            buffer=self.buffer.slice(start, end - start),
            data=self.data[start:end],
            base=self.base + start,
        )

    def extend(self, spans: Spans) -> tuple[TrailBytes, Longs]:
        """Return these bytes with copies of some of them at the end, and where each copy begins."""
        ends = len(self.data) + np.cumsum(spans.sizes)
        places = ends - spans.sizes
        # Whoever reads a word at the last value's begin must not reach beyond the end.
        data = np.zeros(int(ends[-1]) + SPARE, np.uint8)
        data[: len(self.data)] = self.data
        for place, start, end in zip(places, spans.starts, spans.ends, strict=True):
            data[place : place + end - start] = self.data[start:end]
        origins = self.origins.and_then(Origins(places, spans.starts))
        return replace(self, buffer=pa.py_buffer(data), data=data, origins=origins), places


def trail_bytes(data: pa.Buffer | bytes | Octets, base: int, order: ByteOrder) -> TrailBytes:
    """Return anything with a buffer as bytes of a trail that begin at an offset of the file."""
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    return TrailBytes(buffer, octets(buffer), base, order)
