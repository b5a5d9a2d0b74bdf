"""Where each item of a record lies, and the flat columns of a layout.

One walk over the layout serves one record or many. Offsets count from the record's begin. They are numbers as long as nothing before the item
varies, and a column of numbers, one a record, after an OCCURS DEPENDING ON of real length.

One rule makes columns of items. An elementary item is a column named after it. A name that occurs twice is qualified by its group
(``GROUP_NAME``), by the group around that one where it is still there twice, and so on. An element of an OCCURS has
its index, from 1, or the name that the element has, as suffix (``NAME_1``, ``NAME_1_2``, ``NAME_JAN``). What has the same name even so is numbered from the second one on
(``NAME``, ``NAME_2``), as members of structs are. FILLER is skipped, and groups are not columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as member
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.cobol.copybook.layouts import MAX_COLUMNS, Field, Layout, Occurs
from trailgate.errors import DefinitionError, Where

UNPLACED: Final = 1 << 62  # an offset that is not known
Offset = int | Longs
# The name of a counter, and of the groups that it is in, from the record's items down; None where only one item has the name.
CounterKey = tuple[str, tuple[str, ...] | None]
# What something depends on: each OCCURS DEPENDING ON, with the records whose counter is not a count for it.
Depends = Mapping[Occurs, Mask | None]
NOTHING: Final[Depends] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """One element of an elementary item; ``active`` are the records that have it at a known offset, None for all.

    ``name`` is that of its flat column, or the field's own where the walk was given no names. ``lost`` is what its
    offset depends on, limited to records that have the element; ``depends`` are these and the OCCURS that it is in.
    """

    name: str
    field: Field
    offset: Offset
    active: Mask | None = None
    groups: tuple[Field, ...] = ()
    indexes: tuple[int, ...] = ()
    lost: Depends = member(default_factory=dict)
    depends: frozenset[Occurs] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class GroupItem:
    """One element of a group."""

    field: Field
    members: tuple[ItemNode, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RepeatedItem:
    """All elements of an OCCURS; ``count`` is None where each record has them all."""

    field: Field
    elements: tuple[ItemNode, ...]
    count: Longs | None = None
    unknown: Mask | None = None  # records whose counter is not a count


ItemNode = Item | GroupItem | RepeatedItem


@dataclass(frozen=True, slots=True, eq=False)
class BadCount:
    """Records whose counter is not a count that the OCCURS allows: in those of ``unread`` it is not a count at all."""

    field: Field
    counter: str
    offset: Offset
    rows: Mask
    counts: Longs
    unread: Mask


class Counts(NamedTuple):
    """What a counter holds in each record; ``unread`` are the records in which it holds no count."""

    values: Longs
    unread: Mask | None = None


CountReader = Callable[[Item], Counts]


@dataclass(frozen=True, slots=True, eq=False)
class PlacedItems:
    """A layout's items with their offsets, and the bytes that each record takes.

    ``known`` are the records whose extent is known, since the counters that it depends on are counts; None for all.
    """

    root: ItemNode
    bad_counts: tuple[BadCount, ...]
    extent: Offset
    known: Mask | None = None


def place_items(
    layout: Layout,
    names: tuple[str, ...] | None = None,
    read: CountReader | None = None,
    *,
    real: bool = False,
) -> PlacedItems:
    """Return the items of a layout with their offsets; raises DefinitionError for too many.

    ``names`` are those of the flat columns. ``read`` gives the counts that a counter holds; without
    it every OCCURS has all its elements. ``real`` lets it take only the bytes of those that are there.
    """
    counted = counter_keys(layout) if read else frozenset()
    walk = _Walk(layout, None if names is None else iter(names), counted, read, real)
    node, extent = walk.all_of(layout.root, _Distance(0), _Around())
    return PlacedItems(node, tuple(walk.bad_counts), extent.bytes, _known(extent.depends))


def counter_key(occurs: Occurs) -> CounterKey:
    """Return what names the counter of an OCCURS DEPENDING ON."""
    groups = occurs.groups
    names = None if groups is None else tuple(group.upper() for group in groups)
    return str(occurs.counter).upper(), names


def counter_keys(layout: Layout) -> frozenset[CounterKey]:
    """Return what names the counters of a layout."""
    occurs = (field.occurs for field in layout.root.walk())
    return frozenset(counter_key(one) for one in occurs if one is not None and one.counter)


def key_among(
    keys: frozenset[CounterKey], field: Field, groups: tuple[Field, ...]
) -> CounterKey | None:
    """Return which of some counters a field in groups is; None where it is none."""
    name = field.name.upper()
    if (name, None) in keys:
        return name, None
    if name not in _grouped(keys):
        return None
    own = name, tuple(group.name.upper() for group in groups[1:])
    return own if own in keys else None


@lru_cache(64)
def _grouped(keys: frozenset[CounterKey]) -> frozenset[str]:
    """Return the names of counters that their groups tell from others of the same name."""
    return frozenset(name for name, groups in keys if groups is not None)


def columns_below(node: ItemNode) -> Iterator[Item]:
    """Yield the elementary items below a node that have a column."""
    if isinstance(node, Item):
        if not node.field.filler:
            yield node
        return
    for below in node.members if isinstance(node, GroupItem) else node.elements:
        yield from columns_below(below)


def _both(one: Mask | None, other: Mask | None) -> Mask | None:
    """Return the rows of both masks; None is all."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _known(depends: Depends) -> Mask | None:
    """Return the rows in which all counters are counts; None is all."""
    known = None
    for bad in depends.values():
        known = known if bad is None else _both(known, ~bad)
    return known


def _merge(one: Depends, other: Depends) -> Depends:
    """Return what two things depend on together."""
    if not one or one is other:
        return other
    found = dict(one)
    for occurs, bad in other.items():
        before = found.get(occurs)
        found[occurs] = bad if before is None else before if bad is None else before | bad
    return found


class _Distance(NamedTuple):
    """Bytes between two places, and the OCCURS that their number depends on."""

    bytes: Offset
    depends: Depends = NOTHING

    def plus(self, bytes_: Offset, depends: Depends = NOTHING) -> _Distance:
        """Return a distance that is longer by some bytes."""
        return _Distance(self.bytes + bytes_, _merge(self.depends, depends))


class _Around(NamedTuple):
    """What an item is in: the groups, the elements' indexes, the OCCURS, and the records that have these."""

    groups: tuple[Field, ...] = ()
    indexes: tuple[int, ...] = ()
    active: Mask | None = None
    depends: frozenset[Occurs] = frozenset()

    def element(self, index: int, here: Mask | None) -> _Around:
        """Return what an element of an OCCURS is in."""
        return self._replace(indexes=(*self.indexes, index + 1), active=_both(self.active, here))


class _Counted(NamedTuple):
    """How often a field occurs: ``counts`` is None where each record has all elements."""

    counts: Longs | None = None
    bad: Mask | None = None
    depends: frozenset[Occurs] = frozenset()  # its own OCCURS, and what its counter depends on


@dataclass(slots=True)
class _Walk:
    layout: Layout
    names: Iterator[str] | None
    counters: frozenset[CounterKey]
    read: CountReader | None
    real: bool
    counts: dict[CounterKey, tuple[Counts, frozenset[Occurs]]] = member(default_factory=dict)
    bad_counts: list[BadCount] = member(default_factory=list)
    columns: int = 0

    def all_of(self, field: Field, at: _Distance, around: _Around) -> tuple[ItemNode, _Distance]:
        """Return all occurrences of a field, and the bytes that they take."""
        if field.occurs is None:
            return self.one_of(field, at, around)
        count, bad, depends = self._count(field, field.occurs, at, around.active)
        around = around._replace(depends=around.depends | depends)
        elements = []
        extent = _Distance(0)
        for index in range(field.occurs.most):
            here = None if count is None else count > index
            begin = at.plus(*extent)
            node, size = self.one_of(field, begin, around.element(index, here))
            elements.append(node)
            step: Offset = field.stride
            if self.real:
                step = (field.stride or field.size) - field.size + size.bytes
                step = step if here is None else np.where(here, step, 0)
            extent = extent.plus(step, size.depends)
        if self.real and count is not None:
            extent = extent.plus(0, {field.occurs: bad})
        return RepeatedItem(field, tuple(elements), count, bad), extent

    def one_of(self, field: Field, at: _Distance, around: _Around) -> tuple[ItemNode, _Distance]:
        """Return one occurrence of a field, and the bytes that it takes."""
        if field.children:
            return self._group(field, at, around._replace(groups=(*around.groups, field)))
        name = field.name
        if not field.filler:
            self._count_column()
            name = name if self.names is None else next(self.names)
        active = _both(around.active, _known(at.depends))
        lost = {
            occurs: _both(around.active, bad)
            for occurs, bad in at.depends.items()
            if bad is not None
        }
        depends = around.depends.union(at.depends)
        item = Item(name, field, at.bytes, active, around.groups, around.indexes, lost, depends)
        key = key_among(self.counters, field, around.groups)
        if self.read is not None and key is not None:
            self.counts[key] = self.read(item), depends
        return item, _Distance(field.size)

    def _count_column(self) -> None:
        self.columns += 1
        if self.columns > MAX_COLUMNS:
            problem = f"the record {self.layout.name} has more than {MAX_COLUMNS} elements"
            raise DefinitionError(problem, where=Where(table=self.layout.name))

    def _group(self, field: Field, at: _Distance, around: _Around) -> tuple[ItemNode, _Distance]:
        members = []
        spared = _Distance(0)  # bytes that the items before take less than at most
        spared_at: dict[str, _Distance] = {}
        for child in field.children:
            name = child.name.upper()
            # A redefinition begins where the item begins whose bytes it shows again.
            before = spared_at[child.redefines.upper()] if child.redefines else spared
            spared_at[name] = before
            begin = at.plus((child.offset - field.offset) - before.bytes, before.depends)
            node, extent = self.all_of(child, begin, around)
            members.append(node)
            if not child.redefines:
                spared = spared.plus(child.extent - extent.bytes, extent.depends)
        return GroupItem(field, tuple(members)), spared._replace(bytes=field.size - spared.bytes)

    def _count(self, field: Field, occurs: Occurs, at: _Distance, active: Mask | None) -> _Counted:
        if self.read is None or occurs.counter is None:
            return _Counted()
        found = self.counts.get(counter_key(occurs))
        if found is None:
            problem = f"its counter {occurs.counter} does not come before it"
            raise DefinitionError(problem, where=Where(field=field.name))
        (count, unread), depends = found
        bad = (count < occurs.fewest) | (count > occurs.most)
        if unread is not None:
            bad |= unread
        bad = bad if active is None else bad & active
        depends = depends | {occurs}
        if not bad.any():
            return _Counted(count, None, depends)
        unread = np.zeros_like(bad) if unread is None else unread & bad
        known = _known(at.depends)
        offset = at.bytes if known is None else np.where(known, at.bytes, UNPLACED)
        self.bad_counts.append(BadCount(field, occurs.counter, offset, bad, count, unread))
        return _Counted(np.where(bad, 0, count), bad, depends)


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
        for name, item in zip(_name(found), found, strict=True)
    )


def column_names(layout: Layout) -> tuple[str, ...]:
    """Return the names of the columns of a record in their order."""
    return tuple(_name(list(columns_below(place_items(layout).root))))


def _name(items: list[Item]) -> list[str]:
    # A nameless group does not distinguish anything.
    groups = [[group.name for group in item.groups if not group.filler] for item in items]
    names = _unique([(*path, i.field.name) for path, i in zip(groups, items, strict=True)])
    suffixes = map(_suffix, items)
    return distinct_names([name + suffix for name, suffix in zip(names, suffixes, strict=True)])


def _suffix(item: Item) -> str:
    """Return what the name of an element's column ends with."""
    around = [one.occurs for one in (*item.groups, item.field) if one.occurs is not None]
    parts = zip(around, item.indexes, strict=True)
    return "".join(f"_{occurs.names[at - 1] if occurs.names else at}" for occurs, at in parts)


def distinct_names(names: list[str]) -> list[str]:
    """Return the names, whatever their case, with a number from the second one of the same name on."""
    return list(_distinct(tuple(names)))


@lru_cache(256)  # asked for each batch, of the groups of a record
def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
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
    return tuple(found)


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
