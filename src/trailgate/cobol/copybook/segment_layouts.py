"""Find the layout of a copybook's record (level 01), or of a segment of a record, by its name.

A segment is one of several groups that share the same bytes by REDEFINES. Its layout is the layout
of the record without the other groups; offsets and lengths stay the same. For example, if B
redefines A in the record R, the segment B has the items of R with B instead of A.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum

from trailgate.cobol.copybook.layouts import CopybookField, CopybookLayout, Usage
from trailgate.errors import OptionError, did_you_mean


class SegmentLength(Enum):
    """Where a record ends if its last item is a segment."""

    OWN = "own"  # after its last item
    RECORD = "record"  # where the longest segment ends


def find_layout_or_segment(layouts: Sequence[CopybookLayout], name: str | None) -> CopybookLayout:
    """Find the layout of a copybook's record by its name, or build that of a segment (a group with REDEFINES).

    Without a name, the copybook must have only one record. Raises OptionError if there is no record
    or segment of this name, or if there are several.
    """
    known = {layout.name.upper(): layout for layout in layouts}
    if name is None:
        if len(layouts) == 1:
            return layouts[0]
        hint = f"Choose one with the option record: {', '.join(known)}"
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
        problem = f"the copybook has {len(segments)} segments called {name}"
        raise OptionError(problem, hint="A segment's name must be unique")
    if paths:
        raise _item_error(*paths[0])
    known_names = [*known, *segment_names(layouts)]
    near = did_you_mean(name, known_names)
    hint = f"{near} Known: {', '.join(known_names)}".lstrip()
    raise OptionError(f"no record {name} in the copybook", hint=hint)


def layout_or_segment_to_write(
    layouts: Sequence[CopybookLayout], name: str | None
) -> CopybookLayout:
    """Return the copybook layout with which records are written: that of a record or a segment with the name ``name``.

    The layout of a segment, which is a group inside a record, contains only the segment. If the
    segment is the last item of its record, its layout ends after the segment's own last item, even
    if another definition of the same bytes (REDEFINES) is longer.
    """
    layout = find_layout_or_segment(layouts, name)
    # A layout of the copybook itself is a whole record. That of a segment was just built.
    if name is None or any(layout is one for one in layouts):
        return layout
    for record in layouts:
        for path in _paths(record.root):
            named = path[-1].name.upper() == name.upper()
            if named and _is_segment(record.root, path) and _is_last(record.root, path):
                return CopybookLayout(replace(_alone(record.root, path), name=layout.name))
    return layout


def _is_last(group: CopybookField, path: Sequence[CopybookField]) -> bool:
    """Return True if nothing follows the segment in its record but redefinitions of its bytes."""
    chosen, rest = path[0], path[1:]
    others = _alternatives(group, chosen)
    at = next(number for number, child in enumerate(group.children) if child is chosen)
    after = group.children[at + 1 :]
    # Compared by identity: two different FILLER items can be equal.
    if not all(any(child is other for other in others) for child in after):
        return False
    return not rest or _is_last(chosen, rest)


def _alone(group: CopybookField, path: Sequence[CopybookField]) -> CopybookField:
    """Return a copy of ``group`` that ends with the segment at ``path``.

    Other definitions of the segment's bytes are removed.
    """
    chosen, rest = path[0], path[1:]
    others = _alternatives(group, chosen)
    alone = _alone(chosen, rest) if rest else _as_nameless(chosen)
    before = [child for child in group.children if not any(child is other for other in others)]
    # Offsets count from the start of the record, so this is the distance from the group's start
    # to the end of the segment.
    size = alone.offset + alone.size - group.offset
    return replace(group, children=(*before, replace(alone, redefines=None)), size=size)


def segment_names(layouts: Sequence[CopybookLayout]) -> list[str]:
    """Return the names of all segments of copybook layouts that are groups."""
    return [
        path[-1].name
        for layout in layouts
        for path in _paths(layout.root)
        if not path[-1].filler
        and path[-1].children
        and len(_alternatives(path[-2] if len(path) > 1 else layout.root, path[-1])) > 1
    ]


def segment_layout(layout: CopybookLayout, path: Sequence[CopybookField]) -> CopybookLayout:
    """Build the layout of a segment. ``path`` leads from the record down to the segment.

    The segment's items become items of the group around it. If the segment redefines another field,
    that field stays as FILLER, so that the items after it keep their offsets.
    """
    root = _without_others(layout.root, path)
    return CopybookLayout(replace(root, name=path[-1].name))


def _without_others(group: CopybookField, path: Sequence[CopybookField]) -> CopybookField:
    """Remove from ``group`` the other definitions of the segment's bytes.

    ``path`` leads from the group's child down to the segment. For example, if B redefines A, the
    segment B leaves the group with B and without A.
    """
    chosen, rest = path[0], path[1:]
    others = _alternatives(group, chosen)
    base = others[0]
    children = []
    for child in group.children:
        if child is chosen:
            segment = _without_others(child, rest) if rest else _as_nameless(child)
            # If the segment is not the first definition of the bytes, that one stays as FILLER,
            # and the segment redefines it.
            children.append(segment if child is base else replace(segment, redefines=base.name))
        elif child is base:
            children.append(
                replace(child, usage=Usage.TEXT, children=(), filler=True, size=child.extent)
            )
        elif not any(child is other for other in others):
            children.append(child)
    return replace(group, children=tuple(children))


def _as_nameless(segment: CopybookField) -> CopybookField:
    """Return the segment as a nameless group, so that its items belong to the group around it."""
    return replace(segment, filler=True) if segment.children else segment


def _alternatives(group: CopybookField, chosen: CopybookField) -> list[CopybookField]:
    """Return all fields of a group that share their bytes with ``chosen``.

    The field that the others redefine is the first.
    """
    bases: list[CopybookField] = []
    for at, child in enumerate(group.children):
        base = child
        # If several earlier fields have the name, REDEFINES means the nearest one.
        for earlier in range(at - 1, -1, -1):
            if child.redefines and group.children[earlier].name.upper() == child.redefines.upper():
                base = bases[earlier]
                break
        # A field's base is the field that it redefines, directly or through others.
        bases.append(base)
    base_of_chosen = next(
        b for child, b in zip(group.children, bases, strict=True) if child is chosen
    )
    return [
        child for child, base in zip(group.children, bases, strict=True) if base is base_of_chosen
    ]


def _paths(field: CopybookField) -> Iterator[tuple[CopybookField, ...]]:
    """Yield the path from a group down to each field in it."""
    for child in field.children:
        yield (child,)
        for path in _paths(child):
            yield (child, *path)


def _is_segment(root: CopybookField, path: Sequence[CopybookField]) -> bool:
    """Return True if ``path`` leads from the record to a segment.

    A segment is a group that is one of several definitions of the same bytes, or is inside one of
    them. An elementary item must itself be one of the definitions. Repeated fields are never
    segments.
    """
    groups = (root, *path)
    if any(field.occurs is not None for field in path):
        return False
    # Each field with the group around it. ``groups`` has one element more, the last field.
    pairs = list(zip(groups, path, strict=False))
    if not path[-1].children:
        pairs = pairs[-1:]
    return any(len(_alternatives(group, field)) > 1 for group, field in pairs)


def _item_error(layout: CopybookLayout, path: Sequence[CopybookField]) -> OptionError:
    field = path[-1]
    redefines = f", which redefines {field.redefines}," if field.redefines else ""
    problem = f"{field.name} is an item{redefines} of the record {layout.name}, not a record (level 01) or a segment"
    hint = f"Read {layout.name}, which has it as a column. A segment redefines another group or item, or is redefined"
    return OptionError(problem, hint=hint)
