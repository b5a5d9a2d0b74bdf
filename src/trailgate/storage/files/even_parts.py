"""Divide files into parts of equal size, so that no core is idle while another reads the last part."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from trailgate.errors import OptionError


def even_part_size(size: int, most: int) -> int:
    """Return the size of each part if a file of ``size`` bytes or records is divided into equal parts.

    There are as few parts as possible, of at most ``most`` bytes or records each.
    """
    # -(-a // b) rounds up: 10 bytes with at most 4 are 3 parts of at most 4 bytes (4, 4 and 2).
    parts = max(1, -(-size // most))
    return max(1, -(-size // parts))


def even_cuts(sizes: Sequence[int], split_bytes: int) -> Iterator[tuple[int, int]]:
    """Divide the concatenation of files into equal parts, of at most ``split_bytes`` bytes each.

    Yields the start of each part except the first one: a file's index and an offset in it. For
    example, two files of 60 bytes in parts of at most 50 bytes: (0, 40) and (1, 20).

    Raises OptionError if ``split_bytes`` is less than 1.
    """
    if split_bytes < 1:
        raise OptionError(f"a split of {split_bytes} bytes is too small")
    ends = list(accumulate(sizes))
    total = ends[-1] if ends else 0
    parts = -(-total // split_bytes)
    for part in range(1, parts):
        # The offset of the boundary in the concatenation of all files, and the file that contains
        # it.
        border = total * part // parts
        index = bisect_right(ends, border)
        yield index, border - (ends[index] - sizes[index])
