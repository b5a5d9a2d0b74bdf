"""Choose the types of a target table's columns, and convert the values of source columns to them.

By default a created table gets the types of its source table (``tables.created_type``). A user may choose another one: ``--column "GG.ORDERS.PRICE=decimal(18,2)"``
creates the column PRICE of GG.ORDERS as a decimal. If the table exists already, its own types win:
values are cast to them, and a value that does not fit is an error of its operation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.exact_casts import cast_exactly
from trailgate.apply.effects.stored_types import check_stored_values
from trailgate.apply.effects.tables import TargetColumn, TargetTable, created_type
from trailgate.columnar.hex_digits import from_hex
from trailgate.errors import DecodeError, OptionError, did_you_mean
from trailgate.model.table_names import TablePatterns, describe_no_match
from trailgate.model.tables import Column
from trailgate.model.types import TypeFamily
from trailgate.model.values import typed_for

Convert = Callable[[pa.Array], pa.Array]
TYPES_HINT: Final = "Its type in the trail is {}: give the target's column a type that can hold it, or discard the operation with --on-error discard"
EXAMPLE: Final = "For example, GG.ORDERS.PRICE=decimal(18,2)"
# The names of types in --column, beside decimal(p,s).
NAMED: Final[Mapping[str, pa.DataType]] = MappingProxyType(
    {
        "bigint": pa.int64(),
        "date": pa.date32(),
        "double": pa.float64(),
        "text": pa.string(),
        "timestamp": pa.timestamp("us"),
    }
)
# A decimal with its precision and scale, such as decimal(18, 2).
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)", re.IGNORECASE)
# The precision of Arrow's decimal128, and the largest one of DECIMAL in DuckDB, Delta Lake and Iceberg.
MOST_DIGITS: Final = 38


@dataclass(frozen=True, slots=True)
class ChosenColumnTypes:
    """The column types chosen by ``--column`` options.

    Each choice has a pattern of tables, a column name and a type.
    """

    chosen: tuple[tuple[TablePatterns, str, pa.DataType], ...] = ()

    @classmethod
    def read(cls, options: Iterable[str]) -> Self:
        """Parse options such as ``GG.ORDERS.PRICE=decimal(18,2)``. Raises OptionError."""
        return cls(tuple(map(_chosen, options)))

    def chosen_for(self, table: TargetTable) -> Mapping[str, pa.DataType]:
        """Return the types that ``--column`` chooses for a table, by column name in lower case."""
        return {
            column.casefold(): arrow_type
            for patterns, column, arrow_type in self.chosen
            if patterns.fits_end(str(table))
        }

    def unmatched(
        self, columns: Mapping[str, Collection[str]], unread: Collection[str] = ()
    ) -> tuple[str, ...]:
        """Return a sentence for each ``--column`` option whose table or column does not exist.

        ``columns`` contains the columns of each known table, and ``unread`` the names of tables
        whose columns are unknown. Returns nothing if both are empty.
        """
        # Targets that fold case name the same table in two ways.
        folded = {name.casefold() for name in columns}
        known = sorted({*columns, *(one for one in unread if one.casefold() not in folded)})
        notices = []
        for patterns, column, _ in self.chosen if known else ():
            (pattern,) = patterns.patterns
            fitting = [name for name in known if patterns.fits_end(name)]
            listed = sorted({one for name in fitting for one in columns.get(name, ())})
            if not fitting:
                notices.append(describe_no_match("--column", pattern, known, "the group"))
            elif all(name in columns for name in fitting) and column.casefold() not in {
                one.casefold() for one in listed
            }:
                problem = f"--column {pattern}.{column}: {', '.join(fitting)} has no such column"
                notices.append(f"{problem}. {did_you_mean(column, listed)}".strip())
        return tuple(notices)

    def apply_to(self, table: TargetTable) -> TargetTable:
        """Return the target table with the types that ``--column`` chooses for it."""
        chosen = self.chosen_for(table)
        columns = tuple(
            replace(column, type=chosen[column.name.casefold()], number=False)
            if column.name.casefold() in chosen
            else column
            for column in table.columns
        )
        return replace(table, columns=columns) if chosen else table


def _chosen(text: str) -> tuple[TablePatterns, str, pa.DataType]:
    # GG.ORDERS.PRICE=decimal(18,2): table GG.ORDERS, column PRICE
    column_path, equal, type_name = text.partition("=")
    table, point, column = column_path.strip().rpartition(".")
    if not (equal and point and table and column):
        raise OptionError(f"{text!r} is not a column and its type", hint=EXAMPLE)
    return TablePatterns((table,)), column.strip('"'), _type_of(type_name.strip(), text)


def _type_of(type_name: str, text: str) -> pa.DataType:
    if type_name.casefold() in NAMED:
        return NAMED[type_name.casefold()]
    match = _DECIMAL.fullmatch(type_name)
    if match is None:
        known = ", ".join([*NAMED, "decimal(p,s)"])
        raise OptionError(f"{type_name!r} of {text!r} is not a type", hint=f"Types are {known}")
    digits, scale = int(match[1]), int(match[2])
    if not 0 < digits <= MOST_DIGITS or scale > digits:
        problem = f"decimal({digits},{scale}) is not possible: the precision is 1 to {MOST_DIGITS}, the scale at most the precision"
        raise OptionError(problem)
    return pa.decimal128(digits, scale)


def make_conversion(column: Column, target: TargetColumn, *, is_key: bool = False) -> Convert:
    """Return a function that converts values from a source column's type to the type of a target column.

    The function raises DecodeError for a value that does not fit, with its row in ``where.record``.
    In a key column, values that are equal in the target are converted to the same value.
    """
    created = created_type(column)
    convert = _created_values(column, created)
    target_type, stored = target.type, target.stored
    if (
        target_type == created
        and stored is None
        and not (is_key and pa.types.is_floating(target_type))
    ):
        return convert

    def cast(values: pa.Array) -> pa.Array:
        try:
            result = cast_exactly(convert(values), target_type)
            if stored is not None:
                fixed = column.type_row.fixed
                result = check_stored_values(result, stored, fixed=fixed, canonical=is_key)
            # 0.0 and -0.0 are the same key: adding 0.0 to -0.0 gives 0.0.
            zero = (
                pa.scalar(0.0, target_type)
                if is_key and pa.types.is_floating(target_type)
                else None
            )
            return result if zero is None else pc.add(result, zero)
        except DecodeError as error:
            error.hint = error.hint or TYPES_HINT.format(column.type_row.name)
            raise

    return cast


def _created_values(column: Column, created: pa.DataType) -> Convert:
    if column.family is TypeFamily.BYTES:
        return from_hex
    if column.family is TypeFamily.DATETIME and pa.types.is_string(created):
        return _unchanged
    return typed_for(column)[1]


def _unchanged(values: pa.Array) -> pa.Array:
    return values
