"""The loops over strings and keys: compare strings, group rows by equal keys without sorting, hash strings.

Hashes are the same on every machine and in every release of Python.
"""

from __future__ import annotations

from typing import Final

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.compiling import inner, kernel

FULL: Final = -1

PRIME = 2147483647  # 2^31 - 1, so that products with FACTOR stay within 64 bits
FACTOR = 16777619


@kernel()
def first_other(offsets: Offsets, data: Octets, rows: Longs) -> int:
    """Return the first row r of a string column whose text differs from the text of row ``rows[r]``, or -1."""
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
    """Mark the rows in which two string columns differ; a null differs from every value, but not from a null.

    The validity bits may be empty if all values are valid.
    """
    for row in range(len(differ)):
        null, other_null = is_null(valid, row), is_null(other_valid, row)
        if null or other_null:
            differ[row] = null != other_null
        else:
            differ[row] = not alike(offsets, data, row, other_offsets, other_data, row)


@inner
def is_null(valid: Octets, row: int) -> bool:
    """Return whether a row is null by Arrow's validity bits, which are empty if no row is."""
    return len(valid) > 0 and not (valid[row >> 3] >> (row & 7)) & 1


@inner
def alike(
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


@kernel(writes=("codes", "known", "sizes"))
def code_keys(keys: Longs, codes: Longs, known: Longs, sizes: Longs) -> int:
    """Write a code for each row's key: distinct keys are numbered in order of appearance.

    ``known[code]`` becomes the key with this code, and ``sizes[code]`` the number of its rows.
    Returns the number of distinct keys, or ``FULL`` if ``known`` has no room for them.
    """
    # Example: the keys 7 7 3 7 give codes = 0 0 1 0, known = 7 3 and sizes = 3 1. Most rows have the
    # key of the row before, and the loop over the known keys is short, because they are few.
    count = code = 0
    for row in range(len(keys)):
        if count == 0 or known[code] != keys[row]:
            code = 0
            while code < count and known[code] != keys[row]:
                code += 1
            if code == count:
                if count == len(known):
                    return FULL
                known[count], sizes[count] = keys[row], 0
                count += 1
        codes[row] = code
        sizes[code] += 1
    return count


@kernel(writes=("rows", "next_place"))
def order_rows(codes: Longs, next_place: Longs, rows: Longs) -> None:
    """Write the rows sorted by their codes. Rows with the same code keep their order.

    Before the call, ``next_place[code]`` is the index in ``rows`` at which the rows of this code
    begin; after it, the index at which they end.
    """
    for row in range(len(codes)):
        code = codes[row]
        rows[next_place[code]] = row
        next_place[code] += 1


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
