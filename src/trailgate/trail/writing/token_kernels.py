"""The loops that measure and write the tokens of records (see ``trail.writing.kernels``).

Tokens come from columns of the operations (LOGCSN and TRANID) and from the entries of their maps.
The entries of row i are ``entries[i]`` to ``entries[i + 1] - 1``. Each entry has a code: the id of
a GGS token, ``USER_TOKEN``, ``CARRIED_TOKEN`` or ``LENGTH_TOKEN``.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.kernels.words import copy_bytes
from trailgate.trail.format.tokens import FRAME, MAX_BYTES, MAX_NAME, NORMAL
from trailgate.trail.writing.kernels import write_frame

USER_TOKEN: Final = -1  # the entry is a user token
CARRIED_TOKEN: Final = -2  # the entry is not written: its value comes from a column
LENGTH_TOKEN: Final = -3  # the entry is a user token; its value is the length of its record's data
ZERO: Final = ord("0")


@kernel(writes=("body", "places"))
def write_area_frames(body: Octets, places: Longs, code: int, sizes: Longs, big: bool) -> None:
    """Write the frame of a token area (``code`` is T or U) in the records in which the area is not empty."""
    for record in range(len(places)):
        if sizes[record] > 0:
            write_frame(body, places[record], code, NORMAL, sizes[record], big)
            places[record] += FRAME


@kernel(writes=("sizes",))
def add_token_sizes(rows: Longs, shown: Mask, offsets: Offsets, sizes: Longs) -> None:
    """Add the size of one token, such as LOGCSN, to the records in which it is ``shown``."""
    for record in range(len(rows)):
        if shown[record]:
            row = rows[record]
            sizes[record] += FRAME + np.int64(offsets[row + 1]) - np.int64(offsets[row])


@kernel(writes=("body", "places"))
def write_tokens(
    body: Octets,
    places: Longs,
    rows: Longs,
    shown: Mask,
    code: int,
    offsets: Offsets,
    data: Octets,
    big: bool,
) -> None:
    """Write one token, such as LOGCSN, in the records in which it is ``shown``."""
    # places[record] is the end of the record's bytes so far; the token is appended there.
    for record in range(len(rows)):
        if not shown[record]:
            continue
        at, start = places[record], np.int64(offsets[rows[record]])
        size = np.int64(offsets[rows[record] + 1]) - start
        write_frame(body, at, code, NORMAL, size, big)
        copy_bytes(body, at + FRAME, data, start, size)
        places[record] = at + FRAME + size


@kernel(writes=("ggs_sizes", "user_sizes"))
def add_entry_sizes(
    rows: Longs,
    entries: Longs,
    codes: Longs,
    name_offsets: Offsets,
    name_data: Octets,
    value_offsets: Offsets,
    value_data: Octets,
    lengths: Longs,
    ggs_sizes: Longs,
    user_sizes: Longs,
) -> int:
    """Add the sizes of the tokens in each record's token map. Return the first bad record, or -1.

    ``lengths`` are the lengths of the records' data, the values of length tokens. A record is bad
    if its user tokens contain a NUL, have an empty or too long name, or are too long in total.
    """
    # Example: the entries ORATAG: 01, JOB: nightly add FRAME + 1 to the GGS tokens (two hex digits are one byte)
    # and 3 + 1 + 7 + 1 to the user tokens.
    for record in range(len(rows)):
        row = rows[record]
        for entry in range(entries[row], entries[row + 1]):
            start, end = np.int64(value_offsets[entry]), np.int64(value_offsets[entry + 1])
            if codes[entry] >= 0:
                ggs_sizes[record] += FRAME + end - start
            elif codes[entry] != CARRIED_TOKEN:
                first, last = np.int64(name_offsets[entry]), np.int64(name_offsets[entry + 1])
                if not 0 < last - first <= MAX_NAME:
                    return record
                if _has_nul(name_data, first, last) or _has_nul(value_data, start, end):
                    return record
                size = end - start
                if codes[entry] == LENGTH_TOKEN:
                    size = _digits(lengths[record])
                user_sizes[record] += last - first + size + 2
        if user_sizes[record] > MAX_BYTES:
            return record
    return -1


@kernel(writes=("body", "places"))
def write_entries(
    body: Octets,
    places: Longs,
    rows: Longs,
    entries: Longs,
    codes: Longs,
    infos: Octets,
    value_offsets: Offsets,
    value_data: Octets,
    big: bool,
) -> None:
    """Write the GGS tokens in each record's token map."""
    # Entry e of the maps is one token; row r has the entries entries[r] to entries[r + 1] - 1.
    # Those with a code below 0 are not GGS tokens, and are skipped.
    for record in range(len(rows)):
        row, at = rows[record], places[record]
        for entry in range(entries[row], entries[row + 1]):
            if codes[entry] >= 0:
                start = np.int64(value_offsets[entry])
                size = np.int64(value_offsets[entry + 1]) - start
                write_frame(body, at, codes[entry], np.int64(infos[entry]), size, big)
                copy_bytes(body, at + FRAME, value_data, start, size)
                at += FRAME + size
        places[record] = at


@kernel(writes=("body", "places"))
def write_user_entries(
    body: Octets,
    places: Longs,
    rows: Longs,
    entries: Longs,
    codes: Longs,
    name_offsets: Offsets,
    name_data: Octets,
    value_offsets: Offsets,
    value_data: Octets,
    lengths: Longs,
) -> None:
    """Write the user tokens in each record's token map: name, NUL, value, NUL.

    The value of a length token is the length of the record's data, in ``lengths``.
    """
    # Example: an entry TKN-A with the value 7 becomes the bytes TKN-A 00 37 00.
    for record in range(len(rows)):
        row, at = rows[record], places[record]
        for entry in range(entries[row], entries[row + 1]):
            if codes[entry] >= 0 or codes[entry] == CARRIED_TOKEN:
                continue
            at = _write_ended(body, at, name_offsets, name_data, entry)
            if codes[entry] == LENGTH_TOKEN:
                at = _write_number(body, at, lengths[record])
            else:
                at = _write_ended(body, at, value_offsets, value_data, entry)
        places[record] = at


@inner
def _write_ended(body: Octets, at: int, offsets: Offsets, data: Octets, entry: int) -> int:
    """Write the name or value of a token map's entry, and a NUL. Return the offset after them."""
    start = np.int64(offsets[entry])
    size = np.int64(offsets[entry + 1]) - start
    copy_bytes(body, at, data, start, size)
    body[at + size] = 0
    return int(at + size + 1)


@inner
def _digits(number: int) -> int:
    """Return the number of digits of a number that is not negative."""
    count = 1
    while number >= 10:
        number //= 10
        count += 1
    return count


@inner
def _write_number(body: Octets, at: int, number: int) -> int:
    """Write the value of a length token: a number's digits and a NUL. Return the offset after them."""
    end = at + _digits(number)
    body[end] = 0
    for digit_at in range(end - 1, at - 1, -1):
        body[digit_at] = ZERO + number % 10
        number //= 10
    return int(end + 1)


@inner
def _has_nul(data: Octets, start: int, end: int) -> bool:
    for at in range(start, end):
        if data[at] == 0:
            return True
    return False
