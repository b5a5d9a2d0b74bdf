"""The user tokens of many records at once: names and values in columns (trail format §9)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.columnar.gather import gather
from trailgate.columnar.hexadecimal import LOWER, to_hex
from trailgate.errors import DecodeError
from trailgate.trail.format.user_tokens import MAX_BYTES, MAX_NAME, UNREAD, read_user_tokens
from trailgate.trail.records.trail_bytes import Spans, TrailBytes


@dataclass(frozen=True, slots=True)
class NamedTokens:
    """Tokens with names of their own, in order of their records."""

    record: Longs
    names: pa.Array
    values: pa.Array

    def texts(self, name: str, operation: Longs, operations: int) -> pa.Array | None:
        """Return a token of each operation, null where it has none; None where none has it.

        ``operation`` names the operation of each record; of several records of one, the first counts.
        """
        rows = np.flatnonzero(np.asarray(pc.equal(self.names, name)))
        rows = rows[operation[self.record[rows]] >= 0]
        if not len(rows):
            return None
        slots = np.full(operations, -1, np.int64)
        slots[operation[self.record[rows]][::-1]] = rows[::-1]
        return self.values.take(pa.array(slots, mask=slots < 0))

    def and_then(self, other: NamedTokens) -> NamedTokens:
        """Return these and others by record; of one record these come first."""
        return _merged(self, other)


def named_tokens(source: TrailBytes, areas: Spans) -> NamedTokens | None:
    """Return the user tokens of records; None where none has any."""
    rows = np.flatnonzero(areas.starts < areas.ends)
    if not len(rows):
        return None
    spans = areas.take(rows)
    bounds, area = _bounds(source, spans.starts, spans.ends)
    if not len(bounds):
        return _one_by_one(source, rows, spans.starts, spans.ends)
    counts = np.bincount(area, minlength=len(rows))
    last = np.cumsum(counts) - 1
    good = (counts > 0) & (counts % 2 == 0) & (spans.sizes <= MAX_BYTES)
    good &= (counts > 0) & (bounds[np.maximum(last, 0)] == spans.ends - 1)
    begins = np.empty(len(bounds), np.int64)
    begins[1:] = bounds[:-1] + 1
    first = np.flatnonzero(np.diff(area, prepend=-1))
    begins[first] = spans.starts[area[first]]
    kept = good[area]
    begins, bounds, area = begins[kept], bounds[kept], area[kept]
    sizes = (bounds - begins)[0::2]
    fits = bool(((sizes > 0) & (sizes <= MAX_NAME)).all())
    try:
        texts = gather(source.buffer, begins, bounds, text=True) if fits else None
    except DecodeError:
        texts = None
    if texts is None:
        return _one_by_one(source, rows, spans.starts, spans.ends)
    pairs = _of_pairs(rows[area[0::2]], texts)
    if good.all():
        return pairs
    bad = np.flatnonzero(~good)
    raw = gather(source.buffer, spans.starts[bad], spans.ends[bad])
    return _merged(pairs, _unread(rows[bad], raw))


def _bounds(source: TrailBytes, starts: Longs, ends: Longs) -> tuple[Longs, Longs]:
    """Return where the NULs of these areas lie, and the area of each."""
    low, high = int(starts[0]), int(ends[-1])
    found = np.flatnonzero(source.data[low:high] == 0) + low
    area = np.searchsorted(starts, found, "right") - 1
    inside = found < ends[area]
    return found[inside], area[inside]


def _of_pairs(record: Longs, texts: pa.Array) -> NamedTokens:
    even = pa.array(np.arange(0, len(texts), 2))
    return NamedTokens(record, texts.take(even), texts.take(pc.add(even, 1)))


def _unread(record: Longs, raw: pa.Array) -> NamedTokens:
    return NamedTokens(record, pa.array([UNREAD] * len(raw), pa.string()), to_hex(raw, LOWER))


def _merged(one: NamedTokens, other: NamedTokens) -> NamedTokens:
    record = np.concatenate([one.record, other.record])
    order = np.argsort(record, kind="stable")
    index = pa.array(order)
    names = pa.concat_arrays([one.names, other.names]).take(index)
    values = pa.concat_arrays([one.values, other.values]).take(index)
    return NamedTokens(record[order], names, values)


def _one_by_one(source: TrailBytes, rows: Longs, starts: Longs, ends: Longs) -> NamedTokens:
    """Return tokens of areas of which some do not fit, looked at one by one."""
    record, names, values = [], [], []
    for row, start, end in zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True):
        payload = source.data[start:end].tobytes()
        pairs = read_user_tokens(payload)
        for name, value in [(UNREAD, payload.hex())] if pairs is None else pairs:
            record.append(row)
            names.append(name)
            values.append(value)
    kinds = pa.array(names, pa.string()), pa.array(values, pa.string())
    return NamedTokens(np.array(record, np.int64), *kinds)
