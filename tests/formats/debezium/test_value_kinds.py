"""What each kind of JSON value is for each type of Debezium: the value, or an error, and never another value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from held_captures import json_capture
from publication_strings import rows_of
from trailgate.messages.message_batch import messages_from

TYPES = (Path(__file__).parent / "cases" / "types.def").read_text()
CONNECT, TIME, DATA = "org.apache.kafka.connect.data.", "io.debezium.time.", "io.debezium.data."
SCALE = {"parameters": {"scale": "2"}}
# Each node beside what it may be taken for: the same digits in base64, in hexadecimal, or as days are other values.
NODES: dict[str, Any] = {
    "number": 1234,
    "string": "1234",
    "true": True,
    "false": False,
    "object": {"scale": 2, "value": "BNI="},
    "array": [1234],
}
# The field of the schema, its column, and the nodes that have a value.
SCHEMAS: list[tuple[dict[str, Any], str, dict[str, str]]] = [
    (
        {"type": "bytes", "name": CONNECT + "Decimal", **SCALE},
        "NUM",
        {"number": "1234", "string": "-26588.24"},
    ),
    (
        {"type": "struct", "name": DATA + "VariableScaleDecimal"},
        "NUM",
        {"number": "1234", "object": "12.34"},
    ),
    ({"type": "bytes"}, "RAW", {"string": "D76DF8"}),
    ({"type": "int64"}, "NUM", {"number": "1234", "string": "1234"}),
    ({"type": "int64"}, "ID", {"number": "1234", "string": "1234"}),
    ({"type": "double"}, "NUM", {"number": "1234", "string": "1234"}),
    ({"type": "boolean"}, "NUM", {"true": "1", "false": "0"}),
    ({"type": "boolean"}, "TEXT", {"true": "true", "false": "false"}),
    ({"type": "string"}, "TEXT", {"string": "1234"}),
    ({"type": "int32", "name": TIME + "Date"}, "DAY", {"number": "1973-05-19"}),
    (
        {"type": "int64", "name": TIME + "Timestamp"},
        "MICRO",
        {"number": "1970-01-01 00:00:01.234000"},
    ),
    ({"type": "int64", "name": CONNECT + "Time"}, "TEXT", {"number": "00:00:01.234000"}),
    ({"type": "string", "name": TIME + "IsoDate"}, "DAY", {}),
]
# The property, its column, and the nodes that have a value without a schema.
MODES: list[tuple[str, str, dict[str, str]]] = [
    ("decimal.handling.mode=precise", "NUM", {"number": "1234", "object": "12.34", "bool": "1"}),
    (
        "decimal.handling.mode=string",
        "NUM",
        {"number": "1234", "string": "1234", "object": "12.34"},
    ),
    ("decimal.handling.mode=precise", "ID", {"number": "1234", "string": "-2658824"}),
    ("binary.handling.mode=bytes", "RAW", {"string": "D76DF8"}),
    ("binary.handling.mode=base64-url-safe", "RAW", {"string": "D76DF8"}),
    ("binary.handling.mode=hex", "RAW", {"string": "1234"}),
    ("time.precision.mode=connect", "DAY", {"number": "1973-05-19"}),
    ("time.precision.mode=connect", "MICRO", {"number": "1970-01-01 00:00:01.234000"}),
]


def value_of(column: str, node: Any, field: dict[str, Any] | None, properties: str) -> str | None:
    """Return the value of a column after an insert; None where the event is refused."""
    event: dict[str, Any] = {
        "before": None,
        "after": {column: node} if column == "ID" else {"ID": 1, column: node},
        "source": {"ts_ms": 1705611172576, "schema": "S", "table": "T"},
        "op": "c",
    }
    if field is not None:
        columns: list[dict[str, Any]] = [{"type": "int32", "field": "ID"}] * (column != "ID")
        columns.append({"optional": True, "field": column, **field})
        row = {"type": "struct", "fields": columns, "field": "after"}
        event = {"schema": {"type": "struct", "fields": [row]}, "payload": event}
    text = f"parser.type=debezium\ndebezium.sourcedefs=shop.def\ndebezium.txid=*txid\n{properties}"
    parsed = json_capture(text, TYPES).parse(messages_from([json.dumps(event).encode()]))
    if parsed.problems:
        assert f"field {column}" in str(parsed.problems[0].error)
        return None
    after = rows_of(parsed.batch)[0]["after"]
    assert isinstance(after, dict)
    found: str = after[column]
    return found


@pytest.mark.parametrize(("field", "column", "values"), SCHEMAS)
def test_a_value_is_of_the_kind_that_its_schema_has(
    field: dict[str, Any], column: str, values: dict[str, str]
) -> None:
    found = {kind: value_of(column, node, field, "") for kind, node in NODES.items()}

    assert {kind: value for kind, value in found.items() if value is not None} == values


@pytest.mark.parametrize(("mode", "column", "values"), MODES)
def test_a_value_without_a_schema_is_of_the_kind_that_its_property_has(
    mode: str, column: str, values: dict[str, str]
) -> None:
    found = {
        kind: value_of(column, node, None, f"debezium.{mode}")
        for kind, node in NODES.items()
        if kind not in ("true", "false") or column == "RAW"  # for numbers these are 1 and 0
    }

    values = {kind: value for kind, value in values.items() if kind in NODES}
    assert {kind: value for kind, value in found.items() if value is not None} == values


def test_digits_of_an_unknown_scale_are_refused() -> None:
    assert value_of("NUM", "AeJA", None, "debezium.decimal.handling.mode=precise") is None
