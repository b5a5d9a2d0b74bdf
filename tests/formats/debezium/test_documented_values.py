"""Every kind of JSON value for every type of change events: the value that Debezium documents for it, or an error, and never another value."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from held_captures import json_capture, messages_of
from message_cases import rows_of
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.formats.debezium.column_types import TYPES
from trailgate.model.tables import Column, Definitions, Table

TEXT = Table("S.T", (Column("ID", 64, 10, key=True), Column("V", 64, 200)))
NUMBER = Table("S.T", (Column("ID", 64, 10, key=True), Column("V", 64, 50, sub_type=2)))
BYTES = Table("S.T", (Column("ID", 64, 10, key=True), Column("V", 64, 50, sub_type=4)))
VALUES: list[Any] = [
    1234, 12345678, -7, "1234", "12345678", "BNI=", "BNI", "12.34", "aGVsbG8=", "Zm9v-_8=", True, False,
    "2020-01-02T03:04:05Z", "", {}, {"scale": 2, "value": "BNI="}, {"scale": 2, "value": 1234}, [1],
]  # fmt: skip
INTEGERS = {
    "io.debezium.time.Date", "org.apache.kafka.connect.data.Date", "io.debezium.time.Time", "org.apache.kafka.connect.data.Time",
    "io.debezium.time.MicroTime", "io.debezium.time.NanoTime", "io.debezium.time.Timestamp", "org.apache.kafka.connect.data.Timestamp",
    "io.debezium.time.MicroTimestamp", "io.debezium.time.NanoTimestamp",
}  # fmt: skip
ISO = {"io.debezium.time.ZonedTimestamp", "io.debezium.time.IsoDate", "io.debezium.time.IsoTimestamp"}  # fmt: skip
STRUCTURES = {name for name, row in TYPES.items() if row is TYPES["struct"]}


def decimal(raw: str, scale: int) -> str:
    number = int.from_bytes(base64.b64decode(raw, validate=True), "big", signed=True)
    return f"{Decimal(number).scaleb(-scale):f}"


def bits(raw: bytes) -> str:
    return "".join(f"{byte:08b}" for byte in reversed(raw))


def documented(name: str, value: Any) -> str | None:  # noqa: PLR0911  one a type
    """Return the value's text by Debezium's and Connect's documentation; None where they have no such value."""
    if name == "org.apache.kafka.connect.data.Decimal":
        if isinstance(value, str):
            return decimal(value, 2)
        return str(value) if type(value) is int else None
    if name == "io.debezium.data.VariableScaleDecimal":
        if isinstance(value, dict) and isinstance(value["value"], str):
            return decimal(value["value"], value["scale"])
        return str(value) if type(value) is int else None
    if name in STRUCTURES:
        return json.dumps(value) if isinstance(value, (dict, list)) else None
    if name == "io.debezium.data.Bits":
        return bits(base64.b64decode(value, validate=True)) if isinstance(value, str) else None
    if name == "bytes":
        return base64.b64decode(value, validate=True).hex() if isinstance(value, str) else None
    assert not isinstance(value, (dict, list))
    return json.dumps(value) if not isinstance(value, str) else value


def captured(table: Table, value: Any, schema: dict[str, Any] | None, more: str) -> str | None:
    """Return what is captured of a column V; None where the message is refused."""
    capture = json_capture(
        f"parser.type=debezium\ndebezium.sourcedefs=shop.def\ndebezium.txid=*txid\n{more}",
        write_sourcedefs(Definitions((table,))).decode(),
    )
    payload = {
        "before": None, "after": {"ID": "1", "V": value}, "op": "c",
        "source": {"ts_ms": 1705611172576, "schema": "S", "table": "T"},
    }  # fmt: skip
    event: Any = payload
    if schema is not None:
        columns = [{"type": "string", "field": "ID"}, {**schema, "field": "V"}]
        event = {"schema": {"fields": [{"field": "after", "fields": columns}]}, "payload": payload}
    parsed = capture.parse(messages_of([json.dumps(event).encode()]))
    if parsed.problems:
        return None
    (row,) = rows_of(parsed)
    return str(dict(row["after"])["V"])


@pytest.mark.parametrize("name", sorted(TYPES))
def test_a_value_of_a_type_is_the_documented_one_or_an_error(name: str) -> None:
    schema = {"type": "bytes", "name": name, "parameters": {"scale": "2"}} if "." in name else {"type": name}  # fmt: skip
    table = BYTES if name == "bytes" else TEXT
    for value in VALUES:
        found = captured(table, value, schema, "")
        if name in INTEGERS:
            assert found is None or type(value) is int, (value, found)
        elif name in ISO:
            assert found is None or isinstance(value, str), (value, found)
        else:
            assert found in (None, _or_none(documented, name, value)), (value, found)


def _or_none(function: Callable[..., str | None], *arguments: Any) -> str | None:
    try:
        found = function(*arguments)
    except (ValueError, AssertionError, KeyError):
        return None
    return found.upper() if found is not None and arguments[0] == "bytes" else found


@pytest.mark.parametrize(
    ("mode", "value"), [*itertools.product(["bytes", "base64", "base64-url-safe", "hex"], VALUES)]
)
def test_bytes_without_a_schema_are_strings(mode: str, value: Any) -> None:
    found = captured(BYTES, value, None, f"debezium.binary.handling.mode={mode}")

    assert found is None or isinstance(value, str)


def test_a_decimal_in_base64_needs_a_scale() -> None:
    precise = "debezium.decimal.handling.mode=precise"

    assert captured(NUMBER, "AeJA", None, precise) is None
    assert captured(NUMBER, 1234, None, precise) == "1234"
    assert captured(NUMBER, True, None, precise) == "1"
