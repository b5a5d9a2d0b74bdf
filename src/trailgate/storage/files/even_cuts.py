"""Where input is cut into parts of one size, so that no core is idle while another reads the last one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from trailgate.errors import OptionError


def even_step(size: int, most: int) -> int:
    """Return the size of parts of a whole, as few as are at most that large, and of about one size."""
    parts = max(1, -(-size // most))
    return max(1, -(-size // parts))


def even_cuts(sizes: Sequence[int], split_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield where parts begin, but for the first: the index of a file and an offset in it.

    There are as few parts as have at most ``split_bytes`` each. Raises OptionError.
    """
    if split_bytes < 1:
        raise OptionError(f"a split of {split_bytes} bytes is too small")
    ends = list(accumulate(sizes))
    total = ends[-1] if ends else 0
    parts = -(-total // split_bytes)
    for part in range(1, parts):
        border = total * part // parts
        index = bisect_right(ends, border)
        yield index, border - (ends[index] - sizes[index])
