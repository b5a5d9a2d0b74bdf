"""The messages that a range owns, parsed: the one rule of borders for capture and for Spark.

A range owns the *runs* that begin in it: from a message whose first operation begins a
transaction up to the next such message. A message shows by itself that it begins one, so ranges
that are read apart agree on their border. A run is one unit or several (decision 0012).

Bad messages are noted by their places, and read again and written when their range is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.capture.capture import Capture, Parsed
from trailgate.errors import StorageError, TrailgateError, mask_logins
from trailgate.messages.bounds import Problem, TransactionState
from trailgate.messages.messages import MessageBatch
from trailgate.messages.metadata import MessageIds
from trailgate.model.changes import ChangeBatch
from trailgate.storage.files.durable import writing
from trailgate.storage.files.quarantine import write_line
from trailgate.storage.reading.message_files import (
    MessageFiles,
    MessagePlace,
    MessageRange,
    ReadMessages,
    read_messages,
)

TAIL: Final = 64  # messages looked at first for the end of a run after a range's end


@dataclass(frozen=True, slots=True)
class OwnedBatch:
    """Messages of a range and their operations: some of its units, or parts of them.

    The first unit may continue that of the batch before, the last one continue in the next batch. An operation whose
    ``message`` is -1 belongs to a message of the unit that was open before. ``problems``
    are the first error of each bad message, in order; -1 is the unit open before the batch.
    """

    messages: MessageBatch
    operations: ChangeBatch
    message: Longs
    starts_unit: Mask
    problems: Mapping[int, TrailgateError]


class RangeReader:
    """Reads what a range owns, once. ``start`` and ``end``: its first run's and the next one's.

    They are known when all batches are taken; ``start`` stays None where the range owns nothing. ``last`` is where the last
    message that was read begins. Messages whose ids came before, by ``ids``, are left out; ``duplicates`` counts them.
    """

    def __init__(
        self,
        capture: Capture,
        files: MessageFiles,
        own: MessageRange,
        ids: MessageIds | None = None,
    ) -> None:
        self._capture, self._files, self._own, self._ids = capture, files, own, ids
        self.duplicates = 0
        self._begun = own.start == files.start  # nothing is before the input
        # What is before a range's first run is another range's: it is not judged here.
        self._state = TransactionState(broken=not self._begun)
        self.last = own.start
        self.notes: frozenset[str] = frozenset()
        self.start: MessagePlace | None = None
        self.end: MessagePlace | None = None

    @property
    def id_length(self) -> int | None:
        """Return how many characters sequence ids have, None where none was seen."""
        return self._state.id_length

    def batches(self) -> Iterator[OwnedBatch]:
        """Yield what the range owns, reading on past its end until the next run begins."""
        for read, after in self._read():
            batch = read.messages
            if after and not self._continues():
                self.end = place_of(batch, 0)
                return
            batch, problems = self._deduplicate(read)
            parsed = self._capture.parse(batch, self._state, problems)
            self._state, self.notes = parsed.state, self.notes | parsed.notes
            begin = 0 if self._begun else _first(parsed.opens)
            stop = _first(parsed.opens) if after else len(batch)
            if self._begun or begin < stop:
                yield from self._own_part(batch, parsed, begin, stop)
            if stop < len(batch):
                self.end = place_of(batch, stop)
                return
        self.end = self._files.end
        if self._begun:
            yield from self._at_end()

    def _deduplicate(self, read: ReadMessages) -> tuple[MessageBatch, tuple[Problem, ...]]:
        """Return the messages that did not come before, and what is wrong with them."""
        if self._ids is None:
            return read.messages, read.problems
        fresh = self._ids.screen(read.messages)
        self.duplicates += fresh.duplicates
        return fresh.apply(read.messages, read.problems)

    def _continues(self) -> bool:
        return self._begun and self._capture.spans_messages

    def _read(self) -> Iterator[tuple[ReadMessages, bool]]:
        """Yield batches cut at the range's end, and whether they are after it: those grow."""
        for read in read_messages(self._files, self._own.start):
            begin = self._inside(read.messages)
            if begin:
                yield read.part(0, begin), False
            size = TAIL
            while begin < len(read.messages):
                stop = min(begin + size, len(read.messages))
                yield read.part(begin, stop), True
                begin, size = stop, 2 * size

    def _inside(self, batch: MessageBatch) -> int:
        """Return how many messages of a batch begin before the range's end."""
        file, offset = self._own.end
        before = (batch.files < file) | ((batch.files == file) & (batch.offsets < offset))
        return int(before.sum())

    def _own_part(
        self, batch: MessageBatch, parsed: Parsed, begin: int, stop: int
    ) -> Iterator[OwnedBatch]:
        """Yield messages [begin, stop) and the problems that are the range's; maybe nothing."""
        problems = {}
        first = -1 if self._begun else begin  # -1 is held from a batch before
        for problem in parsed.problems:
            if begin <= problem.message < stop:
                place = place_of(batch, problem.message)
                problems[problem.message - begin] = with_place(problem.error, self._files, place)
            elif problem.message < 0 and self._begun:
                problems[-1] = with_place(problem.error, self._files, self._place_before(problem))
        if self.start is None and begin < stop:
            self.start = place_of(batch, begin)
        self._begun = True
        if begin < stop:
            self.last = place_of(batch, stop - 1)
        elif not problems:
            return
        inside = (parsed.message >= first) & (parsed.message < stop)
        yield OwnedBatch(
            batch.slice(begin, stop),
            parsed.batch.where(inside),
            parsed.message[inside] - begin,
            parsed.starts_unit[begin:stop],
            {at: problems[at] for at in sorted(problems)},
        )

    def _place_before(self, problem: Problem) -> MessagePlace:
        """Return the place of a problem of the unit that was open before a batch."""
        return self.last if problem.place is None else MessagePlace(*problem.place)

    def _at_end(self) -> Iterator[OwnedBatch]:
        """Yield a batch of no messages where the input's end ends a transaction, or leaves it open."""
        parsed = self._capture.at_end(self._state)
        self.notes |= parsed.notes
        problems = {}
        if parsed.problems:
            first = parsed.problems[0]
            problems[-1] = with_place(first.error, self._files, self._place_before(first))
        if problems or parsed.batch.rows:
            none = np.zeros(0, np.int64)
            nothing = MessageBatch(pa.py_buffer(b""), none, none, none, none)
            yield OwnedBatch(nothing, parsed.batch, parsed.message, none.astype(bool), problems)


def place_of(batch: MessageBatch, message: int) -> MessagePlace:
    """Return where a message of a batch begins."""
    return MessagePlace(int(batch.files[message]), int(batch.offsets[message]))


def with_place(error: TrailgateError, files: MessageFiles, place: MessagePlace) -> TrailgateError:
    """Return the error with its file's name and, where that has more, its message's place."""
    where, path = error.where, files.files[place.file].path
    if files.is_lined(place.file):
        error.where = replace(where, source=path, message=place.offset)
    else:  # the file is one message, or this is a part of it
        offset = where.offset if where.offset is None else where.offset + place.offset
        error.where = replace(where, source=path, message=None, offset=offset)
    return error


def _first(mask: Mask) -> int:
    """Return the first set slot, or the length."""
    found = np.flatnonzero(mask)
    return int(found[0]) if len(found) else len(mask)


SMALL: Final = 1 << 16  # bytes read at once where single messages are read again


def write_quarantine(path: Path, files: MessageFiles, reasons: Mapping[MessagePlace, str]) -> None:
    """Write the messages at these places and why they were quarantined, as JSON lines."""
    with writing(path), path.open("wb") as file:
        for place, body, headers in _read_again(files, sorted(reasons)):
            name = mask_logins(files.files[place.file].path)
            file.write(write_line(body, headers, (name, *place), reasons[place]))


def _read_again(
    files: MessageFiles, places: Sequence[MessagePlace]
) -> Iterator[tuple[MessagePlace, bytes, Mapping[str, str]]]:
    """Yield the messages at ascending places; an unreadable one as its raw bytes."""
    done = 0
    while done < len(places):
        for batch, problems in read_messages(files, places[done], SMALL):
            raw = {problem.message: problem.error.where.raw for problem in problems}
            index = {place_of(batch, i): i for i in range(len(batch))}
            before = done
            while done < len(places) and places[done] in index:
                i = index[places[done]]
                body = bytes(batch.data[int(batch.starts[i]) : int(batch.ends[i])])
                headers = {} if batch.headers is None else batch.headers[i]
                yield places[done], raw.get(i) or body, headers
                done += 1
            # A compressed file would be unpacked from its beginning again: it is read on instead.
            if done == len(places) or (done == before and files.splittable(places[done].file)):
                break
        else:
            if done < len(places) and places[done] not in index:
                raise StorageError("the messages changed during the run")
