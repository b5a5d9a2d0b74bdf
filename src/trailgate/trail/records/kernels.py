"""The loops over the records of a trail: their frames, headers, parts and names.

These functions are compiled by numba and get the data as one array of bytes. A record is addressed
by its offset and length, its parts by spans [start, end) of the same array. Every loop checks its
indexes against the end of the data or of the record. `find_frames` returns only records within the
data, and `read_records` refuses others.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.strings_kernels import spans_equal
from trailgate.columnar.word_kernels import load8
from trailgate.trail.format.record_header import (
    AFTER_IMAGE,
    BEFORE_IMAGE,
    BY_PARTITION,
    BY_TABLE,
    FETCHED,
    FIELD_COMP,
    FROM_LOG,
    INDICATOR,
    NAME_AT,
    SHORTEST,
)
from trailgate.trail.format.tokens import (
    DATA,
    FRAME,
    GGS_TOKENS,
    HEADER,
    NORMAL,
    RECORD,
    TRAILER,
    USER_TOKENS,
)
from trailgate.trail.records.record_problems import (
    DATA_INFO,
    DATA_LENGTH,
    DATA_OVER,
    EMPTY_DATA,
    EXTRA_PART,
    HEADER_LENGTH,
    IMAGE,
    IMAGE_OF_TYPE,
    INDEX_AREA,
    LAYOUT,
    MISTYPED,
    NAME_END,
    NO_HEADER,
    NO_INDICATOR,
    PART_OVER,
    REFUSED,
    SHORT,
    SYSTEM_KEY_SIZE,
    TRANS_IND,
)

U64 = np.uint64
AHEAD: Final = 4096  # bytes that ``find_frames`` reads ahead
CACHE_LINE: Final = 64
MIN_RECORD: Final = 4 * FRAME  # G, H, T or D, Z: less cannot be a record
# Bits of a record type, by IOType, for ``read_records``.
KNOWN, CHANGE, NEVER_AFTER, NEVER_BEFORE, WITHOUT_COLUMNS, OTHER_LAYOUT = 1, 2, 4, 8, 16, 32
# Bits of ``MARKS``: rare properties. Readers handle the records that have any of them separately.
UNDO, SYSTEM_KEY, UNLISTED, ODD_FORMAT = 1, 2, 4, 8
# The columns that ``read_records`` writes: first the u8 columns, then the int64 columns.
IO_TYPE, IMAGE_CODE, PARTITION, TRANSACTION, CONTINUED, MARKS = range(6)
UNDO_AT, FORMAT_AT, SYSTEM_KEY_AT = 10, 37, 38  # in a record
(
    IO_TIME,
    PROBLEMS,
    NAME_STOP,
    DATA_START,
    DATA_STOP,
    TOKENS_START,
    TOKENS_STOP,
    USER_START,
    USER_STOP,
    STATED_LENGTH,
) = range(10)
SMALL_COLUMNS: Final = 6
LONG_COLUMNS: Final = 10
OUTSIDE: Final = -1
CROWDED: Final = -2


@inner
def read_half(data: Octets, at: int, big: bool) -> np.int64:
    """Return the u16 at an offset of a trail; ``big`` states that it is big-endian."""
    one, two = np.int64(data[at]), np.int64(data[at + 1])
    return (one << 8) | two if big else (two << 8) | one


@inner
def read_long(data: Octets, at: int, big: bool) -> np.int64:
    """Return the i64 at an offset of a trail; ``big`` states that it is big-endian."""
    word = load8(data, at)
    if not big:
        return np.int64(word)
    # Swap bytes in pairs, then pairs in fours, then the two halves:
    # 01 02 03 04 .. -> 02 01 04 03 .. -> 04 03 02 01 .. -> reversed.
    word = ((word >> U64(8)) & U64(0x00FF00FF00FF00FF)) | (
        (word & U64(0x00FF00FF00FF00FF)) << U64(8)
    )
    word = ((word >> U64(16)) & U64(0x0000FFFF0000FFFF)) | (
        (word & U64(0x0000FFFF0000FFFF)) << U64(16)
    )
    return np.int64((word >> U64(32)) | (word << U64(32)))


@inner
def frame_length(data: Octets, at: int, big: bool, infos: Mask) -> int:
    """Return the length of the record at an offset, 0 if it is incomplete, or -1 if it cannot be a record.

    ``infos[b]`` is true if b may be the second byte of a record.
    """
    size = len(data)
    if at < size and data[at] != RECORD:
        return -1
    if at + 1 < size and not infos[data[at + 1]]:
        return -1
    if at + FRAME > size:
        return 0
    length = read_half(data, at + 2, big)
    if length < MIN_RECORD:
        return -1
    if at + length > size:
        return 0
    # The trailer repeats the frame except for its id: 47 01 00 9C ... 5A 01 00 9C.
    tail = at + length - FRAME
    same = data[tail] == TRAILER and data[tail + 1] == data[at + 1]
    same = same and data[tail + 2] == data[at + 2] and data[tail + 3] == data[at + 3]
    return length if same else -1


@kernel(writes=("offsets", "lengths"))
def find_frames(
    data: Octets, start: int, big: bool, infos: Mask, offsets: Longs, lengths: Longs
) -> tuple[int, int, int]:
    """Write the offsets and lengths of the complete records from ``start`` on. Return their number and their end.

    The loop stops at an incomplete record and at bytes that are not a record. The third result
    is not meant to be used: it keeps the compiler from dropping the reads ahead.
    """
    at = start
    count = 0
    touched = np.uint8(0)
    while count < len(offsets):
        length = frame_length(data, at, big, infos)
        if length <= 0:
            break
        offsets[count] = at
        lengths[count] = length
        count += 1
        # The offset of a record is known only when the one before it has arrived from memory.
        # Touching one byte per cache line ahead hides this latency: seven times as fast.
        for line in range(at + AHEAD, min(at + AHEAD + length, len(data)), CACHE_LINE):
            touched |= data[line]
        at += length
    return count, at, np.int64(touched)


@kernel()
def find_chain(data: Octets, start: int, big: bool, infos: Mask, followers: int) -> int:
    """Find the first record from ``start`` on with ``followers`` records directly after it.

    If the data end earlier, fewer followers are enough. Returns its offset, or -1 if there is none.
    """
    for start_of_chain in range(start, len(data)):
        at = start_of_chain
        for _ in range(followers + 1):
            length = frame_length(data, at, big, infos)
            if length <= 0:
                break
            at += length
        # Good if at least one record was complete and the chain ended by its number of records
        # or at the end of the data (length 0), not at bytes that are not a record (-1).
        if at > start_of_chain and length >= 0:
            return start_of_chain
    return -1


@inner
def header_problems(data: Octets, at: int, limit: int, name_end: int) -> int:
    """Return the problems, as bits, that make the header of the record at ``at`` unreadable.

    ``name_end`` is the end of its name area by the length of H, and ``limit`` the offset of its
    trailer.
    """
    problems = 0
    if data[at + FRAME] != HEADER:
        problems |= NO_HEADER
    if name_end <= at + NAME_AT or name_end > limit:
        problems |= HEADER_LENGTH
    if data[at + 2 * FRAME] != INDICATOR:
        problems |= NO_INDICATOR
    return problems


@inner
def field_problems(data: Octets, at: int, name_end: int, kind: int, data_length: int) -> int:
    """Return the problems, as bits, of the fields of a readable record header.

    ``kind`` are the bits of the record type (``KNOWN`` and others).
    """
    problems = 0
    partition, image = data[at + 9], data[at + 11]
    if not kind & KNOWN:
        problems |= REFUSED
    if image == AFTER_IMAGE:
        if kind & NEVER_AFTER:
            problems |= IMAGE_OF_TYPE
    elif image != BEFORE_IMAGE:
        problems |= IMAGE
    elif kind & NEVER_BEFORE:
        problems |= IMAGE_OF_TYPE
    # A change's data are a list of columns if the bit FIELD_COMP of its partition byte is set. Here
    # the bit is set in a record that has no columns,
    if kind & WITHOUT_COLUMNS and partition & FIELD_COMP:
        problems |= MISTYPED
    # and here it is missing in a change with data, whose type has no other layout either.
    unlisted = kind & CHANGE and data_length and not partition & FIELD_COMP
    if unlisted and not kind & OTHER_LAYOUT:
        problems |= LAYOUT
    key = data[at + SYSTEM_KEY_AT]
    if key and kind & CHANGE and (key not in (4, 8) or key > data_length):
        problems |= SYSTEM_KEY_SIZE
    # The name area is a table index of two bytes, and two more of a partition, or a name and a NUL.
    if partition & BY_TABLE:
        if name_end != at + NAME_AT + (4 if partition & BY_PARTITION else 2):
            problems |= INDEX_AREA
    elif data[name_end - 1] != 0:
        problems |= NAME_END
    return problems


@inner
def rare_marks(data: Octets, at: int, kind: int, data_length: int) -> int:
    """Return the bits of a record's rare properties: an undo flag, a system key, data that are not column lists, an unknown format."""
    marks = UNDO if data[at + UNDO_AT] else 0
    if data[at + FORMAT_AT] != FROM_LOG and data[at + FORMAT_AT] != FETCHED:
        marks |= ODD_FORMAT
    if kind & CHANGE and data[at + SYSTEM_KEY_AT]:
        marks |= SYSTEM_KEY
    if kind & CHANGE and data_length and not data[at + 9] & FIELD_COMP:
        marks |= UNLISTED
    return marks


@inner
def _read_fields(data: Octets, at: int, big: bool, r: int, small: Octets, longs: Longs) -> None:
    """Write the header fields of record number ``r``, which begins at ``at`` and is long enough to have all of them."""
    count = len(small) // SMALL_COLUMNS
    small[IO_TYPE * count + r] = data[at + 14]
    small[IMAGE_CODE * count + r] = data[at + 11]
    small[PARTITION * count + r] = data[at + 9]
    small[CONTINUED * count + r] = data[at + 40]
    small[MARKS * count + r] = 0
    indicator = data[at + 36]
    if indicator > 3 and data[at + 32] <= 3:
        indicator = data[at + 32]  # one printed 11.2.1.0.1 record has it here (trail format §5)
    small[TRANSACTION * count + r] = indicator
    longs[IO_TIME * count + r] = read_long(data, at + 16, big)
    longs[STATED_LENGTH * count + r] = read_half(data, at + 12, big)


@inner
def walk_parts(data: Octets, offset: int, limit: int, big: bool) -> tuple[int, ...]:
    """Find the parts of a record after its header, from ``offset`` to ``limit``: data (D), tokens (T), user tokens (U).

    They must come in this order, each at most once, and nothing else may follow. Returns the
    problems as bits, then the start and end of each part; a missing part is empty.
    """
    problems = 0
    # Example: 44 00 00 02 .. .. | 54 00 00 07 .. is D with two bytes, then T with seven.
    # D, T and U have positions 1, 2 and 3, unknown ids have 0. Positions must increase: ``rank`` is
    # the highest so far, and bit ``position`` of ``seen`` is set once the part was seen.
    rank = 0
    seen = 0
    data_start = data_stop = offset
    tokens_start = tokens_stop = user_start = user_stop = limit
    while offset < limit:
        code = data[offset]
        start = min(offset + FRAME, limit)
        stop = offset + FRAME + read_half(data, offset + 2, big)
        if stop > limit:
            problems |= PART_OVER
            stop = limit
        position = (
            1 if code == DATA else 2 if code == GGS_TOKENS else 3 if code == USER_TOKENS else 0
        )
        if position <= rank:
            problems |= EXTRA_PART
        rank = max(rank, position)
        if not seen & (1 << position):
            if position == 1:
                data_start, data_stop = start, stop
                if data[offset + 1] != NORMAL:
                    problems |= DATA_INFO
                if start == stop:
                    problems |= EMPTY_DATA
            elif position == 2:
                tokens_start, tokens_stop = start, stop
            elif position == 3:
                user_start, user_stop = start, stop
        seen |= 1 << position
        offset = stop
    return problems, data_start, data_stop, tokens_start, tokens_stop, user_start, user_stop


@kernel(writes=("small", "longs"))
def read_records(
    data: Octets,
    offsets: Longs,
    lengths: Longs,
    big: bool,
    types: Octets,
    small: Octets,
    longs: Longs,
) -> int:
    """Write the header fields, part spans and problems of records. Return the number of records with a problem.

    ``small`` and ``longs`` are ``SMALL_COLUMNS`` and ``LONG_COLUMNS`` columns one after another:
    field ``IO_TYPE`` of record r is ``small[IO_TYPE * count + r]``. A missing part has an empty
    span, and a part that exceeds its record ends with it. Returns ``OUTSIDE`` if a record is not
    within the data.
    """
    # Example, a record of 56 bytes at offset 0:
    #   47 01 00 38 | 48 00 00 26 | 45 .. (34 bytes of GHDR) .. "A.B" 00 | 44 00 00 02 .. | 5A 01 00 38
    # ``name_end`` is 2 * FRAME + 0x26 = 46, the data of D are [50, 52), and ``limit`` is 52, where Z
    # begins. No check reads beyond the ``limit`` of its record.
    count = len(offsets)
    faulty = 0
    for r in range(count):
        at = offsets[r]
        limit = at + lengths[r] - FRAME
        if at < 0 or lengths[r] < FRAME or limit + FRAME > len(data):
            return OUTSIDE
        problems, name_end = SHORT, limit
        parts = (0, limit, limit, limit, limit, limit, limit)
        if lengths[r] >= SHORTEST:
            _read_fields(data, at, big, r, small, longs)
            name_end = at + 2 * FRAME + read_half(data, at + 6, big)
            problems = header_problems(data, at, limit, name_end)
        else:
            for column in range(SMALL_COLUMNS):
                small[column * count + r] = 0
            for column in (IO_TIME, STATED_LENGTH):
                longs[column * count + r] = 0
        if problems:
            name_end = limit
        else:
            data_length = longs[STATED_LENGTH * count + r]
            kind = types[small[IO_TYPE * count + r]]
            problems = field_problems(data, at, name_end, kind, data_length)
            small[MARKS * count + r] = rare_marks(data, at, kind, data_length)
            if small[TRANSACTION * count + r] > 3:
                problems |= TRANS_IND
            if data_length and name_end + FRAME + data_length > limit:
                problems |= DATA_OVER
            parts = walk_parts(data, name_end, limit, big)
            problems |= parts[0]
            if parts[2] - parts[1] != data_length:
                problems |= DATA_LENGTH
        longs[NAME_STOP * count + r] = name_end
        longs[DATA_START * count + r] = parts[1]
        longs[DATA_STOP * count + r] = parts[2]
        longs[TOKENS_START * count + r] = parts[3]
        longs[TOKENS_STOP * count + r] = parts[4]
        longs[USER_START * count + r] = parts[5]
        longs[USER_STOP * count + r] = parts[6]
        longs[PROBLEMS * count + r] = problems
        if problems:
            faulty += 1
    return faulty


@kernel(writes=("codes", "firsts", "slots"))
def number_names(
    data: Octets,
    offsets: Longs,
    name_ends: Longs,
    partitions: Octets,
    named: Mask,
    codes: Longs,
    firsts: Longs,
    slots: Longs,
) -> int:
    """Write the code of each record's name, and the first record of each name. Return the number of names.

    Names are numbered in order of appearance. Records that are not ``named`` get the code -1. A
    name is the bytes of the name area, or the table index in its place. ``slots`` is a hash table:
    a power of two of slots, all -1. Returns ``CROWDED`` if the names fill more than half of it.
    """
    # Example: names A, A, B, A give codes 0, 0, 1, 0 and firsts 0, 2. A name is first compared with
    # the previous record's, since runs of one table are long. Otherwise its hash is looked up: a slot
    # has the code of a name, and ``firsts`` the record to compare with. The next free slot is always
    # found, because half of the slots stay empty.
    count = 0
    last = -1
    mask = len(slots) - 1
    for r in range(len(offsets)):
        if not named[r]:
            codes[r] = -1
            continue
        start = offsets[r] + NAME_AT
        by_index = partitions[r] & BY_TABLE
        size = 2 if by_index else name_ends[r] - start
        if start < 0 or size < 0 or start + size > len(data):
            return OUTSIDE
        code = last
        if last < 0 or not _same_name(data, offsets, name_ends, partitions, firsts[last], r):
            slot = np.int64(by_index)
            for k in range(size):
                slot = (slot * 31 + np.int64(data[start + k])) & 0xFFFFFFFF
            slot = (slot ^ (slot >> 15)) & mask
            while slots[slot] >= 0 and not _same_name(
                data, offsets, name_ends, partitions, firsts[slots[slot]], r
            ):
                slot = (slot + 1) & mask
            if slots[slot] < 0:
                if 2 * (count + 1) > len(slots):
                    return CROWDED
                slots[slot] = count
                firsts[count] = r
                count += 1
            code = slots[slot]
        codes[r] = code
        last = code
    return count


@inner
def _same_name(
    data: Octets, offsets: Longs, name_ends: Longs, partitions: Octets, one: int, two: int
) -> bool:
    """Return whether two records have the same name bytes, or the same table index."""
    by_index = partitions[one] & BY_TABLE
    if by_index != partitions[two] & BY_TABLE:
        return False
    size = name_ends[one] - offsets[one] - NAME_AT
    # With BY_TABLE the name area begins with the table's index in two bytes. A partition's index
    # may follow, and does not belong to the name.
    if by_index:
        size = np.int64(2)
    elif size != name_ends[two] - offsets[two] - NAME_AT:
        return False
    return spans_equal(data, offsets[one] + NAME_AT, offsets[two] + NAME_AT, size)
