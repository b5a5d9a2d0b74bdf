"""What apply reads of a trail: the operations of a split by target table, in the types of these tables.

A split is read by one thread or by one task of Spark, which knows the tables of the target that were met so far. One that it does not know has the types of a table that is created; whoever
joins the splits compares, and has them read again where the target's own table differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

import numpy as np
import pyarrow.compute as pc

from trailgate.apply.effects.faults import OperationErrors
from trailgate.apply.effects.folding import fold_operations
from trailgate.apply.effects.operations import TargetOperations, convert_blocks, join_operations
from trailgate.apply.effects.tables import TargetTable, add_missing_columns, make_target_table
from trailgate.apply.targets.target import Position
from trailgate.arrays import Longs, Mask
from trailgate.errors import TrailgateError
from trailgate.model.changes import ChangeBatch, ChangeBlock
from trailgate.model.tables import Table
from trailgate.model.transactions import mask_begins
from trailgate.storage.files.trail_files import TrailFiles
from trailgate.storage.reading.options import above_csn
from trailgate.storage.reading.splits import NoticeLog, SplitReader, TrailSplit
from trailgate.trail.reading.images import ReadSelection

FOLD_ROWS: Final = 1 << 20  # operations on a table that one split holds before it folds them

Prepare = Callable[[ChangeBlock, OperationErrors], Sequence[ChangeBlock]]
Part = tuple[ChangeBlock, Longs]  # with the transaction of each row


def as_it_is(block: ChangeBlock, faults: OperationErrors) -> Sequence[ChangeBlock]:
    """Return a block of a source table for the target table of the same name."""
    del faults
    return (block,)


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table of the target as operations are made for it, and the position (20 digits) up to which it has them; ``until`` the one up to which it gets them, if not all."""

    table: TargetTable
    done: str = ""
    until: str = ""


@dataclass(slots=True)
class SplitRead:
    """The operations of a split, by the names of target tables; ``order`` and ``transaction`` count over the split.

    ``blocks`` are the operations as the trail has them, where they are kept. ``last`` is the position of the last one. ``defined`` are the definitions of each source table with operations
    in the split, with the position of the first of these, in their order. Where an operation ``failed``, what follows it was not read.
    """

    operations: dict[str, TargetOperations] = field(default_factory=dict)
    tables: dict[str, KnownTable] = field(default_factory=dict)
    blocks: list[Part] = field(default_factory=list)
    errors: dict[int, TrailgateError] = field(default_factory=dict)
    defined: dict[str, dict[Table, str]] = field(default_factory=dict)
    rows: int = 0
    transactions: int = 0
    last: Position | None = None
    failed: TrailgateError | None = None

    def shifted(self, rows: int, transactions: int) -> SplitRead:
        """Return the split as one that follows operations and transactions of earlier ones."""
        if not rows:
            return self
        return replace(
            self,
            operations={
                name: replace(
                    own, order=own.order + rows, transaction=own.transaction + transactions
                )
                for name, own in self.operations.items()
            },
            blocks=[
                (replace(block, order=block.order + rows), own + transactions)
                for block, own in self.blocks
            ],
            errors={number + rows: error for number, error in self.errors.items()},
            rows=self.rows + rows,
            transactions=self.transactions + transactions,
        )


@dataclass(frozen=True, slots=True)
class SplitWork:
    """How splits are read. ``tables`` are those of the target by the names that created ones would have; operations on any other one are left out up to ``done``.

    ``keep`` keeps operations as the trail has them, and notes the errors of those that cannot be applied, of which the first is raised else.
    Operations after ``until`` are not looked at, if it is not empty; those after ``settled`` may not be applied yet, and an error about what cannot be decided is left out.
    With ``fold_rows`` operations are folded when there are so many on one table.
    """

    trail: TrailFiles
    source: str
    wanted: ReadSelection
    tables: Mapping[str, KnownTable]
    done: str = ""
    prepare: Prepare = as_it_is
    extend: Callable[[TargetTable], TargetTable] = field(default=lambda table: table)
    after_csn: str | None = None
    keep: bool = False
    fold_rows: int | None = FOLD_ROWS
    notices: NoticeLog = field(default_factory=NoticeLog)
    settled: str = ""
    until: str = ""

    def read(self, split: TrailSplit) -> SplitRead:
        """Read a split; raises TrailgateError."""
        return self.read_batches(
            SplitReader(self.trail, split, self.wanted, notices=self.notices).batches()
        )

    def read_batches(self, batches: Iterable[ChangeBatch]) -> SplitRead:
        """Return batches of whole transactions as one split."""
        found = SplitRead()
        faults = OperationErrors(stop=not self.keep)
        parts: dict[str, list[TargetOperations]] = {}
        last: ChangeBatch | None = None
        for batch in batches:
            transactions = found.transactions + np.cumsum(_begins(batch))
            for block in filter(len, batch.blocks):
                try:
                    self._add_block(found, parts, (block, transactions), faults)
                except TrailgateError as error:
                    found.failed = error
                    return found
            if batch.rows:
                found.rows += batch.rows
                found.transactions = int(transactions[-1])
                last = batch
        if last is not None:
            block, row = last.find(last.rows - 1)
            found.last = position_at(self.source, block, row)
        for name, joined in parts.items():
            whole = join_operations([one.on(found.tables[name].table) for one in joined])
            found.operations[name] = fold_operations(whole) if self.fold_rows == 0 else whole
        found.errors = faults.errors
        return found

    def _add_block(
        self,
        found: SplitRead,
        parts: dict[str, list[TargetOperations]],
        part: Part,
        faults: OperationErrors,
    ) -> None:
        """Add a block, with the transactions of its batch, to the tables that it is mapped to."""
        block, transactions = part
        moved = replace(block, order=block.order + found.rows)
        own = transactions[block.order]
        if self.keep:
            found.blocks.append((moved, own))
        for portion, noted in self._portions(moved, faults):
            for mapped in self.prepare(portion, noted):
                chosen = own if mapped is moved else transactions[mapped.order - found.rows]
                self._add(found, parts, (mapped, chosen), noted, block.table)

    def _portions(
        self, block: ChangeBlock, faults: OperationErrors
    ) -> Sequence[tuple[ChangeBlock, OperationErrors]]:
        """Return the operations of a block that are looked at, with what their errors are noted in."""
        if not self.until:
            return [(block, faults)]
        settled = _up_to(block, self.settled)
        later = _up_to(block, self.until) & ~settled
        portions = ((settled, faults), (later, OperationErrors(stop=False)))
        return [(block.take(np.flatnonzero(one)), noted) for one, noted in portions if one.any()]

    def _add(
        self,
        found: SplitRead,
        parts: dict[str, list[TargetOperations]],
        part: Part,
        faults: OperationErrors,
        source: Table,
    ) -> None:
        """Add the operations of a part, of a source table, that its target does not have yet."""
        block, transactions = part
        wanted = self.extend(make_target_table(block.table))
        name = str(wanted)
        known = found.tables.get(name) or self.tables.get(name)
        known = KnownTable(wanted, self.done) if known is None else known
        keep = np.ones(len(block), bool)
        if known.done:
            keep &= pc.greater(block.position, known.done).to_numpy(zero_copy_only=False)
        if known.until:
            keep &= pc.less_equal(block.position, known.until).to_numpy(zero_copy_only=False)
        if self.after_csn is not None:
            later = above_csn(block.csn, self.after_csn)
            keep &= pc.fill_null(later, False).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(keep)
        if not len(rows):
            return
        known = replace(known, table=add_missing_columns(known.table, wanted))
        found.tables[name] = known
        _note(found.defined, source, block.position[rows[0]].as_py() or "")
        operations = convert_blocks(known.table, [block.take(rows)], [transactions[rows]], faults)
        own = parts.setdefault(name, [])
        own.append(operations)
        if self.fold_rows and sum(map(len, own)) > self.fold_rows:
            own[:] = [fold_operations(join_operations([one.on(known.table) for one in own]))]


def _up_to(block: ChangeBlock, position: str) -> Mask:
    """Return which operations are at a position or before it."""
    found: Mask = pc.less_equal(block.position, position).to_numpy(zero_copy_only=False)
    return found


def _note(defined: dict[str, dict[Table, str]], table: Table, first: str) -> None:
    """Note a definition of a table with operations, the first of which is at a position."""
    own = defined.setdefault(table.name, {})
    own[table] = min(first, own.get(table, first))


def join_reads(reads: Sequence[SplitRead]) -> SplitRead:
    """Return splits that follow one another as one; their tables are the same."""
    parts: list[SplitRead] = []
    for one in reads:
        before = parts[-1] if parts else SplitRead()
        parts.append(one.shifted(before.rows, before.transactions))
    tables = joined_tables(reads)
    names = dict.fromkeys(name for part in parts for name in part.operations)
    return SplitRead(
        {
            name: join_operations(
                [
                    part.operations[name].on(tables[name].table)
                    for part in parts
                    if name in part.operations
                ]
            )
            for name in names
        },
        tables,
        [block for part in parts for block in part.blocks],
        reduce(lambda one, other: one | other, (part.errors for part in parts), {}),
        join_defined(reads),
        parts[-1].rows if parts else 0,
        parts[-1].transactions if parts else 0,
        next((part.last for part in reversed(parts) if part.last), None),
    )


def joined_tables(reads: Iterable[SplitRead]) -> dict[str, KnownTable]:
    """Return the tables of splits, each with the columns that any of them has."""
    found: dict[str, KnownTable] = {}
    for one in reads:
        for name, known in one.tables.items():
            first = found.setdefault(name, known)
            found[name] = replace(first, table=add_missing_columns(first.table, known.table))
    return found


def join_defined(reads: Iterable[SplitRead]) -> dict[str, dict[Table, str]]:
    """Return the definitions of source tables that splits have operations of, each with the position of the first."""
    found: dict[str, dict[Table, str]] = {}
    for one in reads:
        for own in one.defined.values():
            for table, first in own.items():
                _note(found, table, first)
    return found


def position_at(source: str, block: ChangeBlock | TargetOperations, row: int) -> Position:
    """Return the position of an operation."""
    return Position(
        source, block.position[row].as_py(), block.csn[row].as_py(), int(block.op_ts[row])
    )


def _begins(batch: ChangeBatch) -> Mask:
    """Return which operations begin a transaction; the first one of it may be of a table that is left out, so that the ids count too."""
    ids = batch.in_order("tx_id").dictionary_encode(null_encoding="encode").indices.to_numpy()
    found: Mask = mask_begins(batch.tx_indicators()) | (np.diff(ids, prepend=ids[:1]) != 0)
    return found
