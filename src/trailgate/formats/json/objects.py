"""JSON messages written from columns, an operation each.

An object is literals and values in turn; a member may be missing. An image is one piece a column, its value in three states. Messages are measured by table
and operation type, and written in the order of the batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.kernels.words import SPARE
from trailgate.columnar.rows import group, octets
from trailgate.errors import EncodeError
from trailgate.formats.json import object_kernels as kernels
from trailgate.formats.json.object_kernels import BARE, MEMBERS, NOTHING, NUMBER, PLAIN, STRING
from trailgate.messages.publishing import bodies_of
from trailgate.model.changes import ChangeBatch, ChangeBlock, Image
from trailgate.model.tables import Column
from trailgate.model.types import Family
from trailgate.model.values import formatter_for

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
    states = np.full(rows, kernels.NULL_PIECE if every else kernels.VALUE, np.uint8)
    if nulls:
        assert piece.values is not None
        states[np.asarray(piece.values.is_null())] = kernels.NULL_PIECE
    if piece.missing is not None:
        states[piece.missing] = kernels.MISSING
    return states


# What values of a family need: whole numbers are JSON's; other numbers may be written otherwise; date times have no escapes.
KINDS: Final = {
    Family.INTEGER: BARE,
    Family.UNSIGNED: BARE,
    Family.NUMBER_TEXT: NUMBER,
    Family.FLOAT: NUMBER,
    Family.BYTES: PLAIN,
}


class WrittenColumn(NamedTuple):
    """A column as a member: the literal before its value, how that becomes text, and what kind of value it is."""

    literal: bytes
    format: Callable[[pa.Array], pa.Array]
    kind: int


def written_column(column: Column, *, strings: bool = False) -> WrittenColumn:
    """Return how a column's values are written; with ``strings`` numbers are in quotes."""
    kind = KINDS.get(column.family, STRING)
    if strings and kind in (BARE, NUMBER):
        kind = PLAIN
    return WrittenColumn(b"," + literal(column.name) + b":", formatter_for(column), kind)


def members(image: Image, columns: tuple[WrittenColumn, ...], rows: int) -> Iterator[Piece]:
    """Yield the pieces of an image's columns; those that are missing in every row have none."""
    for state, column in zip(image, columns, strict=True):
        if state.values is not None and rows:
            yield Piece(column.literal, column.format(state.values), column.kind, state.missing)


def is_there(image: Image) -> bool:
    """Return whether an image has any column."""
    return any(state.values is not None for state in image)


def refuse_image(block: ChangeBlock, image: Image, name: str) -> None:
    """Raise EncodeError where an image that such operations have not has a value."""
    for state, column in zip(image, block.table.columns, strict=True):
        present: Mask = ~state.is_missing(len(block))
        if present.any():
            row = int(np.argmax(present))
            letter = chr(int(block.op_type[row]))
            problem = f"an operation {letter} has a value in its {name} image, which such messages do not have"
            raise operation_error(block, row, problem).with_place(field=column.name)


def operation_error(block: ChangeBlock, row: int, problem: str, hint: str = "") -> EncodeError:
    """Return an error placed at an operation."""
    place = block.position[row].as_py()
    return EncodeError(f"{problem} (operation at {place})", hint=hint).with_place(
        table=block.table.name
    )


def check_sizes(block: ChangeBlock, sizes: Longs, most: int) -> None:
    """Raise EncodeError for a message with more bytes than one may have."""
    row = int(np.argmax(sizes))
    if sizes[row] > most:
        problem = f"the message has {int(sizes[row])} bytes, and {most} at most"
        raise operation_error(block, row, problem, "Set max-message-bytes")


def measured_alike(
    batch: ChangeBatch, measured: Callable[[ChangeBlock], MeasuredObjects], most: int
) -> Iterator[tuple[ChangeBlock, MeasuredObjects]]:
    """Yield the operations of each table and type, and their messages; raises EncodeError for one of more than ``most`` bytes."""
    for block in batch.blocks:
        for _, rows in group(block.op_type.astype(np.int64)):
            alike = block.take(rows)
            objects = measured(alike)
            check_sizes(alike, objects.sizes, most)
            yield alike, objects


def written(parts: Iterable[tuple[Longs, MeasuredObjects]], count: int) -> pa.LargeBinaryArray:
    """Return ``count`` strings, each part's at its own slots; null where no part has one."""
    parts, sizes = tuple(parts), np.zeros(count, np.int64)
    for slots, objects in parts:
        sizes[slots] = objects.sizes
    places = np.concatenate([[0], np.cumsum(sizes)])
    out = np.empty(int(places[-1]), np.uint8)
    for slots, objects in parts:
        objects.write(places[slots], out)
    strings = bodies_of(out, places)
    if sizes.all():
        return strings
    return pc.if_else(pa.array(sizes > 0), strings, pa.scalar(None, strings.type))


def table_numbers(batch: ChangeBatch) -> Longs:
    """Return which of the batch's blocks each operation is in."""
    numbers = np.empty(batch.rows, np.int64)
    for number, block in enumerate(batch.blocks):
        numbers[block.order] = number
    return numbers
