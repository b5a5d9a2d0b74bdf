"""Key updates and unified updates: before and after image in one record's data.

The data begin with the length of the before image (trail format §10.4): a u16 in type 115, a u32
in type 117, and in 134 and 135 whichever of the two makes both images fit.
"""

from __future__ import annotations

from trailgate.arrays import Octets
from trailgate.trail.format.record_types import Prefix
from trailgate.trail.records.trail_bytes import Spans, TrailBytes
from trailgate.trail.values.cell_places import split_images

# Prefix.EITHER is assumed: the one of both widths for which both images are lists of columns that end exactly at their
# borders; the short one where both do.


def both_images(
    source: TrailBytes, areas: Spans, kinds: Octets, name: str, columns: int
) -> tuple[Spans, Spans]:
    """Return where before and after images lie in these areas; both the whole area where it holds one image.

    ``kinds`` are the ``Prefix`` of each area's record; ``name`` and ``columns`` are the table's.
    """
    widths, borders, bad = split_images(source, areas, kinds, columns)
    if bad >= 0:
        span = (int(areas.starts[bad]), int(areas.ends[bad]))
        if kinds[bad] == Prefix.EITHER:
            problem = "a unified update's images fit neither a u16 nor a u32 length"
            raise source.error(problem, span, table=name)
        raise source.error("a key update's before image runs over its data area", span)
    starts = areas.starts + widths
    afters = starts.copy()
    afters[widths > 0] = borders[widths > 0]
    return Spans(starts, borders), Spans(afters, areas.ends)
