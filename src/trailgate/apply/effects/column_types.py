"""Parse the types that a user chooses for columns of created tables (``--column``), such as ``GG.ORDERS.PRICE=decimal(18,2)``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Self

import pyarrow as pa

from trailgate.apply.effects.tables import TargetTable
from trailgate.errors import OptionError
from trailgate.model.table_patterns import TablePatterns

EXAMPLE: Final = "As in GG.ORDERS.PRICE=decimal(18,2)"
NAMED: Final[Mapping[str, pa.DataType]] = MappingProxyType(
    {
        "bigint": pa.int64(),
        "date": pa.date32(),
        "double": pa.float64(),
        "text": pa.string(),
        "timestamp": pa.timestamp("us"),
    }
)
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)", re.IGNORECASE)
MOST_DIGITS: Final = 38


@dataclass(frozen=True, slots=True)
class ColumnTypes:
    """Chosen column types: each has a pattern of tables, a column name and a type."""

    chosen: tuple[tuple[TablePatterns, str, pa.DataType], ...] = ()

    @classmethod
    def read(cls, given: Iterable[str]) -> Self:
        """Parse options such as ``GG.ORDERS.PRICE=decimal(18,2)``. Raises OptionError."""
        return cls(tuple(map(_chosen, given)))

    def chosen_for(self, table: TargetTable) -> Mapping[str, pa.DataType]:
        """Return the chosen types for a table, by column name in lower case."""
        return {
            column.casefold(): kind
            for patterns, column, kind in self.chosen
            if patterns.fits_end(str(table))
        }

    def of(self, table: TargetTable) -> TargetTable:
        """Return the table with the chosen types."""
        own = self.chosen_for(table)
        columns = tuple(
            replace(column, type=own[column.name.casefold()], number=False)
            if column.name.casefold() in own
            else column
            for column in table.columns
        )
        return replace(table, columns=columns) if own else table


def _chosen(text: str) -> tuple[TablePatterns, str, pa.DataType]:
    place, equal, kind = text.partition("=")
    table, point, column = place.strip().rpartition(".")
    if not (equal and point and table and column):
        raise OptionError(f"{text!r} is not a column and its type", hint=EXAMPLE)
    return TablePatterns((table,)), column.strip('"'), _type_of(kind.strip(), text)


def _type_of(kind: str, text: str) -> pa.DataType:
    if kind.casefold() in NAMED:
        return NAMED[kind.casefold()]
    found = _DECIMAL.fullmatch(kind)
    if found is None:
        known = ", ".join([*NAMED, "decimal(p,s)"])
        raise OptionError(f"{kind!r} of {text!r} is not a type", hint=f"There are {known}")
    digits, scale = int(found[1]), int(found[2])
    if not 0 < digits <= MOST_DIGITS or scale > digits:
        problem = f"decimal({digits},{scale}) has no such digits: 1 to {MOST_DIGITS}, and no more of them after the point"
        raise OptionError(problem)
    return pa.decimal128(digits, scale)
