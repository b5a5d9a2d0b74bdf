"""Write the quarantined messages of a range as JSON lines into its staging folder.

Messages of the current batch are written at once, a part of the batch at a time, so that memory use
does not grow with the number of bad messages. If a unit turns out to be bad, only the positions of
its earlier messages are known, so these messages are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import CHUNK, Longs
from trailgate.columnar.gather import gather
from trailgate.columnar.rows import distinct_numbers
from trailgate.errors import StorageError, shown_source
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.problems import Problems
from trailgate.model.positions import format_message_positions
from trailgate.storage.files.durable import convert_write_errors
from trailgate.storage.files.quarantine import format_quarantine_lines
from trailgate.storage.reading.message_files import MessageFiles, read_messages
from trailgate.storage.reading.message_lines import MessagePosition

PART: Final = 1 << 13  # messages whose lines are made at once
AHEAD: Final = 64  # positions that decide how much is read at once
SMALL: Final = 1 << 16  # bytes per read when single messages are read again
_CHANGED: Final = "the messages changed during the run"
_UNCHANGED: Final = "Capture them again while no other program changes them"

Reasons = Callable[[slice], pa.StringArray]


@dataclass(frozen=True, slots=True)
class MessagePositions:
    """The positions of messages to quarantine: the file's number and the offset of each."""

    files: Longs
    offsets: Longs

    def __len__(self) -> int:
        return len(self.files)


class QuarantineWriter:
    """Writes quarantined messages, in their order, to a new file.

    Without a path it only counts them.
    """

    def __init__(self, path: Path | None, files: MessageFiles) -> None:
        self.count = 0
        self._path, self._files = path, files
        self._file: FileIO | None = None

    def add(
        self, messages: MessageBatch, rows: Longs, reasons: Reasons, unreadable: Problems
    ) -> None:
        """Write the messages of a batch whose numbers are in `rows`.

        `reasons` returns the reasons of some of the rows. `unreadable` are the problems of messages
        that could not be read: their bodies are the raw bytes of the error.
        """
        self.count += len(rows)
        if self._path is None:
            return
        for begin in range(0, len(rows), PART):
            part = slice(begin, begin + PART)
            own, headers = rows[part], messages.headers
            bodies = _bodies(messages, own, unreadable)
            kept = None if headers is None else [headers[row] for row in own.tolist()]
            positions = MessagePositions(messages.files[own], messages.offsets[own])
            self._write(bodies, kept, positions, reasons(part))

    def add_earlier(self, positions: MessagePositions, reason: str) -> None:
        """Read messages of earlier batches again, and write all of them with the same reason."""
        self.count += len(positions)
        if self._path is None:
            return
        for batch, bodies in _read_again(self._files, positions):
            own = MessagePositions(batch.files, batch.offsets)
            self._write(bodies, batch.headers, own, pa.repeat(reason, len(batch)))

    def _write(
        self,
        bodies: pa.BinaryArray,
        headers: Iterable[Mapping[str, str]] | None,
        positions: MessagePositions,
        reasons: pa.StringArray,
    ) -> None:
        assert self._path is not None
        known, which = distinct_numbers(positions.files)
        names = [shown_source(self._files.files[number].path) for number in known.tolist()]
        source = names[0] if len(names) == 1 else pa.array(names, pa.string()).take(pa.array(which))
        places = format_message_positions(positions.files, positions.offsets)
        lines = format_quarantine_lines(bodies, headers, source, places, reasons)
        with convert_write_errors(self._path):
            if self._file is None:
                self._file = FileIO(self._path, "w")
            left = memoryview(lines)
            while left:  # a write may be cut short, for example by a signal
                left = left[self._file.write(left) :]

    def close(self) -> str | None:
        """Close the quarantine file. Return its name, or None if nothing was written."""
        if self._file is None or self._path is None:
            return None
        with convert_write_errors(self._path):
            self._file.close()
        return self._path.name


def _bodies(messages: MessageBatch, rows: Longs, problems: Problems) -> pa.BinaryArray:
    """Return the bodies of these messages of a batch, to quarantine them.

    The body of an unreadable message is the raw bytes in its error, which is in `problems`.
    """
    bodies = gather(messages.data, messages.starts[rows], messages.ends[rows])
    if "raw" not in problems.errors.columns:
        return bodies
    raw = problems.errors.column("raw")
    here = np.isin(problems.message, rows) & (np.asarray(pc.binary_length(raw).fill_null(0)) > 0)
    # The raw bytes are appended after all bodies, and the rows that have such bytes take those.
    places = np.arange(len(bodies))
    places[np.searchsorted(rows, problems.message[here])] = len(bodies) + np.arange(here.sum())
    return pa.concat_arrays([bodies, raw.filter(pa.array(here))]).take(pa.array(places))


def _read_again(
    files: MessageFiles, wanted: MessagePositions
) -> Iterator[tuple[MessageBatch, pa.BinaryArray]]:
    """Read the messages at these positions again, and yield them in batches with their bodies.

    The body of an unreadable message is its raw bytes.
    """
    done = 0
    while done < len(wanted):
        start = MessagePosition(int(wanted.files[done]), int(wanted.offsets[done]))
        for batch, problems in read_messages(files, start, _chunk(wanted, done)):
            # A read returns a batch from the first wanted message on. Take all wanted messages that
            # it contains.
            rows = _wanted_rows(batch, wanted, done)
            if len(rows):
                yield batch.only(rows), _bodies(batch, rows, problems)
                done += len(rows)
            # Reading on is cheaper than a new start in a compressed file, which is always unpacked from its beginning.
            if done == len(wanted) or (not len(rows) and files.splittable(int(wanted.files[done]))):
                break
        else:
            raise StorageError(_CHANGED, hint=_UNCHANGED)


def _chunk(wanted: MessagePositions, done: int) -> int:
    """Return how many bytes of a message file to read at once.

    Few, if the next wanted messages are few or far from each other. The first `done` ones have been
    read.
    """
    ahead = done + AHEAD
    if ahead >= len(wanted) or wanted.files[ahead] != wanted.files[done]:
        return SMALL
    return CHUNK if wanted.offsets[ahead] - wanted.offsets[done] < SMALL else SMALL


def _wanted_rows(batch: MessageBatch, wanted: MessagePositions, done: int) -> Longs:
    """Return the rows of a batch whose messages are at one of the wanted positions.

    The first `done` wanted messages have been read already.
    """
    count = len(batch)
    ahead = slice(done, done + count)
    files, offsets = wanted.files[ahead], wanted.offsets[ahead]
    if len(files) == count and (files == batch.files).all() and (offsets == batch.offsets).all():
        return np.arange(count)
    # Sorted together, a wanted row of the batch is followed by the wanted message at its place.
    both = np.append(batch.files, files), np.append(batch.offsets, offsets)
    order = np.lexsort((both[1], both[0]))
    one, next_one = order[:-1], order[1:]
    same = (both[0][one] == both[0][next_one]) & (both[1][one] == both[1][next_one])
    if not (next_one[same] - count == np.arange(same.sum())).all():
        raise StorageError(_CHANGED, hint=_UNCHANGED)
    rows: Longs = one[same]
    return rows
