"""Apply batches of operations to the tables of a target.

A batch is applied in these steps:

1. Look up the batch's tables in the target, and plan which to create, widen or extend by columns
   (``schemas``).
2. Skip operations that a table already contains, by the position that the target stores for it.
3. Reduce the rest to at most one change per key (``changes``).
4. Write the changes of each table, and commit them with the batch's last position.

If the target refuses a row and errors are discarded, the refused operation has to be found. Some
targets name all refused rows at once, and ``refused_rows`` finds their operations. Otherwise the
batch is rolled back and applied in halves, until a part of one transaction remains. Within that
transaction a binary search tries longer and shorter beginnings of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final, Protocol, runtime_checkable

import numpy as np
import pyarrow.compute as pc

from trailgate.apply.effects.append import POSITION
from trailgate.apply.effects.batch import build_key_table
from trailgate.apply.effects.collisions import CollisionPolicy
from trailgate.apply.effects.column_types import ChosenColumnTypes
from trailgate.apply.effects.faults import (
    IGNORE,
    ErrorResponses,
    OperationErrors,
)
from trailgate.apply.effects.modes import ComputeChanges
from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.replay import collect_keys
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.jobs.changes import (
    ChangeComputation,
    TableEffects,
    count_reasons,
    unapplied_mask,
)
from trailgate.apply.jobs.discards import DiscardFile, get_discard_path
from trailgate.apply.jobs.groups import (
    GroupSource,
    add_dropped_statements,
    format_map_statement,
    parse_map_target,
)
from trailgate.apply.jobs.options import ApplyOptions
from trailgate.apply.jobs.reading import (
    KnownTable,
    SplitOperations,
    join_split_operations,
    merge_known_tables,
    merge_source_definitions,
)
from trailgate.apply.jobs.refused_rows import (
    RowsRefusedError,
    build_rows_error,
    check_deferred_rows,
    find_first_refused,
    find_middle,
    find_refused_operations,
    find_refused_values,
    locate_refusal,
    slice_batch,
)
from trailgate.apply.jobs.reports import ApplyReport, TableReport
from trailgate.apply.jobs.schemas import TargetSchemas
from trailgate.apply.replicat.mapping import ReplicatMapping as MapStatements
from trailgate.apply.targets.target import (
    AppliedPosition,
    ApplyTarget,
    FindingTarget,
    RowRefusedError,
    ValuesRefusedError,
    check_mode,
    open_target,
)
from trailgate.errors import (
    ApplyError,
    OptionError,
    StorageError,
    TrailgateError,
    Where,
)
from trailgate.model.changes import ChangeBlock
from trailgate.model.positions import short_position
from trailgate.model.table_patterns import TablePatterns
from trailgate.model.tables import Table
from trailgate.storage.reading.options import above_csn

MOST_ROUNDS: Final = 8  # searches for refused rows in a batch, before it is halved
MOST_SOUGHT: Final = 1 << 20  # the largest batch, in operations, in which a refused one is searched
CHANGED_SINCE: Final = (
    "Check whether the operation is still correct, and then apply it with --force"
)


@runtime_checkable
class BoundedTarget(ApplyTarget, Protocol):
    """A target for ``verify``, which applies a trail only up to known positions to build the expected tables.

    Every table takes all operations up to ``settled`` and none after ``until``; between them
    ``bound`` decides per table. ``effects``, if set, replaces the mode's way to compute changes.
    """

    effects: ComputeChanges | None
    settled: str
    until: str

    def bound(self, table: TargetTable) -> str:
        """Return the position (20 digits) of the last operation that a table takes."""
        ...

    def discarded_rows(self, block: ChangeBlock) -> Collection[int]:
        """Return the numbers of those operations of a block that an earlier run discarded. They are not applied again."""
        ...

    def record_discarded(self, operations: TargetOperations) -> None:
        """Record the operations on a table that an earlier run discarded."""
        ...


class TargetTables:
    """The target's tables as one group applies batches to them, and the positions that they have reached.

    Raises StorageError if the group applied a different source to this target. If ``by_position``
    is False, the group's positions are not positions of a trail, so no operation is skipped by
    position.
    """

    by_position: ClassVar[bool] = True

    def __init__(
        self,
        to: str,
        options: ApplyOptions,
        source: str,
        mapping: MapStatements | None = None,
        target: ApplyTarget | None = None,
        *,
        is_absent: Callable[[str], bool] = lambda _: False,
    ) -> None:
        if options.meta and options.mode != "current":
            raise OptionError(
                f"--meta needs --mode current, and cannot be used with --mode {options.mode}"
            )
        self._options = options
        self.notices: tuple[str, ...] = ()
        self._policy = CollisionPolicy(options.on_collision)
        self._responses = ErrorResponses(options.on_error)
        if mapping is not None:
            self._responses = ErrorResponses(options.on_error, mapping.responses)
        bounded = target if isinstance(target, BoundedTarget) else None
        self._bounded = bounded
        self._types = types = ChosenColumnTypes.read(options.column or ())
        # Before the target is opened, so that a wrong mode leaves nothing to close.
        for mode in () if mapping is None else mapping.modes:
            check_mode(to, mode)
        self._target: ApplyTarget = target or open_target(to, options.group, options.mode)
        self.settled, self.until = ("", "") if bounded is None else (bounded.settled, bounded.until)
        self._schemas = TargetSchemas(
            self._target,
            options,
            mapping,
            types,
            bound=None if bounded is None else bounded.bound,
            by_position=self.by_position,
        )
        self._changes = ChangeComputation(
            self._target,
            self._schemas.modes,
            self._responses,
            mapping,
            effects=None if bounded is None else bounded.effects,
            dry_run=options.dry_run,
        )
        self._discards: DiscardFile | None = None
        self.done = self._target.position(None)
        self.source = source
        try:
            if self.done is not None and self.done.trail != source:
                self._change_source(self.done, source, to, is_absent)
        # The caller gets no object that it could close.
        except BaseException:
            self._target.close()
            raise

    def _change_source(
        self, done: AppliedPosition, source: str, to: str, is_absent: Callable[[str], bool]
    ) -> None:
        """Continue a group whose tables or MAP statements have changed. Raises StorageError if the options do not allow that."""
        options = self._options
        current, before = GroupSource.read(source), GroupSource.read(done.trail)
        joined = current.joining(before, is_absent)
        joining = None if joined is None else [format_map_statement(one) for one in joined]
        known = f"group {options.group} applies {done.trail} to this target, and this is {source}"
        where = Where(source=to)
        if joining is None:
            hint = "Use the same options as before, or another group: --group NAME"
            raise StorageError(known, where=where, hint=hint)
        if joining and self.by_position and options.changed_maps == "stop":
            at = f"position {short_position(done.position)}"
            problem = f"group {options.group} was applied up to {at}, and {', '.join(joining)} would lack what lies before it"
            hint = f"--changed-maps catch-up applies it from the trail's beginning; --changed-maps continue begins at {at}, for tables that were loaded as of it"
            raise StorageError(problem, where=where, hint=hint)
        self.done = replace(done, trail=source)
        if not self.by_position:
            return
        self.source = add_dropped_statements(source, done.trail)
        self.done = replace(done, trail=self.source)
        if joining and options.changed_maps == "catch-up":
            self._check_further(current.further(before), to)
            self.done = None  # only the position of each table counts
        elif joining:
            at = short_position(done.position)
            self.notices = (f"{', '.join(joining)}: applied from position {at} on",)
            if not options.dry_run:
                self._target.commit(self.done)

    def _check_further(self, further: Sequence[str], to: str) -> None:
        """Raise StorageError if a new MAP statement writes an existing table. The table's position would hide the statement's earlier operations."""
        for one in further:
            target = parse_map_target(one)
            for known in self._target.positions() if target else ():
                if "*" not in target and TablePatterns((target,)).fits_end(known.table):
                    at = short_position(known.position)
                    problem = f"{known.table} is applied up to position {at}, and {format_map_statement(one)} joins it"
                    hint = "Map the new source to another target table"
                    raise StorageError(problem, where=Where(source=to), hint=hint)

    def release(self) -> None:
        """Let other processes use the target until the group applies its next batch."""
        self._target.release()

    def close(self) -> None:
        """Close the group's target."""
        self._target.close()

    @property
    def known(self) -> Mapping[str, KnownTable]:
        """The tables used so far, by the names with which they would be created."""
        return dict(self._schemas.known)

    @property
    def table_positions(self) -> Mapping[str, str]:
        """The position of each table used so far, or {} if the target stores one position for all tables (``by_position``)."""
        return dict(self._schemas.positions)

    @property
    def sources(self) -> set[str]:
        """The names of the source tables whose operations this group has applied."""
        return {table.name for table in self._schemas.defined.values()}

    def unmatched_columns(self, defined: Callable[[], Collection[str]]) -> tuple[str, ...]:
        """Return one sentence for each chosen column type that had no effect. ``defined`` returns the names of tables without operations."""
        columns = {
            name: [column.name for column in one.table.columns]
            for name, one in self._schemas.known.items()
        }
        # Searching for further tables takes time, and most options name a known one.
        if not self._types.unmatched(columns):
            return ()
        positions = {one.table for one in self._target.positions()}
        return self._types.unmatched(columns, {*positions, *defined()})

    @property
    def done_before(self) -> str:
        """The position up to which tables that were not used yet contain all operations."""
        return "" if self.done is None else self.done.position

    @property
    def extend(self) -> Callable[[TargetTable], TargetTable]:
        """A function that converts a table with the source's columns to the table that its mode writes."""
        return self._schemas.extend

    def look_up_definitions(self, before: Callable[[str, str], Table | None]) -> None:
        """Set the function that returns the definition of a source table at a position."""
        self._schemas.definition_before = before

    @property
    def keeps(self) -> bool:
        """Whether the group discards operations that cannot be applied, so that their original rows must be kept."""
        return not self._responses.always_stop

    @property
    def folds(self) -> bool:
        """Whether operations may be folded before they are applied."""
        given = self._options
        overlays = self._policy.overlays or given.overlay_until is not None
        # A MAP statement of a parameter file may contain HANDLECOLLISIONS.
        may_overlay = overlays or given.params is not None
        return self._schemas.modes.usual.folds and not (self.keeps or may_overlay or given.dry_run)

    def read(self, read: Callable[[], Iterable[SplitOperations]]) -> SplitOperations:
        """Read a batch with ``read``, and join its splits.

        Reads again if a target table differs from what the splits assumed.

        Raises DefinitionError if a table of the target does not match.
        """
        # Usually this runs once. The second time the splits know the tables that were new to them.
        while True:
            reads = list(read())
            for name, one in merge_known_tables(reads).items():
                self._schemas.register(name, one.table, self.done)
            defined = self._schemas.follow_definitions(merge_source_definitions(reads))
            if all(
                self._schemas.is_current(name, one)
                for read in reads
                for name, one in read.tables.items()
            ):
                failed = next((read.failed for read in reads if read.failed is not None), None)
                if failed is not None:
                    raise failed
                self._schemas.defined = defined
                joined = join_split_operations(reads)
                return replace(
                    joined,
                    operations={
                        name: operations.on(self._schemas.known[name].table)
                        for name, operations in joined.operations.items()
                    },
                )

    def check_unchanged(self, batch: SplitOperations) -> None:
        """Raise ApplyError if the current row of an operation was written by a later operation, or has no position."""
        for name, operations in batch.operations.items():
            if self._schemas.is_new(name):
                continue
            keys = collect_keys(operations)
            rows = self._target.rows(
                operations.table, build_key_table(operations.table, keys), keys_alone=False
            )
            names = operations.table.key_names
            written = {
                tuple(row[one] for one in names): row.get(POSITION) for row in rows.to_pylist()
            }
            # Each tuple has the new key, and then the old key, which differs in a key update.
            images = zip(
                *(column.to_pylist() for column in (*operations.key, *operations.old_key)),
                strict=True,
            )
            for number, both in enumerate(images):
                existing = [
                    one for one in (both[: len(names)], both[len(names) :]) if one in written
                ]
                position = operations.position[number].as_py()
                late = next(
                    (
                        one
                        for one in existing
                        if position is None or _is_after(written[one], position)
                    ),
                    None,
                )
                if late is not None:
                    at = written[late]
                    since = (
                        "nothing states when" if at is None else f"position {short_position(at)}"
                    )
                    problem = f"the row of {operations.shown_key(number)} may have been changed since: {since}"
                    where = Where(
                        source=None if position is None else operations.place(number), table=name
                    )
                    raise ApplyError(problem, where=where, hint=CHANGED_SINCE)

    def apply(self, batch: SplitOperations) -> ApplyReport:
        """Apply a batch of complete transactions. At the CSN ``overlay_until`` it is divided, because collisions are handled differently after it."""
        policy = self._policy
        if self._options.overlay_until is None:
            return self._apply_parts(batch, policy)
        early, late = _split_at_csn(batch, self._options.overlay_until)
        done = ApplyReport()
        for part, collisions in ((early, CollisionPolicy.OVERLAY), (late, policy)):
            if part is not None:
                done += self._apply_parts(part, collisions)
        return replace(done, batches=1)

    def store(self, position: AppliedPosition) -> None:
        """Store a position for all tables of the group without writing rows."""
        self._target.commit(position)
        self.done = position

    def _apply_parts(
        self, batch: SplitOperations, policy: CollisionPolicy, rounds: int = MOST_ROUNDS
    ) -> ApplyReport:
        """Apply a batch, and find the operations whose rows the target refuses.

        If the error names the refused values or rows, their operations are excluded directly. Each
        round finds the first refused operation of each row. After ``rounds`` of them, and if the
        error names no row, the batch is applied in two halves, recursively.
        """
        try:
            return self._apply(batch, policy)
        except RowRefusedError as error:
            if self._responses.stops(error):
                raise self._locate_refusal(batch, policy, error) from None
            refusal = error
        if isinstance(refusal, ValuesRefusedError) and (
            by_value := find_refused_values(batch, refusal)
        ):
            return self._apply_parts(replace(batch, errors={**batch.errors, **by_value}), policy)
        if isinstance(refusal, RowsRefusedError) and rounds:
            tried = self._changes.without_excluded(batch)
            retry = partial(self._try_write, policy=policy, find=True)
            if by_row := find_refused_operations(tried, refusal, retry):
                without = replace(batch, errors={**batch.errors, **by_row})
                return self._apply_parts(without, policy, rounds - 1)
        # Halves are applied one after the other, since the second may depend on rows of the first.
        middle = find_middle(batch)
        if middle is not None:
            parts = slice_batch(batch, 0, middle), slice_batch(batch, middle, batch.rows)
            done = ApplyReport()
            for part in parts:
                if part is not None:
                    done += self._apply_parts(part, policy)
            return replace(done, batches=1)
        refused = find_first_refused(batch, refusal, partial(self._try_write, policy=policy))
        return self._apply_parts(replace(batch, errors={**batch.errors, **refused}), policy)

    def _locate_refusal(
        self, batch: SplitOperations, policy: CollisionPolicy, refusal: RowRefusedError
    ) -> TrailgateError:
        """Add the position, table and key of the refused operation to an error. Finds it by trying parts of the batch."""
        if batch.rows > MOST_SOUGHT:
            return refusal
        refused = find_first_refused(batch, refusal, partial(self._try_write, policy=policy))
        if len(refused) != 1:
            return refusal
        ((number, error),) = refused.items()
        return locate_refusal(batch, number, error)

    def _try_write(
        self, batch: SplitOperations, policy: CollisionPolicy, *, find: bool = False
    ) -> RowRefusedError | None:
        """Write operations, roll them back, and return the error if the target refused them.

        With ``find`` deferred constraints are checked too, and the error names all refused rows if
        the target can find them.
        """
        state = self._schemas.state()
        try:
            with self._rollback_on_error():
                self._write(batch, policy, find=find)
        except RowRefusedError as error:
            return error
        self._target.rollback()
        self._schemas.restore(*state)
        return None

    def _apply(self, batch: SplitOperations, policy: CollisionPolicy) -> ApplyReport:
        """Write a batch and commit it."""
        end = batch.last
        assert end is not None
        batch = self._without_discarded(batch)
        with self._rollback_on_error():
            report, faults, excluded = self._write(batch, policy, discards=True, find=self.keeps)
            if not self._options.dry_run:
                self._discard(batch, faults, excluded)
                self._target.commit(end)
        self.done = end
        return report

    def _without_discarded(self, batch: SplitOperations) -> SplitOperations:
        """Remove operations that were already discarded: by a killed run, or before a comparison.

        If a killed run had committed some tables of its batch, their operations are skipped now. An
        error that depended on them, such as one that discarded a transaction across several tables,
        would not occur again. So the discard file decides.
        """
        discarded = {n for block, _ in batch.blocks for n in self._discarded_before(block)}
        if not discarded:
            return batch
        if self._bounded is not None:
            for table_operations in batch.operations.values():
                self._bounded.record_discarded(
                    table_operations.take(
                        np.flatnonzero(np.isin(table_operations.order, list(discarded)))
                    )
                )
        operations = {
            name: table_operations.without(discarded)
            for name, table_operations in batch.operations.items()
        }
        return replace(batch, operations=operations)

    def _discarded_before(self, block: ChangeBlock) -> Collection[int]:
        """Return the numbers of a block's operations that were discarded before."""
        if self._bounded is not None:
            return self._bounded.discarded_rows(block)
        # If any table is ahead of the position of all tables, a run was killed after it had committed
        # some tables. It had written the discard file before.
        positions, known = self._schemas.positions, self._schemas.known
        done = positions or {name: one.done for name, one in known.items()}
        ahead = max(done.values(), default="")
        if not (self._target.commits_alone and ahead > self.done_before):
            return ()
        return self._discard_file().find_listed(_up_to(block, ahead) if self.by_position else block)

    @contextmanager
    def _rollback_on_error(self) -> Iterator[None]:
        """Roll back if an error is raised. Tables are then looked up again, unless a row was refused."""
        state = self._schemas.state()
        try:
            yield
        except BaseException as error:
            self._target.rollback()
            refused = isinstance(error, RowRefusedError)
            self._schemas.restore(*(state if refused else ({}, {})))
            raise

    def _write(
        self,
        batch: SplitOperations,
        policy: CollisionPolicy,
        *,
        discards: bool = False,
        find: bool = False,
    ) -> tuple[ApplyReport, OperationErrors, frozenset[int]]:
        """Write the changes of a batch. Return the report, the operations that cannot be applied, and the excluded transactions.

        With ``discards`` these operations go to the discard file first, if the target commits each
        table by itself. With ``find`` an error about a row names all refused rows, if the target can
        find them.
        """
        assert batch.last is not None
        if not self._options.dry_run:
            self._schemas.change_tables()
        effects, faults, excluded = self._changes.compute(batch, policy)
        reports = {name: report for name, _, report in effects}
        if not self._options.dry_run:
            # A target that commits each table by itself may be killed after the first of them, so the
            # discarded operations must be on the disk before it.
            if discards and self._target.commits_alone:
                self._discard(batch, faults, excluded)
            self._write_tables(effects, batch.last, find=find)
            for operations in batch.operations.values():
                discarded = unapplied_mask(
                    operations.order, operations.transaction, faults, excluded
                )
                if discarded.any():
                    name = str(operations.table)
                    report = reports.get(name, TableReport())
                    reports[name] = replace(
                        report, discarded=int(operations.weight[discarded].sum())
                    )
        reasons = count_reasons(batch, faults, excluded)
        return ApplyReport(reports, 1, batch.last, reasons), faults, excluded

    def _write_tables(
        self, effects: Sequence[TableEffects], last: AppliedPosition, *, find: bool
    ) -> None:
        """Write the changes of each table, up to the position ``last``."""
        finding = self._target if find and isinstance(self._target, FindingTarget) else None
        for number, (_, steps, _) in enumerate(effects):
            for one in steps:
                # A step before the last one is committed with its own position. If the run is
                # killed then, the table continues after that step.
                at = last
                if one is not steps[-1]:
                    at = AppliedPosition(at.trail, one.at, op_ts=at.op_ts)
                try:
                    self._target.write(one, at)
                except RowRefusedError as error:
                    if finding is None or isinstance(error, ValuesRefusedError):
                        raise
                    rows = finding.find_refused_rows(one)
                    table = one.nets.table
                    raise build_rows_error(error, table, rows, effects, number) from None
        if finding is not None:
            check_deferred_rows(finding, effects)

    def _discard(
        self, batch: SplitOperations, faults: OperationErrors, excluded: frozenset[int]
    ) -> None:
        """Write the operations that are not applied to the discard file, except ignored ones."""
        ignored = self._changes.with_response(faults.errors, IGNORE)
        if len(ignored) == len(faults.errors):
            return
        file = self._discard_file()
        for block, transactions in batch.blocks:
            unapplied = unapplied_mask(block.order, transactions, faults, excluded)
            # Ignored operations get no line, unless their whole transaction is discarded.
            kept = np.isin(block.order, ignored) & ~np.isin(transactions, list(excluded))
            rows = np.flatnonzero(unapplied & ~kept)
            if len(rows):
                file.add(block.take(rows), faults.errors)
        file.flush()

    def _discard_file(self) -> DiscardFile:
        if self._discards is None:
            self._discards = DiscardFile(get_discard_path(self._options))
        return self._discards


def _up_to(block: ChangeBlock, position: str) -> ChangeBlock:
    """Return the operations of a block at or before a position."""
    early = pc.less_equal(block.position, position).fill_null(False)
    return block.take(np.flatnonzero(early.to_numpy(zero_copy_only=False)))


def _is_after(written: str | None, position: str) -> bool:
    """Return whether a row was written after a position, or has no position."""
    return written is None or written > position


def _split_at_csn(
    batch: SplitOperations, csn: str
) -> tuple[SplitOperations | None, SplitOperations | None]:
    """Split a batch before the first transaction with a CSN after ``csn``."""
    later = [
        operations.order[
            above_csn(operations.csn, csn).fill_null(False).to_numpy(zero_copy_only=False)
        ]
        for operations in batch.operations.values()
    ]
    first = min((int(order.min()) for order in later if len(order)), default=None)
    if first is None:
        return batch, None
    return slice_batch(batch, 0, first), slice_batch(batch, first, batch.rows)
