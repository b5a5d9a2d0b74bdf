"""Write operations as GoldenGate's JSON messages: the reverse of `reader.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.columnar.hex_digits import from_hex
from trailgate.columnar.strings import codes_to_letters
from trailgate.columnar.templates import MeasuredRows
from trailgate.columnar.temporal import ISO_T, format_times
from trailgate.errors import EncodeError
from trailgate.formats.json.base64_text import to_base64
from trailgate.formats.json.objects import (
    BARE,
    PLAIN,
    STRING,
    JsonColumnFormat,
    JsonMember,
    check_no_image,
    image_members,
    json_literal,
    map_members,
    measure_by_type,
    measure_members,
    operation_error,
    table_numbers,
    write_bodies,
    written_column,
)
from trailgate.formats.json.options import METADATA, JsonPublishOptions
from trailgate.messages.publishing import NO_MESSAGES, WrittenMessages
from trailgate.model.changes import (
    DELETE,
    INSERT,
    KEY_UPDATE,
    TRUNCATE,
    UPDATE,
    ChangeBatch,
    ChangeBlock,
    has_any_column,
)
from trailgate.model.tables import TABLES, Column, Table
from trailgate.model.types import TypeFamily

# A key update is an update whose images have different keys.
LETTERS: Final[Mapping[int, str]] = MappingProxyType(
    {INSERT: "I", UPDATE: "U", KEY_UPDATE: "U", DELETE: "D", TRUNCATE: "T"}
)
_TRANSACTION: Final = frozenset({"xid", "csn", "tx_ind"})


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
        keys = names.take(pa.array(table_numbers(batch)))
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
            yield JsonMember(b',"tokens":{', map_members(block.tokens), BARE, missing)
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
