"""The loops that find cells in the data areas of trail records, and split areas of two images.

A cell is a column index u16, a length u16, and a value of that length that begins with a null
indicator of two bytes (trail format §10.1). `count_cells` proves that the cells of an area are
within it. All other loops either get offsets that it has proven, or check them themselves.
"""

from __future__ import annotations

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.compiling import inner, kernel
from trailgate.trail.records.kernels import read_half
from trailgate.trail.values.codec import CELL_HEAD, INDICATOR_BYTES
from trailgate.trail.values.value_kernels import INVALID, counted_size, value_state

OVER, BAD_INDEX, NO_INDICATOR, TWICE = range(1, 5)  # problems of ``count_cells``
VARYING, UNKNOWN_WIDTH = -1, -2  # instead of the width of a column's values, for ``check_values``


@kernel(writes=("counts", "last"))
def count_cells(
    data: Octets, starts: Longs, ends: Longs, big: bool, counts: Longs, last: Longs
) -> tuple[int, int, int]:
    """Count the trail cells of each column in areas [start, end). Return a problem (0: none), its area and its offset.

    ``counts`` are zeros and ``last`` are -1 at the start, with one item per column.
    """
    # Example: 00 00 00 03 00 00 41 | 00 02 00 02 FF FF counts one cell of column 0 and one of column 2.
    # ``last`` has the last area in which a column was seen, so a second cell in one area is found
    # without clearing anything between areas.
    columns = len(counts)
    for r in range(len(starts)):
        offset, end = starts[r], ends[r]
        while offset < end:
            if offset < 0 or offset + CELL_HEAD > end or end > len(data):
                return OVER, r, offset
            column = read_half(data, offset, big)
            length = read_half(data, offset + 2, big)
            if offset + CELL_HEAD + length > end:
                return OVER, r, offset
            if column >= columns:
                return BAD_INDEX, r, offset
            if length < INDICATOR_BYTES:
                return NO_INDICATOR, r, offset
            if last[column] == r:
                return TWICE, r, offset
            last[column] = r
            counts[column] += 1
            offset += CELL_HEAD + length
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
    """Write the offset and length of each cell, by column, if all data areas have exactly these columns in this order.

    Returns False if an area differs or is damaged; ``count_cells`` then finds out which.
    """
    # Example: columns 0 and 2 in each of three areas: values 0 to 2 are those of column 0, 3 to 5 of column 2.
    count = len(starts)
    for r in range(count):
        offset, end = starts[r], ends[r]
        if offset < 0 or end > len(data):
            return False
        # A cell is its column and length in two bytes each, and then as many bytes.
        for k in range(len(columns)):
            if offset + CELL_HEAD > end or read_half(data, offset, big) != columns[k]:
                return False
            length = read_half(data, offset + 2, big)
            offset += CELL_HEAD
            if length < INDICATOR_BYTES or offset + length > end:
                return False
            places[k * count + r] = offset
            lengths[k * count + r] = length
            offset += length
        if offset != end:
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
    """Write the area, offset and length of each trail value, by column. Return the number of values.

    ``count_cells`` must have accepted the areas. ``next_cell`` is the index at which the values of
    each column begin; it is advanced to their end.
    """
    # Example: area 0 has the columns 0 and 2, area 1 has column 2. Values are ordered by columns,
    # so next_cell starts as 0 1 1, rows becomes 0 0 1, and next_cell ends as 1 1 3.
    total = 0
    for r in range(len(starts)):
        offset, end = starts[r], ends[r]
        while offset < end:
            column = read_half(data, offset, big)
            length = read_half(data, offset + 2, big)
            cell = next_cell[column]
            next_cell[column] = cell + 1
            rows[cell] = r
            places[cell] = offset + CELL_HEAD
            lengths[cell] = length
            total += 1
            offset += CELL_HEAD + length
    return total


@inner
def holds_cells(data: Octets, offset: int, end: int, big: bool, columns: int) -> bool:
    """Return whether at most ``columns`` cells with indexes below ``columns`` fill the data area [offset, end) exactly."""
    cells = 0
    while offset < end:
        if offset + CELL_HEAD + INDICATOR_BYTES > end or cells == columns:
            return False
        length = read_half(data, offset + 2, big)
        if read_half(data, offset, big) >= columns or length < INDICATOR_BYTES:
            return False
        offset += CELL_HEAD + length
        cells += 1
    return offset <= end


@kernel(writes=("good",))
def check_cells(
    data: Octets, starts: Longs, ends: Longs, big: bool, columns: int, good: Mask
) -> int:
    """Write a mask of the data areas that trail cells fill exactly (see ``holds_cells``). Return the number of other areas."""
    bad = 0
    for r in range(len(starts)):
        within = starts[r] >= ends[r] or (starts[r] >= 0 and ends[r] <= len(data))
        good[r] = within and holds_cells(data, starts[r], ends[r], big, columns)
        if not good[r]:
            bad += 1
    return bad


@kernel()
def count_columns(data: Octets, starts: Longs, ends: Longs, big: bool, most: int) -> int:
    """Count the columns in the cells of data areas: the highest column index plus one.

    An area counts only up to its first damage, or up to its first index of ``most`` or higher.
    """
    columns = 0
    for r in range(len(starts)):
        offset, end = starts[r], min(ends[r], len(data))
        cells = 0
        while offset >= 0 and offset + CELL_HEAD + INDICATOR_BYTES <= end and cells <= most:
            column = read_half(data, offset, big)
            if column >= most:
                break
            columns = max(columns, column + 1)
            offset += CELL_HEAD + read_half(data, offset + 2, big)
            cells += 1
    return columns


@inner
def find_two_images(
    data: Octets, start: int, end: int, big: bool, kind: int, columns: int
) -> tuple[int, int]:
    """Find the two images in a data area by trying to fill each with cells. Return the offset of each, or -1 and -1 if the area cannot be split.

    The area begins with a length field, which has the size of the first image. ``kind`` is the
    field's width: 2 or 4 bytes. For any other kind both widths are tried, first 2: a width fits if
    both images consist of complete cells of a table with ``columns`` columns.
    """
    # Example, big-endian: 00 05 | 00 00 00 01 41 | 00 00 00 01 42. With two bytes the first image ends at
    # 2 + 5 and both images are cells. With four bytes the length would be 0x00050000: beyond the end.
    for width in (2, 4):
        if start + width > end or (kind in (2, 4) and kind != width):
            continue
        split = start + width
        if width == 2:
            split += read_half(data, start, big)
        elif big:
            split += (read_half(data, start, big) << 16) | read_half(data, start + 2, big)
        else:
            split += (read_half(data, start + 2, big) << 16) | read_half(data, start, big)
        if split <= end and (
            kind == width
            or (
                holds_cells(data, start + width, split, big, columns)
                and holds_cells(data, split, end, big, columns)
            )
        ):
            return start + width, split
    return -1, -1


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
    """Split data areas of two images by trying to fill each with cells: write the width of the length field that begins each area, and the end of the first image.

    ``kinds`` is 0 for an area with one image; `find_two_images` describes the others. Returns the
    first area that cannot be split, or -1.
    """
    for r in range(len(starts)):
        widths[r] = 0
        borders[r] = ends[r]
        if kinds[r] == 0:
            continue
        start, end = starts[r], ends[r]
        if start < 0 or end > len(data):
            return r
        first, second = find_two_images(data, start, end, big, kinds[r], columns)
        if first < 0:
            return r
        widths[r] = first - start
        borders[r] = second
    return -1


@kernel(writes=("last",))
def check_values(
    data: Octets, starts: Longs, ends: Longs, big: bool, widths: Longs, last: Longs
) -> bool:
    """Return whether all data areas consist of cells, and each value has the width of its column, or is NULL.

    ``widths`` has one item per column: the number of bytes of its values, or ``VARYING`` or
    ``UNKNOWN_WIDTH``. ``last`` has as many items, all -1 at the start. Returns False at the first
    cell that is damaged, that repeats a column, or whose width is not known; ``count_cells`` and
    the loops of each type then find out which.
    """
    for r in range(len(starts)):
        offset, end = starts[r], ends[r]
        if offset < end and (offset < 0 or end > len(data)):
            return False
        if not cells_fit(data, offset, end, big, widths, 0, len(widths), last, r):
            return False
    return True


@inner
def cells_fit(
    data: Octets,
    offset: int,
    end: int,
    big: bool,
    widths: Longs,
    first: int,
    columns: int,
    last: Longs,
    area: int,
) -> bool:
    """Return whether cells fill the data area [offset, end), and each value has the width of its column, or is NULL.

    ``widths[first : first + columns]`` are the widths of the table's columns. ``last`` has the area
    in which each column was seen last, and ``area`` is the number of this one.
    """
    # Example: with the widths 2 and VARYING, 00 00 00 04 00 00 12 34 | 00 01 00 02 FF FF is good: the
    # number 0x1234 and NULL.
    while offset < end:
        at = offset + CELL_HEAD
        if at + INDICATOR_BYTES > end:
            return False
        column, length = read_half(data, offset, big), read_half(data, offset + 2, big)
        offset = at + length
        if column >= columns or last[column] == area or offset > end:
            return False
        last[column] = area
        width = widths[first + column]
        if width == VARYING:
            if counted_size(data, at, length, big) == INVALID:
                return False
        elif width == UNKNOWN_WIDTH or value_state(data, at, length, width) < 0:
            return False
    return True
