"""Rows of XML from columns: literals and escaped values, the sizes of all rows first, then their bytes."""

from __future__ import annotations

from typing import Final

from trailgate.arrays import Longs, Octets
from trailgate.columnar.kernels.compiled import inner, kernel
from trailgate.columnar.kernels.templates import copy_within

# What a piece is in a row.
NOTHING: Final = 0
NULL: Final = 1  # the literal for NULL
VALUE: Final = 2  # the literal before, the value, the literal after
OTHER: Final = 3  # the other literal
LITERALS: Final = 4  # of a piece: before, after, for NULL, other

# How a value is written.
PLAIN: Final = 0
ESCAPED: Final = 1

BLOCK: Final = 1024  # rows
OUTSIDE: Final = -1
FORBIDDEN: Final = -2  # less: that, minus the piece and the row

# What is written as a reference, in texts and in attributes alike: quotes, line ends and tabs too.
AMPERSAND, LESS, GREATER, QUOTE, RETURN, LINE, TAB = 0x26, 0x3C, 0x3E, 0x22, 0x0D, 0x0A, 0x09


@kernel()
def has_marks(data: Octets, start: int, end: int) -> bool:
    """Return whether bytes have what is escaped in XML, or what is forbidden or may be."""
    found = False
    for at in range(start, end):
        byte = data[at]
        found |= (
            byte < 0x20
            or byte == AMPERSAND
            or byte == LESS
            or byte == GREATER
            or byte == QUOTE
            or byte == 0xEF
        )
    return found


@inner
def escaped_size(data: Octets, start: int, end: int) -> int:
    """Return how many bytes a value has with its references, or ``FORBIDDEN`` where XML has no character for one of it."""
    size = end - start
    for at in range(start, end):
        byte = data[at]
        if byte >= 0x40 and byte != 0xEF:
            continue
        if byte == AMPERSAND or byte == RETURN:
            size += 4
        elif byte == LESS or byte == GREATER:
            size += 3
        elif byte == QUOTE:
            size += 5
        elif byte == LINE or byte == TAB:
            size += 4 if byte == LINE else 3
        elif byte < 0x20 or (
            byte == 0xEF and at + 2 < end and data[at + 1] == 0xBF and data[at + 2] >= 0xBE
        ):
            return FORBIDDEN
    return size


@inner
def put(out: Octets, at: int, first: int, second: int, third: int, fourth: int, fifth: int) -> int:
    """Write an ampersand and the characters of a reference that are not 0; return the place after them."""
    out[at] = AMPERSAND
    at += 1
    for letter in (first, second, third, fourth, fifth):
        if letter:
            out[at] = letter
            at += 1
    return at


@inner
def write_escaped(data: Octets, start: int, end: int, out: Octets, at: int) -> int:
    """Write a value with its references and return the place after it; there is room for it."""
    for place in range(start, end):
        byte = data[place]
        if byte == AMPERSAND:
            at = put(out, at, 0x61, 0x6D, 0x70, 0x3B, 0)  # amp;
        elif byte == LESS:
            at = put(out, at, 0x6C, 0x74, 0x3B, 0, 0)  # lt;
        elif byte == GREATER:
            at = put(out, at, 0x67, 0x74, 0x3B, 0, 0)  # gt;
        elif byte == QUOTE:
            at = put(out, at, 0x71, 0x75, 0x6F, 0x74, 0x3B)  # quot;
        elif byte == RETURN:
            at = put(out, at, 0x23, 0x31, 0x33, 0x3B, 0)  # #13;
        elif byte == LINE:
            at = put(out, at, 0x23, 0x31, 0x30, 0x3B, 0)  # #10;
        elif byte == TAB:
            at = put(out, at, 0x23, 0x39, 0x3B, 0, 0)  # #9;
        else:
            out[at] = byte
            at += 1
    return at


@kernel(writes=("sizes",))
def measure_elements(
    kinds: Longs,
    bounds: Longs,
    data: Octets,
    offsets: Longs,
    states: Octets,
    sizes: Longs,
) -> int:
    """Write how many bytes each row has; return 0, ``OUTSIDE`` for a value that is not within the data, or less for one with forbidden characters.

    Piece p has the literals between bounds[4 * p] and bounds[4 * p + 4] (of other bytes), and in row r the state
    states[p * rows + r] and the value data[offsets[p * (rows + 1) + r]:...]. A last literal ends each row.
    """
    rows, pieces = len(sizes), len(kinds)
    last = bounds[pieces * LITERALS + 1] - bounds[pieces * LITERALS]
    for block in range(0, rows, BLOCK):
        stop = min(block + BLOCK, rows)
        for row in range(block, stop):
            sizes[row] = last
        for piece in range(pieces):
            own = piece * LITERALS
            around = bounds[own + 2] - bounds[own]
            null = bounds[own + 3] - bounds[own + 2]
            other = bounds[own + 4] - bounds[own + 3]
            for row in range(block, stop):
                state = states[piece * rows + row]
                if state == VALUE:
                    start = offsets[piece * (rows + 1) + row]
                    end = offsets[piece * (rows + 1) + row + 1]
                    if start < 0 or end < start or end > len(data):
                        return OUTSIDE
                    size = end - start
                    if kinds[piece] == ESCAPED:
                        size = escaped_size(data, start, end)
                        if size < 0:
                            return FORBIDDEN - (piece * rows + row)
                    sizes[row] += around + size
                elif state == NULL:
                    sizes[row] += null
                elif state == OTHER:
                    sizes[row] += other
    return 0


@kernel(writes=("out",))
def write_elements(
    kinds: Longs,
    bounds: Longs,
    texts: Octets,
    data: Octets,
    offsets: Longs,
    states: Octets,
    sizes: Longs,
    to: Longs,
    out: Octets,
) -> int:
    """Write each row from ``to`` on, as ``measure_elements`` has measured it; return 0, or ``OUTSIDE`` where it has other bytes.

    No byte beyond a row is written: rows may be anywhere in ``out``.
    """
    rows, pieces = len(sizes), len(kinds)
    for row in range(rows):
        at, limit = to[row], to[row] + sizes[row]
        if at < 0 or limit > len(out):
            return OUTSIDE
        for piece in range(pieces):
            own = piece * LITERALS
            state = states[piece * rows + row]
            if state == NOTHING:
                continue
            which = own  # before the value
            if state == NULL:
                which = own + 2
            elif state == OTHER:
                which = own + 3
            size = bounds[which + 1] - bounds[which]
            if at + size > limit:
                return OUTSIDE
            copy_within(texts, bounds[which], size, out, at, limit)
            at += size
            if state != VALUE:
                continue
            start = offsets[piece * (rows + 1) + row]
            end = offsets[piece * (rows + 1) + row + 1]
            after = bounds[own + 2] - bounds[own + 1]
            if kinds[piece] == ESCAPED:
                if at + escaped_size(data, start, end) + after > limit:
                    return OUTSIDE
                at = write_escaped(data, start, end, out, at)
            else:
                if at + end - start + after > limit:
                    return OUTSIDE
                copy_within(data, start, end - start, out, at, limit)
                at += end - start
            copy_within(texts, bounds[own + 1], after, out, at, limit)
            at += after
        own = pieces * LITERALS
        if at + bounds[own + 1] - bounds[own] != limit:
            return OUTSIDE
        copy_within(texts, bounds[own], bounds[own + 1] - bounds[own], out, at, limit)
    return 0
