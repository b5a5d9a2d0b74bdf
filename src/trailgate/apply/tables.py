"""What a target table looks like: its name, the types of its columns, and how values of a trail become these types.

A created table has the types that ``held_type`` states, one for each family of a definition's columns (model/types.py). The types of a table that is there already win:
a value is cast to them, and one that they cannot hold is an error of its operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.faults import TOO_LARGE
from trailgate.columnar.digits import from_hex
from trailgate.columnar.rows import failing_row, row_error
from trailgate.errors import DecodeError, DefinitionError, Where
from trailgate.model.table_patterns import NAME_PART, unquote
from trailgate.model.tables import Column, Table
from trailgate.model.types import Family
from trailgate.model.values import typed_for

Convert = Callable[[pa.Array], pa.Array]
TYPES_HINT: Final = "The trail has it as {}: give the target's column a type that holds it, or leave the operation out, --on-error discard"
MICROSECONDS: Final = 26  # characters of a date time with six digits of fraction


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column of a target table. ``number`` is text whose content is a number; ``length`` the most characters of text, None where nothing states it."""

    name: str
    type: pa.DataType
    number: bool = False
    length: int | None = None


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

        Raises DefinitionError where a column of the key is not there.
        """
        known = {field.name.casefold(): at for at, field in enumerate(schema)}
        own = {column.name.casefold(): column for column in self.columns}
        columns = tuple(
            replace(
                own.get(field.name.casefold(), TargetColumn(field.name, field.type)),
                name=field.name,
                type=field.type,
            )
            for field in schema
        )
        key = []
        for at in self.key:
            place = known.get(self.columns[at].name.casefold())
            if place is None:
                problem = (
                    f"the target's table has no column {self.columns[at].name}, which is of the key"
                )
                raise DefinitionError(problem, where=Where(table=".".join(name)))
            key.append(place)
        return TargetTable(name, columns, tuple(key), self.keyless)

    def places(self, table: Table) -> list[int | None]:
        """Return for each column the index of the one of a source table that has its name, compared without case."""
        known = {column.name.casefold(): at for at, column in enumerate(table.columns)}
        return [known.get(column.name.casefold()) for column in self.columns]


def fold_name(name: str) -> str:
    """Return a name as a created table has it: what is all upper case becomes lower case, since databases print unquoted names so."""
    return name.lower() if name.isupper() else name


def target_table(table: Table, name: str | None = None) -> TargetTable:
    """Return the target table that is created for a source table, by default of the same name; raises DefinitionError."""
    if table.guessed:
        raise DefinitionError(
            f"nothing defines the columns of table {table.name}",
            where=Where(table=table.name),
            hint="Give definitions that name it: --definitions FILE",
        )
    parts = tuple(fold_name(unquote(part)) for part in NAME_PART.findall(name or table.name))
    columns = tuple(
        TargetColumn(
            fold_name(column.name),
            held_type(column),
            column.family is Family.NUMBER_TEXT,
            column.external_length if column.family is Family.TEXT else None,
        )
        for column in table.columns
    )
    keys = table.marked_keys
    return TargetTable(parts, columns, keys or tuple(range(len(columns))), keyless=not keys)


def held_type(column: Column) -> pa.DataType:
    """Return the Arrow type in which a created table holds a column's values.

    A number in text stays text, since no type holds all numbers; so do times with more digits than microseconds, with a zone, and intervals.
    """
    if column.family is Family.BYTES:
        return pa.binary()
    if column.family is Family.DATETIME and column.external_length > MICROSECONDS:
        return pa.string()
    return typed_for(column)[0]


def conversion(column: Column, kind: pa.DataType) -> Convert:
    """Return what makes values of a block column those of a type; it raises DecodeError, with the row as its record."""
    held = held_type(column)
    convert = _held_values(column, held)
    if kind == held:
        return convert

    def cast(values: pa.Array) -> pa.Array:
        try:
            return _cast(convert(values), kind)
        except DecodeError as error:
            error.hint = error.hint or TYPES_HINT.format(column.type_row.name)
            raise

    return cast


def _held_values(column: Column, held: pa.DataType) -> Convert:
    if column.family is Family.BYTES:
        return from_hex
    if column.family is Family.DATETIME and pa.types.is_string(held):
        return _unchanged
    return typed_for(column)[1]


def _unchanged(values: pa.Array) -> pa.Array:
    return values


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind) and kind.tz is not None and values.type != kind:
        problem = f"the target's column is of {kind}, and the times of a trail have no zone"
        raise DefinitionError(problem, hint="Make it a column of times without a zone")
    if pa.types.is_decimal(kind) and pa.types.is_integer(values.type):
        # Arrow asks for a decimal that holds every integer, and not only these.
        values = pc.cast(values, pa.string())
    try:
        found = pc.cast(values, kind)
        if kind == pa.float32() and pa.types.is_float64(values.type):
            _check_rounded(values, found)
    except pa.ArrowNotImplementedError:
        raise DefinitionError(
            f"the target's column is of {kind}, which {values.type} does not become"
        ) from None
    except pa.ArrowInvalid as error:
        row = failing_row(lambda part: pc.cast(part, kind), values)
        numbers = TOO_LARGE if _is_too_large(values[row], kind) else ()
        problem = f"the target's column is of {kind}, which does not hold this value"
        if pa.types.is_string(values.type):
            raise row_error(problem, values, row).numbered(numbers) from None
        where = Where(record=row)
        problem = f"{problem}: {values[row]} ({error})"
        raise DecodeError(problem, where=where).numbered(numbers) from None
    return found


def _check_rounded(values: pa.Array, found: pa.Array) -> None:
    """Raise DecodeError where a number of eight bytes is another one in four, which Arrow rounds without a word."""
    back = pc.cast(found, pa.float64())
    same = pc.or_(pc.equal(values, back), pc.and_(pc.is_nan(values), pc.is_nan(back)))
    rounded = np.flatnonzero(~np.asarray(pc.fill_null(same, True)))
    if len(rounded):
        row = int(rounded[0])
        problem = f"the target's column is of float, which does not hold this value: {values[row]}"
        raise DecodeError(problem, where=Where(record=row))


def _is_too_large(value: pa.Scalar, kind: pa.DataType) -> bool:
    """Return whether a value is a number with more digits before the point than a type of numbers holds; digits after it are another matter."""
    try:
        number = Decimal(str(value.as_py()))
    except InvalidOperation:
        return False
    if not number.is_finite():
        return False
    if pa.types.is_decimal(kind):
        return bool(number) and number.adjusted() >= kind.precision - kind.scale
    if not pa.types.is_integer(kind):
        return False
    bits = kind.bit_width - pa.types.is_signed_integer(kind)
    least = -(1 << bits) if pa.types.is_signed_integer(kind) else 0
    return not least <= number < 1 << bits


def with_columns_of(held: TargetTable, wanted: TargetTable) -> TargetTable:
    """Return a target table with the columns added that it lacks; its own types and key stay."""
    known = {column.name.casefold() for column in held.columns}
    added = [column for column in wanted.columns if column.name.casefold() not in known]
    return replace(held, columns=(*held.columns, *added))
