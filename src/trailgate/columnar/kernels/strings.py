"""The loops that build text: from code pages, positions and numbers, and in lines of a given width."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.kernels.words import SPARE, copy_value, last_mark, load8, store8

GAP = 2  # columns between two strings of a line
_BLANK: Final = 0x20
_WORD: Final = 8  # bytes
_BYTE: Final = np.uint64(0xFF)
_BYTES: Final = np.uint64(0x0101010101010101)
_NOT_ASCII: Final = np.uint64(0x8080808080808080)
_ALL: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
ONE_BYTE: Final = 1 << 32  # in ``characters``: multiplied by the number of a character's bytes
_MOST: Final = 4  # bytes of a character in UTF-8
NO_CHARACTER, NO_ROOM = -1, -2
JOINED, SPACED, BROKEN = 0, 1, 2  # before a string: nothing, a gap, or a line break

HALF: Final = (
    5  # digits per half of a number: 32-bit divisions are several times as fast as 64-bit ones
)
DIGITS: Final = 2 * HALF
LIMIT: Final = 10**HALF
ZERO: Final = ord("0")
POINT: Final = ord(".")
OUTSIDE: Final = -1
MOST: Final = 2**31 - 1  # Arrow's string offsets are int32
TEN: Final = np.uint32(10)


@kernel(writes=("offsets", "out"))
def translate_rows(
    data: Octets,
    step: int,
    size: int,
    ascii_of: Octets,
    characters: Longs,
    blank: int,
    left: bool,
    right: bool,
    offsets: Offsets,
    out: Octets,
) -> int:
    """Decode rows of a single-byte code page to UTF-8, trimmed on the left or right. Return the size of the text in bytes.

    Row i is the ``size`` bytes from ``i * step`` on. ``ascii_of`` has the ASCII character of each
    byte, or 128 and more if it has none. ``characters`` has for each byte the UTF-8 bytes of its
    character, the first one lowest, plus ``ONE_BYTE`` times their number; 0 means that the byte has
    no character. ``blank`` is the byte of a blank. Returns NO_CHARACTER if a byte has no character,
    and NO_ROOM if ``out`` may be too short.
    """
    # Example: the EBCDIC row C1 C2 40 40, trimmed on the right. Its last eight bytes, XORed with blanks (40),
    # are 0 in the last two, so ``end`` becomes 2. Then up to eight bytes are translated at once; if all of
    # them are ASCII, they are one store ("AB"), otherwise each character is written with its bytes.
    spare, room, done = len(data) - _WORD, len(out) - SPARE, 0
    blanks = np.uint64(blank) * _BYTES
    offsets[0] = 0
    for row in range(len(offsets) - 1):
        begin, end = row * step, row * step + size
        if right:
            while end > begin and end >= _WORD:
                # The last eight bytes of the row. Bytes before its beginning are shifted out: they count as blank.
                before = np.uint64(8 * max(_WORD - (end - begin), 0))
                others = (load8(data, end - _WORD) ^ blanks) >> before << before
                if others:
                    end -= _WORD - 1 - (last_mark(others) >> 3)
                    break
                end = max(end - _WORD, begin)
            while end > begin and ascii_of[data[end - 1]] == _BLANK:
                end -= 1
        if left:
            while begin < end and ascii_of[data[begin]] == _BLANK:
                begin += 1
        for at in range(begin, end, _WORD):
            if done + _MOST * _WORD > room:
                return NO_ROOM
            count = min(_WORD, end - at)
            if at <= spare:
                word, text = load8(data, at), np.uint64(0)
                if count < _WORD:
                    # Replace the bytes after the row with blanks, so that they do not count as non-ASCII.
                    others = _ALL << np.uint64(8 * count)
                    word = word & ~others | blanks & others
                for byte in range(_WORD):
                    shift = np.uint64(8 * byte)
                    text |= np.uint64(ascii_of[word >> shift & _BYTE]) << shift
                if not text & _NOT_ASCII:
                    store8(out, done, text)
                    done += count
                    continue
            for place in range(at, at + count):
                character = characters[data[place]]
                if character < ONE_BYTE:
                    return NO_CHARACTER
                for _ in range(character // ONE_BYTE):
                    out[done] = character & 0xFF
                    character >>= 8
                    done += 1
        offsets[row + 1] = done
    return done


@kernel(writes=("sizes",))
def measure_ascii(data: Octets, offsets: Offsets, sizes: Longs) -> int:
    """Write the number of characters of each text, or -1 if it is not printable ASCII.

    Returns the number of texts that are not printable ASCII.
    """
    others = 0
    for row in range(len(sizes)):
        size = offsets[row + 1] - offsets[row]
        for place in range(offsets[row], offsets[row + 1]):
            if data[place] < 32 or data[place] > 126:
                size = -1
                break
        sizes[row] = size
        others += size < 0
    return others


@kernel(writes=("before", "trimmed", "fits"))
def flow_strings(
    sizes: Longs,
    starts: Longs,
    width: int,
    indent: int,
    before: Octets,
    trimmed: Octets,
    fits: Octets,
) -> int:
    """Lay out each row's strings in lines of ``width``, of which ``indent`` are used before the first string of a line.

    Returns the number of rows that do not fit. Row r has the strings starts[r] to starts[r + 1] -
    1, with their widths in ``sizes``. For each string, ``before`` becomes its separator from the
    string before it: ``JOINED`` (none), ``SPACED`` or ``BROKEN`` (a new line). ``trimmed`` marks
    the string that ends a row's first line. ``fits`` is 0 for a row that does not fit: a string is
    longer than a line, or its size is unknown (-1).
    """
    # Example: strings of 4, 5 and 6 columns, width 12, no indent: the second one is SPACED (4 + 2 + 5 = 11),
    # the third one BROKEN (11 + 2 + 6 exceeds 12), so the second one ends the first line.
    wrong = 0
    for row in range(len(fits)):
        used = indent
        begun = False
        first = True
        fits[row] = 1
        for part in range(starts[row], starts[row + 1]):
            size = sizes[part]
            before[part] = JOINED
            if begun and used + GAP + size > width:
                before[part] = BROKEN
                used = indent
                if first:
                    trimmed[part - 1] = 1
                first = False
            elif begun:
                before[part] = SPACED
                used += GAP
            if size < 0 or used + size > width:
                fits[row] = 0
                wrong += 1
                break
            used += size
            begun = True
        if begun and first:
            trimmed[starts[row + 1] - 1] = 1
    return wrong


@inner
def _write_number(number: int, strings: Octets, place: int) -> None:
    """Write a number of a trail position as ten digits."""
    # Two halves of five digits: 32-bit divisions are faster than 64-bit ones. Both halves are
    # written in one loop, so that the processor can overlap them.
    upper = np.uint32(np.uint64(number) // np.uint64(LIMIT))
    lower = np.uint32(np.uint64(number) - np.uint64(upper) * np.uint64(LIMIT))
    for digit in range(HALF - 1, -1, -1):
        rest = upper // TEN
        strings[place + digit] = ZERO + upper - rest * TEN
        upper = rest
        rest = lower // TEN
        strings[place + HALF + digit] = ZERO + lower - rest * TEN
        lower = rest


@kernel(writes=("strings",))
def write_positions(numbers: Longs, offsets: Longs, strings: Octets) -> int:
    """Write trail positions: file number and offset as ten digits each. Return the first row in which one has more digits, or -1."""
    for row in range(len(numbers)):
        number, offset = numbers[row], offsets[row]
        if min(number, offset) < 0 or max(number, offset) >= LIMIT * LIMIT:
            return row
        place = 2 * DIGITS * row
        # The rows of one file have the same number: copy its digits from the row before.
        if row and number == numbers[row - 1]:
            for digit in range(DIGITS):
                strings[place + digit] = strings[place + digit - 2 * DIGITS]
        else:
            _write_number(number, strings, place)
        _write_number(offset, strings, place + DIGITS)
    return -1


@kernel(writes=("placed", "out"))
def append_numbers(
    data: Octets, offsets: Offsets, numbers: Longs, placed: Offsets, out: Octets
) -> int:
    """Copy each string, and append a dot and a number of ten digits. Return the total size, or ``OUTSIDE``.

    ``placed`` becomes the offsets, with one item more than strings. ``out`` has ``SPARE`` more
    bytes than the result.
    """
    # Example: the strings A and BC with the numbers 7 and 12 become A.0000000007BC.0000000012, and
    # placed = 0 12 25.
    to = np.int64(0)
    placed[0] = 0
    for row in range(len(numbers)):
        start = np.int64(offsets[row])
        size = np.int64(offsets[row + 1]) - start
        last = to + size + 1 + DIGITS
        if start < 0 or size < 0 or start + size > len(data) or last > min(len(out) - SPARE, MOST):
            return OUTSIDE
        copy_value(data, start, size, out, to)
        out[to + size] = POINT
        _write_number(numbers[row], out, to + size + 1)
        to = last
        placed[row + 1] = to
    return int(to)
