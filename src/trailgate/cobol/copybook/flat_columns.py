"""The flat columns of a layout: the one rule by which copybook items become columns.

An elementary item is a column named after it. A name that occurs twice is qualified by its group (``GROUP_NAME``), by
the group around that one where it is still there twice, and so on. An element of an OCCURS has
its index, from 1, as suffix (``NAME_1``, ``NAME_1_2``). What has the same name even so is numbered from the second one on
(``NAME``, ``NAME_2``), as members of structs are. FILLER is skipped, and groups are not columns.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from trailgate.cobol.copybook.item_positions import Item, columns_below, place_items
from trailgate.cobol.copybook.layouts import Field, Layout


@dataclass(frozen=True, slots=True)
class FlatColumn:
    """One column: its name, its field, and where this element of it begins in the record."""

    name: str
    field: Field
    offset: int


def flat_columns(layout: Layout) -> tuple[FlatColumn, ...]:
    """Return the columns of a record in their order; raises DefinitionError for too many."""
    found = list(columns_below(place_items(layout).root))
    return tuple(
        FlatColumn(name, item.field, int(item.offset))
        for name, item in zip(_named(found), found, strict=True)
    )


def column_names(layout: Layout) -> tuple[str, ...]:
    """Return the names of the columns of a record in their order."""
    return tuple(_named(list(columns_below(place_items(layout).root))))


def _named(items: list[Item]) -> list[str]:
    # A nameless group does not distinguish anything.
    groups = [[group.name for group in item.groups if not group.filler] for item in items]
    names = _unique([(*path, i.field.name) for path, i in zip(groups, items, strict=True)])
    suffixes = ("".join(f"_{index}" for index in item.indexes) for item in items)
    return distinct_names([name + suffix for name, suffix in zip(names, suffixes, strict=True)])


def distinct_names(names: list[str]) -> list[str]:
    """Return the names, whatever their case, with a number from the second one of the same name on."""
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    found = []
    for name in names:
        free, number = name, numbers.get(name.upper(), 1)
        while free.upper() in taken:
            number += 1
            free = f"{name}_{number}"
        numbers[name.upper()] = number
        taken.add(free.upper())
        found.append(free)
    return found


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
