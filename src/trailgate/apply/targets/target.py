"""The interface of a target, and the table of all types of targets.

A batch is written table by table and then committed. If all tables are one transaction (DuckDB,
PostgreSQL), the position is part of it. If each table has its own commits (Delta, Iceberg), every
commit contains the position. Either way the target itself knows how far each table is applied, even
if a run is killed.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, Self, runtime_checkable

import pyarrow as pa

from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.effects.tables import TargetTable
from trailgate.errors import (
    ApplyError,
    MissingDependencyError,
    OptionError,
    did_you_mean,
)
from trailgate.model.changes import ChangeBlock
from trailgate.storage.files.addresses import absolute
from trailgate.storage.reading.stored_position import StoredPosition


@dataclass(frozen=True, slots=True)
class AppliedPosition:
    """How far a trail is applied: the last operation's position (20 digits), CSN, and commit time in microseconds since 1970 UTC.

    ``trail`` is the source: the trail with its tables or MAP statements (``apply/jobs/group_sources.py``).
    ``digest`` is the digest of the operation's record, and ``reached`` is the beginning of the next
    batch. Both are None if the operations came from a DataFrame or an earlier version stored the
    position. Targets store all fields for the position of all tables (decision 0117).
    """

    trail: str
    position: str
    csn: str | None = None
    op_ts: int | None = None
    digest: str | None = None
    reached: str | None = None

    @classmethod
    def of_operation(cls, trail: str, operations: ChangeBlock | TargetOperations, row: int) -> Self:
        """Build the position that is reached when the operation in this row has been applied."""
        csn, op_ts = operations.csn[row].as_py(), int(operations.op_ts[row])
        return cls(trail, operations.position[row].as_py(), csn, op_ts)

    def to_stored(self) -> StoredPosition:
        """Convert the position to the form with which trail readers resume after it."""
        return StoredPosition(self.position, self.csn, self.digest, self.reached)


class RowRefusedError(ApplyError):
    """Raised if a constraint or type of the target rejects a row.

    After ``rollback``, nothing written since the last commit remains.
    """


class ValuesRefusedError(RowRefusedError):
    """Raised if a column's type in the target rejects values.

    ``errors`` has the error of each rejected value, by the value's text in the trail. It may not
    contain all rejected values. The others are found when the batch is written again without these.
    """

    errors: Mapping[str, RowRefusedError] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RefusedRows:
    """Rows of a table that constraints of a target reject. ``keys`` and ``errors`` have one element per row.

    ``keys`` has the key columns, or the column ``_position`` for a table of operations. If a
    foreign key rejects row i, ``related[i]`` is the other table of the foreign key, such as
    ``hr.jobs``, otherwise "".
    """

    keys: pa.Table
    errors: Sequence[RowRefusedError]
    related: Sequence[str]

    def __len__(self) -> int:
        return len(self.errors)


class TablePosition(NamedTuple):
    """The position up to which one table of a target is applied, with the CSN and commit time (microseconds since 1970 UTC) of that operation.

    ``version`` is the version of the table, if the target has versions. ``notice`` is a sentence if
    the table does not have all operations up to the position, because somebody has restored it.
    """

    table: str
    position: str
    version: int | None = None
    csn: str | None = None
    op_ts: int | None = None
    notice: str | None = None


class GroupPosition(NamedTuple):
    """How far a group has applied its trail to a target. ``position`` is None if it has not committed a batch yet."""

    group: str
    position: AppliedPosition | None
    tables: list[TablePosition]


class ApplyTarget(Protocol):
    """The interface of targets of apply, such as a Delta folder: tables that changes are applied to, and their positions.

    A target is opened for one group. Methods raise TrailgateError if the target rejects something.

    ``widens``: integer columns can be widened. ``commits_alone``: ``write`` commits each table
    separately, before ``commit`` ends the batch. ``folds_names``: names that differ only in case
    mean the same table.
    """

    widens: bool
    folds_names: bool
    commits_alone: bool

    def position(self, table: TargetTable | None) -> AppliedPosition | None:
        """Return the position up to which ``table`` is applied, or all tables if ``table`` is None.

        Returns None if nothing is applied yet. A table that was dropped has a position too, so
        that it is not created again.
        """
        ...

    def find_table(self, table: TargetTable) -> TargetTable | None:
        """Return the table as the target defines it, with its types and column names, or None if it does not exist.

        Raises DefinitionError if a column was dropped to which the group has applied values.
        """
        ...

    def plan_table(self, table: TargetTable) -> TargetTable:
        """Return a table to create, with the types that its columns will have in the target."""
        return table

    def create(self, table: TargetTable) -> None:
        """Create a table in the target."""
        ...

    def add_columns(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Add columns to a table of the target. They are NULL in existing rows."""
        ...

    def widen(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Widen integer columns to eight bytes, if the target ``widens``."""
        ...

    def rows(self, table: TargetTable, keys: pa.Table, *, keys_alone: bool) -> pa.Table:
        """Return the rows of a table that have any of the keys: all columns, or only the key columns.

        Some targets also return rows with other keys.
        """
        ...

    def scan(self, table: TargetTable) -> pa.RecordBatchReader:
        """Return a reader of all rows of a table of the target."""
        ...

    def write(self, effects: TableChanges, at: AppliedPosition) -> None:
        """Write the changes of one table to the target, with the position ``at`` as the table's position."""
        ...

    def commit(self, at: AppliedPosition) -> None:
        """Commit everything written since the last commit, together with the position of all tables."""
        ...

    def rollback(self) -> None:
        """Roll back to the last commit, if the target supports it."""
        ...

    def positions(self) -> list[TablePosition]:
        """Return the position of each table that the group has applied."""
        ...

    def release(self) -> None:
        """End the transaction, and let other processes use the target's files until the next batch.

        The next call opens the target again. It raises TargetConflictError if another run of the
        same group has written to it meanwhile.
        """
        ...

    def close(self) -> None:
        """Close the target's files or connection."""
        ...


@runtime_checkable
class CheckingTarget(ApplyTarget, Protocol):
    """A target of apply with types whose values only the database itself can check, by casting and printing them."""

    def check_values(self, effects: TableChanges) -> None:
        """Raise RowRefusedError if a column's type would change a value. Writes nothing."""
        ...


@runtime_checkable
class RowCheckingTarget(ApplyTarget, Protocol):
    """A target of apply that commits each table separately, so that the rows of a batch are checked before the first table is written."""

    def find_unfit_rows(self, effects: TableChanges) -> RefusedRows:
        """Return the rows of these changes that the table cannot hold, in the order of the changes.

        Writes nothing. Raises ApplyError if the table cannot be changed in this way at all.
        """
        ...


@runtime_checkable
class FindingTarget(ApplyTarget, Protocol):
    """A target of apply that can find all rows that its constraints reject, each separately."""

    def find_refused_rows(self, effects: TableChanges) -> RefusedRows:
        """Return the rejected rows of the changes for which ``write`` has just raised RowRefusedError, in the order of the changes."""
        ...

    def check_deferred(self) -> None:
        """Raise RowRefusedError if a deferred constraint refuses a row written since the last commit."""
        ...

    def find_deferred_rows(self, table: TargetTable) -> RefusedRows:
        """Return the rows of a table that violate a deferred foreign key, after ``check_deferred`` has raised an error."""
        ...


class TargetType(NamedTuple):
    """A type of target: its module, the extra that installs its library, and an example of an address.

    The module has four functions: ``check_place`` raises an error for an address that can never be
    opened, ``open_tables`` opens a target for a group, ``table_rows`` reads a table by an address
    such as ``lake/hr/jobs``, and ``group_positions`` returns how far each group has applied. Only
    ``open_tables`` writes. ``is_path``: an address is a path.
    """

    module: str
    extra: str
    example: str
    is_path: bool = True
    is_name: bool = False  # an address without a slash is a name, not a path
    modes: tuple[str, ...] = ()  # the supported modes; empty if all are


DISCARDS: Final = ".discards"  # the end of the name of a group that applies repaired operations

# By the scheme of a target's address, as in delta:lake/.
TARGETS: Final[Mapping[str, TargetType]] = MappingProxyType(
    {
        "delta": TargetType("trailgate.apply.targets.delta", "delta", "delta:lake/"),
        "duckdb": TargetType("trailgate.apply.targets.duckdb", "duckdb", "duckdb:shop.duckdb"),
        "iceberg": TargetType(
            "trailgate.apply.targets.iceberg",
            "iceberg",
            "iceberg:lake/",
            is_name=True,
            modes=("current", "history", "scd2", "append"),
        ),  # no soft-delete, because _deleted is a reserved name in Iceberg
        "parquet": TargetType(
            "trailgate.apply.targets.parquet", "", "parquet:history/", modes=("append",)
        ),
        "postgresql": TargetType(
            "trailgate.apply.targets.postgresql",
            "postgresql",
            "postgresql://USER@HOST/DATABASE",
            is_path=False,
        ),
    }
)


def open_target(address: str, group: str, mode: str = "") -> ApplyTarget:
    """Open the target of apply at an address such as ``delta:lake/``, for a group, under whose name it stores positions.

    Raises OptionError if the address is wrong or the target does not support the mode.
    """
    check_mode(address, mode)
    target: ApplyTarget = _module(address).open_tables(address.partition(":")[2], group)
    return target


def check_address(address: str) -> None:
    """Check the address of a target of apply, without opening the target.

    Raises OptionError or StorageError if it is wrong, and MissingDependencyError if the target's
    library is not installed.
    """
    _module(address).check_place(address.partition(":")[2])


def check_mode(address: str, mode: str) -> None:
    """Raise OptionError if the target at an address does not support an apply mode."""
    scheme = address.partition(":")[0]
    if scheme in TARGETS and mode and mode not in (TARGETS[scheme].modes or (mode,)):
        taken = " or ".join(f"--mode {one}" for one in TARGETS[scheme].modes)
        raise OptionError(f"{scheme}: does not support --mode {mode}", hint=f"It supports {taken}")


def group_positions(address: str) -> list[GroupPosition]:
    """Return how far each group has applied its trail to a target of any type, by its address, sorted by group. Writes nothing.

    Raises StorageError if the target does not exist.
    """
    groups: list[GroupPosition] = _module(address).group_positions(address.partition(":")[2])
    return sorted(groups, key=lambda one: one.group)


def is_target_address(address: str) -> bool:
    """Return whether this is the address of a target of apply, or of a table in one: it begins with ``delta:``, ``duckdb:`` and so on."""
    return address.partition(":")[0] in TARGETS


def has_path(address: str) -> bool:
    """Return whether a target's address contains a path, as in ``delta:lake/``, but not in ``iceberg:prod``."""
    scheme, _, rest = address.partition(":")
    kind = TARGETS.get(scheme)
    return kind is not None and kind.is_path and bool(rest) and ("/" in rest or not kind.is_name)


def absolute_address(address: str, base: str) -> str:
    """Make the path in a target's address absolute. A relative path is relative to ``base``.

    An address without a path, such as that of a database, is returned unchanged.
    """
    if not has_path(address):
        return address
    scheme, _, path = address.partition(":")
    return f"{scheme}:{absolute(path, base)}"


def table_rows(address: str) -> pa.RecordBatchReader:
    """Return a reader of a target's table, such as ``delta:lake/hr/jobs``. Raises StorageError."""
    rows: pa.RecordBatchReader = _module(address).table_rows(address.partition(":")[2])
    return rows


def _module(address: str) -> Any:
    """Import the module for the address of a target. Raises OptionError if the address is wrong, and MissingDependencyError."""
    scheme, colon, rest = address.partition(":")
    kind = TARGETS.get(scheme)
    if kind is None or not colon or not rest:
        examples = ", ".join(kind.example for kind in TARGETS.values())
        near = did_you_mean(scheme, TARGETS) if colon and kind is None else ""
        raise OptionError(
            f"{address!r} is not the address of a target", hint=f"{near} As in {examples}".strip()
        )
    if kind.is_path and rest.startswith("//"):
        # As a path this would be a folder of the root: //lake/ is /lake/.
        problem = f"{address!r} is not the address of a target: a path does not begin with //"
        relative = f"{scheme}:{rest.lstrip('/')}"
        raise OptionError(problem, hint=f"As in {relative}, or with an absolute path {scheme}:/...")
    try:
        return importlib.import_module(kind.module)
    except ModuleNotFoundError as error:
        problem = f"{scheme}: needs the package {error.name}"
        raise MissingDependencyError.of_extra(problem, kind.extra) from None
