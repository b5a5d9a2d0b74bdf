"""Names of elements and attributes as numbers: each is checked once, then known by its first and last eight bytes."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets, Words
from trailgate.columnar.kernels.compiled import inner
from trailgate.columnar.kernels.words import load8
from trailgate.messages.xml.kernels.layout import (
    ATTRIBUTE,
    BOUND,
    ELEMENT,
    INFO,
    LOCAL,
    NAMES,
    POOL,
    POOLED,
    PREFIX,
    SEEN,
    SIZE,
    XMLNS,
)

NO_NAME: Final = -1
NO_ROOM: Final = -2
EVERY: Final = np.uint64(0xFFFFFFFFFFFFFFFF)


@inner
def find_name(
    text: Octets, at: int, size: int, table: Offsets, keys: Words, info: Longs, pool: Octets
) -> int:
    """Return the number of a name of one byte or more, or -1 - its free place in the table."""
    first, last = load8(text, at), np.uint64(0)
    if size < 8:
        first &= EVERY >> np.uint64(64 - 8 * size)
    else:
        last = load8(text, at + size - 8)
    mixed = first ^ (last * np.uint64(0x9E3779B97F4A7C15)) ^ np.uint64(size)
    place = np.int64((mixed * np.uint64(0xD6E8FEB86659FD93)) >> np.uint64(40)) & (len(table) - 1)
    while True:
        number = np.int64(table[place]) - 1
        if number < 0:
            return -1 - place
        if (
            keys[2 * number] == first
            and keys[2 * number + 1] == last
            and info[number * INFO + SIZE] == size
        ):
            alike = True
            pooled = info[number * INFO + POOLED]
            for byte in range(8, size - 8):
                alike &= text[at + byte] == pool[pooled + byte]
            if alike:
                return number
        place = (place + 1) & (len(table) - 1)


@inner
def insert_name(
    text: Octets,
    at: int,
    size: int,
    place: int,
    table: Offsets,
    keys: Words,
    info: Longs,
    pool: Octets,
    used: Longs,
) -> int:
    """Add a name at its free place of the table and return its number, or ``NO_ROOM``."""
    number, pooled = used[NAMES], used[POOL]
    if (number + 1) * INFO > len(info) or pooled + size > len(pool):
        return NO_ROOM
    first, last = load8(text, at), np.uint64(0)
    if size < 8:
        first &= EVERY >> np.uint64(64 - 8 * size)
    else:
        last = load8(text, at + size - 8)
    keys[2 * number], keys[2 * number + 1] = first, last
    for byte in range(size):
        pool[pooled + byte] = text[at + byte]
    row = number * INFO
    info[row + SIZE], info[row + POOLED] = size, pooled
    info[row + PREFIX], info[row + LOCAL] = -1, -1
    info[row + ELEMENT], info[row + ATTRIBUTE] = 0, 0
    info[row + SEEN], info[row + BOUND] = -1, 0
    table[place] = number + 1
    used[NAMES], used[POOL] = number + 1, pooled + size
    return number


@inner
def add_name(
    text: Octets,
    at: int,
    size: int,
    place: int,
    table: Offsets,
    keys: Words,
    info: Longs,
    pool: Octets,
    used: Longs,
) -> int:
    """Check a name that is new, add it and its parts; return its number, ``NO_NAME`` or ``NO_ROOM``."""
    colon = checked_name(text, at, at + size)
    if colon < 0:
        return NO_NAME
    number = insert_name(text, at, size, place, table, keys, info, pool, used)
    if number < 0 or colon == 0:
        return number
    prefix = find_name(text, at, colon, table, keys, info, pool)
    if prefix < 0:
        prefix = insert_name(text, at, colon, -1 - prefix, table, keys, info, pool, used)
    start, rest = at + colon + 1, size - colon - 1
    local = find_name(text, start, rest, table, keys, info, pool)
    if local < 0:
        local = insert_name(text, start, rest, -1 - local, table, keys, info, pool, used)
    if prefix < 0 or local < 0:
        return NO_ROOM
    info[number * INFO + PREFIX], info[number * INFO + LOCAL] = prefix, local
    info[number * INFO + ELEMENT] = info[local * INFO + ELEMENT]
    if prefix != XMLNS:
        info[number * INFO + ATTRIBUTE] = info[local * INFO + ATTRIBUTE]
    return number


@inner
def checked_name(text: Octets, at: int, end: int) -> int:
    """Return the length of a name's prefix, 0 without one, or -1 for what is not a name with one colon at most."""
    start, colon = at, 0
    begins = True
    while at < end:
        point, size = code_point(text, at)
        if point == 0x3A:
            if begins or colon:
                return -1
            colon = at - start
            begins = True
        elif begins:
            if not starts_name(point):
                return -1
            begins = False
        elif not (starts_name(point) or continues_name(point)):
            return -1
        at += size
    return -1 if begins else colon


@inner
def code_point(text: Octets, at: int) -> tuple[int, int]:
    """Return a character of valid UTF-8 and how many bytes it has."""
    first = np.int64(text[at])
    if first < 0x80:
        return first, 1
    second = np.int64(text[at + 1]) & 63
    if first < 0xE0:
        return (first & 31) << 6 | second, 2
    third = np.int64(text[at + 2]) & 63
    if first < 0xF0:
        return (first & 15) << 12 | second << 6 | third, 3
    return (first & 7) << 18 | second << 12 | third << 6 | (np.int64(text[at + 3]) & 63), 4


@inner
def starts_name(point: int) -> bool:
    """Return whether a character other than a colon may begin a name, as XML 1.0 had it in its fourth edition or has it now."""
    if point < 0x80:
        return 97 <= point <= 122 or 65 <= point <= 90 or point == 95
    return (
        (0xC0 <= point <= 0x131 and point != 0xD7 and point != 0xF7)
        or 0x391 <= point <= 0x3A1
        or 0x410 <= point <= 0x44F
        or 0x4E00 <= point <= 0x9FA5
    )


@inner
def continues_name(point: int) -> bool:
    """Return whether a character that does not begin a name may be in one."""
    return 48 <= point <= 57 or point == 45 or point == 46 or point == 0xB7
