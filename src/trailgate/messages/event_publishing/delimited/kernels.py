"""The log position of a commit, out of the commit sequence number that the reader makes."""

from __future__ import annotations

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.kernels.compiled import kernel


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
