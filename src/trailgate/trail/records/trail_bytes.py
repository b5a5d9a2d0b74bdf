"""The bytes of a trail that are being read, with their place in the file and what they are in."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets
from trailgate.columnar.views import octets
from trailgate.errors import DecodeError, Where
from trailgate.trail.format.byte_order import ByteOrder

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

    What is split over records (fragments, large objects) is copied to the end of its chunk, so that
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

    ``charset`` is Python's name of the character set of texts; ``origins`` places bytes that were copied to the
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

    def appended(self, raw: bytes, sizes: Longs, origins: Longs) -> tuple[TrailBytes, Longs]:
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

    def extended(self, spans: Spans) -> tuple[TrailBytes, Longs]:
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
