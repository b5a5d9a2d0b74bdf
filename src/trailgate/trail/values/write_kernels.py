"""The loops that measure and write trail cells: each call handles one column of many records.

Record i takes the value of row ``rows[i]``. Its cell is written at ``places[i]``, which becomes the
end of the cell. ``states`` has one item per row, or none if every row has a value.

The loops do not check offsets: they write exactly the sizes that ``add_sizes`` counted from the
same arrays. The body and the buffer of values have ``SPARE`` extra bytes at their ends. A ``wide``
copy moves blocks of 32 bytes. It takes half the time, but overwrites bytes after the cell, so it is
used only if these bytes belong to the same record and are written later.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets, Words
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.word_kernels import copy_bytes, copy_wide, store2, store4, store8
from trailgate.trail.values.codec import NULL

PRESENT, NULL_VALUE, MISSING = 0, 1, 2  # states: a value, NULL, not logged (takes no bytes)
BETWEEN: Final = 10  # offset of the character between date and time: a blank in ISO, ":" in a trail
COLON, BLANK = ord(":"), ord(" ")
SECONDS: Final = 19  # characters of a date time without a fraction


@kernel(writes=("sizes",))
def add_sizes(
    rows: Longs, states: Octets, offsets: Offsets, base: int, counted: bool, sizes: Longs
) -> tuple[int, int]:
    """Add the size of each record's cell of a column to ``sizes``: ``base``, plus the value's size if ``counted``.

    A missing value has no cell. Returns the size of the longest value and its record, or 0 and 0 if
    all are empty. Without ``offsets``, values have no bytes.
    """
    # Without ``states`` no value is NULL or missing. A NULL takes ``base`` bytes alone.
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
    """Write trail cells that are as long as their values. If ``counted``, a value has its length before it."""
    # Example: "AB" in column 2, big-endian, counted: 00 02 | 00 06 | 00 00 | 00 02 | 41 42. The four u16
    # (column index, cell length, null indicator, value length) are one store of eight bytes.
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


class CellFilling(NamedTuple):
    """The bytes that fill a cell of fixed width, without its head and null indicator.

    A value that is shorter than ``of_value`` is completed with the bytes at the end of
    ``of_value``. NULL is written as ``of_null``. In cells with a value, the byte at offset
    ``colon`` becomes a colon if the cells are wide enough.
    """

    of_value: Octets
    of_null: Octets
    colon: int


@kernel(writes=("body", "places"))
def write_filled(
    body: Octets,
    places: Longs,
    rows: Longs,
    states: Octets,
    offsets: Offsets,
    data: Octets,
    head: Octets,
    filling: CellFilling,
    wide: bool,
) -> None:
    """Write the cells of a fixed-width column: ``head``, the null indicator, and the value.

    ``head`` are four bytes, the column index and the length, which are the same in each cell. A
    shorter value is padded with ``filling``.
    """
    # Example: head 00 02 00 06, filling of four blanks, value "AB": 00 02 00 06 | 00 00 | 41 42 20 20.
    width, begins, colon = len(filling.of_value), four_bytes(head), filling.colon
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
                body[at + byte] = filling.of_null[byte]
        else:
            start = np.int64(offsets[row])
            size = np.int64(offsets[row + 1]) - start
            if wide:
                copy_wide(body, at, data, start, size)
            else:
                copy_bytes(body, at, data, start, size)
            for byte in range(size, width):
                body[at + byte] = filling.of_value[byte]
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
    """Write cells with the last ``width`` bytes of a big-endian word. The cell of a NULL has a word too."""
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
            # The most significant byte first: with width 2, 0x1234 is written as 12 34.
            for byte in range(width):
                body[at + byte] = (word >> np.uint64(8 * (width - 1 - byte))) & np.uint64(0xFF)
        places[record] = at + width


@kernel()
def find_bad_times(
    rows: Longs, states: Octets, offsets: Offsets, data: Octets, width: int
) -> tuple[int, int]:
    """Find the first date time to write that has a wrong length, and the first without a blank after the date.

    Returns the indexes of their records, -1 for none. Stops at a wrong length. In a column with a
    fraction, a value may also end after the seconds, or have fewer digits of the fraction.
    """
    unlike, unparted = -1, -1
    for record in range(len(rows)):
        row = rows[record]
        if len(states) and states[row] != PRESENT:
            continue
        start = np.int64(offsets[row])
        size = np.int64(offsets[row + 1]) - start
        if size != width:
            # Either YYYY-MM-DD HH:MI:SS, or the same with a point and at least one digit.
            short = size == SECONDS or SECONDS + 1 < size < width
            if not short or width <= SECONDS + 1:
                unlike = record
                break
        if unparted < 0 and width > BETWEEN and data[start + BETWEEN] != BLANK:
            unparted = record
    return unlike, unparted


@inner
def four_bytes(head: Octets) -> np.uint64:
    """Return the four bytes of a cell's head as a little-endian word."""
    word = np.uint64(0)
    for byte in range(4):
        word |= np.uint64(head[byte]) << np.uint64(8 * byte)
    return word


@inner
def ordered_half(number: int, big: bool) -> int:
    """Return the u16 that a little-endian store writes in the trail's byte order: if ``big``, 0x0102 becomes 0x0201."""
    return (number & 0xFF) << 8 | number >> 8 if big else number


@inner
def ordered_word(word: np.uint64, big: bool) -> np.uint64:
    """Return the u64 that a little-endian store writes in the trail's byte order: reversed if ``big``."""
    if not big:
        return word
    low = np.uint64(0x00FF00FF00FF00FF)
    pairs = np.uint64(0x0000FFFF0000FFFF)
    # Swap neighbouring bytes, then neighbouring pairs, then halves: 01 02 03 04 05 06 07 08 becomes
    # 02 01 04 03 06 05 08 07, then 04 03 02 01 08 07 06 05, then 08 07 ... 01.
    word = (word >> np.uint64(8)) & low | (word & low) << np.uint64(8)
    word = (word >> np.uint64(16)) & pairs | (word & pairs) << np.uint64(16)
    return word >> np.uint64(32) | word << np.uint64(32)
