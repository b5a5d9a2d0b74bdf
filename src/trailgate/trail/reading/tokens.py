"""Read the tokens of many records: GGS tokens and user tokens as map columns (trail format §9).

A GGS token such as LOGCSN is found in one pass over all records. Transaction ids are carried
forward, because only the first record of a transaction has them. User tokens are pairs of name and
value. Rare properties (an undo flag, a system key before the data) are read only from the records
that have them, and are shown as tokens too.

Functions for readers raise DecodeError for invalid tokens. `find_token` and `build_token_columns`
return them as faults instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar.gather import gather
from trailgate.columnar.hex_digits import LOWER, to_hex
from trailgate.columnar.rows import as_slice
from trailgate.errors import DecodeError
from trailgate.trail.format.tokens import (
    FRAME,
    GGS_TOKEN_ROWS,
    GGS_TOKENS_BY_ID,
    MAX_BYTES,
    MAX_NAME,
    UNREAD,
    decode_user_tokens,
    read_tokens_between,
    token_name,
)
from trailgate.trail.reading import kernels
from trailgate.trail.records.framing import Spans, TrailBytes
from trailgate.trail.records.kernels import SYSTEM_KEY, SYSTEM_KEY_AT, UNDO, UNDO_AT
from trailgate.trail.records.record_view import RecordColumns

UNDO_TOKEN, SYSTEM_KEY_TOKEN = "UNDOFLAG", "SYSKEY"

NAMES: Final = pa.array([token_name(code) for code in range(256)], pa.string())

_MAP: Final = pa.map_(pa.string(), pa.string())
Pairs = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class NamedTokens:
    """Tokens of trail records with a name and a value, in order of their records."""

    record: Longs
    names: pa.Array
    values: pa.Array

    def values_by_operation(self, name: str, operation: Longs, operations: int) -> pa.Array | None:
        """Return for each operation the value of the token with this name (null without it), or None if no operation has it.

        ``operation`` is the operation of each record. If several records of one operation have the
        token, the first value is used.
        """
        rows = np.flatnonzero(np.asarray(pc.equal(self.names, name)))
        rows = rows[operation[self.record[rows]] >= 0]
        if not len(rows):
            return None
        # Assign in reverse order, so that the first token of an operation is written last.
        slots = np.full(operations, -1, np.int64)
        slots[operation[self.record[rows]][::-1]] = rows[::-1]
        return self.values.take(pa.array(slots, mask=slots < 0))

    def merge(self, other: NamedTokens) -> NamedTokens:
        """Merge two lists of tokens by record. Within a record, the tokens of this list come first."""
        return _merge(self, other)


def find_user_tokens(source: TrailBytes, areas: Spans) -> NamedTokens | None:
    """Find the user tokens of trail records, or return None if no record has any."""
    rows = np.flatnonzero(areas.starts < areas.ends)
    if not len(rows):
        return None
    spans = areas.take(rows)
    bounds, area = _bounds(source, spans.starts, spans.ends)
    if not len(bounds):
        return _one_by_one(source, rows, spans.starts, spans.ends)
    # Example: K 00 4 2 00 is the pair ("K", "42"): its NULs end the name and the value. An area is
    # good if it has an even number of NULs and the last of them is its last byte. ``begins`` are
    # the offsets of the strings: after the NUL before, or at the start of the area.
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
        strings = gather(source.buffer, begins, bounds, text=True) if fits else None
    except DecodeError:
        strings = None
    if strings is None:
        return _one_by_one(source, rows, spans.starts, spans.ends)
    pairs = _of_pairs(rows[area[0::2]], strings)
    if good.all():
        return pairs
    bad = np.flatnonzero(~good)
    raw = gather(source.buffer, spans.starts[bad], spans.ends[bad])
    return _merge(pairs, _unread(rows[bad], raw))


def _bounds(source: TrailBytes, starts: Longs, ends: Longs) -> tuple[Longs, Longs]:
    """Return the offsets of the NULs in these areas of user tokens, and the index of each one's area."""
    low, high = int(starts[0]), int(ends[-1])
    # The area of a NUL is the last one that begins at or before it. Example: areas begin at 10 and
    # 20, and NULs are at 13 and 25: areas 0 and 1.
    nuls = np.flatnonzero(source.data[low:high] == 0) + low
    area = np.searchsorted(starts, nuls, "right") - 1
    inside = nuls < ends[area]  # others lie between two areas
    return nuls[inside], area[inside]


def _of_pairs(record: Longs, strings: pa.Array) -> NamedTokens:
    """Build user tokens from strings that alternate between names and values. ``record`` has the record of each token."""
    even = pa.array(np.arange(0, len(strings), 2))
    return NamedTokens(record, strings.take(even), strings.take(pc.add(even, 1)))


def _unread(record: Longs, raw: pa.Array) -> NamedTokens:
    """Convert payloads of user tokens that do not fit the assumed layout: each becomes one token, in hex."""
    return NamedTokens(record, pa.array([UNREAD] * len(raw), pa.string()), to_hex(raw, LOWER))


def _merge(one: NamedTokens, other: NamedTokens) -> NamedTokens:
    record = np.concatenate([one.record, other.record])
    # Stable: of one record, the tokens of ``one`` stay before those of ``other``.
    order = np.argsort(record, kind="stable")
    index = pa.array(order)
    names = pa.concat_arrays([one.names, other.names]).take(index)
    values = pa.concat_arrays([one.values, other.values]).take(index)
    return NamedTokens(record[order], names, values)


def _one_by_one(source: TrailBytes, rows: Longs, starts: Longs, ends: Longs) -> NamedTokens:
    """Parse areas of user tokens one by one, because some of them do not fit the assumed layout."""
    record, names, values = [], [], []
    for row, start, end in zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True):
        payload = source.data[start:end].tobytes()
        pairs = decode_user_tokens(payload)
        for name, value in [(UNREAD, payload.hex())] if pairs is None else pairs:
            record.append(row)
            names.append(name)
            values.append(value)
    kinds = pa.array(names, pa.string()), pa.array(values, pa.string())
    return NamedTokens(np.array(record, np.int64), *kinds)


def marks_as_tokens(source: TrailBytes, view: RecordColumns, records: int) -> NamedTokens | None:
    """Convert the undo flags and system keys of the first ``records`` records to tokens, or return None if there are none."""
    tokens = []
    for row in view.rows_with_mark(UNDO | SYSTEM_KEY).tolist():
        at, key_at = int(view.offsets[row]), int(view.name_ends[row]) + FRAME
        if row >= records:
            break
        if view.marks[row] & UNDO:
            tokens.append((row, UNDO_TOKEN, str(source.data[at + UNDO_AT])))
        if view.marks[row] & SYSTEM_KEY:
            # int() first: a numpy uint8 would make the sum overflow.
            key = source.data[key_at : key_at + int(source.data[at + SYSTEM_KEY_AT])]
            tokens.append((row, SYSTEM_KEY_TOKEN, key.tobytes().hex().upper()))
    if not tokens:
        return None
    rows, names, values = zip(*tokens, strict=True)
    return NamedTokens(np.array(rows, np.int64), pa.array(names), pa.array(values))


@dataclass(frozen=True, slots=True)
class FirstTokens:
    """The payload span of the first token with a given id in each token area, or -1 if the area has none.

    ``faults`` marks the areas that tokens do not fill exactly.
    """

    spans: Spans
    faults: Mask

    @property
    def rows(self) -> Longs:
        """The indexes of the token areas in which the token was found."""
        return np.flatnonzero(self.spans.starts >= 0)


@dataclass(frozen=True, slots=True)
class TokenList:
    """The GGS tokens of trail records, sorted by group (usually the operation) and id, with their payload spans."""

    groups: Longs
    codes: Longs
    spans: Spans


def find_token(source: TrailBytes, areas: Spans, code: int) -> FirstTokens:
    """Find the first token with an id in each token area. Never raises an error for damaged areas."""
    count = len(areas.starts)
    starts, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    faults = np.empty(count, bool)
    kernels.find_token(
        source.data, areas.starts, areas.ends, source.big, code, starts, ends, faults
    )
    return FirstTokens(Spans(starts, ends), faults)


def list_tokens(source: TrailBytes, areas: Spans, groups: Longs) -> TokenList:
    """List the GGS tokens in the token areas of trail records.

    ``groups`` has the group of each area, usually its operation, in ascending order. Areas of a
    negative group, and areas beyond ``len(groups)``, are skipped. If a group repeats an id, its
    first token is used. Raises DecodeError for a token that exceeds its area.
    """
    # Each token has at least a frame, so there cannot be more.
    room = int(areas.sizes[: len(groups)].sum()) // FRAME
    owners, codes, starts, ends = (np.empty(room, np.int64) for _ in range(4))
    count, bad, offset = kernels.list_tokens(
        source.data, areas.starts, areas.ends, source.big, groups, owners, codes, starts, ends
    )
    if bad >= 0:
        raise _overrun(source, (offset, int(areas.ends[bad])))
    return TokenList(owners[:count], codes[:count], Spans(starts[:count], ends[:count]))


def _overrun(source: TrailBytes, span: tuple[int, int]) -> DecodeError:
    return source.error("a token runs over the token area", span)


def _text_bytes() -> Longs:
    """Return, by token id, how many payload bytes of a token are text, or -1 if the token is not text."""
    table = np.full(256, -1, np.int64)
    for row in GGS_TOKEN_ROWS:
        if row.is_text:
            table[row.code] = np.iinfo(np.int64).max if row.text_bytes is None else row.text_bytes
    table.setflags(write=False)
    return table


_TEXT_BYTES: Final = _text_bytes()
IS_TEXT: Final = _TEXT_BYTES >= 0  # by token id: whether the payload begins with text
IS_TEXT.setflags(write=False)


@dataclass(frozen=True, slots=True)
class CarriedTokens:
    """The text of a token (such as TRANID) for each record: from the record itself, or from an earlier record of its transaction.

    ``nulls`` marks the records for which this portion has no such token. The first ``leading`` of
    them continue a transaction from an earlier portion, where its token had the text ``before``
    (None if it had none).
    """

    source: TrailBytes
    spans: Spans
    nulls: Mask
    leading: int
    before: str | None

    def take(self, rows: Longs) -> pa.Array:
        """Return the carried token's text for each of some trail records, whose rows must ascend."""
        chosen = as_slice(rows)
        spans, nulls = self.spans.take(chosen), self.nulls[chosen]
        strings = _strings(self.source, spans.starts, spans.ends, nulls)
        # The number of chosen rows among the leading records.
        leading = int(np.searchsorted(rows, self.leading)) if self.leading else 0
        if not leading or self.before is None:
            return strings
        return pa.concat_arrays([pa.array([self.before] * leading), strings.slice(leading)])

    def at(self, row: int) -> str | None:
        """Return the carried token's text for one trail record, or None."""
        # These continue a transaction from before the first record.
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


def carry_token_strings(
    source: TrailBytes, view: RecordColumns, before: Mapping[int, str | None], *, is_open: bool
) -> list[CarriedTokens]:
    """Find the text of tokens such as TRANID for every record: usually only a transaction's first record has them.

    A record without the token gets the last one earlier in its transaction, or none. The keys of
    ``before`` are the ids of the tokens. Its values are the texts in the transaction that is open
    before the first record, if ``is_open``.
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
        kernels.CarriedArrays(starts, ends, nulls, leading),
    )
    if bad >= 0:
        list_tokens(source, areas, np.arange(count))  # raises
    # The kernel writes one id after the other: those of id i are ``count`` spans from ``i * count`` on.
    carried = []
    for i, text in enumerate(before.values()):
        column = slice(i * count, (i + 1) * count)
        spans = Spans(starts[column], ends[column])
        carried.append(CarriedTokens(source, spans, nulls[column], int(leading[i]), text))
    return carried


def _strings(source: TrailBytes, starts: Longs, ends: Longs, nulls: Mask | None = None) -> pa.Array:
    try:
        return gather(source.buffer, starts, ends, nulls=nulls, text=True)
    except DecodeError as error:
        offset = error.where.offset or 0
        raise source.error("a token's text is not UTF-8", (offset, offset + 32)) from None


def _values(source: TrailBytes, codes: Longs, spans: Spans) -> pa.Array:
    """Return the payloads of GGS tokens as text.

    Raw bytes, and payloads of ids that are not documented, are returned in hex.
    """
    text_bytes = _TEXT_BYTES[codes]
    known = text_bytes >= 0
    ends = np.where(known & (spans.sizes > text_bytes), spans.starts + text_bytes, spans.ends)
    values = _strings(source, spans.starts, ends, None if known.all() else ~known)
    if known.all():
        return values
    # Format the others in hex. slots is the index of each among these: known 1 0 1 0 -> slots . 0 . 1
    raw = gather(source.buffer, spans.starts[~known], ends[~known])
    slots = np.where(known, 0, np.cumsum(~known) - 1)
    return pc.coalesce(values, to_hex(raw, LOWER).take(pa.array(slots, mask=known)))


def check_tokens(source: TrailBytes, areas: Spans, operation: Longs) -> None:
    """Check the GGS tokens of records without decoding them. Raises the DecodeError that ``build_token_maps`` would raise."""
    tokens = list_tokens(source, areas, operation)
    spans, text_bytes = tokens.spans, _TEXT_BYTES[tokens.codes]
    ends = spans.starts + np.clip(spans.sizes, 0, np.maximum(text_bytes, 0))
    is_text = text_bytes >= 0
    _strings(source, spans.starts, ends, None if is_text.all() else ~is_text)


def build_token_maps(
    source: TrailBytes,
    areas: Spans,
    operation: Longs,
    operations: int,
    user: NamedTokens | None = None,
) -> pa.Array:
    """Build one map per operation from GGS tokens, followed by user tokens.

    ``operation`` is the operation of each record; records beyond it, or with a negative operation,
    are skipped. The records of one operation share a map, and of two equal names the first one is
    kept. A user token that has the name of a GGS token gets the prefix ``USER:``.
    """
    tokens = list_tokens(source, areas, operation)
    values = _values(source, tokens.codes, tokens.spans)
    maps = _Maps(tokens.groups, NAMES.take(pa.array(tokens.codes)), values)
    if user is not None:
        maps = _with_user(maps, user, operation)
    offsets = np.zeros(operations + 1, np.int32)
    np.cumsum(np.bincount(maps.owner, minlength=operations), out=offsets[1:])
    return pa.MapArray.from_arrays(pa.array(offsets), maps.keys, maps.items)


@dataclass(frozen=True, slots=True)
class _Maps:
    """The entries of token maps in columns: the operation of each entry, ascending, its key and its value."""

    owner: Longs
    keys: pa.Array
    items: pa.Array


def _with_user(maps: _Maps, user: NamedTokens, operation: Longs) -> _Maps:
    owner_of_token = operation[user.record]
    rows = np.flatnonzero(owner_of_token >= 0)
    names = user.names.take(pa.array(rows))
    is_ggs_name = pc.is_in(names, value_set=NAMES)
    names = pc.if_else(is_ggs_name, pc.binary_join_element_wise("USER:", names, ""), names)
    # GGS tokens come first, so that of two equal names theirs is kept below.
    owner = np.concatenate([maps.owner, owner_of_token[rows]])
    keys = pa.concat_arrays([maps.keys, names])
    items = pa.concat_arrays([maps.items, user.values.take(pa.array(rows))])
    # Keep each key of a map once: the first pair with the same operation and key.
    # A key's code is below len(keys), so owner * (len(keys) + 1) + code is unique per owner and key.
    codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    _, first = np.unique(owner * (len(keys) + 1) + codes, return_index=True)
    first.sort()
    order = first[np.argsort(owner[first], kind="stable")]
    index = pa.array(order)
    return _Maps(owner[order], keys.take(index), items.take(index))


def build_token_columns(
    source: TrailBytes, tokens: Spans, user: Spans
) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return the GGS tokens and the user tokens of every trail record as maps, and the problem of its GGS tokens.

    The problem is null if there is none. User tokens have no problems: a payload that cannot be
    parsed is returned in hex.
    """
    count = len(tokens.starts)
    users = _user_maps(source, user, count)
    try:
        maps = build_token_maps(source, tokens, np.arange(count), count)
    except DecodeError:
        maps, problems = _maps_one_by_one(source, tokens)
        return maps, users, problems
    return maps, users, pa.nulls(count, pa.string())


def _user_maps(source: TrailBytes, areas: Spans, count: int) -> pa.Array:
    user = find_user_tokens(source, areas)
    if user is None:
        offsets = pa.array(np.zeros(count + 1, np.int32))
        return pa.MapArray.from_arrays(
            offsets, pa.array([], pa.string()), pa.array([], pa.string())
        )
    offsets = np.searchsorted(user.record, np.arange(count + 1)).astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(offsets), user.names, user.values)


def _maps_one_by_one(source: TrailBytes, areas: Spans) -> tuple[pa.Array, pa.Array]:
    """Return the GGS tokens of records as maps, and their problems, one by one, because some are damaged."""
    maps, problems = [], []
    for start, end in zip(areas.starts.tolist(), areas.ends.tolist(), strict=True):
        pairs, problem = _pairs(source, start, end)
        maps.append(pairs)
        problems.append(problem)
    return pa.array(maps, _MAP), pa.array(problems, pa.string())


def _pairs(source: TrailBytes, start: int, end: int) -> tuple[Pairs, str | None]:
    try:
        tokens = read_tokens_between(source.data, (start, end), source.order, source.base)
    except DecodeError as error:
        return [("T", source.data[start:end].tobytes().hex())], error.problem
    pairs: dict[str, str] = {}
    for token, _ in tokens:
        row = GGS_TOKENS_BY_ID.get(token.code)
        text = None
        if row is not None and row.is_text:
            text = _decode(token.payload[: row.text_bytes])
        pairs.setdefault(token_name(token.code), token.payload.hex() if text is None else text)
    return list(pairs.items()), None


def _decode(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def find_token_payloads(source: TrailBytes, areas: Spans, code: int) -> list[bytes]:
    """Return the payload of the first token with the id ``code`` in each record's token area, or b"" if it has none.

    ``areas`` are the spans of the records' tokens.
    """
    spans = find_token(source, areas, code).spans
    present = spans.starts >= 0
    # an area without the token gets the empty span 0:0
    starts, ends = np.where(present, spans.starts, 0), np.where(present, spans.ends, 0)
    values: list[bytes] = gather(source.buffer, starts, ends).to_pylist()
    return values
