"""Loops that measure printed strings, and lay them out in lines of a terminal's width."""

from __future__ import annotations

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.compiling import kernel

JOINED, SPACED, BROKEN = 0, 1, 2  # before a string: nothing, a gap, or a line break
GAP = 2  # columns between two strings of a line


@kernel(writes=("sizes",))
def measure_ascii(data: Octets, offsets: Offsets, sizes: Longs) -> int:
    """Write the number of characters of each text, or -1 if it is not printable ASCII.

    Returns the number of texts that are not printable ASCII.
    """
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
def flow_strings(
    sizes: Longs,
    starts: Longs,
    width: int,
    indent: int,
    before: Octets,
    trimmed: Octets,
    fits: Octets,
) -> int:
    """Lay out each row's strings in lines of ``width``, of which ``indent`` are used before the first string of a line.

    Returns the number of rows that do not fit. Row r has the strings starts[r] to starts[r + 1] -
    1, with their widths in ``sizes``. For each string, ``before`` becomes its separator from the
    string before it: ``JOINED`` (none), ``SPACED`` or ``BROKEN`` (a new line). ``trimmed`` marks
    the string that ends a row's first line. ``fits`` is 0 for a row that does not fit: a string is
    longer than a line, or its size is unknown (-1).
    """
    # Example: strings of 4, 5 and 6 columns, width 12, no indent: the second one is SPACED (4 + 2 + 5 = 11),
    # the third one BROKEN (11 + 2 + 6 exceeds 12), so the second one ends the first line.
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
