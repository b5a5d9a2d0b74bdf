"""The loop that decodes text in a single-byte code page, such as EBCDIC, to UTF-8.

It translates eight bytes at once as long as they are ASCII, and single bytes otherwise.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.compiling import kernel
from trailgate.columnar.word_kernels import SPARE, last_mark, load8, store8

NO_CHARACTER, NO_ROOM = -1, -2
_BLANK: Final = 0x20
_WORD: Final = 8  # bytes
_BYTE: Final = np.uint64(0xFF)
_BYTES: Final = np.uint64(0x0101010101010101)
_NOT_ASCII: Final = np.uint64(0x8080808080808080)
_ALL: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
ONE_BYTE: Final = 1 << 32  # in ``characters``: multiplied by the number of a character's bytes
_MOST: Final = 4  # bytes of a character in UTF-8


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
