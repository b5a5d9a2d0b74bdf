"""The keys of change events: the values of a table's key, so that a partitioned log keeps the order of a row's events."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.messages.debezium.transaction_events import Bounds
from trailgate.messages.debezium.written_columns import event_columns
from trailgate.messages.json_text.images_text import operation_error
from trailgate.messages.json_text.objects import STRING, MeasuredObjects, Piece, literal, measure
from trailgate.model.changes import DELETE, TRUNCATE, ChangeBlock
from trailgate.model.tables import TABLES, Table


def event_keys(block: ChangeBlock, prefix: str, *, schemas: bool) -> MeasuredObjects | None:
    """Return the keys of alike operations: those after, of deletes before. None for truncates and tables without a key.

    Raises EncodeError for an operation without a value of the key.
    """
    numbers = block.table.marked_keys
    if not numbers or block.op_type[0] == TRUNCATE:
        return None
    pieces = [Piece(b"{"), *(_member(block, number) for number in numbers), Piece(b"}")]
    if schemas:
        schema = key_schema(block.table, prefix)
        pieces = [Piece(b'{"schema":' + schema + b',"payload":'), *pieces, Piece(b"}")]
    return measure(pieces, len(block))


def transaction_keys(bounds: Bounds, rows: Longs) -> MeasuredObjects:
    """Return the keys of BEGIN or END events at these operations."""
    ids = bounds.tx_id.take(pa.array(rows))
    return measure([Piece(b'{"id":', ids, STRING), Piece(b"}")], len(rows))


@lru_cache(TABLES)
def key_schema(table: Table, prefix: str) -> bytes:
    """Return the schema of the keys of a table's events, as Connect's JSON converter writes it."""
    columns = event_columns(table)
    fields = [columns[key].field | {"optional": False} for key in table.marked_keys]
    name = f"{prefix}.{table.name}.Key"
    return literal({"type": "struct", "fields": fields, "optional": False, "name": name})


def _member(block: ChangeBlock, number: int) -> Piece:
    """Return a column of the key; one that is missing after is as it was before."""
    images = block.before[number], block.after[number]
    first, other = images if block.op_type[0] == DELETE else images[::-1]
    missing, values = first.is_missing(len(block)), first.values
    if missing.any():
        lost = missing & other.is_missing(len(block))
        if lost.any():
            name = block.table.columns[number].name
            problem = f"key column {name} is missing, and an event has a key"
            raise operation_error(block, int(np.argmax(lost)), problem).located(field=name)
        assert other.values is not None
        values = (
            other.values if values is None else pc.if_else(pa.array(missing), other.values, values)
        )
    written = event_columns(block.table)[number].written
    return Piece(written.literal, written.format(values), written.kind)
