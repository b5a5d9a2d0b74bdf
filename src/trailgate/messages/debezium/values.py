"""Values of columns in change events: by the schema beside them, else by the properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask
from trailgate.columnar.hexadecimal import to_hex
from trailgate.columnar.rows import row_error, text_view
from trailgate.messages.debezium.decimals import variable_decimals
from trailgate.messages.debezium.encodings import (
    ENCODINGS,
    Decode,
    as_text,
    base64_bytes,
    by_kind,
    dates,
    iso_texts,
    precise_decimals,
    timestamps,
    url_safe_bytes,
)
from trailgate.messages.debezium.options import DebeziumOptions
from trailgate.messages.debezium.schemas import FieldType, Schema
from trailgate.messages.json_text.base64_text import to_base64
from trailgate.messages.json_text.images import Converted, ConvertValues, Values
from trailgate.messages.json_text.kernels.layout import FALSE, NUMBER, OBJECT, STRING, TRUE
from trailgate.model.tables import Column
from trailgate.model.types import Family
from trailgate.operations.values import parser_for

_DAY_WIDTH: Final = 10  # of a date
_SECONDS: Final = 19  # of a date time without a fraction
_NUMBERS: Final = frozenset({Family.INTEGER, Family.UNSIGNED, Family.NUMBER_TEXT, Family.FLOAT})
_SCHEMA_HINT: Final = (
    "Write the messages with their schemas (value.converter.schemas.enable=true), or set debezium."
)
_SCALE_HINT: Final = (
    "Without a schema, texts of decimal.handling.mode=precise need it. Write the messages with their schemas "
    "(value.converter.schemas.enable=true), or let the connector write decimal.handling.mode=string"
)


def converter_for(column: Column, schema: Schema | None, options: DebeziumOptions) -> ConvertValues:
    """Return what makes values of a column from members."""
    parse, decode = parser_for(column), _decoder(column, schema, options)
    placeholder = _Placeholder(column, options)

    def convert(values: Values) -> Converted:
        missing = placeholder.found(values)
        if missing is not None:
            kept = pc.if_else(pa.array(missing), pa.scalar(None, pa.string()), values.texts)
            values = Values(values.nodes, kept, values.cells, values.nested)
        return Converted(parse(decode(values)), missing)

    return convert


def _decoder(column: Column, schema: Schema | None, options: DebeziumOptions) -> Decode:
    if schema is None:
        return BARE.get(column.family, _bare_text)(column, options)
    kind = schema.get(column.name.casefold())
    if kind is None:
        return _refusing("the schema of the event does not have this column", "")
    found = ENCODINGS.get(kind.name or kind.type)
    if found is None:
        return _unknown(column, kind)
    decode = found(kind)
    return _with_truth(decode) if column.family in _NUMBERS else decode


def _unknown(column: Column, kind: FieldType) -> Decode:
    """Return what takes an unknown type's JSON text for columns of text, and refuses it for others."""
    if column.family is Family.TEXT and kind.type in ("struct", "array", "map"):
        return as_text
    named = kind.name or kind.type
    return _refusing(f"it is not known how values of the type {named} are written", "")


def _refusing(problem: str, hint: str) -> Decode:
    def decode(values: Values) -> pa.Array:
        if values.texts.null_count == len(values.texts):
            return values.texts
        row = int(values.texts.is_valid().index(True).as_py())
        raise row_error(problem, values.texts, row, hint)

    return decode


def _bare_text(_: Column, __: DebeziumOptions) -> Decode:
    return as_text


def _bare_time(column: Column, options: DebeziumOptions) -> Decode:
    """Return what takes texts for ISO times, and numbers as ``time.precision.mode`` has them."""
    numbers = _bare_numbers(column, options.times)

    def decode(values: Values) -> pa.Array:
        values.refuse_nested()
        return by_kind(values, values.texts, {NUMBER: numbers, STRING: iso_texts})

    return decode


def _bare_numbers(column: Column, mode: str) -> Decode:
    fraction = column.external_length - _SECONDS - 1
    units = {"connect": 1, "microseconds": 1000, "nanoseconds": 1_000_000}.get(mode)
    if mode.startswith("adaptive"):
        units = 1 if fraction <= 3 else 1000 if fraction <= 6 else 1_000_000
    if not mode or mode == "isostring":
        hint = f"{_SCHEMA_HINT}time.precision.mode"
        return _refusing("it is not known what a number in a column of times is", hint)
    assert units is not None
    return dates if column.external_length <= _DAY_WIDTH else timestamps(units)


def _bare_decimal(column: Column, options: DebeziumOptions) -> Decode:
    """Return what takes numbers as they are, and texts as ``decimal.handling.mode`` has them."""
    texts = _refusing(
        "it is not known what text in a column of numbers is",
        f"{_SCHEMA_HINT}decimal.handling.mode",
    )
    if options.decimals == "precise" and not column.scale and column.family is Family.NUMBER_TEXT:
        texts = _refusing("the definitions do not state the scale of this column", _SCALE_HINT)
    elif options.decimals == "precise":
        texts = precise_decimals(column.scale)
    elif options.decimals:
        texts = as_text

    def decode(values: Values) -> pa.Array:
        return by_kind(values, values.texts, {STRING: texts, OBJECT: variable_decimals})

    return _with_truth(decode)


def _with_truth(decode: Decode) -> Decode:
    """Return a decoder for which true and false are 1 and 0."""

    def numeric(values: Values) -> pa.Array:
        found, kinds = decode(values), values.kinds
        for kind, digit in ((TRUE, "1"), (FALSE, "0")):
            if (kinds == kind).any():
                found = pc.if_else(pa.array(kinds == kind), digit, found)
        return found

    return numeric


def _hex(values: Values) -> pa.Array:
    values.refuse_others(STRING)
    return values.texts


_BINARY: Final[Mapping[str, Decode]] = MappingProxyType(
    {"bytes": base64_bytes, "base64": base64_bytes, "base64-url-safe": url_safe_bytes, "hex": _hex}
)


def _bare_bytes(_: Column, options: DebeziumOptions) -> Decode:
    if options.binary:
        return _BINARY[options.binary]
    return _refusing("it is not known how bytes are written", f"{_SCHEMA_HINT}binary.handling.mode")


# What values without a schema are, by the family of their column.
BARE: Final[Mapping[Family, Callable[[Column, DebeziumOptions], Decode]]] = MappingProxyType(
    {
        Family.DATETIME: _bare_time,
        Family.BYTES: _bare_bytes,
        **dict.fromkeys(_NUMBERS, _bare_decimal),
    }
)


class _Placeholder:
    """The text that is in the place of a value that was not logged."""

    def __init__(self, column: Column, options: DebeziumOptions) -> None:
        text = options.placeholder
        raw = pa.array([text.encode()], pa.binary())
        self.texts = pa.array([text])
        if column.family is Family.BYTES:
            encoded = to_base64(raw)[0].as_py()
            url_safe = encoded.replace("+", "-").replace("/", "_")
            digits = to_hex(raw)[0].as_py()
            self.texts = pa.array([text, encoded, url_safe, digits, digits.lower()])
        self.lengths = np.asarray(pc.binary_length(self.texts))

    def found(self, values: Values) -> Mask | None:
        """Return which values are missing, None where none is."""
        # Mostly no value has the length of the placeholder.
        if not np.isin(np.diff(text_view(values.texts)[0]), self.lengths).any():
            return None
        found = pc.is_in(values.texts, self.texts)
        if not pc.any(found).as_py():
            return None
        mask: Mask = np.asarray(found) & (values.kinds == STRING)
        return mask if mask.any() else None
