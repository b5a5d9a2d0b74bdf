"""The tables of a target as one group uses them, and the changes planned to their definitions.

A table is looked up in the target when the first operation on it is read (`register`). If it does
not exist it will be created; if it lacks columns of the trail, they will be added. If the trail
redefines a source table, the target's table must be able to follow (`follow_definitions`). All
changes are planned first, and carried out before the next rows are written (`change_tables`). After
an error `restore` returns to an earlier state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa

from trailgate.apply.effects.column_types import ChosenColumnTypes
from trailgate.apply.effects.modes import MODES, VERSIONED, WITH_META, ApplyMode
from trailgate.apply.effects.redefinition import check_redefinition, find_widened_columns
from trailgate.apply.effects.tables import TargetTable, add_missing_columns, make_target_table
from trailgate.apply.jobs.options import ApplyOptions
from trailgate.apply.jobs.split_operations import KnownTable
from trailgate.apply.replicat.mapping import ReplicatMapping as MapStatements
from trailgate.apply.targets.checkpoints import build_dropped_table_error
from trailgate.apply.targets.target import (
    AppliedPosition,
    ApplyTarget,
)
from trailgate.errors import (
    DefinitionError,
    Where,
)
from trailgate.model.positions import short_position
from trailgate.model.tables import Table

NO_TABLE_HINT: Final = "Create it, or let apply create it: omit --no-create"
RENAME_HINT: Final = "Rename the trail's column in a parameter file (--params), with a COLMAP that lists all columns and has no USEDEFAULTS"
SAME_TARGET_HINT: Final = (
    "With --params, MAP {}, TARGET {} writes both as one table. Two MAP statements keep them apart if the first has "
    "FILTER (@STREQ (@GETENV ('GGHEADER', 'TABLENAME'), '{}') = 1) and each its own TARGET"
)


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A planned change to a target table: create it, add columns, or widen integer columns."""

    is_new: bool = False
    added: tuple[str, ...] = ()
    wider: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableModes:
    """The mode of each target table: from its MAP statements, or else the ``--mode`` of the run."""

    run: str
    meta: bool = False
    mapping: MapStatements | None = None

    @property
    def usual(self) -> ApplyMode:
        """The ``ApplyMode`` of the run, for target tables whose MAP statements name no mode."""
        return WITH_META if self.meta else MODES[self.run]

    def mode_name(self, table: str) -> str:
        """Return the name of a target table's mode.

        Raises OptionError if its MAP statements contradict each other.
        """
        mapped = None if self.mapping is None else self.mapping.mode(table)
        return mapped or self.run

    def mode_of(self, table: str) -> ApplyMode:
        """Return a target table's ``ApplyMode``."""
        name = self.mode_name(table)
        return self.usual if name == self.run else MODES[name]

    def extend(self, table: TargetTable) -> TargetTable:
        """Return a target table with the columns that its mode adds to those of the source.

        Raises DefinitionError if the source has a column with such a name, in any case.
        """
        mode = self.mode_of(str(table))
        names = {column.name.casefold(): column.name for column in table.columns}
        for column in mode.columns:
            spelled = names.get(column.name.casefold())
            if spelled is not None:
                option = "--meta" if mode is WITH_META else f"--mode {self.mode_name(str(table))}"
                problem = f"{option} adds the column {column.name}, but the trail already has a column of this name"
                where = Where(table=str(table), field=spelled)
                raise DefinitionError(problem, where=where, hint=_build_rename_hint(mode, names))
        return mode.table(table)


class TargetSchemas:
    """The definitions of a target's tables for one apply group (``--group``), and the changes planned to these definitions.

    ``known`` contains each table by the name with which apply would create it; the target may spell
    an existing table's name differently. ``defined`` has the last definition of each source table.
    If ``by_position`` is False, the positions of the group are not positions in a trail. They are
    then stored in ``positions``, and not with the tables in ``known``. ``bound`` returns the position of the last
    operation to apply to a table, and is set only for a ``BoundedTarget``.
    """

    def __init__(
        self,
        target: ApplyTarget,
        options: ApplyOptions,
        mapping: MapStatements | None,
        types: ChosenColumnTypes,
        *,
        bound: Callable[[TargetTable], str] | None = None,
        by_position: bool = True,
    ) -> None:
        self._target, self._options = target, options
        self._bound, self.by_position = bound, by_position
        self.modes = TableModes(options.mode, options.meta, mapping)
        self._types = types
        self._mapped: Callable[[Table], Sequence[Table]] = lambda table: (table,)
        self._mapping = mapping
        if mapping is not None:
            self._mapped = mapping.tables
        # The first source table of each target table.
        self._sources: dict[str, str] = {}
        self.known: dict[str, KnownTable] = {}
        self.positions: dict[str, str] = {}
        self.defined: dict[str, Table] = {}  # the last definition of each source table
        self._planned: dict[str, PlannedChange] = {}
        # Looks up the definition of a source table at a position. Without it a new run would take the
        # trail's newest definition as unchanged, and miss the redefinition that stopped the last run.
        self.definition_before: Callable[[str, str], Table | None] | None = None

    @property
    def extend(self) -> Callable[[TargetTable], TargetTable]:
        """A function that turns the target table made from a source table into the one to create.

        It sets the column types that the user chose, and adds the columns of the table's mode.
        """
        types = partial(_apply_types, self._types, self._options.sizes)
        return partial(_extend_table, self.modes, types)

    def state(self) -> tuple[dict[str, KnownTable], dict[str, PlannedChange]]:
        """Return the known tables and the planned changes, which can be passed to ``restore`` later."""
        return dict(self.known), dict(self._planned)

    def restore(self, known: dict[str, KnownTable], planned: dict[str, PlannedChange]) -> None:
        """Restore an earlier state of the known tables. With empty mappings, look up all tables again."""
        self.known, self._planned = known, planned

    def is_new(self, name: str) -> bool:
        """Return whether a target table is planned but not created yet."""
        return self._planned.get(name, PlannedChange()).is_new

    def register(self, name: str, expected: TargetTable, reached: AppliedPosition | None) -> None:
        """Look up a table in the target when it is first used, and plan to create it or add the columns that it lacks.

        ``expected`` is the table with which operations were converted. ``reached`` is the position
        up to which all tables of the group are applied.
        """
        known = self.known.get(name)
        if known is None:
            existing = self._target.find_table(expected)
            if existing is not None:
                self._check_mode(existing, expected)
            if existing is None and self._options.no_create:
                problem = "the target has no such table"
                raise DefinitionError(problem, where=Where(table=name), hint=NO_TABLE_HINT)
            at = self._target.position(expected if existing is None else existing)
            if existing is None and at is not None and self._bound is None:
                raise build_dropped_table_error(name)
            # A batch without operations on a table does not update its position, only that of all
            # tables. So the later of the two counts.
            done = max((one.position for one in (at, reached) if one), default="")
            if not self.by_position:
                self.positions[name], done = done, ""
            until = "" if self._bound is None else self._bound(expected)
            target = self._target.plan_table(expected) if existing is None else existing
            known = KnownTable(target, done, until)
            if existing is None:
                self._planned[name] = PlannedChange(is_new=True)
        known = replace(known, table=self._with_own_types(known.table, expected))
        whole = add_missing_columns(known.table, expected)
        added = tuple(column.name for column in whole.columns[len(known.table.columns) :])
        change = self._planned.get(name, PlannedChange())
        if added and not change.is_new:
            if self._options.schema_changes == "strict":
                problem = f"the trail has columns that the target's table lacks: {', '.join(added)}"
                raise DefinitionError(
                    problem, where=Where(table=name), hint="--schema-changes evolve adds them"
                )
            self._planned[name] = replace(change, added=change.added + added)
        self.known[name] = replace(known, table=whole)

    def _with_own_types(self, known: TargetTable, expected: TargetTable) -> TargetTable:
        """Return a known target table in which columns that the source did not have before, but has now, have their own types.

        A target may have described them as text, because their values were only kept.
        """
        wanted = {one.name.casefold() for one in expected.columns if not one.extra}
        new = {one.name for one in known.columns if one.extra and one.name.casefold() in wanted}
        found = self._target.find_table(expected) if new else None
        if found is None:
            return known
        own = {one.name: one for one in found.columns}
        columns = (own.get(one.name, one) if one.name in new else one for one in known.columns)
        return replace(known, columns=tuple(columns))

    def is_current(self, name: str, used: KnownTable) -> bool:
        """Return whether operations that were converted for the table ``used`` fit the table as the target defines it.

        The types of the columns must fit, and the range of operations to apply must be the same.
        """
        known = self.known[name]
        columns = {one.name.casefold(): one for one in known.table.columns}
        return (used.done, used.until) == (known.done, known.until) and all(
            one.makes_values_of(columns[one.name.casefold()]) for one in used.table.columns
        )

    def follow_definitions(self, defined: Mapping[str, Mapping[Table, str]]) -> dict[str, Table]:
        """Check changed definitions of source tables, plan the changes to their target tables, and return the last definition of each.

        Raises DefinitionError if a target table cannot follow a change.
        """
        last = dict(self.defined)
        for source, positions in defined.items():
            for table, first in sorted(positions.items(), key=lambda one: one[1]):
                before = last.get(source)
                if before is None:
                    self._check_only_source(table)
                    before = self._applied_definition(table)
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

    def _check_only_source(self, table: Table) -> None:
        """Raise DefinitionError if another table of the trail is written to the same target table, because their names differ only in case."""
        for mapped in self._mapped(table):
            name = str(self.extend(make_target_table(mapped)))
            known = self.known.get(name)
            target = name if known is None else str(known.table)
            key = target.casefold() if self._target.folds_names else target
            other = self._sources.setdefault(key, table.name)
            if self._are_confused(other, table.name, target):
                raise _build_same_target_error(other, table.name, target)

    def _are_confused(self, source: str, other: str, target: str) -> bool:
        """Return whether two source tables differ only in case, and no MAP statement names their target table."""
        is_named = self._mapping is not None and self._mapping.names_target(target)
        return source != other and source.casefold() == other.casefold() and not is_named

    def _applied_definition(self, table: Table) -> Table:
        """Return the definition of a source table at the last applied position. If nothing was applied yet, return the table itself."""
        if self.definition_before is None:
            return table
        for mapped in self._mapped(table):
            name = str(self.extend(make_target_table(mapped)))
            known = self.known.get(name)
            if known is not None and known.done and not self.is_new(name):
                earlier = self.definition_before(table.name, known.done) or table
                target = str(known.table)
                # Definitions are found ignoring case, so this one may be of another table.
                if not self._are_confused(earlier.name, table.name, target):
                    return earlier
                names = {str(self.extend(make_target_table(one))) for one in self._mapped(earlier)}
                if names & {name, target} or self._target.folds_names:
                    raise _build_same_target_error(earlier.name, table.name, target)
        return table

    def _redefine(self, old: Table, new: Table) -> None:
        """Check that a target table can follow a changed definition of its source table, and plan wider columns if needed."""
        name = str(self.extend(make_target_table(new)))
        known = self.known.get(name)
        if known is None:
            return
        strict, keyed = (
            self._options.schema_changes == "strict",
            self.modes.mode_name(name) != "append",
        )
        chosen = self._types.chosen_for(known.table)
        check_redefinition(old, new, known.table, chosen, strict=strict, keyed=keyed)
        change = self._planned.get(name, PlannedChange())
        wider = find_widened_columns(old, new, known.table)
        if wider and self._target.widens and not change.is_new:
            columns = (
                replace(one, type=pa.int64()) if one.name in wider else one
                for one in known.table.columns
            )
            self.known[name] = replace(known, table=replace(known.table, columns=tuple(columns)))
            self._planned[name] = replace(change, wider=change.wider + wider)

    def _check_mode(self, table: TargetTable, expected: TargetTable) -> None:
        """Raise DefinitionError if the columns of an existing table show that it was created in a different mode."""
        added = {column.name.casefold() for column in self.modes.mode_of(str(table)).columns}
        # Only columns that the source lacks can show the mode.
        of_source = {column.name.casefold() for column in expected.columns} - added
        names = {one.name for one in table.columns if one.name.casefold() not in of_source}
        chosen = self.modes.mode_name(str(table))
        for name, mode in MODES.items():
            markers = {column.name for column in mode.columns}
            # A table has the marker columns of a mode exactly if it was created in that mode.
            if markers and (markers <= names) != (name == chosen):
                how = "was" if markers <= names else "was not"
                raise DefinitionError(
                    f"the target's table {how} created with --mode {name}",
                    where=Where(table=str(table)),
                )

    def change_tables(self) -> None:
        """Carry out the planned changes in the target: create tables, widen columns and add columns."""
        for name, change in self._planned.items():
            table = self.known[name].table
            if change.is_new:
                self._target.create(self.modes.mode_of(name).stored(table))
            if change.wider:
                self._target.widen(table, change.wider)
            if change.added:
                self._target.add_columns(table, change.added)
        self._planned.clear()


def _extend_table(
    modes: TableModes,
    types: Callable[[TargetTable], TargetTable],
    table: TargetTable,
) -> TargetTable:
    return modes.extend(types(table))


def _build_same_target_error(one: str, other: str, target: str) -> DefinitionError:
    """Build the error for two source tables that would be written to one target table."""
    problem = f"the trail has the tables {one} and {other}, whose names differ only in case, and both would be written to {target}"
    hint = SAME_TARGET_HINT.format(one, target, one)
    return DefinitionError(problem, where=Where(table=other), hint=hint)


def _build_rename_hint(mode: ApplyMode, names: Collection[str]) -> str:
    """Build the hint for a source table that has a column with the name of a mode's column.

    ``names`` are the names of the source's columns in lower case.
    """
    versioned = {name: MODES[name] for name in sorted(VERSIONED)}
    for name, other in versioned.items():
        free = not any(column.name.casefold() in names for column in other.columns)
        if free and mode in versioned.values():
            return f"{RENAME_HINT}. Or use --mode {name}, whose columns have other names"
    return RENAME_HINT


def _apply_types(types: ChosenColumnTypes, sizes: bool, table: TargetTable) -> TargetTable:
    """Set the column types that the user chose in a table to create. Text columns keep their lengths only with ``sizes``."""
    typed = types.apply_to(table)
    if sizes:
        return typed
    return replace(typed, columns=tuple(replace(one, length=None) for one in typed.columns))
