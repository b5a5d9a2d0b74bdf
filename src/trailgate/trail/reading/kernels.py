"""The loop over the operations of a trail: it finds their type, whether they begin or end a transaction, and the spans of their images."""

from __future__ import annotations

from typing import Final, NamedTuple

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.compiling import kernel
from trailgate.model.changes import BEGIN, END, MIDDLE, WHOLE
from trailgate.trail.format.record_types import IO_DELETE, IO_TRUNCATE

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
