"""The token areas of many records at once: GGS tokens (T), and user tokens behind them (U).

LOGCSN and TRANID stand on a transaction's first record alone; what an operation's tokens map holds stands on each of its
images, as printed ROWIDs do (format notes 8, 9 and 14).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.columnar.hexadecimal import from_hex
from trailgate.columnar.views import Octets
from trailgate.errors import DecodeError, EncodeError, Where
from trailgate.model.changes import ChangeBlock
from trailgate.trail.byte_order import ByteOrder
from trailgate.trail.pieces import Pieces
from trailgate.trail.tokens import (
    DDL,
    FRAME,
    GGS_TOKEN_ROWS,
    GGS_TOKENS,
    LOGCSN,
    MAX_LENGTH,
    NORMAL,
    ORAROWID,
    ORATAG,
    TRANID,
    USER_TOKENS,
)
from trailgate.trail.user_tokens import user_token_bytes

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Assumed: a data record without tokens has an empty T group. Every public dump of one has T,
# on later records for the ROWID alone (format notes 9), which messages do not know.
EMPTY_TOKENS: Final = bytes((GGS_TOKENS, 0, 0, 0))
ROWID_TAIL: Final = b"\0\1"  # of unknown meaning, the same in both byte orders (format notes 9)
ROWID_CHARACTERS: Final = 18
EMPTY_TAG_INFO: Final = 1  # info of an empty ORATAG (format notes 2)
FROM_COLUMNS: Final = frozenset({"LOGCSN", "TRANID"})  # written from csn and tx_id
UNNAMED: Final = re.compile(r"x([0-9a-f]{2})")  # how the reader names an id that is not public


def frames(
    order: ByteOrder, code: int, lengths: npt.NDArray[np.integer[Any]], info: int = NORMAL
) -> Octets:
    """Return token frames, one a row."""
    words = order.frame(code, info, lengths).astype(order.value + "u4", copy=False)
    return words.view(np.uint8).reshape(-1, FRAME)


def token_areas(block: ChangeBlock, first: Mask, order: ByteOrder) -> pa.Array:
    """Return T, and U where there are user tokens, of every record, with their frames."""
    if block.tokens is None:
        return _without_own(block, first, order)
    ggs, user = token_payloads(block, first, order)
    pieces = Pieces(len(block))
    _add_area(pieces, block, (GGS_TOKENS, ggs), order)
    if user is not None:
        _add_area(pieces, block, (USER_TOKENS, user), order)
    return pieces.joined()


def token_payloads(
    block: ChangeBlock, first: Mask, order: ByteOrder
) -> tuple[pa.Array, pa.Array | None]:
    """Return what stands in T and in U of every record; None where none has user tokens."""
    pieces, user = Pieces(len(block)), None
    if block.tokens is not None:
        own, user = _own(block, order)
        pieces.variable(own)
    every, null = bool(first.all()), pa.scalar(None, pa.string())
    for code, values in ((LOGCSN, block.csn), (TRANID, block.tx_id)):
        shown = values if every else pc.if_else(pa.array(first), values, null)
        _add_token(pieces, code, shown, order)
    return pieces.joined(), user


def _without_own(block: ChangeBlock, first: Mask, order: ByteOrder) -> pa.Array:
    """Return T: LOGCSN and TRANID on a transaction's first record, elsewhere empty."""
    rows = np.flatnonzero(first)
    empty = pa.array([EMPTY_TOKENS], pa.binary())
    if not len(rows):
        return empty.take(pa.array(np.zeros(len(first), np.int64)))
    inner = Pieces(len(rows))
    for code, values in ((LOGCSN, block.csn), (TRANID, block.tx_id)):
        _add_token(inner, code, values.take(pa.array(rows)), order)
    pieces = Pieces(len(rows))
    sizes = inner.total()
    _check_size(block, sizes)
    pieces.fixed(frames(order, GGS_TOKENS, sizes))
    pieces.extend(inner)
    filled = pieces.joined()
    if len(rows) == len(first):
        return filled
    slots = np.zeros(len(first), np.int64)
    slots[rows] = np.arange(1, len(rows) + 1)
    return pa.concat_arrays([empty, filled]).take(pa.array(slots))


def _add_area(
    pieces: Pieces, block: ChangeBlock, area: tuple[int, pa.Array], order: ByteOrder
) -> None:
    """Add an area: T to every record, U to those that have any."""
    code, payloads = area
    sizes = pc.binary_length(payloads).to_numpy()
    _check_size(block, sizes)
    if code == GGS_TOKENS:
        pieces.fixed(frames(order, code, sizes))
    else:
        pieces.where(sizes > 0, frames(order, code, sizes))
    pieces.variable(payloads)


def _check_size(block: ChangeBlock, sizes: npt.NDArray[np.integer[Any]]) -> None:
    if len(sizes) and sizes.max() > MAX_LENGTH:
        problem = f"{sizes.max()} bytes of tokens do not fit in a record"
        raise EncodeError(problem, where=Where(table=block.table.name))


def _add_token(pieces: Pieces, code: int, values: pa.Array, order: ByteOrder) -> None:
    """Add a token to the records that have a value for it."""
    present = values.is_valid().to_numpy(zero_copy_only=False)
    texts = values.fill_null("").view(pa.binary())
    sizes = pc.binary_length(texts).to_numpy()
    heads = frames(order, code, sizes)
    if present.all():
        pieces.fixed(heads)
    else:
        pieces.where(present, heads)
    pieces.variable(texts)


def own_tokens(tokens: pa.MapArray | None) -> pa.MapArray | None:
    """Return tokens that are written from their map; None where csn and tx_id say it all."""
    if tokens is None:
        return None
    names = set(pc.unique(_entries(tokens)[1]).to_pylist())
    return tokens if names - FROM_COLUMNS else None


def _entries(tokens: pa.MapArray) -> tuple[Longs, pa.Array, pa.Array]:
    """Return where each row's entries begin, all names and all values."""
    offsets = tokens.offsets.to_numpy().astype(np.int64)
    begin, end = int(offsets[0]), int(offsets[-1])
    rows = tokens.keys.slice(begin, end - begin), tokens.items.slice(begin, end - begin)
    return offsets - begin, *rows


def _own(block: ChangeBlock, order: ByteOrder) -> tuple[pa.Array, pa.Array | None]:
    """Return the GGS tokens of the maps, one run of bytes a record, and the user tokens."""
    offsets, names, values = _entries(block.tokens)
    found = names.dictionary_encode()
    code_of = {name: _code(name) for name in found.dictionary.to_pylist()}
    codes = np.array([code_of[n] for n in found.dictionary.to_pylist()], np.int64)
    codes = codes[found.indices.to_numpy()] if len(names) else np.zeros(0, np.int64)
    places, parts = [np.zeros(0, np.int64)], [pa.array([], pa.binary())]
    for code in np.unique(codes[codes >= 0]).tolist():
        at = np.flatnonzero(codes == code)
        places.append(at)
        parts.append(_tokens(block, code, values.take(pa.array(at)), order))
    at = np.concatenate(places)
    own = _by_row(pa.concat_arrays(parts).take(pa.array(np.argsort(at))), np.sort(at), offsets)
    is_user = codes == USER
    if not is_user.any():
        return own, None
    return own, _user_areas(block, (offsets, names, values), is_user)


USER, CARRIED = (
    -1,
    -2,
)  # what a name is that is no GGS token's: a user token's; written from a column
CODES: Final[Mapping[str, int]] = MappingProxyType(
    {row.name: CARRIED if row.name in FROM_COLUMNS else row.code for row in GGS_TOKEN_ROWS}
)


def _code(name: str) -> int:
    """Return the id of a GGS token's name, or what else the name is."""
    if name in CODES:
        return CODES[name]
    unnamed = UNNAMED.fullmatch(name)
    if unnamed is None:
        return USER
    code = int(unnamed[1], 16)
    known = next((row.name for row in GGS_TOKEN_ROWS if row.code == code), None)
    if known is not None:
        raise EncodeError(f"the token {name} is {known}", where=Where(field=name))
    return code


def _tokens(block: ChangeBlock, code: int, values: pa.Array, order: ByteOrder) -> pa.Array:
    """Return whole tokens of one id."""
    name = next((row.name for row in GGS_TOKEN_ROWS if row.code == code), f"x{code:02x}")
    if values.null_count:
        raise EncodeError("a token has no value", where=Where(table=block.table.name, field=name))
    try:
        payloads = _PAYLOADS.get(code, from_hex)(values)
    except (DecodeError, EncodeError) as error:
        where = Where(table=block.table.name, field=name, raw=error.where.raw)
        raise EncodeError(error.problem, where=where) from None
    sizes = pc.binary_length(payloads).to_numpy()
    _check_size(block, sizes)
    heads = frames(order, code, sizes).copy()
    if code == ORATAG:
        heads[sizes == 0, 1] = EMPTY_TAG_INFO
    pieces = Pieces(len(values))
    pieces.fixed(heads)
    pieces.variable(payloads)
    return pieces.joined()


def _text(values: pa.Array) -> pa.Array:
    return values.view(pa.binary())


def _rowid(values: pa.Array) -> pa.Array:
    raw = values.view(pa.binary())
    good = pc.equal(pc.binary_length(raw), ROWID_CHARACTERS)
    if not pc.all(good).as_py():
        bad = raw.filter(pc.invert(good))[0].as_py()
        problem = f"a ROWID has {ROWID_CHARACTERS} characters, not {len(bad)}"
        raise EncodeError(problem, where=Where(raw=bad))
    return pc.binary_join_element_wise(
        raw, pa.scalar(ROWID_TAIL, pa.binary()), pa.scalar(b"", pa.binary())
    )


# How values become payloads; those of other ids are hexadecimal digits.
_PAYLOADS: Final[Mapping[int, Callable[[pa.Array], pa.Array]]] = MappingProxyType(
    {ORAROWID: _rowid, ORATAG: from_hex, DDL: _text}
)


def _by_row(tokens: pa.Array, places: Longs, offsets: Longs) -> pa.Array:
    """Return tokens (entries at these places) joined by row: their bytes follow each other."""
    _, ends, data = tokens.buffers()
    bounds = np.frombuffer(ends, np.int32)[tokens.offset : tokens.offset + len(tokens) + 1]
    begins = np.ascontiguousarray(bounds[np.searchsorted(places, offsets)])
    return pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(begins), data or pa.py_buffer(b"")], 0
    )


def _user_areas(
    block: ChangeBlock, entries: tuple[Longs, pa.Array, pa.Array], is_user: Mask
) -> pa.Array:
    offsets, names, values = entries
    rows = np.searchsorted(offsets, np.flatnonzero(is_user), "right") - 1
    pairs: list[list[tuple[str, str]]] = [[] for _ in range(len(offsets) - 1)]
    chosen = pa.array(is_user)
    texts = values.filter(chosen).to_pylist()
    for row, name, text in zip(rows.tolist(), names.filter(chosen).to_pylist(), texts, strict=True):
        if text is None:
            problem = "a token has no value"
            raise EncodeError(problem, where=Where(table=block.table.name, field=name))
        pairs[row].append((name, text))
    try:
        return pa.array([user_token_bytes(each) if each else b"" for each in pairs], pa.binary())
    except EncodeError as error:
        raise error.located(table=block.table.name) from None
