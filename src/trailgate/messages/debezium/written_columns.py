"""How columns are written in change events: as with decimal.handling.mode=string, time.precision.mode=isostring and binary.handling.mode=bytes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.columnar.hexadecimal import from_hex
from trailgate.columnar.time_texts import ISO_T, marked
from trailgate.messages.json_text.base64_text import to_base64
from trailgate.messages.json_text.images_text import WrittenColumn, written_column
from trailgate.messages.json_text.objects import BARE, NUMBER, PLAIN, STRING, literal
from trailgate.model.tables import TABLES, Column, Table
from trailgate.model.types import Family

_DATE: Final = 10  # characters
_TIME: Final = "io.debezium.time."
# Connect's types of whole numbers by their bytes; an unsigned number needs one more.
_SIGNED: Final = {2: "int16", 4: "int32", 8: "int64"}
_UNSIGNED: Final = {2: "int32", 4: "int64"}


class EventColumn(NamedTuple):
    """A column of events: how it is written, and its field in the schema."""

    written: WrittenColumn
    field: dict[str, Any]


@lru_cache(TABLES)
def event_columns(table: Table) -> tuple[EventColumn, ...]:
    """Return how the columns of a table are written."""
    return tuple(map(_column, table.columns))


def _column(column: Column) -> EventColumn:
    plain = written_column(column)
    family = column.family
    if family in (Family.INTEGER, Family.UNSIGNED):
        sizes = _SIGNED if family is Family.INTEGER else _UNSIGNED
        kind = "string" if column.scale else sizes.get(column.type_row.width or 8, "string")
        return _typed(plain._replace(kind=PLAIN if kind == "string" else BARE), column, kind)
    if family is Family.FLOAT:
        kind = "float" if column.type_row.width == 4 else "double"
        return _typed(plain._replace(kind=NUMBER), column, kind)
    if family is Family.BYTES:
        return _typed(plain._replace(format=_base64, kind=PLAIN), column, "bytes")
    if family is Family.DATETIME and not column.zoned and column.external_length >= _DATE:
        name = "IsoDate" if column.external_length < _DATE + 3 else "IsoTimestamp"
        return _typed(plain._replace(format=_iso, kind=PLAIN), column, "string", _TIME + name)
    return _typed(plain._replace(kind=STRING), column, "string")


def _typed(written: WrittenColumn, column: Column, kind: str, name: str = "") -> EventColumn:
    field: dict[str, Any] = {"type": kind, "optional": True, "field": column.name}
    return EventColumn(written, field | ({"name": name, "version": 1} if name else {}))


def _base64(values: pa.Array) -> pa.Array:
    return to_base64(from_hex(values))


def _iso(values: pa.Array) -> pa.Array:
    """Return ISO times in UTC (assumed: as Debezium's IsoDate and IsoTimestamp are)."""
    return pc.binary_join_element_wise(marked(values, ISO_T[:1]), "Z", "")


@lru_cache(TABLES)
def event_schema(table: Table, prefix: str) -> bytes:
    """Return the schema of a table's events, as Connect's JSON converter writes it."""
    name = f"{prefix}.{table.name}"
    columns = [column.field for column in event_columns(table)]
    row = {"type": "struct", "fields": columns, "optional": True, "name": f"{name}.Value"}

    def plain(field: str, kind: str, *, optional: bool = True) -> dict[str, Any]:
        return {"type": kind, "optional": optional, "field": field}

    def struct(field: str, own: str, fields: list[dict[str, Any]], *, optional: bool) -> Any:
        return {
            "type": "struct", "fields": fields, "optional": optional, "name": own, "field": field,
        }  # fmt: skip

    texts = ("version", "connector", "name", "snapshot", "db", "schema", "table", "txId", "scn")
    times = ("ts_ms", "ts_us", "ts_ns")
    source = [plain(text, "string") for text in texts] + [plain(time, "int64") for time in times]
    block = [plain("id", "string", optional=False)]
    block += [
        plain(order, "int64", optional=False) for order in ("total_order", "data_collection_order")
    ]
    fields = [
        row | {"field": "before"},
        row | {"field": "after"},
        struct("source", "io.debezium.connector.trailgate.Source", source, optional=False),
        plain("op", "string", optional=False),
        *(plain(time, "int64") for time in times),
        struct("transaction", "event.block", block, optional=True),
    ]
    envelope = {
        "type": "struct", "fields": fields, "optional": False, "name": f"{name}.Envelope", "version": 1,
    }  # fmt: skip
    return literal(envelope)
