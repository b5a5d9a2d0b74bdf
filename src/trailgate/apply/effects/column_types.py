"""Parse the types that a user chooses for columns of created tables (``--column``).

For example, ``GG.ORDERS.PRICE=decimal(18,2)`` creates the column PRICE of GG.ORDERS as a decimal.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Self

import pyarrow as pa

from trailgate.apply.effects.tables import TargetTable
from trailgate.errors import OptionError, did_you_mean
from trailgate.model.table_names import TablePatterns, describe_no_match

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
