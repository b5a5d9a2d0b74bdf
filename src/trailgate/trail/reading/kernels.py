"""The loops over the operations of a trail, and over the tokens of its records.

`describe_operations` finds the type of each operation, whether it begins or ends a transaction, and
the spans of its images. The loops for tokens find one token or all tokens in the token areas of
records, and carry tokens such as TRANID forward to the later records of their transactions.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.compiling import kernel
from trailgate.model.changes import BEGIN, END, MIDDLE, WHOLE
from trailgate.trail.format.record_types import IO_DELETE, IO_TRUNCATE
from trailgate.trail.format.tokens import FRAME
from trailgate.trail.records.kernels import OUTSIDE, read_half

# The columns that ``describe_operations`` writes: first the u8 columns, then the int64 columns.
OP_TYPE, TX_IND, PREFIX, HAS_BEFORE, HAS_AFTER = range(5)
OP_TIME, BEFORE_START, BEFORE_STOP, AFTER_START, AFTER_STOP = range(5)
SMALL_COLUMNS: Final = 5
LONG_COLUMNS: Final = 5


class OperationArrays(NamedTuple):
    """The records of each operation's two images, and whether it begins or ends a transaction."""

    first: Longs
    after: Longs
    begins: Mask
    ends: Mask


class DescribedRecords(NamedTuple):
    """The types, times and data spans of parsed trail records, for ``describe_operations``."""

    io_type: Octets
    io_time: Longs
    data_starts: Longs
    data_ends: Longs


@kernel(writes=("small", "longs"))
def describe_operations(
    rows: Longs,
    operations: OperationArrays,
    records: DescribedRecords,
    op_types: Octets,
    prefixes: Octets,
    small: Octets,
    longs: Longs,
) -> tuple[int, int, int, int]:
    """Write the type, transaction indicator, time and image spans of some operations of a trail.

    ``rows`` selects operations. ``op_types`` and ``prefixes`` have an item for each record type
    (IOType). ``small`` and ``longs`` are ``SMALL_COLUMNS`` and ``LONG_COLUMNS`` columns one after
    another. Returns the number of operations with a before image, with an after image and with both
    in one record, and the record of a truncate that has data, or -1.
    """
    # Example: a delete has a before image only, an insert an after image only. An update of two
    # records (first != after) and a key update (prefix > 0: both images in one record) have both.
    # begins, ends of an operation become TX_IND: (1, 1) WHOLE, (1, 0) BEGIN, (0, 1) END, (0, 0) MIDDLE.
    first, after, begins, ends = operations
    io_type, io_time, data_starts, data_ends = records
    count = len(rows)
    befores = afters = prefixed = 0
    filled = -1
    for r in range(count):
        row = rows[r]
        one, two = first[row], after[row]
        kind = io_type[one]
        deletes, truncates = kind == IO_DELETE, kind == IO_TRUNCATE
        has_before = deletes or one != two or prefixes[kind] > 0
        has_after = not deletes and not truncates
        if begins[row]:
            small[TX_IND * count + r] = WHOLE if ends[row] else BEGIN
        else:
            small[TX_IND * count + r] = END if ends[row] else MIDDLE
        small[OP_TYPE * count + r] = op_types[kind]
        small[PREFIX * count + r] = prefixes[kind]
        small[HAS_BEFORE * count + r] = has_before
        small[HAS_AFTER * count + r] = has_after
        longs[OP_TIME * count + r] = io_time[one]
        longs[BEFORE_START * count + r] = data_starts[one]
        longs[BEFORE_STOP * count + r] = data_ends[one]
        longs[AFTER_START * count + r] = data_starts[two]
        longs[AFTER_STOP * count + r] = data_ends[two]
        if has_before:
            befores += 1
        if has_after:
            afters += 1
        if prefixes[kind]:
            prefixed += 1
        if truncates and filled < 0 and data_ends[one] > data_starts[one]:
            filled = one
    return befores, afters, prefixed, filled


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
    """Write the payload span of the first token with an id in each area, or -1 if it has none.

    ``faults`` marks the areas that tokens do not fill exactly. Returns their number.
    """
    # Example: looking for 36 in the area 4C 00 00 01 31 | 36 00 00 02 32 33 finds [9, 11). A length beyond the
    # area ends the walk, and so does a frame that does not fit: ``stop`` is then set beyond the limit.
    faulty = 0
    for r in range(len(area_starts)):
        offset, limit = area_starts[r], area_ends[r]
        starts[r] = -1
        ends[r] = -1
        faults[r] = False
        if offset < 0 or limit > len(data):
            return OUTSIDE
        while offset < limit:
            start = offset + FRAME
            stop = limit + 1 if start > limit else start + read_half(data, offset + 2, big)
            if stop > limit:
                faulty += 1
                faults[r] = True
                break
            if data[offset] == code and starts[r] < 0:
                starts[r] = start
                ends[r] = stop
            offset = stop
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
    """Write the GGS tokens of records, sorted by group and then by id. If a group repeats an id, its first token counts.

    ``groups`` is the ascending group of each record, for example its operation; records with a
    negative group are skipped.
    Returns the number of tokens, and the record and offset of the first token that exceeds its
    area, or -1 and -1.
    """
    # Example: one group with a record of the tokens 36, 74 and a record of 4C, 36 becomes the ids
    # 36, 4C, 74: insertion sort, since a group has few tokens. The second 36 is dropped.
    count = 0
    first = 0  # the group's first token
    for r in range(len(groups)):
        offset, limit = area_starts[r], area_ends[r]
        if groups[r] < 0 or offset < 0 or limit > len(data):
            continue
        if count > first and owners[count - 1] != groups[r]:
            first = count
        while offset < limit:
            start = offset + FRAME
            stop = limit + 1 if start > limit else start + read_half(data, offset + 2, big)
            if stop > limit:
                return count, r, offset
            code = np.int64(data[offset])
            slot = count
            while slot > first and codes[slot - 1] > code:
                slot -= 1
            if slot == first or codes[slot - 1] != code:
                for k in range(count, slot, -1):
                    codes[k], starts[k], ends[k] = codes[k - 1], starts[k - 1], ends[k - 1]
                owners[count] = groups[r]
                codes[slot], starts[slot], ends[slot] = code, start, stop
                count += 1
            offset = stop
    return count, -1, -1


class CarriedArrays(NamedTuple):
    """The spans of the carried tokens, one column per id, and the records without a token (``nulls``).

    ``leading`` counts, per id, the null records at the front that continue a transaction from
    before the first record.
    """

    starts: Longs
    ends: Longs
    nulls: Mask
    leading: Longs


@kernel(writes=("into",))
def carry_tokens(
    data: Octets,
    area_starts: Longs,
    area_ends: Longs,
    big: bool,
    ids: Longs,
    indicators: Octets,
    is_open: bool,
    into: CarriedArrays,
) -> int:
    """Write the token of each id for each record: its own, or the last one earlier in its transaction.

    A record is null if its transaction has had no such token yet. ``is_open``: the first record may
    continue a transaction from before it; the caller knows the tokens of its null records. Returns
    the first area that tokens do not fill exactly, or -1.
    """
    # Example: TransInd 1 | 0 1 2 | 3 with a TRANID token "a" in row 1 only. Row 0 continues an earlier
    # transaction: null, leading = 1. Rows 1, 2 and 3 have "a". Row 4 is a transaction without
    # the token: null, but not leading.
    starts, ends, nulls, leading = into.starts, into.ends, into.nulls, into.leading
    count = len(area_starts)
    for i in range(len(ids)):
        leading[i] = 0
    for r in range(count):
        begins = not is_open or indicators[r] == 0 or indicators[r] == 3
        is_open = indicators[r] < 2
        offset, limit = area_starts[r], area_ends[r]
        if offset < 0 or limit > len(data):
            return r
        for i in range(len(ids)):
            starts[i * count + r] = -1
        while offset < limit:
            start = offset + FRAME
            stop = limit + 1 if start > limit else start + read_half(data, offset + 2, big)
            if stop > limit:
                return r
            for i in range(len(ids)):
                slot = i * count + r
                if data[offset] == ids[i] and starts[slot] < 0:
                    starts[slot], ends[slot], nulls[slot] = start, stop, False
            offset = stop
        for i in range(len(ids)):
            slot = i * count + r
            if starts[slot] >= 0:
                continue
            if begins or r == 0:
                starts[slot], ends[slot], nulls[slot] = 0, 0, True
            else:
                # As in the record before: slots of one id are neighbors.
                starts[slot], ends[slot] = starts[slot - 1], ends[slot - 1]
                nulls[slot] = nulls[slot - 1]
            # All rows so far are leading ones, and this row has no token either.
            if not begins and leading[i] == r:
                leading[i] += 1
    return -1
