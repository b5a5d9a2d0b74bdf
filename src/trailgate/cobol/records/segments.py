"""Layouts by name: a record of level 01, or a segment, one of the groups that define the same bytes of a record by REDEFINES.

A segment's layout is its record without the other definitions of those bytes. Offsets and lengths stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum

from trailgate.cobol.copybook.layouts import Field, Layout, Usage
from trailgate.errors import OptionError, did_you_mean


class SegmentLength(Enum):
    """Where a segment ends after which nothing follows in its record."""

    OWN = "own"  # with its last item
    RECORD = "record"  # where the longest one ends


def layout_named(layouts: Sequence[Layout], name: str | None) -> Layout:
    """Return the layout of a record or segment by its name; without one there must be a single record."""
    known = {layout.name.upper(): layout for layout in layouts}
    if name is None:
        if len(layouts) == 1:
            return layouts[0]
        hint = f"Choose one by the option record: {', '.join(known)}"
        raise OptionError(f"the copybook has {len(layouts)} records", hint=hint)
    if name.upper() in known:
        return known[name.upper()]
    paths = [
        (layout, path)
        for layout in layouts
        for path in _paths(layout.root)
        if path[-1].name.upper() == name.upper()
    ]
    segments = [(layout, path) for layout, path in paths if _is_segment(layout.root, path)]
    if len(segments) == 1:
        return segment_layout(*segments[0])
    if segments:
        problem = f"the copybook has {len(segments)} segments of the name {name}"
        raise OptionError(problem, hint="The name of a segment must occur once")
    if paths:
        raise _item_error(*paths[0])
    known_names = [*known, *segment_names(layouts)]
    hint = did_you_mean(name, known_names) or f"Known: {', '.join(known_names)}"
    raise OptionError(f"no record {name} in the copybook", hint=hint)


def written_layout(layouts: Sequence[Layout], name: str | None) -> Layout:
    """Return the layout by which a record or segment of a name is written, with the items of ``layout_named``.

    A segment after which nothing follows in its record ends with its own last item, wherever other definitions of its bytes end.
    """
    layout = layout_named(layouts, name)
    if name is None or any(layout is one for one in layouts):
        return layout
    for whole in layouts:
        for path in _paths(whole.root):
            named = path[-1].name.upper() == name.upper()
            if named and _is_segment(whole.root, path) and _is_last(whole.root, path):
                return Layout(replace(_alone(whole.root, path), name=layout.name))
    return layout


def _is_last(group: Field, path: Sequence[Field]) -> bool:
    """Return whether nothing but other definitions of the same bytes follows a segment in its groups."""
    chosen, rest = path[0], path[1:]
    others = _alternatives(group, chosen)
    at = next(number for number, child in enumerate(group.children) if child is chosen)
    after = group.children[at + 1 :]
    if not all(any(child is other for other in others) for child in after):
        return False
    return not rest or _is_last(chosen, rest)


def _alone(group: Field, path: Sequence[Field]) -> Field:
    """Return a group whose last item is the one that a path leads to, without other definitions of its bytes."""
    chosen, rest = path[0], path[1:]
    others = _alternatives(group, chosen)
    own = _alone(chosen, rest) if rest else _named(chosen)
    before = [child for child in group.children if not any(child is other for other in others)]
    size = own.offset + own.size - group.offset
    return replace(group, children=(*before, replace(own, redefines=None)), size=size)


def segment_names(layouts: Sequence[Layout]) -> list[str]:
    """Return the names of the groups that define the same bytes as others."""
    return [
        path[-1].name
        for layout in layouts
        for path in _paths(layout.root)
        if not path[-1].filler
        and path[-1].children
        and len(_alternatives(path[-2] if len(path) > 1 else layout.root, path[-1])) > 1
    ]


def segment_layout(layout: Layout, path: Sequence[Field]) -> Layout:
    """Return the layout of a segment: ``path`` are the fields from an item of the record down to the segment.

    The segment's items are items of the group that it is in, as those of a group without a name are. Of other definitions of its bytes the first one
    stays as FILLER where the segment redefines it, so that what follows begins where it did.
    """
    root = _without_others(layout.root, path)
    return Layout(replace(root, name=path[-1].name))


def _without_others(group: Field, path: Sequence[Field]) -> Field:
    chosen, rest = path[0], path[1:]
    others = _alternatives(group, chosen)
    base = others[0]
    children = []
    for child in group.children:
        if child is chosen:
            own = _without_others(child, rest) if rest else _named(child)
            children.append(own if child is base else replace(own, redefines=base.name))
        elif child is base:
            children.append(
                replace(child, usage=Usage.TEXT, children=(), filler=True, size=child.extent)
            )
        elif not any(child is other for other in others):
            children.append(child)
    return replace(group, children=tuple(children))


def _named(segment: Field) -> Field:
    """Return a segment whose items are those of the group that it is in; one that is an item itself stays an item."""
    return replace(segment, filler=True) if segment.children else segment


def _alternatives(group: Field, chosen: Field) -> list[Field]:
    """Return the definitions of the same bytes as an item's in its group, the redefined one first; the item alone where there are no others."""
    bases: list[Field] = []
    for at, child in enumerate(group.children):
        base = child
        for earlier in range(at - 1, -1, -1):
            if child.redefines and group.children[earlier].name.upper() == child.redefines.upper():
                base = bases[earlier]
                break
        bases.append(base)
    own = next(b for child, b in zip(group.children, bases, strict=True) if child is chosen)
    return [child for child, base in zip(group.children, bases, strict=True) if base is own]


def _paths(field: Field) -> Iterator[tuple[Field, ...]]:
    """Yield the path from an item of a group down to each item below it."""
    for child in field.children:
        yield (child,)
        for path in _paths(child):
            yield (child, *path)


def _is_segment(root: Field, path: Sequence[Field]) -> bool:
    """Return whether a path leads to a group that is, or is in, one of several definitions of the same bytes, or to an item that is one of them."""
    groups = (root, *path)
    if any(field.occurs is not None for field in path):
        return False
    pairs = list(zip(groups, path, strict=False))
    if not path[-1].children:
        pairs = pairs[-1:]
    return any(len(_alternatives(group, field)) > 1 for group, field in pairs)


def _item_error(layout: Layout, path: Sequence[Field]) -> OptionError:
    field = path[-1]
    redefines = f", which redefines {field.redefines}," if field.redefines else ""
    problem = f"{field.name} is an item{redefines} of the record {layout.name}, not a record (level 01) or a segment"
    hint = f"Read {layout.name}, which has it as a column. A segment REDEFINES another group or item, or is redefined"
    return OptionError(problem, hint=hint)
