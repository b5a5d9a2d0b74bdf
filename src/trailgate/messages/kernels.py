"""Loops over messages: they prepare the texts of errors, and pack records into messages.

For error texts they find the bytes that are not UTF-8, choose how to show a value, and check
whether a text may contain a login.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.kernels.words import first_mark, marks64

# What an error's text shows of a value: the value itself in quotes, its beginning, what
# `error_columns.py` finds for it, or nothing.
PLAIN: Final = 0
LONG: Final = 1
ODD: Final = 2
ABSENT: Final = 3
_BLANK: Final = 0x20
_LAST_PRINTABLE: Final = 0x7E
_QUOTE: Final = 0x27
_BACKSLASH: Final = 0x5C
WINDOW: Final = 64
COLON: Final = np.uint8(0x3A)
SLASH: Final = 0x2F
EQUALS: Final = np.uint8(0x3D)
ONE: Final = np.uint64(1)


@kernel(writes=("states",))
def classify_values(data: Octets, offsets: Offsets, shown: int, states: Octets) -> None:
    """Decide how an error shows each value: `PLAIN`, `LONG` (more than `shown` bytes), or `ODD`.

    Writes one of these into `states` for each value. A value is odd if it is empty, if it begins or
    ends with a blank, or if it contains a byte that is not printable ASCII, a single quote, or a
    backslash (both are escaped in quotes).
    """
    # Example: of the values AB, "A ", é and 70 times A, with 60 bytes shown: PLAIN ODD ODD LONG.
    for row in range(len(states)):
        start, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if start < 0 or end <= start or end > len(data):
            states[row] = ODD
            continue
        odd = data[start] == _BLANK or data[end - 1] == _BLANK
        for at in range(start, end):
            byte = data[at]
            odd |= byte < _BLANK or byte > _LAST_PRINTABLE or byte == _QUOTE or byte == _BACKSLASH
        if odd:
            states[row] = ODD
        else:
            states[row] = LONG if end - start > shown else PLAIN


@kernel()
def may_have_login(data: Octets) -> bool:
    """Return whether texts of errors may contain a login or a secret that must be masked.

    That is if `data` contains `://`, or an equals sign after a g or t, the last letters of `sig`
    and `client_secret`.
    """
    window = 0
    # Two bytes are read after a mark.
    while window + WINDOW + 2 <= len(data):
        marks = marks64(data, window, COLON) | marks64(data, window, EQUALS)
        while marks:
            if begins_login(data, window + first_mark(marks)):
                return True
            marks &= marks - ONE
        window += WINDOW
    for at in range(window, len(data)):
        if (data[at] == COLON or data[at] == EQUALS) and begins_login(data, at):
            return True
    return False


@inner
def begins_login(data: Octets, at: int) -> bool:
    """Return whether a login may begin at `at`: the colon of `://`, or `=` after a g or t."""
    if data[at] == COLON:
        return at + 2 < len(data) and data[at + 1] == SLASH and data[at + 2] == SLASH
    # `t` or `g` in either case.
    return at > 0 and (data[at - 1] | 0x20 == 0x74 or data[at - 1] | 0x20 == 0x67)


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
            size = character_size(data[at])
            valid = 1
            while valid < size and at + valid < end and may_follow(data, at, valid):
                valid += 1
            if size == 0 or valid < size:
                places[row] = at
                # The bytes at the end that would begin a character belong together.
                stops[row] = at + valid
                break
            at += size


@inner
def character_size(first: int) -> int:
    """Return the size of the UTF-8 character that begins with this non-ASCII byte, or 0."""
    if first < 0xC2 or first > 0xF4:
        return 0
    if first < 0xE0:
        return 2
    return 3 if first < 0xF0 else 4


@inner
def may_follow(data: Octets, at: int, number: int) -> bool:
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


@kernel(writes=("first", "segment"))
def cut_records(
    sizes: Longs,
    begins: Mask,
    single: bool,
    overhead: int,
    limit: int,
    held: int,
    number: int,
    first: Longs,
    segment: Longs,
) -> int:
    """Cut records into messages to publish: find the first record of each message.

    Writes it into `first`, and into `segment` the message's number in its transaction. A message
    ends where a transaction begins (`begins`), before a record that would make it longer than
    `limit`, or after each record if `single`. `overhead` is the number of bytes that each message
    has besides its records. `held` is the size of the message that is still open before the first
    record, or -1. `number` is the number of that message in its transaction.

    Returns the number of messages that begin, or -1 - row if the record `row` is too long.

    Example with a limit of 100: records of 40, 40, 40, 10 and 10 bytes, of which records 0, 3 and 4
    begin transactions, make four messages: `first` is 0, 2, 3, 4 and `segment` is 0, 1, 0, 0.
    """
    count, size = 0, held
    for row in range(len(sizes)):
        if sizes[row] + overhead > limit:
            return -1 - row
        # No message is open, or another transaction begins.
        new = size < 0 or begins[row]
        if new or single or size + sizes[row] > limit:
            number = 0 if new or single else number + 1
            first[count], segment[count] = row, number
            count += 1
            size = overhead
        size += sizes[row]
    return count
