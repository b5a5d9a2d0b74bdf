"""Loops over the records of a chunk: what there is of each table, kind and transaction, and of each time."""

from __future__ import annotations

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.kernels.compiled import kernel


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
    """Count the operations of records: by table and kind, with their bytes and times, and by transaction.

    An operation is a record of the role ``change`` that is not the before image of an ``update``. Table -1 is counted in the last slot of tables, and ``kinds`` has
    ``all_kinds`` slots for each, the last for an unknown kind. Of a record that is not an operation, or has a time beyond the bounds, ``kind`` and ``slot`` are -1. ``sizes`` are bytes of all records.

    ``earliest`` and ``latest`` are of times within the bounds, and are ``to_time`` and ``from_time`` before; what counts is 0 before. Returns how many operations there
    are, their earliest and latest time, and the last one within the bounds, -1 for none.
    """
    none = len(earliest) - 1
    count, low, high, timely = 0, 0, 0, -1
    for row in range(len(role)):
        own = table[row] if table[row] >= 0 else none
        sizes[own] += length[row]
        kind[row] = slot[row] = -1
        if role[row] != change or (is_before[row] and io_type[row] == update):
            continue
        time, number, code = io_time[row], transaction[row], int(kind_of[io_type[row]])
        low = time if count == 0 or time < low else low
        high = time if count == 0 or time > high else high
        count += 1
        kinds[own * all_kinds + code] += 1
        if operations[number] == 0:
            first[number] = time
        operations[number] += 1
        lengths_of[number] += length[row]
        last[number] = time
        if from_time <= time <= to_time:
            kind[row] = code if code < all_kinds - 1 else -1
            slot[row], timely = own, time
            earliest[own] = min(earliest[own], time)
            latest[own] = max(latest[own], time)
    return count, low, high, timely


@kernel(writes=("begins", "places", "counts"))
def count_times(
    time: Longs, slot: Longs, first: Longs, width: Longs, bins: int, begins: Longs, places: Longs, counts: Longs
) -> None:  # fmt: skip
    """Count times, each in the bin of its slot's row of ``counts``; those of slot -1 are left out.

    ``first`` is the number of a row's first bin, in widths. ``begins`` and ``places`` hold the bin that a slot was counted in last, as times are alike that follow each
    other; ``begins`` is so low before that no time is in its bin.
    """
    for row in range(len(time)):
        own = slot[row]
        if own < 0:
            continue
        if not 0 <= time[row] - begins[own] < width[own]:
            number = time[row] // width[own]
            begins[own] = number * width[own]
            places[own] = own * bins + number - first[own]
        counts[places[own]] += 1
