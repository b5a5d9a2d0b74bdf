"""Count records, bytes and record types of a trail file for COUNT, chunk by chunk, in columns.

There are counts for all records, for each table, and for each interval of time. The largest
transactions are stored too, for TRANSHIST. Memory use grows only with the number of tables and
intervals.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from trailgate.arrays import Longs, Mask
from trailgate.errors import OptionError
from trailgate.logdump.record_chunks import LogdumpChunk
from trailgate.model.transactions import BEFORE
from trailgate.trail.format.record_types import (
    IO_COMMENT,
    IO_METADATA,
    IO_RESTART_ABEND,
    IO_RESTART_OK,
    type_name,
)

TYPES: Final = 256

MICROSECONDS: Final = 60_000_000  # of a minute
# Limits far above what a person reads, so that damaged times and names cannot fill the memory.
MOST_INTERVALS: Final = 10_000
MOST_TABLES: Final = 100_000
_IN_TRANSACTIONS: Final = np.ones(TYPES, bool)
_IN_TRANSACTIONS[[IO_METADATA, IO_RESTART_ABEND, IO_RESTART_OK, IO_COMMENT]] = False
_IN_TRANSACTIONS.setflags(write=False)


@dataclass(frozen=True, slots=True)
class RecordTally:
    """COUNT's counts of all records, of one table, or of an interval of time.

    ``name`` is the table's name, otherwise "". ``types`` has the number of records of each type.
    """

    name: str
    records: int
    data_bytes: int
    types: Mapping[str, int]
    befores: int
    afters: int
    begin: int | None = None  # of an interval, in microseconds since 1970 UTC
    end: int | None = None


@dataclass(frozen=True, slots=True)
class LargeTransaction:
    """A transaction that reaches the limit TRANSRECLIMIT or TRANSBYTELIMIT.

    ``offset`` and ``time`` (microseconds since 1970 UTC) are those of its first record.
    """

    offset: int
    time: int
    records: int
    data_bytes: int


Key = TypeVar("Key", int, str)


class CountedColumns(NamedTuple):
    """The columns of records that COUNT uses: record types, sizes of data, and whether each is a before image."""

    types: npt.NDArray[np.uint8]
    data: Longs
    before: Mask


@dataclass(slots=True)
class RecordSums:
    """The sums of COUNT for a set of records, such as a table, which grow chunk by chunk."""

    data_bytes: int = 0
    befores: int = 0
    types: Counter[int] = field(default_factory=Counter)

    def tally(self, name: str, begin: int | None = None, end: int | None = None) -> RecordTally:
        """Return COUNT's sums as a frozen value. ``begin`` and ``end`` are times, if it is an interval."""
        records = self.types.total()
        named = {_label(code): count for code, count in sorted(self.types.items())}
        afters = records - self.befores
        return RecordTally(
            name=name,
            records=records,
            data_bytes=self.data_bytes,
            types=named,
            befores=self.befores,
            afters=afters,
            begin=begin,
            end=end,
        )


class GroupedSums(Generic[Key]):
    """The sums of COUNT for each group of records, such as a table.

    More than ``most`` groups mean that the file is damaged: OptionError is raised, and names the
    groups by ``what``, such as "tables".
    """

    def __init__(self, most: int, what: str) -> None:
        self._most, self._what = most, what
        self.sums: dict[Key, RecordSums] = {}

    def add(self, groups: Longs, keys: Sequence[Key], counted: CountedColumns) -> None:
        """Add records to the sums of their groups. ``keys[groups[i]]`` is the key of record i's group."""
        size = len(keys)
        data = np.bincount(groups, counted.data, minlength=size)
        before = np.bincount(groups, counted.before, minlength=size)
        # One number per group and record type, so that a single np.unique counts all combinations.
        pairs, counts = np.unique(groups * TYPES + counted.types, return_counts=True)
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            group, code = divmod(pair, TYPES)
            self._of(keys[group]).types[code] += count
        for group in np.unique(pairs // TYPES).tolist():
            sums = self._of(keys[group])
            sums.data_bytes += int(data[group])
            sums.befores += int(before[group])

    def _of(self, key: Key) -> RecordSums:
        sums = self.sums.get(key)
        if sums is None:
            if len(self.sums) == self._most:
                raise OptionError(f"there are more than {self._most} {self._what}")
            sums = self.sums[key] = RecordSums()
        return sums


def _label(code: int) -> str:
    name = type_name(code)
    return f"{name} {code}" if name == "unknown" else name


class LargeTransactions:
    """Collects the largest transactions (by bytes) that reach a limit of records or of bytes, for TRANSHIST.

    At most ``keep`` of them are kept. A transaction may span chunks: the last, unfinished one is
    stored in ``_open``.
    """

    def __init__(self, keep: int, records: int, data_bytes: int) -> None:
        self._keep, self._records, self._bytes = keep, records, data_bytes
        self._heap: list[tuple[int, int, LargeTransaction]] = []
        self._open: LargeTransaction | None = None

    def add(self, chunk: LogdumpChunk, mask: Mask) -> None:
        """Add the selected records of a chunk to their transactions, and keep the large ones."""
        numbers = chunk.numbers
        count = len(numbers.firsts) + 1
        # Element i counts transaction i of the chunk. Element BEFORE (0) counts the records that
        # continue a transaction from the chunk before.
        records = np.bincount(numbers.number[mask], minlength=count)
        data = np.bincount(numbers.number[mask], chunk.view.data_length[mask], minlength=count)
        if (numbers.number == BEFORE).any():
            self._continue_file(chunk, int(records[BEFORE]), int(data[BEFORE]))
        if numbers.open != BEFORE:
            self._finish()
        large = (records >= self._records) | (data >= self._bytes)
        large[BEFORE] = False
        for at in np.flatnonzero(large).tolist():
            if at != numbers.open:
                self._keep_one(self._one(chunk, at, records, data))
        if numbers.open > BEFORE:
            self._open = self._one(chunk, numbers.open, records, data)

    def _one(
        self, chunk: LogdumpChunk, number: int, records: Longs, data: Longs
    ) -> LargeTransaction:
        row = int(chunk.numbers.firsts[number - 1])
        return _transaction(chunk, row, int(records[number]), int(data[number]))

    def found(self) -> tuple[LargeTransaction, ...]:
        """Return the large transactions that were kept, largest first."""
        self._finish()
        return tuple(entry[-1] for entry in sorted(self._heap, reverse=True))

    def _continue_file(self, chunk: LogdumpChunk, records: int, data: int) -> None:
        before = self._open or _transaction(chunk, 0, 0, 0)
        self._open = LargeTransaction(
            before.offset, before.time, before.records + records, before.data_bytes + data
        )

    def _finish(self) -> None:
        """Keep the open transaction if it is large. No more records follow it."""
        one, self._open = self._open, None
        if one and (one.records >= self._records or one.data_bytes >= self._bytes):
            self._keep_one(one)

    def _keep_one(self, one: LargeTransaction) -> None:
        # The heap's first entry is the smallest. Of two with equal sizes the later one is dropped,
        # because its negative offset is smaller.
        heapq.heappush(self._heap, (one.data_bytes, -one.offset, one))
        if len(self._heap) > self._keep:
            heapq.heappop(self._heap)


def _transaction(chunk: LogdumpChunk, row: int, records: int, data: int) -> LargeTransaction:
    offset = chunk.source.base + int(chunk.view.offsets[row])
    return LargeTransaction(offset, int(chunk.view.io_time[row]), records, data)


class RecordCounter:
    """Counts records for COUNT, chunk by chunk. The counts are available at any time.

    ``suppressed`` is the number of records that were not selected. ``files`` is a sum over all
    transactions: the number of different tables in each. ``minutes`` is the length of the
    intervals, or None.
    """

    def __init__(
        self, *, tables: bool, minutes: int | None, large: LargeTransactions | None = None
    ) -> None:
        self.suppressed = self.transactions = self.files = 0
        self._total: GroupedSums[str] = GroupedSums(1, "files")
        self._by_table: GroupedSums[str] | None = (
            GroupedSums(MOST_TABLES, "tables") if tables else None
        )
        self._interval = None if minutes is None else minutes * MICROSECONDS
        self._by_interval: GroupedSums[int] = GroupedSums(MOST_INTERVALS, "intervals")
        self._open: frozenset[str] = frozenset()  # the tables of the open transaction
        self._large = large

    def add(self, chunk: LogdumpChunk, mask: Mask) -> None:
        """Add the selected records of a chunk to COUNT's counts."""
        rows = np.flatnonzero(mask)
        self.suppressed += len(chunk) - len(rows)
        types = chunk.view.io_type
        counted = CountedColumns(
            types[rows], chunk.view.data_length[rows], chunk.view.is_before[rows]
        )
        self._total.add(np.zeros(len(rows), np.int64), ("",), counted)
        if self._by_table is not None:
            self._by_table.add(chunk.names.codes[rows], chunk.names.strings, counted)
        if self._interval is not None:
            # ``group`` is the index of each record's interval in ``steps``, the distinct intervals.
            steps, group = np.unique(
                chunk.view.io_time[rows] // self._interval, return_inverse=True
            )
            self._by_interval.add(group, steps.tolist(), counted)
        self._add_transactions(chunk, rows)
        if self._large is not None:
            self._large.add(chunk, mask)

    def total(self) -> RecordTally:
        """Return COUNT's counts of all records."""
        return self._total.sums.get("", RecordSums()).tally("")

    def tables(self) -> tuple[RecordTally, ...]:
        """Return the counts of each table, ordered by name."""
        found = sorted(self._by_table.sums.items()) if self._by_table else []
        return tuple(sums.tally(name) for name, sums in found)

    def intervals(self) -> tuple[RecordTally, ...]:
        """Return the counts of each interval, ordered by time."""
        step = self._interval or 0
        found = sorted(self._by_interval.sums.items())
        return tuple(sums.tally("", at * step, (at + 1) * step) for at, sums in found)

    def _add_transactions(self, chunk: LogdumpChunk, rows: Longs) -> None:
        """Count the chunk's transactions, and the number of different tables in each.

        A transaction that began in an earlier chunk is not counted again.
        """
        rows = rows[_IN_TRANSACTIONS[chunk.view.io_type[rows]]]
        if not len(rows):
            return
        names, number = chunk.names, chunk.numbers.number
        # A key is one number for transaction and table: transaction * number of tables + table.
        keys = number[rows] * len(names.strings) + names.codes[rows]
        # Neighbouring records mostly have the same transaction and table. Dropping repetitions
        # first leaves little to sort.
        keys = np.unique(keys[np.append(True, keys[1:] != keys[:-1])])
        owner = keys // len(names.strings)
        continued = {names.strings[key] for key in keys[owner == BEFORE].tolist()}
        # The transaction that continues from the chunk before was counted there, if it had records
        # there. Of its tables, only those that it did not have before are new.
        self.transactions += len(np.unique(owner)) - bool(continued and self._open)
        self.files += int((owner > BEFORE).sum()) + len(continued - self._open)
        last = chunk.numbers.open
        open_tables = {
            names.strings[key % len(names.strings)] for key in keys[owner == last].tolist()
        }
        self._open = frozenset(open_tables | self._open if last == BEFORE else open_tables)
