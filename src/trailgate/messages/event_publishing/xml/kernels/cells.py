"""The cells of published rows: booleans of attributes, and where the before and the after value of each column is."""

from __future__ import annotations

from typing import Final

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.kernels.compiled import inner, kernel
from trailgate.messages.xml.kernels.cells import MISSING, NULL
from trailgate.messages.xml.kernels.texts import is_blank

# What a cell may have against it.
GOOD: Final = 0
NO_TYPE: Final = 1  # no type element
NESTED: Final = 2  # values before and after, in a row that has one of them
NO_AFTER: Final = 3
NIL_WITH_VALUE: Final = 4
NOT_BOOLEAN: Final = -1

INSERT: Final = 73
DELETE: Final = 68


@inner
def blank_until(text: Octets, at: int, end: int) -> int:
    """Return where blanks end."""
    while at < end and is_blank(text[at]):
        at += 1
    return at


@inner
def boolean(text: Octets, at: int, end: int) -> int:
    """Return 1 for ``1`` and ``true``, 0 for ``0`` and ``false``, else ``NOT_BOOLEAN``."""
    at = blank_until(text, at, end)
    while end > at and is_blank(text[end - 1]):
        end -= 1
    size = end - at
    if size == 1 and (text[at] == 0x30 or text[at] == 0x31):
        return int(text[at]) - 0x30
    if (
        size == 4
        and text[at] == 0x74
        and text[at + 1] == 0x72
        and text[at + 2] == 0x75
        and text[at + 3] == 0x65
    ):
        return 1
    if (
        size == 5
        and text[at] == 0x66
        and text[at + 1] == 0x61
        and text[at + 2] == 0x6C
        and text[at + 3] == 0x73
        and text[at + 4] == 0x65
    ):
        return 0
    return NOT_BOOLEAN


@kernel(writes=("found",))
def booleans(text: Octets, starts: Longs, lengths: Longs, found: Mask) -> int:
    """Write the booleans of attributes, false where there is none; return the first that is not one, or -1."""
    for row in range(len(starts)):
        found[row] = False
        if lengths[row] >= 0:
            start, end = starts[row], starts[row] + lengths[row]
            if start < 0 or end > len(text):
                return row
            value = boolean(text, start, end)
            if value < 0:
                return row
            found[row] = value == 1
    return -1


@kernel()
def first_other(text: Octets, starts: Longs, lengths: Longs, word: Octets) -> int:
    """Return the first place whose bytes are not the word, or -1."""
    for row in range(len(starts)):
        start = starts[row]
        if lengths[row] != len(word) or start < 0 or start + len(word) > len(text):
            return row
        for at in range(len(word)):
            if text[start + at] != word[at]:
                return row
    return -1


@inner
def state(text: Octets, start: int, length: int, nil: bool) -> int:
    """Return the length of an element's value, ``NULL`` where it is nil, or -3 where it is nil and has a value."""
    if not nil:
        return length
    end = start + length
    if start < 0 or end > len(text) or blank_until(text, start, end) < end:
        return NULL - 1
    return NULL


@kernel(writes=("before_start", "before_length", "after_start", "after_length", "problems"))
def place_images(
    text: Octets,
    kinds: Octets,
    own_start: Longs,
    own_length: Longs,
    own_nil: Mask,
    old_start: Longs,
    old_length: Longs,
    old_nil: Mask,
    new_start: Longs,
    new_length: Longs,
    new_nil: Mask,
    before_start: Longs,
    before_length: Longs,
    after_start: Longs,
    after_length: Longs,
    problems: Octets,
) -> int:
    """Write where each cell's before and after value is; return how many cells have a problem.

    ``kinds`` are the operation types. ``own`` are the values in type elements, ``old`` and ``new`` those of the elements
    for before and after in them.
    """
    count = 0
    for cell in range(len(kinds)):
        kind = kinds[cell]
        before_length[cell] = after_length[cell] = MISSING
        before_start[cell] = after_start[cell] = 0
        nested = old_length[cell] >= 0 or new_length[cell] >= 0
        problem = GOOD
        if own_length[cell] < 0:
            problem = NO_TYPE
        elif kind == INSERT or kind == DELETE:
            if nested:
                problem = NESTED
            elif kind == INSERT:
                after_start[cell] = own_start[cell]
                after_length[cell] = state(text, own_start[cell], own_length[cell], own_nil[cell])
            else:
                before_start[cell] = own_start[cell]
                before_length[cell] = state(text, own_start[cell], own_length[cell], own_nil[cell])
        elif not nested:
            after_start[cell] = own_start[cell]
            after_length[cell] = state(text, own_start[cell], own_length[cell], own_nil[cell])
        elif new_length[cell] < 0:
            problem = NO_AFTER
        else:
            after_start[cell] = new_start[cell]
            after_length[cell] = state(text, new_start[cell], new_length[cell], new_nil[cell])
            if old_length[cell] >= 0:
                before_start[cell] = old_start[cell]
                before_length[cell] = state(text, old_start[cell], old_length[cell], old_nil[cell])
        if before_length[cell] < NULL or after_length[cell] < NULL:
            problem = NIL_WITH_VALUE
        if problem != GOOD:
            before_length[cell] = after_length[cell] = MISSING
            count += 1
        problems[cell] = problem
    return count
