"""Kernels for the header fields of delimited publications: validation, transaction ids, and message boundaries."""

from __future__ import annotations

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.compiling import kernel


@kernel()
def first_unusual(
    data: Octets, starts: Offsets, ends: Offsets, first: Longs, last: int, zero: int, text: Octets
) -> int:
    """Return the first record of delimited publications whose header is not as usual, or -1.

    A usual record begins with a number, then has exactly `text` as its second field (the program's
    identifier), and a number of at most nine digits in the field `last`. `zero` is the byte of the
    digit 0 in the code page.

    Example for last = 11: `10,"IBM","2024122",...,0001` is usual; `10,"D1",...` is not.
    """
    for row in range(len(first)):
        field = first[row]
        if field < 0 or field + last >= len(starts) or last < 1:
            return row
        # The first field and the field `last` must be numbers.
        for number in range(2):
            at_field = field + number * last
            begin, end = np.int64(starts[at_field]), np.int64(ends[at_field])
            if begin < 0 or end > len(data) or end == begin or (number and end - begin > 9):
                return row
            for at in range(begin, end):
                if data[at] < zero or data[at] > zero + 9:
                    return row
        begin = np.int64(starts[field + 1])
        if ends[field + 1] - begin != len(text) or begin < 0 or begin + len(text) > len(data):
            return row
        for at in range(len(text)):
            if data[begin + at] != text[at]:
                return row
    return -1


@kernel(writes=("ends",))
def trim_ids(
    data: Octets, offsets: Offsets, ids: Octets, id_offsets: Offsets, point: int, ends: Longs
) -> None:
    """Write to `ends` where the CSN of each row of a delimited publication ends without its suffix: a point and the row's transaction id.

    A string without this suffix ends at its own end. `point` is the byte of the point. Example: the
    CSN "0A1.tx7" with the id "tx7" ends after "0A1".
    """
    for row in range(len(ends)):
        start, end = offsets[row], offsets[row + 1]
        begin = id_offsets[row]
        size = id_offsets[row + 1] - begin
        # Where the point before the id must be.
        cut = end - size - 1
        same = (
            size > 0 and begin >= 0 and begin + size <= len(ids) and start >= 0 and end <= len(data)
        )
        same = same and cut >= start and data[cut] == point
        if same:
            for at in range(size):
                same = same and data[cut + 1 + at] == ids[begin + at]
        ends[row] = cut if same else end


@kernel(writes=("marks",))
def mark_boundaries(data: Octets, offsets: Offsets, message: Longs, marks: Mask) -> None:
    """Mark consecutive delimited records that are in different messages, but in the same transaction.

    `message` is the message of each record. The strings in `data` are the records' transaction ids.
    """
    for row in range(1, len(message)):
        if message[row] == message[row - 1]:
            continue
        beside, at, end = offsets[row - 1], offsets[row], offsets[row + 1]
        # Ids of different lengths are different. `beside` is the start of the id before.
        if end - at != at - beside or beside < 0 or end > len(data):
            continue
        same = True
        for byte in range(
            end - at - 1, -1, -1
        ):  # backwards, because ids mostly differ at their ends
            if data[beside + byte] != data[at + byte]:
                same = False
                break
        if same:
            marks[row - 1] = marks[row] = True
