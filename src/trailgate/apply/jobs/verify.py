"""The tables of a target compared with what the trail makes of them: rows that are missing, surplus or different, and the operations that made them.

The trail is applied to a file of DuckDB, in the types of the target's tables and as far as each of them is applied. That file and the target's rows are joined by key there, within a bound of
memory; what needs more goes to files beside it. So the same engine is used twice, and what it does wrong is not found: what others did to the tables is.

Tables that were loaded first begin in that file as they are in the target, and the trail is applied over them: where they are right, that changes nothing. Rows that the trail has no operations on are
counted apart, as ``untouched``. So it is with a trail whose first files are not there any more, since their rows are in the target alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.batch import Effects
from trailgate.apply.effects.collisions import Collisions
from trailgate.apply.effects.faults import DUPLICATE, MISSING
from trailgate.apply.effects.modes import MODES
from trailgate.apply.effects.nets import Effect, Nets, key_codes
from trailgate.apply.effects.operations import Operations, concat
from trailgate.apply.effects.stored_types import spelled
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.jobs.apply import ApplyRun, Progress, Reading
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
from trailgate.model.changes import StateColumn
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
    collisions: Collisions | None
    tables: dict[str, tuple[TargetTable, TargetTable | None]] = field(default_factory=dict)
    widens: bool = True
    commits_alone: bool = False
    settled: str = field(init=False)
    until: str = field(init=False)

    def __post_init__(self) -> None:
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
            self.scratch.create(_bare(flat if theirs is None else replace(theirs, name=flat.name)))
            found = self.scratch.held(flat)
            assert found is not None
            if self.collisions is not None:
                none = found.schema.empty_table().to_reader()
                self.scratch.load(found, none if theirs is None else _spelled(theirs, self.real))
            self.scratch.keep_tables()  # a batch that is refused is rolled back
        return found if theirs is None else _as_compared(found, theirs)

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
        return self.scratch.rows(_bare(table), keys, keys_alone=keys_alone)

    def write(self, effects: Effects, at: Position) -> None:
        theirs = self.tables[effects.nets.table.name[1]][1]
        if theirs is not None and isinstance(self.real, CheckingTarget):
            real = replace(effects.nets.table, name=theirs.name)
            try:
                self.real.check_values(replace(effects, nets=replace(effects.nets, table=real)))
            finally:
                self.real.rollback()
        bare = replace(effects, nets=replace(effects.nets, table=_bare(effects.nets.table)))
        if self.collisions is None:
            self.scratch.write(bare, at)
            return
        if theirs is not None:
            nets = _completed(effects.nets, partial(_compared_rows, self.real, theirs))
            bare = replace(bare, nets=replace(nets, table=bare.nets.table))
        self.scratch.write(bare, at)
        self.scratch.note_keys(bare)

    def commit(self, at: Position) -> None:
        self.scratch.commit(at)

    def rollback(self) -> None:
        self.scratch.rollback()

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
    policy = Collisions.RESULT if loaded or is_partial else None
    reading = Reading(threads)
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
            expected = _Expected(scratch, real, whole, policy)
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
            notices = first.to_end(progress).notices
            if is_partial:
                notices = (*notices, REMAINING)
            found = {
                name: _compare(
                    expected, name, mapped.mode(name), shown, mapping.timed(name) if mapping else ()
                )
                for name in expected.tables
            }
        if any(one.rows for one in found.values()):
            again, _ = run("positions.duckdb")
            with again:
                found = _with_positions(found, again.reads())
    return VerifyReport(found, whole, notices)


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
    counts, differing = expected.scratch.compare(ours, rows, names, shown)
    if expected.collisions is not None:
        counts["untouched"] = expected.scratch.unnoted_rows(ours)
        counts["equal"] = counts.get("equal", 0) - counts["untouched"]
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
        spelled(batch[field.name], stored.get(field.name)).cast(field.type)
        for field in batch.schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _compared_rows(
    real: Target, table: TargetTable, keys: pa.Table, *, keys_alone: bool
) -> pa.Table:
    """Return the rows of the real table that have some keys, with values spelled as they are compared."""
    rows = real.rows(table, keys, keys_alone=keys_alone)
    batches = [_spelled_batch(table, batch) for batch in rows.to_batches()]
    return pa.Table.from_batches(batches, schema=rows.schema)


def _completed(nets: Nets, fetch: Callable[..., pa.Table]) -> Nets:
    """Return effects whose whole rows have the values of the target's rows in columns that are not logged."""
    whole = (nets.effect == Effect.INSERT) | (nets.effect == Effect.REPLACE)
    missing = [one.is_missing(len(nets)) & whole for one in nets.values]
    lacking = np.flatnonzero(np.logical_or.reduce(missing))
    if not len(lacking):
        return nets
    rows = fetch(nets.keys().take(pa.array(lacking)), keys_alone=False)
    both = [
        concat([own, rows[name].combine_chunks().cast(own.type)])
        for own, name in zip(nets.key, nets.table.key_names, strict=True)
    ]
    codes, count = key_codes(both)
    place = np.full(count, -1)
    place[codes[len(nets) :]] = np.arange(rows.num_rows)
    at = place[codes[: len(nets)]]
    taken = pa.array(at, mask=at < 0)
    values = []
    for one, lacks, column in zip(nets.values, missing, nets.table.columns, strict=True):
        if not (lacks & (at >= 0)).any():
            values.append(one)
            continue
        theirs = rows[column.name].combine_chunks().cast(column.type).take(taken)
        own = pa.nulls(len(nets), column.type) if one.values is None else one.values
        still = one.is_missing(len(nets)) & ~(lacks & (at >= 0))
        values.append(StateColumn(pc.if_else(pa.array(lacks), theirs, own), still))
    return replace(nets, values=tuple(values))


def _difference(row: tuple[Any, ...], names: list[str], key: list[str]) -> Difference:
    kind, values = row[0], row[1:]
    pairs = {name: (values[2 * at], values[2 * at + 1]) for at, name in enumerate(names)}
    own = {name: pairs[name][kind == "surplus"] for name in key}
    differing = {
        name: pair for name, pair in pairs.items() if pair[0] != pair[1] or kind != "different"
    }
    return Difference(kind, own, differing)


def _with_positions(
    found: Mapping[str, TableComparison], reads: Iterable[Mapping[str, Operations]]
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
    reads: Iterable[Mapping[str, Operations]], wanted: Mapping[str, tuple[Difference, ...]]
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


def _places(operations: Operations, row: Difference) -> Iterator[str]:
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
