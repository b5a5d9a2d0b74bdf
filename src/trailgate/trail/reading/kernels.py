"""Loops over operations: what each is, and where its images lie."""

from __future__ import annotations

from typing import Final

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.kernels.compiled import kernel
from trailgate.model.changes import BEGIN, END, MIDDLE, WHOLE
from trailgate.trail.format.record_types import IO_DELETE, IO_TRUNCATE

# Columns that ``describe_operations`` writes: u8 ones and int64 ones.
OP_TYPE, TX_IND, PREFIX, HAS_BEFORE, HAS_AFTER = range(5)
OP_TIME, BEFORE_START, BEFORE_STOP, AFTER_START, AFTER_STOP = range(5)
SMALL_COLUMNS: Final = 5
LONG_COLUMNS: Final = 5


@kernel(writes=("small", "longs"))
def describe_operations(
    rows: Longs,
    first: Longs,
    after: Longs,
    io_type: Octets,
    io_time: Longs,
    begins: Mask,
    ends: Mask,
    data_starts: Longs,
    data_ends: Longs,
    op_types: Octets,
    prefixes: Octets,
    small: Octets,
    longs: Longs,
) -> tuple[int, int, int, int]:
    """Write type, transaction indicator, time and the areas of both images of some operations.

    ``rows`` are indexes of ``first``, ``after``, ``begins`` and ``ends``, of which the former two are indexes of records.
    ``small`` and ``longs`` hold ``SMALL_COLUMNS`` and ``LONG_COLUMNS`` columns, one after another. Returns how many have
    a before image, an after image, and both in one area; and the record of a truncate that has data, or -1.
    """
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
