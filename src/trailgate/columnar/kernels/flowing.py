"""Texts measured and laid out in lines of a width."""

from __future__ import annotations

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.kernels.compiled import kernel

GAP = 2  # columns between two texts of a line
JOINED, SPACED, BROKEN = 0, 1, 2  # what is before a text: nothing, a gap, or a line break


@kernel(writes=("sizes",))
def measure_ascii(data: Octets, offsets: Offsets, sizes: Longs) -> int:
    """Write how many columns each text takes, -1 where it is not printable ASCII; return how many those are."""
    others = 0
    for row in range(len(sizes)):
        size = offsets[row + 1] - offsets[row]
        for place in range(offsets[row], offsets[row + 1]):
            if data[place] < 32 or data[place] > 126:
                size = -1
                break
        sizes[row] = size
        others += size < 0
    return others


@kernel(writes=("before", "trimmed", "fits"))
def flow_texts(
    sizes: Longs,
    starts: Longs,
    width: int,
    indent: int,
    before: Octets,
    trimmed: Octets,
    fits: Octets,
) -> int:
    """Write what is before each text of each row, and which text ends its row's first line; return how many rows do not fit.

    A row does not fit where a text is longer than a line, or has no size.
    """
    wrong = 0
    for row in range(len(fits)):
        used = indent
        begun = False
        first = True
        fits[row] = 1
        for part in range(starts[row], starts[row + 1]):
            size = sizes[part]
            before[part] = JOINED
            if begun and used + GAP + size > width:
                before[part] = BROKEN
                used = indent
                if first:
                    trimmed[part - 1] = 1
                first = False
            elif begun:
                before[part] = SPACED
                used += GAP
            if size < 0 or used + size > width:
                fits[row] = 0
                wrong += 1
                break
            used += size
            begun = True
        if begun and first:
            trimmed[starts[row + 1] - 1] = 1
    return wrong
