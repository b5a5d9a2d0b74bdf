"""Write operations as JSON messages, one per operation; GoldenGate's by `JsonWriter`, the reverse of `reader.py`.

Messages are written column by column: a message is a sequence of `JsonMember`s: a literal such as
`,"ID":` followed by a column of values. In each row a member has a value, is `null`, or is missing.
Members become the pieces of a template (`columnar/templates.py`), which writes all rows at once.
Messages are measured by table and operation type, and written in the order of the batch. Debezium's
change events are written by the same functions (`formats/debezium/writer.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar.hex_digits import from_hex
from trailgate.columnar.rows import group_rows
from trailgate.columnar.strings import codes_to_letters, text_view
from trailgate.columnar.templates import (
    JSON_ESCAPES,
    MeasuredRows,
    PieceForm,
    RowPiece,
)
from trailgate.columnar.templates import measure_templates as measure_pieces
from trailgate.columnar.temporal import ISO_T, format_times
from trailgate.errors import EncodeError
from trailgate.formats.json import node_kernels as kernels
from trailgate.formats.json.base64_text import to_base64
from trailgate.formats.json.options import METADATA, JsonPublishOptions
from trailgate.messages.publishing import NO_MESSAGES, WrittenMessages, bodies_as_array
from trailgate.model.changes import (
    DELETE,
    INSERT,
    KEY_UPDATE,
    TRUNCATE,
    UPDATE,
    ChangeBatch,
    ChangeBlock,
    Image,
    has_any_column,
)
from trailgate.model.tables import TABLES, Column, Table
from trailgate.model.types import TypeFamily
from trailgate.model.values import formatter_for

# How a member's value is written: no value; as it is; in quotes and escaped unless it is a number; in
# quotes; in quotes and escaped.
NOTHING, BARE, NUMBER, PLAIN, STRING = range(5)
COMMA, OPENING = b",", b"{"


# How values of each type family are written. Integers are JSON numbers as they are. Other numbers
# may have a notation that JSON lacks, and are in quotes then. All others need escapes.
KINDS: Final = {
    TypeFamily.INTEGER: BARE,
    TypeFamily.UNSIGNED: BARE,
    TypeFamily.NUMBER_TEXT: NUMBER,
    TypeFamily.FLOAT: NUMBER,
    TypeFamily.BYTES: PLAIN,
}
# A key update is an update whose images have different keys.
LETTERS: Final[Mapping[int, str]] = MappingProxyType(
    {INSERT: "I", UPDATE: "U", KEY_UPDATE: "U", DELETE: "D", TRUNCATE: "T"}
)
_TRANSACTION: Final = frozenset({"xid", "csn", "tx_ind"})


class JsonMember(NamedTuple):
    """A member of a written JSON object: a literal such as `"ID":`, then the value in the row.

    `kind` states how values are written, for example `STRING`: in quotes, with escapes. A null
    value is written as `null`. In the rows of the mask `missing`, the whole member is omitted. With
    the kind `NOTHING`, only the literal is written, for example a closing brace.
    """

    literal: bytes
    values: pa.Array | None = None
    kind: int = NOTHING
    missing: Mask | None = None


def json_literal(value: object) -> bytes:
    """Format a Python value as compact JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def measure_members(members: Sequence[JsonMember], rows: int) -> MeasuredRows:
    """Compute the sizes of written JSON objects that consist of these members, one object per row.

    The first member after an opening brace is written without its comma. Which member is the first
    differs by row, because members may be missing.
    """
    pieces: list[RowPiece] = []
    fresh = np.zeros(rows, bool)  # rows in which nothing follows the opening brace yet
    some = False
    for member in members:
        # Does this member come directly after an opening brace in some rows? Then it needs two
        # forms.
        opened = some and member.literal.startswith(COMMA) and bool(fresh.any())
        pieces.append(_piece(member, fresh if opened else None, rows))
        begins = member.kind == NOTHING and member.literal.endswith(OPENING)
        if begins or some:
            has = np.ones(rows, bool) if member.missing is None else ~member.missing
            fresh = (fresh & ~has) | (has & begins)
            some = begins or bool(fresh.any())
    return measure_pieces(pieces, rows, JSON_ESCAPES)


def _piece(member: JsonMember, fresh: Mask | None, rows: int) -> RowPiece:
    """Return the template piece of a JSON member.

    It is written without its comma in `fresh` rows.
    """
    text, values, kind = member.literal, member.values, member.kind
    forms = _forms(text, kind)
    states = None
    is_plain = kind != STRING
    if values is None and kind != NOTHING:
        states = np.ones(rows, np.uint8)
    elif values is not None and values.null_count:
        states = np.asarray(values.is_null()).astype(np.uint8)
    if kind == NUMBER and values is not None and rows:
        offsets, data = text_view(values)
        is_number = np.empty(rows, bool)
        if kernels.mark_numbers(data, offsets, is_number):
            plain_states = np.zeros(rows, np.uint8) if states is None else states
            others = (plain_states == 0) & ~is_number
            states = np.where(others, 2, plain_states).astype(np.uint8)
            # A text that is not a number may contain anything, such as a quote in a damaged trail.
            is_plain = not others.any()
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
            # The forms without a comma are appended, so that state + len(forms) selects the same
            # form without it.
            states = states + np.where(fresh, len(forms), 0).astype(np.uint8)
            forms += bare
    return RowPiece(values, forms, states, plain=is_plain)


def _forms(text: bytes, kind: int) -> tuple[PieceForm, ...]:
    """Return a JSON member's forms by state: its value, null, its value in quotes, and nothing."""
    if kind == NOTHING:
        return PieceForm(text), PieceForm(text), PieceForm(text), PieceForm()
    quote = b'"' if kind in (PLAIN, STRING) else b""
    return (
        PieceForm(text + quote, quote),
        PieceForm(text + b"null"),
        PieceForm(text + b'"', b'"'),
        PieceForm(),
    )


def map_json_members(maps: pa.MapArray) -> pa.Array:
    """Write the entries of each map as members of a JSON message, separated by commas, such as `"a":"1","b":"2"`.

    A null map becomes null.
    """
    dense = maps.drop_null() if maps.null_count else maps
    offsets = dense.offsets.to_numpy().astype(np.int64)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(dense) else (0, 0)
    entries = [
        JsonMember(b",", dense.keys.slice(first, last - first), STRING),
        JsonMember(b":", dense.items.slice(first, last - first), STRING),
    ]
    members = join_members(entries, offsets - first)
    if not maps.null_count:
        return members
    # Null maps were dropped: the index of each remaining map among the members.
    places = np.cumsum(np.asarray(maps.is_valid())) - 1
    return members.take(pa.array(places, mask=np.asarray(maps.is_null())))


def join_members(entries: Sequence[JsonMember], offsets: Longs) -> pa.Array:
    """For each i, join the members `offsets[i]:offsets[i + 1]` of a JSON object or array to one string.

    `entries` are the parts of a member in their order, each a column with one row per member. The
    literal of the first part begins with a comma, which is omitted before the first member of a
    string. For example, the parts `,` with names and `:` with values give `"a":"1","b":"2"`.
    """
    rows = int(offsets[-1])
    first = np.zeros(rows, bool)
    # The first member of each non-empty group. Example: offsets 0 2 2 3 mark the members 0 and 2.
    first[offsets[:-1][offsets[:-1] < offsets[1:]]] = True
    pieces = [_piece(entries[0], first if rows else None, rows)]
    pieces += [_piece(entry, None, rows) for entry in entries[1:]]
    # Each member is written as a row of its own; `bounds` then joins neighbouring rows to one
    # string.
    measured = measure_pieces(pieces, rows, JSON_ESCAPES)
    ends = np.concatenate([[0], np.cumsum(measured.sizes)]).astype(np.int64)
    out = np.empty(int(ends[-1]), np.uint8)
    measured.write(ends[:-1], out)
    bounds = np.ascontiguousarray(ends[offsets])
    return pa.Array.from_buffers(
        pa.large_string(), len(offsets) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(out)]
    )


class JsonColumnFormat(NamedTuple):
    """How a column is written as a JSON member: the literal before its value, the function that formats values, and how they are quoted."""

    literal: bytes
    format: Callable[[pa.Array], pa.Array]
    kind: int


def written_column(column: Column, *, strings: bool = False) -> JsonColumnFormat:
    """Choose how a column's values are written in JSON. With `strings` numbers are in quotes."""
    kind = KINDS.get(column.family, STRING)
    if strings and kind in (BARE, NUMBER):
        kind = PLAIN if kind == BARE else STRING
    return JsonColumnFormat(b"," + json_literal(column.name) + b":", formatter_for(column), kind)


def image_members(
    image: Image, columns: tuple[JsonColumnFormat, ...], rows: int
) -> Iterator[JsonMember]:
    """Yield the JSON members of an image's columns. Columns missing in every row are skipped."""
    for state, column in zip(image, columns, strict=True):
        if state.values is not None and rows:
            yield JsonMember(
                column.literal, column.format(state.values), column.kind, state.missing
            )


def check_no_image(block: ChangeBlock, image: Image, name: str) -> None:
    """Raise EncodeError if operations have an image that JSON messages of their type lack."""
    for state, column in zip(image, block.table.columns, strict=True):
        present: Mask = ~state.is_missing(len(block))
        if present.any():
            row = int(np.argmax(present))
            letter = chr(int(block.op_type[row]))
            problem = f"an operation {letter} has a value in its {name} image, which such messages do not have"
            raise operation_error(block, row, problem).with_place(field=column.name)


def operation_error(block: ChangeBlock, row: int, problem: str, hint: str = "") -> EncodeError:
    """Create an error located at an operation that cannot be written as JSON."""
    place = block.position[row].as_py()
    return EncodeError(f"{problem} (operation at {place})", hint=hint).with_place(
        table=block.table.name
    )


def check_sizes(block: ChangeBlock, sizes: Longs, most: int) -> None:
    """Raise EncodeError if a written JSON message has more than `most` bytes."""
    row = int(np.argmax(sizes > most))
    if sizes[row] > most:
        problem = f"the message has {int(sizes[row])} bytes; the limit is {most}"
        raise operation_error(block, row, problem, "Set max-message-bytes")


def measure_by_type(
    batch: ChangeBatch, measured: Callable[[ChangeBlock], MeasuredRows], most: int
) -> Iterator[tuple[ChangeBlock, MeasuredRows]]:
    """Yield the operations of each table and type with their measured JSON messages.

    Raises EncodeError if a message has more than `most` bytes.
    """
    for block in batch.blocks:
        # A template has one form per operation type, since the types have different images.
        for _, rows in group_rows(block.op_type.astype(np.int64)):
            part = block.take(rows)
            objects = measured(part)
            check_sizes(part, objects.sizes, most)
            yield part, objects


def write_bodies(parts: Iterable[tuple[Longs, MeasuredRows]], count: int) -> pa.LargeBinaryArray:
    """Write the measured JSON messages of all tables and types into one array of `count` bodies.

    Each part is a pair: the indexes of its messages in the array, and the messages. Indexes that
    are in no part become null.
    """
    parts, sizes = tuple(parts), np.zeros(count, np.int64)
    for slots, objects in parts:
        sizes[slots] = objects.sizes
    # Body i is written to bytes places[i] to places[i + 1] of `out`, whichever part it comes from.
    places = np.concatenate([[0], np.cumsum(sizes)])
    out = np.empty(int(places[-1]), np.uint8)
    for slots, objects in parts:
        objects.write(places[slots], out)
    strings = bodies_as_array(out, places)
    # A message has at least its braces, so a body without bytes belongs to a slot without a part.
    if sizes.all():
        return strings
    return pc.if_else(pa.array(sizes > 0), strings, pa.scalar(None, strings.type))


class JsonWriter:
    """Writes GoldenGate's JSON messages, one per operation."""

    def __init__(self, options: JsonPublishOptions) -> None:
        self.options = options

    def write(self, batch: ChangeBatch) -> WrittenMessages:
        """Write a batch of operations as JSON messages.

        Raises EncodeError for values that the format cannot express.
        """
        if not batch.rows:
            return NO_MESSAGES
        alike = measure_by_type(batch, self._measure, self.options.max_message_bytes)
        bodies = write_bodies(((block.order, objects) for block, objects in alike), batch.rows)
        names = pa.array([block.table.name for block in batch.blocks], pa.string())
        # Messages are keyed by table name, so that a partitioned log keeps each table's operations
        # in order.
        keys = names.take(pa.array(batch.table_numbers()))
        return WrittenMessages(bodies, np.arange(batch.rows), keys=keys)

    def finish(self) -> WrittenMessages:
        """Return no messages, because JSON messages are never held back."""
        return NO_MESSAGES

    def _measure(self, block: ChangeBlock) -> MeasuredRows:
        """Compute the sizes of the JSON messages for operations of one table and type."""
        pieces = [*self._metadata(block), *self._images(block), JsonMember(b"}")]
        return measure_members(pieces, len(block))

    def _metadata(self, block: ChangeBlock) -> Iterator[JsonMember]:
        options, rows = self.options, len(block)
        kind, name = int(block.op_type[0]), block.table.name
        head = b'{"table":' + json_literal(name) + b',"op_type":' + json_literal(LETTERS[kind])
        yield JsonMember(head + b',"op_ts":', format_times(block.op_ts), PLAIN)
        now = np.full(rows, options.now, np.int64) if options.now else block.op_ts
        yield JsonMember(b',"current_ts":', format_times(now, ISO_T), PLAIN)
        if options.position:
            yield JsonMember(b',"pos":', block.position, STRING)
        if options.transactions:
            yield JsonMember(b',"xid":', block.tx_id, STRING)
            yield JsonMember(b',"csn":', block.csn, STRING)
            yield JsonMember(b',"tx_ind":', codes_to_letters(block.tx_ind), PLAIN)
        if options.primary_keys:
            keys = [block.table.columns[key].name for key in block.table.marked_keys]
            yield JsonMember(b',"primary_keys":' + json_literal(keys))
        if options.tokens and block.tokens is not None:
            missing = np.asarray(block.tokens.is_null())
            yield JsonMember(b',"tokens":{', map_json_members(block.tokens), BARE, missing)
            yield JsonMember(b"}", missing=missing)

    def _images(self, block: ChangeBlock) -> Iterator[JsonMember]:
        columns, rows = _written(block.table, self.options), len(block)
        kind = int(block.op_type[0])
        # The image that the operation type does not have. A truncate has neither.
        unwanted = (block.before, "before") if kind == INSERT else (block.after, "after")
        if kind in (INSERT, DELETE, TRUNCATE):
            check_no_image(block, *unwanted)
        if kind == TRUNCATE:
            check_no_image(block, block.before, "before")
        elif self.options.model == "row":
            self._check_row_model(block)
            yield from image_members(block.before if kind == DELETE else block.after, columns, rows)
        else:
            images = [
                (block.before, b',"before":{', kind == DELETE),
                (block.after, b',"after":{', True),
            ]
            # An insert has only the second image, a delete only the first.
            for image, name, needed in images[kind == INSERT : 1 if kind == DELETE else 2]:
                if needed or has_any_column(image):
                    yield JsonMember(name)
                    yield from image_members(image, columns, rows)
                    yield JsonMember(b"}")

    def _check_row_model(self, block: ChangeBlock) -> None:
        kind = int(block.op_type[0])
        if kind == KEY_UPDATE:
            problem = "a key update has two images, but a message of the row model has only one"
            raise operation_error(block, 0, problem, "Publish with model=op")
        # Names that the row model uses for metadata beside the columns.
        used = METADATA | (_TRANSACTION if self.options.transactions else frozenset())
        for column in block.table.columns:
            if column.name.casefold() in used:
                problem = f"column {column.name} has the name of a metadata member"
                raise operation_error(block, 0, problem, "Publish with model=op")


@lru_cache(TABLES)
def _written(table: Table, options: JsonPublishOptions) -> tuple[JsonColumnFormat, ...]:
    return tuple(_column(table, column, options) for column in table.columns)


def _column(table: Table, column: Column, options: JsonPublishOptions) -> JsonColumnFormat:
    written = written_column(column, strings=options.strings)
    if column.family is not TypeFamily.BYTES or options.binary == "hex":
        return written
    if options.binary == "base64":
        return written._replace(format=lambda values: to_base64(from_hex(values)))

    def refuse(values: pa.Array) -> pa.Array:
        if values.null_count == len(values):
            return values
        problem = f"column {column.name} has bytes, but their notation is not set"
        error = EncodeError(problem, hint="Set binary to hex or base64")
        raise error.with_place(table=table.name, field=column.name)

    return written._replace(format=refuse)
