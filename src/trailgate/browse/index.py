"""The index of a trail: a summary of the complete trail for its pages, built in one pass.

The check of a trail reads each record once and passes its results chunk by chunk
(``jobs.trail_check``). For each chunk the index stores an ``IndexSpan``: its byte range, its range
of times and CSNs, and which tables and operation types occur, so that a page decodes only spans
that may contain matches.

Memory use is small: one span per 4 MB of trail. Counts over time have a fixed number of bins, only
the longest transactions are stored, and the ids of all transactions are in a temporary file.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field, replace
from threading import Event, RLock
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, byte_mask
from trailgate.browse.histogram import TimeHistogram, add_each
from trailgate.browse.index_kernels import (
    CountedRecords,
    RecordBins,
    TableCounts,
    TransactionExtents,
    count_records,
)
from trailgate.browse.transactions import (
    TransactionBegins,
    TransactionIds,
    TransactionStatistics,
)
from trailgate.errors import OptionError, StorageError, TrailgateError, Where
from trailgate.jobs.check_steps import CheckedChunk, FileBeginning, FileEnd, Step, UnreadableGap
from trailgate.jobs.trail_check import FileReport, FileTotals, check_files, files_to_check
from trailgate.model.kernels import ABANDONED
from trailgate.model.tables import Definitions, Table
from trailgate.storage.files.addresses import locate, name_of
from trailgate.storage.files.trail_files import (
    StoredTrail,
    TrailFile,
    TrailPosition,
    find_stored_trail,
)
from trailgate.storage.reading.trail_file import charset_of_trail_file
from trailgate.trail.findings import CSN_ORDER, CUT, OPEN, Finding, FindingCollector, Severity
from trailgate.trail.format.file_header import FileHeader
from trailgate.trail.format.record_types import IO_UPDATE, OP_TYPE_OF, RecordRole
from trailgate.trail.reading.reader import ReaderState
from trailgate.trail.record_checks import EARLIEST, LATEST, IdTokens
from trailgate.trail.records.table_metadata import TrailTable

KINDS: Final = "IUKDT"
NO_KIND: Final = len(KINDS)
# Bins of a table's histogram. Days and not yet months are enough for the 64 weeks that a chart shows as weeks.
TABLE_BINS: Final = 512
VERSIONS: Final = 16  # the most versions kept of a table's definition
# A record of the temporary file: the hash of a transaction's id, the position of its beginning, and
# where the id itself is in the other file (``end`` is after its last byte).
IDS: Final = np.dtype(
    [("hash", "i8"), ("number", "i4"), ("offset", "i8"), ("start", "i8"), ("end", "i8")]
)
# Ids are read in pieces of this many, so that searching a large index takes little memory.
IDS_AT_ONCE: Final = 1 << 16

KINDS_OF_TABLE: Final = NO_KIND + 1  # the known operation types, and one for all others
KIND_OF_LETTER: Final = np.full(256, NO_KIND, np.uint8)
KIND_OF_LETTER[[ord(letter) for letter in KINDS]] = range(NO_KIND)
_KIND_OF_TYPE: Final = KIND_OF_LETTER[OP_TYPE_OF]
# By role: whether the record is a part of an operation.
_IS_PART: Final = byte_mask((RecordRole.CHANGE, RecordRole.FRAGMENT, RecordRole.LARGE_OBJECT))


@dataclass(frozen=True, slots=True)
class IndexSpan:
    """A range of records that the index read together, with a summary of its operations.

    It is the bytes ``start`` to ``end`` of the file ``number``. ``first`` is the number of
    operations before the span. ``tables`` and ``kinds`` have one bit for each table and operation
    type that occurs. ``times`` are the earliest and the latest time. ``csns`` are a lower and an
    upper bound of the CSNs (None if no CSN is known), or None if CSNs descend in the span.
    ``state`` is the state of the reader before the span, with which its records can be decoded.
    ``begins`` states whether a transaction begins in the span.
    """

    number: int
    start: int
    end: int
    first: int
    operations: int
    tables: int
    kinds: int
    times: tuple[int, int]
    csns: tuple[str | None, str | None] | None
    state: ReaderState
    begins: bool

    @property
    def begin(self) -> TrailPosition:
        """The position of the first record of the index span."""
        return TrailPosition(self.number, self.start)

    @property
    def stop(self) -> TrailPosition:
        """The position of the end of the index span, after its last record."""
        return TrailPosition(self.number, self.end)


@dataclass(slots=True)
class TableTotals:
    """The totals of a table in the index: operations by type, bytes, counts over time, and definitions with positions."""

    name: str
    kinds: Longs = field(default_factory=lambda: np.zeros(NO_KIND, np.int64))
    bytes: int = 0
    over_time: TimeHistogram = field(default_factory=lambda: TimeHistogram(1, TABLE_BINS))
    versions: list[tuple[TrailPosition, Table]] = field(default_factory=list)

    @property
    def operations(self) -> int:
        """The number of the table's operations in the index."""
        return int(self.kinds.sum())


@dataclass(slots=True)
class IndexedFile:
    """A file of the indexed trail: its header, and its counts after it is read."""

    file: TrailFile
    header: FileHeader | None = None
    order: str = ""
    report: FileReport | None = None


@dataclass(frozen=True, slots=True)
class UnreadBytes:
    """Bytes of a trail file that the index could not read as records, and the reason."""

    begin: TrailPosition
    end: TrailPosition
    problem: str

    @property
    def sentence(self) -> str:
        """The number of unread bytes and the reason, as a sentence for the page."""
        return f"{self.end.offset - self.begin.offset:,} bytes are not a record: {self.problem}"


class StoppedError(Exception):
    """Raised in the thread that builds an index, to end it when the index is not needed any more."""


class TrailIndex:
    """The index of a trail: the data that pages show about the complete trail, read in one pass.

    It can be used while it is built; hold ``lock`` to read several members consistently.
    """

    def __init__(self, path: str, definitions: str | None = None) -> None:
        self._asked = (path, definitions)
        self.lock = RLock()
        self._stop = Event()
        self.builds = 0  # the number of times that the index was built
        self._begin()
        self._ids = tempfile.TemporaryFile()  # noqa: SIM115  open as long as the index
        self._texts = tempfile.TemporaryFile()  # noqa: SIM115  the ids themselves

    def _begin(self) -> None:
        """List the trail's files, without reading them, and clear the index."""
        self.builds += 1
        self.found: StoredTrail = find_stored_trail(*self._asked)
        self._findings = FindingCollector()
        self._sources = files_to_check(self.found, self._findings)
        self.bytes = sum(file.size for file in self._sources)
        self.bytes_read = 0
        self.files = [IndexedFile(file) for file in self._sources]
        self.operations = 0
        self.spans: list[IndexSpan] = []
        self.over_time = TimeHistogram(NO_KIND)
        self.tables: dict[str, TableTotals] = {}
        self.transactions = TransactionStatistics()
        self._unread: list[UnreadBytes] = []
        # The transactions that were abandoned when the writer restarted.
        self.undone: list[tuple[TrailPosition, TrailPosition]] = []
        self.latest: int | None = None  # the time of the last operation
        self.done = False
        self.problem = ""
        self.gone: set[int] = set()  # the numbers of files purged since they were listed
        self._table_bits: dict[str, int] = {}
        self._csn: str | None = None
        self._is_open = self._has_grown = False
        self._totals: FileTotals | None = None
        self._torn = False  # the trail ends inside a header or an operation
        self._ended: FileEnd | None = None
        self._state = ReaderState()
        self._sound: ReaderState | None = None  # the state before unreadable bytes at the end
        self._known: object = None
        self._defined: dict[int, TrailTable] = {}  # the tables by their index in the file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._ids.close()
        self._texts.close()

    def stop(self) -> None:
        """Ask the thread that builds the index to stop after the current chunk."""
        self._stop.set()

    def build(self) -> None:
        """Read the trail once and build the index.

        Damage becomes findings; an error that ends the reading becomes ``problem``.

        If a file was purged before it was read, start again with the remaining files.
        """
        self._read()
        # Only a purged file is a reason to read again; any other problem would return.
        while self.problem and not self._stop.is_set() and self.find_gone_files():
            with self.lock:
                try:
                    self._begin()
                except (TrailgateError, OSError) as error:
                    self.problem, self.done = str(error), True
                    return
            self._read()

    def _read(self) -> None:
        # A generator: `_watch` gets the chunks of a file while the loop waits for the file's
        # totals.
        done = check_files(self.found, self._sources, self._findings, self._watch)
        try:
            for number, (totals, _) in enumerate(done):
                with self.lock:
                    self._totals = totals
                    self.files[number].report = totals.report()
                    self.bytes_read = sum(file.size for file in self._sources[: number + 1])
        except (TrailgateError, OSError) as error:
            self.problem = str(error)
        except StoppedError:
            self.problem = "the trail was not read to its end"
        with self.lock:
            # Also after an error, since the pages show what was read up to it.
            self.transactions.finish(is_open=self._is_open)
            self.done = True

    def ends_at(self, place: TrailPosition | None) -> bool:
        """Return whether the complete trail is indexed, and its last span ends at a position."""
        with self.lock:
            return self.done and (not self.spans or place == self.spans[-1].stop)

    @property
    def rate(self) -> float:
        """The number of operations per second that are added to the trail.

        It is 0 in an index that does not follow the trail.
        """
        return 0.0

    @property
    def findings(self) -> list[Any]:
        """The findings of the check so far, most severe first.

        Open transactions are known only at the end.
        """
        order = list(Severity)
        valid = [one for one in self._findings.result() if self._still_applies(one)]
        return sorted(valid, key=lambda one: order.index(one.severity))

    @property
    def unread(self) -> list[UnreadBytes]:
        """The bytes that could not be read as records, in order, without the end of a file that has grown since."""
        sizes = {one.file.number: one.file.size for one in self.files}
        following = {(span.number, span.start) for span in self.spans}
        return [
            one
            for one in self._unread
            if one.begin.number not in self.gone
            and (one.end.offset == sizes.get(one.begin.number) or one.end in following)
        ]

    @property
    def known_csn(self) -> str:
        """The last CSN that was read so far, or "" if the trail has none."""
        return self._csn or ""

    @property
    def is_damaged(self) -> bool:
        """Whether the check has found an error so far."""
        return any(one.severity is Severity.ERROR for one in self.findings)

    def _still_applies(self, finding: Finding) -> bool:
        """Return whether a finding of the check still applies.

        If the trail has grown since, an incomplete end is no longer a finding.
        """
        if finding.kind == OPEN.name:
            return self.done and not self._has_grown
        sizes = [one.file.size for one in self.files if one.file.path.endswith(finding.file)]
        return finding.kind != CUT.name or (finding.offset or 0) + finding.length in sizes

    @property
    def definitions(self) -> Definitions:
        """The table definitions beside the trail, which may be empty."""
        return self.found.definitions or Definitions(())

    def find_gone_files(self) -> set[int]:
        """Check which indexed files have been deleted or have shrunk, store their numbers in ``gone``, and return them."""
        gone = {facts.file.number for facts in self.files if not _exists(facts.file)}
        with self.lock:
            self.gone |= gone
        return gone

    @property
    def gone_names(self) -> list[str]:
        """The names of the indexed files that have been deleted or have shrunk."""
        with self.lock:
            return [
                name_of(facts.file.path) for facts in self.files if facts.file.number in self.gone
            ]

    def readable_file(self, number: int) -> TrailFile:
        """Return the indexed trail file with a number, if it can still be read.

        Raises OptionError if the trail has no such file, and StorageError if it no longer exists.
        """
        file = self.file(number)
        if number in self.gone or not _exists(file):
            self.find_gone_files()
            raise StorageError(
                f"file {number} no longer exists: it was purged or replaced after it was read",
                where=Where(source=file.path),
            )
        return file

    def file(self, number: int) -> TrailFile:
        """Return the indexed trail file with a number. Raises OptionError if the trail has no such file."""
        for facts in self.files:
            if facts.file.number == number:
                return facts.file
        raise OptionError(f"the trail has no file {number}", where=Where(source=self.found.prefix))

    def next_file(self, number: int) -> TrailPosition | None:
        """Return the position at which the next trail file begins, or None for the last file."""
        later = [facts.file.number for facts in self.files if facts.file.number > number]
        return TrailPosition(min(later), 0) if later else None

    def file_named(self, name: str) -> TrailFile | None:
        """Return the indexed trail file whose path ends with ``name``, or None."""
        for facts in self.files:
            if facts.file.path.endswith(name):
                return facts.file
        return None

    def share_before(self, place: TrailPosition) -> float:
        """Return the share of the trail's bytes before a position, from 0 to 1."""
        files = [one.file for one in self.files]
        before = sum(file.size for file in files if file.number < place.number)
        return min(1.0, (before + place.offset) / max(self.bytes, 1))

    def bits(self, names: list[str]) -> int:
        """Return the bits that represent these tables in ``IndexSpan.tables``."""
        combined = 0
        for name in names:
            combined |= self._table_bits.get(name, 0)
        return combined

    def begin_of_transaction(self, text: str) -> TrailPosition | None:
        """Return the position at which the first transaction with this id begins.

        Returns None if no such transaction begins in the part of the trail that was read so far.
        """
        # Python salts `hash` differently in each process, which does not matter for a temporary
        # file of this one.
        wanted, raw, at = hash(text), text.encode(), 0
        handle, texts = self._ids.fileno(), self._texts.fileno()
        while data := os.pread(handle, IDS_AT_ONCE * IDS.itemsize, at):
            # The building thread may be writing: skip an entry that is not complete yet.
            rows = np.frombuffer(data[: len(data) // IDS.itemsize * IDS.itemsize], IDS)
            # Equal hashes are rare, so that few ids are read and compared.
            for row in rows[rows["hash"] == wanted]:
                start, end = int(row["start"]), int(row["end"])
                if os.pread(texts, end - start, start) == raw:
                    return TrailPosition(int(row["number"]), int(row["offset"]))
            at += len(rows) * IDS.itemsize
        return None

    def _watch(self, step: Step) -> None:
        if self._stop.is_set():
            raise StoppedError
        with self.lock:
            if isinstance(step, FileBeginning):
                self._torn = bool(step.problem)
                self.files[step.number].header = step.header
                self.files[step.number].order = step.order.name.lower()
                self._known, self._defined = None, {}
                charset = charset_of_trail_file(step.header, self.definitions)
                self._state = ReaderState(order=step.order, charset=charset)
            elif isinstance(step, FileEnd):
                self._ended = step
            elif isinstance(step, UnreadableGap):
                self._sound = self._state
                # after damage, no transaction is known to be open
                self._state = replace(self._state, tx_open=False, tx_id=None, csn=None)
                number = self._sources[step.number].number
                span = TrailPosition(number, step.start), TrailPosition(number, step.end)
                if step.end > step.start:
                    self._unread.append(UnreadBytes(*span, step.problem))
            elif isinstance(step, CheckedChunk):
                self._sound = None
                last = len(step.found.view) - 1
                # a fault of the chunk's last record may only mean that the writer has not finished
                # the operation
                self._torn = any(len(rows) and rows[-1] == last for _, rows in step.found.faults)
                self._add(step)

    def _add(self, step: CheckedChunk) -> None:
        view, number = step.found.view, self._sources[step.number].number
        names, of_table = self._tables_of(step)
        counted = _count_chunk(step, of_table, len(names))
        self._count_tables(step, names, counted)
        if counted.last_timely >= 0:
            self.over_time.add(view.io_time, counted.kind, counted.timely)
            self.latest = counted.last_timely
        self._add_transactions(step, number, counted.transactions)
        before, csns = self._csn, step.found.csn
        self._csn = csns.at(len(step.found), before)
        # If CSNs descend inside, the first and the last CSN do not bound the others.
        ordered = all(kind is not CSN_ORDER for kind, _ in step.found.faults)
        present = np.flatnonzero(counted.kinds[:-1].any(axis=1)).tolist()
        kinds = np.flatnonzero(counted.kinds.any(axis=0)).tolist()
        # The span keeps the state before its records, with which they can be decoded without those
        # before.
        state, self._state = self._state, self._state_after(step)
        self.spans.append(
            IndexSpan(
                number=number,
                start=step.base,
                end=step.base + view.end,
                first=self.operations,
                operations=counted.operations,
                tables=self.bits([names[one] for one in present]),
                kinds=sum(1 << kind for kind in kinds),
                times=counted.times,
                csns=(before or (csns.strings[0].as_py() if len(csns.rows) else None), self._csn)
                if ordered
                else None,
                state=state,
                begins=len(step.followed.firsts) > 0,
            )
        )
        self.operations += counted.operations
        self._is_open = step.followed.is_open
        self.bytes_read += view.end

    def _state_after(self, step: CheckedChunk) -> ReaderState:
        """Return the state of the reader after a chunk, from which the records after it can be decoded."""
        is_open, last = step.followed.is_open, self.transactions.open
        return replace(
            self._state,
            tables=step.tables,
            tx_open=is_open,
            tx_id=last.id or None if is_open and last is not None else None,
            csn=last.csn or None if is_open and last is not None else None,
        )

    def _tables_of(self, step: CheckedChunk) -> tuple[list[str], Longs]:
        """Return the names of a chunk's tables, and for each record the index of its table among them, or -1.

        A record states its table's name or the index of its definition; both are resolved here.
        """
        columns = step.found
        names = list(columns.names)
        of_table = columns.name.astype(np.int64)
        indexed = np.flatnonzero((of_table < 0) & (columns.index >= 0))
        for index in _present(columns.index[indexed]):
            known = step.tables.tables.get(index)
            # append the table's name, and let its records refer to that
            of_table[indexed[columns.index[indexed] == index]] = len(names)
            names.append(known.name if known is not None else f"table index {index}")
        for name in names:
            if name and name not in self._table_bits:
                self._table_bits[name] = 1 << len(self._table_bits)
        return names, of_table

    def _count_tables(self, step: CheckedChunk, names: list[str], counted: _Counted) -> None:
        """Add the counts of a chunk to the totals of the index's tables."""
        histograms = []
        for at, name in enumerate(names):
            # A name that occurs only in other records is not listed as a table yet.
            has_any = counted.kinds[at].any()
            totals = self.tables.get(name) or TableTotals(name)
            histograms.append(totals.over_time)
            if not has_any:
                continue
            self.tables[name] = totals
            totals.kinds += counted.kinds[at, :NO_KIND]
            totals.bytes += int(counted.sizes[at])
            if counted.earliest[at] <= counted.latest[at]:
                totals.over_time.fit(int(counted.earliest[at]), int(counted.latest[at]))
        # All histograms must fit the times before the kernel counts into them. Slot ``len(names)``
        # has the records without a table.
        slots = np.where(counted.slot < len(names), counted.slot, -1)
        add_each(histograms, step.found.view.io_time, slots)
        if step.tables is not self._known:
            self._known = step.tables
            self._add_versions(step)

    def _add_versions(self, step: CheckedChunk) -> None:
        """Store the table definitions that a chunk's metadata records changed or added, with their positions."""
        for index, known in step.tables.tables.items():
            if known.table is None or self._defined.get(index) is known:
                continue
            self._defined[index] = known
            totals = self.tables.setdefault(known.name, TableTotals(known.name))
            place = TrailPosition(self._sources[step.number].number, step.base + known.offset)
            last = totals.versions[-1][1] if totals.versions else None
            if known.table != last and len(totals.versions) < VERSIONS:
                totals.versions.append((place, known.table))

    def _add_transactions(
        self, step: CheckedChunk, number: int, extents: TransactionExtents
    ) -> None:
        """Add the transactions of a chunk to the index: their ids, statistics and abandoned spans."""
        # Transaction 0 of a chunk is the one that continues from the chunk before, if any; the
        # others begin at `firsts`.
        starts = np.append([0], step.followed.firsts)
        offsets = step.base + step.found.view.offsets[starts]
        tx, csn = (_first_ids(step, ids) for ids in (step.found.tx, step.found.csn))
        self._note_ids(number, offsets, tx)
        self._note_undone(step, number, starts)
        self.transactions.follow(TransactionBegins(number, offsets, tx, csn), extents)

    def _note_undone(self, step: CheckedChunk, number: int, starts: Longs) -> None:
        """Store the spans of transactions that a restart record of a chunk abandoned."""
        offsets, before = step.found.view.offsets, self.transactions.open
        for own in np.flatnonzero(step.followed.flags & ABANDONED).tolist():
            # Transaction 0 may have begun in an earlier chunk.
            begin = TrailPosition(number, step.base + int(offsets[starts[own]]))
            if own == 0 and before is not None:
                begin = before.begin
            end = TrailPosition(number, step.base + int(offsets[starts[own + 1]]))
            self.undone.append((begin, end))

    def _note_ids(self, number: int, offsets: Longs, ids: TransactionIds) -> None:
        """Append the ids and positions of a chunk's transactions to the temporary file."""
        entries = np.zeros(len(ids.numbers), IDS)
        entries["hash"] = np.fromiter(map(hash, ids.strings), np.int64, len(ids.strings))
        entries["number"] = number
        entries["offset"] = offsets[ids.numbers]
        sizes = np.fromiter(map(len, ids.strings), np.int64, len(ids.strings))
        texts = "".join(ids.strings).encode()
        if len(texts) != sizes.sum():  # some characters have several bytes
            sizes[:] = [len(one.encode()) for one in ids.strings]
        entries["end"] = self._texts.tell() + np.cumsum(sizes)
        entries["start"] = entries["end"] - sizes
        # The ids first: an entry is found only when its id can be read.
        for file, data in ((self._texts, texts), (self._ids, entries.tobytes())):
            file.write(data)
            file.flush()


def _exists(file: TrailFile) -> bool:
    """Return whether a file exists and is not shorter than when it was listed."""
    try:
        store, path = locate(file.path)
        [info] = store.get_file_info([path])
    except (TrailgateError, OSError):
        return False
    return info.is_file and (info.size is None or info.size >= file.size)


def _first_ids(step: CheckedChunk, ids: IdTokens) -> TransactionIds:
    """Return the first id (TRANID or CSN) of each transaction of a chunk that has one."""
    numbers = step.followed.number[ids.rows]
    # the first row of each run of equal transaction numbers
    at = np.flatnonzero(np.diff(numbers, prepend=-1))
    return TransactionIds(numbers[at], ids.strings.take(pa.array(at)).to_pylist())


@dataclass(frozen=True, slots=True)
class _Counted:
    """The counts of a chunk's operations; see ``kernels.count_records`` for the arrays.

    ``times`` are the earliest and the latest time of all operations. ``last_timely`` is the time of
    the last operation whose time is within the bounds ``EARLIEST`` and ``LATEST``, or -1.
    """

    operations: int
    times: tuple[int, int]
    last_timely: int
    kind: Longs
    slot: Longs
    kinds: Longs
    sizes: Longs
    earliest: Longs
    latest: Longs
    transactions: TransactionExtents

    @property
    def timely(self) -> tuple[int, int]:
        """The earliest and the latest time of operations within ``EARLIEST`` and ``LATEST``."""
        return int(self.earliest.min()), int(self.latest.max())


def _count_chunk(step: CheckedChunk, of_table: Longs, tables: int) -> _Counted:
    """Count the operations of a chunk by table, type, transaction and time.

    ``of_table`` is the index of each record's table, or -1; there are ``tables`` tables.
    """
    view, followed = step.found.view, step.followed
    # count_records writes its results into these arrays
    kind, slot = np.empty((2, len(view)), np.int64)
    kinds, sizes = np.zeros((tables + 1) * KINDS_OF_TABLE, np.int64), np.zeros(tables + 1, np.int64)
    earliest, latest = np.full(tables + 1, LATEST), np.full(tables + 1, EARLIEST)
    extents = TransactionExtents(*np.zeros((4, len(followed.flags)), np.int64))
    count, low, high, last = count_records(
        CountedRecords(
            role=view.role,
            is_before=view.is_before,
            io_type=view.io_type,
            io_time=view.io_time,
            length=view.lengths,
            table=of_table,
            transaction=followed.number,
        ),
        _IS_PART,
        int(RecordRole.CHANGE),
        IO_UPDATE,
        EARLIEST,
        LATEST,
        _KIND_OF_TYPE,
        KINDS_OF_TABLE,
        RecordBins(kind, slot),
        TableCounts(kinds, sizes, earliest, latest),
        extents,
    )
    by_table = kinds.reshape(-1, KINDS_OF_TABLE)
    return _Counted(
        operations=count,
        times=(low, high),
        last_timely=last,
        kind=kind,
        slot=slot,
        kinds=by_table,
        sizes=sizes,
        earliest=earliest,
        latest=latest,
        transactions=extents,
    )


def _present(numbers: Longs) -> list[int]:
    """Return the distinct values in an array of small non-negative numbers, ascending."""
    values: list[int] = np.flatnonzero(np.bincount(numbers)).tolist()
    return values
