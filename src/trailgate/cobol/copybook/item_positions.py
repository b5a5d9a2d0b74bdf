"""Where each item of a record lies: one walk over the layout, for one record or for many.

Offsets count from the record's begin. They are numbers as long as nothing before the item varies, and a
column of numbers, one a record, after an OCCURS DEPENDING ON of real length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import field as member
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.cobol.copybook.layouts import Field, Layout, Occurs
from trailgate.errors import DefinitionError, Where

MAX_COLUMNS: Final = 32_767  # more elements than a record of a trail can name
Offset = int | Longs


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """One element of an elementary item; ``active`` are the records that have it, None for all.

    ``name`` is that of its flat column, or the field's own where the walk was given no names.
    """

    name: str
    field: Field
    offset: Offset
    active: Mask | None = None
    groups: tuple[Field, ...] = ()
    indexes: tuple[int, ...] = ()


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
    """Records whose counter is outside of what the OCCURS allows."""

    field: Field
    counter: str
    offset: Offset
    rows: Mask
    counts: Longs


class Counts(NamedTuple):
    """What a counter holds in each record; ``unread`` are the records in which it holds no count."""

    values: Longs
    unread: Mask | None = None


CountReader = Callable[[Item], Counts]


@dataclass(frozen=True, slots=True, eq=False)
class PlacedItems:
    """A layout's items with their offsets, and the bytes that each record takes.

    ``known`` are the records of which these are known, since their counters are counts; None for all.
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
    counted = counters(layout) if read else frozenset()
    walk = _Walk(layout, None if names is None else iter(names), counted, read, real)
    node, extent = walk.all_of(layout.root, 0, _Around())
    return PlacedItems(node, tuple(walk.bad_counts), extent, walk.known)


def counters(layout: Layout) -> frozenset[str]:
    """Return the names of the fields that hold how often others occur."""
    occurs = (field.occurs for field in layout.root.walk())
    return frozenset(o.counter.upper() for o in occurs if o is not None and o.counter)


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


class _Around(NamedTuple):
    """What an item is in: the groups, the elements' indexes, and the records that have these."""

    groups: tuple[Field, ...] = ()
    indexes: tuple[int, ...] = ()
    active: Mask | None = None

    def element(self, index: int, here: Mask | None) -> _Around:
        """Return what an element of an OCCURS is in."""
        return _Around(self.groups, (*self.indexes, index + 1), _both(self.active, here))


@dataclass(slots=True)
class _Walk:
    layout: Layout
    names: Iterator[str] | None
    counters: frozenset[str]
    read: CountReader | None
    real: bool
    counts: dict[str, Counts] = member(default_factory=dict)
    bad_counts: list[BadCount] = member(default_factory=list)
    known: Mask | None = None  # records whose items after a count have a known offset
    columns: int = 0

    def all_of(self, field: Field, at: Offset, around: _Around) -> tuple[ItemNode, Offset]:
        """Return all occurrences of a field, and the bytes that they take."""
        if field.occurs is None:
            return self.one_of(field, at, around)
        count, unknown = self._count(field, field.occurs, at, around.active)
        elements = []
        offset = at
        for index in range(field.occurs.most):
            here = None if count is None else count > index
            node, size = self.one_of(field, offset, around.element(index, here))
            elements.append(node)
            step = (field.stride or field.size) - field.size + size if self.real else field.stride
            offset = offset + (step if here is None or not self.real else np.where(here, step, 0))
        return RepeatedItem(field, tuple(elements), count, unknown), offset - at

    def one_of(self, field: Field, at: Offset, around: _Around) -> tuple[ItemNode, Offset]:
        """Return one occurrence of a field, and the bytes that it takes."""
        if field.children:
            return self._group(field, at, around._replace(groups=(*around.groups, field)))
        name = field.name
        if not field.filler:
            self._count_column()
            name = name if self.names is None else next(self.names)
        active = _both(around.active, self.known)
        item = Item(name, field, at, active, around.groups, around.indexes)
        if self.read is not None and field.name.upper() in self.counters:
            self.counts[field.name.upper()] = self.read(item)
        return item, field.size

    def _count_column(self) -> None:
        self.columns += 1
        if self.columns > MAX_COLUMNS:
            problem = f"the record {self.layout.name} has more than {MAX_COLUMNS} elements"
            raise DefinitionError(problem, where=Where(table=self.layout.name))

    def _group(self, field: Field, at: Offset, around: _Around) -> tuple[ItemNode, Offset]:
        members = []
        spared: Offset = 0  # bytes that the items before take less than at most
        spared_at: dict[str, Offset] = {}
        for child in field.children:
            name = child.name.upper()
            # A redefinition begins where the item begins whose bytes it shows again.
            spared_at[name] = spared_at[child.redefines.upper()] if child.redefines else spared
            offset = at + (child.offset - field.offset) - spared_at[name]
            node, extent = self.all_of(child, offset, around)
            members.append(node)
            if not child.redefines:
                spared = spared + (child.extent - extent)
        return GroupItem(field, tuple(members)), field.size - spared

    def _count(
        self, field: Field, occurs: Occurs, at: Offset, active: Mask | None
    ) -> tuple[Longs | None, Mask | None]:
        if self.read is None or occurs.counter is None:
            return None, None
        found = self.counts.get(occurs.counter.upper())
        if found is None:
            problem = f"its counter {occurs.counter} does not come before it"
            raise DefinitionError(problem, where=Where(field=field.name))
        count, unread = found
        bad = (count < occurs.fewest) | (count > occurs.most)
        if unread is not None:
            bad |= unread
        bad = bad if active is None else bad & active
        if not bad.any():
            return count, None
        outside = bad if unread is None else bad & ~unread  # an unread count has its own fault
        self.bad_counts.append(BadCount(field, occurs.counter, at, outside, count))
        if self.real:
            self.known = _both(self.known, ~bad)
        return np.where(bad, 0, count), bad
