"""Rows of text made of columns: a template has literals and values in turn, and the same for all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.kernels import strings as kernels
from trailgate.columnar.kernels.words import SPARE
from trailgate.columnar.rows import octets


class Piece(NamedTuple):
    """A literal and the text values after it; ``nulls`` are rows without a value, beside those that are null already."""

    literal: bytes
    values: pa.Array | None
    quoted: bool = False
    nulls: Mask | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredRows:
    """Rows that are measured: how many bytes each has, and all that writes them."""

    sizes: Longs
    data: Octets
    bases: tuple[int, ...]
    _parts: tuple[object, ...]
    _rest: tuple[object, ...]

    def write(self, to: Longs, out: Octets) -> None:
        """Write each row's bytes from its place in ``to`` on."""
        own = np.ascontiguousarray(to, np.int64)
        kinds, strings, literals = self._parts
        done = kernels.write_rows(
            kinds, strings, literals, self.data, *self._rest, self.sizes, own, out
        )
        assert done == 0, "the rows have other bytes than were measured"

    def fixed(self, piece: int, width: int) -> Octets:
        """Return the bytes of a piece whose values all have that many, a row each, to be changed."""
        base = self.bases[piece]
        return self.data[base : base + len(self.sizes) * width].reshape(-1, width)


def measure(pieces: Sequence[Piece], last: bytes, rows: int, quote: int = 0) -> MeasuredRows:
    """Return rows of these pieces and a last literal; a null is nothing, whether quoted or not.

    ``quote`` is the byte around quoted values, doubled within them.
    """
    contents, offsets, masks, kinds = [], [], [], []
    bases, valid_at = [], []
    total = masked = 0
    for piece in pieces:
        begins, content = _content(piece.values, rows)
        offsets.append(begins + (total - int(begins[0])))
        bases.append(total)
        total += len(content)
        contents.append(content)
        kinds.append(_kind(piece, content, quote))
        mask = _valid(piece, rows)
        valid_at.append(-1 if mask is None else masked)
        if mask is not None:
            masks.append(mask)
            masked += rows
    literals = [*(piece.literal for piece in pieces), last]
    bounds = np.cumsum([0, *map(len, literals)])
    data = np.concatenate([*contents, np.zeros(SPARE, np.uint8)])
    rest = (
        np.concatenate(offsets),
        np.concatenate(masks) if masks else np.zeros(0, np.bool_),
        np.array(valid_at, np.int64),
        quote,
    )
    strings = octets(b"".join(literals) + bytes(SPARE))
    parts = (np.array(kinds, np.int64), strings, bounds)
    sizes = np.empty(rows, np.int64)
    done = kernels.measure_rows(parts[0], bounds, data, *rest, sizes)
    assert done == 0, "values are within their columns"
    return MeasuredRows(sizes, data, tuple(bases), parts, rest)


def _content(values: pa.Array | None, rows: int) -> tuple[Longs, Octets]:
    """Return where the values of a text column begin, with the end, and their bytes."""
    if values is None or not rows:
        return np.zeros(rows + 1, np.int64), np.zeros(0, np.uint8)
    wide = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    _, bounds, data = values.buffers()
    kind, size = (np.int64, 8) if wide else (np.int32, 4)
    own = np.frombuffer(bounds, kind, rows + 1, size * values.offset).astype(np.int64)
    return own, octets(data or b"")[own[0] : own[-1]]


def _kind(piece: Piece, content: Octets, quote: int) -> int:
    if not piece.quoted:
        return kernels.BARE
    return kernels.ESCAPED if (content == quote).any() else kernels.QUOTED


def _valid(piece: Piece, rows: int) -> Mask | None:
    """Return which rows have a value; None where all have."""
    if piece.values is None:
        return np.zeros(rows, np.bool_)
    valid: Mask | None = None
    if piece.values.null_count:
        valid = piece.values.is_valid().to_numpy(zero_copy_only=False)
    if piece.nulls is None or not piece.nulls.any():
        return valid
    return ~piece.nulls if valid is None else valid & ~piece.nulls
