"""Apply the operations of a Spark DataFrame to the tables of a target.

The user may have filtered or repartitioned the DataFrame, so its order is not relied on: operations
are sorted by position, exact duplicates are dropped, and every transaction must be complete. Then
they are applied as one batch, in the same way as a batch of a trail.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.column_types import ChosenColumnTypes
from trailgate.apply.effects.operation_errors import OperationErrors
from trailgate.apply.jobs.options import ApplyOptions
from trailgate.apply.jobs.reports import ApplyReport
from trailgate.apply.jobs.resolved_options import (
    ResolvedApplyOptions,
    check_option_effects,
    resolve_apply_options,
)
from trailgate.apply.jobs.split_operations import Prepare, SplitWork
from trailgate.apply.jobs.tables import TargetTables
from trailgate.apply.targets.target import check_address
from trailgate.arrays import Longs
from trailgate.columnar.rows import join_arrays
from trailgate.errors import OptionError, TransactionError, Where
from trailgate.jobs.retries import Retries, call_with_retries
from trailgate.model.changes import ChangeBatch, ChangeBlock
from trailgate.model.csns import check_csn
from trailgate.model.operations_table import to_operations
from trailgate.model.positions import long_position, short_position
from trailgate.model.table_names import TablePatterns, describe_no_match
from trailgate.model.transactions import mask_begins, mask_ends
from trailgate.storage.files.trail_files import NO_DEFINITIONS, TrailFiles
from trailgate.storage.reading.trail_definitions import TrailDefinitions, list_latest_tables
from trailgate.storage.reading.trails import check_after, check_csn_limits, csn_limit_notices

SEARCHED: Final = 64 << 20  # bytes of a trail in which tables are searched
TORN: Final = (
    "Apply complete transactions: do not filter the frame, and choose tables with the option tables"
)
EARLIER: Final = (
    "Apply the batches of a trail in order. A query that starts again needs the option skipApplied=true, "
    "which skips operations that are already applied"
)


@dataclass(frozen=True, slots=True)
class FrameApplier:
    """Applies Spark DataFrames of operations to the tables of the target ``to``.

    ``trail`` names the trail that the positions belong to, as in ``trailgate apply``.

    ``files`` is that trail, if its files are available. If a table's definition in this frame
    differs from the one at the last applied position, the target's table is changed to match, or
    the run stops.
    """

    to: str
    options: ApplyOptions
    trail: str
    skip_applied: bool = True
    files: TrailFiles | None = None

    def check(self, tables: TrailFiles) -> list[str]:
        """Check the options and the target's address before any DataFrame is applied, and return notices as sentences.

        There is a notice for each pattern that matches no table, for each chosen column type whose
        column does not exist, and for each CSN that the trail has not reached. ``tables`` is the
        trail that defines the tables, or has no files but the definitions of a definitions file.
        """
        check_address(self.to)
        check_option_effects(self.to, self.options)
        mapped = resolve_apply_options(self.options)
        types = ChosenColumnTypes.read(mapped.options.column or ())
        notices: list[str] = []
        if tables.files:
            check_csn_limits(tables, self.options.csn_limits)
            check_after(tables, self.options.after)
            notices += csn_limit_notices(tables, self.options.csn_limits)
        known = {table.name for table in tables.definitions}
        if tables.files:
            known, _ = list_latest_tables(
                tables,
                lambda found: not (types.chosen or mapped.unmatched_patterns(found)),
                SEARCHED,
            )
        notices += [
            describe_no_match(place, pattern, sorted(known), "the trail's definitions")
            for place, pattern in (mapped.unmatched_patterns(known) if known else ())
        ]
        if types.chosen:
            notices += types.unmatched(_target_columns(tables, known, mapped))
        return notices

    def apply(self, batches: Sequence[ChangeBatch]) -> ApplyReport:
        """Apply the operations of a DataFrame's batches, sorted by position.

        Retries after temporary faults of the target.

        Raises TransactionError if a transaction is incomplete or two different operations have the
        same position. Unless ``skip_applied``, raises OptionError if the batch begins at or before
        the applied position, except if it ends exactly there: it was then applied before, and is
        skipped. Also raises everything that ``trailgate.apply_trail`` raises.
        """
        batch = _sort_by_position(batches)
        if not batch.rows:
            return ApplyReport()
        _check_whole(batch)
        for name, limit in self.options.csn_limits.items():
            if limit is not None:
                check_csn(name, limit, batch.in_order("csn")[0].as_py() or "")
        return call_with_retries(partial(self._apply, batch), Retries())

    def _apply(self, batch: ChangeBatch) -> ApplyReport:
        """Apply a sorted batch of operations, which came from a DataFrame, to the target's tables, unless it was applied before."""
        mapped = resolve_apply_options(self.options)
        source = mapped.source(self.trail)
        with closing(TargetTables(self.to, mapped.options, source, mapped.mapping)) as tables:
            if self.files is not None:
                tables.look_up_definitions(TrailDefinitions(self.files).before)
            positions = batch.in_order("position")
            first, last = positions[0].as_py(), positions[-1].as_py()
            done = tables.done_before
            if last <= done:
                if last < done and not self.skip_applied:
                    raise _earlier_error(first, done)
                return ApplyReport()
            if first <= done and not self.skip_applied:
                raise _earlier_error(first, done)
            work = SplitWork(
                TrailFiles(source, (), NO_DEFINITIONS),
                tables.source,
                mapped.selection,
                tables.known,
                done,
                extend=tables.extend,
                prepare=_prepare_for(mapped),
                after_csn=self.options.after_csn,
                after=self.options.after or "",
                keep=tables.keeps_rows,
                fold_rows=None,
            )
            read = tables.read(lambda: [replace(work, tables=tables.known).read_batches([batch])])
            return tables.apply(read)


def _earlier_error(first: str, done: str) -> OptionError:
    problem = f"the batch begins at position {short_position(first)}, but the tables are already applied up to {short_position(done)}"
    return OptionError(problem, hint=EARLIER)


def _target_columns(
    trail: TrailFiles, known: Collection[str], mapped: ResolvedApplyOptions
) -> Mapping[str, Collection[str]]:
    """Return the columns of each target table, for the source tables ``known`` that the trail defines."""
    defined = {table.name: table for table in trail.definitions}
    if trail.files:
        last, found = trail.files[-1], TrailDefinitions(trail)
        end = long_position(last.number, last.size)
        defined = {name: table for name in known if (table := found.before(name, end))}
    to_targets = (lambda table: (table,)) if mapped.mapping is None else mapped.mapping.tables
    targets = [
        target for table in defined.values() if not table.guessed for target in to_targets(table)
    ]
    return {table.name: [column.name for column in table.columns] for table in targets}


def _prepare_for(mapped: ResolvedApplyOptions) -> Prepare:
    """Return a function that maps blocks of source tables to target tables, and drops tables that the option ``tables`` excludes."""
    patterns, mapped_blocks = mapped.options.tables, mapped.prepare()
    chosen = None if patterns is None else TablePatterns.of(patterns)

    def prepare(block: ChangeBlock, faults: OperationErrors) -> Sequence[ChangeBlock]:
        if chosen is not None and not chosen.fits(block.table.name):
            return ()
        return mapped_blocks(block, faults)

    return prepare


def _sort_by_position(batches: Sequence[ChangeBatch]) -> ChangeBatch:
    """Merge a DataFrame's batches of operations into one, sorted by position. Drops exact duplicates.

    Raises TransactionError if an operation has no position, or two different operations have the
    same one.
    """
    blocks = [block for batch in batches for block in batch.blocks if len(block)]
    if not blocks:
        return ChangeBatch([], 0)
    for block in blocks:
        if block.position.null_count:
            row = int(np.flatnonzero(np.asarray(block.position.is_null()))[0])
            raise TransactionError(
                "an operation has no position",
                where=Where(table=block.table.name, record=int(block.order[row])),
                hint="Apply frames of the format trail, or write the operations to a trail first",
            )
    positions = join_arrays([block.position for block in blocks])
    # Give every row its rank by position. For example, blocks with the positions [7, 3] and [5]:
    #   order = [1, 2, 0]: the rows in the order of their positions 3, 5, 7
    #   slots = [2, 0, 1]: the rank of each row
    #   The first block has the ranks [2, 0], and is sorted by them; the second block has [1].
    order = pc.sort_indices(positions).to_numpy()
    slots = np.empty(len(order), np.int64)
    slots[order] = np.arange(len(order))
    moved, start = [], 0
    for block in blocks:
        ranks = slots[start : start + len(block)]
        rows = np.argsort(ranks)
        moved.append(replace(block.take(rows), order=ranks[rows]))
        start += len(block)
    batch = ChangeBatch(moved, len(order))
    sorted_positions = positions.take(pa.array(order))
    # same[i]: rows i and i + 1 of the sorted rows have the same position.
    same = np.asarray(pc.equal(sorted_positions[1:], sorted_positions[:-1]))
    if not same.any():
        return batch
    # The second and later rows of each position. ``_check_equal`` raises unless they equal the
    # first one.
    twice = np.flatnonzero(same) + 1
    _check_equal(batch, twice)
    keep = np.ones(batch.rows, bool)
    keep[twice] = False
    return batch.where(keep)


def _check_equal(batch: ChangeBatch, twice: Longs) -> None:
    """Raise TransactionError if two different operations have the same position.

    ``twice`` are the row numbers of the operations that have the position of the row before.
    """
    # Convert only the rows to compare. ``named`` maps a row of the batch to its index among them:
    # twice = [3] keeps the rows 2 and 3, and named[2] = 0, named[3] = 1.
    keep = np.zeros(batch.rows, bool)
    keep[twice] = keep[twice - 1] = True
    named = np.cumsum(keep) - 1
    rows = to_operations(batch.where(keep)).to_pylist()
    for at in twice.tolist():
        one, other = rows[named[at - 1]], rows[named[at]]
        if one != other:
            position = short_position(one["position"])
            raise TransactionError(
                f"two different operations have the position {position}",
                where=Where(table=other["table"]),
                hint="Use a different group for each trail",
            )


def _check_whole(batch: ChangeBatch) -> None:
    """Raise TransactionError if a DataFrame's sorted operations do not form complete transactions."""
    indicators = batch.tx_indicators()
    begins, ends = mask_begins(indicators), mask_ends(indicators)
    # A row must begin a transaction exactly if it is the first, or if the row before it ends one.
    fits = np.append(True, ends[:-1]) == begins
    if fits.all() and ends[-1]:
        return
    row = int(np.argmin(fits)) if not fits.all() else batch.rows - 1
    block, at = batch.find(row)
    what = "does not begin" if not fits.all() and not begins[row] else "does not end"
    if not fits.all() and begins[row]:
        # The transaction before this row is the one that does not end.
        block, at = batch.find(row - 1)
    tx_id, position = block.tx_id[at].as_py(), short_position(block.position[at].as_py())
    raise TransactionError(
        f"the transaction {tx_id} {what} in the frame: position {position}",
        where=Where(table=block.table.name),
        hint=TORN,
    )
