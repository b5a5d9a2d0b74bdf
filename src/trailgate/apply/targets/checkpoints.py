"""The checkpoints of targets: how far each group has applied its trail.

A SQL database has one table ``trailgate_checkpoint``, with a row per group and target table, and a
row with an empty ``target`` for the position of all tables together:

    grp        target    trail            position
    trailgate            /data/dirdat/ot  00000000020000012345
    trailgate  hr.jobs   /data/dirdat/ot  00000000020000012345

A table's row also has the names of the columns that are applied to it. The table must still have
these columns when a later run writes it.

Delta and Iceberg store the position of a table in its commits. The position of all tables together
is the only row of a table per group, ``_trailgate/GROUP``, which also lists the tables, their
applied columns, and their positions. So it is known if somebody drops a table, or restores an older
state of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import groupby, repeat
from typing import Any, Final, NamedTuple

import pyarrow as pa

from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.targets.sql import CHECKPOINT, POSITION_COLUMNS
from trailgate.apply.targets.target import DISCARDS, AppliedPosition, GroupPosition, TablePosition
from trailgate.errors import DefinitionError, OptionError, StorageError, Where
from trailgate.model.positions import short_position

# A checkpoint table of an earlier version has fewer columns, so they are not named.
STATUS: Final = f"SELECT * FROM {CHECKPOINT} ORDER BY grp, target"
LAKE_STATE: Final = "_trailgate"  # the folder or namespace of the checkpoint tables of a lake
# Of a snapshot of an Iceberg table, and of the table; {} is the group.
ICEBERG_POSITION: Final = "trailgate.{}.position"
STORED_DISCARDS: Final = "__discards"  # DISCARDS in an Iceberg catalog, where a dot divides names
DROPPED_HINT: Final = "Restore the column with its values, or add it yourself if they may be NULL; or exclude it with COLMAP in a parameter file"
GONE_HINT: Final = "Restore the table, or create it yourself if it may begin empty; or exclude it from this group, which does not repeat earlier operations, and apply it with another --group"


class _AppliedTable(NamedTuple):
    """A table as a group's checkpoint lists it: the result of ``encode_known_columns``, the position of its last commit, and in Iceberg the IDs of its columns (``iceberg_fields.py``).

    Each is None if the checkpoint does not have it: an earlier version wrote it, or a run was
    killed before it.
    """

    known_columns: str | None = None
    position: str | None = None
    field_ids: str | None = None


class RestoredState(NamedTuple):
    """What a table of a lake has that somebody has restored to an older state.

    ``actual`` is the position up to which the table has the operations of the group, or None if
    there is none or it is unknown. ``applied`` is the position up to which the group has applied
    the table.
    """

    actual: str | None
    applied: str

    @classmethod
    def find(cls, actual: str | None, applied: str) -> RestoredState | None:
        """Return the state of a table with these positions, or None if the table lacks no operation."""
        return cls(actual, applied) if actual is None or actual < applied else None

    def describe(self, table: str) -> str:
        """Return a sentence about the table, which begins with the words ``table``."""
        actual, applied = self.actual, short_position(self.applied)
        has = (
            "lacks operations"
            if actual is None
            else f"has the operations up to position {short_position(actual)}"
        )
        return f"{table} was restored to an older state: it {has}, but the group has applied it up to position {applied}"

    def build_error(self, table: TargetTable) -> StorageError:
        """Build the error for the table."""
        # Not by its CSN, which later transactions may share.
        after = "" if self.actual is None else f" --after {short_position(self.actual)}"
        hint = f"Restore its newest state again; or exclude it from this group, and apply the missing operations with another one: --group NAME{after}"
        return StorageError(self.describe("the table"), where=Where(table=str(table)), hint=hint)


class AppliedTables:
    """The tables of a lake that a group has written, as its checkpoint lists them.

    ``rows`` is the only row of the group's checkpoint table, or empty. A row of an earlier version
    lacks the columns ``known_columns``, ``positions`` and ``field_ids``.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        # By paths such as hr/jobs.
        self._tables = {
            path: _AppliedTable(*values)
            for row in rows
            for path, *values in zip(
                row["tables"],
                row.get("known_columns") or repeat(None),
                row.get("positions") or repeat(None),
                row.get("field_ids") or repeat(None),
                strict=False,
            )
        }

    def __contains__(self, table: TargetTable) -> bool:
        return _path(table.name) in self._tables

    def paths(self) -> list[str]:
        """Return the paths of the tables, such as ``hr/jobs``, in order."""
        return sorted(self._tables)

    def position(self, name: Sequence[str]) -> str:
        """Return the position of the last commit of a table with this name, or "" if it is unknown."""
        return self._tables.get(_path(name), _AppliedTable()).position or ""

    def field_ids(self, table: TargetTable) -> str | None:
        """Return the IDs of a table's columns when it was last written, or None if they are unknown."""
        return self._tables.get(_path(table.name), _AppliedTable()).field_ids

    def check_columns(self, table: TargetTable, existing: TargetTable) -> None:
        """Raise DefinitionError if the lake's table lacks a column that was applied to it (see ``check_known_columns``)."""
        known = self._tables.get(_path(table.name), _AppliedTable()).known_columns
        check_known_columns(table, existing, known)

    def set_at_least(self, table: TargetTable, position: str) -> None:
        """List a table with the columns that it has now, and with the later one of its position and ``position``."""
        self.set(table, max(self.position(table.name), position))

    def set(self, table: TargetTable, position: str | None, field_ids: str | None = None) -> None:
        """List a table with the columns that it has now, with a position, and with their IDs. Without IDs, the earlier ones remain."""
        ids = field_ids or self.field_ids(table)
        self._tables[_path(table.name)] = _AppliedTable(encode_known_columns(table), position, ids)

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns of the checkpoint table that list the tables: an element for each table."""
        tables = [self._tables[path] for path in self.paths()]
        return {
            "tables": self.paths(),
            "known_columns": [one.known_columns for one in tables],
            "positions": [one.position for one in tables],
            "field_ids": [one.field_ids for one in tables],
        }


def _path(name: Sequence[str]) -> str:
    return "/".join(name)


def parse_group_positions(
    names: Sequence[str], rows: Iterable[Sequence[Any]]
) -> list[GroupPosition]:
    """Convert the checkpoint table of a SQL database (the result of ``STATUS``) to one ``GroupPosition`` per group.

    ``names`` are the names of the result's columns.
    """
    groups: list[GroupPosition] = []
    named = [dict(zip(names, row, strict=True)) for row in rows]
    for group, group_rows in groupby(named, key=lambda row: str(row["grp"])):
        whole, tables = None, []
        for row in group_rows:
            if row["target"]:
                one = TablePosition(row["target"], row["position"], None, row["csn"], row["op_ts"])
                tables.append(one)
            else:
                whole = AppliedPosition(*(row.get(name) for name in POSITION_COLUMNS))  # type: ignore[arg-type]  # strings, except op_ts
        groups.append(GroupPosition(group, whole, tables))
    return groups


def encode_lake_checkpoint(
    at: AppliedPosition, tables: AppliedTables, time: pa.DataType
) -> pa.Table:
    """Build a group's checkpoint table for Delta or Iceberg: one row with the position of all tables.

    ``time`` is the type of ``op_ts``.
    """
    schema = pa.schema(
        [
            ("trail", pa.string()),
            ("position", pa.string()),
            ("csn", pa.string()),
            ("op_ts", time),
            ("tables", pa.list_(pa.string())),
            # An element for each of ``tables``.
            ("known_columns", pa.list_(pa.string())),
            ("positions", pa.list_(pa.string())),
            ("field_ids", pa.list_(pa.string())),
            ("digest", pa.string()),
            ("reached", pa.string()),
        ]
    )
    row = {**asdict(at), **tables.columns()}
    return pa.Table.from_pylist([row], schema)


def decode_lake_checkpoint(row: Mapping[str, Any]) -> AppliedPosition:
    """Convert the checkpoint row of Delta or Iceberg to a position. Its ``op_ts`` is microseconds or a datetime.

    A row of an earlier version lacks the columns ``digest`` and ``reached``.
    """
    op_ts = row["op_ts"]
    if isinstance(op_ts, datetime):
        op_ts = pa.scalar(op_ts, pa.timestamp("us", "UTC")).value
    known = (row["trail"], row["position"], row["csn"], op_ts)
    return AppliedPosition(*known, row.get("digest"), row.get("reached"))


def build_dropped_table_error(name: str) -> DefinitionError:
    """Build the error for a table to which operations were applied, and which the target no longer has."""
    problem = "the target's table no longer exists, but operations were applied to it before"
    return DefinitionError(problem, where=Where(table=name), hint=GONE_HINT)


def iceberg_group_name(group: str) -> str:
    """Return a group's name as part of the names of its checkpoints in Iceberg: a property and a table.

    A dot would divide the table's name, so the group ``GROUP.discards``, which applies repaired
    operations, is named ``GROUP__discards``. Raises OptionError if a group cannot be named.
    """
    name = group.removesuffix(DISCARDS)
    if not re.fullmatch(r"[\w-]+", name) or name.endswith(STORED_DISCARDS):
        problem = f"{group!r} cannot be the name of a group in an Iceberg catalog"
        hint = f"Use only letters, digits, _ and -, and another end than {STORED_DISCARDS}"
        raise OptionError(problem, hint=hint)
    return group if name == group else f"{name}{STORED_DISCARDS}"


def group_of_iceberg_name(name: str) -> str:
    """Return the group whose name in Iceberg is ``name``; the inverse of ``iceberg_group_name``."""
    group = name.removesuffix(STORED_DISCARDS)
    return name if group == name else f"{group}{DISCARDS}"


def encode_known_columns(table: TargetTable | None) -> str | None:
    """Encode the names of the columns that are applied to a table as a JSON list, which the SQL checkpoint table stores.

    Returns None for ``table`` None, which stands for all tables.
    """
    if table is None:
        return None
    return json.dumps([one.name for one in table.columns if not one.extra])


def check_known_columns(expected: TargetTable, existing: TargetTable, known: str | None) -> None:
    """Check that a target's table still has all columns that the checkpoint lists for it.

    ``known`` is the stored result of ``encode_known_columns``. Raises DefinitionError if a column
    no longer exists: adding it again would leave it NULL in all rows.
    """
    # Names are compared without case, as a database may have folded them.
    names = {one.name.casefold() for one in existing.columns}
    asked = {one.name.casefold() for one in expected.columns}
    # A column is gone if the trail still has it, it was applied earlier, and the table lacks it.
    gone = [
        name
        for name in json.loads(known or "[]")
        if name.casefold() in asked and name.casefold() not in names
    ]
    if gone:
        problem = "somebody has dropped this column since the table was last written"
        raise DefinitionError(
            problem, where=Where(table=str(existing), field=gone[0]), hint=DROPPED_HINT
        )
