"""Texts to numbers that are the same on every machine and in every run."""

from __future__ import annotations

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.kernels.compiled import kernel

PRIME = 2147483647  # all products below stay within 64 bits
FACTOR = 16777619


@kernel(writes=("found",))
def hash_texts(data: Octets, offsets: Offsets, found: Longs) -> int:
    """Write a number from 0 to ``PRIME`` - 1 for each text; return how many there are."""
    count = len(found)
    for row in range(count):
        number = 1
        for place in range(offsets[row], offsets[row + 1]):
            number = (number * FACTOR + int(data[place]) + 1) % PRIME
        found[row] = number
    return count
