"""Apply batches of operations to the tables of a target.

A batch is applied in these steps:

1. Look up the batch's tables in the target, and plan which to create, widen or extend by columns.
2. Skip operations that a table already contains, by the position that the target stores for it.
3. Reduce the rest to at most one change per key (``effects``).
4. Write the changes of each table, and commit them with the batch's last position.

If the target refuses a row and errors are discarded, the refused operation has to be found. Some
targets name all refused rows at once, and ``refused_rows`` finds their operations. Otherwise the
batch is rolled back and applied in halves, until a part of one transaction remains. Within that
transaction a binary search tries longer and shorter beginnings of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import ClassVar, Final, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.append import POSITION
from trailgate.apply.effects.batch import TableChanges, build_key_table
from trailgate.apply.effects.collisions import NAMES, CollisionPolicy
from trailgate.apply.effects.column_types import ChosenColumnTypes
from trailgate.apply.effects.exclusions import find_final_errors
from trailgate.apply.effects.faults import (
    DISCARD_TRANSACTION,
    IGNORE,
    ErrorResponses,
    OperationErrors,
)
from trailgate.apply.effects.modes import MODES, WITH_META, ApplyMode, ComputeChanges
from trailgate.apply.effects.nets import RowEffect, compute_net_changes
from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.redefinition import check_redefinition, find_widened_columns
from trailgate.apply.effects.replay import collect_keys
from trailgate.apply.effects.tables import TargetTable, add_missing_columns, make_target_table
from trailgate.apply.jobs.discards import OTHERS, DiscardFile, extract_reason, get_discard_path
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
    find_middle,
    find_refused_operations,
    find_refused_values,
    slice_batch,
)
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
from trailgate.arrays import Longs, Mask
from trailgate.columnar.digits import short_position
from trailgate.errors import (
    ApplyError,
    DefinitionError,
    OptionError,
    StorageError,
    TrailgateError,
    Where,
)
from trailgate.model.changes import ChangeBlock
from trailgate.model.table_patterns import TablePatterns
from trailgate.model.tables import Table
from trailgate.storage.reading.options import above_csn

MOST_ROUNDS: Final = 8  # searches for refused rows in a batch, before it is halved
MOST_SOUGHT: Final = 1 << 20  # the largest batch, in operations, in which a refused one is searched
GONE_HINT: Final = "Restore the table, or apply the trail to a new one with another --group. This group does not repeat earlier operations"
CHANGED_SINCE: Final = (
    "Check whether the operation is still correct, and then apply it with --force"
)


@dataclass(frozen=True, slots=True)
class TableReport:
    """Counts for one target table: its applied operations, and the rows that were inserted, updated and so on.

    ``emptied`` counts truncates, whether they remove all rows, mark them as deleted or close their
    versions. ``replayed`` operations were followed row by row, because their keys collide.
    ``ignored`` operations had no effect because of ``on_collision``, and ``discarded`` ones could
    not be applied.
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
    """What a batch or a run did to each target table, and the position that it reached.

    ``reasons`` counts the operations that could not be applied, by reason. ``notices`` are
    sentences about everything that was not applied, such as an open transaction or missing first
    files.
    """

    tables: Mapping[str, TableReport] = field(default_factory=lambda: MappingProxyType({}))
    batches: int = 0
    position: AppliedPosition | None = None
    reasons: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    notices: tuple[str, ...] = ()

    @property
    def operations(self) -> int:
        """The number of applied operations."""
        return sum(one.operations for one in self.tables.values())

    def __add__(self, other: ApplyReport) -> ApplyReport:
        names = dict.fromkeys((*self.tables, *other.tables))
        nothing = TableReport()
        tables = {
            name: self.tables.get(name, nothing) + other.tables.get(name, nothing) for name in names
        }
        position = other.position or self.position
        reasons = Counter(self.reasons) + Counter(other.reasons)
        notices = tuple(dict.fromkeys((*self.notices, *other.notices)))
        return ApplyReport(tables, self.batches + other.batches, position, reasons, notices)


@dataclass(frozen=True, slots=True)
class _Change:
    """A planned change to a target table: create it, add columns, or widen integer columns."""

    is_new: bool = False
    added: tuple[str, ...] = ()
    wider: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableModes:
    """The mode of each target table: that of its MAP statements, or else that of the run."""

    run: str
    meta: bool = False
    mapping: MapStatements | None = None

    @property
    def usual(self) -> ApplyMode:
        """The mode of tables without a mode in a MAP statement."""
        return WITH_META if self.meta else MODES[self.run]

    def name(self, table: str) -> str:
        """Return the name of a table's mode. Raises OptionError if its MAP statements disagree."""
        mapped = None if self.mapping is None else self.mapping.mode(table)
        return mapped or self.run

    def of(self, table: str) -> ApplyMode:
        """Return a table's mode."""
        name = self.name(table)
        return self.usual if name == self.run else MODES[name]


TableEffects = tuple[str, Sequence[TableChanges], TableReport]  # a table's name, changes and counts


@runtime_checkable
class BoundedTarget(ApplyTarget, Protocol):
    """A target that applies a trail only up to known positions. ``verify`` uses it to build the expected tables.

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
        """Return the numbers of a block's operations that were discarded before, and that no table takes."""
        ...

    def record_discarded(self, operations: TargetOperations) -> None:
        """Record the discarded operations on a table."""
        ...


class TargetTables:
    """The tables of a target as one group applies them, and the positions that they have reached.

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
        self._modes = TableModes(options.mode, options.meta, mapping)
        self.notices: tuple[str, ...] = ()
        self._collisions: Callable[[str], CollisionPolicy | None] = lambda _: None
        self._policy = CollisionPolicy(options.on_collision)
        self._responses = ErrorResponses(options.on_error)
        self._mapped: Callable[[Table], Sequence[Table]] = lambda table: (table,)
        if mapping is not None:
            self._collisions, self._mapped = mapping.collisions, mapping.tables
            self._responses = ErrorResponses(options.on_error, mapping.responses)
        bounded = target if isinstance(target, BoundedTarget) else None
        self._own_effects = None if bounded is None else bounded.effects
        self._bounded = bounded
        self._types = ChosenColumnTypes.read(options.column or ())
        for mode in () if mapping is None else mapping.modes:
            check_mode(to, mode)
        self._target: ApplyTarget = target or open_target(to, options.group, options.mode)
        self._bound = None if bounded is None else bounded.bound
        self.settled, self.until = ("", "") if bounded is None else (bounded.settled, bounded.until)
        self._table_positions: dict[str, str] = {}  # tables' positions, unless ``by_position``
        self._known: dict[str, KnownTable] = {}
        self._changes: dict[str, _Change] = {}  # planned before the next rows are written
        self._defined: dict[str, Table] = {}  # the last definition of each source table
        # Looks up the definition of a source table at a position. Without it a new run would take the
        # trail's newest definition as unchanged, and miss the redefinition that stopped the last run.
        self.definition_before: Callable[[str, str], Table | None] | None = None
        self._discards: DiscardFile | None = None
        self.done = self._target.position(None)
        self.source = source
        try:
            if self.done is not None and self.done.trail != source:
                self._change_source(self.done, source, to, is_absent)
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
        """Let other processes use the target until the next batch."""
        self._target.release()

    def close(self) -> None:
        """Close the target."""
        self._target.close()

    @property
    def known(self) -> Mapping[str, KnownTable]:
        """The tables used so far, by the names with which they would be created."""
        return dict(self._known)

    @property
    def table_positions(self) -> Mapping[str, str]:
        """The position of each table used so far, if positions do not belong to operations (``by_position``)."""
        return dict(self._table_positions)

    @property
    def sources(self) -> set[str]:
        """The names of the source tables whose operations were applied."""
        return {table.name for table in self._defined.values()}

    @property
    def done_before(self) -> str:
        """The position up to which tables that were not used yet contain all operations."""
        return "" if self.done is None else self.done.position

    @property
    def extend(self) -> Callable[[TargetTable], TargetTable]:
        """A function that converts a table with the source's columns to the table that its mode writes."""
        types = partial(_apply_types, self._types, self._options.sizes)
        return partial(_extend_table, self._modes, types)

    @property
    def keeps(self) -> bool:
        """Whether operations that cannot be applied are discarded, so that their original rows must be kept."""
        return not self._responses.always_stop

    @property
    def folds(self) -> bool:
        """Whether operations may be folded before they are applied."""
        given = self._options
        overlays = self._policy.overlays or given.overlay_until is not None
        # A MAP statement of a parameter file may contain HANDLECOLLISIONS.
        may_overlay = overlays or given.params is not None
        return self._modes.usual.folds and not (self.keeps or may_overlay or given.dry_run)

    def read(self, read: Callable[[], Iterable[SplitOperations]]) -> SplitOperations:
        """Call ``read`` and join its splits. Calls it again if a target table differs from what the splits assumed.

        Raises DefinitionError if a table of the target does not match.
        """
        # Usually this runs once. The second time the splits know the tables that were new to them.
        while True:
            reads = list(read())
            for name, one in merge_known_tables(reads).items():
                self._register_table(name, one.table)
            defined = self._follow_definitions(merge_source_definitions(reads))
            if all(
                self._is_known(name, one) for read in reads for name, one in read.tables.items()
            ):
                failed = next((read.failed for read in reads if read.failed is not None), None)
                if failed is not None:
                    raise failed
                self._defined = defined
                joined = join_split_operations(reads)
                return replace(
                    joined,
                    operations={
                        name: operations.on(self._known[name].table)
                        for name, operations in joined.operations.items()
                    },
                )

    def _is_known(self, name: str, used: KnownTable) -> bool:
        """Return whether operations were converted for the table as it is in the target."""
        known = self._known[name]
        columns = {one.name.casefold(): one for one in known.table.columns}
        return (used.done, used.until) == (known.done, known.until) and all(
            one.makes_values_of(columns[one.name.casefold()]) for one in used.table.columns
        )

    def _register_table(self, name: str, expected: TargetTable) -> None:
        """Look up a table in the target when it is first used, and plan the columns that it lacks."""
        known = self._known.get(name)
        if known is None:
            existing = self._target.find_table(expected)
            if existing is not None:
                self._check_mode(existing)
            if existing is None and self._options.no_create:
                raise DefinitionError("the target has no such table", where=Where(table=name))
            at = self._target.position(expected if existing is None else existing)
            if existing is None and at is not None and self._bound is None:
                problem = (
                    "the target's table no longer exists, but operations were applied to it before"
                )
                raise DefinitionError(problem, where=Where(table=name), hint=GONE_HINT)
            # A batch without operations on a table does not update its position, only that of all
            # tables. So the later of the two counts.
            done = max((one.position for one in (at, self.done) if one), default="")
            if not self.by_position:
                self._table_positions[name], done = done, ""
            until = "" if self._bound is None else self._bound(expected)
            target = self._target.plan_table(expected) if existing is None else existing
            known = KnownTable(target, done, until)
            if existing is None:
                self._changes[name] = _Change(is_new=True)
        whole = add_missing_columns(known.table, expected)
        added = tuple(column.name for column in whole.columns[len(known.table.columns) :])
        change = self._changes.get(name, _Change())
        if added and not change.is_new:
            if self._options.schema_changes == "strict":
                problem = f"the trail has columns that the target's table lacks: {', '.join(added)}"
                raise DefinitionError(
                    problem, where=Where(table=name), hint="--schema-changes evolve adds them"
                )
            self._changes[name] = replace(change, added=change.added + added)
        self._known[name] = replace(known, table=whole)

    def check_unchanged(self, batch: SplitOperations) -> None:
        """Raise ApplyError if the current row of an operation was written by a later operation, or has no position."""
        for name, operations in batch.operations.items():
            if self._changes.get(name, _Change()).is_new:
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

    def _follow_definitions(self, defined: Mapping[str, Mapping[Table, str]]) -> dict[str, Table]:
        """Check changed definitions of source tables, plan the changes to their target tables, and return the last definition of each.

        Raises DefinitionError if a target table cannot follow a change.
        """
        last = dict(self._defined)
        for source, positions in defined.items():
            for table, first in sorted(positions.items(), key=lambda one: one[1]):
                before = last.get(source) or self._applied_definition(table)
                last[source] = table
                if before == table:
                    continue
                pairs = zip(self._mapped(before), self._mapped(table), strict=True)
                try:
                    for old, new in pairs:
                        self._redefine(old, new)
                except DefinitionError as error:
                    raise error.with_place(source=f"position {short_position(first)}") from None
        return last

    def _applied_definition(self, table: Table) -> Table:
        """Return the definition of a source table at the last applied position. If nothing was applied yet, return the table itself."""
        if self.definition_before is None:
            return table
        for mapped in self._mapped(table):
            name = str(self.extend(make_target_table(mapped)))
            known = self._known.get(name)
            if known is not None and known.done and not self._changes.get(name, _Change()).is_new:
                return self.definition_before(table.name, known.done) or table
        return table

    def _redefine(self, old: Table, new: Table) -> None:
        """Check that a target table can follow a changed definition, and plan wider columns if it needs them."""
        name = str(self.extend(make_target_table(new)))
        known = self._known.get(name)
        if known is None:
            return
        strict, keyed = self._options.schema_changes == "strict", self._modes.name(name) != "append"
        chosen = self._types.chosen_for(known.table)
        check_redefinition(old, new, known.table, chosen, strict=strict, keyed=keyed)
        change = self._changes.get(name, _Change())
        wider = find_widened_columns(old, new, known.table)
        if wider and self._target.widens and not change.is_new:
            columns = (
                replace(one, type=pa.int64()) if one.name in wider else one
                for one in known.table.columns
            )
            self._known[name] = replace(known, table=replace(known.table, columns=tuple(columns)))
            self._changes[name] = replace(change, wider=change.wider + wider)

    def _check_mode(self, table: TargetTable) -> None:
        """Raise DefinitionError if the columns of an existing table show that it was created in a different mode."""
        names = {column.name for column in table.columns}
        chosen = self._modes.name(str(table))
        for name, mode in MODES.items():
            markers = {column.name for column in mode.columns}
            # A table has the marker columns of a mode exactly if it was created in that mode.
            if markers and (markers <= names) != (name == chosen):
                how = "was" if markers <= names else "was not"
                raise DefinitionError(
                    f"the target's table {how} created with --mode {name}",
                    where=Where(table=str(table)),
                )

    def _change_tables(self) -> None:
        """Carry out the planned changes: create tables, widen columns and add columns."""
        for name, change in self._changes.items():
            table = self._known[name].table
            if change.is_new:
                self._target.create(self._modes.of(name).stored(table))
            if change.wider:
                self._target.widen(table, change.wider)
            if change.added:
                self._target.add_columns(table, change.added)
        self._changes.clear()

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
        """Store a position for all tables without writing any of them."""
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
            tried = self._without_excluded(batch)
            retry = partial(self._try_write, policy=policy, find=True)
            if by_row := find_refused_operations(tried, refusal, retry):
                without = replace(batch, errors={**batch.errors, **by_row})
                return self._apply_parts(without, policy, rounds - 1)
        middle = find_middle(batch)
        if middle is not None:
            parts = slice_batch(batch, 0, middle), slice_batch(batch, middle, batch.rows)
            done = ApplyReport()
            for part in parts:
                if part is not None:
                    done += self._apply_parts(part, policy)
            return replace(done, batches=1)
        refused = self._find_refused(batch, policy, refusal)
        return self._apply_parts(replace(batch, errors={**batch.errors, **refused}), policy)

    def _locate_refusal(
        self, batch: SplitOperations, policy: CollisionPolicy, refusal: RowRefusedError
    ) -> TrailgateError:
        """Add the position, table and key of the refused operation to an error. Finds it by trying parts of the batch."""
        if batch.rows > MOST_SOUGHT:
            return refusal
        refused = self._find_refused(batch, policy, refusal)
        if len(refused) != 1:
            return refusal
        ((number, error),) = refused.items()
        for operations in batch.operations.values():
            for row in np.flatnonzero(operations.order == number).tolist():
                key = (
                    f"{NAMES.get(int(operations.op_type[row]), 'operation')} of {operations.shown_key(row)}: "
                    if operations.key
                    else ""
                )
                where = replace(
                    error.where, source=operations.place(row), table=str(operations.table)
                )
                hint, numbers = error.hint, error.numbers
                placed = type(error)(f"{key}{error.problem}", where=where, hint=hint)
                return placed.with_numbers(numbers)
        return error

    def _find_refused(
        self, batch: SplitOperations, policy: CollisionPolicy, refusal: RowRefusedError
    ) -> dict[int, TrailgateError]:
        """Find the first operation of a transaction whose row the target refuses, by binary search. If it only refuses the commit, return all operations."""
        batch_numbers = {
            number for one in batch.operations.values() for number in one.order.tolist()
        }
        numbers = sorted(batch_numbers - batch.errors.keys())
        # Binary search. The target accepts the first ``fits`` operations and refuses the first
        # ``fails``. len(numbers) + 1 stands for the commit after the last operation.
        fits, fails = 0, len(numbers) + 1
        while fails - fits > 1:
            middle = (fits + fails) // 2
            end = numbers[middle - 1] + 1
            part = slice_batch(batch, 0, end)
            error = None if part is None else self._try_write(part, policy)
            if error is None:
                fits = middle
            else:
                fails, refusal = middle, error
        chosen = numbers if fails > len(numbers) else [numbers[fails - 1]]
        return dict.fromkeys(chosen, refusal)

    def _without_excluded(self, batch: SplitOperations) -> SplitOperations:
        """Return a batch without the operations that its errors exclude, alone or with their transactions."""
        excluded = self._excluded_transactions(batch, batch.errors)
        operations = {
            name: one.without(batch.errors).without_transactions(excluded)
            for name, one in batch.operations.items()
        }
        return replace(
            batch, operations={name: one for name, one in operations.items() if len(one)}
        )

    def _try_write(
        self, batch: SplitOperations, policy: CollisionPolicy, *, find: bool = False
    ) -> RowRefusedError | None:
        """Write operations, roll them back, and return the error if the target refused them.

        With ``find`` deferred constraints are checked too, and the error names all refused rows if
        the target can find them.
        """
        known, changes = dict(self._known), dict(self._changes)
        try:
            with self._rollback_on_error():
                self._write(batch, policy, find=find)
        except RowRefusedError as error:
            return error
        self._target.rollback()
        self._known, self._changes = known, changes
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
        done = self._table_positions or {name: one.done for name, one in self._known.items()}
        ahead = max(done.values(), default="")
        if not (self._target.commits_alone and ahead > self.done_before):
            return ()
        return self._discard_file().find_listed(_up_to(block, ahead) if self.by_position else block)

    @contextmanager
    def _rollback_on_error(self) -> Iterator[None]:
        """Roll back if an error is raised. Tables are then looked up again, unless a row was refused."""
        known, changes = dict(self._known), dict(self._changes)
        try:
            yield
        except BaseException as error:
            self._target.rollback()
            refused = isinstance(error, RowRefusedError)
            self._known, self._changes = (known, changes) if refused else ({}, {})
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
            self._change_tables()
        effects, faults, excluded = self._effects(batch, policy)
        reports = {name: report for name, _, report in effects}
        if not self._options.dry_run:
            # A target that commits each table by itself may be killed after the first of them, so the
            # discarded operations must be on the disk before it.
            if discards and self._target.commits_alone:
                self._discard(batch, faults, excluded)
            self._write_tables(effects, batch.last, find=find)
            for operations in batch.operations.values():
                discarded = _unapplied_mask(
                    operations.order, operations.transaction, faults, excluded
                )
                if discarded.any():
                    name = str(operations.table)
                    report = reports.get(name, TableReport())
                    reports[name] = replace(
                        report, discarded=int(operations.weight[discarded].sum())
                    )
        reasons = _count_reasons(batch, faults, excluded)
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

    def _effects(
        self, batch: SplitOperations, policy: CollisionPolicy
    ) -> tuple[list[TableEffects], OperationErrors, frozenset[int]]:
        """Compute the changes to each table, the operations that cannot be applied, and the transactions that they exclude.

        Repeats until the errors are final, because an excluded transaction can change whether later
        operations succeed.
        """
        reasons = dict(batch.errors)
        for number in sorted(reasons):
            if self._responses.stops(reasons[number]):
                raise reasons[number]
        excluded = self._excluded_transactions(batch, reasons)
        while True:
            faults = OperationErrors(stop=not self.keeps, stops=self._responses.stops)
            written: list[TableEffects] = []
            tried: list[TargetOperations] = []
            updates_insert = False
            for name, operations in batch.operations.items():
                remaining = operations.without(reasons).without_transactions(excluded)
                if len(remaining):
                    chosen = self._collisions(name) or policy
                    written.append(self._effects_on(remaining, chosen, faults))
                    tried.append(remaining)
                    updates_insert |= chosen.inserts
            final, again = find_final_errors(
                faults.errors, tried, self._responses, updates_insert=updates_insert
            )
            if not again:
                faults.errors = faults.errors | reasons
                return written, faults, excluded
            reasons |= final
            excluded = self._excluded_transactions(batch, reasons)

    def _excluded_transactions(
        self, batch: SplitOperations, errors: Mapping[int, TrailgateError]
    ) -> frozenset[int]:
        """Return the transactions that are excluded because one of their operations cannot be applied."""
        wanted = self._with_response(errors, DISCARD_TRANSACTION)
        return frozenset(
            number
            for block, transactions in batch.blocks
            for number in transactions[np.isin(block.order, wanted)].tolist()
        )

    def _with_response(self, errors: Mapping[int, TrailgateError], response: str) -> list[int]:
        """Return the numbers of the operations whose errors have this response."""
        return [number for number, one in errors.items() if self._responses.to(one) == response]

    def _effects_on(
        self, operations: TargetOperations, policy: CollisionPolicy, faults: OperationErrors
    ) -> TableEffects:
        """Compute the changes to one table, and count them."""
        steps: Sequence[TableChanges]
        if self._options.dry_run and operations.table.key:
            steps = (_dry_run_effects(operations),)
        else:
            fetch = partial(_fetch, self._target, operations.table)
            mode = self._modes.of(str(operations.table))
            effects_of = self._own_effects or mode.effects
            steps = effects_of(mode.logged(operations), fetch, policy, faults)
        failed = int(np.isin(operations.order, list(faults.errors)).sum())
        return str(operations.table), steps, _report(operations, steps, failed)

    def _discard(
        self, batch: SplitOperations, faults: OperationErrors, excluded: frozenset[int]
    ) -> None:
        """Write the operations that are not applied to the discard file, except ignored ones."""
        ignored = self._with_response(faults.errors, IGNORE)
        if len(ignored) == len(faults.errors):
            return
        file = self._discard_file()
        for block, transactions in batch.blocks:
            unapplied = _unapplied_mask(block.order, transactions, faults, excluded)
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


def _count_reasons(
    batch: SplitOperations, faults: OperationErrors, excluded: frozenset[int]
) -> Mapping[str, int]:
    """Count the operations that are not applied, by reason."""
    counts = Counter(map(extract_reason, faults.errors.values()))
    unapplied = sum(
        int(_unapplied_mask(block.order, transactions, faults, excluded).sum())
        for block, transactions in batch.blocks
    )
    others = unapplied - len(faults.errors)
    return counts + Counter({OTHERS: others} if others > 0 else {})


def _unapplied_mask(
    order: Longs, transactions: Longs, faults: OperationErrors, excluded: frozenset[int]
) -> Mask:
    """Return the mask of the operations that are not applied."""
    mask: Mask = np.isin(order, list(faults.errors)) | np.isin(transactions, list(excluded))
    return mask


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


def _extend_table(
    modes: TableModes,
    types: Callable[[TargetTable], TargetTable],
    table: TargetTable,
) -> TargetTable:
    return modes.of(str(table)).table(types(table))


def _apply_types(types: ChosenColumnTypes, sizes: bool, table: TargetTable) -> TargetTable:
    """Apply the column types that the user chose. Text columns keep their lengths only with ``sizes``."""
    typed = types.of(table)
    if sizes:
        return typed
    return replace(typed, columns=tuple(replace(one, length=None) for one in typed.columns))


def _fetch(target: ApplyTarget, table: TargetTable, keys: pa.Table, keys_alone: bool) -> pa.Table:
    return target.rows(table, keys, keys_alone=keys_alone)


def _dry_run_effects(operations: TargetOperations) -> TableChanges:
    """Compute the changes of a dry run, which assumes that rows exist as the operations expect. Keys that need a replay are only counted."""
    # Only what follows the last truncate remains. ``number`` is negative for keys that need a replay.
    parts = [part for part, _ in operations.between_truncates()]
    nets, number = compute_net_changes(parts[-1])
    nets = nets.where(nets.expected | (nets.effect != RowEffect.DELETE))
    return TableChanges(nets, len(parts) > 1, replayed=int((number < 0).sum()))


def _report(
    operations: TargetOperations, steps: Sequence[TableChanges], failed: int = 0
) -> TableReport:
    """Count the operations and the changed rows of one table. ``failed`` operations are not counted."""
    done = TableReport(operations=int(operations.weight.sum()) - failed)
    for one in steps:
        counts = one.counts
        done += TableReport(
            inserted=counts["insert"],
            updated=counts["patch"],
            replaced=counts["replace"],
            deleted=counts["delete"],
            emptied=int(one.emptied or one.closing is not None),
            replayed=one.replayed,
            ignored=one.ignored,
        )
    return done
