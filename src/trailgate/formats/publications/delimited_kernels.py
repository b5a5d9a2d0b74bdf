"""Header fields of delimited publications: identifiers that are not as they should be, and log positions of commits."""

from __future__ import annotations

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.kernels.compiled import kernel


@kernel()
def first_unusual(
    data: Octets, starts: Offsets, ends: Offsets, first: Longs, last: int, zero: int, text: Octets
) -> int:
    """Return the first record that does not begin with a number and then this text, or has no number in its field ``last``; -1 for none.

    ``zero`` is the first one of the digits, of which that field has at most nine.
    """
    for row in range(len(first)):
        field = first[row]
        if field < 0 or field + last >= len(starts) or last < 1:
            return row
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
def before_ids(
    data: Octets, offsets: Offsets, ids: Octets, id_offsets: Offsets, point: int, ends: Longs
) -> None:
    """Write where each text ends without a point and the row's id at its end; where it does not end so, where the text ends."""
    for row in range(len(ends)):
        start, end = offsets[row], offsets[row + 1]
        begin = id_offsets[row]
        size = id_offsets[row + 1] - begin
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
def mark_borders(data: Octets, offsets: Offsets, message: Longs, marks: Mask) -> None:
    """Mark the records on either side of a border between messages that have the same text: a transaction continues there."""
    for row in range(1, len(message)):
        if message[row] == message[row - 1]:
            continue
        beside, at, end = offsets[row - 1], offsets[row], offsets[row + 1]
        if end - at != at - beside or beside < 0 or end > len(data):
            continue
        same = True
        for byte in range(end - at - 1, -1, -1):  # ids differ at their ends
            if data[beside + byte] != data[at + byte]:
                same = False
                break
        if same:
            marks[row - 1] = marks[row] = True
