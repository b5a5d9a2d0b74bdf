"""Compare the tables of a target with the tables that the trail should produce.

The trail is applied again, to a scratch DuckDB file, with the types of the target's tables and up
to the position of each table. Then the rows of the target are joined to the expected rows by key.
Memory is limited; larger data spills to files beside the scratch file. For each differing row a
second pass over the trail collects the positions of the operations on its key.

Both sides are computed by the same code, so this does not find errors of apply itself. It finds
changes that somebody else made to the tables.

If tables were loaded before apply began, the scratch file contains only what the trail determines
(``apply/effects/known_keys.py``): which keys exist, and which columns have known values. Only these
are compared. Other rows count as ``untouched``. The same is done if the first files of the trail no
longer exist, because the rows from those files exist only in the target.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

import numpy as np
import pyarrow as pa

from trailgate.apply.effects.exact_casts import CastGroup, cast_group_of
from trailgate.apply.effects.known_keys import (
    EXISTS_FLAG,
    LoadedTableChanges,
    add_known_flags,
    known_flag_name,
)
from trailgate.apply.effects.modes import MODES, VERSIONED, ComputeChanges
from trailgate.apply.effects.operation_errors import DISCARD, DUPLICATE, MISSING, STOP
from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.row_keys import Key, build_key_table, collect_keys
from trailgate.apply.effects.stored_types import spell_stored_values
from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.jobs.apply import ApplyRun, Progress, ThreadReading
from trailgate.apply.jobs.discards import DiscardFile, find_applied, get_discard_path
from trailgate.apply.jobs.options import OPTIONS, ApplyKeywords, ApplyOptions
from trailgate.apply.jobs.resolved_options import ResolvedApplyOptions, resolve_apply_options
from trailgate.apply.targets.target import (
    DISCARDS,
    AppliedPosition,
    ApplyTarget,
    CheckingTarget,
    TablePosition,
    group_positions,
    open_target,
)
from trailgate.columnar.rows import mask_equal_values
from trailgate.errors import (
    ApplyError,
    MissingDependencyError,
    OptionError,
    StorageError,
    TrailgateError,
    Where,
)
from trailgate.model.changes import ChangeBlock
from trailgate.model.positions import short_position
from trailgate.model.tables import Definitions
from trailgate.options import check_arguments, list_names
from trailgate.storage.files.addresses import Address
from trailgate.storage.files.trail_files import find_trail

if TYPE_CHECKING:
    from trailgate.apply.targets.duckdb import DuckDBTarget

SCHEMA: Final = "trailgate_verify"
SCRATCH: Final = re.compile(rf'("?){SCHEMA}(_\d+)?\1\.')  # before the name of an expected table
MEMORY: Final = "1GB"
SHOWN: Final = 20  # differing rows per table in a report
KINDS: Final = ("equal", "untouched", "missing", "extra", "different")
TIMED: Final = "Which versions exist depends on when batches were applied"
REMAINING: Final = "only rows with operations in the remaining files are compared, in the columns that these log; other rows count as untouched"
WHOLE: Final = "the trail begins at file number {}, and without the earlier files its rows cannot be compared: {}"
WHOLE_HINT: Final = "Restore the earlier files of the trail"
DISCARDED: Final = "operations that are in the discard file {} were skipped: {}"
NO_DISCARDS: Final = "the discard file {} does not exist, so discarded operations count as differences. Name another file with --discards"
APPLIED: Final = "operations in the discard file {} that were applied with --from are compared: {}. Lines that were changed before that count as differences"
COLLISIONS: Final = (
    "; so do rows that --on-collision inserted or overwrote, unless it is stated here too"
)
LOADED: Final = "The trail does not contain the versions from before the load"


@dataclass(frozen=True, slots=True)
class RowDifference:
    """A row of a target table that differs from the row expected by the trail.

    ``kind`` is "missing", "extra" or "different". ``columns`` are the differing columns, each with
    its expected and its actual value. ``positions`` are the positions of the operations on the
    row's key.
    """

    kind: str
    key: Mapping[str, Any]
    columns: Mapping[str, tuple[Any, Any]]
    positions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableComparison:
    """The number of equal and differing rows of a table, and the first differing rows.

    ``untouched`` rows belong to a loaded table, and the trail has no operations on them.
    ``left_out`` are columns that are not compared, because ``@DATENOW`` sets them to the time of
    apply.
    """

    equal: int = 0
    untouched: int = 0
    missing: int = 0
    extra: int = 0
    different: int = 0
    rows: tuple[RowDifference, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether every row of the table is as expected by the trail."""
        return not (self.missing or self.extra or self.different)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The comparison of each target table, and the position up to which the tables are applied. ``notices`` are sentences about parts of the trail that were not compared."""

    tables: Mapping[str, TableComparison]
    position: AppliedPosition
    notices: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether every row of all tables is as expected by the trail."""
        return all(one.is_equal for one in self.tables.values())


@dataclass(slots=True)
class _Expected(ApplyTarget):
    """The scratch DuckDB file as a target of apply, with the tables that the trail should produce.

    Each table has the types of the table in the ``real`` target, and is applied up to that table's
    position. ``whole`` is the position of all tables together. ``loaded``: the tables were loaded
    before apply began, so ``scratch`` contains only what the trail determines. ``tables`` has each
    expected table, and the real one or None.
    """

    scratch: DuckDBTarget
    real: ApplyTarget
    whole: AppliedPosition
    loaded: bool
    discards: DiscardFile | None = None
    left_out: set[str] = field(default_factory=set)  # the positions of discarded operations
    forgotten: dict[str, set[Key]] = field(default_factory=dict)  # their keys, by table
    tables: dict[str, tuple[TargetTable, TargetTable | None]] = field(default_factory=dict)
    widens: bool = True
    folds_names: bool = field(init=False)
    commits_alone: bool = False
    settled: str = field(init=False)
    until: str = field(init=False)
    effects: ComputeChanges | None = field(init=False)
    # The names of the tables, by name in lower case.
    _spellings: dict[str, list[str]] = field(default_factory=dict)
    _emptied: set[str] = field(default_factory=set)  # tables that were truncated
    _emptied_now: set[str] = field(default_factory=set)  # those of the batch not yet committed

    def __post_init__(self) -> None:
        self.folds_names = self.real.folds_names
        self.effects = LoadedTableChanges(self.is_whole).effects if self.loaded else None
        # All tables are at ``settled``, some are ahead of it if a run was killed, but none of them is
        # after ``until``.
        self.settled = self.whole.position
        self.until = max(self.settled, *(one.position for one in self.real.positions()), "")

    def position(self, table: TargetTable | None) -> AppliedPosition | None:
        return self.scratch.position(table)

    def bound(self, table: TargetTable) -> str:
        """Return the position up to which a table of the real target is applied: ``--verify`` expects no more."""
        theirs = self.tables[str(table)][1]
        applied = None if theirs is None else self.real.position(theirs)
        return max(self.whole.position, "" if applied is None else applied.position)

    def find_table(self, table: TargetTable) -> TargetTable | None:
        """Return an expected table of ``--verify``, and create it in the scratch file when it is first used."""
        theirs = self.real.find_table(table)
        if theirs is not None:
            theirs = _without_other_types(theirs)
        self.tables[str(table)] = (table, theirs)
        flat = self._flat(table)
        expected = self.scratch.find_table(flat)
        if expected is None:
            bare = _bare(flat if theirs is None else replace(theirs, name=flat.name))
            self.scratch.create(add_known_flags(bare) if self.loaded else bare)
            self.scratch.keep_tables()  # or a refused batch would roll them back
            expected = self.scratch.find_table(flat)
            assert expected is not None
        if self.loaded:
            expected = _without_flags(expected)
        return expected if theirs is None else _as_compared(expected, theirs)

    def discarded_rows(self, block: ChangeBlock) -> Collection[int]:
        """Return the numbers of a block's operations that ``--verify`` skips because they are in the discard file."""
        if self.discards is None:
            return ()
        # Skipped here as well, since the target lacks them too; their keys are noted in
        # `record_discarded`.
        numbers = self.discards.find_listed(block)
        chosen = np.flatnonzero(np.isin(block.order, numbers))
        self.left_out.update(block.position.take(pa.array(chosen)).to_pylist())
        return numbers

    def record_discarded(self, operations: TargetOperations) -> None:
        """Record the keys of discarded operations for ``--verify``.

        In a loaded table it is unknown whether their rows exist.
        """
        keys = self.forgotten.setdefault(str(operations.table), set())
        keys.update(collect_keys(operations))

    def is_whole(self, table: TargetTable) -> bool:
        """Return whether every row of an expected table is known: it was not loaded, or a truncate has emptied it."""
        return not self.loaded or str(table) in self._emptied

    def scratch_name(self, name: str) -> tuple[str, str]:
        """Return the schema and name of an expected table in the scratch file.

        The scratch file ignores the case of names. If the real target has several tables whose
        names differ only in case, each of them gets its own schema in the scratch file.
        """
        spellings = self._spellings.setdefault(name.casefold(), [])
        if name not in spellings:
            spellings.append(name)
        number = spellings.index(name)
        return (f"{SCHEMA}_{number}" if number else SCHEMA, name)

    def _flat(self, table: TargetTable) -> TargetTable:
        return replace(table, name=self.scratch_name(str(table)))

    def plan_table(self, table: TargetTable) -> TargetTable:
        return self.real.plan_table(table)

    def create(self, table: TargetTable) -> None:
        self.scratch.create(table)  # never called, because find_table() creates missing tables

    def add_columns(self, table: TargetTable, names: tuple[str, ...]) -> None:
        self.scratch.add_columns(table, names)

    def widen(self, table: TargetTable, names: tuple[str, ...]) -> None:
        self.scratch.widen(table, names)

    def rows(self, table: TargetTable, keys: pa.Table, *, keys_alone: bool) -> pa.Table:
        """Return the rows of the scratch file with any of the keys.

        Rows of a loaded table include the flags that state what is known.
        """
        bare = _bare(table)
        if not self.loaded:
            return self.scratch.rows(bare, keys, keys_alone=keys_alone)
        # The scratch table has a flag per column, and last whether the row exists. For keys alone,
        # only the key and that last column are read.
        whole = add_known_flags(bare)
        if keys_alone:
            columns = (*(bare.columns[at] for at in bare.key), whole.columns[-1])
            whole = replace(bare, columns=columns, key=tuple(range(len(bare.key))))
        return self.scratch.rows(whole, keys, keys_alone=False)

    def write(self, effects: TableChanges, at: AppliedPosition) -> None:
        """Write changes to the scratch table, after the real target has checked their values."""
        # A value that only the real database can check is cast there, and rolled back. So a value
        # that it refuses is an error here as it was for apply.
        theirs = self.tables[effects.nets.table.name[1]][1]
        if theirs is not None and isinstance(self.real, CheckingTarget):
            nets = effects.nets
            real = replace(nets.table, name=theirs.name)
            if self.loaded:
                # The flags of known values are the last columns, and the real table does not have
                # them.
                real = _without_flags(real)
                nets = replace(nets, values=nets.values[: len(real.columns)])
            try:
                self.real.check_values(replace(effects, nets=replace(nets, table=real)))
            finally:
                # Nothing of the check may stay in the real table, also after an error.
                self.real.rollback()
        bare = replace(effects, nets=replace(effects.nets, table=_bare(effects.nets.table)))
        self.scratch.write(bare, at)
        if effects.emptied:
            self._emptied_now.add(str(effects.nets.table))

    def commit(self, at: AppliedPosition) -> None:
        self.scratch.commit(at)
        # A truncate is only certain with the commit, since a batch that is rolled back is read
        # again.
        self._emptied |= self._emptied_now
        self._emptied_now.clear()

    def rollback(self) -> None:
        self.scratch.rollback()
        self._emptied_now.clear()

    def positions(self) -> list[TablePosition]:
        return self.scratch.positions()

    def scan(self, table: TargetTable) -> pa.RecordBatchReader:
        return self.scratch.scan(table)

    def release(self) -> None:
        pass

    def close(self) -> None:
        self.scratch.close()


@check_arguments
@list_names(ApplyKeywords, OPTIONS)
def verify_tables(
    trail: Address,
    to: str,
    *,
    examples: int = SHOWN,
    definitions: Address | Definitions | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Unpack[ApplyKeywords],
) -> VerifyReport:
    """Compare the tables of a target with the tables expected by the trail, and return the differences.

    Use the same options as for apply. The tables are assumed to have been empty at first, unless
    ``after_csn``, ``after``, ``overlay_until`` or ``on_collision`` show that they were loaded. In
    loaded tables, only rows with operations in the trail are compared, and only in the logged
    columns. If the trail's first files are missing, tables of current rows are compared in the same
    way, with a notice. For each table the first ``examples`` differing rows are returned, with the
    positions of the operations on them.

    Raises OptionError if loaded tables have a mode other than "current", or if row versions have
    columns with the time of apply (``@DATENOW``); MissingDependencyError if DuckDB is not
    installed; and everything that ``apply_trail`` raises.
    """
    mapped = _resolve_options(ApplyOptions(**OPTIONS.read(options)))
    given = mapped.options
    loaded, others = _is_loaded(given), mapped.modes - {"current"}
    _check_modes(mapped, loaded=loaded)
    begin = find_trail(trail, definitions or mapped.definitions).begin.number
    # Without the first files, rows of unknown origin are in the target, as in a loaded table.
    is_partial = begin > 0 and not loaded and not others
    reading = ThreadReading(threads)
    discards = _discards(to, given)
    with (
        tempfile.TemporaryDirectory(prefix="trailgate-verify-") as folder,
        closing(open_target(to, given.group)) as real,
        _name_real_tables(begin),
    ):
        whole = real.position(None)
        if whole is None:
            real.release()
            group_positions(to)  # raises the error of a target that does not exist
            raise StorageError(f"group {given.group} has applied nothing", where=Where(source=to))

        def make_expected(file: str) -> _Expected:
            scratch = _open_scratch(Path(folder, file), given.group)
            scratch.limit_memory(MEMORY, folder)
            return _Expected(scratch, real, whole, loaded or is_partial, discards)

        def begin_run(expected: _Expected) -> ApplyRun:
            # Operations discarded in the comparison must not reach the user's discard file.
            own = replace(given, discards=str(Path(folder, "discards.jsonl")))
            run = ApplyRun(
                trail, to, own, definitions=definitions, reading=reading, target=expected
            )
            run.check_source(whole)
            return run

        expected = make_expected("expected.duckdb")
        with begin_run(expected) as run:
            notices = (*run.to_end(progress).notices, *([REMAINING] if is_partial else []))
            comparisons = _compare_tables(expected, run.mapped, examples)
            # Not by the counts: with examples=0 no rows are returned, so no positions are needed.
            differs = any(one.rows for one in comparisons.values())
            notices += _discard_notices(expected, run, given, differs=differs)
        # A second pass over the trail, only to find the operations of the differing rows.
        if differs:
            with begin_run(make_expected("positions.duckdb")) as run:
                comparisons = _with_positions(comparisons, run.read_batches())
    return VerifyReport(comparisons, whole, notices)


def _resolve_options(options: ApplyOptions) -> ResolvedApplyOptions:
    """Return the options of an apply for ``--verify``, which ignores options that keep apply from writing."""
    mapped = resolve_apply_options(options)
    given = replace(mapped.options, dry_run=False, no_create=False)
    if given.discards is not None and given.on_error == STOP and given.params is None:
        # The file shows that the apply has discarded operations. A parameter file states that itself.
        given = replace(given, on_error=DISCARD)
    return replace(mapped, options=given)


def _discard_notices(
    expected: _Expected, run: ApplyRun, options: ApplyOptions, *, differs: bool
) -> tuple[str, ...]:
    """Return notices about how discarded operations affect the comparison of ``--verify``, if they do.

    Operations in the discard file were skipped here too. If there are differences, they may come
    from operations that apply discarded if the file is missing, or from lines of the file that were
    applied.
    """
    path, discards, notices = get_discard_path(options), expected.discards, []
    if expected.left_out:
        notices.append(DISCARDED.format(path, len(expected.left_out)))
    if differs and run.keeps_rows and discards is None:
        notices.append(NO_DISCARDS.format(path))
    if differs and discards is not None and discards.skipped_lines:
        # Without --on-collision, an update that inserted a row is an error here, as in the first run.
        more = COLLISIONS if options.on_collision == "stop" else ""
        notices.append(APPLIED.format(path, discards.skipped_lines) + more)
    return tuple(notices)


def _is_loaded(options: ApplyOptions) -> bool:
    """Return whether the options state that the tables were loaded before the trail was applied."""
    return (
        bool(options.after_csn or options.after or options.overlay_until)
        or options.on_collision != "stop"
    )


def _check_modes(mapped: ResolvedApplyOptions, *, loaded: bool) -> None:
    """Raise OptionError if ``--verify`` cannot compare the tables of a mode."""
    others = sorted(mapped.modes - {"current"})
    if loaded and others:
        raise OptionError(f"loaded tables of --mode {others[0]} are not compared", hint=LOADED)
    if mapped.mapping is not None and mapped.mapping.has_times and VERSIONED & mapped.modes:
        problem = "row versions with @DATENOW columns cannot be compared"
        raise OptionError(problem, hint=TIMED)


def _compare_tables(
    expected: _Expected, mapped: ResolvedApplyOptions, examples: int
) -> dict[str, TableComparison]:
    """Compare every expected table with the real one, by name."""
    mapping = mapped.mapping
    return {
        name: _compare(
            expected,
            name,
            mapped.mode(name),
            examples,
            mapping.time_columns(name) if mapping else (),
        )
        for name in expected.tables
    }


def _open_scratch(path: Path, group: str) -> DuckDBTarget:
    """Open the scratch DuckDB file of ``--verify``. Raises MissingDependencyError if DuckDB is not installed."""
    try:
        from trailgate.apply.targets.duckdb import DuckDBTarget  # noqa: PLC0415  of an extra
    except ModuleNotFoundError:
        problem = "tables are compared with the package duckdb"
        raise MissingDependencyError.of_extra(problem, "duckdb") from None
    return DuckDBTarget(str(path), group)


def _discards(to: str, options: ApplyOptions) -> DiscardFile | None:
    """Open the group's discard file, whose operations ``--verify`` skips, or return None if it does not exist.

    The target already contains the lines that were applied with ``--from``. They are not read.
    """
    path = get_discard_path(options)
    # Not Path.exists(), which raises an error if the name is longer than a file's can be.
    if not os.path.exists(path):  # noqa: PTH110
        return None
    with closing(open_target(to, f"{options.group}{DISCARDS}")) as repaired:
        done = repaired.position(None)
    # A repair stores the hash of the file that it applied, in place of a CSN.
    start = 0 if done is None else find_applied(Path(path).read_bytes(), done.csn)
    return DiscardFile(path, start=start, read_only=True)


@contextmanager
def _name_real_tables(begin: int) -> Iterator[None]:
    """Context manager: errors of ``--verify`` name the target's table instead of the scratch file's.

    ``begin`` is the number of the trail's first file. If earlier files are missing, an error about
    a missing or existing row becomes a StorageError that states this.
    """
    try:
        yield
    except TrailgateError as error:
        error.problem = SCRATCH.sub("", error.problem)
        if error.where.table is not None:
            error.where = replace(error.where, table=SCRATCH.sub("", error.where.table, 1))
        if begin and isinstance(error, ApplyError) and set(error.numbers) & {*DUPLICATE, *MISSING}:
            problem = WHOLE.format(begin, error.problem)
            raise StorageError(problem, where=error.where, hint=WHOLE_HINT) from None
        raise


def _compare(
    expected: _Expected, name: str, mode: str, examples: int, timed: Collection[str] = ()
) -> TableComparison:
    """Compare one expected table with the real one, except for the columns in ``timed``."""
    wanted, theirs = expected.tables[name]
    ours = expected.scratch.find_table(replace(wanted, name=expected.scratch_name(name)))
    assert ours is not None
    asked = {column.name.casefold() for column in wanted.columns}
    names = [column.name for column in ours.columns if column.name.casefold() in asked]
    excluded = tuple(name for name in names if name.casefold() in timed)
    names = [name for name in names if name not in excluded]
    ours = MODES[mode].stored(ours)
    # A table of --mode append has no key. Its rows are identified by their position in the trail.
    key = list(ours.key_names) or ["_position"]
    none = ours.schema.empty_table().to_reader()
    rows = none if theirs is None else _read_canonical(theirs, expected.real)
    if expected.loaded and (forgotten := expected.forgotten.get(str(ours))):
        expected.scratch.mark_unknown(ours, build_key_table(ours, list(forgotten)))
    counts, differing = expected.scratch.compare(
        ours, rows, names, examples, determined=expected.loaded, is_whole=expected.is_whole(ours)
    )
    return TableComparison(
        **{one: int(counts.get(one, 0)) for one in KINDS},
        rows=tuple(_difference(row, names, key) for row in differing),
        left_out=excluded,
    )


def _bare(table: TargetTable) -> TargetTable:
    """Return a target table as the scratch file of ``--verify`` has it: columns have Arrow types without the database's restrictions."""
    columns = tuple(
        replace(one, stored=None, extra=False, computed=False, on_insert=False)
        for one in table.columns
    )
    return replace(table, columns=columns)


def _without_other_types(table: TargetTable) -> TargetTable:
    """Return a real table without the columns that the trail lacks and whose types DuckDB stores differently, such as structs.

    They are not compared.
    """
    return table.without(
        at
        for at, one in enumerate(table.columns)
        if one.extra and cast_group_of(one.type) is CastGroup.OTHER
    )


def _without_flags(table: TargetTable) -> TargetTable:
    """Return a table of known keys without its flag columns, which state what is known."""
    flags = {EXISTS_FLAG, *(known_flag_name(one.name) for one in table.columns)}
    return replace(table, columns=tuple(one for one in table.columns if one.name not in flags))


def _as_compared(table: TargetTable, theirs: TargetTable) -> TargetTable:
    """Copy the stored types of the real table to a scratch table, so that values are checked and spelled in the same way."""
    columns = tuple(
        replace(
            column,
            number=real.number,
            stored=None if real.stored is None else replace(real.stored, canonical=True),
            extra=real.extra,
        )
        for column, real in zip(table.columns, theirs.columns, strict=True)
    )
    return replace(table, columns=columns)


def _read_canonical(table: TargetTable, real: ApplyTarget) -> pa.RecordBatchReader:
    """Read the rows of a target table, with values in the canonical spelling, in which they can be compared."""
    rows = real.scan(table)
    if all(one.stored is None for one in table.columns):
        return rows
    batches = (_canonical_batch(table, batch) for batch in rows)
    return pa.RecordBatchReader.from_batches(rows.schema, batches)


def _canonical_batch(table: TargetTable, batch: pa.RecordBatch) -> pa.RecordBatch:
    stored = {one.name: one.stored for one in table.columns}
    columns = [
        spell_stored_values(batch[field.name], stored.get(field.name)).cast(field.type)
        for field in batch.schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _difference(row: tuple[Any, ...], names: list[str], key: list[str]) -> RowDifference:
    """Convert a row that the comparison of a table returned to a ``RowDifference``.

    A missing or extra row lists all columns, a different row only the differing ones.
    """
    # After the kind, each column has two values: the expected and the actual one.
    kind, values = row[0], row[1:]
    pairs = {name: (values[2 * at], values[2 * at + 1]) for at, name in enumerate(names)}
    # An extra row has only actual values (place 1 of a pair), every other row has expected ones
    # (place 0).
    key_values = {name: pairs[name][kind == "extra"] for name in key}
    differing = {
        name: pair for name, pair in pairs.items() if kind != "different" or not _is_same(*pair)
    }
    return RowDifference(kind, key_values, differing)


def _is_same(expected: Any, actual: Any) -> bool:
    """Return whether two values of a row are equal. NaN equals NaN, as in the statement that compares the tables."""
    both_nan = expected != expected and actual != actual  # noqa: PLR0124
    return bool(both_nan or expected == actual)


def _with_positions(
    comparisons: Mapping[str, TableComparison], reads: Iterable[Mapping[str, TargetOperations]]
) -> dict[str, TableComparison]:
    """Add to each differing row the positions of the operations on its key."""
    wanted = {name: one.rows for name, one in comparisons.items() if one.rows}
    positions = _positions(reads, wanted)
    rows = {
        name: tuple(
            replace(row, positions=tuple(row_positions))
            for row, row_positions in zip(differing, positions[name], strict=True)
        )
        for name, differing in wanted.items()
    }
    return {name: replace(one, rows=rows.get(name, ())) for name, one in comparisons.items()}


def _positions(
    reads: Iterable[Mapping[str, TargetOperations]], wanted: Mapping[str, tuple[RowDifference, ...]]
) -> dict[str, list[list[str]]]:
    """Return for each differing row of each table the positions of the operations on its key.

    ``reads`` are the operations of each batch, by table.
    """
    positions: dict[str, list[list[str]]] = {
        name: [[] for _ in rows] for name, rows in wanted.items()
    }
    for read in reads:
        for name, rows in wanted.items():
            operations = read.get(name)
            if operations is not None and operations.key:
                for at, row in enumerate(rows):
                    positions[name][at] += _positions_on_key(operations, row)
    return positions


def _positions_on_key(operations: TargetOperations, row: RowDifference) -> Iterator[str]:
    """Yield the positions of the operations on a row's key."""
    # An operation is on the row's key if its new or its old key equals it in all columns.
    chosen = np.zeros(len(operations), bool)
    for columns in (operations.key, operations.old_key):
        equal_keys = np.ones(len(operations), bool)
        for column, value in zip(columns, row.key.values(), strict=False):
            sought = pa.repeat(pa.scalar(value, column.type), len(column))
            equal_keys &= mask_equal_values(column, sought)
        chosen |= equal_keys
    for at in np.flatnonzero(chosen).tolist():
        yield short_position(operations.position[at].as_py())
