"""The GGS tokens of many records at once: their map column, and transaction ids carried forward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar.gather import gather
from trailgate.columnar.hexadecimal import LOWER, to_hex
from trailgate.errors import DecodeError
from trailgate.trail.format.record_header import Heads, Source
from trailgate.trail.format.tokens import FRAME, GGS_TOKEN_ROWS, token_name
from trailgate.trail.reading.user_tokens import NamedTokens

NAMES: Final = pa.array([token_name(code) for code in range(256)])


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens in order of their records: record, id, value. A record has each id once."""

    record: Longs
    code: Longs
    values: pa.Array

    def of(self, code: int) -> tuple[Longs, pa.Array]:
        """Return the records that have a token, and its values."""
        chosen = np.flatnonzero(self.code == code)
        return self.record[chosen], self.values.take(pa.array(chosen))


def read_tokens(source: Source, heads: Heads) -> Tokens:
    """Return the tokens of all records; of a token that is repeated, the first (trail format §9)."""
    record, starts, ends = _walk(source, heads)
    code = source.data[starts - FRAME].astype(np.int64) if len(starts) else starts
    _, first = np.unique(record * 256 + code, return_index=True)
    record, code, starts, ends = record[first], code[first], starts[first], ends[first]
    for row in GGS_TOKEN_ROWS:
        if row.text_bytes is not None:
            ends = np.where(code == row.code, np.minimum(ends, starts + row.text_bytes), ends)
    return Tokens(record, code, _values(source, code, starts, ends))


def _walk(source: Source, heads: Heads) -> tuple[Longs, Longs, Longs]:
    """Return record, payload start and payload end of every token."""
    frames = source.order.frames(source.data)
    rows = np.flatnonzero(heads.tokens.starts < heads.tokens.ends)
    place, limit = heads.tokens.starts[rows], heads.tokens.ends[rows]
    found: list[tuple[Longs, Longs, Longs]] = []
    while len(rows):
        start = place + FRAME
        end = start + source.order.lengths(frames[place])
        over = end > limit
        if over.any():
            bad = int(np.argmax(over))
            problem = "a token runs over the token area"
            raise source.error(problem, (int(place[bad]), int(limit[bad])))
        found.append((rows, start, end))
        more = end < limit
        rows, place, limit = rows[more], end[more], limit[more]
    if not found:
        none = np.zeros(0, np.int64)
        return none, none, none
    record, starts, ends = (np.concatenate(part) for part in zip(*found, strict=True))
    return record, starts, ends


def _values(source: Source, code: Longs, starts: Longs, ends: Longs) -> pa.Array:
    """Return the tokens' texts; raw bytes, and the payload of an id that is not public, in hex."""
    known = np.isin(code, [row.code for row in GGS_TOKEN_ROWS if row.is_text])
    try:
        values = gather(source.buffer, starts, ends, nulls=~known, text=True)
    except DecodeError as error:
        offset = error.where.offset or 0
        raise source.error("a token's text is not UTF-8", (offset, offset + 32)) from None
    if known.all():
        return values
    raw = gather(source.buffer, starts[~known], ends[~known])
    slots = np.where(known, 0, np.cumsum(~known) - 1)
    return pc.coalesce(values, to_hex(raw, LOWER).take(pa.array(slots, mask=known)))


def token_maps(
    tokens: Tokens, operation: Longs, operations: int, user: NamedTokens | None = None
) -> pa.Array:
    """Return one map an operation; ``operation`` names the operation of each record.

    Records of one operation share a map; of a token that two of them have, the first counts.
    Records beyond ``operation``, or whose operation is negative, are left out. User tokens follow; one with a GGS
    token's name has USER: in front of it.
    """
    begin, stop = np.searchsorted(
        tokens.record, [int(np.searchsorted(operation, 0)), len(operation)]
    )
    kept = slice(int(begin), int(stop))
    owner = operation[tokens.record[kept]]
    _, found = np.unique(owner * 256 + tokens.code[kept], return_index=True)
    first = found + kept.start
    owner = owner[found]
    keys = NAMES.take(pa.array(tokens.code[first]))
    items = tokens.values.take(pa.array(first))
    if user is not None:
        owner, keys, items = _with_user((owner, keys, items), user, operation)
    offsets = np.searchsorted(owner, np.arange(operations + 1)).astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(offsets), keys, items)


_Maps = tuple[Longs, pa.Array, pa.Array]  # each pair's operation, ascending, its key and its value


def _with_user(maps: _Maps, user: NamedTokens, operation: Longs) -> _Maps:
    owner, keys, items = maps
    mine = operation[user.record]
    rows = np.flatnonzero(mine >= 0)
    names = user.names.take(pa.array(rows))
    taken = pc.is_in(names, value_set=NAMES)
    names = pc.if_else(taken, pc.binary_join_element_wise("USER:", names, ""), names)
    owner = np.concatenate([owner, mine[rows]])
    keys = pa.concat_arrays([keys, names])
    items = pa.concat_arrays([items, user.values.take(pa.array(rows))])
    # A map has each key once: of equal ones the first counts.
    codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    _, first = np.unique(owner * (len(keys) + 1) + codes, return_index=True)
    first.sort()
    order = first[np.argsort(owner[first], kind="stable")]
    index = pa.array(order)
    return owner[order], keys.take(index), items.take(index)


def carried(sources: Mask, found: tuple[Longs, pa.Array], before: str | None) -> pa.Array:
    """Return a token's value for every record, carried forward from the last source.

    A source is a record that begins something new or has the token; one without the token
    gives null. Records before the first source have ``before``, known from an earlier portion.
    """
    rows, values = found
    count = len(sources)
    slots = np.full(count, -1, np.int64)
    slots[rows] = np.arange(len(rows))
    is_source = sources | (slots >= 0)
    last = np.maximum.accumulate(np.where(is_source, np.arange(count), -1))
    slot = np.where(last < 0, len(rows), slots[last])
    pool = pa.concat_arrays([values, pa.array([before], pa.string())])
    return pool.take(pa.array(np.maximum(slot, 0), mask=slot < 0))
