"""JSON messages written from columns, an operation each.

An object is made of members, each a literal and a value in one of three states, which become the pieces of a template (``columnar/templates.py``). Messages are measured by table
and operation type, and written in the order of the batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar.rows import group, text_view
from trailgate.columnar.templates import Escapes, Form, MeasuredRows, Piece
from trailgate.columnar.templates import measure as measure_pieces
from trailgate.errors import EncodeError
from trailgate.formats.json import object_kernels as kernels
from trailgate.messages.publishing import bodies_of
from trailgate.model.changes import ChangeBatch, ChangeBlock, Image
from trailgate.model.tables import Column
from trailgate.model.types import Family
from trailgate.model.values import formatter_for

# What is after a member's literal: nothing; a value as it is; one in quotes where it is not a number; in quotes; in quotes, with escapes.
NOTHING, BARE, NUMBER, PLAIN, STRING = range(5)
SHORT: Final = {8: b"\\b", 9: b"\\t", 10: b"\\n", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}
ESCAPES: Final = Escapes.of({**{byte: b"\\u%04x" % byte for byte in range(32)}, **SHORT})
COMMA, OPENING = b",", b"{"


class Member(NamedTuple):
    """A literal and a value of each row after it; a null value is ``null``. The rows that are ``missing`` have neither."""

    literal: bytes
    values: pa.Array | None = None
    kind: int = NOTHING
    missing: Mask | None = None


def literal(value: object) -> bytes:
    """Return JSON text without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def measure(members: Sequence[Member], rows: int) -> MeasuredRows:
    """Return rows of these members; the comma before the first one that a row has after an opening brace is left out."""
    pieces: list[Piece] = []
    fresh = np.zeros(rows, bool)  # rows that have nothing after the brace
    some = False
    for member in members:
        opened = some and member.literal.startswith(COMMA) and bool(fresh.any())
        pieces.append(_piece(member, fresh if opened else None, rows))
        begins = member.kind == NOTHING and member.literal.endswith(OPENING)
        if begins or some:
            has = np.ones(rows, bool) if member.missing is None else ~member.missing
            fresh = (fresh & ~has) | (has & begins)
            some = begins or bool(fresh.any())
    return measure_pieces(pieces, rows, ESCAPES)


def _piece(member: Member, fresh: Mask | None, rows: int) -> Piece:
    """Return the piece of a member; it has no comma in the rows that are ``fresh``."""
    text, values, kind = member.literal, member.values, member.kind
    forms = _forms(text, kind)
    states = None
    if values is None and kind != NOTHING:
        states = np.ones(rows, np.uint8)
    elif values is not None and values.null_count:
        states = np.asarray(values.is_null()).astype(np.uint8)
    if kind == NUMBER and values is not None and rows:
        offsets, data = text_view(values)
        found = np.empty(rows, bool)
        if kernels.mark_numbers(data, offsets, found):
            own = np.zeros(rows, np.uint8) if states is None else states
            states = np.where((own == 0) & ~found, 2, own).astype(np.uint8)
    missing = member.missing
    if missing is not None and missing.any():
        states = np.zeros(rows, np.uint8) if states is None else states
        states = np.where(missing, 3, states).astype(np.uint8)
    if fresh is not None:
        bare = _forms(text[len(COMMA) :], kind)
        if fresh.all():
            forms = bare
        else:
            states = np.zeros(rows, np.uint8) if states is None else states
            states = states + np.where(fresh, len(forms), 0).astype(np.uint8)
            forms += bare
    return Piece(values, forms, states, plain=kind != STRING)


def _forms(text: bytes, kind: int) -> tuple[Form, ...]:
    """Return the forms of a member: its value, null, a value in quotes, and nothing."""
    if kind == NOTHING:
        return Form(text), Form(text), Form(text), Form()
    quote = b'"' if kind in (PLAIN, STRING) else b""
    return Form(text + quote, quote), Form(text + b"null"), Form(text + b'"', b'"'), Form()


def map_members(maps: pa.MapArray) -> pa.Array:
    """Return the entries of each map as members with commas between them; nothing for a null map."""
    dense = maps.drop_null() if maps.null_count else maps
    offsets = dense.offsets.to_numpy().astype(np.int64)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(dense) else (0, 0)
    entries = [
        Member(b",", dense.keys.slice(first, last - first), STRING),
        Member(b":", dense.items.slice(first, last - first), STRING),
    ]
    members = joined_members(entries, offsets - first)
    if not maps.null_count:
        return members
    places = np.cumsum(np.asarray(maps.is_valid())) - 1
    return members.take(pa.array(places, mask=np.asarray(maps.is_null())))


def joined_members(entries: Sequence[Member], offsets: Longs) -> pa.Array:
    """Return as one text each the entries offsets[i]:offsets[i + 1], which follow one another; the first one has no comma before it."""
    rows = int(offsets[-1])
    first = np.zeros(rows, bool)
    first[offsets[:-1][offsets[:-1] < offsets[1:]]] = True
    pieces = [_piece(entries[0], first if rows else None, rows)]
    pieces += [_piece(entry, None, rows) for entry in entries[1:]]
    measured = measure_pieces(pieces, rows, ESCAPES)
    ends = np.concatenate([[0], np.cumsum(measured.sizes)]).astype(np.int64)
    out = np.empty(int(ends[-1]), np.uint8)
    measured.write(ends[:-1], out)
    bounds = np.ascontiguousarray(ends[offsets])
    return pa.Array.from_buffers(
        pa.large_string(), len(offsets) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(out)]
    )


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


def members(image: Image, columns: tuple[WrittenColumn, ...], rows: int) -> Iterator[Member]:
    """Yield the members of an image's columns; those that are missing in every row have none."""
    for state, column in zip(image, columns, strict=True):
        if state.values is not None and rows:
            yield Member(column.literal, column.format(state.values), column.kind, state.missing)


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
    batch: ChangeBatch, measured: Callable[[ChangeBlock], MeasuredRows], most: int
) -> Iterator[tuple[ChangeBlock, MeasuredRows]]:
    """Yield the operations of each table and type, and their messages; raises EncodeError for one of more than ``most`` bytes."""
    for block in batch.blocks:
        for _, rows in group(block.op_type.astype(np.int64)):
            alike = block.take(rows)
            objects = measured(alike)
            check_sizes(alike, objects.sizes, most)
            yield alike, objects


def written(parts: Iterable[tuple[Longs, MeasuredRows]], count: int) -> pa.LargeBinaryArray:
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
