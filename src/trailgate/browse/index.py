"""What a trail's pages need to know of all of it, found in one reading while it is checked.

A check reads every record once and hands each chunk on (``jobs.checking``); the index keeps little of a chunk: one ``Span`` with the range of times and CSNs, and the
tables and types of operations in it, so that a page reads only the spans that may have what it seeks. Counts over time have a fixed number of bins, of transactions only the
longest are kept, and the ids of all of them are in a temporary file: memory grows by one span in 4 MB.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from dataclasses import dataclass, field, replace
from operator import attrgetter
from threading import Event, RLock
from time import monotonic
from typing import Any, Final, Self

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.browse.histogram import TimeHistogram
from trailgate.errors import OptionError, TrailgateError, Where
from trailgate.jobs.checking import (
    Chunk,
    FileBegun,
    FileEnded,
    FileReport,
    FileTotals,
    Gap,
    Step,
    check_arguments,
    check_header,
    files_to_check,
    resumed,
    steps,
    tell,
)
from trailgate.model.kernels import ABANDONED
from trailgate.model.tables import Definitions, Table
from trailgate.storage.files.listing import TrailFile
from trailgate.storage.files.trail_files import FoundTrail, TrailPlace, look_at
from trailgate.storage.reading.trail_file import usual_charset
from trailgate.trail.checking import EARLIEST, LATEST
from trailgate.trail.findings import CSN_ORDER, CUT, OPEN, Finding, Findings, Severity
from trailgate.trail.format.file_header import FileHeader
from trailgate.trail.format.record_types import IO_UPDATE, OP_TYPE_OF, Role
from trailgate.trail.reading.reader import ReaderState
from trailgate.trail.records.metadata import TrailTable

KINDS: Final = "IUKDT"
NO_KIND: Final = len(KINDS)
LONGEST: Final = 20  # transactions that are listed
SIZES: Final = 40  # of transactions: powers of two
VERSIONS: Final = 16  # of one table's definition that are kept
IDS: Final = np.dtype([("hash", "i8"), ("number", "i4"), ("offset", "i8")])
LOOK_EVERY: Final = 1.0  # seconds
LOOKS: Final = 31  # of which the rate is
IDS_AT_ONCE: Final = 1 << 16

_KIND_OF: Final = np.full(256, NO_KIND, np.int64)
_KIND_OF[[ord(letter) for letter in KINDS]] = range(NO_KIND)


@dataclass(frozen=True, slots=True)
class Span:
    """The operations of records that were read together: where, and what may be among them.

    ``tables`` and ``kinds`` have a bit each; ``first`` is the number of operations before. ``csns`` are those at its begin and end, None where CSNs
    descend inside; ``times`` are the earliest and the latest. ``state`` is what its records inherit from those before.
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

    @property
    def begin(self) -> TrailPlace:
        """Return where it begins."""
        return TrailPlace(self.number, self.start)

    @property
    def stop(self) -> TrailPlace:
        """Return where it ends."""
        return TrailPlace(self.number, self.end)


@dataclass(slots=True)
class TableTotals:
    """What the trail has of a table: operations by type, bytes, counts over time, and each definition with the place of its record."""

    name: str
    kinds: Longs = field(default_factory=lambda: np.zeros(NO_KIND, np.int64))
    bytes: int = 0
    over_time: TimeHistogram = field(default_factory=lambda: TimeHistogram(1, 128))
    versions: list[tuple[TrailPlace, Table]] = field(default_factory=list)

    @property
    def operations(self) -> int:
        """Return how many operations there are."""
        return int(self.kinds.sum())


@dataclass(slots=True)
class Transaction:
    """A transaction: its begin, its ids, and what is known of its extent; times are microseconds."""

    begin: TrailPlace
    id: str = ""
    csn: str = ""
    operations: int = 0
    bytes: int = 0
    first_time: int = 0
    last_time: int = 0

    @property
    def duration(self) -> int:
        """Return the microseconds between its first and its last operation."""
        return max(0, self.last_time - self.first_time)


@dataclass(slots=True)
class Transactions:
    """How many transactions there are, by the powers of two of their operations, and the longest ones."""

    count: int = 0
    sizes: Longs = field(default_factory=lambda: np.zeros(SIZES, np.int64))
    by_operations: list[Transaction] = field(default_factory=list)
    by_duration: list[Transaction] = field(default_factory=list)
    open: Transaction | None = None

    def add(self, ended: list[Transaction], sizes: Longs) -> None:
        """Count transactions by their sizes; ``ended`` are those that may be among the longest."""
        self.count += len(sizes)
        self.sizes += np.bincount(np.log2(sizes).astype(np.int64), minlength=SIZES)
        for kept, measure in (
            (self.by_operations, attrgetter("operations")),
            (self.by_duration, attrgetter("duration")),
        ):
            kept[:] = sorted([*kept, *ended], key=measure, reverse=True)[:LONGEST]

    def finish(self, *, is_open: bool) -> None:
        """Count the last transaction, unless it is open."""
        if self.open is not None and not is_open:
            self.add([self.open], np.array([self.open.operations], np.int64))
            self.open = None


@dataclass(slots=True)
class FileFacts:
    """A file of the trail: its header, and its counts once it is read."""

    file: TrailFile
    header: FileHeader | None = None
    order: str = ""
    report: FileReport | None = None


@dataclass(slots=True)
class Growth:
    """How fast a trail has grown of late: the operations of each look at it, and when that was."""

    looks: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=LOOKS))

    def note(self, operations: int) -> None:
        """Add what a look found."""
        self.looks.append((monotonic(), operations))

    @property
    def rate(self) -> float:
        """Return the operations in a second, over the last looks; 0 where nothing was added."""
        if len(self.looks) < 2:
            return 0.0
        seconds = self.looks[-1][0] - self.looks[0][0]
        return sum(number for _, number in list(self.looks)[1:]) / max(seconds, 1e-3)


class _StoppedError(Exception):
    """The index is not needed any more."""


class TrailIndex:
    """What is known of a trail while it is read, and after; take ``lock`` to look at more than one member."""

    def __init__(self, path: str, definitions: str | None = None) -> None:
        self._asked = (path, definitions)
        self.lock = RLock()
        self.growth = Growth()
        self._stop = Event()
        self._begin()
        self._ids = {kind: tempfile.TemporaryFile() for kind in ("tx", "csn")}  # noqa: SIM115  open as long as the index

    def _begin(self) -> None:
        """Look at what is there; nothing of it is read."""
        self.found: FoundTrail = look_at(*self._asked)
        self._findings = Findings()
        self._sources = files_to_check(self.found, self._findings)
        self.bytes = sum(file.size for file in self._sources)
        self.bytes_read = 0
        self.files = [FileFacts(file) for file in self._sources]
        self.operations = 0
        self.spans: list[Span] = []
        self.over_time = TimeHistogram(NO_KIND)
        self.tables: dict[str, TableTotals] = {}
        self.transactions = Transactions()
        self.undone: list[tuple[TrailPlace, TrailPlace]] = []  # what restarts made void
        self.latest: int | None = None  # time of an operation
        self.done = False
        self.problem = ""
        self._table_bits: dict[str, int] = {}
        self._csn: str | None = None
        self._is_open = self._has_grown = False
        self._totals: FileTotals | None = None
        self._torn = False  # a header, or an operation, of which the rest may be added
        self._unchecked: FileBegun | None = None
        self._ended: FileEnded | None = None
        self._state = ReaderState()
        self._sound: ReaderState | None = None  # before bytes at the end that are not a record
        self._known: object = None
        self._defined: dict[int, TrailTable] = {}  # by their indexes in the file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for file in self._ids.values():
            file.close()

    def stop(self) -> None:
        """Let the building end at its next chunk."""
        self._stop.set()

    def build(self) -> None:
        """Read the trail once; what is wrong with it becomes findings, and what ends the reading ``problem``."""
        done = check_arguments(self.found, self._sources, self._findings, self._watch)
        try:
            for number, (totals, _) in enumerate(done):
                with self.lock:
                    self._totals = totals
                    self.files[number].report = totals.report()
                    self.bytes_read = sum(file.size for file in self._sources[: number + 1])
        except (TrailgateError, OSError) as error:
            self.problem = str(error)
        except _StoppedError:
            self.problem = "the trail was not read to its end"
        with self.lock:
            self.transactions.finish(is_open=self._is_open)
            self.done = True

    def follow(self) -> None:
        """Read what is added to the trail, until the index is stopped; begins once it is built."""
        while not self.problem and not self._stop.wait(LOOK_EVERY):
            try:
                self.read_on()
            except (TrailgateError, OSError) as error:
                self.problem = f"the trail is not followed any more: {error}"
            except _StoppedError:
                return

    def read_on(self) -> None:
        """Read what was added since the last look."""
        found = look_at(*self._asked)
        known = {file.number: file for file in self._sources}
        # Files that were purged meanwhile keep their places.
        now = known | {file.number: file for file in files_to_check(found, Findings())}
        sources = tuple(now[number] for number in sorted(now))
        if all(number in known and known[number].size == file.size for number, file in now.items()):
            self.growth.note(0)
            return
        if self._torn:
            with self.lock:
                self._begin()
            self.build()
            return
        before, self._has_grown = self.operations, True
        with self.lock:
            self.found, self._sources = found, sources
            self.files += [FileFacts(file) for file in sources if file.number not in known]
            self.bytes = sum(file.size for file in sources)
            for facts, file in zip(self.files, sources, strict=True):
                facts.file = file
        ended = self._ended
        if ended is not None and sources[ended.number].size > ended.file.size:
            self._state = self._sound or self._state
            for step in resumed(sources[ended.number], ended):
                self._take(step)
        added = sources[0 if self._ended is None else self._ended.number + 1 :]
        for step in steps(found, added, after=self._ended):
            self._take(step)
        with self.lock:
            self.transactions.finish(is_open=self._is_open)
        self.growth.note(self.operations - before)

    def _take(self, step: Step) -> None:
        """Add what a step of a growing trail has."""
        self._watch(step)
        with self.lock:
            if isinstance(step, FileBegun):
                self._unchecked = step
                self._totals = FileTotals(step.file, self._totals.csn if self._totals else None)
            assert self._totals is not None
            if isinstance(step, Chunk):
                self._totals.add(step)
            if isinstance(step, Chunk | Gap):
                tell(step, self._sources[step.number], self._findings)
            if isinstance(step, FileEnded) and self._unchecked is not None:
                check_header(self._unchecked, self._totals, self._findings)
                self._unchecked = None
            self.files[step.number].report = self._totals.report()

    @property
    def findings(self) -> list[Any]:
        """Return what the check has found so far, the worst first; an open end is not known before the last."""
        order = list(Severity)
        found = [one for one in self._findings.result() if self._holds(one)]
        return sorted(found, key=lambda one: order.index(one.severity))

    def _holds(self, found: Finding) -> bool:
        """Return whether a finding is one: where the trail has grown since, its end was none."""
        if found.kind == OPEN.name:
            return self.done and not self._has_grown
        sizes = [one.file.size for one in self.files if one.file.path.endswith(found.file)]
        return found.kind != CUT.name or (found.offset or 0) + found.length in sizes

    @property
    def definitions(self) -> Definitions:
        """Return the definitions beside the trail; none where there are none."""
        return self.found.definitions or Definitions(())

    def file(self, number: int) -> TrailFile:
        """Return the file of a number; raises OptionError."""
        for facts in self.files:
            if facts.file.number == number:
                return facts.file
        raise OptionError(f"the trail has no file {number}", where=Where(source=self.found.prefix))

    def next_file(self, number: int) -> TrailPlace | None:
        """Return where the file after one begins; None where it is the last."""
        later = [facts.file.number for facts in self.files if facts.file.number > number]
        return TrailPlace(min(later), 0) if later else None

    def file_number(self, name: str) -> int | None:
        """Return the number of the file of a name."""
        for facts in self.files:
            if facts.file.path.endswith(name):
                return facts.file.number
        return None

    def bits(self, names: list[str]) -> int:
        """Return the bits that spans have for these tables."""
        found = 0
        for name in names:
            found |= self._table_bits.get(name, 0)
        return found

    def begin_of(self, kind: str, text: str) -> TrailPlace | None:
        """Return where the first transaction of an id (``tx``) or CSN (``csn``) begins, as far as the trail is read."""
        wanted, at = hash(text), 0
        handle = self._ids[kind].fileno()
        while data := os.pread(handle, IDS_AT_ONCE * IDS.itemsize, at):
            rows = np.frombuffer(data[: len(data) // IDS.itemsize * IDS.itemsize], IDS)
            hits = np.flatnonzero(rows["hash"] == wanted)
            if len(hits):
                row = rows[hits[0]]
                return TrailPlace(int(row["number"]), int(row["offset"]))
            at += len(rows) * IDS.itemsize
        return None

    def _watch(self, step: Step) -> None:
        if self._stop.is_set():
            raise _StoppedError
        with self.lock:
            if isinstance(step, FileBegun):
                self._torn = bool(step.problem)
                self.files[step.number].header = step.header
                self.files[step.number].order = step.order.name.lower()
                self._known, self._defined = None, {}
                charset = usual_charset(step.header, self.definitions)
                self._state = ReaderState(order=step.order, charset=charset)
            elif isinstance(step, FileEnded):
                self._ended = step
            elif isinstance(step, Gap):
                self._sound = self._state
                self._state = replace(self._state, tx_open=False, tx_id=None, csn=None)
            elif isinstance(step, Chunk):
                self._sound = None
                last = len(step.found.view) - 1
                self._torn = any(len(rows) and rows[-1] == last for _, rows in step.found.faults)
                self._add(step)

    def _add(self, step: Chunk) -> None:
        view = step.found.view
        file = self._sources[step.number]
        changes = view.role == Role.CHANGE
        rows = np.flatnonzero(changes & ~(view.is_before & (view.io_type == IO_UPDATE)))
        names, of_table = self._tables_of(step)
        kinds = _KIND_OF[OP_TYPE_OF[view.io_type[rows]]]
        self._count_tables(step, names, of_table, rows, kinds)
        times = view.io_time[rows]
        timely = (times >= EARLIEST) & (times <= LATEST)
        self.over_time.add(times[timely], kinds[timely])
        if timely.any():
            self.latest = int(times[timely][-1])
        self._follow(step, file.number, rows)
        before, csns = self._csn, step.found.csn[1]
        self._csn = csns[-1] if csns else before
        ordered = all(kind is not CSN_ORDER for kind, _ in step.found.faults)
        present = _present(of_table[rows] + 1)  # 0: no table
        state, self._state = self._state, self._state_after(step)
        self.spans.append(
            Span(
                number=file.number,
                start=step.base,
                end=step.base + view.end,
                first=self.operations,
                operations=len(rows),
                tables=self.bits([names[one - 1] for one in present if one]),
                kinds=sum(1 << kind for kind in _present(kinds)),
                times=(int(times.min()), int(times.max())) if len(rows) else (0, 0),
                csns=(before or (csns[0] if csns else None), self._csn) if ordered else None,
                state=state,
            )
        )
        self.operations += len(rows)
        self._is_open = step.followed.is_open
        self.bytes_read += view.end

    def _state_after(self, step: Chunk) -> ReaderState:
        """Return what the records after a chunk inherit."""
        is_open, last = step.followed.is_open, self.transactions.open
        return replace(
            self._state,
            tables=step.tables,
            tx_open=is_open,
            tx_id=last.id or None if is_open and last is not None else None,
            csn=last.csn or None if is_open and last is not None else None,
        )

    def _tables_of(self, step: Chunk) -> tuple[list[str], Longs]:
        """Return names of tables, and the index of its table in them of each record; -1 for none."""
        found = step.found
        names = list(found.names)
        of_table = found.name.astype(np.int64)
        indexed = np.flatnonzero((of_table < 0) & (found.index >= 0))
        for index in _present(found.index[indexed]):
            known = step.tables.tables.get(index)
            of_table[indexed[found.index[indexed] == index]] = len(names)
            names.append(known.name if known is not None else f"table index {index}")
        for name in names:
            if name and name not in self._table_bits:
                self._table_bits[name] = 1 << len(self._table_bits)
        return names, of_table

    def _count_tables(
        self, step: Chunk, names: list[str], of_table: Longs, rows: Longs, kinds: Longs
    ) -> None:
        view = step.found.view
        with_table = of_table >= 0
        sizes = np.bincount(of_table[with_table], view.lengths[with_table], minlength=len(names))
        own = of_table[rows]
        for at in _present(own[own >= 0]):
            totals = self.tables.setdefault(names[at], TableTotals(names[at]))
            mine: Mask = own == at
            totals.kinds += np.bincount(kinds[mine], minlength=NO_KIND)[:NO_KIND]
            totals.bytes += int(sizes[at])
            times = view.io_time[rows[mine]]
            times = times[(times >= EARLIEST) & (times <= LATEST)]
            totals.over_time.add(times, np.zeros(len(times), np.int64))
        if step.tables is not self._known:
            self._known = step.tables
            self._add_versions(step)

    def _add_versions(self, step: Chunk) -> None:
        """Keep the definitions of tables that are new with a chunk."""
        for index, known in step.tables.tables.items():
            if known.table is None or self._defined.get(index) is known:
                continue
            self._defined[index] = known
            totals = self.tables.setdefault(known.name, TableTotals(known.name))
            place = TrailPlace(self._sources[step.number].number, step.base + known.offset)
            last = totals.versions[-1][1] if totals.versions else None
            if known.table != last and len(totals.versions) < VERSIONS:
                totals.versions.append((place, known.table))

    def _follow(self, step: Chunk, number: int, rows: Longs) -> None:
        """Add the transactions that end in a chunk, and keep the one that is open after it."""
        followed, view = step.followed, step.found.view
        group = followed.number[rows]
        counts = np.bincount(group, minlength=len(followed.flags))
        sizes = np.bincount(group, view.lengths[rows], minlength=len(counts)).astype(np.int64)
        edges = np.flatnonzero(np.diff(group, prepend=-1))
        present = group[edges]
        first, last = np.zeros((2, len(counts)), np.int64)
        first[present] = view.io_time[rows[edges]]
        last[present] = view.io_time[rows[np.append(edges[1:], len(rows)) - 1]] if len(rows) else 0
        starts = np.append([0], followed.firsts)
        ids = [self._note_ids(kind, step, number, starts) for kind in ("tx", "csn")]

        def made(own: int) -> Transaction:
            begin = TrailPlace(number, step.base + int(view.offsets[starts[own]]))
            return Transaction(
                begin,
                _id_of(ids[0], own),
                _id_of(ids[1], own),
                *(int(column[own]) for column in (counts, sizes, first, last)),
            )

        self._note_undone(step, number, starts)
        state = self.transactions
        if counts[0]:
            state.open = _joined(state.open, made(0))
        final = len(counts) - 1
        if final == 0:
            return
        ended = [] if state.open is None else [state.open]
        complete = np.flatnonzero(counts[1:final]) + 1
        durations = (last - first)[complete]
        longest = {
            *_largest(counts[complete], state.by_operations, "operations"),
            *_largest(durations, state.by_duration, "duration"),
        }
        state.add(
            [*ended, *(made(int(complete[at])) for at in sorted(longest))],
            np.concatenate([[one.operations for one in ended], counts[complete]]).astype(np.int64),
        )
        state.open = made(final) if counts[final] else None

    def _note_undone(self, step: Chunk, number: int, starts: Longs) -> None:
        """Keep where transactions are that a restart record of a chunk made void."""
        offsets, before = step.found.view.offsets, self.transactions.open
        for own in np.flatnonzero(step.followed.flags & ABANDONED).tolist():
            begin = TrailPlace(number, step.base + int(offsets[starts[own]]))
            if own == 0 and before is not None:
                begin = before.begin
            end = TrailPlace(number, step.base + int(offsets[starts[own + 1]]))
            self.undone.append((begin, end))

    def _note_ids(
        self, kind: str, step: Chunk, number: int, starts: Longs
    ) -> tuple[Longs, list[str]]:
        """Write where the transactions begin that have ids in a chunk; return these transactions, and the first id of each."""
        rows, strings = getattr(step.found, kind)
        numbers = step.followed.number[rows]
        at = np.flatnonzero(np.diff(numbers, prepend=-1))
        if len(at) < len(strings):
            strings = [strings[one] for one in at.tolist()]
        found = np.zeros(len(at), IDS)
        found["hash"] = list(map(hash, strings))
        found["number"] = number
        found["offset"] = step.base + step.found.view.offsets[starts[numbers[at]]]
        self._ids[kind].write(found.tobytes())
        self._ids[kind].flush()
        return numbers[at], strings


def _id_of(ids: tuple[Longs, list[str]], own: int) -> str:
    """Return the id of a transaction; empty where it has none."""
    numbers, strings = ids
    at = int(np.searchsorted(numbers, own))
    return strings[at] if at < len(numbers) and numbers[at] == own else ""


def _present(numbers: Longs) -> list[int]:
    """Return the numbers that occur, of few that are not negative."""
    found: list[int] = np.flatnonzero(np.bincount(numbers)).tolist()
    return found


def _joined(one: Transaction | None, more: Transaction) -> Transaction:
    """Return a transaction with what another chunk has of it."""
    if one is None:
        return more
    one.id, one.csn = one.id or more.id, one.csn or more.csn
    one.operations += more.operations
    one.bytes += more.bytes
    one.last_time = more.last_time
    return one


def _largest(values: Longs, kept: list[Transaction], measure: str) -> list[int]:
    """Return which of the values are so large that they would be among those kept."""
    least = getattr(kept[-1], measure) if len(kept) == LONGEST else -1
    found = np.flatnonzero(values > least)
    if len(found) > LONGEST:
        found = found[np.argpartition(values[found], -LONGEST)[-LONGEST:]]
    rows: list[int] = found.tolist()
    return rows
