"""The loops that write rows of text from literals and columns: first the sizes of all rows, then their bytes.

A row is a sequence of pieces, each in one of its forms: a literal alone, or a literal, a value and
another literal. ``states`` select the form of each row. For example the piece (``[`` value ``]`` |
``none``) and the piece ``;`` turn the values a and NULL into the rows ``[a];`` and ``none;``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.word_kernels import SPARE, copy_within, escape_marks, first_mark

BLOCK: Final = 1024  # rows measured for all pieces before the next ones
WINDOW: Final = 32  # bytes compared at once
OUTSIDE: Final = -1
REFUSED: Final = -2  # minus piece * rows + row
# Special values of ``grown``: no replacement; refused; refused if the byte begins U+FFFE or U+FFFF.
PLAIN: Final = 0
FORBIDDEN: Final = 255
PERHAPS: Final = 254
ONE: Final = np.uint64(1)
EVERY: Final = np.uint64(0xFFFFFFFF)


class FormArrays(NamedTuple):
    """The forms of a template's pieces, and the form of each piece in each row.

    A form is one way to write a piece: a literal, and perhaps a value and another literal after it.
    ``literals`` has two offsets for each form into the bytes of all literals, and as its last
    element the end of these bytes. Form f writes the bytes from literals[2 * f] to literals[2 * f + 1] first. If has_value[f] is set, it
    then writes the value, and the bytes from literals[2 * f + 1] to literals[2 * f + 2]. In row r,
    piece p has the form first_form[p] + states[states_at[p] + r], or first_form[p] if states_at[p]
    is -1.
    """

    literals: Longs
    has_value: Mask
    first_form: Longs
    states: Octets
    states_at: Longs


class ValueArrays(NamedTuple):
    """The values of a template's pieces, and the bytes to escape in them.

    The value of piece p in row r is data[offsets[i] : offsets[i + 1]] for i = p * (rows + 1) + r;
    32 more bytes follow the last value. Values are escaped only if escaped[p] is set. ``special``
    and ``grown`` are those of `columnar.templates.EscapeTable`.
    """

    data: Octets
    offsets: Longs
    escaped: Mask
    special: Octets
    grown: Octets


class WrittenBytes(NamedTuple):
    """The bytes of a template's rows besides values: literals, and replacements of special bytes.

    ``strings`` has the bytes of all literals and 32 more. The replacement of byte b begins at
    replacements[replacement_at[b]].
    """

    strings: Octets
    replacements: Octets
    replacement_at: Longs


@kernel(writes=("sizes",))
def measure_rows(forms: FormArrays, values: ValueArrays, sizes: Longs) -> int:
    """Write the size of each row of a template. Return 0, or a negative number for a bad value.

    Returns ``OUTSIDE`` for a value that is not within the data. For a value with a refused byte,
    returns ``REFUSED`` - (piece * rows + row).
    """
    # Example: the pieces of the module's example have the literals "[", "]", "none", "", ";", "" and so the
    # bounds literals = 0 1 2 6 6 7 7. The rows with the values a and NULL have the states 0 and 1 for the
    # first piece: sizes 1 + 1 + 1 + 1 = 4 and 4 + 1 = 5.
    literals, has_value, first_form, states, states_at = forms
    data, offsets, escaped, special, grown = values
    rows = len(sizes)
    sizes[:] = 0
    for block in range(0, rows, BLOCK):
        stop = min(block + BLOCK, rows)
        for piece in range(len(first_form)):
            base, first_state = piece * (rows + 1), states_at[piece]
            for row in range(block, stop):
                form = first_form[piece]
                if first_state >= 0:
                    form += states[first_state + row]
                sizes[row] += literals[2 * form + 1] - literals[2 * form]
                if not has_value[form]:
                    continue
                start, end = offsets[base + row], offsets[base + row + 1]
                if start < 0 or end < start or end + SPARE > len(data):
                    return OUTSIDE
                size = end - start
                if escaped[piece]:
                    more = growth(data, start, end, special, grown)
                    if more < 0:
                        return REFUSED - (piece * rows + row)
                    size += more
                sizes[row] += literals[2 * form + 2] - literals[2 * form + 1] + size
    return 0


@kernel(writes=("out",))
def write_rows(
    forms: FormArrays,
    values: ValueArrays,
    written: WrittenBytes,
    sizes: Longs,
    to: Longs,
    out: Octets,
) -> int:
    """Write the rows of a template: row r at ``out[to[r]]``. Return 0, or ``OUTSIDE`` if a row does not have its measured size.

    ``sizes`` are from ``measure_rows``. No byte beyond a row is written, so the rows may be in any
    order and between other bytes.
    """
    # Example: with sizes 4 and 5 and to = 10, 20, the rows "[a];" and "none;" are written to [10, 14) and
    # [20, 25). Every copy checks ``limit``, since values may have changed after they were measured.
    literals, has_value, first_form, states, states_at = forms
    data, offsets, escaped, special, grown = values
    strings, replacements, replacement_at = written
    rows = len(sizes)
    for row in range(rows):
        at, limit = to[row], to[row] + sizes[row]
        if at < 0 or limit > len(out):
            return OUTSIDE
        for piece in range(len(first_form)):
            form = first_form[piece]
            if states_at[piece] >= 0:
                form += states[states_at[piece] + row]
            begin, middle = literals[2 * form], literals[2 * form + 1]
            if at + middle - begin > limit:
                return OUTSIDE
            copy_within(strings, begin, middle - begin, out, at, limit)
            at += middle - begin
            if not has_value[form]:
                continue
            start = offsets[piece * (rows + 1) + row]
            size = offsets[piece * (rows + 1) + row + 1] - start
            if escaped[piece]:
                at = write_escaped(
                    data, start, start + size, special, grown, replacements, replacement_at, out, at, limit
                )  # fmt: skip
                if at < 0:
                    return OUTSIDE
            else:
                if at + size > limit:
                    return OUTSIDE
                copy_within(data, start, size, out, at, limit)
                at += size
            size = literals[2 * form + 2] - middle
            if at + size > limit:
                return OUTSIDE
            copy_within(strings, middle, size, out, at, limit)
            at += size
        if at != limit:
            return OUTSIDE
    return 0


@kernel()
def has_special(data: Octets, size: int, special: Octets, grown: Octets) -> bool:
    """Return whether any of the first ``size`` bytes of a column's values is escaped or refused by a template. 32 bytes follow them."""
    for at in range(0, size, WINDOW):
        marks = special_marks(data, at, size, special)
        while marks:
            if grown[data[at + first_mark(marks)]] != PLAIN:
                return True
            marks &= marks - ONE
    return False


@inner
def special_marks(data: Octets, at: int, end: int, special: Octets) -> np.uint64:
    """Return a bit for each of 32 bytes of a template's value that may have to be escaped: it is special or a control.

    The bits of bytes from ``end`` on are 0.
    """
    marks = escape_marks(data, at, special[0], special[1], special[2], special[3], special[4])
    if end - at < WINDOW:
        # Example: with 3 bytes left the mask is 0b111.
        marks &= (ONE << np.uint64(end - at)) - ONE
    return marks & EVERY


@inner
def growth(data: Octets, start: int, end: int, special: Octets, grown: Octets) -> int:
    """Return by how many bytes the replacements of special bytes lengthen a value, or -1 if a byte is refused."""
    more = 0
    for at in range(start, end, WINDOW):
        marks = special_marks(data, at, end, special)
        while marks:
            offset = at + first_mark(marks)
            size = np.int64(grown[data[offset]])
            if size == FORBIDDEN:
                return -1
            if size == PERHAPS:
                if offset + 2 < end and data[offset + 1] == 0xBF and data[offset + 2] >= 0xBE:
                    return -1
            elif size != PLAIN:
                more += size - 1
            marks &= marks - ONE
    return more


@inner
def write_escaped(
    data: Octets,
    start: int,
    end: int,
    special: Octets,
    grown: Octets,
    replacements: Octets,
    replacement_at: Longs,
    out: Octets,
    at: int,
    limit: int,
) -> int:
    """Write a value with its special bytes replaced. Return its end, or ``OUTSIDE`` if that is beyond the limit."""
    # Example: a"b in JSON. The first mark is at the quote: copy "a", write its replacement \", and continue
    # after it with "b". A marked byte without a replacement (such as a tab in XML) is copied as it is.
    while start < end:
        marks = special_marks(data, start, end, special)
        size = min(WINDOW, end - start)
        if marks:
            size = first_mark(marks)
        if at + size > limit:
            return OUTSIDE
        copy_within(data, start, size, out, at, limit)
        start, at = start + size, at + size
        if marks:
            byte = np.int64(data[start])
            start += 1
            size = np.int64(grown[byte])
            if size == PLAIN or size >= PERHAPS:
                if at >= limit:
                    return OUTSIDE
                out[at] = byte
                at += 1
                continue
            if at + size > limit:
                return OUTSIDE
            for done in range(size):
                out[at + done] = replacements[replacement_at[byte] + done]
            at += size
    return at
