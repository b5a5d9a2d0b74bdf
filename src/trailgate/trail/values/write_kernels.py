"""Compiled loops that measure and write cells: one column of many records a call.

Record i takes the value of row ``rows[i]``, and its cell is written at ``places[i]``, which becomes the end of the cell.
``states`` has an item a row, or none where every row has a value. The loops do not check places: they write the sizes that
``add_sizes`` counted from the same arrays, and the body has room for these and ``SPARE`` bytes. So have the bytes of values.
``wide`` copies write over bytes after a cell, which takes half the time: only where more of the record follows than they write.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets, Words
from trailgate.columnar.kernels.compiled import inner, kernel
from trailgate.columnar.kernels.words import load8, move32, store2, store4, store8
from trailgate.trail.values.codec import NULL

PRESENT, NULL_VALUE, MISSING = 0, 1, 2  # states: a value, NULL, not logged (takes no bytes)
BETWEEN: Final = 10  # offset of what separates date and time: a blank in ISO, ":" in a trail
COLON, BLANK = ord(":"), ord(" ")
SECONDS: Final = 19  # characters of a date time without a fraction


@kernel(writes=("sizes",))
def add_sizes(
    rows: Longs, states: Octets, offsets: Offsets, base: int, counted: bool, sizes: Longs
) -> tuple[int, int]:
    """Add the bytes of each cell: ``base``, and those of its value if ``counted``.

    Returns the bytes of the longest value and its record; 0 and record 0 where no value has any. Without
    ``offsets`` values have no bytes.
    """
    longest, at = np.int64(0), 0
    for record in range(len(rows)):
        row = rows[record]
        state = states[row] if len(states) else PRESENT
        if state == MISSING:
            continue
        size = np.int64(0)
        if state == PRESENT and len(offsets):
            size = np.int64(offsets[row + 1]) - np.int64(offsets[row])
            if size > longest:
                longest, at = size, record
        sizes[record] += base + size if counted else base
    return int(longest), at


@kernel(writes=("body", "places"))
def write_varying(
    body: Octets,
    places: Longs,
    rows: Longs,
    states: Octets,
    offsets: Offsets,
    data: Octets,
    column: int,
    counted: bool,
    big: bool,
    wide: bool,
) -> None:
    """Write cells as long as their values; a ``counted`` value has its length before it.

    The four words are column index, length of the cell, null indicator and length of the value.
    """
    front = 4 if counted else 2
    for record in range(len(rows)):
        row = rows[record]
        state = states[row] if len(states) else PRESENT
        if state == MISSING:
            continue
        start = np.int64(offsets[row])
        size = np.int64(offsets[row + 1]) - start
        mark = 0
        if state == NULL_VALUE:
            size, mark = np.int64(0), NULL
        at = places[record]
        head = ordered_half(column, big) | ordered_half(front + size, big) << 16 | mark << 32
        if counted:
            store8(body, at, np.uint64(head) | np.uint64(ordered_half(size, big)) << np.uint64(48))
        else:
            store4(body, at, np.uint64(head))
            store2(body, at + 4, np.uint64(mark))
        at += 4 + front
        if wide:
            copy_wide(body, at, data, start, size)
        else:
            copy_bytes(body, at, data, start, size)
        places[record] = at + size


@kernel(writes=("body", "places"))
def write_filled(
    body: Octets,
    places: Longs,
    rows: Longs,
    states: Octets,
    offsets: Offsets,
    data: Octets,
    head: Octets,
    filling: Octets,
    null_filling: Octets,
    colon: int,
    wide: bool,
) -> None:
    """Write cells of one width after a ``head`` of four bytes; what a value lacks is taken from ``filling``.

    NULL is ``null_filling``. A colon is written at that offset of values, where they are as wide.
    """
    width, begins = len(filling), four_bytes(head)
    for record in range(len(rows)):
        row = rows[record]
        state = states[row] if len(states) else PRESENT
        if state == MISSING:
            continue
        at = places[record]
        store4(body, at, begins)
        store2(body, at + 4, np.uint64(NULL if state == NULL_VALUE else 0))
        at += 6
        if state == NULL_VALUE:
            for byte in range(width):
                body[at + byte] = null_filling[byte]
        else:
            start = np.int64(offsets[row])
            size = np.int64(offsets[row + 1]) - start
            if wide:
                copy_wide(body, at, data, start, size)
            else:
                copy_bytes(body, at, data, start, size)
            for byte in range(size, width):
                body[at + byte] = filling[byte]
            if colon < width:
                body[at + colon] = COLON
        places[record] = at + width


@kernel(writes=("body", "places"))
def write_words(
    body: Octets,
    places: Longs,
    rows: Longs,
    states: Octets,
    words: Words,
    head: Octets,
    width: int,
) -> None:
    """Write cells that hold the last ``width`` bytes of a word, big-endian; NULL holds its word too."""
    begins = four_bytes(head)
    for record in range(len(rows)):
        row = rows[record]
        state = states[row] if len(states) else PRESENT
        if state == MISSING:
            continue
        at = places[record]
        store4(body, at, begins)
        store2(body, at + 4, np.uint64(NULL if state == NULL_VALUE else 0))
        at += 6
        word = words[row]
        if width == 8:
            store8(body, at, ordered_word(word, True))
        else:
            for byte in range(width):
                body[at + byte] = (word >> np.uint64(8 * (width - 1 - byte))) & np.uint64(0xFF)
        places[record] = at + width


@kernel()
def find_bad_times(
    rows: Longs, states: Octets, offsets: Offsets, data: Octets, width: int
) -> tuple[int, int]:
    """Return the first record whose date time has another length, and the first without a blank; -1 for none.

    A column with a fraction takes shorter ones too: to the second, or with fewer digits.
    """
    unlike, unparted = -1, -1
    for record in range(len(rows)):
        row = rows[record]
        if len(states) and states[row] != PRESENT:
            continue
        start = np.int64(offsets[row])
        size = np.int64(offsets[row + 1]) - start
        if size != width:
            short = size == SECONDS or SECONDS + 1 < size < width
            if not short or width <= SECONDS + 1:
                unlike = record
                break
        if unparted < 0 and width > BETWEEN and data[start + BETWEEN] != BLANK:
            unparted = record
    return unlike, unparted


@inner
def copy_wide(body: Octets, at: int, data: Octets, start: int, size: int) -> None:
    """Copy bytes, and up to ``SPARE`` more, which both arrays have; what is written after these bytes comes later."""
    move32(body, at, data, start)
    for done in range(32, size, 32):
        move32(body, at + done, data, start + done)


@inner
def copy_bytes(body: Octets, at: int, data: Octets, start: int, size: int) -> None:
    """Copy bytes in words of eight; the last word keeps what the body has after them.

    Both arrays have eight bytes more after these. Byte by byte, short values take twice as long.
    """
    whole = size & ~7
    for done in range(0, whole, 8):
        store8(body, at + done, load8(data, start + done))
    mask = (np.uint64(1) << np.uint64((size & 7) << 3)) - np.uint64(1)
    at += whole
    store8(body, at, load8(data, start + whole) & mask | load8(body, at) & ~mask)


@inner
def four_bytes(head: Octets) -> np.uint64:
    """Return four bytes as a little-endian word."""
    word = np.uint64(0)
    for byte in range(4):
        word |= np.uint64(head[byte]) << np.uint64(8 * byte)
    return word


@inner
def ordered_half(number: int, big: bool) -> int:
    """Return a number of 16 bits as two bytes of a little-endian word."""
    return (number & 0xFF) << 8 | number >> 8 if big else number


@inner
def ordered_word(word: np.uint64, big: bool) -> np.uint64:
    """Return a number of 64 bits as eight bytes of a little-endian word."""
    if not big:
        return word
    low = np.uint64(0x00FF00FF00FF00FF)
    pairs = np.uint64(0x0000FFFF0000FFFF)
    word = (word >> np.uint64(8)) & low | (word & low) << np.uint64(8)
    word = (word >> np.uint64(16)) & pairs | (word & pairs) << np.uint64(16)
    return word >> np.uint64(32) | word << np.uint64(32)
