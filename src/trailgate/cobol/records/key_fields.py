"""Find the fields that determine the kind of a record.

Such a field is an item, or a group of characters, with the same offset and size in the layouts of
all kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from trailgate.cobol.copybook.flat_columns import flat_columns
from trailgate.cobol.copybook.layouts import CopybookField, CopybookLayout, Usage
from trailgate.errors import OptionError, Where, did_you_mean

# Items whose bytes are characters of the record's code page, so that a group of them can be compared as text.
_CHARACTERS: Final = (Usage.TEXT, Usage.ZONED, Usage.EDITED, Usage.FLOAT_TEXT)
_SAME_PLACE: Final = "A field that chooses kinds must occur once in each record, at the same offset"


def key_fields(
    layouts: Sequence[CopybookLayout], names: Sequence[str]
) -> tuple[CopybookField, ...]:
    """Find the fields with these names, which determine the kind of a record.

    Raises OptionError if a field is not suitable, for example if its offset is not the same in all
    layouts.
    """
    fields = tuple(_key_field(layouts, name) for name in names)
    if len({field.name.upper() for field in fields}) < len(fields):
        raise OptionError(f"kinds: a field is named twice: {' + '.join(names)}")
    return fields


def _key_field(layouts: Sequence[CopybookLayout], name: str) -> CopybookField:
    """Find one key field. Raises OptionError if its offset or size differs between layouts."""
    candidates = [_fields_named(layout, name) for layout in layouts]
    if not any(candidates):
        known = {field.name for layout in layouts for field in layout.root.walk()}
        hint = did_you_mean(name, known) or f"Known: {', '.join(sorted(known)[:8])}, ..."
        raise OptionError(
            f"kinds: no field {name} in the records", where=Where(field=name), hint=hint
        )
    for layout, matches in zip(layouts, candidates, strict=True):
        if len(matches) != 1:
            number = f"{len(matches)} fields" if matches else "no field"
            problem = f"kinds: the record {layout.name} has {number} {name}"
            raise OptionError(problem, where=Where(field=name), hint=_SAME_PLACE)
    first, chosen = layouts[0], candidates[0][0]
    for layout, (other, *_) in zip(layouts, candidates, strict=True):
        if (other.offset, other.size) != (chosen.offset, chosen.size):
            problem = (
                f"kinds: {name} is at byte {chosen.offset} of {first.name} with {chosen.size} bytes, "
                f"and at byte {other.offset} of {layout.name} with {other.size}"
            )
            raise OptionError(problem, where=Where(field=name), hint=_SAME_PLACE)
    if chosen.children:
        chosen = _as_text(chosen)
    return replace(chosen, occurs=None, redefines=None, filler=False)


def _fields_named(layout: CopybookLayout, name: str) -> list[CopybookField]:
    """Return the items with a name, or the groups if no item has it. Their offsets are those in the record.

    Of several fields with the same offset and size (redefinitions), only one is returned.
    """
    wanted = name.upper()
    items = [
        replace(column.field, offset=column.offset)
        for column in flat_columns(layout)
        if column.field.name.upper() == wanted
    ]
    groups = (field for field in _groups(layout.root) if field.name.upper() == wanted)
    return list({(field.offset, field.size): field for field in items or groups}.values())


def _groups(field: CopybookField) -> Iterator[CopybookField]:
    """Yield the groups below a field that do not repeat and are not inside repeated groups."""
    for child in field.children:
        if child.children and child.occurs is None:
            yield child
            yield from _groups(child)


def _as_text(group: CopybookField) -> CopybookField:
    """Return a group as one text field. Raises OptionError if not all its bytes are characters."""
    for field in group.walk():
        if not field.children and field.usage not in _CHARACTERS:
            problem = (
                f"kinds: the group {group.name} is not text: {field.name} is {field.usage.value}"
            )
            hint = f"Name its items, as {field.name}: VALUE=RECORD, or several as ITEM + ITEM"
            raise OptionError(problem, where=Where(field=group.name), hint=hint)
    return replace(group, usage=Usage.TEXT, children=())
