"""Compiled loops that check whether values are UTF-8, such as message bodies and bytes shown in errors."""

from __future__ import annotations

from trailgate.arrays import Longs, Octets
from trailgate.columnar.compiling import inner, kernel


@kernel(writes=("places", "stops"))
def find_not_utf8(data: Octets, starts: Longs, ends: Longs, places: Longs, stops: Longs) -> None:
    r"""Find the first invalid UTF-8 sequence of each value, `data[starts[i]:ends[i]]`.

    Writes its bounds, as Python reports them, into `places` and `stops`, or -1 if there is none.

    Example: in `a\xe2\x82b` it is the bytes 1 to 3, a character without its last byte.
    """
    for row in range(len(starts)):
        places[row] = stops[row] = -1
        at, end = starts[row], ends[row]
        if at < 0 or end > len(data):
            continue
        while at < end:
            if data[at] < 0x80:
                at += 1
                continue
            size = _character_size(data[at])
            valid = 1
            while valid < size and at + valid < end and _may_follow(data, at, valid):
                valid += 1
            if size == 0 or valid < size:
                places[row] = at
                # The bytes at the end that would begin a character belong together.
                stops[row] = at + valid
                break
            at += size


@inner
def _character_size(first: int) -> int:
    """Return the size of the UTF-8 character that begins with this non-ASCII byte, or 0."""
    if first < 0xC2 or first > 0xF4:
        return 0
    if first < 0xE0:
        return 2
    return 3 if first < 0xF0 else 4


@inner
def _may_follow(data: Octets, at: int, number: int) -> bool:
    """Return whether byte `number` of the UTF-8 character at `at` is valid, counted from 0.

    A low second byte after E0 or F0 would be an overlong form, a high one after ED a surrogate, and
    a high one after F4 a character beyond the last.
    """
    first, byte = data[at], data[at + number]
    if byte & 0xC0 != 0x80:
        return False
    if number > 1:
        return True
    # Example: E0 9F BF would be U+07FF, which has the two bytes DF BF. ED A0 80 would be the
    # surrogate U+D800, and F4 90 80 80 the character U+110000.
    if (first == 0xE0 and byte < 0xA0) or (first == 0xF0 and byte < 0x90):
        return False
    return not ((first == 0xED and byte >= 0xA0) or (first == 0xF4 and byte >= 0x90))
