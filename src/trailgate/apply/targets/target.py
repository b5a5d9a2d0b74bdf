"""What a target of apply does, and one table of its kinds.

A batch is written table by table, and then committed. Where a target commits each table by itself (Delta), the position goes into each of these commits; where one transaction
holds all tables (DuckDB, PostgreSQL), it goes into that. So a batch that was applied is known to be, whenever a run was killed.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from trailgate.apply.effects.batch import TableChanges
from trailgate.apply.effects.tables import TargetTable
from trailgate.errors import (
    ApplyError,
    MissingDependencyError,
    OptionError,
    TargetConflictError,
    Where,
    did_you_mean,
)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a trail was applied: the last operation's position (20 digits), commit sequence number and commit time in microseconds since 1970 UTC.

    ``digest`` is that of the operation's record, and ``reached`` the position at which the next batch begins. Both are None in positions of
    frames and of earlier versions. Targets keep all of it for the position of all tables (decision 0117).
    """

    trail: str
    position: str
    csn: str | None = None
    op_ts: int | None = None
    digest: str | None = None
    reached: str | None = None


class RowRefusedError(ApplyError):
    """A constraint or a type of the target's own refuses a row; nothing of what was written since the last commit stays after ``rollback``."""


class ValuesRefusedError(RowRefusedError):
    """A column's type refuses values, whatever rows they are in. ``errors`` has them as text, each with its error; it may lack some, which are found once these are gone."""

    errors: Mapping[str, RowRefusedError] = MappingProxyType({})


class TablePosition(NamedTuple):
    """How far a table was applied: the position, commit sequence number and commit time (microseconds since 1970 UTC) of its last operation.

    ``version`` is that of the table, if the target has versions.
    """

    table: str
    position: str
    version: int | None = None
    csn: str | None = None
    op_ts: int | None = None


class GroupPosition(NamedTuple):
    """How far a group has applied its trail to a target. ``position`` is None if it has not committed a batch yet."""

    group: str
    position: Position | None
    tables: list[TablePosition]


def moved_on(group: str, source: str) -> TargetConflictError:
    """Return the error of a group's position that another run has changed."""
    return TargetConflictError(
        f"another run applies group {group} to this target",
        where=Where(source=source),
        hint="Stop one of them, or give it a group of its own: --group NAME",
    )


class Target(Protocol):
    """The tables that changes land in. All methods raise TrailgateError for what the target refuses.

    ``widens``: columns of integers can get more bytes. ``commits_alone``: ``write`` commits the table by itself, before the batch is committed.
    """

    widens: bool
    commits_alone: bool

    def position(self, table: TargetTable | None) -> Position | None:
        """Return how far a table was applied, or with None how far all tables were; None where nothing was."""
        ...

    def held(self, table: TargetTable) -> TargetTable | None:
        """Return the table as it is in the target, with its types and its names of columns; None where there is none."""
        ...

    def planned(self, table: TargetTable) -> TargetTable:
        """Return a table that is to be created, with what the types of its columns will keep of values."""
        return table

    def create(self, table: TargetTable) -> None:
        """Create a table."""
        ...

    def add_columns(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Add columns of a table, NULL in all rows."""
        ...

    def widen(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Give columns of integers eight bytes, where the target ``widens``."""
        ...

    def rows(self, table: TargetTable, keys: pa.Table, *, keys_alone: bool) -> pa.Table:
        """Return the rows that have one of some keys: all columns, or those of the key alone."""
        ...

    def scan(self, table: TargetTable) -> pa.RecordBatchReader:
        """Return a reader of all rows."""
        ...

    def write(self, effects: TableChanges, at: Position) -> None:
        """Write the effects on one table."""
        ...

    def commit(self, at: Position) -> None:
        """Make what was written since the last commit last, and with it the position."""
        ...

    def rollback(self) -> None:
        """Forget what was written since the last commit, where the target can."""
        ...

    def positions(self) -> list[TablePosition]:
        """Return how far each table was applied."""
        ...

    def release(self) -> None:
        """End the transaction and let others use the target's files until the next batch. The next call opens it again.

        Raises TargetConflictError from then on if another run has applied something by the same group meanwhile.
        """
        ...

    def close(self) -> None:
        """Let go of the target."""
        ...


@runtime_checkable
class CheckingTarget(Target, Protocol):
    """A target with types whose values it has to be asked about: what they print is known to the database alone."""

    def check_values(self, effects: TableChanges) -> None:
        """Raise RowRefusedError for a value that a type would change, without writing anything."""
        ...


class TargetKind(NamedTuple):
    """A kind of target: its module, the extra that has its library, and an example of an address.

    ``module`` is empty where a session of Spark alone writes the tables. The module has a class ``TableTarget`` of an address and a group, a function ``table_rows`` that reads a table by the address of the target and the table's names after it,
    and a function ``group_positions`` that reads how far each group has applied its trail, and writes nothing.
    """

    module: str
    extra: str
    example: str
    is_path: bool = True
    modes: tuple[str, ...] = ()  # none: all


TARGETS: Final[Mapping[str, TargetKind]] = MappingProxyType(
    {
        "delta": TargetKind("trailgate.apply.targets.delta", "delta", "delta:lake/"),
        "duckdb": TargetKind("trailgate.apply.targets.duckdb", "", "duckdb:shop.duckdb"),
        "iceberg": TargetKind(
            "", "", "iceberg:CATALOG", is_path=False, modes=("current", "history", "append")
        ),  # _deleted is a name of Iceberg's own
        "parquet": TargetKind(
            "trailgate.apply.targets.parquet", "", "parquet:history/", modes=("append",)
        ),
        "postgresql": TargetKind(
            "trailgate.apply.targets.postgresql",
            "postgresql",
            "postgresql://USER@HOST/DATABASE",
            is_path=False,
        ),
    }
)


def open_target(address: str, group: str, mode: str = "") -> Target:
    """Return the target of an address, in which positions are kept by a group's name; raises OptionError, also where it does not take the mode."""
    check_mode(address, mode)
    target: Target = _module(address).TableTarget(address.partition(":")[2], group)
    return target


def check_address(address: str) -> None:
    """Raise OptionError for what is not the address of a target, and MissingDependencyError where its library is not installed."""
    _module(address)


def check_mode(address: str, mode: str) -> None:
    """Raise OptionError where the target of an address does not take a mode."""
    scheme = address.partition(":")[0]
    if scheme in TARGETS and mode and mode not in (TARGETS[scheme].modes or (mode,)):
        taken = " or ".join(f"--mode {one}" for one in TARGETS[scheme].modes)
        raise OptionError(f"{scheme}: takes no rows of --mode {mode}", hint=f"It takes {taken}")


def group_positions(address: str) -> list[GroupPosition]:
    """Return how far each group has applied its trail to a target, in the order of their names. Writes nothing.

    Raises StorageError if the target does not exist.
    """
    found: list[GroupPosition] = _module(address).group_positions(address.partition(":")[2])
    return sorted(found, key=lambda one: one.group)


def is_target(address: str) -> bool:
    """Return whether an address is that of a target, or of a table in it."""
    return address.partition(":")[0] in TARGETS


def table_rows(address: str) -> pa.RecordBatchReader:
    """Return a reader of a target's table, as ``delta:lake/hr/jobs``; raises StorageError."""
    rows: pa.RecordBatchReader = _module(address).table_rows(address.partition(":")[2])
    return rows


def _module(address: str) -> Any:
    """Return the module of an address's kind of target; raises OptionError for another address, and MissingDependencyError."""
    scheme, colon, rest = address.partition(":")
    kind = TARGETS.get(scheme)
    if kind is None or not colon or not rest:
        examples = ", ".join(kind.example for kind in TARGETS.values() if kind.module)
        near = did_you_mean(scheme, TARGETS) if colon else ""
        raise OptionError(
            f"{address!r} is not the address of a target", hint=f"{near} As in {examples}".strip()
        )
    if not kind.module:
        hint = f"As in trailgate.spark.apply(spark, 'dirdat/ot', '{address}')"
        raise OptionError(f"{scheme}: takes a session of Spark that has the catalog", hint=hint)
    try:
        return importlib.import_module(kind.module)
    except ModuleNotFoundError as error:
        problem = f"{scheme}: needs the package {error.name}"
        raise MissingDependencyError.of_extra(problem, kind.extra) from None
