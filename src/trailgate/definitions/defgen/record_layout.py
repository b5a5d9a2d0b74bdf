"""Where columns lie in a record, by the formula that Defgen files follow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from trailgate.model.tables import Column, Table
from trailgate.model.types import Family

_NULL_INDICATOR: Final = 2
_LENGTH: Final = 2  # only types of varying length have one
_VARYING: Final = frozenset({64, 65, 66})  # 65 and 66 by analogy with 64
_TERMINATOR: Final = 1
_MEASURED: Final = frozenset(
    {Family.INTEGER, Family.UNSIGNED, Family.FLOAT, Family.DATETIME, Family.NUMBER_TEXT}
)
# Display length of a datetime to the code of its least significant part (0 year ... 6 fraction).
_LEAST_PART: Final = ((4, 0), (7, 1), (10, 2), (13, 3), (16, 4), (19, 5))
_FRACTION: Final = 6


class LayoutFault(NamedTuple):
    """The first place where a table differs from the formula; ``column`` None is the whole record."""

    column: int | None
    stated: int
    computed: int


def layout(columns: Iterable[Column], *, rounded: bool = True) -> tuple[tuple[Column, ...], int]:
    """Return the columns with lengths and fetch offsets filled in, and the record length.

    capture properties §9.2: "each column occupies 2 (null indicator) + 2 (length, only for
    type 64) + internal length + 1, rounded up to an even number; the next column starts there
    and the total is Record length"; for MySQL and PostgreSQL "without rounding".
    """
    columns = tuple(columns)
    offsets = _offsets(columns, rounded=rounded)
    placed = (
        replace(complete_column(column), fetch_offset=offset)
        for column, offset in zip(columns, offsets, strict=False)
    )
    return tuple(placed), offsets[-1]


def _offsets(columns: Iterable[Column], *, rounded: bool) -> list[int]:
    """Return the fetch offset of each column, and the record length."""
    offsets = [0]
    for column in columns:
        size = _NULL_INDICATOR + _internal_length(column) + _TERMINATOR
        size += _LENGTH if column.data_type in _VARYING else 0
        offsets.append(offsets[-1] + size + (size % 2 if rounded else 0))
    return offsets


def _internal_length(column: Column) -> int:
    return column.internal_length or column.type_row.width or column.external_length


def complete_column(column: Column) -> Column:
    """Return the column with lengths and datetime range filled in where they are zero.

    capture properties §9.2, attributes 9 to 13. Raises DefinitionError for an unknown type.
    """
    internal = _internal_length(column)
    binary = column.binary_length or internal
    in_table = column.table_length or (internal if column.family in _MEASURED else 0)
    least = column.least_significant
    if column.family is Family.DATETIME and not column.most_significant and not least:
        least = next((part for n, part in _LEAST_PART if column.external_length <= n), _FRACTION)
    return replace(
        column,
        internal_length=internal,
        binary_length=binary,
        table_length=in_table,
        least_significant=least,
    )


def complete(table: Table) -> Table:
    """Return a table built in code with its lengths, offsets and record length filled in.

    A table that has a record length already keeps its offsets.
    """
    columns, record_length = layout(table.columns)
    if table.record_length:
        return replace(table, columns=tuple(complete_column(c) for c in table.columns))
    return replace(table, columns=columns, record_length=record_length)


def layout_fault(table: Table) -> LayoutFault | None:
    """Return where a table first leaves both forms of the formula, or None if one form fits.

    The form that fits longer is the one reported.
    """
    faults = [_fault(table, rounded=True), _fault(table, rounded=False)]
    if None in faults:
        return None
    whole = len(table.columns)
    return max(
        (fault for fault in faults if fault is not None),
        key=lambda fault: whole if fault.column is None else fault.column,
    )


def _fault(table: Table, *, rounded: bool) -> LayoutFault | None:
    *offsets, record_length = _offsets(table.columns, rounded=rounded)
    for index, (column, offset) in enumerate(zip(table.columns, offsets, strict=True)):
        if column.fetch_offset != offset:
            return LayoutFault(index, column.fetch_offset, offset)
    if table.record_length != record_length:
        return LayoutFault(None, table.record_length, record_length)
    return None
