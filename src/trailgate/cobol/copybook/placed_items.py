"""Find the offset of each copybook item in each record.

One walk over the layout serves one record or many. An offset counts from the start of the record.
It is a plain int as long as nothing before the item varies. After an OCCURS DEPENDING ON that only
takes the bytes of the elements that are present, it is an array with one offset per record.
``flat_columns`` names the items as columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as member
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.cobol.copybook.layouts import (
    MAX_COLUMNS,
    CopybookField,
    CopybookLayout,
    CounterKey,
    Occurs,
    counter_key,
    counter_keys,
    find_counter_key,
)
from trailgate.errors import DefinitionError, Where

UNPLACED: Final = 1 << 62  # stands for an unknown offset
Offset = int | Longs
# The OCCURS DEPENDING ON that an offset depends on, each with a mask of the records whose counter
# is invalid for it (None if all are valid).
Depends = Mapping[Occurs, Mask | None]
NOTHING: Final[Depends] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class PlacedItem:
    """One occurrence of an elementary item, with its offset in each record.

    ``active`` is a mask of the records that contain the item at a known offset; None means all
    records. ``name`` is its column's name, or the field's name if ``place_items`` was called
    without names. ``groups`` are the groups around it, outermost first, and ``indexes`` the numbers
    (from 1) of the OCCURS elements that it is in. ``depends`` are the OCCURS that the item's offset
    or existence depends on. ``lost`` has a mask for each OCCURS before the item whose counter is
    invalid in some records: it selects the records that should contain the item, but at an unknown
    offset.
    """

    name: str
    field: CopybookField
    offset: Offset
    active: Mask | None = None
    groups: tuple[CopybookField, ...] = ()
    indexes: tuple[int, ...] = ()
    lost: Depends = member(default_factory=dict)
    depends: frozenset[Occurs] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class GroupItem:
    """One occurrence of a group item, with the placed items in it."""

    field: CopybookField
    members: tuple[ItemNode, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RepeatedItem:
    """All occurrences of an item with OCCURS.

    ``count`` is the number of occurrences in each record; None if every record has all elements.
    """

    field: CopybookField
    elements: tuple[ItemNode, ...]
    count: Longs | None = None
    unknown: Mask | None = None  # records whose counter is invalid


ItemNode = PlacedItem | GroupItem | RepeatedItem


@dataclass(frozen=True, slots=True, eq=False)
class BadCount:
    """The records in which an OCCURS counter has a value that the OCCURS does not allow.

    ``field`` is the repeated field, ``offset`` is where it begins, and ``counter`` is the name of
    its counter. ``rows`` is a mask of these records, ``unread`` a mask of those in which the
    counter is not even a number, and ``counts`` are the counter's values in all records.
    """

    field: CopybookField
    counter: str
    offset: Offset
    rows: Mask
    counts: Longs
    unread: Mask


class CounterValues(NamedTuple):
    """The values of an OCCURS counter, one per record.

    ``unread`` is a mask of the records in which the counter is not a number.
    """

    values: Longs
    unread: Mask | None = None


CountReader = Callable[[PlacedItem], CounterValues]


@dataclass(frozen=True, slots=True, eq=False)
class PlacedItems:
    """The items of a layout with their offsets, and the number of bytes of each record (``extent``).

    ``known`` is a mask of the records whose extent is known because all their counters are valid;
    None means all records.
    """

    root: ItemNode
    bad_counts: tuple[BadCount, ...]
    extent: Offset
    known: Mask | None = None


def place_items(
    layout: CopybookLayout,
    names: tuple[str, ...] | None = None,
    read: CountReader | None = None,
    *,
    real: bool = False,
) -> PlacedItems:
    """Compute the offset of each item of a copybook layout, in one record or in many.

    Raises DefinitionError if the layout has too many items, or if a counter does not come before
    its OCCURS.

    ``names`` are the names of the flat columns. ``read`` returns the values of a counter; if it is
    None, every OCCURS has its maximum number of elements. If ``real`` is set, an OCCURS takes only
    the bytes of the elements that a record contains.
    """
    counted = counter_keys(layout) if read else frozenset()
    walk = _Walk(layout, None if names is None else iter(names), counted, read, real)
    node, extent = walk.place_all(layout.root, _Distance(0), _Around())
    return PlacedItems(node, tuple(walk.bad_counts), extent.bytes, _known(extent.depends))


def columns_below(node: ItemNode) -> Iterator[PlacedItem]:
    """Yield the placed elementary items in a ``PlacedItem``, group or OCCURS, in order. FILLER is skipped."""
    if isinstance(node, PlacedItem):
        if not node.field.filler:
            yield node
        return
    for below in node.members if isinstance(node, GroupItem) else node.elements:
        yield from columns_below(below)


def _both(first: Mask | None, second: Mask | None) -> Mask | None:
    """Return a mask of the records that both masks select. None selects all records."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def _known(depends: Depends) -> Mask | None:
    """Return a mask of the rows in which all counters are valid, or None if that is all rows."""
    known = None
    for bad in depends.values():
        known = known if bad is None else _both(known, ~bad)
    return known


def _merge(first: Depends, second: Depends) -> Depends:
    """Merge the OCCURS on which two offsets depend.

    If an OCCURS is in both, its mask in the result selects the records of either mask.
    """
    if not first or first is second:
        return second
    merged = dict(first)
    for occurs, bad in second.items():
        before = merged.get(occurs)
        merged[occurs] = bad if before is None else before if bad is None else before | bad
    return merged


class _Distance(NamedTuple):
    """A number of bytes of a record, and the OCCURS that it depends on."""

    bytes: Offset
    depends: Depends = NOTHING

    def plus(self, more: Offset, depends: Depends = NOTHING) -> _Distance:
        """Return this distance plus ``more`` bytes, which depend on ``depends``."""
        return _Distance(self.bytes + more, _merge(self.depends, depends))


class _Around(NamedTuple):
    """The context of an item: the groups around it, its element indexes, and the OCCURS that it depends on.

    ``active`` is a mask of the records that contain these elements; None means all records.
    """

    groups: tuple[CopybookField, ...] = ()
    indexes: tuple[int, ...] = ()
    active: Mask | None = None
    depends: frozenset[Occurs] = frozenset()

    def element(self, index: int, mask: Mask | None) -> _Around:
        """Return the context of element ``index`` of an OCCURS.

        ``mask`` selects the records that have this element.
        """
        return self._replace(indexes=(*self.indexes, index + 1), active=_both(self.active, mask))


class _Counted(NamedTuple):
    """How often a field occurs in each record. ``counts`` is None if each record has all elements.

    ``bad`` is a mask of the records whose count is invalid and therefore 0; None means no records.
    """

    counts: Longs | None = None
    bad: Mask | None = None
    depends: frozenset[Occurs] = frozenset()  # its OCCURS, and those its counter depends on


@dataclass(slots=True)
class _Walk:
    """One walk over a copybook layout, which places all its items.

    It keeps track of the current offset, and reads each counter when it reaches the counter's item.
    ``counts`` has the values read so far, and the OCCURS on which each counter depends.
    """

    layout: CopybookLayout
    names: Iterator[str] | None
    counters: frozenset[CounterKey]
    read: CountReader | None
    real: bool
    counts: dict[CounterKey, tuple[CounterValues, frozenset[Occurs]]] = member(default_factory=dict)
    bad_counts: list[BadCount] = member(default_factory=list)
    columns: int = 0

    def place_all(
        self, field: CopybookField, at: _Distance, around: _Around
    ) -> tuple[ItemNode, _Distance]:
        """Compute the offsets of all occurrences of a copybook field, which begin at ``at``.

        Returns the node, and the number of bytes that the occurrences occupy.
        """
        if field.occurs is None:
            return self.place_one(field, at, around)
        count, bad, depends = self._count(field, field.occurs, at, around.active)
        around = around._replace(depends=around.depends | depends)
        elements = []
        extent = _Distance(0)
        for index in range(field.occurs.most):
            exists = None if count is None else count > index
            begin = at.plus(*extent)
            node, size = self.place_one(field, begin, around.element(index, exists))
            elements.append(node)
            # An element takes its real size plus the gap to the next one; missing elements take
            # nothing.
            step: Offset = field.stride
            if self.real:
                step = (field.stride or field.size) - field.size + size.bytes
                step = step if exists is None else np.where(exists, step, 0)
            extent = extent.plus(step, size.depends)
        # Everything after a table depends on its counter.
        if self.real and count is not None:
            extent = extent.plus(0, {field.occurs: bad})
        return RepeatedItem(field, tuple(elements), count, bad), extent

    def place_one(
        self, field: CopybookField, at: _Distance, around: _Around
    ) -> tuple[ItemNode, _Distance]:
        """Compute the offsets of one occurrence of a copybook field, which begins at ``at``.

        Returns the node, and the number of bytes that it occupies.
        """
        if field.children:
            return self._group(field, at, around._replace(groups=(*around.groups, field)))
        name = field.name
        if not field.filler:
            self._count_column()
            name = name if self.names is None else next(self.names)
        active = _both(around.active, _known(at.depends))
        # The records in which this item's offset is unknown because of a bad counter.
        lost = {
            occurs: _both(around.active, bad)
            for occurs, bad in at.depends.items()
            if bad is not None
        }
        depends = around.depends.union(at.depends)
        item = PlacedItem(
            name=name,
            field=field,
            offset=at.bytes,
            active=active,
            groups=around.groups,
            indexes=around.indexes,
            lost=lost,
            depends=depends,
        )
        key = find_counter_key(self.counters, field, around.groups)
        if self.read is not None and key is not None:
            self.counts[key] = self.read(item), depends
        return item, _Distance(field.size)

    def _count_column(self) -> None:
        """Count a column, and raise DefinitionError if there are more than ``MAX_COLUMNS``."""
        self.columns += 1
        if self.columns > MAX_COLUMNS:
            problem = f"the record {self.layout.name} has more than {MAX_COLUMNS} elements"
            raise DefinitionError(problem, where=Where(table=self.layout.name))

    def _group(
        self, field: CopybookField, at: _Distance, around: _Around
    ) -> tuple[ItemNode, _Distance]:
        """Compute the offsets of the items in a copybook group.

        The offsets of fields assume that each OCCURS has its maximum number of elements. If arrays
        before an item are shorter, the walk subtracts the bytes that are saved.
        """
        members = []
        saved = _Distance(0)  # bytes that the items before are shorter than their maximum
        saved_at: dict[str, _Distance] = {}
        for child in field.children:
            name = child.name.upper()
            # A redefinition starts where the redefined item starts, whatever came in between.
            before = saved_at[child.redefines.upper()] if child.redefines else saved
            saved_at[name] = before
            begin = at.plus((child.offset - field.offset) - before.bytes, before.depends)
            node, extent = self.place_all(child, begin, around)
            members.append(node)
            if not child.redefines:
                saved = saved.plus(child.extent - extent.bytes, extent.depends)
        return GroupItem(field, tuple(members)), saved._replace(bytes=field.size - saved.bytes)

    def _count(
        self, field: CopybookField, occurs: Occurs, at: _Distance, active: Mask | None
    ) -> _Counted:
        """Return how often a field with OCCURS occurs in each record.

        A count outside the limits of the OCCURS is recorded in ``bad_counts`` and treated as 0.
        """
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
        # A counter in an element that a record does not have may contain anything.
        bad = bad if active is None else bad & active
        depends = depends | {occurs}
        # A bad count is treated as 0, so that offsets stay inside the record.
        if not bad.any():
            return _Counted(count, None, depends)
        unread = np.zeros_like(bad) if unread is None else unread & bad
        known = _known(at.depends)
        # If an earlier counter is bad, the offset of this one is a guess and not shown.
        offset = at.bytes if known is None else np.where(known, at.bytes, UNPLACED)
        self.bad_counts.append(
            BadCount(
                field=field,
                counter=occurs.counter,
                offset=offset,
                rows=bad,
                counts=count,
                unread=unread,
            )
        )
        return _Counted(np.where(bad, 0, count), bad, depends)
