"""The tables of a target, and how a batch of operations is applied to them: what each table gets is known before any is written.

Operations that a table has already are left out by the position that the target keeps of it. What remains becomes one effect a key (``apply``), which the target writes and commits together with
the batch's last position.
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
from trailgate.apply.effects.meta import POSITION
from trailgate.apply.effects.modes import MODES, WITH_META, ApplyMode, ComputeChanges
from trailgate.apply.effects.nets import RowEffect, compute_net_changes
from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.redefinition import check_redefinition, find_widened_columns
from trailgate.apply.effects.replay import collect_keys
from trailgate.apply.effects.tables import TargetTable, add_missing_columns, make_target_table
from trailgate.apply.jobs.discards import OTHERS, DiscardFile, discard_path, reason_of
from trailgate.apply.jobs.groups import GroupSource, continued_source, shown, target_of
from trailgate.apply.jobs.options import ApplyOptions
from trailgate.apply.jobs.reading import (
    KnownTable,
    SplitRead,
    join_defined,
    join_reads,
    joined_tables,
    position_at,
)
from trailgate.apply.replicat.mapping import ReplicatMapping as MapStatements
from trailgate.apply.targets.target import (
    Position,
    RowRefusedError,
    Target,
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
from trailgate.model.changes import DELETE, ChangeBlock
from trailgate.model.table_patterns import TablePatterns
from trailgate.model.tables import Table
from trailgate.storage.reading.options import above_csn


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
    """What one batch, or a whole run, did to each target table, and how far the trail is applied then.

    ``reasons`` are those of operations that could not be applied, each with how many had it.
    ``notices`` name everything that the run did not apply, such as an open transaction or missing first files: one sentence each, for people and monitors.
    """

    tables: Mapping[str, TableReport] = field(default_factory=lambda: MappingProxyType({}))
    batches: int = 0
    position: Position | None = None
    reasons: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    notices: tuple[str, ...] = ()

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
        position = other.position or self.position
        reasons = Counter(self.reasons) + Counter(other.reasons)
        notices = tuple(dict.fromkeys((*self.notices, *other.notices)))
        return ApplyReport(tables, self.batches + other.batches, position, reasons, notices)


@dataclass(frozen=True, slots=True)
class _Change:
    """What a table of the target needs before rows are written: it is created, or gets columns, or integers of more bytes."""

    is_new: bool = False
    added: tuple[str, ...] = ()
    wider: tuple[str, ...] = ()


MOST_SOUGHT: Final = 1 << 20  # operations of a batch among which a refused one is looked for
GONE_HINT: Final = "Restore the table, or apply the trail by another --group to a new one. What was applied to it before is not applied again"


@dataclass(frozen=True, slots=True)
class TableModes:
    """The mode of each target table: that of the run, unless MAP statements state another one for it."""

    run: str
    meta: bool = False
    mapping: MapStatements | None = None

    @property
    def usual(self) -> ApplyMode:
        """Return the mode of tables for which nothing states another one."""
        return WITH_META if self.meta else MODES[self.run]

    def name(self, table: str) -> str:
        """Return the name of a table's mode; raises OptionError if MAP statements differ."""
        own = None if self.mapping is None else self.mapping.mode(table)
        return own or self.run

    def of(self, table: str) -> ApplyMode:
        """Return a table's mode."""
        name = self.name(table)
        return self.usual if name == self.run else MODES[name]


CHANGED_SINCE: Final = "Look whether the operation is still right, and apply it with --force"
TableEffects = tuple[str, Sequence[TableChanges], TableReport]  # of a table by its name


@runtime_checkable
class BoundedTarget(Target, Protocol):
    """A target whose tables take operations up to a position each. ``effects`` is what it is written then, if that is not what the mode writes.

    All operations up to ``settled`` are taken by their tables, and none after ``until``.
    """

    effects: ComputeChanges | None
    settled: str
    until: str

    def bound(self, table: TargetTable) -> str:
        """Return the position, in 20 digits, of the last operation that a table takes."""
        ...

    def discarded(self, block: ChangeBlock) -> Collection[int]:
        """Return the numbers of a block's operations that no table takes since they were discarded before."""
        ...

    def leave_out(self, operations: TargetOperations) -> None:
        """Note discarded operations on a table, which takes none of them."""
        ...


class TargetTables:
    """The tables of a target that a group applies a source to, and how far they are. Raises StorageError where the group applies another source to them.

    Unless ``by_position``, positions of the group are not those of operations, and tables leave no operation out by them.
    """

    by_position: ClassVar[bool] = True

    def __init__(
        self,
        to: str,
        options: ApplyOptions,
        source: str,
        mapping: MapStatements | None = None,
        target: Target | None = None,
        *,
        is_absent: Callable[[str], bool] = lambda _: False,
    ) -> None:
        if options.meta and options.mode != "current":
            raise OptionError(f"--meta is about current rows, and not about --mode {options.mode}")
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
        self._target: Target = target or open_target(to, options.group, options.mode)
        self._bound = None if bounded is None else bounded.bound
        self.settled, self.until = ("", "") if bounded is None else (bounded.settled, bounded.until)
        self._landed: dict[str, str] = {}  # how far tables are that leave nothing out
        self._known: dict[str, KnownTable] = {}
        self._changes: dict[str, _Change] = {}  # of tables, before the next rows are written
        self._defined: dict[str, Table] = {}  # the last definition of each source table
        # What looks up a table's definition before a position: a redefinition that stopped a run stops the next one too.
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
        self, done: Position, source: str, to: str, is_absent: Callable[[str], bool]
    ) -> None:
        """Go on with other tables or MAP statements than those of the stored position, as far as the options allow it; raises StorageError."""
        options = self._options
        own, before = GroupSource.read(source), GroupSource.read(done.trail)
        joined = own.joining(before, is_absent)
        joining = None if joined is None else [shown(one) for one in joined]
        known = f"group {options.group} applies {done.trail} to this target, and this is {source}"
        where = Where(source=to)
        if joining is None:
            hint = "Give the options that it was applied with, or name another group, --group NAME"
            raise StorageError(known, where=where, hint=hint)
        if joining and self.by_position and options.changed_maps == "stop":
            at = f"position {short_position(done.position)}"
            problem = f"group {options.group} was applied up to {at}, and {', '.join(joining)} would lack what lies before it"
            hint = f"--changed-maps catch-up applies it from the trail's beginning; --changed-maps continue begins at {at}, for tables that were loaded as of it"
            raise StorageError(problem, where=where, hint=hint)
        self.done = replace(done, trail=source)
        if not self.by_position:
            return
        self.source = continued_source(source, done.trail)
        self.done = replace(done, trail=self.source)
        if joining and options.changed_maps == "catch-up":
            self._check_further(own.further(before), to)
            self.done = None  # each table of the group has its own position
        elif joining:
            at = short_position(done.position)
            self.notices = (f"{', '.join(joining)}: applied from position {at} on",)
            if not options.dry_run:
                self._target.commit(self.done)

    def _check_further(self, further: Sequence[str], to: str) -> None:
        """Raise StorageError if a table that is there already would be written from a further source: its position would hide what lies before it."""
        for one in further:
            target = target_of(one)
            for known in self._target.positions() if target else ():
                if "*" not in target and TablePatterns((target,)).fits_end(known.table):
                    at = short_position(known.position)
                    problem = (
                        f"{known.table} is applied up to position {at}, and {shown(one)} joins it"
                    )
                    hint = "Give the new source a target of its own"
                    raise StorageError(problem, where=Where(source=to), hint=hint)

    def release(self) -> None:
        """Let others use the target until the next batch."""
        self._target.release()

    def close(self) -> None:
        """Let go of the target."""
        self._target.close()

    @property
    def known(self) -> Mapping[str, KnownTable]:
        """Return the tables met so far, by the names that created ones would have."""
        return dict(self._known)

    @property
    def landed(self) -> Mapping[str, str]:
        """Return how far the tables met so far are, if they are not applied by the positions of operations."""
        return dict(self._landed)

    @property
    def sources(self) -> set[str]:
        """Return the names of the source tables that operations were applied of."""
        return {table.name for table in self._defined.values()}

    @property
    def done_before(self) -> str:
        """Return the position up to which a table that was not met yet has its operations."""
        return "" if self.done is None else self.done.position

    @property
    def extend(self) -> Callable[[TargetTable], TargetTable]:
        """Return what makes a table of the source's columns the one that the mode writes."""
        types = partial(_typed, self._types, self._options.sizes)
        return partial(_extended, self._modes, types)

    @property
    def keeps(self) -> bool:
        """Return whether operations that cannot be applied are discarded: they are kept as the trail has them."""
        return not self._responses.always_stop

    @property
    def folds(self) -> bool:
        """Return whether operations may be folded before they are applied."""
        given = self._options
        overlays = self._policy.overlays or given.overlay_until is not None
        may_overlay = overlays or given.params is not None  # HANDLECOLLISIONS of a statement
        return self._modes.usual.folds and not (self.keeps or may_overlay or given.dry_run)

    def read(self, read: Callable[[], Iterable[SplitRead]]) -> SplitRead:
        """Return the splits that ``read`` gives as one, read again where tables of the target are met that are not as they were taken to be.

        Raises DefinitionError where a table does not fit.
        """
        while True:
            reads = list(read())
            for name, one in joined_tables(reads).items():
                self._meet(name, one.table)
            defined = self._follow(join_defined(reads))
            if all(
                self._is_known(name, one) for read in reads for name, one in read.tables.items()
            ):
                failed = next((read.failed for read in reads if read.failed is not None), None)
                if failed is not None:
                    raise failed
                self._defined = defined
                joined = join_reads(reads)
                return replace(
                    joined,
                    operations={
                        name: own.on(self._known[name].table)
                        for name, own in joined.operations.items()
                    },
                )

    def _is_known(self, name: str, used: KnownTable) -> bool:
        """Return whether operations were made for the table as it is."""
        known = self._known[name]
        own = {one.name.casefold(): one for one in known.table.columns}
        return (used.done, used.until) == (known.done, known.until) and all(
            one.makes_values_of(own[one.name.casefold()]) for one in used.table.columns
        )

    def _meet(self, name: str, wanted: TargetTable) -> None:
        """Note a table that operations are on, and the columns that the target's one lacks."""
        known = self._known.get(name)
        if known is None:
            held = self._target.held(wanted)
            if held is not None:
                self._check_mode(held)
            if held is None and self._options.no_create:
                raise DefinitionError("the target has no such table", where=Where(table=name))
            at = self._target.position(wanted if held is None else held)
            if held is None and at is not None and self._bound is None:
                problem = "the target's table is gone, and it was applied to before"
                raise DefinitionError(problem, where=Where(table=name), hint=GONE_HINT)
            # A table that a batch did not change keeps its earlier position.
            done = max((one.position for one in (at, self.done) if one), default="")
            if not self.by_position:
                self._landed[name], done = done, ""
            until = "" if self._bound is None else self._bound(wanted)
            own = self._target.planned(wanted) if held is None else held
            known = KnownTable(own, done, until)
            if held is None:
                self._changes[name] = _Change(is_new=True)
        whole = add_missing_columns(known.table, wanted)
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

    def check_unchanged(self, batch: SplitRead) -> None:
        """Raise ApplyError where a row of a batch's operations was written by one after it, or does not state its position."""
        for name, own in batch.operations.items():
            if self._changes.get(name, _Change()).is_new:
                continue
            keys = collect_keys(own)
            rows = self._target.rows(own.table, build_key_table(own.table, keys), keys_alone=False)
            names = own.table.key_names
            written = {
                tuple(row[one] for one in names): row.get(POSITION) for row in rows.to_pylist()
            }
            images = zip(*(column.to_pylist() for column in (*own.key, *own.old_key)), strict=True)
            for number, both in enumerate(images):
                there = [one for one in (both[: len(names)], both[len(names) :]) if one in written]
                place = own.position[number].as_py()
                late = next(
                    (one for one in there if place is None or _is_after(written[one], place)), None
                )
                if late is not None:
                    at = written[late]
                    since = (
                        "nothing states when" if at is None else f"position {short_position(at)}"
                    )
                    problem = (
                        f"the row of {own.shown_key(number)} may have been changed since: {since}"
                    )
                    where = Where(source=None if place is None else own.place(number), table=name)
                    raise ApplyError(problem, where=where, hint=CHANGED_SINCE)

    def _follow(self, found: Mapping[str, Mapping[Table, str]]) -> dict[str, Table]:
        """Return the last definition of each source table; raises DefinitionError where the target does not follow from one to the next."""
        last = dict(self._defined)
        for source, own in found.items():
            for table, first in sorted(own.items(), key=lambda one: one[1]):
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
        """Return the definition by which earlier runs have applied operations on a source table; if there is none, the table itself."""
        if self.definition_before is None:
            return table
        for mapped in self._mapped(table):
            name = str(self.extend(make_target_table(mapped)))
            known = self._known.get(name)
            if known is not None and known.done and not self._changes.get(name, _Change()).is_new:
                return self.definition_before(table.name, known.done) or table
        return table

    def _redefine(self, old: Table, new: Table) -> None:
        """Let a target table follow from one definition to the next."""
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

    def _check_mode(self, held: TargetTable) -> None:
        """Raise DefinitionError where a table is one of another mode."""
        names = {column.name for column in held.columns}
        chosen = self._modes.name(str(held))
        for name, mode in MODES.items():
            own = {column.name for column in mode.columns}
            if own and (own <= names) != (name == chosen):
                is_one = "is one" if own <= names else "is none"
                raise DefinitionError(
                    f"the target's table {is_one} of --mode {name}", where=Where(table=str(held))
                )

    def _make(self) -> None:
        """Create the tables, and add the columns, that operations are on and the target lacks."""
        for name, change in self._changes.items():
            table = self._known[name].table
            if change.is_new:
                self._target.create(self._modes.of(name).stored(table))
            if change.wider:
                self._target.widen(table, change.wider)
            if change.added:
                self._target.add_columns(table, change.added)
        self._changes.clear()

    def apply(self, batch: SplitRead) -> ApplyReport:
        """Apply a batch of whole transactions."""
        policy = self._policy
        if self._options.overlay_until is None:
            return self._apply_parts(batch, policy)
        early, late = _parted(batch, self._options.overlay_until)
        done = ApplyReport()
        for part, own in ((early, CollisionPolicy.OVERLAY), (late, policy)):
            if part is not None:
                done += self._apply_parts(part, own)
        return replace(done, batches=1)

    def store(self, position: Position) -> None:
        """Store a position of all tables without writing any of them."""
        self._target.commit(position)
        self.done = position

    def _apply_parts(self, batch: SplitRead, policy: CollisionPolicy) -> ApplyReport:
        """Apply a batch; one with rows that the target refuses in halves, so that the operations are found that cannot be applied, unless the refusal names their values."""
        try:
            return self._apply(batch, policy)
        except RowRefusedError as error:
            if self._responses.stops(error):
                raise self._placed(batch, policy, error) from None
            refusal = error
        if isinstance(refusal, ValuesRefusedError) and (own := _with_values(batch, refusal)):
            return self._apply_parts(replace(batch, errors={**batch.errors, **own}), policy)
        middle = _middle(batch)
        if middle is not None:
            parts = _between(batch, 0, middle), _between(batch, middle, batch.rows)
            done = ApplyReport()
            for part in parts:
                if part is not None:
                    done += self._apply_parts(part, policy)
            return replace(done, batches=1)
        refused = self._refused(batch, policy, refusal)
        return self._apply_parts(replace(batch, errors={**batch.errors, **refused}), policy)

    def _placed(
        self, batch: SplitRead, policy: CollisionPolicy, refusal: RowRefusedError
    ) -> TrailgateError:
        """Return the error of a refused row with the position, table and key of its operation, which is found by trying parts of the batch."""
        if batch.rows > MOST_SOUGHT:
            return refusal
        refused = self._refused(batch, policy, refusal)
        if len(refused) != 1:
            return refusal
        ((number, error),) = refused.items()
        for own in batch.operations.values():
            for row in np.flatnonzero(own.order == number).tolist():
                key = (
                    f"{NAMES.get(int(own.op_type[row]), 'operation')} of {own.shown_key(row)}: "
                    if own.key
                    else ""
                )
                where = replace(error.where, source=own.place(row), table=str(own.table))
                hint, numbers = error.hint, error.numbers
                made = type(error)(f"{key}{error.problem}", where=where, hint=hint)
                return made.numbered(numbers)
        return error

    def _refused(
        self, batch: SplitRead, policy: CollisionPolicy, refusal: RowRefusedError
    ) -> dict[int, TrailgateError]:
        """Return the first operation of a transaction with whose row the target refuses it; all of them where it refuses the commit alone."""
        own = {number for one in batch.operations.values() for number in one.order.tolist()}
        numbers = sorted(own - batch.errors.keys())
        fits, fails = 0, len(numbers) + 1
        while fails - fits > 1:
            middle = (fits + fails) // 2
            end = numbers[middle - 1] + 1
            part = _between(batch, 0, end)
            error = None if part is None else self._refusal_of(part, policy)
            if error is None:
                fits = middle
            else:
                fails, refusal = middle, error
        chosen = numbers if fails > len(numbers) else [numbers[fails - 1]]
        return dict.fromkeys(chosen, refusal)

    def _refusal_of(self, batch: SplitRead, policy: CollisionPolicy) -> RowRefusedError | None:
        """Return the error with which the target refuses to write operations; nothing of them stays."""
        known, changes = dict(self._known), dict(self._changes)
        try:
            with self._undone_where_it_fails():
                self._write(batch, policy)
        except RowRefusedError as error:
            return error
        self._target.rollback()
        self._known, self._changes = known, changes
        return None

    def _apply(self, batch: SplitRead, policy: CollisionPolicy) -> ApplyReport:
        """Apply a batch as one."""
        end = batch.last
        assert end is not None
        batch = self._without_discarded(batch)
        with self._undone_where_it_fails():
            report, faults, left_out = self._write(batch, policy, discards=True)
            if not self._options.dry_run:
                self._discard(batch, faults, left_out)
                self._target.commit(end)
        self.done = end
        return report

    def _without_discarded(self, batch: SplitRead) -> SplitRead:
        """Return a batch without the operations that were discarded before: by a killed run, or before tables are compared.

        Tables that are ahead of the others have the operations of the killed run's batch, so the reasons for which operations on several tables, or transactions, were discarded are not found again.
        """
        discarded = {n for block, _ in batch.blocks for n in self._discarded_before(block)}
        if not discarded:
            return batch
        if self._bounded is not None:
            for own in batch.operations.values():
                self._bounded.leave_out(
                    own.take(np.flatnonzero(np.isin(own.order, list(discarded))))
                )
        operations = {name: own.without(discarded) for name, own in batch.operations.items()}
        return replace(batch, operations=operations)

    def _discarded_before(self, block: ChangeBlock) -> Collection[int]:
        """Return the numbers of a block's operations that were discarded before."""
        if self._bounded is not None:
            return self._bounded.discarded(block)
        done = self._landed or {name: one.done for name, one in self._known.items()}
        ahead = max(done.values(), default="")
        if not (self._target.commits_alone and ahead > self.done_before):
            return ()
        return self._discard_file().listed(_up_to(block, ahead) if self.by_position else block)

    @contextmanager
    def _undone_where_it_fails(self) -> Iterator[None]:
        """Forget what was written where an error is raised; tables are looked up again then, but where a row was refused."""
        known, changes = dict(self._known), dict(self._changes)
        try:
            yield
        except BaseException as error:
            self._target.rollback()
            refused = isinstance(error, RowRefusedError)
            self._known, self._changes = (known, changes) if refused else ({}, {})
            raise

    def _write(
        self, batch: SplitRead, policy: CollisionPolicy, *, discards: bool = False
    ) -> tuple[ApplyReport, OperationErrors, frozenset[int]]:
        """Write the effects of a batch; return what is done, the operations that cannot be applied, and the transactions that are left out.

        With ``discards`` these operations are written to the file of discards before a table is committed by itself.
        """
        assert batch.last is not None
        if not self._options.dry_run:
            self._make()
        effects, faults, left_out = self._effects(batch, policy)
        reports = {name: report for name, _, report in effects}
        if not self._options.dry_run:
            if discards and self._target.commits_alone:
                self._discard(batch, faults, left_out)
            for _, steps, _ in effects:
                for one in steps:
                    at = batch.last
                    if one is not steps[-1]:
                        at = Position(at.trail, one.at, op_ts=at.op_ts)
                    self._target.write(one, at)
            for own in batch.operations.values():
                gone = _gone(own.order, own.transaction, faults, left_out)
                if gone.any():
                    name = str(own.table)
                    report = reports.get(name, TableReport())
                    reports[name] = replace(report, discarded=int(own.weight[gone].sum()))
        reasons = _reasons(batch, faults, left_out)
        return ApplyReport(reports, 1, batch.last, reasons), faults, left_out

    def _effects(
        self, batch: SplitRead, policy: CollisionPolicy
    ) -> tuple[list[TableEffects], OperationErrors, frozenset[int]]:
        """Return what is written to each table, the operations that cannot be applied, and the transactions that are left out for these."""
        reasons = dict(batch.errors)
        for number in sorted(reasons):
            if self._responses.stops(reasons[number]):
                raise reasons[number]
        left_out = self._left_out(batch, reasons)
        while True:
            faults = OperationErrors(stop=not self.keeps, stops=self._responses.stops)
            found: list[TableEffects] = []
            tried: list[TargetOperations] = []
            updates_insert = False
            for name, operations in batch.operations.items():
                own = operations.without(reasons).without_transactions(left_out)
                if len(own):
                    chosen = self._collisions(name) or policy
                    found.append(self._effects_on(own, chosen, faults))
                    tried.append(own)
                    updates_insert |= chosen.inserts
            final, again = find_final_errors(
                faults.errors, tried, self._responses, updates_insert=updates_insert
            )
            if not again:
                faults.errors = faults.errors | reasons
                return found, faults, left_out
            reasons |= final
            left_out = self._left_out(batch, reasons)

    def _left_out(self, batch: SplitRead, errors: Mapping[int, TrailgateError]) -> frozenset[int]:
        """Return the transactions that are not applied since operations of them cannot be."""
        wanted = self._answered(errors, DISCARD_TRANSACTION)
        return frozenset(
            number
            for block, own in batch.blocks
            for number in own[np.isin(block.order, wanted)].tolist()
        )

    def _answered(self, errors: Mapping[int, TrailgateError], response: str) -> list[int]:
        """Return the operations whose errors have a response."""
        return [number for number, one in errors.items() if self._responses.to(one) == response]

    def _effects_on(
        self, operations: TargetOperations, policy: CollisionPolicy, faults: OperationErrors
    ) -> TableEffects:
        steps: Sequence[TableChanges]
        if self._options.dry_run and operations.table.key:
            steps = (_expected(operations),)
        else:
            fetch = partial(_fetch, self._target, operations.table)
            mode = self._modes.of(str(operations.table))
            effects_of = self._own_effects or mode.effects
            steps = effects_of(mode.logged(operations), fetch, policy, faults)
        left_out = int(np.isin(operations.order, list(faults.errors)).sum())
        return str(operations.table), steps, _report(operations, steps, left_out)

    def _discard(self, batch: SplitRead, faults: OperationErrors, left_out: frozenset[int]) -> None:
        """Write the operations that are not applied to the file of discards."""
        ignored = self._answered(faults.errors, IGNORE)
        if len(ignored) == len(faults.errors):
            return
        file = self._discard_file()
        for block, transactions in batch.blocks:
            gone = _gone(block.order, transactions, faults, left_out)
            kept = np.isin(block.order, ignored) & ~np.isin(transactions, list(left_out))
            rows = np.flatnonzero(gone & ~kept)
            if len(rows):
                file.add(block.take(rows), faults.errors)
        file.flush()

    def _discard_file(self) -> DiscardFile:
        if self._discards is None:
            self._discards = DiscardFile(discard_path(self._options))
        return self._discards


def _up_to(block: ChangeBlock, position: str) -> ChangeBlock:
    """Return the operations of a block up to a position."""
    early = pc.less_equal(block.position, position).fill_null(False)
    return block.take(np.flatnonzero(early.to_numpy(zero_copy_only=False)))


def _is_after(written: str | None, place: str) -> bool:
    """Return whether a row was written after a position, or does not state it."""
    return written is None or written > place


def _reasons(
    batch: SplitRead, faults: OperationErrors, left_out: frozenset[int]
) -> Mapping[str, int]:
    """Return the reasons of operations that are not applied, with how many have each."""
    found = Counter(map(reason_of, faults.errors.values()))
    gone = sum(int(_gone(block.order, own, faults, left_out).sum()) for block, own in batch.blocks)
    others = gone - len(faults.errors)
    return found + Counter({OTHERS: others} if others > 0 else {})


def _gone(
    order: Longs, transactions: Longs, faults: OperationErrors, left_out: frozenset[int]
) -> Mask:
    """Return which operations are not applied."""
    found: Mask = np.isin(order, list(faults.errors)) | np.isin(transactions, list(left_out))
    return found


def _with_values(batch: SplitRead, refusal: ValuesRefusedError) -> dict[int, TrailgateError]:
    """Return the operations that write a value that is refused, each with its error."""
    found: dict[int, TrailgateError] = {}
    refused = pa.array(list(refusal.errors), pa.string())
    table, field = (refusal.where.table or "").casefold(), (refusal.where.field or "").casefold()
    for name, own in batch.operations.items():
        if table not in (name.casefold(), str(own.table).casefold()):
            continue
        for at, column in enumerate(own.table.columns):
            if column.name.casefold() != field:
                continue
            places = [place for place, key in enumerate(own.table.key) if key == at]
            images = [one for place in places for one in (own.key[place], own.old_key[place])]
            written = np.ones(len(own), bool)
            if not places and own.values[at].values is not None:
                images = [own.values[at].values]
                written = (own.op_type != DELETE) | (not own.key)
                written &= ~own.values[at].is_missing(len(own))
            for values in images:
                if not pa.types.is_string(values.type):
                    continue
                bad = np.asarray(pc.fill_null(pc.is_in(values, refused), False)) & written
                for row in np.flatnonzero(bad).tolist():
                    found[int(own.order[row])] = refusal.errors[values[row].as_py()]
    return {number: one for number, one in found.items() if number not in batch.errors}


def _middle(batch: SplitRead) -> int | None:
    """Return the number of an operation near the middle of a batch that begins a transaction; None where there is one transaction."""
    pairs = [(own.order, own.transaction) for own in batch.operations.values()]
    order = np.concatenate([order for order, _ in pairs])
    sort = np.argsort(order)
    order, transaction = order[sort], np.concatenate([own for _, own in pairs])[sort]
    begins = order[1:][np.diff(transaction) != 0]
    return int(begins[len(begins) // 2]) if len(begins) else None


def _parted(batch: SplitRead, csn: str) -> tuple[SplitRead | None, SplitRead | None]:
    """Return the operations before the first transaction with a later CSN, and the others."""
    later = [
        own.order[above_csn(own.csn, csn).fill_null(False).to_numpy(zero_copy_only=False)]
        for own in batch.operations.values()
    ]
    first = min((int(order.min()) for order in later if len(order)), default=None)
    if first is None:
        return batch, None
    return _between(batch, 0, first), _between(batch, first, batch.rows)


def _between(batch: SplitRead, start: int, end: int) -> SplitRead | None:
    """Return the operations of a batch whose numbers are from ``start`` up to, but not including, ``end``; None where there are none."""

    def rows(order: Longs) -> Longs:
        return np.flatnonzero((order >= start) & (order < end))

    chosen = {name: own.take(rows(own.order)) for name, own in batch.operations.items()}
    operations = {name: own for name, own in chosen.items() if len(own)}
    if not operations or batch.last is None:
        return None
    end_at = batch.last
    if end < batch.rows:
        last = max(operations.values(), key=lambda own: int(own.order.max()))
        end_at = position_at(batch.last.trail, last, int(last.order.argmax()))
    return replace(
        batch,
        operations=operations,
        blocks=[
            (block.take(rows(block.order)), own[rows(block.order)]) for block, own in batch.blocks
        ],
        errors={number: one for number, one in batch.errors.items() if start <= number < end},
        last=end_at,
    )


def _extended(
    modes: TableModes,
    types: Callable[[TargetTable], TargetTable],
    table: TargetTable,
) -> TargetTable:
    return modes.of(str(table)).table(types(table))


def _typed(types: ChosenColumnTypes, sizes: bool, table: TargetTable) -> TargetTable:
    """Return a table with the types that the user chose; text has its length only where that is asked for."""
    found = types.of(table)
    if sizes:
        return found
    return replace(found, columns=tuple(replace(one, length=None) for one in found.columns))


def _fetch(target: Target, table: TargetTable, keys: pa.Table, keys_alone: bool) -> pa.Table:
    return target.rows(table, keys, keys_alone=keys_alone)


def _expected(operations: TargetOperations) -> TableChanges:
    """Return what operations write to a table whose rows fit them; what is replayed is not followed."""
    parts = [part for part, _ in operations.between_truncates()]
    nets, number = compute_net_changes(parts[-1])
    nets = nets.where(nets.expected | (nets.effect != RowEffect.DELETE))
    return TableChanges(nets, len(parts) > 1, replayed=int((number < 0).sum()))


def _report(
    operations: TargetOperations, steps: Sequence[TableChanges], left_out: int = 0
) -> TableReport:
    done = TableReport(operations=int(operations.weight.sum()) - left_out)
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
