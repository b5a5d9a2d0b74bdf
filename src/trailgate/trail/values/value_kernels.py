"""The loops that decode the values of a column of a trail, cell by cell (trail format §10.2).

A value begins with a null indicator of two bytes. It has a fixed width, or a length u16 before its
bytes. The loops get the offset and length of each cell, which ``cell_kernels`` has found, and check
that the value fits them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.gather_kernels import MAX_INT32, TOO_MANY
from trailgate.columnar.word_kernels import load8, store8
from trailgate.trail.records.kernels import read_half
from trailgate.trail.values.codec import INDICATOR_BYTES, VARIABLE_HEAD
from trailgate.trail.values.write_kernels import BETWEEN, BLANK, COLON

U64 = np.uint64
HIGH_BITS: Final = np.uint64(0x8080808080808080)
NO_VALUE, INVALID = -1, -2  # instead of the size of a value


@inner
def value_state(data: Octets, at: int, length: int, width: int) -> int:
    """Return 0 for a value of a fixed width, 1 for NULL, and -1 if it is neither.

    A value is 00 00 and ``width`` bytes. NULL is FF FF, alone or followed by ``width`` bytes.
    """
    # Example: of width 2, 00 00 12 34 is a value, FF FF and FF FF 00 00 are NULL, and 00 00 12
    # is neither.
    has_width = length == INDICATOR_BYTES + width
    if at < 0 or length < INDICATOR_BYTES or at + length > len(data):
        return -1
    if data[at] == 0 and data[at + 1] == 0:
        return 0 if has_width else -1
    if data[at] != 0xFF or data[at + 1] != 0xFF:
        return -1
    return 1 if has_width or length == INDICATOR_BYTES else -1


@kernel(writes=("nulls",))
def check_fixed(
    data: Octets, starts: Longs, lengths: Longs, width: int, nulls: Mask
) -> tuple[int, int]:
    """Write a mask of the NULLs in a fixed-width column. Return their number and the first invalid value, or -1."""
    count = 0
    for k in range(len(starts)):
        state = value_state(data, starts[k], lengths[k], width)
        if state < 0:
            return count, k
        nulls[k] = state
        count += state
    return count, -1


@inner
def counted_size(data: Octets, at: int, length: int, big: bool) -> int:
    """Return the size of a value of varying length, ``NO_VALUE`` for NULL, or ``INVALID``.

    A value is 00 00, its size u16 and its bytes. NULL is FF FF, alone or with a size of 0.
    """
    if at < 0 or length < INDICATOR_BYTES or at + length > len(data):
        return INVALID
    # Example: 00 00 00 02 41 42 has the size 2, FF FF and FF FF 00 00 are NULL, and
    # 00 00 00 03 41 42 is invalid, because only two bytes follow the size.
    counted = length >= VARIABLE_HEAD
    size = read_half(data, at + 2, big) if counted else np.int64(0)
    if data[at] == 0xFF and data[at + 1] == 0xFF:
        return INVALID if size or length not in (INDICATOR_BYTES, VARIABLE_HEAD) else NO_VALUE
    is_value = counted and data[at] == 0 and data[at + 1] == 0 and size == length - VARIABLE_HEAD
    return size if is_value else INVALID


@kernel(writes=("nulls", "offsets"))
def check_variable(
    data: Octets, starts: Longs, lengths: Longs, big: bool, nulls: Mask, offsets: Offsets
) -> tuple[int, int, int]:
    """Write a mask of the NULLs among trail values of varying length, and the Arrow offsets of the values.

    Returns the number of NULLs, the first invalid value or -1, and the size of all values, which is
    ``TOO_MANY`` if it exceeds int32.
    """
    # Example: 00 00 00 02 41 42 | FF FF are "AB" and NULL: offsets 0, 2, 2.
    count = 0
    total = np.int64(0)
    offsets[0] = 0
    for k in range(len(starts)):
        size = counted_size(data, starts[k], lengths[k], big)
        if size == INVALID:
            return count, k, total
        nulls[k] = size == NO_VALUE
        if size == NO_VALUE:
            count += 1
        else:
            total += size
        if total > MAX_INT32:
            return count, -1, TOO_MANY
        offsets[k + 1] = total
    return count, -1, total


@inner
def _big_word(data: Octets, at: int) -> np.uint64:
    """Return the eight bytes at an offset as a big-endian number, as trail integers are stored."""
    word = load8(data, at)
    # Swap neighbouring bytes, then neighbouring pairs, then halves: 01 02 03 04 05 06 07 08 becomes
    # 02 01 04 03 06 05 08 07, then 04 03 02 01 08 07 06 05, then 08 ... 01.
    word = ((word >> U64(8)) & U64(0x00FF00FF00FF00FF)) | (
        (word & U64(0x00FF00FF00FF00FF)) << U64(8)
    )
    word = ((word >> U64(16)) & U64(0x0000FFFF0000FFFF)) | (
        (word & U64(0x0000FFFF0000FFFF)) << U64(16)
    )
    return U64((word >> U64(32)) | (word << U64(32)))


@kernel(writes=("nulls", "values"))
def read_integers(
    data: Octets,
    starts: Longs,
    lengths: Longs,
    width: int,
    signed: bool,
    nulls: Mask,
    values: Longs,
) -> tuple[int, int]:
    """Write the big-endian integers of a column, of at most eight bytes each, and 0 for NULL.

    Returns the number of NULLs, and the first invalid value or -1.
    """
    # Example: width 2. Load FF FE and six more bytes as a big-endian word FF FE .. .. and shift it right by
    # ``spare`` = 48 bits: -2 if signed, else 65534. Near the end of the data, load byte by byte.
    spare = np.int64(64 - 8 * width)
    count = 0
    for k in range(len(starts)):
        state = value_state(data, starts[k], lengths[k], width)
        if state < 0:
            return count, k
        nulls[k] = state
        count += state
        value = np.int64(0)
        if not state:
            at = starts[k] + INDICATOR_BYTES
            if at + 8 <= len(data):
                word = _big_word(data, at)
                value = np.int64(word) >> spare if signed else np.int64(word >> U64(spare))
            else:
                for byte in range(width):
                    value = (value << 8) | np.int64(data[at + byte])
                if signed:
                    value = (value << spare) >> spare
        values[k] = value
    return count, -1


@inner
def _copy_bytes(data: Octets, at: int, size: int, out: Octets, to: int) -> np.uint64:
    """Copy ``size`` bytes, eight at a time. Return the bitwise OR of all words.

    ``out`` has room for seven more bytes. A byte above 0x7F sets a high bit of the result.
    """
    every = np.uint64(0)
    if at + size + 8 > len(data):
        for byte in range(size):
            every |= np.uint64(data[at + byte])
            out[to + byte] = data[at + byte]
        return every
    for byte in range(0, size, 8):
        word = load8(data, at + byte)
        store8(out, to + byte, word)
        # Shift out the bytes beyond the value; the word is little-endian, so they are the high ones.
        over = max(0, byte + 8 - size)
        every |= word << np.uint64(8 * over)
    return every


@kernel(writes=("nulls", "offsets", "strings"))
def read_datetimes(
    data: Octets,
    starts: Longs,
    lengths: Longs,
    width: int,
    nulls: Mask,
    offsets: Offsets,
    strings: Octets,
) -> tuple[int, int, bool]:
    """Convert a trail's date times to ISO strings: write their bytes and Arrow offsets; NULL takes no bytes.

    ``strings`` has room for the bytes of all values and ``SPARE`` more. Returns the number of
    NULLs, the first invalid value or -1, and whether that value has the right width but is not a
    date time.
    """
    # Example: 00 00 "2024-02-03:10:20:30" becomes "2024-02-03 10:20:30": copy the bytes, then replace the
    # colon at offset 10. A byte that is not ASCII is an error, but digits are not checked here.
    to = np.int64(0)
    count = 0
    offsets[0] = 0
    for k in range(len(starts)):
        state = value_state(data, starts[k], lengths[k], width)
        if state < 0:
            return count, k, False
        nulls[k] = state
        count += state
        if not state:
            at = starts[k] + INDICATOR_BYTES
            if width > BETWEEN and data[at + BETWEEN] != COLON:
                return count, k, True
            high = _copy_bytes(data, at, width, strings, to)
            if high & HIGH_BITS:
                return count, k, True
            if width > BETWEEN:
                strings[to + BETWEEN] = BLANK
            to += width
        offsets[k + 1] = to
    return count, -1, False
