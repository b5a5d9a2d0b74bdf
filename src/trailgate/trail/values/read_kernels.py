"""Loops over the cells of data areas and over the values of a column: where they are, whether they fit, fixed widths decoded.

A cell is a column index u16, a length u16 and a value of that length, which begins with a null indicator of two bytes
(trail format §10.1). ``count_cells`` proves that the cells of an area are within it; everything else gets places that
it has proven, or checks them itself.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.kernels.compiled import inner, kernel
from trailgate.columnar.kernels.words import load8, store8
from trailgate.trail.values.codec import CELL_HEAD, INDICATOR_BYTES, VARIABLE_HEAD
from trailgate.trail.values.write_kernels import BETWEEN, BLANK, COLON

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


@kernel(writes=("nulls",))
def check_fixed(
    data: Octets, starts: Longs, lengths: Longs, width: int, nulls: Mask
) -> tuple[int, int]:
    """Write which values of a fixed width are NULL; return how many are, and the first that does not fit, or -1.

    A value is 00 00 and its bytes; NULL is FF FF, alone or with as many bytes.
    """
    count = 0
    for k in range(len(starts)):
        at = starts[k]
        whole = lengths[k] == INDICATOR_BYTES + width
        if at < 0 or lengths[k] < INDICATOR_BYTES or at + lengths[k] > len(data):
            return count, k
        null = data[at] == 0xFF and data[at + 1] == 0xFF
        if null:
            if not whole and lengths[k] != INDICATOR_BYTES:
                return count, k
            count += 1
        elif not whole or data[at] != 0 or data[at + 1] != 0:
            return count, k
        nulls[k] = null
    return count, -1


@kernel(writes=("nulls",))
def check_variable(
    data: Octets, starts: Longs, lengths: Longs, big: bool, nulls: Mask
) -> tuple[int, int]:
    """Write which values of varying length are NULL; return how many are, and the first that does not fit, or -1.

    A value is 00 00, its length u16 and its bytes; NULL is FF FF, alone or with a length of 0.
    """
    count = 0
    for k in range(len(starts)):
        at = starts[k]
        if at < 0 or lengths[k] < INDICATOR_BYTES or at + lengths[k] > len(data):
            return count, k
        counted = lengths[k] >= VARIABLE_HEAD
        size = _half(data, at + 2, big) if counted else 0
        null = data[at] == 0xFF and data[at + 1] == 0xFF
        if null:
            if size or (lengths[k] != INDICATOR_BYTES and lengths[k] != VARIABLE_HEAD):
                return count, k
            count += 1
        elif (
            not counted or data[at] != 0 or data[at + 1] != 0 or size != lengths[k] - VARIABLE_HEAD
        ):
            return count, k
        nulls[k] = null
    return count, -1


@kernel(writes=("values",))
def read_integers(
    data: Octets, starts: Longs, nulls: Mask, width: int, signed: bool, values: Longs
) -> int:
    """Write the big-endian integers of a column that ``check_fixed`` found sound, 0 for NULL; return how many there are."""
    spare = np.int64(64 - 8 * width)
    for k in range(len(starts)):
        value = np.int64(0)
        if not nulls[k]:
            at = starts[k] + INDICATOR_BYTES
            for byte in range(width):
                value = (value << 8) | np.int64(data[at + byte])
            if signed:
                value = (value << spare) >> spare
        values[k] = value
    return len(starts)


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


@kernel(writes=("texts",))
def read_datetimes(data: Octets, starts: Longs, nulls: Mask, width: int, texts: Octets) -> int:
    """Write date times as ISO texts, NULL left out; return the first that is not one, or -1.

    The column is one that ``check_fixed`` found sound; ``texts`` has ``width`` bytes for each value that is not NULL,
    and ``SPARE`` more.
    """
    to = 0
    for k in range(len(starts)):
        if nulls[k]:
            continue
        at = starts[k] + INDICATOR_BYTES
        if width > BETWEEN and data[at + BETWEEN] != COLON:
            return k
        high = _copy_bytes(data, at, width, texts, to)
        if high & HIGH_BITS:
            return k
        if width > BETWEEN:
            texts[to + BETWEEN] = BLANK
        to += width
    return -1
