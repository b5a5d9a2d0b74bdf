"""Write batches of operations to the tables of a target.

If the target rejects a row and errors are discarded, the rejected operation has to be found. Some
targets name all rejected rows at once, and ``refused_rows`` finds their operations. Otherwise the
batch is rolled back and applied in halves, until a part of one transaction remains. Within that
transaction, a binary search over the number of operations finds the first one with which the target
rejects the row.

Discarded operations are written to the discard file before the target commits. If a run is killed
in between, the next run finds them in the file and discards them again, whatever else its batch
contains.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol, runtime_checkable

import numpy as np

from trailgate.apply.effects.collisions import CollisionPolicy
from trailgate.apply.effects.exclusions import count_unapplied, unapplied_mask
from trailgate.apply.effects.modes import ComputeChanges
from trailgate.apply.effects.operation_errors import (
    IGNORE,
    DiscardedBeforeError,
    OperationErrors,
)
from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.jobs.changes import ChangeComputation, TableEffects
from trailgate.apply.jobs.discards import DiscardFile, get_discard_path
from trailgate.apply.jobs.options import ApplyOptions
from trailgate.apply.jobs.refused_rows import (
    RowsRefusedError,
    build_rows_error,
    find_first_refused,
    find_middle_transaction,
    find_refused_operations,
    find_refused_values,
    locate_refusal,
    refuse_deferred_rows,
    refuse_unfit_rows,
)
from trailgate.apply.jobs.reports import ApplyReport, TableReport
from trailgate.apply.jobs.schemas import TargetSchemas
from trailgate.apply.jobs.split_operations import SplitOperations
from trailgate.apply.targets.target import (
    AppliedPosition,
    ApplyTarget,
    FindingTarget,
    RowCheckingTarget,
    RowRefusedError,
    ValuesRefusedError,
)
from trailgate.errors import TrailgateError
from trailgate.model.changes import ChangeBlock

LISTED: Final = "already in the discard file (apply the file with --from, or remove it)"
MOST_ROUNDS: Final = 8  # searches for refused rows in a batch, before it is halved
MOST_SOUGHT: Final = 1 << 20  # the largest batch, in operations, in which a refused one is searched


@runtime_checkable
class BoundedTarget(ApplyTarget, Protocol):
    """A target for ``verify``, which applies a trail only up to known positions to build the expected tables.

    Operations up to ``settled`` are applied to every table, and operations after ``until`` to none;
    between them ``bound`` decides per table. If ``effects`` is set, it is used instead of the
    mode's function to compute changes.
    """

    effects: ComputeChanges | None
    settled: str
    until: str

    def bound(self, table: TargetTable) -> str:
        """Return the position (20 digits) of the last operation to apply to a table."""
        ...

    def discarded_rows(self, block: ChangeBlock) -> Collection[int]:
        """Return the numbers of a block's operations that an earlier run discarded.

        They are not applied again.
        """
        ...

    def record_discarded(self, operations: TargetOperations) -> None:
        """Record operations on a target table that an earlier run discarded."""
        ...


@dataclass(slots=True)
class BatchWriter:
    """Writes batches to the tables of a target, and commits each with its last position (``done``).

    ``bounded`` is the target itself if it is a ``BoundedTarget``, otherwise None. Such a target
    decides which operations were discarded before.
    """

    target: ApplyTarget
    schemas: TargetSchemas
    changes: ChangeComputation
    options: ApplyOptions
    bounded: BoundedTarget | None
    done: AppliedPosition | None
    _discards: DiscardFile | None = field(default=None, init=False)

    @property
    def done_before(self) -> str:
        """The position of the last committed batch (20 digits), or "" if there is none."""
        return "" if self.done is None else self.done.position

    @property
    def keeps_rows(self) -> bool:
        """Whether operations that cannot be applied are discarded, so that their original rows must be kept."""
        return not self.changes.responses.always_stop

    def apply(
        self, batch: SplitOperations, policy: CollisionPolicy, rounds: int = MOST_ROUNDS
    ) -> ApplyReport:
        """Apply a batch, and find the operations whose rows the target rejects.

        If the error names the rejected values or rows, their operations are excluded directly. Each
        round finds the first rejected operation of each row. After ``rounds`` rounds, or if the
        error names no row, the batch is applied in two halves, recursively.
        """
        batch = self._mark_discarded(batch)
        try:
            return self._apply(batch, policy)
        except RowRefusedError as error:
            if self.changes.responses.stops(error):
                raise self._locate_refusal(batch, policy, error) from None
            refusal = error
        if isinstance(refusal, ValuesRefusedError) and (
            by_value := find_refused_values(batch, refusal)
        ):
            return self.apply(replace(batch, errors={**batch.errors, **by_value}), policy)
        if isinstance(refusal, RowsRefusedError) and rounds:
            tried = self.changes.without_excluded(batch)
            retry = partial(self._try_write, policy=policy, find=True)
            if by_row := find_refused_operations(tried, refusal, retry):
                without = replace(batch, errors={**batch.errors, **by_row})
                return self.apply(without, policy, rounds - 1)
        # Halves are applied one after the other, since the second may depend on rows of the first.
        middle = find_middle_transaction(batch)
        if middle is not None:
            parts = batch.between(0, middle), batch.between(middle, batch.rows)
            done = ApplyReport()
            for part in parts:
                if part is not None:
                    done += self.apply(part, policy)
            return replace(done, batches=1)
        refused = find_first_refused(batch, refusal, partial(self._try_write, policy=policy))
        return self.apply(replace(batch, errors={**batch.errors, **refused}), policy)

    def _locate_refusal(
        self, batch: SplitOperations, policy: CollisionPolicy, refusal: RowRefusedError
    ) -> TrailgateError:
        """Find the operation that the target rejects, and add its position, table and key to the error.

        If the error does not name the rejected rows, the operation is found by writing parts of the
        batch, which are rolled back. A very large batch is not searched, and the error is returned
        unchanged.
        """
        found: Mapping[int, TrailgateError] = {
            number: error for number, error in batch.errors.items() if error is refusal
        }
        if not found and isinstance(refusal, RowsRefusedError):
            retry = partial(self._try_write, policy=policy, find=True)
            tried = self.changes.without_excluded(batch)
            found = find_refused_operations(tried, refusal, retry)
        if not found and batch.rows <= MOST_SOUGHT:
            found = find_first_refused(batch, refusal, partial(self._try_write, policy=policy))
            found = found if len(found) == 1 else {}
        if not found:
            return refusal
        number = min(found)
        return locate_refusal(batch, number, found[number])

    def _try_write(
        self, batch: SplitOperations, policy: CollisionPolicy, *, find: bool = False
    ) -> RowRefusedError | None:
        """Write a part of a batch, roll it back, and return the error if the target rejected a row.

        A target that checks rows before it writes (``RowCheckingTarget``) only checks them. With
        ``find``, deferred constraints are checked too, and the error names all rejected rows if the
        target can find them.
        """
        state = self.schemas.state()
        try:
            with self._rollback_on_error():
                self._write(batch, policy, find=find, is_trial=True)
        except RowRefusedError as error:
            return error
        self.target.rollback()
        if not self.target.commits_alone:
            self.schemas.restore(*state)
        return None

    def _apply(self, batch: SplitOperations, policy: CollisionPolicy) -> ApplyReport:
        """Write a batch to the target and commit it with its last position. In a dry run, write nothing."""
        end = batch.last
        assert end is not None
        with self._rollback_on_error():
            report, faults, excluded = self._write(
                batch, policy, discards=True, find=self.keeps_rows
            )
            if not self.options.dry_run:
                self._discard(batch, faults, excluded)
                self.target.commit(end)
        self.done = end
        return report

    def _mark_discarded(self, batch: SplitOperations) -> SplitOperations:
        """Return a batch whose operations are not applied if an earlier run discarded them: a killed run, or one that is verified.

        A killed run has written its lines before it committed anything. The same operations might
        be accepted now: together with later operations on their rows that the trail has gained, or
        because errors that they depended on do not occur again in tables that were committed. Each
        operation has to be in the table or in the file, and not in both. So the ones in the file get
        an error (decision 0173).
        """
        if self.bounded is not None:
            return self._without_discarded(batch, self.bounded)
        if not self.keeps_rows:
            return batch
        listed = [number for block, _ in batch.blocks for number in self._find_listed(block)]
        if not listed:
            return batch
        error = DiscardedBeforeError(LISTED)
        # A line may be the only one of its transaction that the killed run has written.
        error.excludes_transaction = self.changes.responses.always_exclude_transactions
        return replace(batch, errors={**batch.errors, **dict.fromkeys(listed, error)})

    def _without_discarded(self, batch: SplitOperations, target: BoundedTarget) -> SplitOperations:
        """Return a batch without the operations that the verified run discarded, and record them."""
        discarded = {n for block, _ in batch.blocks for n in target.discarded_rows(block)}
        if not discarded:
            return batch
        operations = {}
        for name, one in batch.operations.items():
            rows = np.flatnonzero(np.isin(one.order, list(discarded)))
            target.record_discarded(one.take(rows))
            operations[name] = one.without(discarded)
        return replace(batch, operations=operations)

    def _find_listed(self, block: ChangeBlock) -> Collection[int]:
        """Return the numbers of a block's operations that are in the discard file, in lines of a run that was killed before it committed them."""
        if not self.schemas.by_position:
            # Repaired operations may have failed before, in a run that was committed. Only a table
            # that is ahead shows that a run was killed.
            ahead = max(self.schemas.positions.values(), default="")
            if not (self.target.commits_alone and ahead > self.done_before):
                return ()
        return self._discard_file().find_listed(block)

    @contextmanager
    def _rollback_on_error(self) -> Iterator[None]:
        """Context manager: roll the target back if an error is raised.

        After a rejected row the known tables are as before, except that a target whose tables are
        committed separately keeps those that were created. After any other error they are looked up
        again.
        """
        state = self.schemas.state()
        try:
            yield
        except BaseException as error:
            self.target.rollback()
            if not isinstance(error, RowRefusedError):
                self.schemas.restore({}, {})
            elif not self.target.commits_alone:
                self.schemas.restore(*state)
            raise

    def _write(
        self,
        batch: SplitOperations,
        policy: CollisionPolicy,
        *,
        discards: bool = False,
        find: bool = False,
        is_trial: bool = False,
    ) -> tuple[ApplyReport, OperationErrors, frozenset[int]]:
        """Compute the changes of a batch and write them to the target, without a commit of the batch.

        Returns the report, the errors of the operations that cannot be applied, and the numbers of
        the excluded transactions.

        With ``discards``, these operations are written to the discard file first, if the target
        commits each table separately. With ``find``, an error about a row names all rejected rows,
        if the target can find them. With ``is_trial``, nothing is written to a target that checks
        the rows before it writes.
        """
        assert batch.last is not None
        if not self.options.dry_run:
            self.schemas.change_tables()
        effects, faults, excluded = self.changes.compute(batch, policy)
        reports = {name: report for name, _, report in effects}
        writes = not self.options.dry_run
        if writes and isinstance(self.target, RowCheckingTarget):
            refuse_unfit_rows(self.target, effects)
            writes = not is_trial
        if writes:
            # A target that commits each table by itself may be killed after the first of them, so the
            # discarded operations must be on the disk before it.
            if discards and self.target.commits_alone:
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
        reasons = count_unapplied(batch.blocks, faults, excluded)
        return ApplyReport(reports, 1, batch.last, reasons), faults, excluded

    def _write_tables(
        self, effects: Sequence[TableEffects], last: AppliedPosition, *, find: bool
    ) -> None:
        """Write the changes of each table to the target. ``last`` is the position of the batch's last operation."""
        finding = self.target if find and isinstance(self.target, FindingTarget) else None
        for number, (_, steps, _) in enumerate(effects):
            for one in steps:
                # A step before the last one is committed with its own position. If the run is
                # killed then, the table continues after that step.
                at = last
                if one is not steps[-1]:
                    at = AppliedPosition(at.trail, one.at, op_ts=at.op_ts)
                try:
                    self.target.write(one, at)
                except RowRefusedError as error:
                    if finding is None or isinstance(error, ValuesRefusedError):
                        raise
                    rows = finding.find_refused_rows(one)
                    table = one.nets.table
                    raise build_rows_error(error, table, rows, effects, number) from None
        if finding is not None:
            refuse_deferred_rows(finding, effects)

    def _discard(
        self, batch: SplitOperations, faults: OperationErrors, excluded: frozenset[int]
    ) -> None:
        """Append the operations of a batch that are not applied to the discard file, except ignored operations."""
        ignored = self.changes.with_response(faults.errors, IGNORE)
        if len(ignored) == len(faults.errors):
            if self._discards is not None:
                self._discards.flush()
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
        """Open the discard file when it is first used. Only lines after the position of the last batch can be needed."""
        if self._discards is None:
            after = self.done_before if self.schemas.by_position else ""
            self._discards = DiscardFile(get_discard_path(self.options), after=after)
        return self._discards
