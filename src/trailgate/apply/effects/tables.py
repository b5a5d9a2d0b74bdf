"""What a target table looks like: its name, the types of its columns, and how values of a trail become these types.

A created table has the types that ``created_type`` states, one for each family of a definition's columns (model/types.py). The types of a table that is there already win:
a value is cast to them, and one that they cannot hold is an error of its operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.exact_casts import cast_exactly
from trailgate.apply.effects.stored_types import DatabaseColumnType, check_stored_values
from trailgate.columnar.digits import from_hex
from trailgate.errors import DecodeError, DefinitionError, Where
from trailgate.model.table_patterns import NAME_PART, unquote
from trailgate.model.tables import Column, Table
from trailgate.model.types import TypeFamily
from trailgate.model.values import typed_for

CASE_HINT: Final = "Give one of them another name: COLMAP of a parameter file for the trail's columns, ALTER TABLE for the target's"
Convert = Callable[[pa.Array], pa.Array]
TYPES_HINT: Final = "The trail has it as {}: give the target's column a type that holds it, or leave the operation out, --on-error discard"
KEYLESS_HINT: Final = (
    "Name the columns of its key: KEYCOLS in the MAP statement of a parameter file (--params), or definitions that state a key (--definitions). "
    "--mode append keeps rows without one"
)
MICROSECONDS: Final = 26  # characters of a date time with six digits of fraction


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column of a target table. ``number`` is text whose content is a number; ``length`` the most characters of text, None where nothing states it.

    ``stored`` is its type in the database, if that keeps less of a value than the Arrow type. ``extra``: the source has no such column, so that the target fills it. ``computed``: the target makes
    its values itself; ``on_insert``: it takes values of inserted rows, and changes none.
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
        """Return whether values that were made for this column are right for another one."""
        checks = other.stored is not None and other.stored.only_checks
        same = self.stored == other.stored or (self.stored is None and checks)
        return self.type == other.type and same


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A target table: the parts of its name, its columns, and the indexes of those of its key. ``keyless``: all columns are the key, since none is one."""

    name: tuple[str, ...]
    columns: tuple[TargetColumn, ...]
    key: tuple[int, ...]
    keyless: bool = False

    def __str__(self) -> str:
        return ".".join(self.name)

    @property
    def schema(self) -> pa.Schema:
        """Return the columns as an Arrow schema."""
        return pa.schema([(column.name, column.type) for column in self.columns])

    @property
    def key_names(self) -> tuple[str, ...]:
        """Return the names of the key's columns."""
        return tuple(self.columns[at].name for at in self.key)

    def as_held(self, name: tuple[str, ...], schema: pa.Schema) -> TargetTable:
        """Return the table as a target has it, of a schema: its columns, of which those of the same names are the key.

        Raises DefinitionError if a column of the key is missing, or if two columns have names that differ in case alone.
        """
        place = Where(table=".".join(name))
        _check_case(schema.names, "the target's table has", place)
        known = {field.name.casefold(): at for at, field in enumerate(schema)}
        own = {column.name.casefold(): column for column in self.columns}
        columns = tuple(
            replace(
                own.get(field.name.casefold(), TargetColumn(field.name, field.type, extra=True)),
                name=field.name,
                type=field.type,
            )
            for field in schema
        )
        key = []
        for at in self.key:
            index = known.get(self.columns[at].name.casefold())
            if index is None:
                problem = (
                    f"the target's table has no column {self.columns[at].name}, which is of the key"
                )
                raise DefinitionError(problem, where=place)
            key.append(index)
        return TargetTable(name, columns, tuple(key), self.keyless)

    def without_computed(self) -> TargetTable:
        """Return the table without columns that the source lacks and the target computes: nothing is written to them."""
        gone = {at for at, one in enumerate(self.columns) if one.extra and one.computed}
        if not gone:
            return self
        kept_ones = [at for at in range(len(self.columns)) if at not in gone]
        columns = tuple(self.columns[at] for at in kept_ones)
        key = tuple(kept_ones.index(at) for at in self.key)
        return replace(self, columns=columns, key=key)

    def places(self, table: Table) -> list[int | None]:
        """Return for each column the index of the one of a source table that has its name, compared without case."""
        known = {column.name.casefold(): at for at, column in enumerate(table.columns)}
        return [known.get(column.name.casefold()) for column in self.columns]


def fold_upper_case(name: str) -> str:
    """Return a name as a created table has it: what is all upper case becomes lower case, since databases print unquoted names so."""
    return name.lower() if name.isupper() else name


def _check_case(names: Sequence[str], owner: str, where: Where) -> None:
    """Raise DefinitionError for two names that differ in case alone: columns are found by their names without case."""
    known: dict[str, str] = {}
    for name in names:
        other = known.setdefault(name.casefold(), name)
        if other is not name:
            problem = f"{owner} the columns {other} and {name}, whose names differ in case alone"
            raise DefinitionError(problem, where=where, hint=CASE_HINT)


def make_target_table(table: Table, name: str | None = None) -> TargetTable:
    """Return the target table that is created for a source table, by default of the same name; raises DefinitionError."""
    _check_case([column.name for column in table.columns], "the trail has", Where(table=table.name))
    if table.guessed:
        raise DefinitionError(
            f"nothing defines the columns of table {table.name}",
            where=Where(table=table.name),
            hint="Give definitions that name it: --definitions FILE",
        )
    parts = tuple(fold_upper_case(unquote(part)) for part in NAME_PART.findall(name or table.name))
    columns = tuple(
        TargetColumn(
            fold_upper_case(column.name),
            created_type(column),
            column.family is TypeFamily.NUMBER_TEXT,
            column.external_length if column.family is TypeFamily.TEXT else None,
        )
        for column in table.columns
    )
    keys = table.marked_keys
    return TargetTable(parts, columns, keys or tuple(range(len(columns))), keyless=not keys)


def created_type(column: Column) -> pa.DataType:
    """Return the Arrow type in which a created table holds a column's values.

    A number in text stays text, since no type holds all numbers; so do times with more digits than microseconds, with a zone, and intervals.
    """
    if column.family is TypeFamily.BYTES:
        return pa.binary()
    if column.family is TypeFamily.DATETIME and column.external_length > MICROSECONDS:
        return pa.string()
    return typed_for(column)[0]


def make_conversion(column: Column, target: TargetColumn, *, is_key: bool = False) -> Convert:
    """Return what makes values of a block column those of a target's column; it raises DecodeError, with the row as its record.

    Values of a key get one spelling, so that those that are equal in the target are equal here.
    """
    held = created_type(column)
    convert = _held_values(column, held)
    kind, stored = target.type, target.stored
    if kind == held and stored is None and not (is_key and pa.types.is_floating(kind)):
        return convert

    def cast(values: pa.Array) -> pa.Array:
        try:
            found = cast_exactly(convert(values), kind)
            if stored is not None:
                fixed = column.type_row.fixed
                found = check_stored_values(found, stored, fixed=fixed, canonical=is_key)
            # 0.0 and -0.0 are one key.
            zero = pa.scalar(0.0, kind) if is_key and pa.types.is_floating(kind) else None
            return found if zero is None else pc.add(found, zero)
        except DecodeError as error:
            error.hint = error.hint or TYPES_HINT.format(column.type_row.name)
            raise

    return cast


def _held_values(column: Column, held: pa.DataType) -> Convert:
    if column.family is TypeFamily.BYTES:
        return from_hex
    if column.family is TypeFamily.DATETIME and pa.types.is_string(held):
        return _unchanged
    return typed_for(column)[1]


def _unchanged(values: pa.Array) -> pa.Array:
    return values


def add_missing_columns(held: TargetTable, wanted: TargetTable) -> TargetTable:
    """Return a target table with the columns added that it lacks; its own types and key stay."""
    known = {column.name.casefold() for column in held.columns}
    asked = {column.name.casefold() for column in wanted.columns if not column.extra}
    added = [column for column in wanted.columns if column.name.casefold() not in known]
    own = [
        replace(column, extra=False) if column.extra and column.name.casefold() in asked else column
        for column in held.columns
    ]
    return replace(held, columns=(*own, *added))
