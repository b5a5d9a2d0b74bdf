"""Loops over the cells of data areas and over the values of a column: where they are, whether they fit, fixed widths decoded.

A cell is a column index u16, a length u16 and a value of that length, which begins with a null indicator of two bytes
(trail format §10.1). ``count_cells`` proves that the cells of an area are within it; everything else gets places that
it has proven, or checks them itself.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.kernels.compiled import inner, kernel
from trailgate.columnar.kernels.gather import MAX_INT32, TOO_MANY
from trailgate.columnar.kernels.words import load8, store8
from trailgate.trail.values.codec import CELL_HEAD, INDICATOR_BYTES, VARIABLE_HEAD
from trailgate.trail.values.write_kernels import BETWEEN, BLANK, COLON

U64 = np.uint64
HIGH_BITS: Final = np.uint64(0x8080808080808080)
OVER, BAD_INDEX, NO_INDICATOR, TWICE = range(1, 5)  # problems of ``count_cells``


@inner
def _half(data: Octets, at: int, big: bool) -> np.int64:
    """Return the u16 at a place."""
    one, two = np.int64(data[at]), np.int64(data[at + 1])
    return (one << 8) | two if big else (two << 8) | one


@kernel(writes=("counts", "last"))
def count_cells(
    data: Octets, starts: Longs, ends: Longs, big: bool, counts: Longs, last: Longs
) -> tuple[int, int, int]:
    """Count the cells of each column in areas [start, end); return a problem (0: none), its area and its place.

    ``counts`` is all zeros and ``last`` all -1, one item a column.
    """
    columns = len(counts)
    for r in range(len(starts)):
        place, end = starts[r], ends[r]
        while place < end:
            if place < 0 or place + CELL_HEAD > end or end > len(data):
                return OVER, r, place
            column = _half(data, place, big)
            length = _half(data, place + 2, big)
            if place + CELL_HEAD + length > end:
                return OVER, r, place
            if column >= columns:
                return BAD_INDEX, r, place
            if length < INDICATOR_BYTES:
                return NO_INDICATOR, r, place
            if last[column] == r:
                return TWICE, r, place
            last[column] = r
            counts[column] += 1
            place += CELL_HEAD + length
    return 0, 0, 0


@kernel(writes=("places", "lengths"))
def place_alike(
    data: Octets,
    starts: Longs,
    ends: Longs,
    big: bool,
    columns: Longs,
    places: Longs,
    lengths: Longs,
) -> bool:
    """Write place and length of each value, by column, of areas that have just these columns in this order.

    Returns whether all have, and are sound; where not, ``count_cells`` finds out why.
    """
    count = len(starts)
    for r in range(count):
        place, end = starts[r], ends[r]
        if place < 0 or end > len(data):
            return False
        for k in range(len(columns)):
            if place + CELL_HEAD > end or _half(data, place, big) != columns[k]:
                return False
            length = _half(data, place + 2, big)
            place += CELL_HEAD
            if length < INDICATOR_BYTES or place + length > end:
                return False
            places[k * count + r] = place
            lengths[k * count + r] = length
            place += length
        if place != end:
            return False
    return True


@kernel(writes=("next_cell", "rows", "places", "lengths"))
def place_cells(
    data: Octets,
    starts: Longs,
    ends: Longs,
    big: bool,
    next_cell: Longs,
    rows: Longs,
    places: Longs,
    lengths: Longs,
) -> int:
    """Write area, place and length of each value, by column; return how many there are.

    The areas are those that ``count_cells`` found sound; ``next_cell`` is where the values of each column begin.
    """
    total = 0
    for r in range(len(starts)):
        place, end = starts[r], ends[r]
        while place < end:
            column = _half(data, place, big)
            length = _half(data, place + 2, big)
            cell = next_cell[column]
            next_cell[column] = cell + 1
            rows[cell] = r
            places[cell] = place + CELL_HEAD
            lengths[cell] = length
            total += 1
            place += CELL_HEAD + length
    return total


@inner
def _holds_cells(data: Octets, place: int, end: int, big: bool, columns: int) -> bool:
    """Return whether cells of so many columns, or fewer, fill [place, end) exactly."""
    cells = 0
    while place < end:
        if place + CELL_HEAD + INDICATOR_BYTES > end or cells == columns:
            return False
        length = _half(data, place + 2, big)
        if _half(data, place, big) >= columns or length < INDICATOR_BYTES:
            return False
        place += CELL_HEAD + length
        cells += 1
    return place <= end


@kernel(writes=("good",))
def check_cells(
    data: Octets, starts: Longs, ends: Longs, big: bool, columns: int, good: Mask
) -> int:
    """Write which areas cells fill exactly, each at most as many as there are columns; return how many do not."""
    bad = 0
    for r in range(len(starts)):
        within = starts[r] >= ends[r] or (starts[r] >= 0 and ends[r] <= len(data))
        good[r] = within and _holds_cells(data, starts[r], ends[r], big, columns)
        if not good[r]:
            bad += 1
    return bad


@kernel()
def count_columns(data: Octets, starts: Longs, ends: Longs, big: bool, most: int) -> int:
    """Return one more than the greatest column index in areas, as far as they hold cells of columns below ``most``."""
    found = 0
    for r in range(len(starts)):
        place, end = starts[r], min(ends[r], len(data))
        cells = 0
        while place >= 0 and place + CELL_HEAD + INDICATOR_BYTES <= end and cells <= most:
            column = _half(data, place, big)
            if column >= most:
                break
            found = max(found, column + 1)
            place += CELL_HEAD + _half(data, place + 2, big)
            cells += 1
    return found


@kernel(writes=("widths", "borders"))
def split_images(
    data: Octets,
    starts: Longs,
    ends: Longs,
    big: bool,
    kinds: Octets,
    columns: int,
    widths: Longs,
    borders: Longs,
) -> int:
    """Write the bytes of the length that begins an area of two images, and where the first image ends.

    ``kinds`` is 0 for an area of one image, 2 or 4 for a length of so many bytes, and anything else for either: the one with
    which cells fill both images exactly, 2 where both do. Returns the first area that fits none, or -1.
    """
    for r in range(len(starts)):
        widths[r] = 0
        borders[r] = ends[r]
        if kinds[r] == 0:
            continue
        start, end = starts[r], ends[r]
        if start < 0 or end > len(data):
            return r
        for width in (2, 4):
            if kinds[r] in (2, 4) and kinds[r] != width:
                continue
            if start + width > end:
                continue
            border = start + width
            if width == 2:
                border += _half(data, start, big)
            elif big:
                border += (_half(data, start, big) << 16) | _half(data, start + 2, big)
            else:
                border += (_half(data, start + 2, big) << 16) | _half(data, start, big)
            if border > end:
                continue
            if kinds[r] == width or (
                _holds_cells(data, start + width, border, big, columns)
                and _holds_cells(data, border, end, big, columns)
            ):
                widths[r] = width
                borders[r] = border
                break
        if widths[r] == 0:
            return r
    return -1


@inner
def _state(data: Octets, at: int, length: int, width: int) -> int:
    """Return 0 for a value of a fixed width, 1 for NULL, and -1 for neither.

    A value is 00 00 and its bytes; NULL is FF FF, alone or with as many bytes.
    """
    whole = length == INDICATOR_BYTES + width
    if at < 0 or length < INDICATOR_BYTES or at + length > len(data):
        return -1
    if data[at] == 0 and data[at + 1] == 0:
        return 0 if whole else -1
    if data[at] != 0xFF or data[at + 1] != 0xFF:
        return -1
    return 1 if whole or length == INDICATOR_BYTES else -1


@kernel(writes=("nulls",))
def check_fixed(
    data: Octets, starts: Longs, lengths: Longs, width: int, nulls: Mask
) -> tuple[int, int]:
    """Write which values of a fixed width are NULL; return how many are, and the first that does not fit, or -1."""
    count = 0
    for k in range(len(starts)):
        state = _state(data, starts[k], lengths[k], width)
        if state < 0:
            return count, k
        nulls[k] = state
        count += state
    return count, -1


@kernel(writes=("nulls", "offsets"))
def check_variable(
    data: Octets, starts: Longs, lengths: Longs, big: bool, nulls: Mask, offsets: Offsets
) -> tuple[int, int, int]:
    """Write which values of varying length are NULL, and Arrow's offsets of their bytes.

    A value is 00 00, its length u16 and its bytes; NULL is FF FF, alone or with a length of 0. Returns how many are NULL, the
    first that does not fit, or -1, and the bytes of all, which are ``TOO_MANY`` where int32 does not count them.
    """
    count = 0
    total = np.int64(0)
    offsets[0] = 0
    for k in range(len(starts)):
        at, length = starts[k], lengths[k]
        if at < 0 or length < INDICATOR_BYTES or at + length > len(data):
            return count, k, total
        counted = length >= VARIABLE_HEAD
        size = _half(data, at + 2, big) if counted else np.int64(0)
        null = data[at] == 0xFF and data[at + 1] == 0xFF
        if null:
            if size or length not in (INDICATOR_BYTES, VARIABLE_HEAD):
                return count, k, total
            count += 1
        elif not counted or data[at] != 0 or data[at + 1] != 0 or size != length - VARIABLE_HEAD:
            return count, k, total
        nulls[k] = null
        total += size
        if total > MAX_INT32:
            return count, -1, TOO_MANY
        offsets[k + 1] = total
    return count, -1, total


@inner
def _big_word(data: Octets, at: int) -> np.uint64:
    """Return the eight bytes at a place as a big-endian number."""
    word = load8(data, at)
    word = ((word >> U64(8)) & U64(0x00FF00FF00FF00FF)) | (
        (word & U64(0x00FF00FF00FF00FF)) << U64(8)
    )
    word = ((word >> U64(16)) & U64(0x0000FFFF0000FFFF)) | (
        (word & U64(0x0000FFFF0000FFFF)) << U64(16)
    )
    return U64((word >> U64(32)) | (word << U64(32)))


@kernel(writes=("nulls", "values"))
def read_integers(
    data: Octets,
    starts: Longs,
    lengths: Longs,
    width: int,
    signed: bool,
    nulls: Mask,
    values: Longs,
) -> tuple[int, int]:
    """Write the big-endian integers of a column of at most eight bytes, 0 for NULL.

    Returns how many are NULL, and the first value that does not fit, or -1.
    """
    spare = np.int64(64 - 8 * width)
    count = 0
    for k in range(len(starts)):
        state = _state(data, starts[k], lengths[k], width)
        if state < 0:
            return count, k
        nulls[k] = state
        count += state
        value = np.int64(0)
        if not state:
            at = starts[k] + INDICATOR_BYTES
            if at + 8 <= len(data):
                word = _big_word(data, at)
                value = np.int64(word) >> spare if signed else np.int64(word >> U64(spare))
            else:
                for byte in range(width):
                    value = (value << 8) | np.int64(data[at + byte])
                if signed:
                    value = (value << spare) >> spare
        values[k] = value
    return count, -1


@inner
def _copy_bytes(data: Octets, at: int, size: int, out: Octets, to: int) -> np.uint64:
    """Copy bytes; return all of them ored, eight at a time. ``out`` has room for seven bytes more."""
    every = np.uint64(0)
    if at + size + 8 > len(data):
        for byte in range(size):
            every |= np.uint64(data[at + byte])
            out[to + byte] = data[at + byte]
        return every
    for byte in range(0, size, 8):
        word = load8(data, at + byte)
        store8(out, to + byte, word)
        over = max(0, byte + 8 - size)
        every |= word << np.uint64(8 * over)
    return every


@kernel(writes=("nulls", "offsets", "strings"))
def read_datetimes(
    data: Octets,
    starts: Longs,
    lengths: Longs,
    width: int,
    nulls: Mask,
    offsets: Offsets,
    strings: Octets,
) -> tuple[int, int, bool]:
    """Write date times as ISO strings, NULL left out, and Arrow's offsets of them.

    ``strings`` has room for the bytes of all values, and ``SPARE`` more. Returns how many are NULL, the first value that does not
    fit, or -1, and whether that is a value of the width, which is not a date time.
    """
    to = np.int64(0)
    count = 0
    offsets[0] = 0
    for k in range(len(starts)):
        state = _state(data, starts[k], lengths[k], width)
        if state < 0:
            return count, k, False
        nulls[k] = state
        count += state
        if not state:
            at = starts[k] + INDICATOR_BYTES
            if width > BETWEEN and data[at + BETWEEN] != COLON:
                return count, k, True
            high = _copy_bytes(data, at, width, strings, to)
            if high & HIGH_BITS:
                return count, k, True
            if width > BETWEEN:
                strings[to + BETWEEN] = BLANK
            to += width
        offsets[k + 1] = to
    return count, -1, False
