"""Layouts to flat columns: the one rule by which copybook items become columns.

An elementary item is a column named after it. A name that occurs twice is qualified by its group (``GROUP_NAME``), by
the group around that one where it is still there twice, and so on. An element of an OCCURS has
its index, from 1, as suffix (``NAME_1``, ``NAME_1_2``). FILLER is skipped, and groups are no columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from trailgate.cobol.copybook.layouts import Field, Layout
from trailgate.errors import DefinitionError, Where

MAX_COLUMNS: Final = 32_767  # more elements than a record of a trail can name


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
