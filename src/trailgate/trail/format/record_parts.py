"""Where the parts of many records lie, whatever the records are; what is wrong with one is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.trail.format.framing import Records
from trailgate.trail.format.record_header import Source, Spans
from trailgate.trail.format.record_layout import H_FIXED, INDICATOR, NAME_AT, SHORTEST
from trailgate.trail.format.tokens import DATA, FRAME, GGS_TOKENS, HEADER, USER_TOKENS

PROBLEMS: Final = (
    None,
    "the record is too short for its header",
    "the record does not begin with its header (48, then 45)",
    "the record header's length does not fit its record",
    "a part of the record runs over it",
    "the data are not as long as the header says",
)
SHORT, NO_HEADER, BAD_HEADER, OVER, DATA_LENGTH = range(1, len(PROBLEMS))


@dataclass(frozen=True, slots=True)
class Parts:
    """Where data, tokens and user tokens lie (0 to 0: not there), and where name areas end.

    ``named`` records have a name area.
    """

    data: Spans
    tokens: Spans
    user: Spans
    name_ends: Longs
    named: Mask
    problem: pa.Array


def find_parts(source: Source, records: Records, head: npt.NDArray[np.void]) -> Parts:
    """Return the parts of records of which ``head`` are the fixed headers."""
    count = len(records.offsets)
    problem = np.zeros(count, np.int64)
    problem[(head["h_id"] != HEADER) | (head["indicator"] != INDICATOR)] = NO_HEADER
    limits = records.offsets + records.lengths - FRAME
    name_ends = records.offsets + NAME_AT - H_FIXED + head["h_length"]
    fits = (head["h_length"] > H_FIXED) & (name_ends <= limits)
    problem[(problem == 0) & ~fits] = BAD_HEADER
    problem[records.lengths < SHORTEST] = SHORT
    named = problem == 0
    areas = {code: (np.zeros(count, np.int64), np.zeros(count, np.int64)) for code in _PARTS}
    rows = np.flatnonzero(named)
    place = name_ends[rows]
    frames = source.order.frames(source.data)
    while len(rows):
        inside = place < limits[rows]
        rows, place = rows[inside], place[inside]
        if not len(rows):
            break
        frame = frames[place]
        start = place + FRAME
        end = start + source.order.lengths(frame).astype(np.int64)
        over = end > limits[rows]
        problem[rows[over]] = OVER
        rows, start, end, frame = rows[~over], start[~over], end[~over], frame[~over]
        _note(areas, rows, source.order.codes(frame), (start, end))
        place = end
    starts, ends = areas[DATA]
    problem[(problem == 0) & (ends - starts != head["data_length"])] = DATA_LENGTH
    data, tokens, user = (Spans(*areas[code]) for code in _PARTS)
    return Parts(data, tokens, user, name_ends, named, _TEXTS.take(pa.array(problem)))


def _note(
    areas: dict[int, tuple[Longs, Longs]],
    rows: Longs,
    codes: npt.NDArray[np.uint32],
    spans: tuple[Longs, Longs],
) -> None:
    """Note the first part of each id of a record; of an unknown id nothing is noted."""
    start, end = spans
    for code, (starts, ends) in areas.items():
        chosen = (codes == code) & (starts[rows] == 0)
        starts[rows[chosen]] = start[chosen]
        ends[rows[chosen]] = end[chosen]


_PARTS: Final = (DATA, GGS_TOKENS, USER_TOKENS)
_TEXTS: Final = pa.array(PROBLEMS, pa.string())
