"""A value that was not logged is missing, in each form in which Debezium writes it, and no other value is."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from one_column import (
    BYTES,
    DATE_TIME,
    INTEGER,
    MISSING,
    NUMBER,
    TEXT,
    event,
    value_of,
    values_of,
)
from trailgate.errors import OptionError
from trailgate.model.tables import Column

DEFAULT = "__debezium_unavailable_value"
PLACEHOLDERS = [DEFAULT, "n/a", 'not "logged", ü', "hex:00ff"]
DATA, GEOMETRY = "io.debezium.data.", "io.debezium.data.geometry."


def bytes_of(placeholder: str) -> bytes:
    if placeholder.startswith("hex:"):
        return bytes.fromhex(placeholder[4:])
    return placeholder.encode()


def forms(placeholder: str) -> Iterator[tuple[str, Column, Any, dict[str, Any] | None, str]]:
    """Yield each form: its name, a column that may have it, the value, its schema and properties of the connector."""
    raw = bytes_of(placeholder)
    text = raw.decode(errors="replace")
    coded = base64.b64encode(raw).decode()
    safe = base64.urlsafe_b64encode(raw).decode()
    uuid = str(UUID(bytes=hashlib.md5(raw).digest(), version=3))
    numbers = [byte - 256 if byte > 127 else byte for byte in raw]
    for name in ("Json", "Xml", "Uuid", "Enum", "EnumSet", "Ltree", "Tsvector"):
        yield name, TEXT, text, {"type": "string", "name": DATA + name}, ""
    yield "text", TEXT, text, {"type": "string"}, ""
    yield "text without a schema", TEXT, text, None, ""
    yield "bytes", BYTES, coded, {"type": "bytes"}, ""
    yield "bytes in a text column", TEXT, coded, {"type": "bytes"}, ""
    for mode, value in (("bytes", coded), ("base64", coded), ("base64-url-safe", safe), ("hex", raw.hex())):  # fmt: skip
        property_ = f"debezium.binary.handling.mode={mode}"
        yield f"{mode} without a schema", BYTES, value, None, property_
        yield f"{mode} as a string", BYTES, value, {"type": "string"}, property_
        yield f"{mode} as a string in a text column", TEXT, value, {"type": "string"}, property_
        yield f"array of {mode}", TEXT, [value], {"type": "array"}, property_
    for column, field in ((NUMBER, None), (INTEGER, None), (DATE_TIME, None), (NUMBER, {"type": "string"})):  # fmt: skip
        yield f"text in {column.family}", column, text, field, ""
    composites: list[tuple[str, Any, str]] = [
        ("array of texts", [text], "array"),
        ("array of uuid", [uuid], "array"),
        ("array of numbers", numbers, "array"),
        ("hstore as a map", {text: text}, "map"),
        ("hstore as pairs", [[text, text]], "map"),
        (
            "hstore as text",
            json.dumps({text: text}, separators=(",", ":"), ensure_ascii=False),
            "string",
        ),
    ]
    for name, value, kind in composites:
        yield name, TEXT, value, {"type": kind}, ""
        yield f"{name} without a schema", TEXT, value, None, ""
        yield f"{name} in a column of bytes", BYTES, value, {"type": kind}, ""
    points = [
        ("Geometry", "0101000020E6100000000000FC83D797C1000000FC83D797C1"),
        ("Geography", "0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640"),
        ("Point", "0101000000000000FC83D797C1000000FC83D797C1"),
    ]
    for name, wkb in points:
        point = {"wkb": base64.b64encode(bytes.fromhex(wkb)).decode(), "srid": 4326}
        yield name, TEXT, point, {"type": "struct", "name": GEOMETRY + name}, ""
        yield f"{name} without a schema", TEXT, point, None, ""


@pytest.mark.parametrize("placeholder", PLACEHOLDERS)
def test_a_value_that_was_not_logged_is_missing_in_each_of_its_forms(placeholder: str) -> None:
    own = f"debezium.unavailable.value.placeholder={placeholder}\n"

    for name, column, value, field, properties in forms(placeholder):
        found = value_of(column, value, field, own + properties)
        assert found == MISSING, name


def test_a_form_may_have_blanks_and_escapes() -> None:
    spaced = event([DEFAULT], None).replace(b'["__', b'[ "__').replace(b'value"]', b'value" ]')
    escaped = event(["ü"], None)
    plain = escaped.replace(rb"\u00fc", "ü".encode())

    assert values_of(TEXT, [spaced]) == [MISSING]
    own = "debezium.unavailable.value.placeholder=ü"
    assert values_of(TEXT, [escaped, plain], own) == [MISSING, MISSING]


@pytest.mark.parametrize(
    "value",
    [
        [], [DEFAULT, DEFAULT], [DEFAULT, "a"], [[DEFAULT]], {}, {DEFAULT: "a"}, {"a": DEFAULT}, {DEFAULT: DEFAULT, "a": "b"},
        [95, 95], [*DEFAULT.encode(), 1], f"{DEFAULT} ", DEFAULT.upper(), f'["{DEFAULT}"]', {"wkb": "AQEAAAA=", "srid": 4326},
    ],
)  # fmt: skip
def test_another_value_is_kept(value: Any) -> None:
    found = value_of(TEXT, value)

    assert found == (value if isinstance(value, str) else json.dumps(value))


@pytest.mark.parametrize(
    ("column", "value", "field"),
    [
        (TEXT, "30", {"type": "string"}), (TEXT, "MA==", {"type": "string"}), (TEXT, "30", None), (TEXT, "MA==", None),
        (TEXT, "[0]", {"type": "string"}),
    ],
)  # fmt: skip
def test_text_is_not_the_encoding_of_a_short_placeholder(
    column: Column, value: str, field: dict[str, Any] | None
) -> None:
    found = value_of(column, value, field, "debezium.unavailable.value.placeholder=0")

    assert found == value


def test_missing_and_other_values_of_a_column_stand_side_by_side() -> None:
    every = [["a"], [DEFAULT], DEFAULT, None, "b", {DEFAULT: DEFAULT}, {"c": "d"}]

    found = values_of(TEXT, [event(value, None) for value in every])

    assert found == ['["a"]', MISSING, MISSING, None, "b", MISSING, '{"c": "d"}']


def test_digits_of_a_placeholder_in_octets_are_checked() -> None:
    with pytest.raises(OptionError, match="placeholder is hex:0g, which is not hex"):
        value_of(TEXT, "a", None, "debezium.unavailable.value.placeholder=hex:0g")
