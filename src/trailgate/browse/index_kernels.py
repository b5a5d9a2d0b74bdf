"""Kernels that count the records of a trail's chunk by table, operation type, transaction and time, for the index."""

from __future__ import annotations

from typing import NamedTuple

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.compiling import kernel


class CountedRecords(NamedTuple):
    """The columns of a chunk's records that are needed to count operations. ``table`` is -1 for a record without one."""

    role: Octets
    is_before: Mask
    io_type: Octets
    io_time: Longs
    length: Longs
    table: Longs
    transaction: Longs


class TableCounts(NamedTuple):
    """The counts of a chunk's operations by table; the last element of each array is for records without a table.

    ``kinds`` is a flat array with a row for each table, which has one count for each operation
    type.
    """

    kinds: Longs
    sizes: Longs
    earliest: Longs
    latest: Longs


class TransactionExtents(NamedTuple):
    """The size and the times of each transaction within a chunk: one element per transaction.

    ``bytes`` are those of all records of its operations: images, fragments and pieces of large
    objects. ``first`` and ``last`` are the times of the first and the last operation.
    """

    operations: Longs
    bytes: Longs
    first: Longs
    last: Longs


class RecordBins(NamedTuple):
    """The operation type (``kind``) and the table (``slot``) of each record, to count it by time.

    Both are -1 for a record that is not an operation or has a time outside the bounds. ``kind`` is
    also -1 if the type is unknown. For a record without a table, ``slot`` is the number of tables.
    """

    kind: Longs
    slot: Longs


@kernel(writes=("bins", "tables", "transactions"))
def count_records(
    records: CountedRecords,
    is_part: Mask,
    change: int,
    update: int,
    from_time: int,
    to_time: int,
    kind_of: Octets,
    all_kinds: int,
    bins: RecordBins,
    tables: TableCounts,
    transactions: TransactionExtents,
) -> tuple[int, int, int, int]:
    """Count the operations of records for the index, in a compiled loop: by table and type with sizes and times, and by transaction.

    An operation is a record of the role ``change`` that is not the before image of an ``update``.
    ``is_part`` states for each role whether its records are parts of operations.

    Per table: ``kinds`` counts operations by type (``all_kinds`` slots for each table, the last for
    unknown types), ``sizes`` the bytes of all records, and ``earliest`` and ``latest`` the times
    within the bounds. Per transaction: ``bytes`` are those of the records that are parts of its
    operations.

    ``bins`` gets the type and table of each operation whose time is within the bounds ``from_time``
    and ``to_time``, and -1 for other records.

    Before the call, counts are 0, ``earliest`` is ``to_time`` and ``latest`` is ``from_time``.
    Returns the number of operations, their earliest and latest time, and the last time within the
    bounds, or -1.

    Example: an insert of 100 bytes and the two images of an update of 60 bytes each, all in table 0
    and transaction 1, are two operations: sizes[0] = bytes[1] = 220, operations[1] = 2, and kind =
    [insert, -1, update].
    """
    role, is_before, io_type, io_time, length, table, transaction = records
    kind, slot = bins
    kinds, sizes, earliest, latest = tables
    operations, lengths_of, first, last = transactions
    none = len(earliest) - 1
    count, low, high, timely = 0, 0, 0, -1
    for row in range(len(role)):
        table_slot = table[row] if table[row] >= 0 else none
        sizes[table_slot] += length[row]
        if is_part[role[row]]:
            lengths_of[transaction[row]] += length[row]
        kind[row] = slot[row] = -1
        if role[row] != change or (is_before[row] and io_type[row] == update):
            continue
        time, number, code = io_time[row], transaction[row], int(kind_of[io_type[row]])
        low = time if count == 0 or time < low else low
        high = time if count == 0 or time > high else high
        count += 1
        kinds[table_slot * all_kinds + code] += 1
        if operations[number] == 0:
            first[number] = time
        operations[number] += 1
        last[number] = time
        # Damaged times may be anywhere, so only times within the bounds get a bin
        if from_time <= time <= to_time:
            kind[row] = code if code < all_kinds - 1 else -1
            slot[row], timely = table_slot, time
            earliest[table_slot] = min(earliest[table_slot], time)
            latest[table_slot] = max(latest[table_slot], time)
    return count, low, high, timely


@kernel(writes=("begins", "places", "counts"))
def count_times(
    time: Longs, slot: Longs, first: Longs, width: Longs, bins: int, begins: Longs, places: Longs, counts: Longs
) -> None:  # fmt: skip
    """Count times in the bins of histograms, in a compiled loop: row ``slot[i]`` of ``counts`` gets one more in the bin of ``time[i]``.

    Slot -1 is skipped.

    ``width[s]`` is the width of a bin in row s, and ``first[s]`` the number of its first bin (its
    start divided by the width).

    Consecutive times are mostly in the same bin, so ``begins[s]`` and ``places[s]`` remember the
    start of the last bin used by slot s, and its index in ``counts``; no division is needed then.
    Before the first call ``begins`` is so low that no time is in its bin.

    Example: with width 10 and first 4, the time 57 is in bin 57 // 10 - 4 = 1.
    """
    for row in range(len(time)):
        table_slot = slot[row]
        if table_slot < 0:
            continue
        if not 0 <= time[row] - begins[table_slot] < width[table_slot]:
            number = time[row] // width[table_slot]
            begins[table_slot] = number * width[table_slot]
            places[table_slot] = table_slot * bins + number - first[table_slot]
        counts[places[table_slot]] += 1
