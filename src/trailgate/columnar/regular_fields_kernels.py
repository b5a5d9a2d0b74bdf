"""Find the fields of delimited text in the usual dialects, 64 bytes at a time and without a branch per byte.

Delimiters and quotes are one byte each, except that a line may end with two. A quote within a
quoted value is doubled or preceded by an escape byte. Text in which a quote is at any other
position, or is not closed, is left to ``delimited.scan``, which decides whether it is data or an
error.

Each window of 64 bytes becomes words with one bit per byte: its delimiters, its quotes. A byte is
within quotes if an odd number of quotes precede it, which is a prefix XOR of the quote bits. Bit
operations then remove the delimiters within quotes, and check that quotes are only where they may
be.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from trailgate.columnar.compiling import kernel
from trailgate.columnar.delimited_kernels import (
    ESCAPES,
    FULL,
    OUTSIDE,
    QUOTED,
    UNQUOTED,
    WINDOW,
    DelimitedBodies,
    FieldArrays,
)
from trailgate.columnar.word_kernels import (
    first_bits,
    first_mark,
    high_marks_from,
    marks_from,
    parity_of_lower,
)

IRREGULAR: Final = -3  # the text is for ``delimited.scan``
ONE: Final = np.uint64(1)
LAST: Final = np.uint64(63)


class RegularDialect(NamedTuple):
    """A usual dialect of delimited text: delimiters, quotes and escapes are single bytes.

    ``line_end`` is the second byte of a line delimiter and ``quote`` the byte of quotes, or -1 if
    there is none. ``escape`` is the byte before a quote that is data: the quote itself if quotes
    are doubled.
    """

    field: int
    line: int
    line_end: int
    quote: int
    escape: int


@kernel(writes=("into",))
def scan_regular(
    bodies: DelimitedBodies, dialect: RegularDialect, into: FieldArrays
) -> tuple[int, int, int]:
    """Write the fields of the bodies, as ``delimited.scan`` does, for regular text. Return the number of fields and of records.

    The third result is 0 if all bytes of the bodies are ASCII. Instead of the number of fields, returns ``FULL`` if the arrays are too short, ``OUTSIDE``
    if a body is not within the data, or ``IRREGULAR`` for text that this loop cannot scan.
    """
    # Example: the text a,"b,c"\n with the first byte at bit 0 (bits are written from left to right):
    #   text                a , " b , c " \n
    #   quotes              0 0 1 0 0 0 1 0
    #   quoting             0 0 1 1 1 1 0 0   prefix XOR: the opening quote and what is quoted
    #   delimiters          0 1 0 0 0 0 0 1   the comma at 4 is within quotes
    #   opening, closing    bit 2, bit 6
    #   after               0 0 0 0 0 0 0 1   the bit after a closing quote: must be a delimiter
    data, size, body_starts, body_ends = bodies
    field, line, line_end, quote, escape = dialect
    starts, ends, flags, first, body = into
    # Unsigned counters save numba's test whether an index counts from the end.
    fields = records = high = np.uint64(0)
    last = 0
    # A window adds at most 64 fields, so another one fits as long as no more than ``room`` are used.
    room, records_room = len(starts) - WINDOW - 2, len(first) - WINDOW - 2
    quoted, doubled = quote >= 0, escape == quote
    line_size = 2 if line_end >= 0 else 1
    long = np.uint64(line_size)
    if len(data) < max(size, WINDOW):
        return OUTSIDE, 0, 0
    for number in range(len(body_starts)):
        at, end = body_starts[number], body_ends[number]
        if at < last or end < at or end > size:
            return OUTSIDE, 0, 0
        last = end
        begin = fields
        # Carried over from the previous window into the lowest bits: a field begins here; the last byte
        # closed a quote; the last byte was the escape byte.
        begins, closed, escaping = ONE, np.uint64(0), np.uint64(0)
        inside = np.uint64(0)  # all bits are set if the window begins within quotes
        escaped = False  # the current field has an escaped quote
        for base in range(at, end, WINDOW):
            if np.int64(fields) > room or np.int64(records) > records_room:
                return FULL, 0, 0
            within = first_bits(end - base)
            high |= high_marks_from(data, base) & within
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
                # A quote may open at the start of a field (``begins``, after a delimiter, after a line) or
                # be the second one of a doubled quote.
                misplaced = opening & ~(begins | others << ONE | lines << long | escapes)
                if (misplaced | after & ~(delimiters | escapes)) & within:
                    return IRREGULAR, 0, 0
                begins = others >> LAST | lines >> np.uint64(WINDOW - line_size)
                closed = closing >> LAST
            while delimiters:
                bit = first_mark(delimiters)
                flag = (
                    after >> np.uint64(bit) & ONE
                )  # QUOTED (1) if the delimiter follows a closing quote
                if escaped or escapes:
                    escapes_before = escapes & first_bits(bit)
                    if escaped or escapes_before:
                        flag |= np.uint64(ESCAPES)
                        escapes ^= escapes_before
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
            return IRREGULAR, 0, 0
        if at < end or fields > begin:
            flag = UNQUOTED
            if quoted and at < end and data[at] == quote:
                flag = QUOTED | ESCAPES if escaped else QUOTED
            starts[fields], ends[fields], flags[fields] = at, end, flag
            fields += ONE
            first[records], body[records] = begin, number
            records += ONE
    first[records] = fields
    return np.int64(fields), np.int64(records), np.int64(high != 0)
