"""Read splits of a trail: each split owns certain transactions, and reads them to their end.

A split is a range of a trail, and owns the transactions that begin in it. Its reader reads these to
their end, beyond the split's end and into later files if necessary, and skips the rest of a
transaction that began earlier. When records are read instead of operations, a split returns every
record that begins in it. Memory is constant: one chunk at a time is decoded. Notices that are not
part of the rows are logged, to stderr unless a program handles the log.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import CHUNK, Octets
from trailgate.errors import TruncatedError, Where, mask_logins
from trailgate.model.changes import ChangeBatch
from trailgate.model.kernels import BEGINS
from trailgate.model.operations_table import mask_undatable
from trailgate.model.tables import Definitions
from trailgate.storage.files.even_parts import even_cuts
from trailgate.storage.files.trail_files import TrailFile, TrailFiles, TrailPosition
from trailgate.storage.files.trail_names import number_digits
from trailgate.storage.reading.indicator_check import SequenceCheck
from trailgate.storage.reading.record_runs import RecordRun, find_record_begin
from trailgate.storage.reading.trail_definitions import EarlierTables
from trailgate.storage.reading.trail_file import (
    LONGEST,
    TrailFileReader,
    charset_of_trail_file,
    describe_size,
)
from trailgate.storage.reading.transaction_spans import RestartFilter, find_next_begin
from trailgate.trail.format.file_header import MISNUMBERED, ORACLE, find_other_number
from trailgate.trail.reading.images import EVERYTHING, ReadSelection
from trailgate.trail.reading.reader import ReaderState, decode
from trailgate.trail.reading.record_table import build_record_table
from trailgate.trail.record_checks import describe_record_faults
from trailgate.trail.records.framing import wrap_trail_bytes
from trailgate.trail.records.table_metadata import NO_TABLES
from trailgate.trail.records.transactions import CLOSES, LAST, change_marks
from trailgate.trail.writing.trail_format import HIGHEST_LEVEL, is_newer_level

LOG: Final = logging.getLogger(__name__)
UNDEFINED: Final = (
    "%s: %s%s is not defined: columns are numbered and numbers unscaled; use a definitions file "
    "(--definitions FILE, or PREFIX.def)"
)
HELD: Final = (
    "%s, byte %d: the last operation of an open transaction is skipped, since more of it may follow "
    "(--open-transactions show includes it)"
)
UNFINISHED: Final = (
    "%s, byte %d: the file ends inside a record, which is skipped (%d bytes): "
    "it is still being written, or the file was cut (trailgate check lists what is complete)"
)
WRONG_SIZE: Final = "%s: %s (trailgate check lists what is complete)"
UNBEGUN: Final = "%s: the file ends at byte %d, inside its header: it is still being written, or the file was cut (trailgate check lists what is complete)"
UNPAIRED: Final = "%s, byte %d: the last update is skipped: its after image is not written yet"
NEWER: Final = (
    "%s: the trail has level %d, but only levels up to %d are known: new features may be misread"
)
OTHER_FILE: Final = "%s: %s"
LOST: Final = "%s"  # an error, with its place and hint
UNDATABLE: Final = "%s: commit times outside of the years 1 to 9999 are null"
NAMED: Final = 3  # the most tables named in a notice
# Bytes of a split: small enough that all cores have work, large enough that starting a task costs little.
TRAIL_SPLIT_BYTES: Final = 64 << 20
NOT_UNDERSTOOD: Final = (
    "%s, byte %d: the trail's definitions of %s%s are not understood; without other definitions "
    "(--definitions FILE), columns are numbered and numbers are unscaled"
)
AHEAD: Final = 16  # files after its split that a task gets; most transactions end in the first
FILE_COST: Final = 256 << 10  # the cost of opening a file, as the bytes one could read meanwhile


class NoticeLog:
    """Logs each notice about a trail once, even if several readers share the log."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def once(self, text: str, *values: object) -> None:
        """Log a notice about the trail with its values, unless it was logged before."""
        if text not in self._given:
            self._given.add(text)
            LOG.warning(text, *(mask_logins(v) if isinstance(v, str) else v for v in values))

    def of_header(self, reader: TrailFileReader) -> None:
        """Warn if a trail file's number is wrong, its level is unknown, or its size differs from the size that it states."""
        file, header = reader.file, reader.header
        if header is None:
            return
        other = find_other_number(header, file.number) if number_digits(file.path) else None
        if other is not None:
            self.once(OTHER_FILE, file.path, MISNUMBERED.format(other, file.number))
        if is_newer_level(header.trail.compatibility):
            self.once(NEWER, file.path, header.trail.compatibility, HIGHEST_LEVEL)
        problem = describe_size(reader)
        if problem:
            self.once(WRONG_SIZE, file.path, problem)

    def of_undefined(self, path: str, names: list[str]) -> None:
        """Warn if tables of the trail are not defined."""
        if names:
            more = f" and {len(names) - NAMED} more tables" if len(names) > NAMED else ""
            self.once(UNDEFINED, path, ", ".join(names[:NAMED]), more)


@dataclass(frozen=True, slots=True)
class TrailSplit:
    """A split of a trail: the transactions that begin in [start, end).

    With ``whole``, reading starts with the first record even if it continues a transaction. The
    first split of a read is whole, because no other split contains the beginning of that
    transaction.
    """

    start: TrailPosition
    end: TrailPosition
    whole: bool = False


def plan_splits(
    trail: TrailFiles,
    split_bytes: int = TRAIL_SPLIT_BYTES,
    bounds: tuple[TrailPosition, TrailPosition] | None = None,
) -> list[TrailSplit]:
    """Plan splits of a trail that together contain every operation between two positions once, in order.

    ``bounds`` are the two positions (None: the complete trail). Large files are divided into splits
    of about ``split_bytes``, small files combined.
    """
    start, stop = bounds or (trail.begin, trail.end)
    cuts = _cuts(trail, split_bytes, (start, stop))
    # Each split ends where the next one starts.
    ends = [*cuts[1:], stop]
    return [
        TrailSplit(begin, end, whole=begin == start) for begin, end in zip(cuts, ends, strict=True)
    ]


def _cuts(
    trail: TrailFiles, split_bytes: int, bounds: tuple[TrailPosition, TrailPosition]
) -> list[TrailPosition]:
    """Return the positions at which the splits of a trail start."""
    start, stop = bounds
    files = [file for file in trail.files_from(start.number) if (file.number, 0) < stop]
    begins = [start.offset if file.number == start.number else 0 for file in files]
    ends = [
        min(file.size, stop.offset) if file.number == stop.number else file.size for file in files
    ]
    cost = min(FILE_COST, split_bytes)
    # A small file counts as much as opening it costs.
    sizes = [max(end - begin, cost) for begin, end in zip(begins, ends, strict=True)]
    cuts = [start]
    for index, offset in even_cuts(sizes, split_bytes):
        file, at = files[index], begins[index] + offset
        if at >= ends[index]:
            position = TrailPosition(file.number + 1, 0)
        elif at < cost // 4:  # at the start of a file, no record must be searched
            position = TrailPosition(file.number, 0)
        else:
            position = TrailPosition(file.number, at)
        if cuts[-1] < position < stop:
            cuts.append(position)
    return cuts


def files_for_split(trail: TrailFiles, split: TrailSplit) -> TrailFiles:
    """Return the trail with only the files that a task needs to read a split.

    The result has no definitions, which are sent once for all tasks.
    """
    # The last transaction of a split may end in a later file. The file before the first split shows
    # whether a transaction is open where it starts.
    first = max(trail.begin.number, split.start.number - split.whole)
    return trail.window(first, split.end.number + AHEAD).without_definitions()


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """How a split is read: which tables and columns, and what happens to incomplete transactions.

    ``chunk_bytes`` is the number of bytes that are read and decoded at once (None: ``CHUNK``). If
    ``charset`` is None, the character set is that of ``charset_of_trail_file``. With ``give_open``, the
    last operation of a transaction that is open at the trail's end is returned; otherwise it is
    skipped with a notice. With ``allow_torn``, records that are missing inside a transaction are a
    notice instead of an error.
    """

    selection: ReadSelection = EVERYTHING
    charset: str | None = None
    give_open: bool = False
    allow_torn: bool = False
    chunk_bytes: int | None = None


class SplitReader:
    """Reads a split of a trail once, from its first transaction to the end of its last."""

    def __init__(
        self,
        trail: TrailFiles,
        split: TrailSplit,
        options: SplitOptions | None = None,
        notices: NoticeLog | None = None,
    ) -> None:
        self._trail, self._split, self._options = trail, split, options or SplitOptions()
        self._state = ReaderState(wanted=self._options.selection)
        self._sequence = SequenceCheck(trail)
        self._notices = notices or NoticeLog()
        self._buffer = np.empty(0, np.uint8)
        self._announced: set[str] = set()
        self.restarts = RestartFilter(trail)

    @property
    def _definitions(self) -> Definitions:
        return self._trail.definitions

    def batches(self) -> Iterator[ChangeBatch]:
        """Yield the operations of the split, one batch per chunk."""
        split = self._split
        begin: TrailPosition | None = split.start
        if not split.whole:
            begin = find_next_begin(self._trail, split.start, split.end)
        if begin is None:
            return
        for file in self._trail.files_from(begin.number):
            with TrailFileReader(file) as reader:
                done = yield from self._file(reader, begin)
            if done:
                return

    def _file(
        self, reader: TrailFileReader, begin: TrailPosition
    ) -> Generator[ChangeBatch, None, bool]:
        """Yield the split's operations in one trail file. Returns True if the split's end was reached."""
        file = reader.file
        may_grow = self._trail.may_grow(file)
        offset = self._place(reader, begin)
        if offset is None:
            return True
        self._notices.of_header(reader)
        earlier = EarlierTables(reader, offset)
        charset = self._options.charset or charset_of_trail_file(reader.header, self._definitions)
        self._state = replace(self._state, order=reader.order, tables=NO_TABLES, charset=charset)
        size = self._size(reader, offset)
        while offset < file.size:
            data = reader.read_into(self._room(size), offset)
            at_end = offset + len(data) >= file.size
            run, following = self._run(reader, data, offset, may_grow=may_grow)
            last = following is not None
            # Metadata records before this point are read only as far as the records need them.
            if not earlier.complete:
                tables = earlier.needed_by(data, run.view, offset)
                self._state = replace(self._state, tables=tables)
            decoded = decode(
                data,
                self._definitions,
                file_number=file.number,
                base_offset=offset,
                state=replace(self._state, gives_open=at_end and self._options.give_open),
                finish=last or (at_end and not may_grow),
                records=self.restarts.remaining(run, last=last),
            )
            self._check_sequence(file.path, run, decoded.consumed, following)
            self._announce(file.path, decoded.state)
            self._state = decoded.state
            if decoded.batch.rows:
                self._note(file.path, decoded.batch)
                yield decoded.batch
            left = decoded.consumed < run.view.end
            if at_end and not last:
                self._note_end(reader, offset + run.view.end)
            # Undecoded records at the end belong to an open transaction, or to an unfinished
            # record.
            if last or at_end:
                if left and not last:
                    _check_end(run, file.path)
                    held = UNPAIRED if self._options.give_open else HELD
                    self._notices.once(held, file.path, offset + decoded.consumed)
                return last
            offset += decoded.consumed
            # An operation with pieces of large objects may be longer than a chunk: read more then.
            size = self._size(reader, offset) if decoded.consumed else 2 * size
        return False

    def _place(self, reader: TrailFileReader, begin: TrailPosition) -> int | None:
        """Return the offset of the first record to read in a file, or None while its header is incomplete."""
        file = reader.file
        try:
            return max(begin.offset if file.number == begin.number else 0, reader.begin)
        except TruncatedError:
            if self._trail.may_grow(file):
                self._notices.once(UNBEGUN, file.path, file.size)
                return None
            raise

    def _check_sequence(
        self, path: str, run: RecordRun, consumed: int, following: TrailPosition | None
    ) -> None:
        """Raise DecodeError if records are missing inside a run's transactions, or only log it if that is allowed.

        Records from the offset ``consumed`` on are read again with the next chunk, and checked
        then.
        """
        read = run.take(slice(int(np.searchsorted(run.view.offsets, consumed))))
        error = self._sequence.find_loss(read, following)
        if error is None:
            return
        error.with_place(source=path)
        if not self._options.allow_torn:
            raise error
        self._notices.once(LOST, str(error))

    def _announce(self, path: str, state: ReaderState) -> None:
        """Log table definitions in the trail that cannot be decoded, once per table."""
        tables_unread = state.tables.undefined_since(self._state.tables, self._definitions)
        names = [known.name for known in tables_unread if known.name not in self._announced]
        if names:
            self._announced.update(names)
            offset = min(known.offset for known in tables_unread)
            LOG.warning(
                NOT_UNDERSTOOD, mask_logins(path), offset, ", ".join(names[:NAMED]), _more(names)
            )

    def _note(self, path: str, batch: ChangeBatch) -> None:
        """Log invalid times and undefined tables, unless ``_announce`` has logged these already."""
        if any(mask_undatable(block.op_ts).any() for block in batch.blocks):
            self._notices.once(UNDATABLE, path)
        names = {block.table.name for block in batch.blocks if block.table.guessed}
        self._notices.of_undefined(path, sorted(names - self._announced))

    def _note_end(self, reader: TrailFileReader, end: int) -> None:
        """Log an unfinished record at a trail file's end, if the split extends that far.

        Raises DecodeError if records follow it.
        """
        file, left = reader.file, reader.incomplete_bytes(end)
        if left and TrailPosition(file.number, end) < self._split.end:
            self._notices.once(UNFINISHED, file.path, end, left)

    def _room(self, size: int) -> Octets:
        """Return a buffer of ``size`` bytes for the next chunk of a trail file.

        The buffer is reused, because columns are copies of its bytes. Allocating new memory for
        each chunk would take as long as reading it.
        """
        if size > len(self._buffer):
            self._buffer = np.empty(size, np.uint8)
        return self._buffer[:size]

    def _size(self, reader: TrailFileReader, offset: int) -> int:
        """Return the number of bytes to read next: a chunk, or fewer if the end of the split is near."""
        (number, limit), chunk = self._split.end, self._options.chunk_bytes or CHUNK
        if reader.file.number == number and offset < limit:
            return min(chunk, limit - offset + LONGEST)
        return chunk

    def _run(
        self, reader: TrailFileReader, data: Octets, offset: int, *, may_grow: bool
    ) -> tuple[RecordRun, TrailPosition | None]:
        """Find the records in ``data``, read at ``offset``, up to the first transaction of the next split.

        Returns also the position of that transaction, or None if it is not in ``data``.
        """
        number, end = reader.file.number, self._split.end
        view = reader.view(data, offset)
        run = RecordRun(number, offset, view, change_marks(view))
        if number >= end.number:
            # In the file of the split's end only records from its offset on belong to others; in a
            # later file all do.
            limit = end.offset if number == end.number else 0
            # Transactions that begin at or after the split's end belong to the next split.
            others = np.flatnonzero(run.has(BEGINS) & (run.starts >= limit))
            if len(others):
                own = run.take(slice(int(others[0])))
                return own, TrailPosition(number, int(run.starts[others[0]]))
        if offset + len(data) < reader.file.size:
            return _to_last_end(run), None
        # All bytes of the file were in `data`, so the bytes after the last complete record are a
        # rest. Each call raises its own error for it.
        if not may_grow and view.end < len(data):
            reader.incomplete_bytes(offset + view.end)  # raises if records follow
            reader.view(data, offset, finish=True)  # raises
        return run, None


def _to_last_end(run: RecordRun) -> RecordRun:
    """Return the records of a run up to the last one that ends a transaction, or all if none does.

    The dropped records are read again with the next chunk, so no state must be passed on, and
    restarts need not be considered. The run's last record does not count as an end, because
    continuations of it may follow.
    """
    # From the second-to-last record backwards, so argmax finds the last end.
    ends = run.marks[-2::-1] & CLOSES != 0
    back = int(ends.argmax()) if len(ends) else 0
    if not len(ends) or not ends[back]:
        return run
    return run.take(slice(len(run.marks) - 1 - back))


def _more(names: list[str]) -> str:
    return f" and {len(names) - NAMED} more tables" if len(names) > NAMED else ""


def _check_end(run: RecordRun, path: str) -> None:
    """Raise TruncatedError if a trail's last record ends its transaction but is marked as continued."""
    view = run.view
    if len(view) and view.continued[-1] and view.indicator[-1] >= LAST:
        raise TruncatedError(
            "the last record should be continued, but nothing follows it",
            where=Where(source=path, offset=int(run.starts[-1])),
            hint="Is the trail still being written? If not, its end is missing or Continued is damaged",
        )


def read_split_records(
    trail: TrailFiles, split: TrailSplit, notices: NoticeLog | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records that begin in a split of a trail, including those that a restart undid."""
    notices = notices or NoticeLog()
    begin = split.start if split.whole else find_record_begin(trail, split.start)
    for file in trail.files_from(begin.number):
        start = begin.offset if file.number == begin.number else 0
        # An empty last file is opened too, so that a notice names it.
        is_last_and_empty = not file.size and file.number == split.end.number
        if TrailPosition(file.number, start) >= split.end and not is_last_and_empty:
            return
        with TrailFileReader(file) as reader:
            limit, may_grow = _limit(file, split.end), trail.may_grow(file)
            for batch in _records(reader, start, limit, may_grow, notices):
                notices.of_header(reader)
                yield batch


def _limit(file: TrailFile, end: TrailPosition) -> int:
    return end.offset if file.number == end.number else file.size


def _records(
    reader: TrailFileReader, start: int, limit: int, may_grow: bool, notices: NoticeLog
) -> Iterator[pa.RecordBatch]:
    try:
        offset = max(start, reader.begin)
    except TruncatedError:
        if may_grow:
            notices.once(UNBEGUN, reader.file.path, reader.file.size)
            return
        raise
    header = reader.header
    oracle = header is not None and header.database.vendor == ORACLE
    tables = reader.tables(offset) if offset > reader.begin else NO_TABLES
    while offset < limit:
        data = reader.read(offset, CHUNK)
        at_end = offset + len(data) >= reader.file.size
        view = reader.view(data, offset)
        if at_end and (left := reader.incomplete_bytes(offset + view.end)):
            reader.view(data, offset, finish=not may_grow)
            if offset + view.end < limit:
                notices.once(UNFINISHED, reader.file.path, offset + view.end, left)
        # Only the records that begin before the split's end.
        owned = int((offset + view.offsets < limit).sum())
        if not owned:
            return
        source = wrap_trail_bytes(data, offset, reader.order)
        records = view.take(slice(owned))
        table_found = build_record_table(source, records, reader.file.number, tables, oracle=oracle)
        yield _with_damage(table_found.batch, describe_record_faults(source, records))
        tables = table_found.tables
        offset += view.end


def _with_damage(batch: pa.RecordBatch, damage: Mapping[int, str]) -> pa.RecordBatch:
    """Fill the column ``problem`` of damaged trail records, unless it already has a value.

    ``damage`` maps a row to the description of its damage.
    """
    if not damage:
        return batch
    column = batch.schema.get_field_index("problem")
    described = pa.array([damage.get(row) for row in range(batch.num_rows)], pa.string())
    problems = pc.coalesce(batch.column(column), described)
    return batch.set_column(column, batch.schema.field(column), problems)
