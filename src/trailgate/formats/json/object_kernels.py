"""Loops over JSON objects: the members of many objects found by name, and objects written from columns.

Written objects have the sizes of all rows first, then their bytes; base64 text is read and written in the same passes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.kernels.compiled import inner, kernel
from trailgate.columnar.kernels.gather import MAX_INT32, TOO_MANY
from trailgate.columnar.kernels.words import SPARE, first_mark, move32, string_marks
from trailgate.formats.json.scan_kernels import ARRAY, NULL, OBJECT, TRUE, number_end

NO_NODE: Final = -1
# Names that are not columns.
UNKNOWN: Final = -1
PASSED_OVER: Final = -2


@kernel(writes=("found",))
def pick_members(
    parents: Longs, name: Offsets, kind: Octets, last: Offsets, slot: Longs, found: Longs
) -> int:
    """Write the members of objects whose names have a slot, slot by slot; return how many there are."""
    rows = len(parents)
    count = 0
    for row in range(rows):
        parent = parents[row]
        if parent < 0 or kind[parent] != OBJECT:
            continue
        node, end = parent + 1, np.int64(last[parent])
        while node < end:
            own = slot[name[node]]
            if own >= 0:
                found[own * rows + row] = node
                count += 1
            node = np.int64(last[node])
    return count


@kernel(writes=("cells", "begins", "sizes", "unknown", "again"))
def place_cells(
    parents: Longs,
    name: Offsets,
    kind: Octets,
    start: Longs,
    length: Longs,
    last: Offsets,
    column_of: Longs,
    columns: int,
    cells: Offsets,
    begins: Longs,
    sizes: Offsets,
    unknown: Longs,
    again: Longs,
) -> tuple[int, int]:
    """Write the node of each column in each object, and where its text is, column by column; the size of a null stays as it was.

    Returns how many problems objects have, and how many values are objects and arrays.

    ``column_of`` is the column of each name, ``UNKNOWN`` or ``PASSED_OVER``; from ``columns`` on it is a column that is missing where the member is true.
    ``unknown`` and ``again`` are a member of each object that is not a column, and one whose column another member is already.
    """
    rows = len(parents)
    bad = nested = 0
    for row in range(rows):
        parent = parents[row]
        if parent < 0 or kind[parent] != OBJECT:
            continue
        node, end = parent + 1, np.int64(last[parent])
        flags = False
        while node < end:
            column = column_of[name[node]]
            if column >= columns:
                flags = True
            elif column >= 0:
                cell = column * rows + row
                if cells[cell] != NO_NODE:
                    again[row] = node
                    bad += 1
                cells[cell] = node
                if kind[node] != NULL:
                    begins[cell], sizes[cell] = start[node], length[node]
                    nested += kind[node] == OBJECT or kind[node] == ARRAY
            elif column == UNKNOWN:
                unknown[row] = node
                bad += 1
            node = np.int64(last[node])
        if flags:
            node = parent + 1
            while node < end:
                column = column_of[name[node]] - columns
                if column >= 0 and kind[node] == TRUE:
                    cells[column * rows + row] = NO_NODE
                    sizes[column * rows + row] = NO_NODE
                node = np.int64(last[node])
    return bad, nested


@kernel(writes=("begins", "offsets", "nulls"))
def measure_nodes(
    nodes: Longs,
    kind: Octets,
    start: Longs,
    length: Longs,
    begins: Longs,
    offsets: Offsets,
    nulls: Mask,
) -> int:
    """Write where the text of each node begins, Arrow's offsets of the strings, and which have none: null, or without a node.

    Returns how many strings are objects or arrays, or ``TOO_MANY``.
    """
    total = np.int64(0)
    nested = 0
    offsets[0] = 0
    for row in range(len(nodes)):
        node = nodes[row]
        nulls[row] = True
        begins[row] = 0
        if node >= 0 and kind[node] != NULL:
            nulls[row] = False
            begins[row] = start[node]
            total += length[node]
            nested += kind[node] == OBJECT or kind[node] == ARRAY
            if total > MAX_INT32:
                return TOO_MANY
        offsets[row + 1] = total
    return nested


# What is after a piece's literal.
NOTHING: Final = 0
BARE: Final = 1  # a value as it is
NUMBER: Final = 2  # as it is, in quotes where it is not a number as JSON has them
PLAIN: Final = 3  # in quotes
STRING: Final = 4  # in quotes, with escapes
MEMBERS: Final = 5  # members with a comma before each
# What a row has.
VALUE: Final = 0
NULL_PIECE: Final = 1
MISSING: Final = 2  # neither literal nor value

OUTSIDE: Final = -1
COMMA: Final = 0x2C
OPENING: Final = 0x7B
QUOTE: Final = 0x22
ESCAPE: Final = 0x5C
LOWER: Final = np.uint64(0xFFFFFFFF)
UPPER: Final = np.uint64(32)
ONE: Final = np.uint64(1)
DIGITS: Final = 48
LETTERS: Final = 87


@kernel(writes=("sizes",))
def measure_objects(
    kinds: Longs,
    strings: Octets,
    literals: Longs,
    data: Octets,
    offsets: Longs,
    states: Octets,
    states_at: Longs,
    sizes: Longs,
) -> int:
    """Write how many bytes each row has; return 0, or ``OUTSIDE`` for a value that is not within the data and 32 bytes more.

    Piece p is the literal literals[p]:literals[p + 1] and a value of its kind. Value ``row`` of it is
    data[offsets[p * (rows + 1) + row]:...], and states[states_at[p] + row] whether there is one; ``states_at`` is -1 where all rows have one.
    A literal's comma at its beginning is left out after an opening brace.
    """
    rows = len(sizes)
    for row in range(rows):
        total = np.int64(0)
        fresh = False
        for piece in range(len(kinds)):
            begin, end = literals[piece], literals[piece + 1]
            state = VALUE
            if states_at[piece] >= 0:
                state = np.int64(states[states_at[piece] + row])
                if state == MISSING:
                    continue
            if fresh and begin < end and strings[begin] == COMMA:
                begin += 1
            total += end - begin
            kind = kinds[piece]
            if kind == NOTHING:
                fresh = begin < end and strings[end - 1] == OPENING
                continue
            if state == NULL_PIECE:
                total += 4
                fresh = False
                continue
            base = piece * (rows + 1) + row
            start, stop = offsets[base], offsets[base + 1]
            if start < 0 or stop < start or stop > len(data) - SPARE:
                return OUTSIDE
            if kind == MEMBERS:
                fresh = stop == start
                total += max(0, stop - start - 1)
                continue
            fresh = False
            total += stop - start
            if kind == STRING:
                total += 2 + escapes(data, start, stop)
            elif kind == PLAIN or (kind == NUMBER and not is_number(data, start, stop)):
                total += 2
        sizes[row] = total
    return 0


@kernel(writes=("out",))
def write_objects(
    kinds: Longs,
    strings: Octets,
    literals: Longs,
    data: Octets,
    offsets: Longs,
    states: Octets,
    states_at: Longs,
    sizes: Longs,
    to: Longs,
    out: Octets,
) -> int:
    """Write each row from ``to``, as ``measure_objects`` has measured it; return 0, or ``OUTSIDE`` where it has not so many bytes.

    No byte beyond a row is written: rows may be anywhere in ``out``. ``strings`` have 32 bytes more than the literals.
    """
    rows = len(sizes)
    for row in range(rows):
        at, limit = to[row], to[row] + sizes[row]
        if at < 0 or limit > len(out):
            return OUTSIDE
        fresh = False
        for piece in range(len(kinds)):
            begin, end = literals[piece], literals[piece + 1]
            state = VALUE
            if states_at[piece] >= 0:
                state = np.int64(states[states_at[piece] + row])
                if state == MISSING:
                    continue
            if fresh and begin < end and strings[begin] == COMMA:
                begin += 1
            if at + end - begin > limit:
                return OUTSIDE
            copy_within(strings, begin, end - begin, out, at, limit)
            at += end - begin
            kind = kinds[piece]
            if kind == NOTHING:
                fresh = begin < end and strings[end - 1] == OPENING
                continue
            fresh = False
            if state == NULL_PIECE:
                if at + 4 > limit:
                    return OUTSIDE
                out[at], out[at + 1], out[at + 2], out[at + 3] = 0x6E, 0x75, 0x6C, 0x6C
                at += 4
                continue
            base = piece * (rows + 1) + row
            start, stop = offsets[base], offsets[base + 1]
            if kind == MEMBERS:
                fresh = stop == start
                start = min(start + 1, stop)
            quoted = kind == STRING or kind == PLAIN
            if kind == NUMBER:
                quoted = not is_number(data, start, stop)
            if at + stop - start + 2 * quoted > limit:
                return OUTSIDE
            if quoted:
                out[at] = QUOTE
                at += 1
            if kind == STRING:
                at = write_string(data, start, stop, out, at, limit - 1)
                if at < 0:
                    return OUTSIDE
            else:
                copy_within(data, start, stop - start, out, at, limit)
                at += stop - start
            if quoted:
                out[at] = QUOTE
                at += 1
        if at != limit:
            return OUTSIDE
    return 0


@inner
def is_number(data: Octets, start: int, stop: int) -> bool:
    """Return whether a text is a number as JSON has them."""
    return bool(start < stop and number_end(data, start, stop) == stop)


@inner
def copy_within(data: Octets, start: int, size: int, out: Octets, at: int, limit: int) -> None:
    """Copy bytes that have 32 more after them; writes more, but not beyond the limit."""
    if at + size + SPARE <= limit:
        for done in range(0, size, 32):
            move32(out, at + done, data, start + done)
    else:
        for done in range(size):
            out[at + done] = data[start + done]


@inner
def special_marks(data: Octets, at: int, stop: int) -> np.uint64:
    """Return a bit for each of 32 bytes, before ``stop``, that is not in a string as it is."""
    marks = string_marks(data, at)
    marks = (marks | marks >> UPPER) & LOWER
    if stop - at < 32:
        marks &= (ONE << np.uint64(stop - at)) - ONE
    return marks


@inner
def escapes(data: Octets, start: int, stop: int) -> int:
    """Return how many bytes more a text has with its escapes."""
    more = 0
    for at in range(start, stop, 32):
        marks = special_marks(data, at, stop)
        while marks:
            more += escaped_size(data[at + first_mark(marks)]) - 1
            marks &= marks - ONE
    return more


@inner
def escaped_size(byte: int) -> int:
    """Return how many bytes the escape of a byte has."""
    if byte == QUOTE or byte == ESCAPE or 8 <= byte <= 10 or byte == 12 or byte == 13:
        return 2
    return 6


@inner
def write_string(data: Octets, start: int, stop: int, out: Octets, at: int, limit: int) -> int:
    """Write a text with its escapes; return where it ends, ``OUTSIDE`` beyond the limit."""
    while start < stop:
        marks = special_marks(data, start, stop)
        size = min(32, stop - start)
        if marks:
            size = first_mark(marks)
        if at + size > limit:
            return OUTSIDE
        copy_within(data, start, size, out, at, limit)
        start, at = start + size, at + size
        if marks:
            byte = data[start]
            if at + escaped_size(byte) > limit:
                return OUTSIDE
            at = write_escape(byte, out, at)
            start += 1
    return at


@inner
def write_escape(byte: int, out: Octets, at: int) -> int:
    """Write the escape of a byte; return where it ends."""
    out[at] = ESCAPE
    if byte == QUOTE or byte == ESCAPE:
        out[at + 1] = byte
        return at + 2
    if escaped_size(byte) == 2:
        letter = 0x62  # b
        if byte == 9:
            letter = 0x74
        elif byte == 10:
            letter = 0x6E
        elif byte == 12:
            letter = 0x66
        elif byte == 13:
            letter = 0x72
        out[at + 1] = letter
        return at + 2
    out[at + 1], out[at + 2], out[at + 3] = 0x75, DIGITS, DIGITS
    out[at + 4] = DIGITS + (byte >> 4)
    digit = byte & 15
    out[at + 5] = digit + (DIGITS if digit < 10 else LETTERS)
    return at + 6


INVALID: Final = 0xFF
PADDING: Final = 0x3D


@kernel(writes=("ends", "out"))
def decode(data: Octets, offsets: Offsets, digits: Octets, ends: Offsets, out: Octets) -> int:
    """Write the bytes of each text, and Arrow's offsets of them; return the first row that is other text, -1 for none.

    Bits that no byte has must be zero, so that bytes have one text.
    """
    to = np.int64(0)
    ends[0] = 0
    for row in range(len(offsets) - 1):
        at, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if at < 0 or end > len(data) or (end - at) & 3 != 0:
            return row
        while at < end:
            padding = 0
            if at + 4 == end:
                padding = int(data[at + 3] == PADDING)
                if padding and data[at + 2] == PADDING:
                    padding = 2
            word = np.int64(0)
            for place in range(4 - padding):
                digit = np.int64(digits[data[at + place]])
                if digit == INVALID:
                    return row
                word |= digit << (18 - 6 * place)
            if (padding == 1 and word & 0xFF) or (padding == 2 and word & 0xFFFF):
                return row
            if to + 3 > len(out):
                return row
            for place in range(3 - padding):
                out[to] = np.uint8(word >> (16 - 8 * place) & 0xFF)
                to += 1
            at += 4
        ends[row + 1] = to
    return -1


@kernel(writes=("out",))
def encode(data: Octets, offsets: Offsets, letters: Octets, ends: Offsets, out: Octets) -> None:
    """Write the text of each row's bytes at its place by ``ends``."""
    for row in range(len(offsets) - 1):
        at, end, to = np.int64(offsets[row]), np.int64(offsets[row + 1]), np.int64(ends[row])
        while at < end:
            word = np.int64(data[at]) << 16
            if at + 1 < end:
                word |= np.int64(data[at + 1]) << 8
            if at + 2 < end:
                word |= np.int64(data[at + 2])
            for place in range(4):
                out[to + place] = letters[word >> (18 - 6 * place) & 63]
            if at + 1 >= end:
                out[to + 2] = PADDING
            if at + 2 >= end:
                out[to + 3] = PADDING
            at += 3
            to += 4
