"""Splits: which transactions a task owns, read to their end in flat memory.

A split is a range of a trail and owns the transactions that begin in it. Whoever owns a transaction
reads it to its end, after the split's end and into later files if it must.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from trailgate.arrays import PORTION, Octets
from trailgate.errors import TruncatedError, Where, masked
from trailgate.model.changes import ChangeBatch
from trailgate.model.operations_schema import undatable
from trailgate.model.tables import Definitions
from trailgate.storage.files.even_cuts import even_cuts
from trailgate.storage.files.trail_files import TrailFile, TrailFiles, TrailPlace
from trailgate.storage.reading.trail.notices import (
    HELD,
    UNBEGUN,
    UNDATABLE,
    UNFINISHED,
    UNPAIRED,
    Notices,
)
from trailgate.storage.reading.trail.restarts import Restarts
from trailgate.storage.reading.trail.tables import EarlierTables
from trailgate.storage.reading.trail.trail_file import LONGEST, TrailFileReader, usual_charset
from trailgate.storage.reading.trail.transaction_spans import Stretch, bounds_of, next_begin
from trailgate.trail.reading.reader import ReaderState, decode
from trailgate.trail.reading.wanted import EVERYTHING, Wanted
from trailgate.trail.records.metadata import NO_TABLES
from trailgate.trail.records.transactions import LAST

LOG: Final = logging.getLogger(__name__)
SPLIT_BYTES: Final = 64 << 20
NAMED: Final = 3  # tables in a message
NOT_UNDERSTOOD: Final = (
    "%s, byte %d: the trail has definitions of %s%s that are not understood; unless definitions are given "
    "(--definitions FILE), their columns are numbered and numbers are unscaled"
)
FILE_COST: Final = 256 << 10  # bytes that could be read while a file is opened


@dataclass(frozen=True, slots=True)
class TrailSplit:
    """The transactions that begin in [start, end).

    ``whole`` takes the range as it is, whatever its first record is: right for the beginning of
    a trail, where nobody else would take the rest of an earlier transaction.
    """

    start: TrailPlace
    end: TrailPlace
    whole: bool = False


def plan_splits(
    trail: TrailFiles,
    split_bytes: int = SPLIT_BYTES,
    bounds: tuple[TrailPlace, TrailPlace] | None = None,
) -> list[TrailSplit]:
    """Return splits that together hold every operation between two places once, in order.

    Large files are split, small ones put together.
    """
    start, stop = bounds or (trail.begin, trail.end)
    cuts = _cuts(trail, split_bytes, (start, stop))
    ends = [*cuts[1:], stop]
    return [
        TrailSplit(one, other, whole=one == start) for one, other in zip(cuts, ends, strict=True)
    ]


def _cuts(
    trail: TrailFiles, split_bytes: int, bounds: tuple[TrailPlace, TrailPlace]
) -> list[TrailPlace]:
    start, stop = bounds
    files = [file for file in trail.following(start.number) if (file.number, 0) < stop]
    begins = [start.offset if file.number == start.number else 0 for file in files]
    ends = [
        min(file.size, stop.offset) if file.number == stop.number else file.size for file in files
    ]
    cost = min(FILE_COST, split_bytes)
    sizes = [max(end - begin, cost) for begin, end in zip(begins, ends, strict=True)]
    cuts = [start]
    for index, offset in even_cuts(sizes, split_bytes):
        file, at = files[index], begins[index] + offset
        if at >= ends[index]:
            place = TrailPlace(file.number + 1, 0)
        elif at < cost // 4:  # at a file's beginning no record is searched
            place = TrailPlace(file.number, 0)
        else:
            place = TrailPlace(file.number, at)
        if cuts[-1] < place < stop:
            cuts.append(place)
    return cuts


class SplitReader:
    """Reads a split once, from its first transaction to the end of its last.

    Only what is ``wanted`` is decoded. ``charset`` None: what the file or the definitions state. ``give_open``: the last
    operation of a transaction that is open at the trail's end is given, and not left out with a notice.
    """

    def __init__(
        self,
        trail: TrailFiles,
        split: TrailSplit,
        wanted: Wanted = EVERYTHING,
        charset: str | None = None,
        *,
        give_open: bool = False,
        notices: Notices | None = None,
    ) -> None:
        self._trail = trail
        self._split = split
        self._state = ReaderState(wanted=wanted)
        self._charset, self._give_open = charset, give_open
        self._notices = notices or Notices()
        self._buffer = np.empty(0, np.uint8)
        self._announced: set[str] = set()
        self.restarts = Restarts(trail)

    @property
    def _definitions(self) -> Definitions:
        return self._trail.definitions

    def batches(self) -> Iterator[ChangeBatch]:
        """Yield the operations, one batch a portion."""
        split = self._split
        begin: TrailPlace | None = split.start
        if not split.whole:
            begin = next_begin(self._trail, split.start, split.end)
        if begin is None:
            return
        for file in self._trail.following(begin.number):
            with TrailFileReader(file) as reader:
                done = yield from self._file(reader, begin)
            if done:
                return

    def _file(
        self, reader: TrailFileReader, begin: TrailPlace
    ) -> Generator[ChangeBatch, None, bool]:
        """Yield the operations of one file; return whether the split's end was come to."""
        file = reader.file
        may_grow = self._trail.may_grow(file)
        place = self._place(reader, begin)
        if place is None:
            return True
        self._notices.of_header(reader)
        earlier = EarlierTables(reader, place)
        charset = self._charset or usual_charset(reader.header, self._definitions)
        self._state = replace(self._state, order=reader.order, tables=NO_TABLES, charset=charset)
        size = self._size(reader, place)
        while place < file.size:
            data = reader.read_into(self._room(size), place)
            at_end = place + len(data) >= file.size
            stretch, last = self._stretch(reader, data, place, may_grow=may_grow)
            if not earlier.complete:
                tables = earlier.needed_by(data, stretch.view, place)
                self._state = replace(self._state, tables=tables)
            decoded = decode(
                data,
                self._definitions,
                file_number=file.number,
                base_offset=place,
                state=self._state,
                finish=last or (at_end and not may_grow),
                give_open=at_end and self._give_open,
                records=self.restarts.remaining(stretch, last=last),
            )
            self._announce(file.path, decoded.state)
            self._state = decoded.state
            if decoded.batch.rows:
                self._note(file.path, decoded.batch)
                yield decoded.batch
            left = decoded.consumed < stretch.view.end
            if at_end and not last:
                self._note_end(file, place + stretch.view.end)
            if last or at_end:
                if left and not last:
                    _check_end(stretch, file.path)
                    held = UNPAIRED if self._give_open else HELD
                    self._notices.once(held, file.path, place + decoded.consumed)
                return last
            if left:
                self.restarts.resume()
            place += decoded.consumed
            # One operation may be longer than a portion: it has pieces of large objects.
            size = self._size(reader, place) if decoded.consumed else 2 * size
        return False

    def _place(self, reader: TrailFileReader, begin: TrailPlace) -> int | None:
        """Return where records to read begin in a file; None where its writer has just begun it."""
        file = reader.file
        try:
            return max(begin.offset if file.number == begin.number else 0, reader.begin)
        except TruncatedError:
            if self._trail.may_grow(file):
                self._notices.once(UNBEGUN, file.path, file.size)
                return None
            raise

    def _announce(self, path: str, state: ReaderState) -> None:
        """Log definitions of the trail that are not understood, once a table."""
        found = state.tables.unread_since(self._state.tables, self._definitions)
        names = [known.name for known in found if known.name not in self._announced]
        if names:
            self._announced.update(names)
            offset = min(known.offset for known in found)
            LOG.warning(
                NOT_UNDERSTOOD, masked(path), offset, ", ".join(names[:NAMED]), _more(names)
            )

    def _note(self, path: str, batch: ChangeBatch) -> None:
        """Log times that are not dates, and tables that nothing defines; those not understood are logged already."""
        if any(undatable(block.op_ts).any() for block in batch.blocks):
            self._notices.once(UNDATABLE, path)
        names = {block.table.name for block in batch.blocks if block.table.guessed}
        self._notices.of_undefined(path, sorted(names - self._announced))

    def _note_end(self, file: TrailFile, end: int) -> None:
        """Log where a file ends inside a record, if the split goes so far."""
        if end < file.size and TrailPlace(file.number, end) < self._split.end:
            self._notices.once(UNFINISHED, file.path, end)

    def _room(self, size: int) -> Octets:
        """Return memory for a portion, in place of the one before: columns hold copies, and fresh memory costs as much as reading."""
        if size > len(self._buffer):
            self._buffer = np.empty(size, np.uint8)
        return self._buffer[:size]

    def _size(self, reader: TrailFileReader, place: int) -> int:
        """Return how much to read: not far into what is most likely another split's."""
        number, limit = self._split.end
        if reader.file.number == number and place < limit:
            return min(PORTION, limit - place + LONGEST)
        return PORTION

    def _stretch(
        self, reader: TrailFileReader, data: Octets, place: int, *, may_grow: bool
    ) -> tuple[Stretch, bool]:
        """Return the records at a place up to the next split's first transaction, and whether that follows."""
        number, end = reader.file.number, self._split.end
        view = reader.view(data, place)
        found = Stretch(number, place, view, bounds_of(view))
        if number >= end.number:
            limit = end.offset if number == end.number else 0
            others = np.flatnonzero(found.bounds.begins & (found.starts >= limit))
            if len(others):
                return found.take(slice(int(others[0]))), True
        if place + len(data) < reader.file.size:
            return _to_last_end(found), False
        if not may_grow and view.end < len(data):
            reader.view(data, place, finish=True)  # raises
        return found, False


def _to_last_end(stretch: Stretch) -> Stretch:
    """Return records up to the end of the last transaction that ends among them, all where none does.

    The next ones are read again, but nothing is carried over, and it need not be asked whether they are abandoned. The last
    record is not known to end a transaction: pieces of it may follow.
    """
    ends = stretch.bounds.ends[-2::-1]
    back = int(ends.argmax()) if len(ends) else 0
    if not len(ends) or not ends[back]:
        return stretch
    return stretch.take(slice(len(stretch.bounds) - 1 - back))


def _more(names: list[str]) -> str:
    return f" and {len(names) - NAMED} more tables" if len(names) > NAMED else ""


def _check_end(stretch: Stretch, path: str) -> None:
    """Raise where the last record ends its transaction, and is continued: what follows it is missing, or it is damaged."""
    view = stretch.view
    if len(view) and view.continued[-1] and view.indicator[-1] >= LAST:
        raise TruncatedError(
            "the last record is continued, but nothing follows it",
            where=Where(source=path, offset=int(stretch.starts[-1])),
            hint="Is the trail still being written? If not, its end is missing or Continued is damaged",
        )
