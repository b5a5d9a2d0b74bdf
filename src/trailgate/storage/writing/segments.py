"""Write the files of a trail before they are published: header, encoded records, rollover, and rollback.

The header is a placeholder, which publishing fills in. If a file reaches its maximum size, the next
file is begun. ``rollback`` undoes everything that was written since ``mark``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from io import FileIO
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from trailgate.errors import OptionError
from trailgate.model.changes import ChangeBatch
from trailgate.storage.files.durable import convert_write_errors
from trailgate.trail.writing.trail_format import LEVEL_3, TrailFormat
from trailgate.trail.writing.writer import EncodedTrail

MAX_BYTES: Final = 500 * 1000 * 1000  # GoldenGate's default size of a trail file


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of writing trail files: maximum size, digits of their numbers (9 or 6), and format."""

    max_bytes: int = MAX_BYTES
    seq_digits: int = 9
    trail_format: TrailFormat = LEVEL_3

    def __post_init__(self) -> None:
        if self.seq_digits not in (6, 9):
            raise OptionError(f"a trail file's name ends in 6 or 9 digits, not {self.seq_digits}")


def check_digits(known: int, given: int) -> None:
    """Raise OptionError if the numbers of a trail's files have another number of digits than the option states."""
    if known != given:
        problem = f"the trail's file names end in {known} digits, not {given}"
        hint = f"Use --seq-digits {known} (seq_digits, on Spark seqDigits)"
        raise OptionError(problem, hint=hint)


Encoding = Callable[[ChangeBatch], EncodedTrail]  # ``writer.encode`` in a format


class EncodedOperations(NamedTuple):
    """A batch of operations, and their trail records in the same order."""

    records: EncodedTrail
    operations: ChangeBatch


@dataclass(frozen=True, slots=True)
class Segment:
    """One staged trail file, which does not have a number yet.

    ``size`` includes the header. CSNs and times (in microseconds since 1970) are those of its first
    and last operation, None if it has no operations.
    """

    name: str
    size: int
    operations: int = 0
    first_csn: str | None = None
    last_csn: str | None = None
    first_time: int | None = None
    last_time: int | None = None


Mark = tuple[Segment, ...]


@dataclass(slots=True)
class SegmentWriter:
    """Writes the operations of one range to the staged trail files ``<stem>.0``, ``<stem>.1`` and so on.

    ``header`` are the bytes before the first operation of each file.
    """

    folder: Path
    stem: str
    header: bytes
    max_bytes: int = MAX_BYTES
    _segments: list[Segment] = field(default_factory=list)
    _file: FileIO | None = None

    def append(self, written: EncodedOperations, begin: int, stop: int) -> None:
        """Write the operations [begin, stop) to staged files.

        If a file is full, the next operation starts a new file.
        """
        encoded = written.records
        body = memoryview(encoded.body)
        while begin < stop:
            end = min(self._fitting(encoded, begin), stop)
            # Not even one operation fits: begin a new file.
            if end == begin:
                self._begin()
                continue
            first, last = int(encoded.starts[begin]), int(encoded.starts[end])
            self._write(body[first:last])
            self._count_operations(written.operations, begin, end, last - first)
            begin = end

    def mark(self) -> Mark:
        """Return the current state of the staged files, for ``rollback``."""
        return tuple(self._segments)

    def rollback(self, mark: Mark) -> None:
        """Remove everything that was written to staged files after the mark."""
        self._close()
        with convert_write_errors(self.folder):
            for segment in self._segments[len(mark) :]:
                (self.folder / segment.name).unlink()
            self._segments = list(mark)
            if mark:
                path = self.folder / mark[-1].name
                os.truncate(path, mark[-1].size)
                self._file = path.open("ab", buffering=0)

    def close(self) -> Mark:
        """Close the staged trail files, and return what they contain."""
        self._close()
        return tuple(self._segments)

    def _fitting(self, encoded: EncodedTrail, begin: int) -> int:
        """Return the index after the last operation that fits into the staged file that is open.

        A new file accepts at least one operation.
        """
        if self._file is None:
            return begin
        segment = self._segments[-1]
        return count_fitting(
            encoded, begin, self.max_bytes - segment.size, is_empty=not segment.operations
        )

    def _begin(self) -> None:
        self._close()
        name = f"{self.stem}.{len(self._segments)}"
        with convert_write_errors(self.folder):
            self._file = (self.folder / name).open("wb", buffering=0)
        self._segments.append(Segment(name, len(self.header)))
        self._write(self.header)

    def _write(self, data: bytes | memoryview) -> None:
        assert self._file is not None
        rest = memoryview(data)
        with convert_write_errors(self._file.name):
            while rest:
                rest = rest[self._file.write(rest) :]

    def _count_operations(self, batch: ChangeBatch, begin: int, end: int, size: int) -> None:
        segment = self._segments[-1]
        first_csn, first_time = _facts(batch, begin)
        last_csn, last_time = _facts(batch, end - 1)
        empty = segment.operations == 0
        self._segments[-1] = replace(
            segment,
            size=segment.size + size,
            operations=segment.operations + end - begin,
            first_csn=first_csn if empty else segment.first_csn,
            last_csn=last_csn,
            first_time=first_time if empty else segment.first_time,
            last_time=last_time,
        )

    def _close(self) -> None:
        if self._file is not None:
            with convert_write_errors(self._file.name), self._file as file:
                self._file = None
                os.fsync(file.fileno())


def count_fitting(encoded: EncodedTrail, begin: int, room: int, *, is_empty: bool) -> int:
    """Return the index after the last operation, from ``begin`` on, that fits into ``room`` bytes.

    ``room`` is the number of bytes that may still be written to a trail file. An empty file accepts
    at least one operation.
    """
    last = room + int(encoded.starts[begin])
    # ``starts`` has one more entry than there are operations. With starts 0 10 25 40, begin 0 and
    # 30 bytes of room, operations 0 and 1 fit: end is 2.
    end = int(np.searchsorted(encoded.starts, last, "right")) - 1
    return max(end, begin + 1 if is_empty else begin)


def _facts(batch: ChangeBatch, order: int) -> tuple[str | None, int | None]:
    """Return the CSN and time (microseconds since 1970) of the operation ``order`` of a batch."""
    block, row = batch.find(order)
    return block.csn[row].as_py(), int(block.op_ts[row])
