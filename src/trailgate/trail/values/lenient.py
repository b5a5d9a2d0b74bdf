"""Decode a column that may have bad values: these become null, and each has its problem in a second array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from trailgate.errors import DecodeError, Where
from trailgate.trail.values.codec import TrailCells


def decode_leniently(
    decode: Callable[[TrailCells], pa.Array], cells: TrailCells
) -> tuple[pa.Array, pa.Array | None]:
    """Decode a column's trail values.

    Returns them and the problem of each (null if it is good), or None if all are good.

    A decoder reports only the first bad value, so ever smaller parts are tried: half as many values
    after a failure, twice as many after a success. One bad value among n costs about two decodings
    of all n.
    """
    try:
        return decode(cells), None
    except DecodeError:
        pass
    count = len(cells.starts)
    problems: list[str | None] = [None] * count
    parts: list[pa.Array | None] = []  # None for a bad value
    # Example: 8 values of which number 5 is bad. Sizes 8 and 4 at 0: failure, then success; sizes 4, 2 and 1
    # at 4: failure, failure, success; size 2, then 1 at 5: the bad value; 1 and 1 at 6 and 7.
    at, size = 0, count
    while at < count:
        size = min(size, count - at)
        part = slice(at, at + size)
        try:
            parts.append(
                decode(replace(cells, starts=cells.starts[part], lengths=cells.lengths[part]))
            )
        except DecodeError as error:
            if size > 1:
                size //= 2
                continue
            problems[at] = f"{error.problem} ({Where(raw=error.where.raw)})"
            parts.append(None)
            at += 1
        else:
            at, size = at + size, 2 * size
    known = next((part.type for part in parts if part is not None), cells.column.arrow_type)
    values = [pa.nulls(1, known) if part is None else part for part in parts]
    return pa.concat_arrays(values), pa.array(problems, pa.string())
