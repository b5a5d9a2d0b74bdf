"""Texts of columns compared with one another."""

from __future__ import annotations

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.kernels.compiled import inner, kernel


@kernel()
def first_other(offsets: Offsets, data: Octets, rows: Longs) -> int:
    """Return the first row whose text is not that of the row it is compared with, or -1."""
    for row in range(len(rows)):
        other = rows[row]
        if other != row and not alike(offsets, data, row, offsets, data, other):
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
    """Mark the rows where two columns differ, also in which are null; bits of validity may be left out where all are valid."""
    for row in range(len(differ)):
        null, other_null = is_null(valid, row), is_null(other_valid, row)
        if null or other_null:
            differ[row] = null != other_null
        else:
            differ[row] = not alike(offsets, data, row, other_offsets, other_data, row)


@inner
def is_null(valid: Octets, row: int) -> bool:
    """Return whether a row is null."""
    return len(valid) > 0 and not (valid[row >> 3] >> (row & 7)) & 1


@inner
def alike(
    offsets: Offsets, data: Octets, row: int, other_offsets: Offsets, other_data: Octets, other: int
) -> bool:
    """Return whether the texts of two rows are the same."""
    start, size = offsets[row], offsets[row + 1] - offsets[row]
    other_start = other_offsets[other]
    if other_offsets[other + 1] - other_start != size:
        return False
    for byte in range(size):
        if data[start + byte] != other_data[other_start + byte]:
            return False
    return True
