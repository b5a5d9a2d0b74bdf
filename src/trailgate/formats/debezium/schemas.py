"""The schemas of change events, in the notation of Kafka Connect's JSON converter, which writes one beside each event: parse and build them.

For each column the schema contains a Connect type such as `int64`, often a semantic name such as
`io.debezium.time.MicroTimestamp`, and parameters such as a decimal's scale.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.columnar.hex_digits import from_hex
from trailgate.columnar.temporal import ISO_T, replace_time_marks
from trailgate.errors import DecodeError
from trailgate.formats.json.base64_text import to_base64
from trailgate.formats.json.writer import (
    BARE,
    NUMBER,
    PLAIN,
    STRING,
    JsonColumnFormat,
    json_literal,
    written_column,
)
from trailgate.model.tables import TABLES, Column, Table
from trailgate.model.types import TypeFamily

Members = Mapping[str, Any]

_DATE: Final = 10  # characters
_TIME: Final = "io.debezium.time."
# Connect's integer types by size in bytes; an unsigned number needs the next larger one.
_SIGNED: Final = {2: "int16", 4: "int32", 8: "int64"}
_UNSIGNED: Final = {2: "int32", 4: "int64"}
# The schemas of BEGIN and END events (Debezium, transaction metadata).
_ID: Final = {"type": "string", "optional": False, "field": "id"}
_COUNTED: Final = {
    "type": "struct", "name": "event.collection", "version": 1, "optional": False, "fields": [
        {"type": "string", "optional": False, "field": "data_collection"},
        {"type": "int64", "optional": False, "field": "event_count"},
    ],
}  # fmt: skip
_METADATA: Final = "io.debezium.connector.common.TransactionMetadata"
TRANSACTION_KEY: Final = json_literal(
    {"type": "struct", "fields": [_ID], "optional": False, "name": f"{_METADATA}Key", "version": 1}
)
TRANSACTION_VALUE: Final = json_literal(
    {
        "type": "struct", "name": f"{_METADATA}Value", "version": 1, "optional": False, "fields": [
            {"type": "string", "optional": False, "field": "status"},
            _ID,
            {"type": "int64", "optional": False, "field": "ts_ms"},
            {"type": "int64", "optional": True, "field": "event_count"},
            {"type": "array", "optional": True, "field": "data_collections", "items": _COUNTED},
        ],
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ConnectFieldType:
    """A column's type in a Debezium schema: Connect's type and the semantic name, if any.

    `parameters` are, for example, the scale of a decimal. `column` is the column's name.
    """

    type: str
    name: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    column: str = ""


Schema = Mapping[str, ConnectFieldType]


def parse_schema(text: bytes, *, rows: bool = False) -> Schema:
    """Parse the schema that Connect's JSON converter writes beside a change event.

    Returns the column types by lower-case name, in the order of the columns.

    The schema describes an event, or with `rows` a flattened row. Raises DecodeError if the schema
    cannot be read, or that of an event has no columns.
    """
    try:
        schema = json.loads(text)
    except ValueError as error:  # a number of thousands of digits
        raise DecodeError(f"the schema of the event cannot be read: {error}") from None
    if rows:
        return {kind.column.casefold(): kind for kind in map(_type, _fields(schema))}
    # An envelope's schema describes both images by the same columns; the first one found is enough.
    for row in _fields(schema):
        if row.get("field") in ("after", "before"):
            types = map(_type, _fields(row))
            return {kind.column.casefold(): kind for kind in types}
    raise DecodeError("the schema of the event has no columns", hint="Is it an envelope's schema?")


def _fields(node: Any) -> list[Members]:
    fields = node.get("fields") if isinstance(node, dict) else None
    return [row for row in fields if isinstance(row, dict)] if isinstance(fields, list) else []


def _type(column: Members) -> ConnectFieldType:
    given = column.get("parameters")
    parameters = {str(k): str(v) for k, v in given.items()} if isinstance(given, dict) else {}
    name, own = str(column.get("name") or ""), str(column.get("field"))
    return ConnectFieldType(str(column.get("type")), name, parameters, own)


def numeric_parameter(field_type: ConnectFieldType, name: str, default: int = 0) -> int:
    """Return a numeric parameter of a type in a Debezium schema, such as the scale.

    Returns `default` if it is missing or not a number.
    """
    text = field_type.parameters.get(name, "")
    return int(text) if re.fullmatch(r"-?[0-9]{1,4}", text) else default


class EventColumn(NamedTuple):
    """A column of written change events: how its values are formatted, and its field in the schema."""

    written: JsonColumnFormat
    field: dict[str, Any]


@lru_cache(TABLES)
def event_columns(table: Table) -> tuple[EventColumn, ...]:
    """Return the `EventColumn` of each column of a table."""
    return tuple(map(_column, table.columns))


def _column(column: Column) -> EventColumn:
    plain = written_column(column)
    family = column.family
    if family in (TypeFamily.INTEGER, TypeFamily.UNSIGNED):
        sizes = _SIGNED if family is TypeFamily.INTEGER else _UNSIGNED
        # Connect has no decimal integers, and no unsigned ones of 8 bytes: these become strings.
        kind = "string" if column.scale else sizes.get(column.type_row.width or 8, "string")
        return _convert_type(plain._replace(kind=PLAIN if kind == "string" else BARE), column, kind)
    if family is TypeFamily.FLOAT:
        kind = "float" if column.type_row.width == 4 else "double"
        return _convert_type(plain._replace(kind=NUMBER), column, kind)
    if family is TypeFamily.BYTES:
        return _convert_type(plain._replace(format=_base64, kind=PLAIN), column, "bytes")
    if family is TypeFamily.DATETIME and not column.zoned and column.external_length >= _DATE:
        name = "IsoDate" if column.external_length < _DATE + 3 else "IsoTimestamp"
        return _convert_type(
            plain._replace(format=_iso, kind=STRING), column, "string", _TIME + name
        )
    return _convert_type(plain._replace(kind=STRING), column, "string")


def _convert_type(
    written: JsonColumnFormat, column: Column, op_type: str, name: str = ""
) -> EventColumn:
    field: dict[str, Any] = {"type": op_type, "optional": True, "field": column.name}
    return EventColumn(written, field | ({"name": name, "version": 1} if name else {}))


def _base64(values: pa.Array) -> pa.Array:
    return to_base64(from_hex(values))


def _iso(values: pa.Array) -> pa.Array:
    """Format dates and times of change events as ISO text with a final Z.

    Assumed: Debezium writes IsoDate and IsoTimestamp in this way.
    """
    return pc.binary_join_element_wise(replace_time_marks(values, ISO_T[:1]), "Z", "")


@lru_cache(TABLES)
def event_schema(table: Table, prefix: str) -> bytes:
    """Build the schema of a table's change events, in the notation of Connect's JSON converter."""
    name = f"{prefix}.{table.name}"
    columns = [column.field for column in event_columns(table)]
    row = {"type": "struct", "fields": columns, "optional": True, "name": f"{name}.Value"}

    def plain(field: str, kind: str, *, optional: bool = True) -> dict[str, Any]:
        return {"type": kind, "optional": optional, "field": field}

    def struct(field: str, own: str, fields: list[dict[str, Any]], *, optional: bool) -> Any:
        return {
            "type": "struct", "fields": fields, "optional": optional, "name": own, "field": field,
        }  # fmt: skip

    strings = ("version", "connector", "name", "snapshot", "db", "schema", "table", "txId", "scn")
    times = ("ts_ms", "ts_us", "ts_ns")
    source = [plain(text, "string") for text in strings] + [plain(time, "int64") for time in times]
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
    return json_literal(envelope)


@lru_cache(TABLES)
def key_schema(table: Table, prefix: str) -> bytes:
    """Build the schema of the keys of a table's change events, in the notation of Connect's JSON converter."""
    columns = event_columns(table)
    fields = [columns[key].field | {"optional": False} for key in table.marked_keys]
    name = f"{prefix}.{table.name}.Key"
    return json_literal({"type": "struct", "fields": fields, "optional": False, "name": name})
