"""The loops that write everything around the cells of trail records: heads, lengths, trailers, and large-object pieces.

Each loop writes one part of many records. The part of record i begins at ``places[i]``, which
becomes the end of the part. The loops do not check offsets: the body has room for the sizes that
were counted from the same arrays, and for ``SPARE`` more bytes.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.kernels.words import copy_bytes, load8, move32, store2, store4, store8
from trailgate.trail.format.record_layout import PIECE_HEAD, RECORD_HEADS
from trailgate.trail.format.tokens import DATA, FRAME, NORMAL, RECORD_INFO, TRAILER, ByteOrder
from trailgate.trail.values.write_kernels import ordered_half, ordered_word

PIECE_BYTES: Final = 2000  # as in the printed large object, whose shorter piece comes first
# RecCount has one byte. Assumed: it stays at 255 for a value with more pieces, since each piece states their number.
MAX_COUNT: Final = 255
MIDDLE: Final = 1  # TransInd


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
    """Add the sizes of the piece records of large values to ``sizes``, which has an item for each record.

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
