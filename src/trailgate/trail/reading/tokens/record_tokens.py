"""The GGS tokens of many records at once: their map column, and the ids of transactions carried forward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar.gather import gather
from trailgate.columnar.hexadecimal import LOWER, to_hex
from trailgate.errors import DecodeError
from trailgate.trail.format.tokens import GGS_TOKEN_ROWS, token_name
from trailgate.trail.reading.tokens.user_tokens import NamedTokens
from trailgate.trail.records import kernels
from trailgate.trail.records.record_view import RecordView
from trailgate.trail.records.token_places import list_tokens
from trailgate.trail.records.trail_bytes import Spans, TrailBytes, dense

NAMES: Final = pa.array([token_name(code) for code in range(256)])


def _text_bytes() -> Longs:
    """Return how many bytes of a token are its text, by id; -1 for a token that is not text."""
    table = np.full(256, -1, np.int64)
    for row in GGS_TOKEN_ROWS:
        if row.is_text:
            table[row.code] = np.iinfo(np.int64).max if row.text_bytes is None else row.text_bytes
    table.setflags(write=False)
    return table


_TEXT_BYTES: Final = _text_bytes()


@dataclass(frozen=True, slots=True)
class CarriedTexts:
    """Where each record's text of a token lies, its own or that of its transaction; ``nulls`` have none.

    The first ``leading`` records have the text ``before``, known from earlier ones.
    """

    source: TrailBytes
    spans: Spans
    nulls: Mask
    leading: int
    before: str | None

    def take(self, rows: Longs) -> pa.Array:
        """Return the texts of some records, ascending."""
        chosen = dense(rows)
        spans, nulls = self.spans.take(chosen), self.nulls[chosen]
        texts = _texts(self.source, spans.starts, spans.ends, nulls)
        leading = int(np.searchsorted(rows, self.leading)) if self.leading else 0
        if not leading or self.before is None:
            return texts
        return pa.concat_arrays([pa.array([self.before] * leading), texts.slice(leading)])

    def at(self, row: int) -> str | None:
        """Return the text of a record."""
        if row < self.leading:
            return self.before
        if self.nulls[row]:
            return None
        raw = self.source.data[self.spans.starts[row] : self.spans.ends[row]].tobytes()
        try:
            return raw.decode()
        except UnicodeDecodeError:
            text: str = self.take(np.array([row]))[0].as_py()  # raises
            return text


def carried_texts(
    source: TrailBytes, view: RecordView, before: Mapping[int, str | None], *, is_open: bool
) -> list[CarriedTexts]:
    """Return the texts of each id, which the first record of a transaction has and the others share.

    ``before`` has, by id, that of a transaction that is open before the first record. A transaction that begins without
    the token has none.
    """
    count, ids = len(view), np.array(list(before), np.int64)
    starts, ends = np.empty(len(ids) * count, np.int64), np.empty(len(ids) * count, np.int64)
    nulls, leading = np.empty(len(ids) * count, bool), np.empty(len(ids), np.int64)
    areas = view.tokens
    bad = kernels.carry_tokens(
        source.data,
        areas.starts,
        areas.ends,
        source.big,
        ids,
        view.indicator,
        is_open,
        starts,
        ends,
        nulls,
        leading,
    )
    if bad >= 0:
        list_tokens(source, areas, np.arange(count))  # raises
    carried = []
    for i, text in enumerate(before.values()):
        own = slice(i * count, (i + 1) * count)
        spans = Spans(starts[own], ends[own])
        carried.append(CarriedTexts(source, spans, nulls[own], int(leading[i]), text))
    return carried


def _texts(source: TrailBytes, starts: Longs, ends: Longs, nulls: Mask | None = None) -> pa.Array:
    try:
        return gather(source.buffer, starts, ends, nulls=nulls, text=True)
    except DecodeError as error:
        offset = error.where.offset or 0
        raise source.error("a token's text is not UTF-8", (offset, offset + 32)) from None


def _values(source: TrailBytes, codes: Longs, spans: Spans) -> pa.Array:
    """Return the tokens' texts; raw bytes, and the payload of an id that is not public, in hex."""
    bytes_ = _TEXT_BYTES[codes]
    known = bytes_ >= 0
    ends = np.where(known & (spans.sizes > bytes_), spans.starts + bytes_, spans.ends)
    values = _texts(source, spans.starts, ends, None if known.all() else ~known)
    if known.all():
        return values
    raw = gather(source.buffer, spans.starts[~known], ends[~known])
    slots = np.where(known, 0, np.cumsum(~known) - 1)
    return pc.coalesce(values, to_hex(raw, LOWER).take(pa.array(slots, mask=known)))


def token_maps(
    source: TrailBytes,
    areas: Spans,
    operation: Longs,
    operations: int,
    user: NamedTokens | None = None,
) -> pa.Array:
    """Return one map an operation; ``operation`` names the operation of each record.

    Records of one operation share a map; of a token that two of them have, the first counts.
    Records beyond ``operation``, or whose operation is negative, are left out. User tokens follow; one with a GGS
    token's name begins with USER:.
    """
    found = list_tokens(source, areas, operation)
    values = _values(source, found.codes, found.spans)
    maps = _Maps(found.groups, NAMES.take(pa.array(found.codes)), values)
    if user is not None:
        maps = _with_user(maps, user, operation)
    offsets = np.zeros(operations + 1, np.int32)
    np.cumsum(np.bincount(maps.owner, minlength=operations), out=offsets[1:])
    return pa.MapArray.from_arrays(pa.array(offsets), maps.keys, maps.items)


@dataclass(frozen=True, slots=True)
class _Maps:
    """Each pair's operation, ascending, its key and its value."""

    owner: Longs
    keys: pa.Array
    items: pa.Array


def _with_user(maps: _Maps, user: NamedTokens, operation: Longs) -> _Maps:
    mine = operation[user.record]
    rows = np.flatnonzero(mine >= 0)
    names = user.names.take(pa.array(rows))
    taken = pc.is_in(names, value_set=NAMES)
    names = pc.if_else(taken, pc.binary_join_element_wise("USER:", names, ""), names)
    owner = np.concatenate([maps.owner, mine[rows]])
    keys = pa.concat_arrays([maps.keys, names])
    items = pa.concat_arrays([maps.items, user.values.take(pa.array(rows))])
    # A map has each key once: of equal ones the first counts.
    codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    _, first = np.unique(owner * (len(keys) + 1) + codes, return_index=True)
    first.sort()
    order = first[np.argsort(owner[first], kind="stable")]
    index = pa.array(order)
    return _Maps(owner[order], keys.take(index), items.take(index))
