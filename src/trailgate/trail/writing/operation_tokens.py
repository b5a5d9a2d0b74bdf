"""The tokens that operations bring in their map: GGS tokens by name, user tokens by any other name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar.hexadecimal import from_hex
from trailgate.errors import DecodeError, EncodeError, Where
from trailgate.model.changes import ChangeBlock
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.tokens import DDL, GGS_TOKEN_ROWS, MAX_LENGTH, ORAROWID, ORATAG
from trailgate.trail.format.user_tokens import user_token_bytes
from trailgate.trail.writing.record_builder import Pieces, frames

ROWID_TAIL: Final = b"\0\1"  # of unknown meaning, the same in both byte orders (trail format §9)
ROWID_CHARACTERS: Final = 18
EMPTY_TAG_INFO: Final = 1  # info of an empty ORATAG (trail format §2)
FROM_COLUMNS: Final = frozenset({"LOGCSN", "TRANID"})  # written from csn and tx_id
UNNAMED: Final = re.compile(r"x([0-9a-f]{2})")  # how the reader names an id that is not public


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


def own_payloads(block: ChangeBlock, order: ByteOrder) -> tuple[pa.Array, pa.Array | None]:
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
    check_size(block, sizes)
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


def check_size(block: ChangeBlock, sizes: npt.NDArray[np.integer[Any]]) -> None:
    """Raise EncodeError where tokens are longer than a length can say."""
    if len(sizes) and sizes.max() > MAX_LENGTH:
        problem = f"{sizes.max()} bytes of tokens do not fit in a record"
        raise EncodeError(problem, where=Where(table=block.table.name))
