"""Describe a target table: its name, its columns and its key.

A table to create has the columns of its source table, with the types that ``created_type`` chooses.
A table that exists already is described as the target defines it (``TargetTable.as_defined``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from trailgate.apply.effects.stored_types import DatabaseColumnType
from trailgate.errors import DefinitionError, Where
from trailgate.model.table_names import NAME_PART, unquote
from trailgate.model.tables import Column, Table
from trailgate.model.types import TypeFamily
from trailgate.model.values import typed_for

# Called with a table of keys; returns the target's rows with these keys. If the second argument is
# true, only their key columns are needed.
FetchRows = Callable[[pa.Table, bool], pa.Table]
CASE_HINT: Final = "Rename one of them: a column of the trail with COLMAP in a parameter file, one of the target with ALTER TABLE"
KEYLESS_HINT: Final = (
    "Name its key columns with KEYCOLS in the MAP statement of a parameter file (--params), or give definitions with a key (--definitions). "
    "--mode append needs no key"
)
MICROSECONDS: Final = 26  # characters of a date time with six digits of fraction


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column of a target table: its name, its Arrow type, and who sets its values.

    - ``number``: a text column whose values are numbers
    - ``length``: the maximum number of characters of text, or None if it is unknown
    - ``stored``: the type in the database, if it stores less of a value than the Arrow type
    - ``extra``: the source does not have this column, so its values are set by the target
    - ``computed``: the target computes its values (a generated column)
    - ``on_insert``: inserts set the column, but updates do not change it
    """

    name: str
    type: pa.DataType
    number: bool = False
    length: int | None = None
    stored: DatabaseColumnType | None = None
    extra: bool = False
    computed: bool = False
    on_insert: bool = False

    def makes_values_of(self, other: TargetColumn) -> bool:
        """Return whether values that were converted for this column can also be written to ``other``."""
        checks = other.stored is not None and other.stored.only_checks
        same = self.stored == other.stored or (self.stored is None and checks)
        return self.type == other.type and same


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A target table: the parts of its name, its columns, and the indexes of its key columns.

    ``keyless``: the source defines no key, so all columns together are used as the key.
    """

    name: tuple[str, ...]
    columns: tuple[TargetColumn, ...]
    key: tuple[int, ...]
    keyless: bool = False

    def __str__(self) -> str:
        return ".".join(self.name)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the target table as an Arrow schema."""
        return pa.schema([(column.name, column.type) for column in self.columns])

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the target table's key columns."""
        return tuple(self.columns[at].name for at in self.key)

    @property
    def extra_columns(self) -> tuple[int, ...]:
        """The indexes of the target table's extra columns: those that the source lacks and that are not computed."""
        return tuple(at for at, one in enumerate(self.columns) if one.extra and not one.computed)

    def as_defined(self, name: tuple[str, ...], schema: pa.Schema) -> TargetTable:
        """Return this table as it is defined in the target, under ``name`` and with the columns of ``schema``.

        The key columns are found by name. Columns that this table lacks become ``extra``.

        Raises DefinitionError if a key column is missing, or if the names of two columns differ
        only in case.
        """
        where = Where(table=".".join(name))
        _check_case(schema.names, "the target's table has", where)
        index_of = {field.name.casefold(): at for at, field in enumerate(schema)}
        by_name = {column.name.casefold(): column for column in self.columns}
        columns = tuple(
            replace(
                by_name.get(
                    field.name.casefold(), TargetColumn(field.name, field.type, extra=True)
                ),
                name=field.name,
                type=field.type,
            )
            for field in schema
        )
        key = []
        for at in self.key:
            index = index_of.get(self.columns[at].name.casefold())
            if index is None:
                problem = f"the target's table has no column {self.columns[at].name}, which is part of the key"
                raise DefinitionError(problem, where=where)
            key.append(index)
        return TargetTable(name, columns, tuple(key), self.keyless)

    def without_computed(self) -> TargetTable:
        """Return the target table without the generated columns that the source lacks. Only the target computes these."""
        return self.without(at for at, one in enumerate(self.columns) if one.extra and one.computed)

    def without(self, indexes: Iterable[int]) -> TargetTable:
        """Return the target table without the columns at these indexes, which are not part of the key."""
        skipped = frozenset(indexes)
        if not skipped:
            return self
        remaining = [at for at in range(len(self.columns)) if at not in skipped]
        columns = tuple(self.columns[at] for at in remaining)
        key = tuple(remaining.index(at) for at in self.key)
        return replace(self, columns=columns, key=key)

    def source_indexes(self, table: Table) -> list[int | None]:
        """Return for each target column the index of the source column with the same name, or None.

        Case is ignored.
        """
        index_of = {column.name.casefold(): at for at, column in enumerate(table.columns)}
        return [index_of.get(column.name.casefold()) for column in self.columns]


def make_target_name(name: str) -> str:
    """Convert the name of a source table or column to its name in a target table that is created: ``ORDERS`` becomes ``orders``, and ``Orders`` is unchanged.

    Oracle stores unquoted names in upper case, PostgreSQL in lower case.
    """
    return name.lower() if name.isupper() else name


def _check_case(names: Sequence[str], owner: str, where: Where) -> None:
    """Raise DefinitionError if two column names of a table differ only in case, because columns are matched without case."""
    spelling: dict[str, str] = {}
    for name in names:
        other = spelling.setdefault(name.casefold(), name)
        if other is not name:
            problem = f"{owner} the columns {other} and {name}, whose names differ only in case"
            raise DefinitionError(problem, where=where, hint=CASE_HINT)


def make_target_table(table: Table, name: str | None = None) -> TargetTable:
    """Build the target table to create for a source table, by default with its name (``HR.JOBS`` becomes ``hr.jobs``).

    Raises DefinitionError if the source's columns are not defined, or if two of their names differ
    only in case.
    """
    _check_case([column.name for column in table.columns], "the trail has", Where(table=table.name))
    if table.guessed:
        raise DefinitionError(
            f"nothing defines the columns of table {table.name}",
            where=Where(table=table.name),
            hint="Give its definition with --definitions FILE",
        )
    parts = tuple(make_target_name(unquote(part)) for part in NAME_PART.findall(name or table.name))
    columns = tuple(
        TargetColumn(
            make_target_name(column.name),
            created_type(column),
            column.family is TypeFamily.NUMBER_TEXT,
            column.external_length if column.family is TypeFamily.TEXT else None,
        )
        for column in table.columns
    )
    keys = table.marked_keys  # empty if the definition has no key
    return TargetTable(parts, columns, keys or tuple(range(len(columns))), keyless=not keys)


def add_missing_columns(existing: TargetTable, wanted: TargetTable) -> TargetTable:
    """Add the columns of ``wanted`` that the existing target table lacks. Existing types and the key stay.

    If ``wanted`` has a column from the source, the column is not ``extra`` in the result.
    """
    existing_names = {column.name.casefold() for column in existing.columns}
    wanted_names = {column.name.casefold() for column in wanted.columns if not column.extra}
    added = [column for column in wanted.columns if column.name.casefold() not in existing_names]
    columns = [
        replace(column, extra=False)
        if column.extra and column.name.casefold() in wanted_names
        else column
        for column in existing.columns
    ]
    return replace(existing, columns=(*columns, *added))


def make_empty_fetch(table: TargetTable) -> FetchRows:
    """Return the ``FetchRows`` of an empty target table: it finds no rows."""

    def fetch(_: pa.Table, keys_alone: bool) -> pa.Table:
        schema = table.schema
        return (
            pa.schema([schema.field(n) for n in table.key_names]) if keys_alone else schema
        ).empty_table()

    return fetch


def created_type(column: Column) -> pa.DataType:
    """Choose the Arrow type of a column in a created target table, by its source column's type.

    Numbers in text stay text, because no number type holds them all. So do intervals, times with a
    zone, and times with more than six digits of fraction.
    """
    if column.family is TypeFamily.BYTES:
        return pa.binary()
    if column.family is TypeFamily.DATETIME and column.external_length > MICROSECONDS:
        return pa.string()
    return typed_for(column)[0]
