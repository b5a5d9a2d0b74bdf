"""The tables of a target compared with what the trail makes of them: rows that are missing, surplus or different, and the operations that made them.

The trail is applied to a file of DuckDB, in the types of the target's tables and as far as each of them is applied. That file and the target's rows are joined by key there, within a bound of
memory; what needs more goes to files beside it. So the same engine is used twice, and what it does wrong is not found: what others did to the tables is.

Of tables that were loaded first that file has what the trail determines (``apply/effects/determined.py``): the rows that are known to be there or not, and their known columns. Only these are compared. Rows of which
nothing is known are counted as ``untouched``. The same holds for a trail whose first files are not there any more, since their rows are in the target alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.batch import TableChanges, build_key_table
from trailgate.apply.effects.determined import (
    EXISTS_FLAG,
    LoadedTableChanges,
    add_known_flags,
    known_flag_name,
)
from trailgate.apply.effects.faults import DUPLICATE, MISSING
from trailgate.apply.effects.modes import MODES, ComputeChanges
from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.replay import Key, collect_keys
from trailgate.apply.effects.stored_types import spell_stored_values
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.jobs.apply import ApplyRun, Progress, Reading
from trailgate.apply.jobs.discards import DiscardFile, content_digest, discard_path
from trailgate.apply.jobs.options import OPTIONS, ApplyKeywords, ApplyOptions
from trailgate.apply.jobs.parameters import mapped_options
from trailgate.apply.targets.duckdb import TableTarget as Scratch
from trailgate.apply.targets.target import (
    CheckingTarget,
    Position,
    TablePosition,
    Target,
    open_target,
)
from trailgate.columnar.digits import short_position
from trailgate.errors import ApplyError, OptionError, StorageError, TrailgateError, Where
from trailgate.model.changes import ChangeBlock
from trailgate.model.tables import Definitions
from trailgate.options import check_arguments, list_names
from trailgate.storage.files.addresses import Address
from trailgate.storage.files.trail_files import find_trail

SCHEMA: Final = "trailgate_verify"
ACTUAL: Final = "trailgate_actual"
MEMORY: Final = "1GB"
SHOWN: Final = 20  # differing rows of a table that are shown
KINDS: Final = ("equal", "untouched", "missing", "surplus", "different")
TIMED: Final = "Which versions there are depends on when batches were applied"
REMAINING: Final = "of rows, those that the remaining files have operations on are compared, in the columns that these log; the others are untouched"
WHOLE: Final = "the trail begins at file number {}, and without the operations of earlier files its rows cannot be compared: {}"
WHOLE_HINT: Final = "Put the earlier files of the trail back to compare"
DISCARDED: Final = "operations that are in the discard file {} were left out: {}"
NO_DISCARDS: Final = "there is no discard file {}, so operations that were discarded make differences: --discards names another file"
LOADED: Final = "The trail does not have the versions that were there before it"


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that is not as the trail makes it: ``kind`` is missing, surplus or different.

    ``columns`` are those that differ, each with the value that the trail gives and the one in the target. ``positions`` are those of the operations on its key.
    """

    kind: str
    key: Mapping[str, Any]
    columns: Mapping[str, tuple[Any, Any]]
    positions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableComparison:
    """How many rows of a table are as the trail makes them, and how many are not; the first of these.

    ``untouched`` rows are those of a loaded table that the trail has no operations on. ``left_out`` are columns that are not compared, since @DATENOW gives them the time at which a batch was applied.
    """

    equal: int = 0
    untouched: int = 0
    missing: int = 0
    surplus: int = 0
    different: int = 0
    rows: tuple[Difference, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Return whether all rows are as the trail makes them."""
        return not (self.missing or self.surplus or self.different)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The comparison of each target table, and how far the tables are applied. ``notices`` name what was not read of the trail."""

    tables: Mapping[str, TableComparison]
    position: Position
    notices: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Return whether all tables are as the trail makes them."""
        return all(one.is_equal for one in self.tables.values())


@dataclass(slots=True)
class _Expected(Target):
    """The target of the comparison: tables of a scratch file in the types of the real ones, each up to the position that the real one is applied to."""

    scratch: Scratch
    real: Target
    whole: Position
    loaded: bool
    discards: DiscardFile | None = None
    left_out: set[str] = field(default_factory=set)  # positions of discarded operations
    forgotten: dict[str, set[Key]] = field(default_factory=dict)  # keys of them
    tables: dict[str, tuple[TargetTable, TargetTable | None]] = field(default_factory=dict)
    widens: bool = True
    commits_alone: bool = False
    settled: str = field(init=False)
    until: str = field(init=False)
    effects: ComputeChanges | None = field(init=False)
    _emptied: set[str] = field(default_factory=set)  # tables that were truncated
    _emptied_now: set[str] = field(default_factory=set)  # by the batch that is written

    def __post_init__(self) -> None:
        self.effects = LoadedTableChanges(self.is_whole).effects if self.loaded else None
        self.settled = self.whole.position
        self.until = max(self.settled, *(one.position for one in self.real.positions()), "")

    def position(self, table: TargetTable | None) -> Position | None:
        return self.scratch.position(table)

    def bound(self, table: TargetTable) -> str:
        """Return the position up to which the real table is applied."""
        theirs = self.tables[str(table)][1]
        own = None if theirs is None else self.real.position(theirs)
        return max(self.whole.position, "" if own is None else own.position)

    def held(self, table: TargetTable) -> TargetTable | None:
        theirs = self.real.held(table)
        self.tables[str(table)] = (table, theirs)
        flat = self._flat(table)
        found = self.scratch.held(flat)
        if found is None:
            bare = _bare(flat if theirs is None else replace(theirs, name=flat.name))
            self.scratch.create(add_known_flags(bare) if self.loaded else bare)
            self.scratch.keep_tables()  # a batch that is refused is rolled back
            found = self.scratch.held(flat)
            assert found is not None
        if self.loaded:
            found = _without_flags(found)
        return found if theirs is None else _as_compared(found, theirs)

    def discarded(self, block: ChangeBlock) -> Collection[int]:
        """Return the numbers of a block's operations that are in the discard file."""
        if self.discards is None:
            return ()
        found = self.discards.listed(block)
        chosen = np.flatnonzero(np.isin(block.order, found))
        self.left_out.update(block.position.take(pa.array(chosen)).to_pylist())
        return found

    def leave_out(self, operations: TargetOperations) -> None:
        """Note the keys of discarded operations: of a loaded table nothing states whether their rows are there."""
        keys = self.forgotten.setdefault(str(operations.table), set())
        keys.update(collect_keys(operations))

    def is_whole(self, table: TargetTable) -> bool:
        """Return whether no rows of a table are unknown."""
        return not self.loaded or str(table) in self._emptied

    def _flat(self, table: TargetTable) -> TargetTable:
        return replace(table, name=(SCHEMA, str(table)))

    def planned(self, table: TargetTable) -> TargetTable:
        return self.real.planned(table)

    def create(self, table: TargetTable) -> None:
        self.scratch.create(table)  # not called: held() creates a table

    def add_columns(self, table: TargetTable, names: tuple[str, ...]) -> None:
        self.scratch.add_columns(table, names)

    def widen(self, table: TargetTable, names: tuple[str, ...]) -> None:
        self.scratch.widen(table, names)

    def rows(self, table: TargetTable, keys: pa.Table, *, keys_alone: bool) -> pa.Table:
        bare = _bare(table)
        if not self.loaded:
            return self.scratch.rows(bare, keys, keys_alone=keys_alone)
        whole = add_known_flags(bare)
        if keys_alone:
            columns = (*(bare.columns[at] for at in bare.key), whole.columns[-1])
            whole = replace(bare, columns=columns, key=tuple(range(len(bare.key))))
        return self.scratch.rows(whole, keys, keys_alone=False)

    def write(self, effects: TableChanges, at: Position) -> None:
        theirs = self.tables[effects.nets.table.name[1]][1]
        if theirs is not None and isinstance(self.real, CheckingTarget):
            nets = effects.nets
            real = replace(nets.table, name=theirs.name)
            if self.loaded:
                real = _without_flags(real)
                nets = replace(nets, values=nets.values[: len(real.columns)])
            try:
                self.real.check_values(replace(effects, nets=replace(nets, table=real)))
            finally:
                self.real.rollback()
        bare = replace(effects, nets=replace(effects.nets, table=_bare(effects.nets.table)))
        self.scratch.write(bare, at)
        if effects.emptied:
            self._emptied_now.add(str(effects.nets.table))

    def commit(self, at: Position) -> None:
        self.scratch.commit(at)
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
    shown: int = SHOWN,
    definitions: Address | Definitions | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Unpack[ApplyKeywords],
) -> VerifyReport:
    """Compare the tables that a trail was applied to with what it makes of them; return what differs.

    The options are those that the trail was applied with. Tables were empty at first, unless ``after_csn``, ``overlay_until`` or ``on_collision`` state that they were loaded: of these the rows
    that the trail has operations on are compared, in the columns that are logged. Of each table the first ``shown`` rows that differ are returned, with the positions of the operations on
    them.

    Where the trail's first files are missing, tables of current rows are compared as loaded ones; a notice states it.

    Raises OptionError where loaded tables have another mode than current rows, and else what ``apply_trail`` raises.
    """
    mapped = mapped_options(ApplyOptions(**OPTIONS.read(options)))
    given = replace(mapped.options, dry_run=False, no_create=False)
    loaded = bool(given.after_csn or given.overlay_until) or given.on_collision != "stop"
    others = sorted(mapped.modes - {"current"})
    if loaded and others:
        raise OptionError(f"loaded tables of --mode {others[0]} are not compared", hint=LOADED)
    begin = find_trail(trail, definitions or mapped.definitions).begin.number
    is_partial = begin > 0 and not loaded and not others
    reading = Reading(threads)
    discards = _discards(to, given)
    with (
        tempfile.TemporaryDirectory(prefix="trailgate-verify-") as folder,
        closing(open_target(to, given.group)) as real,
        _told_of_target(begin),
    ):
        whole = real.position(None)
        if whole is None:
            raise StorageError(f"group {given.group} has applied nothing", where=Where(source=to))

        def run(file: str) -> tuple[ApplyRun, _Expected]:
            scratch = Scratch(str(Path(folder, file)), given.group)
            expected = _Expected(scratch, real, whole, loaded or is_partial, discards)
            expected.scratch.limit_memory(MEMORY, folder)
            own = replace(given, discards=str(Path(folder, "discards.jsonl")))
            made = ApplyRun(
                trail, to, own, definitions=definitions, reading=reading, target=expected
            )
            made.check_source(whole)
            return made, expected

        first, expected = run("expected.duckdb")
        with first:
            mapping = first.mapped.mapping
            if mapping is not None and mapping.has_times and "history" in mapped.modes:
                problem = "versions of rows with columns of @DATENOW are not compared"
                raise OptionError(problem, hint=TIMED)
            notices = (*first.to_end(progress).notices, *([REMAINING] if is_partial else []))
            found = {
                name: _compare(
                    expected, name, mapped.mode(name), shown, mapping.timed(name) if mapping else ()
                )
                for name in expected.tables
            }
            differs = any(one.rows for one in found.values())
            if expected.left_out:
                note = DISCARDED.format(discard_path(given), len(expected.left_out))
                notices = (*notices, note)
            elif differs and first.keeps and discards is None:
                notices = (*notices, NO_DISCARDS.format(discard_path(given)))
        if differs:
            again, _ = run("positions.duckdb")
            with again:
                found = _with_positions(found, again.reads())
    return VerifyReport(found, whole, notices)


def _discards(to: str, options: ApplyOptions) -> DiscardFile | None:
    """Return the discard file of a group; None if there is none, or if all its lines were applied as they are."""
    path = Path(discard_path(options))
    if not path.exists():
        return None
    with closing(open_target(to, f"{options.group}.discards")) as repaired:
        done = repaired.position(None)
    if done is not None and done.csn == content_digest(path.read_bytes()):
        return None
    return DiscardFile(str(path), read_only=True)


@contextmanager
def _told_of_target(begin: int) -> Iterator[None]:
    """Let errors name the target's table, and not the scratch file's; those of rows that are not there state that the trail begins at a later file."""
    try:
        yield
    except TrailgateError as error:
        for own in (f"{SCHEMA}.", f'"{SCHEMA}".'):
            error.problem = error.problem.replace(own, "")
        if error.where.table is not None:
            error.where = replace(error.where, table=error.where.table.removeprefix(f"{SCHEMA}."))
        if begin and isinstance(error, ApplyError) and set(error.numbers) & {*DUPLICATE, *MISSING}:
            problem = WHOLE.format(begin, error.problem)
            raise StorageError(problem, where=error.where, hint=WHOLE_HINT) from None
        raise


def _compare(
    expected: _Expected, name: str, mode: str, shown: int, timed: Collection[str] = ()
) -> TableComparison:
    """Compare one table of the scratch file with the real one, but for columns that are ``timed``."""
    wanted, theirs = expected.tables[name]
    ours = expected.scratch.held(replace(wanted, name=(SCHEMA, name)))
    assert ours is not None
    asked = {column.name.casefold() for column in wanted.columns}
    names = [column.name for column in ours.columns if column.name.casefold() in asked]
    left_out = tuple(name for name in names if name.casefold() in timed)
    names = [name for name in names if name not in left_out]
    ours = MODES[mode].stored(ours)
    key = list(ours.key_names) or ["_position"]
    none = ours.schema.empty_table().to_reader()
    rows = none if theirs is None else _spelled(theirs, expected.real)
    if expected.loaded and (gone := expected.forgotten.get(str(ours))):
        expected.scratch.forget(ours, build_key_table(ours, list(gone)))
    counts, differing = expected.scratch.compare(
        ours, rows, names, shown, determined=expected.loaded, is_whole=expected.is_whole(ours)
    )
    return TableComparison(
        **{one: int(counts.get(one, 0)) for one in KINDS},
        rows=tuple(_difference(row, names, key) for row in differing),
        left_out=left_out,
    )


def _bare(table: TargetTable) -> TargetTable:
    """Return a table for the scratch file, whose columns have Arrow's types and take all values."""
    columns = tuple(
        replace(one, stored=None, extra=False, computed=False, on_insert=False)
        for one in table.columns
    )
    return replace(table, columns=columns)


def _without_flags(table: TargetTable) -> TargetTable:
    """Return a table without the columns that state what is known of its rows."""
    flags = {EXISTS_FLAG, *(known_flag_name(one.name) for one in table.columns)}
    return replace(table, columns=tuple(one for one in table.columns if one.name not in flags))


def _as_compared(found: TargetTable, theirs: TargetTable) -> TargetTable:
    """Return a table of the scratch file whose values are checked as those of the real one, and spelled as they are compared."""
    columns = tuple(
        replace(
            own,
            number=real.number,
            stored=None if real.stored is None else replace(real.stored, canonical=True),
            extra=real.extra,
        )
        for own, real in zip(found.columns, theirs.columns, strict=True)
    )
    return replace(found, columns=columns)


def _spelled(table: TargetTable, real: Target) -> pa.RecordBatchReader:
    """Return a reader of a table's rows, with values spelled as they are compared."""
    rows = real.scan(table)
    if all(one.stored is None for one in table.columns):
        return rows
    batches = (_spelled_batch(table, batch) for batch in rows)
    return pa.RecordBatchReader.from_batches(rows.schema, batches)


def _spelled_batch(table: TargetTable, batch: pa.RecordBatch) -> pa.RecordBatch:
    stored = {one.name: one.stored for one in table.columns}
    columns = [
        spell_stored_values(batch[field.name], stored.get(field.name)).cast(field.type)
        for field in batch.schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _difference(row: tuple[Any, ...], names: list[str], key: list[str]) -> Difference:
    kind, values = row[0], row[1:]
    pairs = {name: (values[2 * at], values[2 * at + 1]) for at, name in enumerate(names)}
    own = {name: pairs[name][kind == "surplus"] for name in key}
    differing = {
        name: pair for name, pair in pairs.items() if pair[0] != pair[1] or kind != "different"
    }
    return Difference(kind, own, differing)


def _with_positions(
    found: Mapping[str, TableComparison], reads: Iterable[Mapping[str, TargetOperations]]
) -> dict[str, TableComparison]:
    """Return the comparisons, each differing row with the positions of the operations on its key."""
    wanted = {name: one.rows for name, one in found.items() if one.rows}
    positions = _positions(reads, wanted)
    rows = {
        name: tuple(
            replace(row, positions=tuple(own))
            for row, own in zip(differing, positions[name], strict=True)
        )
        for name, differing in wanted.items()
    }
    return {name: replace(one, rows=rows.get(name, ())) for name, one in found.items()}


def _positions(
    reads: Iterable[Mapping[str, TargetOperations]], wanted: Mapping[str, tuple[Difference, ...]]
) -> dict[str, list[list[str]]]:
    """Return for each row the positions of the operations on its key."""
    found: dict[str, list[list[str]]] = {name: [[] for _ in rows] for name, rows in wanted.items()}
    for read in reads:
        for name, rows in wanted.items():
            operations = read.get(name)
            if operations is not None and operations.key:
                for at, row in enumerate(rows):
                    found[name][at] += _places(operations, row)
    return found


def _places(operations: TargetOperations, row: Difference) -> Iterator[str]:
    chosen = np.zeros(len(operations), bool)
    for columns in (operations.key, operations.old_key):
        own = np.ones(len(operations), bool)
        for column, value in zip(columns, row.key.values(), strict=False):
            sought = pa.scalar(value, column.type)
            equal = (
                column.is_null() if value is None else pc.fill_null(pc.equal(column, sought), False)
            )
            own &= np.asarray(equal)
        chosen |= own
    for at in np.flatnonzero(chosen).tolist():
        yield short_position(operations.position[at].as_py())
