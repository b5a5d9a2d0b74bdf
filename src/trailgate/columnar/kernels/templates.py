"""Rows of text from columns: literals and values in turn, the sizes of all rows first, then their bytes."""

from __future__ import annotations

from typing import Final

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.kernels.compiled import inner, kernel
from trailgate.columnar.kernels.words import SPARE, move32

# How a value is written; a null is written as nothing.
BARE, QUOTED, ESCAPED = range(3)  # as it is; in quotes; in quotes, with each quote in it doubled
BLOCK: Final = 1024  # rows
OUTSIDE: Final = -1


@kernel(writes=("sizes",))
def measure_rows(
    kinds: Longs,
    literals: Longs,
    data: Octets,
    offsets: Longs,
    valid: Mask,
    valid_at: Longs,
    quote: int,
    sizes: Longs,
) -> int:
    """Write how many bytes each row has; return 0, or ``OUTSIDE`` for a value that is not within the data.

    Piece p is the literal literals[p]:literals[p + 1] (of other bytes) and after it a value; a last literal ends the row. Value ``row`` of it is
    data[offsets[p * (rows + 1) + row]:...], null where valid[valid_at[p] + row] is not set; ``valid_at`` is -1 for a
    piece without nulls.
    """
    rows = len(sizes)
    for block in range(0, rows, BLOCK):
        stop = min(block + BLOCK, rows)
        for row in range(block, stop):
            sizes[row] = literals[len(kinds) + 1]
        for piece in range(len(kinds)):
            base, mask, kind = piece * (rows + 1), valid_at[piece], kinds[piece]
            for row in range(block, stop):
                if mask >= 0 and not valid[mask + row]:
                    continue
                start, end = offsets[base + row], offsets[base + row + 1]
                if start < 0 or end < start or end > len(data):
                    return OUTSIDE
                size = end - start
                if kind != BARE:
                    size += 2
                if kind == ESCAPED:
                    for at in range(start, end):
                        size += data[at] == quote
                sizes[row] += size
    return 0


@kernel(writes=("out",))
def write_rows(
    kinds: Longs,
    texts: Octets,
    literals: Longs,
    data: Octets,
    offsets: Longs,
    valid: Mask,
    valid_at: Longs,
    quote: int,
    sizes: Longs,
    to: Longs,
    out: Octets,
) -> int:
    """Write each row from ``to``, as ``measure_rows`` has measured it; return 0, or ``OUTSIDE`` where it has not so many bytes.

    No byte beyond a row is written: rows may be anywhere in ``out``.
    """
    rows = len(sizes)
    for row in range(rows):
        at, limit = to[row], to[row] + sizes[row]
        if at < 0 or limit > len(out):
            return OUTSIDE
        for piece in range(len(kinds)):
            begin = literals[piece]
            size = literals[piece + 1] - begin
            if at + size > limit:
                return OUTSIDE
            copy_within(texts, begin, size, out, at, limit)
            at += size
            mask = valid_at[piece]
            if mask >= 0 and not valid[mask + row]:
                continue
            base, kind = piece * (rows + 1) + row, kinds[piece]
            start = offsets[base]
            size = offsets[base + 1] - start
            if at + size + 2 * (kind != BARE) > limit:
                return OUTSIDE
            if kind == BARE:
                copy_within(data, start, size, out, at, limit)
                at += size
            elif kind == QUOTED:
                out[at] = quote
                copy_within(data, start, size, out, at + 1, limit)
                out[at + 1 + size] = quote
                at += size + 2
            else:
                at = escape(data, start, size, quote, out, at, limit)
                if at < 0:
                    return OUTSIDE
        begin = literals[len(kinds)]
        if at + literals[len(kinds) + 1] - begin != limit:
            return OUTSIDE
        copy_within(texts, begin, literals[len(kinds) + 1] - begin, out, at, limit)
    return 0


@inner
def copy_within(data: Octets, start: int, size: int, out: Octets, at: int, limit: int) -> None:
    """Copy ``size`` bytes; writes more, but not beyond the limit."""
    if at + size + SPARE <= limit and start + size <= len(data) - SPARE:
        move32(out, at, data, start)
        for done in range(32, size, 32):
            move32(out, at + done, data, start + done)
    else:
        for done in range(size):
            out[at + done] = data[start + done]


@inner
def escape(
    data: Octets, start: int, size: int, quote: int, out: Octets, at: int, limit: int
) -> int:
    """Write a value in quotes, each quote in it doubled; return the place after it, ``OUTSIDE`` beyond the limit."""
    out[at] = quote
    at += 1
    for place in range(start, start + size):
        byte = data[place]
        if at + 2 + (byte == quote) > limit:
            return OUTSIDE
        out[at] = byte
        at += 1
        if byte == quote:
            out[at] = byte
            at += 1
    if at >= limit:
        return OUTSIDE
    out[at] = quote
    return at + 1
