"""The tokens of records as maps, one a record; tokens that are wrong are told, not refused."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.errors import DecodeError
from trailgate.trail.format.metadata import TrailTable
from trailgate.trail.format.record import tokens_between
from trailgate.trail.format.record_header import Heads, Source
from trailgate.trail.format.record_parts import Parts
from trailgate.trail.format.tokens import GGS_TOKENS_BY_ID, token_name
from trailgate.trail.reading.record_tokens import read_tokens, token_maps
from trailgate.trail.reading.user_tokens import named_tokens

_MAP: Final = pa.map_(pa.string(), pa.string())
Pairs = list[tuple[str, str]]


def token_columns(source: Source, parts: Parts) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return the GGS tokens and the user tokens of every record, and what is wrong with them."""
    heads = _heads(parts)
    count = len(parts.named)
    user = _user_maps(source, heads, count)
    try:
        tokens = token_maps(read_tokens(source, heads), np.arange(count), count)
    except DecodeError:
        tokens, problems = _one_by_one(source, parts)
        return tokens, user, problems
    return tokens, user, pa.nulls(count, pa.string())


def _heads(parts: Parts) -> Heads:
    """Return the parts as headers of which only those are looked at."""
    none = np.zeros(len(parts.named), np.uint8)
    tables: list[TrailTable] = []
    return Heads(
        offsets=none.astype(np.int64),
        op_type=none,
        io_type=none,
        role=none,
        is_before=none.astype(bool),
        op_ts=none.astype(np.int64),
        trans_ind=none,
        table=none.astype(np.int64),
        tables=tables,
        data=parts.data,
        tokens=parts.tokens,
        user=parts.user,
    )


def _user_maps(source: Source, heads: Heads, count: int) -> pa.Array:
    found = named_tokens(source, heads, count)
    if found is None:
        offsets = pa.array(np.zeros(count + 1, np.int32))
        return pa.MapArray.from_arrays(
            offsets, pa.array([], pa.string()), pa.array([], pa.string())
        )
    offsets = np.searchsorted(found.record, np.arange(count + 1)).astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(offsets), found.names, found.values)


def _one_by_one(source: Source, parts: Parts) -> tuple[pa.Array, pa.Array]:
    """Return the tokens and the problems of records of which some are wrong."""
    maps, problems = [], []
    for start, end in zip(parts.tokens.starts.tolist(), parts.tokens.ends.tolist(), strict=True):
        pairs, problem = _pairs(source, start, end)
        maps.append(pairs)
        problems.append(problem)
    return pa.array(maps, _MAP), pa.array(problems, pa.string())


def _pairs(source: Source, start: int, end: int) -> tuple[Pairs, str | None]:
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
