"""Layouts to columns: the one rule by which copybook items become columns of a table.

An elementary item is a column named after it. A name that occurs twice is qualified by its group (``GROUP_NAME``), by
the group around that one where it is still there twice, and so on. An element of an OCCURS has
its index, from 1, as suffix (``NAME_1``, ``NAME_1_2``). FILLER is skipped, and groups are no columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from trailgate.definitions.defgen_layout import complete
from trailgate.errors import DefinitionError, Where
from trailgate.model.layouts import Field, Layout, Number, Usage
from trailgate.model.tables import Column, Table

MAX_COLUMNS: Final = 32_767  # more elements than a record of a trail can name
INTEGER_DIGITS: Final = 18  # what 64 bits hold

# Type codes and sub types (capture reference 9.3 and 9.4).
_CHAR, _VARCHAR, _BIN64, _DATETIME = 0, 64, 134, 192
_FLOAT_TEXT, _FIXED_TEXT, _BINARY = 2, 3, 4
_FLOAT_LENGTH: Final = 50  # as an unconstrained NUMBER has


@dataclass(frozen=True, slots=True)
class FlatColumn:
    """One column: its name, its field, and where this element of it begins in the record."""

    name: str
    field: Field
    offset: int


def flat_columns(layout: Layout) -> tuple[FlatColumn, ...]:
    """Return the columns of a record in their order; raises DefinitionError for too many."""
    found = []
    for item in _elements(layout.root, (), (), 0):
        found.append(item)
        if len(found) > MAX_COLUMNS:
            problem = f"the record {layout.name} has more than {MAX_COLUMNS} elements"
            raise DefinitionError(problem, where=Where(table=layout.name))
    names = _unique([path for path, _, _, _ in found])
    return tuple(
        FlatColumn(name + suffix, field, offset)
        for name, (_, suffix, field, offset) in zip(names, found, strict=True)
    )


_Element = tuple[tuple[str, ...], str, Field, int]


def _elements(
    field: Field, groups: tuple[str, ...], indexes: tuple[int, ...], shift: int
) -> Iterator[_Element]:
    for number in range(field.repeats):
        at = shift + number * (field.stride or field.size)
        own = (*indexes, number + 1) if field.occurs else indexes
        if field.children:
            # A nameless group, and the record itself, tell nothing apart.
            path = groups if field.filler else (*groups, field.name)
            for child in field.children:
                yield from _elements(child, path, own, at)
        elif not field.filler:
            suffix = "".join(f"_{index}" for index in own)
            yield (*groups, field.name), suffix, field, field.offset + at


def _unique(paths: list[tuple[str, ...]]) -> list[str]:
    """Return a name for each path: as short as keeps different paths apart."""
    distinct = list(dict.fromkeys(paths))
    depth = dict.fromkeys(distinct, 1)
    while True:
        names = {path: "_".join(path[-depth[path] :]) for path in distinct}
        seen = Counter(name.upper() for name in names.values())
        longer = [p for p in distinct if seen[names[p].upper()] > 1 and depth[p] < len(p)]
        if not longer:
            return [names[path] for path in paths]
        for path in longer:
            depth[path] += 1


def table_of(layout: Layout, name: str | None = None) -> Table:
    """Return the table that a record is: what gendef writes for it."""
    columns = tuple(column_of(column) for column in flat_columns(layout))
    return complete(Table(name or layout.name, columns))


def column_of(column: FlatColumn) -> Column:
    """Return a column's definition by the type translation of the capture reference (5.1, 9.4)."""
    field = column.field
    return replace(_typed(field), name=column.name, key=field.key, nullable=not field.key)


def _typed(field: Field) -> Column:
    if field.date_format is not None:
        return Column("", _DATETIME, date_length(field.date_format))
    if field.usage in (Usage.FLOAT, Usage.DOUBLE):
        return Column("", _VARCHAR, _FLOAT_LENGTH, sub_type=_FLOAT_TEXT)
    if field.number is not None:
        return _number(field.number)
    if field.usage is Usage.RAW:
        return Column("", _VARCHAR, 2 * field.size, sub_type=_BINARY)
    if field.usage in (Usage.NATIONAL, Usage.DBCS):
        # Two bytes a character there are up to three in UTF-8.
        characters = field.size // 2
        return Column("", _VARCHAR, 3 * characters, character_length=characters)
    return Column("", _CHAR, field.size)


def _number(number: Number) -> Column:
    # A negative scale is digits in front of the decimal point that are not held.
    scale = max(number.scale, 0)
    digits = max(number.digits + max(-number.scale, 0), scale)
    if digits <= INTEGER_DIGITS:
        return Column("", _BIN64, digits, scale=scale)
    length = digits + number.signed + (scale > 0)
    return Column("", _VARCHAR, length, scale=scale, sub_type=_FIXED_TEXT)


def date_length(form: str) -> int:
    """Return how many characters a date of that format has as it is written to the trail."""
    upper = form.upper()
    if "F" in upper:
        return 26
    return 19 if "HH" in upper or "MI" in upper else 10
