"""Where each item of a record lies: a walk over the layout, for one record as for many.

Places count from the record's begin. They are numbers as long as nothing in front varies, and a
column of numbers, one a record, behind an OCCURS DEPENDING ON of real length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import field as member

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.cobol.copybook.flat_columns import flat_columns
from trailgate.cobol.copybook.layouts import Field, Layout, Occurs
from trailgate.errors import DefinitionError, Where

Place = int | Longs


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """One element of an elementary item; ``active`` are the records that have it, None for all."""

    name: str  # of its flat column
    field: Field
    at: Place
    active: Mask | None
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """One element of a group."""

    field: Field
    members: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeated:
    """All elements of an OCCURS; ``count`` is None where each record has them all."""

    field: Field
    elements: tuple[Node, ...]
    count: Longs | None = None
    unknown: Mask | None = None  # records whose counter is no count


Node = Leaf | Group | Repeated


@dataclass(frozen=True, slots=True, eq=False)
class BadCount:
    """Records whose counter is outside of what the OCCURS allows."""

    field: Field
    counter: str
    at: Place
    rows: Mask
    counts: Longs


Counter = Callable[[Leaf], tuple[Longs, Mask | None]]


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A layout's items in their places."""

    root: Group | Leaf | Repeated
    bad_counts: tuple[BadCount, ...]
    extent: Place


def place(layout: Layout, read: Counter | None = None, *, real: bool = False) -> Placed:
    """Return the places of a layout's items.

    ``read`` gives the counts that a counter holds, and the records in which it holds none;
    without it every OCCURS has all its elements. ``real`` lets it take only the bytes of those
    that are there.
    """
    names = (column.name for column in flat_columns(layout))
    walk = _Walk(names, counters(layout) if read else frozenset(), read, real)
    node, extent = walk.all_of(layout.root, 0, None, ())
    return Placed(node, tuple(walk.bad_counts), extent)


def counters(layout: Layout) -> frozenset[str]:
    """Return the names of the fields that say how often others occur."""
    occurs = (field.occurs for field in layout.root.walk())
    return frozenset(o.counter.upper() for o in occurs if o is not None and o.counter)


def leaves(node: Node) -> Iterator[Leaf]:
    """Yield the elementary items below a node that have a column."""
    if isinstance(node, Leaf):
        if not node.field.filler:
            yield node
        return
    for below in node.members if isinstance(node, Group) else node.elements:
        yield from leaves(below)


def both(one: Mask | None, other: Mask | None) -> Mask | None:
    """Return the rows of both masks; None is all."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


@dataclass(slots=True)
class _Walk:
    names: Iterator[str]
    counters: frozenset[str]
    read: Counter | None
    real: bool
    counts: dict[str, tuple[Longs, Mask | None]] = member(default_factory=dict)
    bad_counts: list[BadCount] = member(default_factory=list)
    known: Mask | None = None  # records whose items behind a count have a known place

    def all_of(
        self, field: Field, at: Place, active: Mask | None, groups: tuple[str, ...]
    ) -> tuple[Node, Place]:
        """Return all occurrences of a field, and the bytes that they take."""
        if field.occurs is None:
            return self.one_of(field, at, active, groups)
        count, unknown = self._count(field, field.occurs, at, active)
        elements = []
        place = at
        for index in range(field.occurs.most):
            here = None if count is None else count > index
            node, size = self.one_of(field, place, both(active, here), groups)
            elements.append(node)
            step = field.stride - field.size + size if self.real else field.stride
            place = place + (step if here is None or not self.real else np.where(here, step, 0))
        return Repeated(field, tuple(elements), count, unknown), place - at

    def one_of(
        self, field: Field, at: Place, active: Mask | None, groups: tuple[str, ...]
    ) -> tuple[Node, Place]:
        """Return one occurrence of a field, and the bytes that it takes."""
        if field.children:
            return self._group(field, at, active, (*groups, field.name))
        name = field.name if field.filler else next(self.names)
        leaf = Leaf(name, field, at, both(active, self.known), groups)
        if self.read is not None and field.name.upper() in self.counters:
            self.counts[field.name.upper()] = self.read(leaf)
        return leaf, field.size

    def _group(
        self, field: Field, at: Place, active: Mask | None, groups: tuple[str, ...]
    ) -> tuple[Node, Place]:
        members = []
        spared: Place = 0  # bytes that items in front take less than at most
        spared_at: dict[str, Place] = {}
        for child in field.children:
            name = child.name.upper()
            # A redefinition begins where the item begins whose bytes it shows again.
            spared_at[name] = spared_at[child.redefines.upper()] if child.redefines else spared
            place = at + (child.offset - field.offset) - spared_at[name]
            node, extent = self.all_of(child, place, active, groups)
            members.append(node)
            if not child.redefines:
                spared = spared + (child.extent - extent)
        return Group(field, tuple(members)), field.size - spared

    def _count(
        self, field: Field, occurs: Occurs, at: Place, active: Mask | None
    ) -> tuple[Longs | None, Mask | None]:
        if self.read is None or occurs.counter is None:
            return None, None
        found = self.counts.get(occurs.counter.upper())
        if found is None:
            problem = f"its counter {occurs.counter} does not stand in front of it"
            raise DefinitionError(problem, where=Where(field=field.name))
        count, unread = found
        bad = (count < occurs.least) | (count > occurs.most)
        if unread is not None:
            bad |= unread
        bad = bad if active is None else bad & active
        if not bad.any():
            return count, None
        told = bad if unread is None else bad & ~unread  # what could not be read is told by itself
        self.bad_counts.append(BadCount(field, occurs.counter, at, told, count))
        if self.real:
            self.known = both(self.known, ~bad)
        return np.where(bad, 0, count), bad
