"""Read splits of a trail as operations on target tables, converted to the types of those tables.

A thread or a Spark task reads a split. It knows the target tables that earlier batches used. For
any other table it assumes the types with which the table would be created. When the splits are
joined, the assumed tables are compared with those of the target. If a table exists with other
types, the splits are read again (``TargetTables.read``).

Each split numbers its operations and transactions from its own beginning. ``join_split_operations``
shifts these numbers, for example by 1,000 for the second split if the first one has 1,000
operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import islice
from typing import Final

import numpy as np
import pyarrow.compute as pc

from trailgate.apply.effects.folding import fold_operations
from trailgate.apply.effects.operation_errors import OperationErrors
from trailgate.apply.effects.operations import TargetOperations, convert_blocks, join_operations
from trailgate.apply.effects.tables import TargetTable, add_missing_columns, make_target_table
from trailgate.apply.replicat.mapping import map_to_same_table
from trailgate.apply.targets.target import AppliedPosition
from trailgate.arrays import Longs, Mask
from trailgate.errors import TrailgateError
from trailgate.model.changes import ChangeBatch, ChangeBlock
from trailgate.model.csns import above_csn
from trailgate.model.tables import Table
from trailgate.model.transactions import mask_begins, mask_ends
from trailgate.storage.files.trail_files import TrailFiles
from trailgate.storage.reading.splits import NoticeLog, SplitOptions, SplitReader, TrailSplit
from trailgate.trail.reading.images import ReadSelection

FOLD_ROWS: Final = 1 << 20  # operations on one table in a split, after which they are folded

Prepare = Callable[[ChangeBlock, OperationErrors], Sequence[ChangeBlock]]
Part = tuple[ChangeBlock, Longs]  # a block, and the transaction number of each of its rows


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A target table as splits use it: its columns and types, and the range of operations to apply to it.

    ``done`` is the position (20 digits) up to which the table contains all operations, or "" if it
    contains none. ``until`` is the position of the last operation to apply, or "" if there is no
    limit.
    """

    table: TargetTable
    done: str = ""
    until: str = ""


@dataclass(slots=True)
class SplitOperations:
    """The operations of a split of the trail (or of a batch, its joined splits), by target table name.

    - ``operations``: their ``order`` and ``transaction`` count from the beginning of the split
    - ``tables``: the target tables that they were converted for
    - ``blocks``: the same operations as they are in the trail, if they are kept for a discard file
    - ``errors``: the errors of operations that cannot be applied, by their number (``order``)
    - ``defined``: the definitions of each source table, each with the position of the first
      operation that uses it
    - ``rows``, ``transactions``: the numbers of operations and transactions in the split
    - ``last``: the position of the last operation, on any table
    - ``failed``: the error at which reading stopped; the operations after it are missing
    """

    operations: dict[str, TargetOperations] = field(default_factory=dict)
    tables: dict[str, KnownTable] = field(default_factory=dict)
    blocks: list[Part] = field(default_factory=list)
    errors: dict[int, TrailgateError] = field(default_factory=dict)
    defined: dict[str, dict[Table, str]] = field(default_factory=dict)
    rows: int = 0
    transactions: int = 0
    last: AppliedPosition | None = None
    failed: TrailgateError | None = None

    def renumber(self, rows: int, transactions: int) -> SplitOperations:
        """Renumber the operations as the continuation of earlier splits with this many operations and transactions."""
        if not rows:
            return self
        return replace(
            self,
            operations={
                name: replace(
                    operations,
                    order=operations.order + rows,
                    transaction=operations.transaction + transactions,
                )
                for name, operations in self.operations.items()
            },
            blocks=[
                (replace(block, order=block.order + rows), operations + transactions)
                for block, operations in self.blocks
            ],
            errors={number + rows: error for number, error in self.errors.items()},
            rows=self.rows + rows,
            transactions=self.transactions + transactions,
        )

    def between(self, start: int, end: int) -> SplitOperations | None:
        """Return the operations of a split or batch numbered ``start`` to ``end - 1``, or None if there are none."""

        def rows(order: Longs) -> Longs:
            return np.flatnonzero((order >= start) & (order < end))

        chosen = {name: part.take(rows(part.order)) for name, part in self.operations.items()}
        operations = {name: part for name, part in chosen.items() if len(part)}
        if not operations or self.last is None:
            return None
        # The part ends at its last operation on any table. The last part keeps the batch's own end,
        # whose position also has the digest and where the next batch begins.
        end_at = self.last
        if end < self.rows:
            last = max(operations.values(), key=lambda part: int(part.order.max()))
            row = int(last.order.argmax())
            end_at = AppliedPosition.of_operation(self.last.trail, last, row)
        return replace(
            self,
            operations=operations,
            blocks=[
                (block.take(rows(block.order)), transactions[rows(block.order)])
                for block, transactions in self.blocks
            ],
            errors={number: one for number, one in self.errors.items() if start <= number < end},
            last=end_at,
        )


@dataclass(frozen=True, slots=True)
class SplitWork:
    """Everything that is needed to read a split: the trail, the known tables, and how to convert operations.

    - ``source``: the source that positions are stored with (``group_sources.py``)
    - ``wanted``: the tables to read
    - ``tables``: the known target tables, by the names with which they would be created
    - ``done``: on all other tables, operations up to this position are skipped
    - ``prepare``: maps a block of a source table to blocks of target tables
    - ``extend``: adds the columns of its mode to a table, and sets chosen column types
    - ``after_csn``, ``after``: operations up to this CSN or position are skipped
    - ``keep``: keep the operations also as they are in the trail, and collect errors of operations
      instead of raising them
    - ``fold_rows``: fold the operations on a table (``fold_operations``) whenever there are more
      than this; with 0 only at the end of the split, with None never
    - ``notices``: logs each notice of reading only once
    - ``until``: operations after this position are skipped
    - ``settled``: errors of operations after this position are ignored, because their tables may
      not have to apply them yet
    """

    trail: TrailFiles
    source: str
    wanted: ReadSelection
    tables: Mapping[str, KnownTable]
    done: str = ""
    prepare: Prepare = map_to_same_table
    extend: Callable[[TargetTable], TargetTable] = field(default=lambda table: table)
    after_csn: str | None = None
    after: str = ""
    keep: bool = False
    fold_rows: int | None = FOLD_ROWS
    notices: NoticeLog = field(default_factory=NoticeLog)
    settled: str = ""
    until: str = ""

    def read(self, split: TrailSplit) -> SplitOperations:
        """Read a split of the trail as operations on target tables.

        Raises TrailgateError if the trail cannot be read. Other errors that stop the run are
        returned as ``failed``.
        """
        options = SplitOptions(self.wanted)
        return self.read_batches(SplitReader(self.trail, split, options, self.notices).batches())

    def read_batches(self, batches: Iterable[ChangeBatch]) -> SplitOperations:
        """Convert batches of complete transactions as if they were one split."""
        split = SplitOperations()
        faults = OperationErrors(stop=not self.keep)
        parts: dict[str, list[TargetOperations]] = {}
        last: ChangeBatch | None = None
        for batch in batches:
            # The transaction number of each row: a running count of the rows that begin one.
            transactions = split.transactions + np.cumsum(_find_begins(batch, last))
            for block in filter(len, batch.blocks):
                try:
                    self._add_block(split, parts, (block, transactions), faults)
                except TrailgateError as error:
                    split.failed = error
                    return split
            if batch.rows:
                split.rows += batch.rows
                split.transactions = int(transactions[-1])
                last = batch
        # The last row in the order of the trail, in whichever table it is.
        if last is not None:
            block, row = last.find(last.rows - 1)
            split.last = AppliedPosition.of_operation(self.source, block, row)
        for name, joined in parts.items():
            whole = join_operations(
                [one.with_columns_of(split.tables[name].table) for one in joined]
            )
            split.operations[name] = fold_operations(whole) if self.fold_rows == 0 else whole
        split.errors = faults.errors
        return split

    def _add_block(
        self,
        split: SplitOperations,
        parts: dict[str, list[TargetOperations]],
        part: Part,
        faults: OperationErrors,
    ) -> None:
        """Add the operations of a block to all target tables that its source table is mapped to."""
        # ``block.order`` numbers the operations of one batch; ``moved`` those of the split.
        block, transactions = part
        moved = replace(block, order=block.order + split.rows)
        numbers = transactions[block.order]
        added: list[Longs] = []
        errors_before = len(faults.errors)
        for portion, errors in self._portions(moved, faults):
            for mapped in self.prepare(portion, errors):
                # A mapped block may have fewer rows. Its ``order`` still numbers the split, so the
                # batch's rows are that minus ``split.rows``.
                chosen = numbers if mapped is moved else transactions[mapped.order - split.rows]
                added.append(self._add(split, parts, (mapped, chosen), errors, block.table))
        if self.keep:
            # Only what is applied or has an error: what a table has applied before is not discarded
            # with its transaction.
            failed = np.array(list(islice(faults.errors, errors_before, None)), np.int64)
            wanted = np.concatenate([*added, failed])
            rows = np.flatnonzero(np.isin(moved.order, wanted))
            split.blocks.append((moved.take(rows), numbers[rows]))

    def _portions(
        self, block: ChangeBlock, faults: OperationErrors
    ) -> Sequence[tuple[ChangeBlock, OperationErrors]]:
        """Divide a block at the position ``settled`` and drop the operations after ``until``.

        Each portion is returned with the collection that gets its errors. Those of the second one
        are ignored. Without ``until``, the block is not divided.
        """
        if not self.until:
            return [(block, faults)]
        settled = _up_to(block, self.settled)
        # Tables may differ in how far they are applied between the two positions. Errors there are
        # collected but do not stop: the table may not have applied the operation.
        later = _up_to(block, self.until) & ~settled
        portions = ((settled, faults), (later, OperationErrors(stop=False)))
        return [(block.take(np.flatnonzero(one)), errors) for one, errors in portions if one.any()]

    def _add(
        self,
        split: SplitOperations,
        parts: dict[str, list[TargetOperations]],
        part: Part,
        faults: OperationErrors,
        source: Table,
    ) -> Longs:
        """Convert the operations of a block for one target table and add them, except those that it must not apply (again).

        Returns the numbers of the added operations in the split.
        """
        block, transactions = part
        wanted = self.extend(make_target_table(block.table))
        name = str(wanted)
        known = split.tables.get(name) or self.tables.get(name)
        known = KnownTable(wanted, self.done) if known is None else known
        # Positions have 20 digits, so they compare as strings.
        keep = np.ones(len(block), bool)
        if known.done:
            keep &= pc.greater(block.position, known.done).to_numpy(zero_copy_only=False)
        if known.until:
            keep &= pc.less_equal(block.position, known.until).to_numpy(zero_copy_only=False)
        if self.after:
            keep &= ~_up_to(block, self.after)
        if self.after_csn is not None:
            later = above_csn(block.csn, self.after_csn)
            keep &= pc.fill_null(later, False).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(keep)
        if not len(rows):
            return rows
        known = replace(known, table=add_missing_columns(known.table, wanted))
        split.tables[name] = known
        _add_definition(split.defined, source, block.position[rows[0]].as_py() or "")
        operations = convert_blocks(known.table, [block.take(rows)], [transactions[rows]], faults)
        joined = parts.setdefault(name, [])
        joined.append(operations)
        # A large transaction would otherwise fill the memory. Folding leaves at most three
        # operations per key.
        if self.fold_rows and sum(map(len, joined)) > self.fold_rows:
            joined[:] = [
                fold_operations(
                    join_operations([one.with_columns_of(known.table) for one in joined])
                )
            ]
        added: Longs = block.order[rows]
        return added


def _up_to(block: ChangeBlock, position: str) -> Mask:
    """Return a mask of a block's operations at or before a position."""
    mask: Mask = pc.less_equal(block.position, position).to_numpy(zero_copy_only=False)
    return mask


def _add_definition(defined: dict[str, dict[Table, str]], table: Table, first: str) -> None:
    """Record that a source table had this definition at the position ``first``, unless an earlier position is recorded."""
    positions = defined.setdefault(table.name, {})
    positions[table] = min(first, positions.get(table, first))


def join_split_operations(reads: Sequence[SplitOperations]) -> SplitOperations:
    """Join the operations of consecutive splits of a batch. All of them must use the same target tables."""
    # Each part begins where the numbers of the part before it end.
    parts: list[SplitOperations] = []
    for one in reads:
        before = parts[-1] if parts else SplitOperations()
        parts.append(one.renumber(before.rows, before.transactions))
    tables = merge_known_tables(reads)
    names = dict.fromkeys(name for part in parts for name in part.operations)
    return SplitOperations(
        operations={
            name: join_operations(
                [
                    part.operations[name].with_columns_of(tables[name].table)
                    for part in parts
                    if name in part.operations
                ]
            )
            for name in names
        },
        tables=tables,
        blocks=[block for part in parts for block in part.blocks],
        errors=reduce(lambda one, other: one | other, (part.errors for part in parts), {}),
        defined=merge_source_definitions(reads),
        rows=parts[-1].rows if parts else 0,
        transactions=parts[-1].transactions if parts else 0,
        last=next((part.last for part in reversed(parts) if part.last), None),
    )


def merge_known_tables(reads: Iterable[SplitOperations]) -> dict[str, KnownTable]:
    """Merge the target tables that readers of splits assumed, by name. A table gets the columns that any split added to it."""
    tables: dict[str, KnownTable] = {}
    for one in reads:
        for name, known in one.tables.items():
            first = tables.setdefault(name, known)
            tables[name] = replace(first, table=add_missing_columns(first.table, known.table))
    return tables


def merge_source_definitions(reads: Iterable[SplitOperations]) -> dict[str, dict[Table, str]]:
    """Merge the source definitions that the splits of a batch have read, each with the position of the first operation that uses it."""
    defined: dict[str, dict[Table, str]] = {}
    for one in reads:
        for positions in one.defined.values():
            for table, first in positions.items():
                _add_definition(defined, table, first)
    return defined


def _find_begins(batch: ChangeBatch, before: ChangeBatch | None) -> Mask:
    """Return a mask of the operations that begin a transaction. ``before`` is the split's previous batch.

    The indicator of a begin alone is not enough: the operation that has it may be on a table that is
    not read. So an operation also begins a transaction if the reader gives it another number than
    the one before, after one that ends a transaction, if the transaction's ID changes, and as the
    first one of a split, which contains complete transactions.
    """
    if not batch.rows:
        return np.zeros(0, bool)
    # Equal IDs get equal codes.
    ids = batch.in_order("tx_id").dictionary_encode(null_encoding="encode").indices.to_numpy()
    indicators = batch.tx_indicators()
    begins: Mask = mask_begins(indicators)
    begins[1:] |= (np.diff(ids) != 0) | mask_ends(indicators[:-1])
    if batch.transactions is not None:
        begins[1:] |= np.diff(batch.transactions) != 0
    begins[0] |= before is None or _is_between(before, batch)
    return begins


def _is_between(before: ChangeBatch, batch: ChangeBatch) -> bool:
    """Return whether a transaction ends between two consecutive batches of a split."""
    block, row = before.find(before.rows - 1)
    numbers = before.transactions, batch.transactions
    return bool(
        mask_ends(block.tx_ind[row : row + 1])[0]
        or _tx_id(before, before.rows - 1) != _tx_id(batch, 0)
        or (numbers[0] is not None and numbers[1] is not None and numbers[0][-1] != numbers[1][0])
    )


def _tx_id(batch: ChangeBatch, number: int) -> str | None:
    block, row = batch.find(number)
    text: str | None = None if block.tx_id is None else block.tx_id[row].as_py()
    return text
