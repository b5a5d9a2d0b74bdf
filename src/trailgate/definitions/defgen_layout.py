"""The lengths and offsets of columns in Defgen files, computed by Defgen's formula (capture properties §9.2).

A definition that is not from a Defgen file, such as that of a copybook's table, has no offsets:
``complete_table`` fills them in. ``find_layout_fault`` compares the offsets in a file with the
formula.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from trailgate.model.tables import Column, Table
from trailgate.model.types import TypeFamily

_NULL_INDICATOR: Final = 2
_LENGTH: Final = 2  # only in types of varying length
_VARYING: Final = frozenset({64, 65, 66})  # 65 and 66 by analogy with 64
_TERMINATOR: Final = 1
_MEASURED: Final = frozenset(
    {
        TypeFamily.INTEGER,
        TypeFamily.UNSIGNED,
        TypeFamily.FLOAT,
        TypeFamily.DATETIME,
        TypeFamily.NUMBER_TEXT,
    }
)
# Maximum display length of a datetime, and the code of its least significant part: 0 year ... 6
# fraction. For example, YYYY-MM-DD has 10 characters and ends with the day (2).
_LEAST_PART: Final = ((4, 0), (7, 1), (10, 2), (13, 3), (16, 4), (19, 5))
_FRACTION: Final = 6


class LayoutFault(NamedTuple):
    """The first deviation of a Defgen table from the formula of offsets: the stated and the computed number.

    They are offsets of the column with the index ``column``, or record lengths if it is None.
    """

    column: int | None
    stated: int
    computed: int


def lay_out_columns(
    columns: Iterable[Column], *, rounded: bool = True
) -> tuple[tuple[Column, ...], int]:
    """Compute the lengths and fetch offsets of columns by Defgen's formula, and the record length.

    capture properties §9.2: "each column occupies 2 (null indicator) + 2 (length, only for type 64)
    + internal length + 1, rounded up to an even number; the next column starts there and the total
    is Record length"; for MySQL and PostgreSQL "without rounding".
    """
    columns = tuple(columns)
    offsets = _offsets(columns, rounded=rounded)
    placed = (
        replace(complete_column(column), fetch_offset=offset)
        for column, offset in zip(columns, offsets, strict=False)
    )
    return tuple(placed), offsets[-1]


def _offsets(columns: Iterable[Column], *, rounded: bool) -> list[int]:
    """Compute each column's fetch offset by Defgen's formula, and finally the record length."""
    offsets = [0]
    for column in columns:
        size = _NULL_INDICATOR + _internal_length(column) + _TERMINATOR
        size += _LENGTH if column.data_type in _VARYING else 0
        offsets.append(offsets[-1] + size + (size % 2 if rounded else 0))
    return offsets


def _internal_length(column: Column) -> int:
    return column.internal_length or column.type_row.width or column.external_length


def complete_column(column: Column) -> Column:
    """Fill in a column's internal and binary lengths and its datetime range as Defgen would, if they are zero.

    capture properties §9.2, attributes 9 to 13. Raises DefinitionError if the type is unknown.
    """
    internal = _internal_length(column)
    binary = column.binary_length or internal
    in_table = column.table_length or (internal if column.family in _MEASURED else 0)
    least = column.least_significant
    if column.family is TypeFamily.DATETIME and not column.most_significant and not least:
        least = next((part for n, part in _LEAST_PART if column.external_length <= n), _FRACTION)
    return replace(
        column,
        internal_length=internal,
        binary_length=binary,
        table_length=in_table,
        least_significant=least,
    )


def complete_table(table: Table) -> Table:
    """Lay out a table that does not come from a Defgen file: fill in its columns' lengths and offsets, and its record length.

    If the table already has a record length, its offsets are not changed.
    """
    columns, record_length = lay_out_columns(table.columns)
    if table.record_length:
        return replace(table, columns=tuple(complete_column(c) for c in table.columns))
    return replace(table, columns=columns, record_length=record_length)


def find_layout_fault(table: Table) -> LayoutFault | None:
    """Return a Defgen table's first deviation from the formula of offsets, or None if it fits with or without rounding.

    If it fits neither form, its deviation from the form that fits more columns is returned.
    """
    faults = [_fault(table, rounded=True), _fault(table, rounded=False)]
    if None in faults:
        return None
    all_columns = len(table.columns)
    return max(
        (fault for fault in faults if fault is not None),
        key=lambda fault: all_columns if fault.column is None else fault.column,
    )


def _fault(table: Table, *, rounded: bool) -> LayoutFault | None:
    """Return a Defgen table's first deviation from the formula with or without rounding, or None."""
    *offsets, record_length = _offsets(table.columns, rounded=rounded)
    for index, (column, offset) in enumerate(zip(table.columns, offsets, strict=True)):
        if column.fetch_offset != offset:
            return LayoutFault(index, column.fetch_offset, offset)
    if table.record_length != record_length:
        return LayoutFault(None, table.record_length, record_length)
    return None
