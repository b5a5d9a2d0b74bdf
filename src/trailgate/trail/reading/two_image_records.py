"""Key updates and unified updates: before and after image in one record's data.

The data begin with the length of the before image (trail format §10.4): a u16 in type 115, a u32
in type 117, and in 134 and 135 whichever of the two makes both images fit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trailgate.arrays import Longs
from trailgate.trail.format.record_header import Source, Spans
from trailgate.trail.format.record_types import Prefix
from trailgate.trail.reading.cells import fits_as_image


def split_images(
    source: Source,
    table: tuple[str, int],
    images: tuple[Spans, Spans],
    prefixes: npt.NDArray[np.uint8],
) -> None:
    """Set the before and after spans of the rows with a prefix; both hold the whole data there.

    ``table`` is a name and a number of columns.
    """
    befores, afters = images
    for prefix in np.unique(prefixes).tolist():
        if prefix == Prefix.NONE:
            continue
        rows = np.flatnonzero(prefixes == prefix)
        data = befores.take(rows)
        width, middle = _split(source, table, data, Prefix(prefix))
        befores.starts[rows] = data.starts + width
        befores.ends[rows] = afters.starts[rows] = middle


def _split(
    source: Source, table: tuple[str, int], data: Spans, prefix: Prefix
) -> tuple[Longs, Longs]:
    """Return the bytes of each prefix, and where the before images end."""
    if prefix is not Prefix.EITHER:
        middle = _middles(source, data, int(prefix))
        bad = middle < 0
        if bad.any():
            row = int(np.argmax(bad))
            problem = "a key update's before image runs over its data area"
            raise source.error(problem, (int(data.starts[row]), int(data.ends[row])))
        return np.full(len(middle), int(prefix), np.int64), middle
    # Assumed: the one of both widths for which both images are lists of columns that end
    # exactly at their borders; the short one where both do.
    short, long = (_middles(source, data, width) for width in (Prefix.SHORT, Prefix.LONG))
    fits_short = _both_fit(source, table, data, (short, Prefix.SHORT))
    fits_long = _both_fit(source, table, data, (long, Prefix.LONG))
    neither = ~(fits_short | fits_long)
    if neither.any():
        row = int(np.argmax(neither))
        problem = "a unified update's images fit neither a u16 nor a u32 length"
        raise source.error(problem, (int(data.starts[row]), int(data.ends[row])), table=table[0])
    width = np.where(fits_short, int(Prefix.SHORT), int(Prefix.LONG)).astype(np.int64)
    return width, np.where(fits_short, short, long)


def _middles(source: Source, data: Spans, width: int) -> Longs:
    """Return where the before images end for a prefix of that width; -1 where they cannot."""
    whole = data.ends - data.starts >= width
    words = source.order.words(source.data, f"u{width}")
    starts = np.where(whole, data.starts, 0)
    middle = starts + width + words[starts].astype(np.int64)
    return np.where(whole & (middle <= data.ends), middle, -1)


def _both_fit(
    source: Source, table: tuple[str, int], data: Spans, split: tuple[Longs, int]
) -> npt.NDArray[np.bool_]:
    middle, width = split
    possible = middle >= 0
    rows = np.flatnonzero(possible)
    starts, ends, middles = data.starts[rows] + width, data.ends[rows], middle[rows]
    _, columns = table
    good = fits_as_image(source, Spans(starts, middles), columns)
    good &= fits_as_image(source, Spans(middles, ends), columns)
    possible[rows] = good
    return possible
