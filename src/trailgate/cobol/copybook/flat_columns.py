"""The flat columns of a layout: one for each elementary item, and their names.

An elementary item becomes a column with the item's name. If two items share a name, it is qualified
by the group (``GROUP_NAME``), then by the next outer group, until the names differ. An element of
an OCCURS has its index from 1, or its configured name, as a suffix: ``NAME_1``, ``NAME_1_2``,
``NAME_JAN``. Names that are still equal are numbered from the second on (``NAME``, ``NAME_2``), as
struct members are. FILLER is skipped, and groups are not columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from trailgate.cobol.copybook.layouts import CopybookField, CopybookLayout
from trailgate.cobol.copybook.placed_items import PlacedItem, columns_below, place_items


@dataclass(frozen=True, slots=True)
class FlatColumn:
    """One column of a flattened layout: its name, its field, and the offset of this occurrence in the record."""

    name: str
    field: CopybookField
    offset: int


def flat_columns(layout: CopybookLayout) -> tuple[FlatColumn, ...]:
    """Return the flat columns of a layout in order.

    Raises DefinitionError if the layout has too many.
    """
    items = list(columns_below(place_items(layout).root))
    return tuple(
        FlatColumn(name, item.field, int(item.offset))
        for name, item in zip(_column_names(items), items, strict=True)
    )


def column_names(layout: CopybookLayout) -> tuple[str, ...]:
    """Return the names of a layout's flat columns in order."""
    return tuple(_column_names(list(columns_below(place_items(layout).root))))


def _column_names(items: list[PlacedItem]) -> list[str]:
    """Return a distinct column name for each elementary item of a layout."""
    # A nameless group does not distinguish anything.
    groups = [[group.name for group in item.groups if not group.filler] for item in items]
    names = _unique([(*path, i.field.name) for path, i in zip(groups, items, strict=True)])
    suffixes = map(_suffix, items)
    return make_column_names_distinct(
        [name + suffix for name, suffix in zip(names, suffixes, strict=True)]
    )


def _suffix(item: PlacedItem) -> str:
    """Return the suffix of an OCCURS element's column name, for example ``_1_2`` or ``_JAN``."""
    occurs_fields = [one.occurs for one in (*item.groups, item.field) if one.occurs is not None]
    parts = zip(occurs_fields, item.indexes, strict=True)
    return "".join(f"_{occurs.names[at - 1] if occurs.names else at}" for occurs, at in parts)


def make_column_names_distinct(names: list[str]) -> list[str]:
    """Make column names distinct regardless of case: the second ``NAME`` becomes ``NAME_2``."""
    return list(_distinct(tuple(names)))


@lru_cache(256)  # called for each batch, with the names of a record's groups
def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    taken: set[str] = set()
    # The last number used for each name, so that many equal names are not counted from 2 each time.
    numbers: dict[str, int] = {}
    distinct = []
    for name in names:
        free, number = name, numbers.get(name.upper(), 1)
        # A numbered name may be taken too: A, A_2 and A become A, A_2 and A_3.
        while free.upper() in taken:
            number += 1
            free = f"{name}_{number}"
        numbers[name.upper()] = number
        taken.add(free.upper())
        distinct.append(free)
    return tuple(distinct)


def _unique(paths: list[tuple[str, ...]]) -> list[str]:
    """Return the shortest unique column name for each item, given by its path of groups.

    A path has the names of an item's groups, outermost first, and then the item's own. If two paths
    would have the same name, both get one more group: ``(A, B)`` and ``(C, B)`` become ``A_B`` and
    ``C_B``.
    """
    # The elements of an OCCURS have the same path. Their suffixes distinguish them later.
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


def names_of_columns(items: Iterable[PlacedItem]) -> frozenset[str]:
    """Return all names, in capitals, by which flat columns can be selected."""
    return frozenset(name.upper() for item in items for name in names_of_item(item))


def names_of_item(item: PlacedItem) -> tuple[str, ...]:
    """Return the names by which a flat column can be selected: its own, its field's, and those of its groups."""
    return (item.name, item.field.name, *(group.name for group in item.groups))
