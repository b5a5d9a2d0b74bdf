"""Read, write, compare and copy bytes eight and more at a time: functions that are only a few machine instructions when compiled (see ``columnar.compiling``).

- ``load8`` and ``store8`` read and write eight bytes at any offset, ``store4`` and ``store2`` write
  fewer, and ``move32`` copies 32. Gathering short values is four to eight times as fast as byte by
  byte.
- ``marks64`` compares 64 bytes with one byte and returns a word with one bit per byte. For "a,b,c"
  and a comma it is 0b01010. ``first_mark`` is the index of its lowest bit, ``last_mark`` of its
  highest. Finding delimiters is three to five times as fast as byte by byte.
- ``high_marks64`` and ``escape_marks`` mark other bytes. Formats define instructions of their own,
  such as ``text_marks`` for XML.
- ``marks_from``, ``high_marks_from`` and ``marks_of_any`` also work near the end of the data. ``first_bits`` and
  ``parity_of_lower`` combine the bits of a word.
- ``copy_value``, ``copy_bytes``, ``copy_wide`` and ``copy_within`` copy values in words, and differ in
  the bytes that they may overwrite.

The instructions check nothing: the caller guarantees that the bytes are within the array. With
NUMBA_BOUNDSCHECK the loops are compiled as they are written here, so that bounds are checked.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from trailgate.arrays import Octets
from trailgate.columnar.compiling import inner, instruction

SPARE: Final = 32  # copies in words may write up to this many bytes after the value
EVERY: Final = np.uint64(0xFFFFFFFFFFFFFFFF)  # all bits of a word


@instruction
def load8(data: Any, at: int) -> Any:
    """Return the eight bytes at an offset as a little-endian word."""
    word = np.uint64(0)
    for byte in range(8):
        word |= np.uint64(data[at + byte]) << np.uint64(8 * byte)
    return word


@instruction
def store8(data: Any, at: int, word: Any) -> None:
    """Write a word as eight bytes, the lowest first."""
    for byte in range(8):
        data[at + byte] = np.uint8((word >> np.uint64(8 * byte)) & np.uint64(0xFF))


@instruction
def store4(data: Any, at: int, word: Any) -> None:
    """Write the lowest four bytes of a word, the lowest first."""
    for byte in range(4):
        data[at + byte] = np.uint8((word >> np.uint64(8 * byte)) & np.uint64(0xFF))


@instruction
def store2(data: Any, at: int, word: Any) -> None:
    """Write the lowest two bytes of a word, the lowest first."""
    for byte in range(2):
        data[at + byte] = np.uint8((word >> np.uint64(8 * byte)) & np.uint64(0xFF))


@instruction
def move32(out: Any, to: int, data: Any, at: int) -> None:
    """Copy 32 bytes at once, by one load and one store of a vector."""
    for byte in range(32):
        out[to + byte] = data[at + byte]


@instruction
def marks64(data: Any, at: int, byte: int) -> Any:
    """Return a bit for each of the 64 bytes at an offset that equals ``byte``."""
    marks = np.uint64(0)
    for index in range(64):
        if data[at + index] == byte:
            marks |= np.uint64(1) << np.uint64(index)
    return marks


@instruction
def first_mark(word: Any) -> int:
    """Return the index of the lowest bit that is set. There must be one."""
    index = 0
    while not (word >> np.uint64(index)) & np.uint64(1):
        index += 1
    return index


@instruction
def last_mark(word: Any) -> int:
    """Return the index of the highest bit that is set. There must be one."""
    index = 63
    while not (word >> np.uint64(index)) & np.uint64(1):
        index -= 1
    return index


@instruction
def high_marks64(data: Any, at: int) -> Any:
    """Compare 64 bytes at once, and return a bit for each that is not ASCII."""
    marks = np.uint64(0)
    for index in range(64):
        if data[at + index] >= 0x80:
            marks |= np.uint64(1) << np.uint64(index)
    return marks


@instruction
def escape_marks(
    data: Any, at: int, first: Any, second: Any, third: Any, fourth: Any, fifth: Any
) -> Any:
    """Compare 32 bytes at once, and return a bit for each that is a control or one of five bytes."""
    marks = np.uint64(0)
    for index in range(32):
        byte = data[at + index]
        if byte < 0x20 or byte in (first, second, third, fourth, fifth):
            marks |= np.uint64(1) << np.uint64(index)
    return marks


@inner
def first_bits(count: int) -> np.uint64:
    """Return a word with the lowest ``count`` bits set, or all of them for 64 and more."""
    if count >= 64:
        return ~np.uint64(0)
    return (np.uint64(1) << np.uint64(count)) - np.uint64(1)


@inner
def parity_of_lower(bits: np.uint64) -> np.uint64:
    """Return the prefix XOR of the bits: a bit is set if an odd number of bits at or below it are set.

    For example 0b0100_0100 becomes 0b0011_1100: the bytes from an opening quote up to its closing
    quote.
    """
    for shift in (1, 2, 4, 8, 16, 32):
        bits ^= bits << np.uint64(shift)
    return bits


@inner
def marks_from(data: Octets, base: int, byte: int) -> np.uint64:
    """Return a bit for each of the 64 bytes from ``base`` on that equals ``byte``. The data have at least 64 bytes."""
    beyond = max(0, base + 64 - len(data))
    return marks64(data, base - beyond, np.uint8(byte)) >> np.uint64(beyond)


@inner
def high_marks_from(data: Octets, base: int) -> np.uint64:
    """Return a bit for each of the 64 bytes from ``base`` on that is not ASCII. The data have at least 64 bytes."""
    beyond = max(0, base + 64 - len(data))
    return high_marks64(data, base - beyond) >> np.uint64(beyond)


@inner
def marks_of_any(data: Octets, base: int, wanted: Octets) -> np.uint64:
    """Return a bit for each of the 64 bytes from ``base`` on that is in ``wanted``. The data have at least 64 bytes."""
    # Near the end of the data, compare its last 64 bytes and shift out those before ``base``.
    beyond = max(0, base + 64 - len(data))
    start = base - beyond
    result = marks64(data, start, wanted[0]) | marks64(data, start, wanted[len(wanted) - 1])
    for which in range(1, len(wanted) - 1):
        result |= marks64(data, start, wanted[which])
    return result >> np.uint64(beyond)


@inner
def padded_word(data: Octets, begin: int, size: int) -> np.uint64:
    """Load the first eight bytes of a value as a word, padded with zeros if it is shorter, to hash and compare it."""
    if begin + 8 <= len(data):
        word = load8(data, begin)
        if size < 8:
            # Example: for size 3 the mask is 0xFFFFFF, which keeps the three lowest bytes.
            word &= (np.uint64(1) << np.uint64(8 * size)) - np.uint64(1)
        return word
    word = np.uint64(0)
    for at in range(min(size, 8)):
        word |= np.uint64(data[begin + at]) << np.uint64(8 * at)
    return word


@inner
def high_bits(data: Octets, size: int) -> int:
    """Return the bitwise OR of the first ``size`` bytes: below 128 if all are ASCII."""
    every = np.uint8(0)
    for at in range(size):
        every |= data[at]
    return int(every)


@inner
def copy_value(data: Octets, start: int, size: int, out: Octets, at: int) -> None:
    """Copy ``size`` bytes of the data. Writes at most ``SPARE`` bytes more."""
    # Moves of 32 bytes: a short value, as most are, takes one instruction and no loop. The bytes
    # written after the value are overwritten by the next one.
    if start + size <= len(data) - SPARE:
        move32(out, at, data, start)
        for done in range(32, size, 32):
            move32(out, at + done, data, start + done)
    else:
        for done in range(size):
            out[at + done] = data[start + done]


@inner
def copy_wide(body: Octets, at: int, data: Octets, start: int, size: int) -> None:
    """Copy a value of ``size`` bytes by moves of 32 bytes, which overwrites up to ``SPARE`` bytes after them in ``body``.

    Both arrays must have ``SPARE`` more bytes. The caller must write the overwritten ones
    afterwards.
    """
    move32(body, at, data, start)
    for done in range(32, size, 32):
        move32(body, at + done, data, start + done)


@inner
def copy_bytes(body: Octets, at: int, data: Octets, start: int, size: int) -> None:
    """Copy ``size`` bytes in words of eight, without changing the bytes of ``body`` after them.

    Both arrays must have eight more bytes. Copying short values byte by byte takes twice as long.
    """
    full_words = size & ~7
    for done in range(0, full_words, 8):
        store8(body, at + done, load8(data, start + done))
    # With 3 bytes left the mask is 0x0000000000FFFFFF: three bytes of data, five of the body.
    mask = (np.uint64(1) << np.uint64((size & 7) << 3)) - np.uint64(1)
    at += full_words
    store8(body, at, load8(data, start + full_words) & mask | load8(body, at) & ~mask)


@inner
def copy_within(data: Octets, start: int, size: int, out: Octets, at: int, limit: int) -> None:
    """Copy ``size`` bytes, 32 at a time if there is room. May write more than ``size`` bytes, but not beyond ``limit``.

    At least 32 bytes must follow them in the data.
    """
    if at + size + SPARE <= limit:
        for done in range(0, size, 32):
            move32(out, at + done, data, start + done)
    else:
        for done in range(size):
            out[at + done] = data[start + done]
