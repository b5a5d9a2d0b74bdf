"""The loops that write everything around the cells of trail records: heads, lengths, tokens, trailers, and large-object pieces.

Each loop writes one part of many records. The part of record i begins at ``places[i]``, which
becomes the end of the part. The loops do not check offsets: the body has room for the sizes that
were counted from the same arrays, and for ``SPARE`` more bytes.

Tokens come from columns of the operations (LOGCSN and TRANID) and from the entries of their maps.
The entries of row i are ``entries[i]`` to ``entries[i + 1] - 1``. Each entry has a code: the id of
a GGS token, ``USER_TOKEN``, ``CARRIED_TOKEN`` or ``LENGTH_TOKEN``.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.word_kernels import copy_bytes, load8, move32, store2, store4, store8
from trailgate.trail.format.record_header import PIECE_HEAD, RECORD_HEADS
from trailgate.trail.format.tokens import (
    DATA,
    FRAME,
    MAX_BYTES,
    MAX_NAME,
    NORMAL,
    RECORD_INFO,
    TRAILER,
    ByteOrder,
)
from trailgate.trail.values.write_kernels import ordered_half, ordered_word

PIECE_BYTES: Final = 2000  # as in the printed large object, whose shorter piece comes first
# RecCount has one byte. Assumed: it stays at 255 for a value with more pieces, since each piece states their number.
MAX_COUNT: Final = 255
MIDDLE: Final = 1  # TransInd
USER_TOKEN: Final = -1  # the entry is a user token
CARRIED_TOKEN: Final = -2  # the entry is not written: its value comes from a column
LENGTH_TOKEN: Final = -3  # the entry is a user token; its value is the length of its record's data
ZERO: Final = ord("0")


def _at(field: str) -> int:
    layout: Any = RECORD_HEADS[ByteOrder.BIG].fields
    return int(layout[field][1])


LENGTH_AT, DATA_LENGTH_AT, TYPE_AT = _at("g_length"), _at("data_length"), _at("io_type")
TIME_AT, INDICATOR_AT = _at("io_time"), _at("trans_ind")
CONTINUED_AT, COUNT_AT = _at("continued"), _at("record_count")


@kernel(writes=("body", "places"))
def write_heads(
    body: Octets,
    places: Longs,
    model: Octets,
    head: int,
    lengths: Longs,
    data_sizes: Longs,
    types: Octets,
    times: Longs,
    indicators: Octets,
    big: bool,
) -> None:
    """Write the start of each record: the frames of G and H, the record header and name area, and the frame of D.

    The first ``head`` bytes of ``model`` are the same for all records; the fields that differ are
    then overwritten. A record without data has no D.
    """
    # Copies of 32 bytes write up to ``wide`` bytes. That is safe if the record is as long, since all
    # later bytes are written afterwards. Shorter records, such as a truncate's, are copied exactly.
    # Example: a head of 50 bytes is copied as 32 + 32 into any record of 64 bytes or more.
    wide = (head + 31) & ~31
    for record in range(len(places)):
        at, size = places[record], data_sizes[record]
        if lengths[record] >= wide:
            for done in range(0, head, 32):
                move32(body, at + done, model, done)
        else:
            copy_bytes(body, at, model, 0, head)
        write_short(body, at + LENGTH_AT, lengths[record], big)
        write_short(body, at + DATA_LENGTH_AT, size, big)
        store8(body, at + TIME_AT, ordered_word(np.uint64(times[record]), big))
        body[at + TYPE_AT] = types[record]
        body[at + INDICATOR_AT] = indicators[record]
        at += head
        if size > 0:
            write_frame(body, at, DATA, NORMAL, size, big)
            at += FRAME
        places[record] = at


@kernel(writes=("body", "places"))
def write_lengths(body: Octets, places: Longs, lengths: Longs, big: bool) -> None:
    """Write two bytes in each record: the length of the before image that follows."""
    for record in range(len(places)):
        write_short(body, places[record], lengths[record], big)
        places[record] += 2


@kernel(writes=("body", "places"))
def write_trailers(body: Octets, places: Longs, lengths: Longs, big: bool) -> None:
    """Write the trailer Z of each trail record, which repeats its length."""
    for record in range(len(places)):
        write_frame(body, places[record], TRAILER, RECORD_INFO, lengths[record], big)
        places[record] += FRAME


@kernel(writes=("sizes",))
def add_piece_sizes(
    records: Longs, rows: Longs, offsets: Offsets, frames: int, sizes: Longs
) -> None:
    """Add the sizes of the piece records in which large values are written to ``sizes``, which has an item for each record.

    Value i belongs to record ``records[i]``, and is in row ``rows[i]`` of ``offsets``. ``frames``
    is the size of a piece record without its data.
    """
    for value in range(len(rows)):
        size = np.int64(offsets[rows[value] + 1]) - np.int64(offsets[rows[value]])
        count = (size + PIECE_BYTES - 1) // PIECE_BYTES
        sizes[records[value]] += count * (frames + PIECE_HEAD) + size


class PiecedValues(NamedTuple):
    """Large values of a column to write as pieces: for each value its record, its row in ``offsets``, and header fields.

    ``times`` is the time of its piece records, and ``last_indicators`` the TransInd of its last
    piece.
    """

    records: Longs
    rows: Longs
    offsets: Offsets
    data: Octets
    times: Longs
    last_indicators: Octets


@kernel(writes=("body", "places"))
def write_pieces(
    body: Octets,
    places: Longs,
    values: PiecedValues,
    model: Octets,
    head: int,
    column: int,
    big: bool,
) -> None:
    """Write large values of a column as piece records after the records of their rows (trail format §11).

    The first ``head`` bytes of ``model`` are the start of a piece record; fields that differ are
    then overwritten. ``places`` are the ends of the records, and are advanced to the ends of the
    pieces.
    """
    records, rows, offsets, data, times, last_indicators = values
    # Example: a value of 4500 bytes becomes three pieces of 500, 2000 and 2000 bytes: the shorter one
    # comes first. Each is a separate record: head | D | column, 3, piece number, offset, size | bytes | Z.
    for value in range(len(rows)):
        start = np.int64(offsets[rows[value]])
        total = np.int64(offsets[rows[value] + 1]) - start
        count = (total + PIECE_BYTES - 1) // PIECE_BYTES
        at, done = places[records[value]], np.int64(0)
        for piece in range(1, count + 1):
            size = np.int64(PIECE_BYTES) if piece > 1 else total - (count - 1) * PIECE_BYTES
            length = head + FRAME + PIECE_HEAD + size + FRAME
            last = piece == count
            copy_bytes(body, at, model, 0, head)
            write_short(body, at + LENGTH_AT, length, big)
            write_short(body, at + DATA_LENGTH_AT, PIECE_HEAD + size, big)
            store8(body, at + TIME_AT, ordered_word(np.uint64(times[value]), big))
            body[at + INDICATOR_AT] = last_indicators[value] if last else MIDDLE
            body[at + CONTINUED_AT] = 0 if last else 1
            body[at + COUNT_AT] = min(int(count), MAX_COUNT)
            at += head
            write_frame(body, at, DATA, NORMAL, PIECE_HEAD + size, big)
            at += FRAME
            for number in (column, count, piece, done, size):
                write_long(body, at, number, big)
                at += 4
            full_words = size & ~7
            for word in range(0, full_words, 8):
                store8(body, at + word, load8(data, start + done + word))
            for byte in range(full_words, size):  # byte by byte: the data may end with the value
                body[at + byte] = data[start + done + byte]
            at += size
            done += size
            write_frame(body, at, TRAILER, RECORD_INFO, length, big)
            at += FRAME
        places[records[value]] = at


@inner
def write_short(body: Octets, at: int, number: int, big: bool) -> None:
    """Write the low two bytes of a number in the byte order of the trail."""
    store2(body, at, np.uint64(ordered_half(number, big)))


@inner
def write_long(body: Octets, at: int, number: int, big: bool) -> None:
    """Write the low four bytes of a number in the byte order of the trail."""
    # `ordered_half` swaps the bytes of each half, and the halves change places: 0x01020304 is
    # written as 01 02 03 04 if `big`, else as 04 03 02 01.
    first, last = number >> 16 & 0xFFFF, number & 0xFFFF
    word = ordered_half(first, big) | ordered_half(last, big) << 16 if big else number
    store4(body, at, np.uint64(word))


@inner
def write_frame(body: Octets, at: int, code: int, info: int, size: int, big: bool) -> None:
    """Write the frame of a trail token: id, info and length."""
    store4(body, at, np.uint64(code | info << 8 | ordered_half(size, big) << 16))


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
