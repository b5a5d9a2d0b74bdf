"""Names of members as numbers: mostly the one that followed last time, else found by its hash."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.kernels.compiled import inner, kernel
from trailgate.columnar.kernels.words import load8
from trailgate.messages.json_text.kernels.layout import (
    FIRST,
    INFO,
    NAMES,
    NEXT,
    POOL,
    POOLED,
    ROOT,
    SIZE,
)

NO_ROOM: Final = -1
EVERY: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)


@inner
def is_name(text: Octets, at: int, number: int, info: Longs, pool: Octets) -> bool:
    """Return whether a name and its quote are at a place; text and pool have eight bytes more."""
    pooled, size = info[number * INFO + POOLED], info[number * INFO + SIZE] + 1
    done = 0
    while size - done >= 8:
        if load8(text, at + done) != load8(pool, pooled + done):
            return False
        done += 8
    if done < size:
        differ = load8(text, at + done) ^ load8(pool, pooled + done)
        return bool(differ & (EVERY >> np.uint64(64 - 8 * (size - done))) == 0)
    return True


@inner
def name_number(
    text: Octets, at: int, size: int, table: Offsets, info: Longs, pool: Octets, used: Longs
) -> int:
    """Return the number of a name, which is added where it is new; ``NO_ROOM`` where it does not fit."""
    place = hashed(text, at, size) & (len(table) - 1)
    while True:
        number = np.int64(table[place])
        if number == ROOT:
            break
        if info[number * INFO + SIZE] == size:
            alike, pooled = True, info[number * INFO + POOLED]
            for byte in range(size):
                alike &= text[at + byte] == pool[pooled + byte]
            if alike:
                return number
        place = (place + 1) & (len(table) - 1)
    number, pooled = used[NAMES], used[POOL]
    if 2 * number >= len(table) or (number + 1) * INFO > len(info) or pooled + size + 9 > len(pool):
        return NO_ROOM
    for byte in range(size):
        pool[pooled + byte] = text[at + byte]
    pool[pooled + size] = 0x22
    row = number * INFO
    info[row + SIZE], info[row + POOLED] = size, pooled
    info[row + FIRST], info[row + NEXT] = ROOT, ROOT
    table[place] = number
    used[NAMES], used[POOL] = number + 1, pooled + size + 1
    return number


@inner
def hashed(text: Octets, at: int, size: int) -> int:
    """Return a number of 40 bits for the bytes of a name."""
    mixed = np.uint64(size)
    for byte in range(size):
        mixed = (mixed ^ np.uint64(text[at + byte])) * FACTOR
        mixed ^= mixed >> np.uint64(29)
    return np.int64(mixed >> np.uint64(24))


@kernel(writes=("table",))
def fill_table(info: Longs, pool: Octets, names: int, table: Offsets) -> int:
    """Write the numbers of the names to an empty table; return how many there are."""
    for number in range(1, names):
        pooled, size = info[number * INFO + POOLED], info[number * INFO + SIZE]
        place = hashed(pool, pooled, size) & (len(table) - 1)
        while table[place] != ROOT:
            place = (place + 1) & (len(table) - 1)
        table[place] = number
    return names
