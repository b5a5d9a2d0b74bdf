"""Where the parts of many records lie, which tables they name, and the texts of their ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.gather import gather
from trailgate.trail.checking.chains import Chained, Id
from trailgate.trail.checking.inspected import UNNAMED
from trailgate.trail.format.record_layout import BY_PARTITION, BY_TABLE, H_FIXED, NAME_AT
from trailgate.trail.format.record_types import IO_METADATA
from trailgate.trail.format.tokens import DATA, FRAME, GGS_TOKENS, NORMAL, USER_TOKENS


@dataclass(frozen=True, slots=True)
class Areas:
    """Where D and T lie, D's length, and which records have parts that do not fit."""

    data: tuple[Longs, Longs]
    tokens: tuple[Longs, Longs]
    size: Longs
    over: Mask
    extra: Mask


def areas_of(chained: Chained, place: Longs, limit: Longs) -> Areas:
    """Return the areas of records from the end of their headers to the begin of their trailers."""
    over = np.zeros(len(place), bool)
    found: list[tuple[Longs, Longs]] = []
    for code in (DATA, GGS_TOKENS, USER_TOKENS):
        if found and (place == limit).all():
            found.append((limit, limit))
            continue
        frames = chained.frames[place]
        there = (chained.order.codes(frames) == code) & (place < limit)
        start = place + FRAME * there
        end = start + np.where(there, chained.order.lengths(frames), 0)
        over |= end > limit
        if code == DATA:
            over |= there & (chained.data[place + 1] != NORMAL)
        place = np.minimum(end, limit)
        found.append((np.minimum(start, limit), place))
    data, tokens, _ = found
    return Areas(data, tokens, data[1] - data[0], over, place < limit)


def names_of(
    chained: Chained, head: npt.NDArray[Any], spans: tuple[Longs, Longs], readable: Mask
) -> tuple[Longs, list[str], Longs, Mask]:
    """Return each record's name and table index, and which of them do not fit."""
    offsets, name_end = spans
    by_index = readable & (head["partition"] & BY_TABLE != 0)
    index = np.full(len(offsets), UNNAMED)
    bad = np.zeros(len(offsets), bool)
    if by_index.any():
        width = np.where(head["partition"] & BY_PARTITION, 4, 2)
        bad |= by_index & (head["h_length"] != H_FIXED + width)
        rows = np.flatnonzero(by_index & ~bad)
        index[rows] = chained.order.words(chained.data, "u2")[offsets[rows] + NAME_AT]
    rows = np.flatnonzero(readable & ~by_index)
    ends = name_end[rows] - 1
    ended = chained.data[ends] == 0
    # A partition name record has more behind its name (trail format §12).
    bad[rows] |= ~ended & (head["io_type"][rows] != IO_METADATA)
    texts = gather(chained.data, offsets[rows] + NAME_AT, ends).dictionary_encode()
    name = np.full(len(offsets), UNNAMED)
    name[rows] = texts.indices.to_numpy()
    raw = texts.dictionary.to_pylist()
    faulty = [number for number, one in enumerate(raw) if not _is_name(one)]
    if faulty:
        bad |= np.isin(name, faulty) & (head["io_type"] != IO_METADATA)
    return name, [one.decode("utf-8", "backslashreplace") for one in raw], index, bad


def _is_name(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in raw


def texts_of(data: Octets, found: Id) -> tuple[Longs, list[str], Longs]:
    """Return the records of an id and its texts, and the records whose id is no text."""
    values = gather(data, found.starts, found.ends)
    try:
        return found.rows, values.cast(pa.string()).to_pylist(), found.rows[:0]
    except pa.ArrowInvalid:
        texts = [one.decode("utf-8", "backslashreplace") for one in values.to_pylist()]
        bad = [not _is_text(one) for one in values.to_pylist()]
        return found.rows, texts, found.rows[np.array(bad, bool)]


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
