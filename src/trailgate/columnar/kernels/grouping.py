"""Rows that have the same key, found without sorting."""

from __future__ import annotations

from typing import Final

from trailgate.arrays import Longs
from trailgate.columnar.kernels.compiled import kernel

FULL: Final = -1


@kernel(writes=("codes", "known", "sizes"))
def code_keys(keys: Longs, codes: Longs, known: Longs, sizes: Longs) -> int:
    """Write a number for each different key, in order of occurrence, and count its rows.

    Returns how many there are, ``FULL`` for more than ``known`` has room for.
    """
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
    """Write the rows by their codes; ``next_place`` is where the rows of each code begin."""
    for row in range(len(codes)):
        code = codes[row]
        rows[next_place[code]] = row
        next_place[code] += 1
