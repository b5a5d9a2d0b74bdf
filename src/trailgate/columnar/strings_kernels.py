"""Loops over string columns: measure, compare, hash and join their values, row by row.

Hashes are the same on every machine and in every release of Python.
"""

from __future__ import annotations

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.gather_kernels import MAX_INT32, OUTSIDE
from trailgate.columnar.word_kernels import SPARE, copy_value, load8

PRIME = 2147483647  # 2^31 - 1, so that products with FACTOR stay within 64 bits
# @RANGE assigns rows to ranges by this hash, so other numbers would move rows to other ranges.
FACTOR = 16777619


@kernel()
def longest_value(offsets: Offsets) -> int:
    """Return the size of the longest value of a string column by its Arrow offsets, or 0 if there are none."""
    most = np.int32(0)
    for row in range(len(offsets) - 1):
        most = max(most, offsets[row + 1] - offsets[row])
    return int(most)


@kernel()
def first_row_without_mark(data: Octets, offsets: Offsets, width: int, mark: int) -> int:
    """Return the first row of a string column in which the first byte ``mark`` is not at offset ``width``, or -1."""
    for row in range(len(offsets) - 1):
        # Compiled code checks no bounds, so wrong offsets must not be used to read ``data``.
        start, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if start < 0 or end > len(data) or end - start <= width or data[start + width] != mark:
            return row
        earlier = 0
        for at in range(start, start + width):
            earlier += data[at] == mark
        if earlier:
            return row
    return -1


@kernel(writes=("placed", "out"))
def join_pairs(
    data: Octets,
    offsets: Offsets,
    others: Octets,
    other_offsets: Offsets,
    between: int,
    placed: Offsets,
    out: Octets,
) -> int:
    """Join the values of two string columns row by row, with a byte between. Return the total size, or ``OUTSIDE``.

    ``placed`` becomes the Arrow offsets, with one item more than rows. ``out`` has ``SPARE`` more
    bytes than the result.
    """
    # Example: (a, b) and (1, 2) with ":" become a:1 b:2 with the offsets 0, 3, 6.
    to = np.int64(0)
    placed[0] = 0
    for row in range(len(placed) - 1):
        start, other = np.int64(offsets[row]), np.int64(other_offsets[row])
        size, more = offsets[row + 1] - start, other_offsets[row + 1] - other
        if start < 0 or size < 0 or start + size > len(data):
            return OUTSIDE
        if other < 0 or more < 0 or other + more > len(others):
            return OUTSIDE
        last = to + size + 1 + more
        if last > min(len(out) - SPARE, MAX_INT32):
            return OUTSIDE
        # A copy may write up to SPARE bytes after its value. The next copy overwrites these bytes.
        copy_value(data, start, size, out, to)
        out[to + size] = between
        copy_value(others, other, more, out, to + size + 1)
        to = last
        placed[row + 1] = to
    return int(to)


@kernel()
def first_differing_row(offsets: Offsets, data: Octets, rows: Longs) -> int:
    """Return the first row r of a string column whose text differs from the text of row ``rows[r]``, or -1."""
    for row in range(len(rows)):
        other = rows[row]
        if other != row and not strings_equal(offsets, data, row, offsets, data, other):
            return row
    return -1


@kernel(writes=("differ",))
def mark_differing(
    offsets: Offsets,
    data: Octets,
    valid: Octets,
    other_offsets: Offsets,
    other_data: Octets,
    other_valid: Octets,
    differ: Mask,
) -> None:
    """Mark the rows in which two string columns differ; a null differs from every value, but not from a null.

    The validity bits may be empty if all values are valid.
    """
    for row in range(len(differ)):
        null, other_null = is_null(valid, row), is_null(other_valid, row)
        if null or other_null:
            differ[row] = null != other_null
        else:
            differ[row] = not strings_equal(offsets, data, row, other_offsets, other_data, row)


@inner
def is_null(valid: Octets, row: int) -> bool:
    """Return whether a row of a column is null by Arrow's validity bits, which are empty if no row is."""
    # Arrow stores the bit of row 0 as the lowest bit of byte 0: row 10 is bit 2 of byte 1.
    return len(valid) > 0 and not (valid[row >> 3] >> (row & 7)) & 1


@inner
def strings_equal(
    offsets: Offsets, data: Octets, row: int, other_offsets: Offsets, other_data: Octets, other: int
) -> bool:
    """Return whether the strings of two rows are equal."""
    start, size = offsets[row], offsets[row + 1] - offsets[row]
    other_start = other_offsets[other]
    if other_offsets[other + 1] - other_start != size:
        return False
    for byte in range(size):
        if data[start + byte] != other_data[other_start + byte]:
            return False
    return True


@kernel(writes=("found",))
def hash_strings(data: Octets, offsets: Offsets, found: Longs) -> int:
    """Write a hash from 0 to ``PRIME`` - 1 for each string. Return the number of strings."""
    count = len(found)
    for row in range(count):
        number = 1
        for at in range(offsets[row], offsets[row + 1]):
            number = (number * FACTOR + int(data[at]) + 1) % PRIME
        found[row] = number
    return count


@inner
def spans_equal(data: Octets, one: int, other: int, size: int) -> bool:
    """Return whether two spans of the data have the same bytes."""
    if size < 8:
        for at in range(size):
            if data[one + at] != data[other + at]:
                return False
        return True
    # Example: 21 bytes are compared as bytes 0 to 7, 8 to 15, and then as the last eight, 13 to 20.
    for at in range(0, size - 8, 8):
        if load8(data, one + at) != load8(data, other + at):
            return False
    last = size - 8
    return bool(load8(data, one + last) == load8(data, other + last))
