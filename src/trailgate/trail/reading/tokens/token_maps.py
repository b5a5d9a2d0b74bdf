"""The tokens of records as maps, one a record; what is wrong with tokens is reported, not raised."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.errors import DecodeError
from trailgate.trail.format.tokens import GGS_TOKENS_BY_ID, token_name
from trailgate.trail.reading.tokens.record_tokens import token_maps
from trailgate.trail.reading.tokens.user_tokens import named_tokens
from trailgate.trail.records.record import tokens_between
from trailgate.trail.records.trail_bytes import Spans, TrailBytes

_MAP: Final = pa.map_(pa.string(), pa.string())
Pairs = list[tuple[str, str]]


def token_columns(
    source: TrailBytes, tokens: Spans, user: Spans
) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return the GGS tokens and the user tokens of every record, and what is wrong with them."""
    count = len(tokens.starts)
    users = _user_maps(source, user, count)
    try:
        maps = token_maps(source, tokens, np.arange(count), count)
    except DecodeError:
        maps, problems = _one_by_one(source, tokens)
        return maps, users, problems
    return maps, users, pa.nulls(count, pa.string())


def _user_maps(source: TrailBytes, areas: Spans, count: int) -> pa.Array:
    found = named_tokens(source, areas)
    if found is None:
        offsets = pa.array(np.zeros(count + 1, np.int32))
        return pa.MapArray.from_arrays(
            offsets, pa.array([], pa.string()), pa.array([], pa.string())
        )
    offsets = np.searchsorted(found.record, np.arange(count + 1)).astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(offsets), found.names, found.values)


def _one_by_one(source: TrailBytes, areas: Spans) -> tuple[pa.Array, pa.Array]:
    """Return the tokens and the problems of records of which some are wrong."""
    maps, problems = [], []
    for start, end in zip(areas.starts.tolist(), areas.ends.tolist(), strict=True):
        pairs, problem = _pairs(source, start, end)
        maps.append(pairs)
        problems.append(problem)
    return pa.array(maps, _MAP), pa.array(problems, pa.string())


def _pairs(source: TrailBytes, start: int, end: int) -> tuple[Pairs, str | None]:
    try:
        found = tokens_between(source.data, (start, end), source.order, source.base)
    except DecodeError as error:
        return [("T", source.data[start:end].tobytes().hex())], error.problem
    pairs: dict[str, str] = {}
    for token, _ in found:
        row = GGS_TOKENS_BY_ID.get(token.code)
        text = None
        if row is not None and row.is_text:
            text = _decoded(token.payload[: row.text_bytes])
        pairs.setdefault(token_name(token.code), token.payload.hex() if text is None else text)
    return list(pairs.items()), None


def _decoded(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
