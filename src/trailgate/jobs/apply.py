"""A trail applied to the tables of a target, batch by batch, each operation once.

A batch ends where a transaction ends (storage/reading/trail_stream.py). Its operations are sorted by target table, those that a table has already are left out by the position that the
target keeps, and what remains becomes one effect a key (``apply``), which the target writes and commits together with the batch's last position. A run that was stopped anywhere continues
where the target's positions say, however its batches are cut then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from types import MappingProxyType
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.batch import Effects, effects_of
from trailgate.apply.collisions import Collisions
from trailgate.apply.nets import Effect, net_effects
from trailgate.apply.operations import Operations, operations_on
from trailgate.apply.tables import TargetTable, target_table, with_columns_of
from trailgate.arrays import Longs, Mask
from trailgate.errors import DefinitionError, StorageError, Where
from trailgate.jobs.apply_options import (
    BATCH_BYTES,
    GROUP,
    ApplyOptions,
    OnCollision,
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
    """What was done to one target table: operations, and rows by what became of them.

    ``replayed`` operations were on keys that had to be followed row by row; ``ignored`` ones had no effect, by the policy of collisions.
    """

    operations: int = 0
    inserted: int = 0
    updated: int = 0
    replaced: int = 0
    deleted: int = 0
    emptied: int = 0
    replayed: int = 0
    ignored: int = 0

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
    Operations up to ``after_csn`` are in the tables already. ``progress`` is called after each batch.

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
        if planned is None:
            return None
        trail, splits = planned
        blocks, last = self._read(trail, splits)
        if last is None or (self._done is not None and last.position <= self._done.position):
            return None
        reports = {}
        try:
            for own, transactions in blocks.values():
                table = self._table(own)
                operations = self._remaining(table, own, transactions)
                if operations is not None:
                    reports[str(table)] = self._write(operations, last)
            if not self._options.dry_run:
                self._target.commit(last)
        except BaseException:
            self._target.rollback()
            self._tables.clear()
            raise
        self._done = last
        return ApplyReport(reports, 1, last)

    def _read(
        self, trail: TrailFiles, splits: list[TrailSplit]
    ) -> tuple[dict[str, tuple[list[ChangeBlock], list[Longs]]], Position | None]:
        """Return the blocks of each table with the transactions of their rows, ``order`` counted over all of them, and the last position."""
        rows = number = 0
        last: ChangeBatch | None = None
        found: dict[str, tuple[list[ChangeBlock], list[Longs]]] = {}

        def read(split: TrailSplit) -> Iterator[ChangeBatch]:
            return SplitReader(trail, split, self._wanted, notices=self._notices).batches()

        for batch in in_order(read, splits, min(self._threads, len(splits))):
            transactions = number + np.cumsum(_begins(batch))
            for block in batch.blocks:
                if len(block):
                    own, of = found.setdefault(block.table.name.casefold(), ([], []))
                    of.append(transactions[block.order])
                    own.append(_shifted(block, rows))
            if batch.rows:
                rows, number, last = rows + batch.rows, int(transactions[-1]), batch
        return found, None if last is None else self._position(last)

    def _position(self, batch: ChangeBatch) -> Position:
        block, row = batch.find(batch.rows - 1)
        return Position(
            self._source,
            block.position[row].as_py(),
            block.csn[row].as_py(),
            int(block.op_ts[row]),
        )

    def _table(self, blocks: list[ChangeBlock]) -> TargetTable:
        """Return the target table of blocks of one table, created or with the columns that it lacks where the options allow that."""
        definitions = list({id(block.table): block.table for block in blocks}.values())
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
        self, table: TargetTable, blocks: list[ChangeBlock], transactions: list[Longs]
    ) -> Operations | None:
        """Return the operations that the table does not have yet."""
        stored = self._positions[str(table)]
        kept = []
        for block, own in zip(blocks, transactions, strict=True):
            keep = np.ones(len(block), bool)
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
        return operations_on(table, [block for block, _ in kept], [own for _, own in kept])

    def _write(self, operations: Operations, at: Position) -> TableReport:
        """Write the operations on one table; those up to ``overlay_until`` overlay what is there."""
        if self._options.dry_run:
            return _expected(operations)
        report = TableReport()
        until = self._options.overlay_until
        parts = [(operations, self._policy)]
        if until is not None:
            later = pc.fill_null(above_csn(operations.csn, until), False)
            first = np.flatnonzero(later.to_numpy(zero_copy_only=False))
            cut = int(first[0]) if len(first) else len(operations)
            before, after = np.arange(cut), np.arange(cut, len(operations))
            parts = [
                (operations.take(before), Collisions.OVERLAY),
                (operations.take(after), self._policy),
            ]
        for part, policy in parts:
            if len(part):
                fetch = partial(_fetch, self._target, part.table)
                effects = effects_of(part, fetch, policy)
                last = len(part) - 1
                place = at if part is parts[-1][0] or not len(parts[-1][0]) else _at(at, part, last)
                self._target.write(effects, place)
                report += _report(part, effects)
        return report


def _begins(batch: ChangeBatch) -> Mask:
    """Return which operations begin a transaction; the first one of it may be of a table that is left out, so that the ids count too."""
    ids = batch.in_order("tx_id").dictionary_encode(null_encoding="encode").indices.to_numpy()
    found: Mask = begins_of(batch.tx_indicators()) | (np.diff(ids, prepend=ids[:1]) != 0)
    return found


def _fetch(target: Target, table: TargetTable, keys: pa.Table, keys_alone: bool) -> pa.Table:
    return target.rows(table, keys, keys_alone=keys_alone)


def _at(at: Position, operations: Operations, row: int) -> Position:
    """Return the position of an operation before the end of its batch."""
    return Position(
        at.trail,
        operations.position[row].as_py(),
        operations.csn[row].as_py(),
        int(operations.op_ts[row]),
    )


def _expected(operations: Operations) -> TableReport:
    """Return what operations write to a table whose rows fit them; what is replayed is not followed."""
    parts = [part for part, _ in operations.between_truncates()]
    nets, replayed = net_effects(parts[-1])
    nets = nets.where(nets.expected | (nets.effect != Effect.DELETE))
    return _report(operations, Effects(nets, len(parts) > 1, replayed=len(replayed)))


def _report(operations: Operations, effects: Effects) -> TableReport:
    counts = effects.counts
    return TableReport(
        operations=len(operations),
        inserted=counts["insert"],
        updated=counts["patch"],
        replaced=counts["replace"],
        deleted=counts["delete"],
        emptied=int(effects.emptied),
        replayed=effects.replayed,
        ignored=effects.ignored,
    )


def _shifted(block: ChangeBlock, rows: int) -> ChangeBlock:
    """Return a block whose order counts from later rows on."""
    return replace(block, order=block.order + rows) if rows else block


def _union(tables: list[Table]) -> TargetTable:
    """Return the target table that has the columns of all definitions of a table."""
    found = target_table(tables[0])
    for table in tables[1:]:
        found = with_columns_of(found, target_table(table))
    return found
