"""Loops over the records of a trail: where they lie, what their headers and parts are, their names and tokens.

Every loop checks its indexes against the end of the data or of the record, which ``find_frames`` has proven to be
within the data; ``read_records`` refuses a record that is not.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.kernels.compiled import inner, kernel
from trailgate.columnar.kernels.words import load8
from trailgate.trail.format.record_layout import (
    AFTER_IMAGE,
    BEFORE_IMAGE,
    BY_PARTITION,
    BY_TABLE,
    FIELD_COMP,
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
AHEAD: Final = 4096  # bytes
CACHE_LINE: Final = 64
MIN_RECORD: Final = 4 * FRAME  # G, H, T or D, Z: less cannot be a record
# Bits of a record type, by IOType, for ``read_records``.
KNOWN, CHANGE, NEVER_AFTER, NEVER_BEFORE, WITHOUT_COLUMNS, OTHER_LAYOUT = 1, 2, 4, 8, 16, 32
# Bits of ``MARKS``: what few records have. Readers look at these alone.
UNDO, SYSTEM_KEY, UNLISTED = 1, 2, 4
# Columns that ``read_records`` writes: u8 ones and int64 ones.
IO_TYPE, IMAGE_CODE, PARTITION, TRANSACTION, CONTINUED, MARKS = range(6)
UNDO_AT, SYSTEM_KEY_AT = 10, 38  # in a record
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
def _half(data: Octets, at: int, big: bool) -> np.int64:
    """Return the u16 at a place."""
    one, two = np.int64(data[at]), np.int64(data[at + 1])
    return (one << 8) | two if big else (two << 8) | one


@inner
def _long(data: Octets, at: int, big: bool) -> np.int64:
    """Return the i64 at a place."""
    word = load8(data, at)
    if not big:
        return np.int64(word)
    word = ((word >> U64(8)) & U64(0x00FF00FF00FF00FF)) | (
        (word & U64(0x00FF00FF00FF00FF)) << U64(8)
    )
    word = ((word >> U64(16)) & U64(0x0000FFFF0000FFFF)) | (
        (word & U64(0x0000FFFF0000FFFF)) << U64(16)
    )
    return np.int64((word >> U64(32)) | (word << U64(32)))


@inner
def _frame(data: Octets, at: int, big: bool, infos: Mask) -> int:
    """Return the length of the record at a place, 0 while it is not all there, -1 where no record can be."""
    size = len(data)
    if at < size and data[at] != RECORD:
        return -1
    if at + 1 < size and not infos[data[at + 1]]:
        return -1
    if at + FRAME > size:
        return 0
    length = _half(data, at + 2, big)
    if length < MIN_RECORD:
        return -1
    if at + length > size:
        return 0
    # The trailer differs from the frame in its id alone.
    tail = at + length - FRAME
    same = data[tail] == TRAILER and data[tail + 1] == data[at + 1]
    same = same and data[tail + 2] == data[at + 2] and data[tail + 3] == data[at + 3]
    return length if same else -1


@kernel(writes=("offsets", "lengths"))
def find_frames(
    data: Octets, start: int, big: bool, infos: Mask, offsets: Longs, lengths: Longs
) -> tuple[int, int, int]:
    """Write where the complete records from ``start`` on lie; return how many they are and where the last ends.

    The walk ends at a record that is not complete and at bytes that are not a record. A record's place is known only once the
    one before it has come from memory, so the loop reads ahead, which makes it seven times as fast; the third result, of the
    bytes read so, is only there to keep the compiler from leaving that out.
    """
    at = start
    count = 0
    touched = np.uint8(0)
    while count < len(offsets):
        length = _frame(data, at, big, infos)
        if length <= 0:
            break
        offsets[count] = at
        lengths[count] = length
        count += 1
        for line in range(at + AHEAD, min(at + AHEAD + length, len(data)), CACHE_LINE):
            touched |= data[line]
        at += length
    return count, at, np.int64(touched)


@kernel()
def find_chain(data: Octets, start: int, big: bool, infos: Mask, followers: int) -> int:
    """Return the first place from ``start`` on of a record that as many others follow, or all that the data hold; else -1."""
    for place in range(start, len(data)):
        at = place
        for _ in range(followers + 1):
            length = _frame(data, at, big, infos)
            if length <= 0:
                break
            at += length
        if at > place and length >= 0:
            return place
    return -1


@inner
def _header_problems(data: Octets, at: int, limit: int, name_end: int) -> int:
    """Return what keeps a header from being read."""
    problems = 0
    if data[at + FRAME] != HEADER:
        problems |= NO_HEADER
    if name_end <= at + NAME_AT or name_end > limit:
        problems |= HEADER_LENGTH
    if data[at + 2 * FRAME] != INDICATOR:
        problems |= NO_INDICATOR
    return problems


@inner
def _field_problems(data: Octets, at: int, name_end: int, kind: int, data_length: int) -> int:
    """Return what is wrong with the fields of a header."""
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
    if kind & WITHOUT_COLUMNS and partition & FIELD_COMP:
        problems |= MISTYPED
    unlisted = kind & CHANGE and data_length and not partition & FIELD_COMP
    if unlisted and not kind & OTHER_LAYOUT:
        problems |= LAYOUT
    key = data[at + SYSTEM_KEY_AT]
    if key and kind & CHANGE and (key not in (4, 8) or key > data_length):
        problems |= SYSTEM_KEY_SIZE
    if partition & BY_TABLE:
        if name_end != at + NAME_AT + (4 if partition & BY_PARTITION else 2):
            problems |= INDEX_AREA
    elif data[name_end - 1] != 0:
        problems |= NAME_END
    return problems


@inner
def _marks(data: Octets, at: int, kind: int, data_length: int) -> int:
    """Return what a record of rows has that few have."""
    marks = UNDO if data[at + UNDO_AT] else 0
    if kind & CHANGE and data[at + SYSTEM_KEY_AT]:
        marks |= SYSTEM_KEY
    if kind & CHANGE and data_length and not data[at + 9] & FIELD_COMP:
        marks |= UNLISTED
    return marks


@inner
def _read_fields(data: Octets, at: int, big: bool, r: int, small: Octets, longs: Longs) -> None:
    """Write the fields of a header that is as long as the shortest."""
    count = len(small) // SMALL_COLUMNS
    small[IO_TYPE * count + r] = data[at + 14]
    small[IMAGE_CODE * count + r] = data[at + 11]
    small[PARTITION * count + r] = data[at + 9]
    small[CONTINUED * count + r] = data[at + 40]
    small[MARKS * count + r] = 0
    indicator = data[at + 36]
    if indicator > 3 and data[at + 32] <= 3:
        indicator = data[at + 32]  # where one printed 11.2.1.0.1 record has it (trail format §5)
    small[TRANSACTION * count + r] = indicator
    longs[IO_TIME * count + r] = _long(data, at + 16, big)
    longs[STATED_LENGTH * count + r] = _half(data, at + 12, big)


@inner
def _walk_parts(data: Octets, place: int, limit: int, big: bool) -> tuple[int, ...]:
    """Return what is wrong with the parts of a record, and begin and end of D, T and U.

    D, T and U come in this order, each at most once, and there are no others.
    """
    problems = 0
    rank = 0
    seen = 0
    data_start = data_stop = place
    tokens_start = tokens_stop = user_start = user_stop = limit
    while place < limit:
        code = data[place]
        start = min(place + FRAME, limit)
        stop = place + FRAME + _half(data, place + 2, big)
        if stop > limit:
            problems |= PART_OVER
            stop = limit
        own = 1 if code == DATA else 2 if code == GGS_TOKENS else 3 if code == USER_TOKENS else 0
        if own <= rank:
            problems |= EXTRA_PART
        rank = max(rank, own)
        if not seen & (1 << own):
            if own == 1:
                data_start, data_stop = start, stop
                if data[place + 1] != NORMAL:
                    problems |= DATA_INFO
                if start == stop:
                    problems |= EMPTY_DATA
            elif own == 2:
                tokens_start, tokens_stop = start, stop
            elif own == 3:
                user_start, user_stop = start, stop
        seen |= 1 << own
        place = stop
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
    """Write header fields, the places of parts and problems of records; return how many have a problem.

    ``small`` and ``longs`` hold ``SMALL_COLUMNS`` and ``LONG_COLUMNS`` columns, one after another. A part that a record does
    not have is empty; one that runs over its record ends with it. Returns ``OUTSIDE`` where a record is not within the data.
    """
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
            name_end = at + 2 * FRAME + _half(data, at + 6, big)
            problems = _header_problems(data, at, limit, name_end)
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
            problems = _field_problems(data, at, name_end, kind, data_length)
            small[MARKS * count + r] = _marks(data, at, kind, data_length)
            if small[TRANSACTION * count + r] > 3:
                problems |= TRANS_IND
            if data_length and name_end + FRAME + data_length > limit:
                problems |= DATA_OVER
            parts = _walk_parts(data, name_end, limit, big)
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


@inner
def _same_bytes(data: Octets, one: int, two: int, size: int) -> bool:
    for k in range(0, size - 7, 8):
        if load8(data, one + k) != load8(data, two + k):
            return False
    for k in range(size & ~7, size):
        if data[one + k] != data[two + k]:
            return False
    return True


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
    """Write the number of each record's name, and the first record of each name; return how many names there are.

    Names are numbered in order of appearance; the number of a record that is not ``named`` is -1. A name is the bytes of the name
    area, or of the table index that is there in its place. ``slots`` is a hash table, all -1,
    of a power of two of slots; returns ``CROWDED`` where names fill more than half of it.
    """
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
    by_index = partitions[one] & BY_TABLE
    if by_index != partitions[two] & BY_TABLE:
        return False
    size = name_ends[one] - offsets[one] - NAME_AT
    if by_index:
        size = np.int64(2)
    elif size != name_ends[two] - offsets[two] - NAME_AT:
        return False
    return _same_bytes(data, offsets[one] + NAME_AT, offsets[two] + NAME_AT, size)


@kernel(writes=("starts", "ends", "faults"))
def find_token(
    data: Octets,
    area_starts: Longs,
    area_ends: Longs,
    big: bool,
    code: int,
    starts: Longs,
    ends: Longs,
    faults: Mask,
) -> int:
    """Write where the first token of an id lies in each area, -1 where it has none.

    ``faults`` are the areas that tokens do not fill exactly; returns how many these are.
    """
    faulty = 0
    for r in range(len(area_starts)):
        place, limit = area_starts[r], area_ends[r]
        starts[r] = -1
        ends[r] = -1
        faults[r] = False
        if place < 0 or limit > len(data):
            return OUTSIDE
        while place < limit:
            start = place + FRAME
            stop = limit + 1 if start > limit else start + _half(data, place + 2, big)
            if stop > limit:
                faulty += 1
                faults[r] = True
                break
            if data[place] == code and starts[r] < 0:
                starts[r] = start
                ends[r] = stop
            place = stop
    return faulty


@kernel(writes=("owners", "codes", "starts", "ends"))
def list_tokens(
    data: Octets,
    area_starts: Longs,
    area_ends: Longs,
    big: bool,
    groups: Longs,
    owners: Longs,
    codes: Longs,
    starts: Longs,
    ends: Longs,
) -> tuple[int, int, int]:
    """Write the tokens of records, by group and then by id; of an id that a group has twice, the first.

    ``groups`` is the group of each record, ascending; records of a negative one are left out. Returns the number of tokens, and
    record and place of a token that runs over its area; -1 where there is none.
    """
    count = 0
    first = 0  # token of the group
    for r in range(len(groups)):
        place, limit = area_starts[r], area_ends[r]
        if groups[r] < 0 or place < 0 or limit > len(data):
            continue
        if count > first and owners[count - 1] != groups[r]:
            first = count
        while place < limit:
            start = place + FRAME
            stop = limit + 1 if start > limit else start + _half(data, place + 2, big)
            if stop > limit:
                return count, r, place
            code = np.int64(data[place])
            slot = count
            while slot > first and codes[slot - 1] > code:
                slot -= 1
            if slot == first or codes[slot - 1] != code:
                for k in range(count, slot, -1):
                    codes[k], starts[k], ends[k] = codes[k - 1], starts[k - 1], ends[k - 1]
                owners[count] = groups[r]
                codes[slot], starts[slot], ends[slot] = code, start, stop
                count += 1
            place = stop
    return count, -1, -1


@kernel(writes=("starts", "ends", "nulls", "leading"))
def carry_tokens(
    data: Octets,
    area_starts: Longs,
    area_ends: Longs,
    big: bool,
    ids: Longs,
    indicators: Octets,
    is_open: bool,
    starts: Longs,
    ends: Longs,
    nulls: Mask,
    leading: Longs,
) -> int:
    """Write where each record's tokens of some ids lie, by id: its own first one of an id, or that of its transaction.

    ``nulls`` are the records without one: of a transaction that begins without the token, and of one that is open before the
    first record, up to a token. ``leading`` is how many the latter are; they come first. Returns the first area that tokens do
    not fill exactly, or -1.
    """
    count = len(area_starts)
    for i in range(len(ids)):
        leading[i] = 0
    for r in range(count):
        begins = not is_open or indicators[r] == 0 or indicators[r] == 3
        is_open = indicators[r] < 2
        place, limit = area_starts[r], area_ends[r]
        if place < 0 or limit > len(data):
            return r
        for i in range(len(ids)):
            starts[i * count + r] = -1
        while place < limit:
            start = place + FRAME
            stop = limit + 1 if start > limit else start + _half(data, place + 2, big)
            if stop > limit:
                return r
            for i in range(len(ids)):
                slot = i * count + r
                if data[place] == ids[i] and starts[slot] < 0:
                    starts[slot], ends[slot], nulls[slot] = start, stop, False
            place = stop
        for i in range(len(ids)):
            slot = i * count + r
            if starts[slot] >= 0:
                continue
            if begins or r == 0:
                starts[slot], ends[slot], nulls[slot] = 0, 0, True
            else:
                starts[slot], ends[slot] = starts[slot - 1], ends[slot - 1]
                nulls[slot] = nulls[slot - 1]
            if not begins and leading[i] == r:
                leading[i] += 1
    return -1
