"""Delimited text of the usual dialects to the places of its fields, 64 bytes at once.

Delimiters and quotes are one byte each, but a line may end with two. A quote within a quoted value is doubled, or an escape byte is
before it. Text in which a quote is elsewhere, or is not closed, is left to ``delimited.scan``, which knows what is data and what an error.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.kernels.compiled import inner, kernel
from trailgate.columnar.kernels.delimited import ESCAPES, FULL, OUTSIDE, QUOTED, UNQUOTED, WINDOW
from trailgate.columnar.kernels.words import first_mark, marks64

IRREGULAR: Final = -3  # the text is for ``delimited.scan``
ONE: Final = np.uint64(1)
LAST: Final = np.uint64(63)


@kernel(writes=("starts", "ends", "flags", "first", "body"))
def scan_regular(
    data: Octets,
    size: int,
    body_starts: Longs,
    body_ends: Longs,
    field: int,
    line: int,
    line_end: int,
    quote: int,
    escape: int,
    starts: Offsets,
    ends: Offsets,
    flags: Octets,
    first: Longs,
    body: Longs,
) -> tuple[int, int]:
    """Write the fields of the bodies as ``delimited.scan`` does; return how many fields and records.

    ``line_end`` is the second byte of a line delimiter, ``quote`` the one byte of quotes, -1 where there are none. ``escape`` is the byte before a quote that
    is data: the quote itself where quotes are doubled.
    Returns ``FULL`` fields where the arrays are too short, ``OUTSIDE`` as ``delimited.scan`` does, ``IRREGULAR`` for other text.
    """
    # Unsigned: numba need not look whether an index counts from the end.
    fields = records = np.uint64(0)
    last = 0
    # For more fields or records than this no window fits.
    room, records_room = len(starts) - WINDOW - 2, len(first) - WINDOW - 2
    quoted, doubled = quote >= 0, escape == quote
    line_size = 2 if line_end >= 0 else 1
    long = np.uint64(line_size)
    if len(data) < max(size, WINDOW):
        return OUTSIDE, 0
    for number in range(len(body_starts)):
        at, end = body_starts[number], body_ends[number]
        if at < last or end < at or end > size:
            return OUTSIDE, 0
        last = end
        begin = fields
        # Of the bytes before a window, in the bits of its first bytes: fields begin there, a quote was closed, the escape byte was.
        begins, closed, escaping = ONE, np.uint64(0), np.uint64(0)
        inside = np.uint64(0)  # all bits are set where a window begins within quotes
        escaped = False  # a quote of the field is data
        for base in range(at, end, WINDOW):
            if np.int64(fields) > room or np.int64(records) > records_room:
                return FULL, 0
            within = first_bits(end - base)
            lines = marks_from(data, base, line) & within
            if line_size == 2:
                ended = marks_from(data, base, line_end) & within
                follows = base + WINDOW < end and data[base + WINDOW] == line_end
                lines &= ended >> ONE | np.uint64(follows) << LAST
            delimiters = marks_from(data, base, field) & within | lines
            escapes = after = np.uint64(0)
            if quoted:
                quotes = marks_from(data, base, quote) & within
                if not doubled:
                    before = marks_from(data, base, escape)
                    escapes = quotes & (before << ONE | escaping)
                    escaping = before >> LAST
                    quotes ^= escapes
                quoting = inside ^ parity_of_lower(quotes)
                inside = np.uint64(0) - (quoting >> LAST)
                delimiters &= ~quoting
                lines &= ~quoting
                others = delimiters ^ lines
                opening, closing = quotes & quoting, quotes & ~quoting
                after = closing << ONE | closed
                if doubled:
                    escapes = opening & after
                else:
                    escapes &= quoting
                misplaced = opening & ~(begins | others << ONE | lines << long | escapes)
                if (misplaced | after & ~(delimiters | escapes)) & within:
                    return IRREGULAR, 0
                begins = others >> LAST | lines >> np.uint64(WINDOW - line_size)
                closed = closing >> LAST
            while delimiters:
                bit = first_mark(delimiters)
                flag = after >> np.uint64(bit) & ONE  # QUOTED where a closing quote is before it
                if escaped or escapes:
                    mine = escapes & first_bits(bit)
                    if escaped or mine:
                        flag |= np.uint64(ESCAPES)
                        escapes ^= mine
                        escaped = False
                starts[fields], ends[fields], flags[fields] = at, base + bit, flag
                fields += ONE
                at = base + bit + 1
                if (lines >> np.uint64(bit)) & ONE:
                    at += line_size - 1
                    first[records], body[records] = begin, number
                    records += ONE
                    begin = fields
                delimiters &= delimiters - ONE
            escaped = escaped or escapes != 0
        if inside:
            return IRREGULAR, 0
        if at < end or fields > begin:
            flag = UNQUOTED
            if quoted and at < end and data[at] == quote:
                flag = QUOTED | ESCAPES if escaped else QUOTED
            starts[fields], ends[fields], flags[fields] = at, end, flag
            fields += ONE
            first[records], body[records] = begin, number
            records += ONE
    first[records] = fields
    return np.int64(fields), np.int64(records)


@inner
def first_bits(count: int) -> np.uint64:
    """Return a word in which the first ``count`` bits are set, all of them for 64 and more."""
    if count >= WINDOW:
        return ~np.uint64(0)
    return (ONE << np.uint64(count)) - ONE


@inner
def marks_from(data: Octets, base: int, byte: int) -> np.uint64:
    """Return a bit for each of the 64 bytes from ``base`` that is the one wanted; the data has 64 bytes or more."""
    beyond = max(0, base + WINDOW - len(data))
    return marks64(data, base - beyond, np.uint8(byte)) >> np.uint64(beyond)


@inner
def parity_of_lower(bits: np.uint64) -> np.uint64:
    """Return a word in which each bit is set where an odd number of bits up to it is."""
    for shift in (1, 2, 4, 8, 16, 32):
        bits ^= bits << np.uint64(shift)
    return bits
