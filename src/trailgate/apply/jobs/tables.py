"""Apply batches of operations to the tables of a target.

A batch is applied in these steps:

1. Look up the batch's tables in the target, and plan which to create, widen or extend by columns
   (``schemas``).
2. Skip operations that a table already contains, by the position that the target stores for it.
3. Reduce the rest to at most one change per key (``changes``).
4. Write the changes of each table, and commit them with the batch's last position.

``writing`` does the last two steps, and finds the operations whose rows the target refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from trailgate.apply.effects.collisions import CollisionPolicy
from trailgate.apply.effects.column_types import ChosenColumnTypes
from trailgate.apply.effects.meta_columns import POSITION
from trailgate.apply.effects.operation_errors import (
    ErrorResponses,
)
from trailgate.apply.effects.row_keys import build_key_table, collect_keys, key_tuples
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.jobs.changes import (
    ChangeComputation,
)
from trailgate.apply.jobs.group_sources import (
    GroupSource,
    add_dropped_statements,
    find_map_target,
    format_map_statement,
)
from trailgate.apply.jobs.options import ApplyOptions
from trailgate.apply.jobs.reports import ApplyReport
from trailgate.apply.jobs.schemas import TargetSchemas
from trailgate.apply.jobs.split_operations import (
    KnownTable,
    SplitOperations,
    join_split_operations,
    merge_known_tables,
    merge_source_definitions,
)
from trailgate.apply.jobs.writing import BatchWriter, BoundedTarget
from trailgate.apply.replicat.mapping import ReplicatMapping as MapStatements
from trailgate.apply.targets.target import (
    AppliedPosition,
    ApplyTarget,
    check_mode,
    open_target,
)
from trailgate.errors import (
    ApplyError,
    OptionError,
    StorageError,
    Where,
)
from trailgate.model.csns import above_csn
from trailgate.model.positions import short_position
from trailgate.model.table_names import TablePatterns
from trailgate.model.tables import Table

CHANGED_SINCE: Final = (
    "Check whether the operation is still correct, and then apply it with --force"
)


class TargetTables:
    """Applies batches of one group to the tables of a target, and knows the positions up to which they are applied.

    Opening it raises StorageError if the group applied a different source to this target. If
    ``by_position`` is False, the group's positions are not positions in a trail, so no operation is
    skipped by position.
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
        responses = ErrorResponses(options.on_error)
        if mapping is not None:
            responses = ErrorResponses(options.on_error, mapping.responses)
        bounded = target if isinstance(target, BoundedTarget) else None
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
        changes = ChangeComputation(
            self._target,
            self._schemas.modes,
            responses,
            mapping,
            effects=None if bounded is None else bounded.effects,
            dry_run=options.dry_run,
        )
        done = self._target.position(None)
        self.source = source
        try:
            if done is not None and done.trail != source:
                done = self._change_source(done, source, to, is_absent)
        # The caller gets no object that it could close.
        except BaseException:
            self._target.close()
            raise
        self._writer = BatchWriter(
            target=self._target,
            schemas=self._schemas,
            changes=changes,
            options=options,
            bounded=bounded,
            done=done,
        )

    def _change_source(
        self, done: AppliedPosition, source: str, to: str, is_absent: Callable[[str], bool]
    ) -> AppliedPosition | None:
        """Check whether a group may continue although its tables or MAP statements have changed.

        Returns the position to continue at. Returns None if the trail has to be read from its
        beginning (``changed_maps`` is "catch-up"); then the position of each table decides which
        operations it still needs. Raises StorageError if the options do not allow the change.
        """
        options = self._options
        current, before = GroupSource.read(source), GroupSource.read(done.trail)
        joined = current.joining(before, is_absent)
        joining = None if joined is None else [format_map_statement(one) for one in joined]
        known = f"group {options.group} already applies {done.trail} to this target, but this run would apply {source}"
        where = Where(source=to)
        if joining is None:
            hint = "Use the same options as before, or another group: --group NAME"
            raise StorageError(known, where=where, hint=hint)
        if joining and self.by_position and options.changed_maps == "stop":
            at = f"position {short_position(done.position)}"
            problem = f"group {options.group} was applied up to {at}, so {', '.join(joining)} would lack the earlier operations"
            hint = f"--changed-maps catch-up applies them from the trail's beginning; --changed-maps continue begins at {at}, for tables that were loaded as of that position"
            raise StorageError(problem, where=where, hint=hint)
        if not self.by_position:
            return replace(done, trail=source)
        self.source = add_dropped_statements(source, done.trail)
        changed = replace(done, trail=self.source)
        if joining and options.changed_maps == "catch-up":
            self._check_new_statements(current.find_new_statements(before), to)
            return None  # only the position of each table counts
        if joining:
            at = short_position(done.position)
            self.notices = (f"{', '.join(joining)}: applied from position {at} on",)
            if not options.dry_run:
                self._target.commit(changed)
        return changed

    def _check_new_statements(self, statements: Sequence[str], to: str) -> None:
        """Raise StorageError if a new MAP statement writes a table that the group already applies.

        The operations of the statement before the table's position would be skipped.
        """
        for one in statements:
            target = find_map_target(one)
            for known in self._target.positions() if target else ():
                if "*" not in target and TablePatterns((target,)).fits_end(known.table):
                    at = short_position(known.position)
                    problem = f"{known.table} is applied up to position {at}, and {format_map_statement(one)} joins it"
                    hint = "Map the new source to another target table"
                    raise StorageError(problem, where=Where(source=to), hint=hint)

    def release(self) -> None:
        """Release the target, so that other processes can use it until the next batch."""
        self._target.release()

    def close(self) -> None:
        """Close the group's target."""
        self._target.close()

    @property
    def known(self) -> Mapping[str, KnownTable]:
        """The target tables used so far, by the names with which apply would create them."""
        return dict(self._schemas.known)

    @property
    def table_positions(self) -> Mapping[str, str]:
        """The position of each table used so far if ``by_position`` is False, otherwise {}.

        Positions in a trail are in ``known`` (``KnownTable.done``).
        """
        return dict(self._schemas.positions)

    @property
    def sources(self) -> set[str]:
        """The names of the source tables of which this run has read operations."""
        return {table.name for table in self._schemas.defined.values()}

    def unmatched_columns(self, defined: Callable[[], Collection[str]]) -> tuple[str, ...]:
        """Return a sentence for each ``--column`` option that had no effect.

        ``defined`` returns the names of all target tables that the trail defines, including those
        without operations.
        """
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
    def done(self) -> AppliedPosition | None:
        """The position of the group's last committed batch, or None."""
        return self._writer.done

    @property
    def done_before(self) -> str:
        """The position of the last committed batch (20 digits), or "" if there is none.

        For a table that was not used yet, operations up to this position are skipped.
        """
        return self._writer.done_before

    @property
    def extend(self) -> Callable[[TargetTable], TargetTable]:
        """A function that sets chosen column types in a target table to create, and adds the columns of its mode."""
        return self._schemas.extend

    def look_up_definitions(self, before: Callable[[str, str], Table | None]) -> None:
        """Set the function that looks up earlier definitions of source tables.

        It is called with a table's name and a position, and returns the table's last definition
        before the position, or None.
        """
        self._schemas.definition_before = before

    @property
    def keeps_rows(self) -> bool:
        """Whether the group discards operations that cannot be applied, so that their original rows must be kept."""
        return self._writer.keeps_rows

    @property
    def folds(self) -> bool:
        """Whether the operations on each key may be combined (``fold_operations``) before they are applied."""
        given = self._options
        overlays = self._policy.overlays or given.overlay_until is not None
        # A MAP statement of a parameter file may contain HANDLECOLLISIONS.
        may_overlay = overlays or given.params is not None
        return self._schemas.modes.usual.folds and not (
            self.keeps_rows or may_overlay or given.dry_run
        )

    def read(self, read: Callable[[], Iterable[SplitOperations]]) -> SplitOperations:
        """Read a batch of operations by calling ``read``, and join its splits.

        Calls ``read`` again if a target table differs from what the splits assumed.

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
                        name: operations.with_columns_of(self._schemas.known[name].table)
                        for name, operations in joined.operations.items()
                    },
                )

    def check_unchanged(self, batch: SplitOperations) -> None:
        """Raise ApplyError if the target's row of a repaired operation was written by a later operation, or has no position."""
        for name, operations in batch.operations.items():
            if self._schemas.is_new(name):
                continue
            keys = collect_keys(operations)
            rows = self._target.rows(
                operations.table, build_key_table(operations.table, keys), keys_alone=False
            )
            names = operations.table.key_names
            positions = (
                rows[POSITION].to_pylist()
                if POSITION in rows.column_names
                else [None] * rows.num_rows
            )
            stored_keys = key_tuples([rows[one] for one in names])
            written = dict(zip(stored_keys, positions, strict=True))
            pairs = zip(key_tuples(operations.key), key_tuples(operations.old_key), strict=True)
            for number, both in enumerate(pairs):
                existing = [one for one in both if one in written]
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
                        "the position of the change is unknown"
                        if at is None
                        else f"position {short_position(at)}"
                    )
                    problem = f"the row of {operations.shown_key(number)} may have been changed by a later operation: {since}"
                    where = Where(
                        source=None if position is None else operations.shown_position(number),
                        table=name,
                    )
                    raise ApplyError(problem, where=where, hint=CHANGED_SINCE)

    def apply(self, batch: SplitOperations) -> ApplyReport:
        """Apply a batch of complete transactions to the tables of the target, and return a report.

        The batch is divided at the CSN ``overlay_until``, because collisions are handled
        differently after it.
        """
        policy = self._policy
        if self._options.overlay_until is None:
            return self._writer.apply(batch, policy)
        early, late = _split_at_csn(batch, self._options.overlay_until)
        done = ApplyReport()
        for part, collisions in ((early, CollisionPolicy.OVERLAY), (late, policy)):
            if part is not None:
                done += self._writer.apply(part, collisions)
        return replace(done, batches=1)

    def store(self, position: AppliedPosition) -> None:
        """Store a position for all tables of the group without writing rows."""
        self._target.commit(position)
        self._writer.done = position


def _is_after(written: str | None, position: str) -> bool:
    """Return whether a target's row was written after a position. True if the row's position is unknown (None)."""
    return written is None or written > position


def _split_at_csn(
    batch: SplitOperations, csn: str
) -> tuple[SplitOperations | None, SplitOperations | None]:
    """Split a batch before the first operation with a CSN after ``csn``. A part is None if it has no operations."""
    later = [
        operations.order[
            above_csn(operations.csn, csn).fill_null(False).to_numpy(zero_copy_only=False)
        ]
        for operations in batch.operations.values()
    ]
    first = min((int(order.min()) for order in later if len(order)), default=None)
    if first is None:
        return batch, None
    return batch.between(0, first), batch.between(first, batch.rows)
