"""The steps of checking trail files: beginnings, chunks of records, gaps and ends.

The files are read once, in chunks (``check_steps``). First ``trail.record_checks`` searches all
records of a chunk for faults at once. The good records are then decoded by the code of the readers,
to find everything that a reader would reject; without ``values`` only indicators and lengths are
checked, with ``values`` all values are decoded and converted to the types of their columns. If a
chunk is rejected, its transactions are decoded in halves until the bad ones are isolated.

The check of a trail, salvage and the browser's index process the same steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from trailgate.arrays import CHUNK, Longs, Octets
from trailgate.errors import DecodeError, TrailgateError
from trailgate.model.kernels import UNDOES
from trailgate.model.shapes import check_typed_values, find_fine_times
from trailgate.model.tables import Definitions
from trailgate.model.transactions import FollowedTransactions, TransactionOutcome
from trailgate.storage.files.addresses import name_of
from trailgate.storage.files.trail_files import StoredTrail, TrailFile
from trailgate.storage.reading.trail_file import TrailFileReader, charset_of_trail_file
from trailgate.trail import findings as kinds
from trailgate.trail.clean_records import CleanRecordCounts, CleanRecords
from trailgate.trail.format.file_header import (
    SIGNATURE,
    FileHeader,
    decode_header,
    detect_header_order,
)
from trailgate.trail.format.record_types import RecordRole
from trailgate.trail.format.tokens import FRAME, RECORD, ByteOrder
from trailgate.trail.reading.images import ReadSelection
from trailgate.trail.reading.reader import ReaderState, decode
from trailgate.trail.record_checks import (
    InspectedRecords,
    KnownTables,
    TransactionCheckState,
    check_csns,
    check_table_references,
    check_transactions,
    count_unfinished_records,
    inspect_records,
)
from trailgate.trail.records.damage import (
    UNFINISHED,
    describe_unreadable,
    detect_record_order,
    find_next_record,
)
from trailgate.trail.records.framing import TrailBytes, find_records_until_damage, wrap_trail_bytes
from trailgate.trail.records.record import LONGEST, decode_record
from trailgate.trail.records.record_problems import REFUSED
from trailgate.trail.records.record_view import RecordColumns, view_records
from trailgate.trail.records.table_metadata import TrailTables

# The most bad transactions of a chunk that are isolated one by one. If there are more, for example
# because the definitions belong to other tables, larger parts of the chunk count as bad.
SOUGHT: Final = 16
# The signature follows three frames: of the header (F), of its first group and its first field.
SIGNATURE_AT: Final = 3 * FRAME
# After damage read smaller chunks: more damage may follow, and would waste what is read.
AFTER_DAMAGE: Final = 256 << 10
SHORTER: Final = "the file is shorter than its header or the manifest states"

AROUND: Final = 32  # bytes shown before damage
SHOWN: Final = 64  # the most bytes shown of the damage itself


@dataclass(frozen=True, slots=True)
class ReaderCheck:
    """How the check of a trail decodes records, as its readers do.

    With ``values``, all values are decoded too. ``fine`` collects, per table and column, a date
    time with more digits than a timestamp can represent.
    """

    definitions: Definitions = field(default_factory=lambda: Definitions(()))
    charset: str = "utf-8"
    values: bool = False
    fine: dict[tuple[str, str], str] = field(default_factory=dict)

    def accepts(self, source: TrailBytes, view: RecordColumns, tables: TrailTables) -> bool:
        """Return whether readers of a trail accept all records of a chunk.

        ``tables`` are the tables known before the chunk.
        """
        try:
            self.read(source, view, tables)
        except TrailgateError:
            return False
        return True

    def check(
        self,
        records: InspectedRecords,
        followed: FollowedTransactions,
        source: TrailBytes,
        tables: TrailTables,
    ) -> None:
        """Decode a chunk's transactions as readers do; add a fault to each rejected record."""
        known = _TablesAtRows.of(records, source, tables)
        _Work(self, records, source, known, _numbered_groups(records, followed)).run()

    def read(self, source: TrailBytes, view: RecordColumns, tables: TrailTables) -> None:
        """Decode records of a trail as readers do, to check that this is possible.

        Raises TrailgateError if it is not.
        """
        wanted = ReadSelection(values=self.values, ids=False, positions=False)
        state = ReaderState(tables=tables, order=source.order, charset=self.charset, wanted=wanted)
        decoded = decode(
            source.buffer,
            self.definitions,
            file_number=0,
            base_offset=source.base,
            state=state,
            finish=True,
            records=view,
        )
        if self.values:
            for block in decoded.batch.blocks:
                check_typed_values(block)
                for column, error in find_fine_times(block):
                    raw = error.where.raw or b""
                    text = f"{block.table.name}, column {column}: {raw.decode(errors='replace')}"
                    self.fine.setdefault((block.table.name, column), text)


def _numbered_groups(records: InspectedRecords, followed: FollowedTransactions) -> Longs:
    """Return the group (transaction) of each record to decode, or -1 for a record that is not decoded.

    Group 0 began before these records. Groups with a bad record are not decoded, because their
    fault is already known, nor are the records that a restart made void, together with the restart.
    """
    skipped = followed.outcomes == TransactionOutcome.ABANDONED
    known = records.bad | (records.view.problems & REFUSED != 0) | (followed.marks & UNDOES != 0)
    # one bad record excludes its complete group
    skipped[followed.number[known & ~followed.apart]] = True
    return np.where(followed.apart | skipped[followed.number], -1, followed.number)


@dataclass(frozen=True, slots=True)
class _TablesAtRows:
    """The good metadata records of a chunk (``rows``), and the tables known before each of them.

    ``tables`` has one element more: the tables known at the end of the chunk.
    """

    rows: Longs
    tables: list[TrailTables]

    @classmethod
    def of(
        cls, records: InspectedRecords, source: TrailBytes, tables: TrailTables
    ) -> _TablesAtRows:
        """Decode the metadata records of a chunk. ``tables`` are those known before it."""
        rows = np.flatnonzero((records.view.role == RecordRole.METADATA) & ~records.bad)
        known = [tables]
        for offset in records.view.offsets[rows].tolist():
            record = decode_record(source.data, offset, order=source.order)
            known.append(known[-1].with_record(record))
        return cls(rows, known)

    def between(self, start: int, stop: int) -> tuple[TrailTables, Longs]:
        """Return the tables known before row ``start``, and the metadata records from there to ``stop``."""
        first, end = np.searchsorted(self.rows, (start, stop)).tolist()
        return self.tables[first], self.rows[first:end]


@dataclass(frozen=True, slots=True)
class _Work:
    """The records of a chunk that are decoded transaction by transaction, to find those that fail.

    ``groups`` is the transaction of each record, or -1 if it is not decoded.
    """

    reading: ReaderCheck
    found: InspectedRecords
    source: TrailBytes
    tables: _TablesAtRows
    groups: Longs

    def run(self) -> None:
        """Decode all groups of a chunk, and report those that fail.

        If a set of groups fails, its halves are decoded separately, until the groups that fail are
        alone and can be reported.
        """
        numbers = np.unique(self.groups)
        waiting = [numbers[numbers >= 0]]
        errors = 0
        while waiting:
            part = waiting.pop()
            if not len(part):
                continue
            try:
                self._read(part)
            except TrailgateError as error:
                if len(part) == 1 or errors >= SOUGHT:
                    errors += 1
                    self._note(part, error)
                    continue
                half = len(part) // 2
                # The first half is on top, so that errors are found in the order of the trail.
                # After ``SOUGHT`` errors a failing set is reported without further search.
                waiting += [part[half:], part[:half]]

    def _read(self, part: Longs) -> None:
        rows = np.flatnonzero((self.groups >= part[0]) & (self.groups <= part[-1]))
        # metadata records between the groups may define their tables
        tables, metadata = self.tables.between(int(rows[0]), int(rows[-1]))
        if len(metadata):
            rows = np.union1d(rows, metadata)
        self.reading.read(self.source, self.found.view.take(rows), tables)

    def _note(self, part: Longs, error: TrailgateError) -> None:
        """Add the decoding error of the groups ``part`` to the record that it is about.

        If that record is unknown, it is added to the first record of each group.
        """
        rows = np.flatnonzero(np.isin(self.groups, part))
        first = rows[np.unique(self.groups[rows], return_index=True)[1]]
        offset = error.where.offset
        if offset is not None and len(part) == 1:
            # the error may be about a record inside the group: find it by its offset
            row = (
                int(np.searchsorted(self.found.view.offsets, offset - self.source.base, "right"))
                - 1
            )
            if row in rows:
                first = np.array([row])
        self.found.add_fault(kinds.READING, first)
        self.found.details[int(first[0])] = (
            error.problem
            if not error.where.field
            else (f"{error.problem} (field {error.where.field})")
        )


@dataclass(frozen=True, slots=True)
class FileBeginning:
    """A step of the check: the beginning of a file, with its header as bytes and decoded, or the problem with it."""

    number: int  # the index of the file among those that are checked
    file: TrailFile
    order: ByteOrder
    raw: bytes = b""
    header: FileHeader | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CheckedChunk:
    """A step of the check: consecutive records of a file, and the results of checking them.

    ``base`` is the offset of ``data`` in the file, and ``number`` the index of the file. ``found``
    are the records with their faults, and ``followed`` their transactions. ``tables`` are the
    tables defined up to the end of the chunk. ``fine`` has an example value of each date time
    column with more fraction digits than a timestamp can represent.
    """

    number: int
    base: int
    data: Octets
    found: InspectedRecords
    followed: FollowedTransactions
    tables: TrailTables
    fine: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CountedChunk:
    """A step of the check: consecutive records of a file that are clean, of which only counts are known."""

    number: int
    base: int
    counts: CleanRecordCounts


@dataclass(frozen=True, slots=True)
class UnreadableGap:
    """A step of the check: bytes [start, end) that are not records, up to the next good record.

    ``raw`` are the first of these bytes, and ``before`` the bytes that precede them.
    """

    number: int
    start: int
    end: int
    problem: str
    before: bytes
    raw: bytes


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The state of a trail's check after the last good record of a file, at the offset ``at``.

    If the file grows, the check continues with this state (``resume_steps``).
    """

    at: int
    order: ByteOrder
    state: TransactionCheckState
    known: KnownTables
    reading: ReaderCheck


@dataclass(frozen=True, slots=True)
class FileEnd:
    """A step of the check: the end of a file, with the tables of its metadata."""

    number: int
    file: TrailFile
    tables: TrailTables
    resume: ResumePoint


Step = FileBeginning | CheckedChunk | CountedChunk | UnreadableGap | FileEnd


@dataclass(slots=True)
class _CheckState:
    """The state of a trail's check after a chunk, with which the next chunk is checked.

    ``known`` are the tables defined so far. ``sound`` is the point after the last good record, from
    which the check continues if the file grows (``ResumePoint``).
    """

    state: TransactionCheckState
    known: KnownTables = field(default_factory=KnownTables)
    reading: ReaderCheck = field(default_factory=ReaderCheck)
    size: int = 0  # the file's size according to manifest and header, or 0 if it is not stated
    clean: CleanRecords | None = None  # if clean records need only be counted
    sound: tuple[int, ByteOrder, TransactionCheckState, KnownTables] | None = None

    def file_end(self, number: int, file: TrailFile) -> FileEnd:
        """Build a file's last step, with the tables and the state after its last good record."""
        assert self.sound is not None
        return FileEnd(number, file, self.known.tables, ResumePoint(*self.sound, self.reading))


def check_steps(
    trail: StoredTrail,
    files: tuple[TrailFile, ...],
    *,
    values: bool = False,
    after: FileEnd | None = None,
    counts: bool = False,
) -> Iterator[Step]:
    """Yield the steps of checking these trail files: beginnings, chunks, gaps and ends. Raises StorageError.

    Damage is reported as a step instead of an error. With ``values`` values are decoded as well.
    With ``counts`` chunks of clean records are only counted. ``after`` is the end of the file
    before the first one.
    """
    elsewhere = bool(files) and (trail.alone or files[0].number > 0)
    reading = ReaderCheck(trail.definitions or Definitions(()), values=values)
    place = _CheckState(TransactionCheckState(elsewhere=elsewhere), reading=reading)
    if counts and not values:
        place.clean = CleanRecords(trail.definitions)
    last: TrailFile | None = None
    if after is not None:
        place.state, last = after.resume.state, after.file
    for number, file in enumerate(files, 0 if after is None else after.number + 1):
        if last is not None and file.number != last.number + 1:
            # a missing file ends the open transaction
            place.state = replace(place.state, is_open=False)
        place.known = KnownTables(trail.definitions)
        entry = (trail.manifest or {}).get(name_of(file.path))
        place.size = entry.size if entry is not None else 0
        with TrailFileReader(file) as reader:
            yield from _file(number, reader, place)
            if place.state.is_open and file.size < place.size:
                # The file is cut between two records, so the next file cannot continue this
                # transaction.
                yield _gap(number, reader, (file.size, file.size), SHORTER)
                place.state = replace(place.state, is_open=False)
        yield place.file_end(number, file)
        last = file


def resume_steps(file: TrailFile, ended: FileEnd) -> Iterator[Step]:
    """Resume the check of a growing trail file: yield the steps for the bytes added since its end was checked."""
    past = ended.resume
    place = _CheckState(past.state, past.known, past.reading, file.size)
    with TrailFileReader(file) as reader:
        yield from _body(ended.number, reader, (past.at, past.order), place)
    yield place.file_end(ended.number, file)


def _file(number: int, reader: TrailFileReader, place: _CheckState) -> Iterator[Step]:
    begun, begin = _begin(number, reader)
    yield begun
    stated = begun.header.trail.file_size if begun.header is not None else None
    charset = charset_of_trail_file(begun.header, place.reading.definitions)
    place.reading = replace(place.reading, charset=charset)
    place.size = max(place.size, stated or 0)
    if begin > len(begun.raw):
        place.known = replace(place.known, lost=True)
        yield _gap(number, reader, (len(begun.raw), begin), "no record begins here")
        place.state = replace(place.state, is_open=False)
    yield from _body(number, reader, (begin, begun.order), place)


def _begin(number: int, reader: TrailFileReader) -> tuple[FileBeginning, int]:
    """Read the header of a trail file. Also returns the offset of the file's first record."""
    file = reader.file
    head = reader.read(0, LONGEST).tobytes()
    if head[:1] == bytes((RECORD,)):
        return FileBeginning(number, file, detect_record_order(reader.read, 0, file.size)), 0
    try:
        header, length = decode_header(head)
        if head[SIGNATURE_AT : SIGNATURE_AT + len(SIGNATURE)] != SIGNATURE:
            raise DecodeError("the header's signature is missing")
    except TrailgateError as error:
        length = _frame_length(head)
        order = detect_record_order(reader.read, length, file.size)
        begun = FileBeginning(number, file, order, head[:length], problem=error.problem)
    else:
        order = detect_record_order(reader.read, length, file.size)
        begun = FileBeginning(number, file, order, head[:length], header)
    first = head[length : length + 1]
    if begun.header is not None or length or not first:
        return begun, length
    return begun, find_next_record(reader.read, 0, file.size, order)


def _frame_length(head: bytes) -> int:
    """Return the length of a damaged file header from its frame, or 0 if the frame is invalid."""
    order = detect_header_order(head)
    return 0 if order is None else order.number(head[2:FRAME])


def _body(
    number: int, reader: TrailFileReader, begin: tuple[int, ByteOrder], place: _CheckState
) -> Iterator[Step]:
    at, order = begin
    size, wanted = reader.file.size, CHUNK
    place.sound = (at, order, place.state, place.known)
    while at < size:
        data = reader.read(at, wanted)
        counted = _count_clean(number, (data, at, order), place, finish=at + len(data) == size)
        if counted is not None:
            yield counted
            at += counted.counts.size
            wanted = CHUNK if wanted > CHUNK else min(2 * wanted, CHUNK)
            continue
        places, error = find_records_until_damage(data, order)
        problem = error.problem if error is not None else ""
        source = wrap_trail_bytes(data, at, order)
        view = view_records(source, places)
        if not problem and at + len(data) < size:
            # Leave an incomplete operation at the end of the chunk for the next one. If nothing else
            # is in the chunk, read a larger one.
            view = view.take(slice(len(view) - count_unfinished_records(view)))
            if not len(view) and wanted < size:
                wanted = 4 * wanted
                continue
        # after damage, chunks grow back to the full size
        wanted = CHUNK if wanted > CHUNK else min(2 * wanted, CHUNK)
        if len(view):
            yield _chunk(number, source, view, place)
            at += view.end
            place.sound = (at, order, place.state, place.known)
        elif not problem:
            problem = UNFINISHED
        if problem:
            lost = describe_unreadable(reader.read, at, size, order)
            yield _gap(number, reader, (at, lost.end), lost.problem)
            place.state = replace(place.state, is_open=False)
            place.known = replace(place.known, lost=True)
            at, wanted = lost.end, min(AFTER_DAMAGE, CHUNK)


def _count_clean(
    number: int, portion: tuple[Octets, int, ByteOrder], place: _CheckState, *, finish: bool
) -> CountedChunk | None:
    """Count the records of a portion and update the state in ``place``, if all of them are clean.

    Otherwise return None. ``portion`` are bytes of the file, their offset, and the byte order.
    """
    if place.clean is None:
        return None
    data, at, order = portion
    counts = place.clean.count(data, order, place.state, place.known, finish=finish)
    if counts is None:
        return None
    place.state = counts.state
    place.sound = (at + counts.size, order, place.state, place.known)
    return CountedChunk(number, at, counts)


def _chunk(
    number: int, source: TrailBytes, view: RecordColumns, place: _CheckState
) -> CheckedChunk:
    tables = place.known.tables
    accepted = place.reading.accepts(source, view, tables)
    found = inspect_records(source, view, accepted=accepted)
    check_csns(found, place.state.csn)
    followed, place.state = check_transactions(found, place.state)
    place.known = check_table_references(found, source, place.known)
    if not accepted:
        place.reading.check(found, followed, source, tables)
    fine = tuple(place.reading.fine.values())
    place.reading.fine.clear()
    return CheckedChunk(
        number=number,
        base=source.base,
        data=source.data,
        found=found,
        followed=followed,
        tables=place.known.tables,
        fine=fine,
    )


def _gap(
    number: int, reader: TrailFileReader, span: tuple[int, int], problem: str
) -> UnreadableGap:
    start, end = span
    before = max(0, start - AROUND)
    raw = reader.read(start, min(SHOWN, end - start)).tobytes()
    return UnreadableGap(
        number=number,
        start=start,
        end=end,
        problem=problem,
        before=reader.read(before, start - before).tobytes(),
        raw=raw,
    )


def last_transaction_id(step: CheckedChunk, row: int, since: int = 0) -> str | None:
    """Return the last transaction id in the records of a checked chunk from ``since`` to ``row``, or None."""
    return step.found.tx.at(row, None, since)
