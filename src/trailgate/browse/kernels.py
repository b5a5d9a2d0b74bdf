"""Kernels that count the records of a chunk by table, operation type, transaction and time."""

from __future__ import annotations

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.compiling import kernel


@kernel(
    writes=("kind", "slot", "kinds", "sizes", "earliest", "latest", "operations", "lengths_of", "first", "last")
)  # fmt: skip
def count_records(
    role: Octets,
    is_before: Mask,
    io_type: Octets,
    io_time: Longs,
    length: Longs,
    table: Longs,
    transaction: Longs,
    change: int,
    update: int,
    from_time: int,
    to_time: int,
    kind_of: Octets,
    all_kinds: int,
    kind: Longs,
    slot: Longs,
    kinds: Longs,
    sizes: Longs,
    earliest: Longs,
    latest: Longs,
    operations: Longs,
    lengths_of: Longs,
    first: Longs,
    last: Longs,
) -> tuple[int, int, int, int]:
    """Count the operations of records: by table and type with sizes and times, and by transaction.

    An operation is a record of the role ``change`` that is not the before image of an ``update``.

    Per table: ``kinds`` counts operations by type (row by row, ``all_kinds`` slots for each table,
    the last for unknown types), ``sizes`` the bytes of all records, and ``earliest`` and ``latest``
    the times within the bounds. Records without a table (-1) are counted in the last slot.

    Per transaction: ``operations``, ``lengths_of`` (bytes), and the times of the ``first`` and
    ``last`` operation.

    Per record: ``kind`` and ``slot`` are the operation type and the table, for ``count_times``.
    They are -1 if the record is not an operation or its time is out of bounds.

    Before the call, counts are 0, ``earliest`` is ``to_time`` and ``latest`` is ``from_time``.
    Returns the number of operations, their earliest and latest time, and the last time within the
    bounds, or -1.

    Example: an insert of 100 bytes and the two images of an update of 60 bytes each, all in table 0
    and transaction 1, are two operations: sizes[0] = 220, operations[1] = 2, and kind = [insert,
    -1, update].
    """
    none = len(earliest) - 1
    count, low, high, timely = 0, 0, 0, -1
    for row in range(len(role)):
        table_slot = table[row] if table[row] >= 0 else none
        sizes[table_slot] += length[row]
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
        lengths_of[number] += length[row]
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
    """Count times in bins: row ``slot[i]`` of ``counts`` gets one more in the bin of ``time[i]``.

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
