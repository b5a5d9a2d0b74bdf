"""A trail applied to the tables of a target, batch by batch, each operation once.

A batch ends where a transaction ends (storage/reading/trail_stream.py). Its operations are sorted by target table, those that a table has already are left out by the position that the
target keeps, and what remains becomes one effect a key (``apply``), which the target writes and commits together with the batch's last position. A run that was stopped anywhere continues
where the target's positions say, however its batches are cut then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from types import MappingProxyType
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.batch import Effects, effects_of
from trailgate.apply.collisions import Collisions
from trailgate.apply.faults import Faults
from trailgate.apply.nets import Effect, net_effects
from trailgate.apply.operations import Operations, operations_on
from trailgate.apply.tables import TargetTable, target_table, with_columns_of
from trailgate.arrays import Longs, Mask
from trailgate.errors import DefinitionError, StorageError, TrailgateError, Where
from trailgate.jobs.apply_discards import DiscardFile
from trailgate.jobs.apply_options import (
    BATCH_BYTES,
    GROUP,
    ApplyOptions,
    OnCollision,
    OnError,
    SchemaChanges,
)
from trailgate.model.changes import ChangeBatch, ChangeBlock
from trailgate.model.table_patterns import TablePatterns
from trailgate.model.tables import Definitions, Table
from trailgate.model.transactions import begins_of
from trailgate.storage.files.addresses import Address, absolute
from trailgate.storage.files.trail_files import TrailFiles, find_trail
from trailgate.storage.reading.message_stream import BatchLimit
from trailgate.storage.reading.options import above_csn
from trailgate.storage.reading.splits import Notices, SplitReader, TrailSplit
from trailgate.storage.reading.threads import in_order, thread_count
from trailgate.storage.reading.trail_stream import EARLIEST, StreamOffset, TrailStream
from trailgate.targets.target import Position, Target, open_target
from trailgate.trail.reading.images import Wanted

SPLIT_BYTES: Final = 8 << 20
Progress = Callable[["ApplyReport"], None]


@dataclass(frozen=True, slots=True)
class TableReport:
    """What was done to one target table: operations that were applied, and rows by what became of them.

    ``replayed`` operations were on keys that had to be followed row by row; ``ignored`` ones had no effect, by the policy of collisions, and ``discarded`` ones could not be applied.
    """

    operations: int = 0
    inserted: int = 0
    updated: int = 0
    replaced: int = 0
    deleted: int = 0
    emptied: int = 0
    replayed: int = 0
    ignored: int = 0
    discarded: int = 0

    def __add__(self, other: TableReport) -> TableReport:
        return TableReport(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """What one batch, or a whole run, did to each target table, and how far the trail is applied then."""

    tables: Mapping[str, TableReport] = field(default_factory=lambda: MappingProxyType({}))
    batches: int = 0
    position: Position | None = None

    @property
    def operations(self) -> int:
        """Return how many operations there were."""
        return sum(one.operations for one in self.tables.values())

    def __add__(self, other: ApplyReport) -> ApplyReport:
        names = dict.fromkeys((*self.tables, *other.tables))
        nothing = TableReport()
        tables = {
            name: self.tables.get(name, nothing) + other.tables.get(name, nothing) for name in names
        }
        return ApplyReport(tables, self.batches + other.batches, other.position or self.position)


def apply_trail(  # noqa: PLR0913  one parameter an option
    trail: Address,
    to: str,
    *,
    tables: Iterable[str] | None = None,
    group: str = GROUP,
    on_collision: OnCollision = "stop",
    after_csn: str | None = None,
    overlay_until: str | None = None,
    on_error: OnError = "stop",
    discards: str | None = None,
    no_create: bool = False,
    schema_changes: SchemaChanges = "evolve",
    batch_bytes: int = BATCH_BYTES,
    dry_run: bool = False,
    definitions: Address | Definitions | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> ApplyReport:
    """Apply what a trail has, up to its last whole transaction, to the tables of a target; return what was done.

    ``to`` is an address as ``delta:lake/`` or ``duckdb:shop.duckdb``. A later run with the same ``group`` continues where this one ends. ``tables`` are patterns such as ``HR.*``.
    ``on_collision`` states what is done where a row is there that should not be, or is not there; ``overlay`` does so up to the CSN ``overlay_until`` in any case.
    Operations up to ``after_csn`` are in the tables already. What cannot be applied stops the run, or goes, with ``on_error="discard"`` alone and with ``"discard-transaction"`` as a
    whole transaction, to the JSON lines of ``discards``. ``progress`` is called after each batch.

    Raises OptionError, StorageError for what cannot be read or written, DefinitionError for tables that do not fit, and ApplyError for an operation that does not fit the rows of
    its table; then nothing of its batch is applied where the target has transactions, and the batches before stay.
    """
    named = locals()
    options = ApplyOptions(**{one.name: named[one.name] for one in fields(ApplyOptions)})
    with ApplyRun(trail, to, options, definitions=definitions, threads=threads) as run:
        done = ApplyReport()
        for report in run.batches():
            done += report
            if progress is not None:
                progress(report)
        return done


class ApplyRun:
    """A run that applies a trail: batches one after another."""

    def __init__(
        self,
        trail: Address,
        to: str,
        options: ApplyOptions,
        *,
        definitions: Address | Definitions | None = None,
        threads: int | None = None,
    ) -> None:
        self._options, self._threads = options, thread_count(threads)
        patterns = options.tables
        self._wanted = Wanted(None if patterns is None else TablePatterns.read(",".join(patterns)))
        self._policy = Collisions(options.on_collision)
        self._find = partial(find_trail, trail, definitions)
        # Positions are those of a trail and of the tables that are taken of it.
        chosen = "" if patterns is None else f"?tables={','.join(sorted(patterns))}"
        self._source = f"{absolute(self._find().prefix)}{chosen}"
        self._stream = TrailStream(self._find)
        self._target: Target = open_target(to, options.group)
        self._tables: dict[str, TargetTable] = {}
        self._positions: dict[str, str] = {}
        self._notices = Notices()
        self._discards: DiscardFile | None = None
        known = self._target.position(None)
        if known is not None and known.trail != self._source:
            self._target.close()
            raise StorageError(
                f"group {options.group} applies {known.trail} to this target, and this is {self._source}",
                where=Where(source=to),
                hint="What lies before its position would be left out: name another group, --group NAME",
            )
        self._done = known
        self._place = self._stream.initial(EARLIEST if known is None else known.position)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._target.close()

    def batches(self) -> Iterator[ApplyReport]:
        """Yield what each batch did, up to the last transaction that is whole by now."""
        limit = BatchLimit(bytes=self._options.batch_bytes)
        while (end := self._stream.latest(self._place, limit)) != self._place:
            report = self._apply(self._place, end)
            self._place = end
            if report is not None:
                yield report

    def _apply(self, start: StreamOffset, end: StreamOffset) -> ApplyReport | None:
        """Apply the operations between two places; return None where all of them were applied before."""
        planned = self._stream.splits(start, end, SPLIT_BYTES)
        batch = None if planned is None else self._read(*planned)
        if batch is None or (self._done is not None and batch.last.position <= self._done.position):
            return None
        parts: list[tuple[_Batch | None, Collisions]] = [(batch, self._policy)]
        if self._options.overlay_until is not None:
            early, late = batch.parted(self._options.overlay_until)
            parts = [(early, Collisions.OVERLAY), (late, self._policy)]
        done = ApplyReport()
        for part, policy in parts:
            if part is not None:
                done += self._apply_batch(part, policy)
        return replace(done, batches=1)

    def _apply_batch(self, batch: _Batch, policy: Collisions) -> ApplyReport:
        """Apply a batch: what each table gets is known before any is written."""
        options = self._options
        try:
            tables = {name: self._table(own) for name, own in batch.tables.items()}
            effects, faults, left_out = self._effects(batch, tables, policy)
            reports = {str(one.nets.table): report for one, report in effects}
            if not options.dry_run:
                discards = self._discard(batch, faults, left_out)
                for one, _ in effects:
                    self._target.write(one, batch.last)
                self._target.commit(batch.last)
                for table, count in discards.items():
                    name = str(tables[table])
                    known = reports.get(name, TableReport())
                    reports[name] = replace(known, discarded=count)
        except BaseException:
            self._target.rollback()
            self._tables.clear()
            raise
        self._done = batch.last
        return ApplyReport(reports, 1, batch.last)

    def _effects(
        self, batch: _Batch, tables: Mapping[str, TargetTable], policy: Collisions
    ) -> tuple[list[tuple[Effects, TableReport]], Faults, frozenset[int]]:
        """Return what is written to each table, the operations that cannot be applied, and the transactions that are left out for these."""
        left_out: frozenset[int] = frozenset()
        reasons: dict[int, TrailgateError] = {}
        while True:
            faults = Faults(stop=self._options.on_error == "stop")
            found = []
            for name, own in batch.tables.items():
                operations = self._remaining(tables[name], own, left_out, faults)
                if operations is not None:
                    found.append(self._effects_on(operations, policy, faults))
            reasons |= faults.errors
            bad = batch.transactions(faults.errors) - left_out
            if self._options.on_error != "discard-transaction" or not bad:
                faults.errors |= reasons
                return found, faults, left_out
            left_out |= bad

    def _effects_on(
        self, operations: Operations, policy: Collisions, faults: Faults
    ) -> tuple[Effects, TableReport]:
        if self._options.dry_run:
            return _expected(operations)
        fetch = partial(_fetch, self._target, operations.table)
        effects = effects_of(operations, fetch, policy, faults)
        left_out = int(np.isin(operations.order, list(faults.errors)).sum())
        return effects, _report(operations, effects, left_out)

    def _discard(self, batch: _Batch, faults: Faults, left_out: frozenset[int]) -> dict[str, int]:
        """Write the operations that are not applied to the file of discards; return how many there are of each table."""
        if not faults.errors:
            return {}
        if self._discards is None:
            path = self._options.discards or f"{self._options.group}.discards.jsonl"
            self._discards = DiscardFile(path)
        counts: dict[str, int] = {}
        for name, own in batch.tables.items():
            for block, transactions in own:
                gone = np.isin(block.order, list(faults.errors))
                gone |= np.isin(transactions, list(left_out))
                rows = np.flatnonzero(gone)
                if len(rows):
                    counts[name] = counts.get(name, 0) + len(rows)
                    self._discards.add(block.take(rows), faults.errors)
        self._discards.flush()
        return counts

    def _read(self, trail: TrailFiles, splits: list[TrailSplit]) -> _Batch | None:
        """Return the operations of splits by table; None where there are none."""
        rows = number = 0
        last: ChangeBatch | None = None
        found: dict[str, list[_Part]] = {}

        def read(split: TrailSplit) -> Iterator[ChangeBatch]:
            return SplitReader(trail, split, self._wanted, notices=self._notices).batches()

        for batch in in_order(read, splits, min(self._threads, len(splits))):
            transactions = number + np.cumsum(_begins(batch))
            for block in batch.blocks:
                if len(block):
                    moved = replace(block, order=block.order + rows)
                    own = found.setdefault(block.table.name.casefold(), [])
                    own.append((moved, transactions[block.order]))
            if batch.rows:
                rows, number, last = rows + batch.rows, int(transactions[-1]), batch
        if last is None:
            return None
        return _Batch(found, _position(self._source, *last.find(last.rows - 1)))

    def _table(self, own: Sequence[_Part]) -> TargetTable:
        """Return the target table of blocks of one table, created or with the columns that it lacks where the options allow that."""
        definitions = list({id(block.table): block.table for block, _ in own}.values())
        wanted = _union(definitions)
        key = str(wanted)
        known = self._tables.get(key)
        if known is None:
            known = self._target.held(wanted)
            if known is None and self._options.no_create:
                raise DefinitionError("the target has no such table", where=Where(table=key))
            at = None if known is None else self._target.position(known)
            # A table that a batch did not change keeps its earlier position.
            self._positions[key] = max(
                (one.position for one in (at, self._done) if one), default=""
            )
            if known is None:
                if not self._options.dry_run:
                    self._target.create(wanted)
                known = wanted
        whole = with_columns_of(known, wanted)
        added = tuple(column.name for column in whole.columns[len(known.columns) :])
        if added:
            if self._options.schema_changes == "strict":
                problem = f"the trail has columns that the target's table lacks: {', '.join(added)}"
                raise DefinitionError(
                    problem, where=Where(table=key), hint="--schema-changes evolve adds them"
                )
            if not self._options.dry_run:
                self._target.add_columns(whole, added)
        self._tables[key] = whole
        return whole

    def _remaining(
        self,
        table: TargetTable,
        parts: Sequence[_Part],
        left_out: frozenset[int],
        faults: Faults,
    ) -> Operations | None:
        """Return the operations that the table does not have yet, without those of transactions that are left out."""
        stored = self._positions[str(table)]
        kept = []
        for block, own in parts:
            keep = ~np.isin(own, list(left_out))
            if stored:
                keep &= pc.greater(block.position, stored).to_numpy(zero_copy_only=False)
            if self._options.after_csn is not None:
                later = above_csn(block.csn, self._options.after_csn)
                keep &= pc.fill_null(later, False).to_numpy(zero_copy_only=False)
            rows = np.flatnonzero(keep)
            if len(rows):
                kept.append((block.take(rows), own[rows]))
        if not kept:
            return None
        operations = operations_on(
            table, [block for block, _ in kept], [own for _, own in kept], faults
        )
        return operations if len(operations) else None


_Part = tuple[ChangeBlock, Longs]  # with the transaction of each row


@dataclass(frozen=True, slots=True)
class _Batch:
    """Operations by source table; ``order`` of the blocks counts over all of them. ``last`` is the position of the last one."""

    tables: Mapping[str, Sequence[_Part]]
    last: Position

    def transactions(self, numbers: Iterable[int]) -> frozenset[int]:
        """Return the transactions of operations."""
        wanted = list(numbers)
        found: set[int] = set()
        for own in self.tables.values():
            for block, transactions in own:
                found.update(transactions[np.isin(block.order, wanted)].tolist())
        return frozenset(found)

    def parted(self, csn: str) -> tuple[_Batch | None, _Batch | None]:
        """Return the operations before the first transaction with a later CSN, and the others."""
        parts = [part for own in self.tables.values() for part in own]
        later = [
            above_csn(block.csn, csn).fill_null(False).to_numpy(zero_copy_only=False)
            for block, _ in parts
        ]
        first = [
            int(block.order[mask].min())
            for (block, _), mask in zip(parts, later, strict=True)
            if mask.any()
        ]
        if not first:
            return self, None
        early, late = (
            self._where(lambda order: order < min(first)),
            self._where(lambda order: order >= min(first)),
        )
        return early, late

    def _where(self, chosen: Callable[[Longs], Mask]) -> _Batch | None:
        tables: dict[str, list[_Part]] = {}
        last: tuple[int, ChangeBlock, int] | None = None
        for name, own in self.tables.items():
            for block, transactions in own:
                rows = np.flatnonzero(chosen(block.order))
                if len(rows):
                    part = block.take(rows)
                    tables.setdefault(name, []).append((part, transactions[rows]))
                    at = int(part.order.argmax())
                    if last is None or part.order[at] > last[0]:
                        last = int(part.order[at]), part, at
        if last is None:
            return None
        return _Batch(tables, _position(self.last.trail, *last[1:]))


def _position(source: str, block: ChangeBlock, row: int) -> Position:
    return Position(
        source, block.position[row].as_py(), block.csn[row].as_py(), int(block.op_ts[row])
    )


def _begins(batch: ChangeBatch) -> Mask:
    """Return which operations begin a transaction; the first one of it may be of a table that is left out, so that the ids count too."""
    ids = batch.in_order("tx_id").dictionary_encode(null_encoding="encode").indices.to_numpy()
    found: Mask = begins_of(batch.tx_indicators()) | (np.diff(ids, prepend=ids[:1]) != 0)
    return found


def _fetch(target: Target, table: TargetTable, keys: pa.Table, keys_alone: bool) -> pa.Table:
    return target.rows(table, keys, keys_alone=keys_alone)


def _expected(operations: Operations) -> tuple[Effects, TableReport]:
    """Return what operations write to a table whose rows fit them; what is replayed is not followed."""
    parts = [part for part, _ in operations.between_truncates()]
    nets, number = net_effects(parts[-1])
    nets = nets.where(nets.expected | (nets.effect != Effect.DELETE))
    effects = Effects(nets, len(parts) > 1, replayed=int((number < 0).sum()))
    return effects, _report(operations, effects)


def _report(operations: Operations, effects: Effects, left_out: int = 0) -> TableReport:
    counts = effects.counts
    return TableReport(
        operations=len(operations) - left_out,
        inserted=counts["insert"],
        updated=counts["patch"],
        replaced=counts["replace"],
        deleted=counts["delete"],
        emptied=int(effects.emptied),
        replayed=effects.replayed,
        ignored=effects.ignored,
    )


def _union(tables: list[Table]) -> TargetTable:
    """Return the target table that has the columns of all definitions of a table."""
    found = target_table(tables[0])
    for table in tables[1:]:
        found = with_columns_of(found, target_table(table))
    return found
