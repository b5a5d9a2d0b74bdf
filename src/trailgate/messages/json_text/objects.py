"""JSON objects made of columns: literals and values in turn; a member may be missing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.kernels.words import SPARE
from trailgate.columnar.views import octets
from trailgate.messages.json_text.kernels import objects as kernels
from trailgate.messages.json_text.kernels.objects import (
    BARE,
    MEMBERS,
    NOTHING,
    NUMBER,
    PLAIN,
    STRING,
)

__all__ = ["BARE", "MEMBERS", "NOTHING", "NUMBER", "PLAIN", "STRING", "Piece", "literal", "measure"]


class Piece(NamedTuple):
    """A literal and a value of each row after it; a null value is ``null``. The rows that are ``missing`` have neither."""

    literal: bytes
    values: pa.Array | None = None
    kind: int = NOTHING
    missing: Mask | None = None


def literal(value: object) -> bytes:
    """Return JSON text without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredObjects:
    """Rows that are measured: how many bytes each has, and all that writes them."""

    sizes: Longs
    parts: tuple[object, ...]

    def write(self, to: Longs, out: Octets) -> None:
        """Write each row's bytes from its place in ``to`` on."""
        own = np.ascontiguousarray(to, np.int64)
        done = kernels.write_objects(*self.parts, self.sizes, own, out)
        assert done == 0, "the rows have other bytes than were measured"


def measure(pieces: Sequence[Piece], rows: int) -> MeasuredObjects:
    """Return rows of these pieces."""
    offsets, contents, states, states_at = [], [], [], []
    total = marked = 0
    for piece in pieces:
        begins, content = _content(piece.values, rows)
        offsets.append(begins + (total - int(begins[0])))
        contents.append(content)
        total += len(content)
        own = _states(piece, rows)
        states_at.append(-1 if own is None else marked)
        if own is not None:
            states.append(own)
            marked += rows
    spare = np.zeros(SPARE, np.uint8)
    bounds = np.cumsum([0, *(len(piece.literal) for piece in pieces)])
    parts = (
        np.array([piece.kind for piece in pieces], np.int64),
        octets(b"".join(piece.literal for piece in pieces) + bytes(SPARE)),
        bounds,
        np.concatenate([*contents, spare]),
        np.concatenate(offsets),
        np.concatenate(states) if states else np.zeros(0, np.uint8),
        np.array(states_at, np.int64),
    )
    sizes = np.empty(rows, np.int64)
    done = kernels.measure_objects(*parts, sizes)
    assert done == 0, "values are within their columns"
    return MeasuredObjects(sizes, parts)


def map_members(maps: pa.MapArray) -> pa.Array:
    """Return the entries of each map as members, with a comma before each; nothing for a null map."""
    dense = maps.drop_null() if maps.null_count else maps
    offsets = dense.offsets.to_numpy().astype(np.int64)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(dense) else (0, 0)
    entries = measure(
        [
            Piece(b",", dense.keys.slice(first, last - first), STRING),
            Piece(b":", dense.items.slice(first, last - first), STRING),
        ],
        last - first,
    )
    members = joined_members(entries, offsets - first)
    if not maps.null_count:
        return members
    places = np.cumsum(np.asarray(maps.is_valid())) - 1
    return members.take(pa.array(places, mask=np.asarray(maps.is_null())))


def joined_members(entries: MeasuredObjects, offsets: Longs) -> pa.Array:
    """Return as one text each the entries offsets[i]:offsets[i + 1], which follow one another."""
    ends = np.concatenate([[0], np.cumsum(entries.sizes)]).astype(np.int64)
    out = np.empty(int(ends[-1]), np.uint8)
    entries.write(ends[:-1], out)
    bounds = np.ascontiguousarray(ends[offsets])
    return pa.Array.from_buffers(
        pa.large_string(), len(offsets) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(out)]
    )


def _content(values: pa.Array | None, rows: int) -> tuple[Longs, Octets]:
    """Return where the values of a text column begin, with the end, and their bytes."""
    if values is None or not rows:
        return np.zeros(rows + 1, np.int64), np.zeros(0, np.uint8)
    wide = pa.types.is_large_string(values.type)
    _, bounds, data = values.buffers()
    kind, size = (np.int64, 8) if wide else (np.int32, 4)
    own = np.frombuffer(bounds, kind, rows + 1, size * values.offset).astype(np.int64)
    return own, octets(data or b"")[own[0] : own[-1]]


def _states(piece: Piece, rows: int) -> Octets | None:
    """Return the state of each row, None where all have a value."""
    nulls = piece.values is not None and piece.values.null_count > 0
    every = piece.values is None and piece.kind != NOTHING
    if not nulls and not every and (piece.missing is None or not piece.missing.any()):
        return None
    states = np.full(rows, kernels.NULL if every else kernels.VALUE, np.uint8)
    if nulls:
        assert piece.values is not None
        states[np.asarray(piece.values.is_null())] = kernels.NULL
    if piece.missing is not None:
        states[piece.missing] = kernels.MISSING
    return states
