"""Operations of a frame, in whatever order its rows come, applied to the tables of a target.

A user may have filtered or repartitioned the frame, so its order and the bounds of its transactions are checked, and not trusted: operations are put in the order of their positions, and each
transaction must be whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.column_types import ChosenColumnTypes
from trailgate.apply.effects.faults import OperationErrors
from trailgate.apply.effects.operations import join_arrays
from trailgate.apply.jobs.options import ApplyOptions
from trailgate.apply.jobs.parameters import MappedOptions, mapped_options
from trailgate.apply.jobs.reading import Prepare, SplitWork
from trailgate.apply.jobs.retries import Retries, retried
from trailgate.apply.jobs.tables import ApplyReport, TargetTables
from trailgate.apply.targets.target import check_address
from trailgate.arrays import Longs
from trailgate.columnar.digits import short_position
from trailgate.errors import OptionError, TransactionError, Where
from trailgate.model.changes import ChangeBatch, ChangeBlock
from trailgate.model.operations_table import to_operations
from trailgate.model.table_patterns import TablePatterns, describe_no_match
from trailgate.model.transactions import mask_begins, mask_ends
from trailgate.storage.files.trail_files import NO_DEFINITIONS, TrailFiles
from trailgate.storage.reading.trail_definitions import TrailDefinitions
from trailgate.storage.reading.trail_file import latest_tables

SEARCHED: Final = 64 << 20  # bytes of a trail in which tables are looked for
TORN: Final = "Apply whole transactions: filter the frame by none of its columns, and name tables by the option tables"
EARLIER: Final = (
    "Apply the batches of one trail in their order; a query that begins anew takes the option skipApplied=true, "
    "by which operations that the tables have are left out"
)


@dataclass(frozen=True, slots=True)
class FrameOperations:
    """How the operations of frames are applied. ``trail`` is what positions are those of, as ``trailgate apply`` names it.

    ``files`` is this trail, if it is known: a table that it defines in another way than where the last frame ended stops the run, or is followed.
    """

    to: str
    options: ApplyOptions
    trail: str
    skip_applied: bool = True
    files: TrailFiles | None = None

    def check(self, tables: TrailFiles) -> list[str]:
        """Return a sentence for each pattern that no table of a trail fits; raises what is wrong with the target's address and the options, before anything is read."""
        check_address(self.to)
        mapped = mapped_options(self.options)
        ChosenColumnTypes.read(mapped.options.column or ())
        known = {table.name for table in tables.definitions}
        if tables.files:
            known, _ = latest_tables(tables, lambda found: not mapped.unmatched(found), SEARCHED)
        return [
            describe_no_match(place, pattern, sorted(known), "the trail's definitions")
            for place, pattern in (mapped.unmatched(known) if known else ())
        ]

    def apply(self, batches: Sequence[ChangeBatch]) -> ApplyReport:
        """Apply the operations of batches, in the order of their positions. A fault of the target that may pass is waited for.

        Raises TransactionError where a transaction is not whole, or two operations have one position; OptionError where a batch begins before what was applied, unless these are left out;
        and what ``trailgate.apply_trail`` raises.
        """
        batch = _by_position(batches)
        if not batch.rows:
            return ApplyReport()
        _check_whole(batch)
        return retried(partial(self._apply, batch), Retries())

    def _apply(self, batch: ChangeBatch) -> ApplyReport:
        mapped = mapped_options(self.options)
        source = mapped.source(self.trail)
        with closing(TargetTables(self.to, mapped.options, source, mapped.mapping)) as tables:
            if self.files is not None:
                tables.definition_before = TrailDefinitions(self.files).before
            positions = batch.in_order("position")
            first, last = positions[0].as_py(), positions[-1].as_py()
            done = tables.done_before
            if last <= done:
                if last < done and not self.skip_applied:
                    raise _earlier(first, done)
                return ApplyReport()
            if first <= done and not self.skip_applied:
                raise _earlier(first, done)
            work = SplitWork(
                TrailFiles(source, (), NO_DEFINITIONS),
                tables.source,
                mapped.wanted,
                tables.known,
                done,
                extend=tables.extend,
                prepare=_of_tables(mapped),
                after_csn=self.options.after_csn,
                keep=tables.keeps,
                fold_rows=None,
            )
            read = tables.read(lambda: [replace(work, tables=tables.known).read_batches([batch])])
            return tables.apply(read)


def _earlier(first: str, done: str) -> OptionError:
    problem = f"the batch begins at position {short_position(first)}, and the tables are applied up to {short_position(done)}"
    return OptionError(problem, hint=EARLIER)


def _of_tables(mapped: MappedOptions) -> Prepare:
    """Return what makes operations of source tables those of target tables, of the tables that are wanted."""
    patterns, mapped_blocks = mapped.options.tables, mapped.prepare()
    chosen = None if patterns is None else TablePatterns.read(",".join(patterns))

    def prepare(block: ChangeBlock, faults: OperationErrors) -> Sequence[ChangeBlock]:
        if chosen is not None and not chosen.fits(block.table.name):
            return ()
        return mapped_blocks(block, faults)

    return prepare


def _by_position(batches: Sequence[ChangeBatch]) -> ChangeBatch:
    """Return the operations of batches as one, in the order of their positions; one that is there twice counts once."""
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
    order = pc.sort_indices(positions).to_numpy()
    slots = np.empty(len(order), np.int64)
    slots[order] = np.arange(len(order))
    moved, start = [], 0
    for block in blocks:
        own = slots[start : start + len(block)]
        rows = np.argsort(own)
        moved.append(replace(block.take(rows), order=own[rows]))
        start += len(block)
    batch = ChangeBatch(moved, len(order))
    sorted_positions = positions.take(pa.array(order))
    same = np.asarray(pc.equal(sorted_positions[1:], sorted_positions[:-1]))
    if not same.any():
        return batch
    twice = np.flatnonzero(same) + 1
    _check_equal(batch, twice)
    keep = np.ones(batch.rows, bool)
    keep[twice] = False
    return batch.where(keep)


def _check_equal(batch: ChangeBatch, twice: Longs) -> None:
    """Raise TransactionError where operations at one position are not the same."""
    keep = np.zeros(batch.rows, bool)
    keep[twice] = keep[twice - 1] = True
    named = np.cumsum(keep) - 1
    rows = to_operations(batch.where(keep)).to_pylist()
    for at in twice.tolist():
        one, other = rows[named[at - 1]], rows[named[at]]
        if one != other:
            place = short_position(one["position"])
            raise TransactionError(
                f"two operations have the position {place}",
                where=Where(table=other["table"]),
                hint="Apply each trail by a group of its own",
            )


def _check_whole(batch: ChangeBatch) -> None:
    """Raise TransactionError where the operations are not those of whole transactions."""
    indicators = batch.tx_indicators()
    begins, ends = mask_begins(indicators), mask_ends(indicators)
    fits = np.append(True, ends[:-1]) == begins
    if fits.all() and ends[-1]:
        return
    row = int(np.argmin(fits)) if not fits.all() else batch.rows - 1
    block, at = batch.find(row)
    what = "does not begin" if not fits.all() and not begins[row] else "does not end"
    if not fits.all() and begins[row]:
        block, at = batch.find(row - 1)
    tx_id, place = block.tx_id[at].as_py(), short_position(block.position[at].as_py())
    raise TransactionError(
        f"the transaction {tx_id} {what} in the frame: position {place}",
        where=Where(table=block.table.name),
        hint=TORN,
    )
