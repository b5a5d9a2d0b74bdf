"""Convert the column values of change events, by the event's schema or else by properties.

Kafka Connect's JSON converter writes a schema beside each event. For each column the schema
contains a Connect type such as `int64`, and often a semantic name such as
`io.debezium.time.MicroTimestamp`. `TYPES` has one row per name (Debezium, data type mappings): a
function that converts the JSON values to text, and the column for tables that are inferred. The
column's own parser then parses the text, as for any format. Without a schema, `BARE` has one
function per type family of the column, and the `debezium.*.mode` properties state how the connector
writes values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.columnar.hex_digits import to_hex
from trailgate.columnar.rows import row_error
from trailgate.errors import DecodeError
from trailgate.formats.debezium.bits import (
    bit_bytes,
    bit_length,
    bit_numbers,
    bit_strings,
)
from trailgate.formats.debezium.decimals import (
    MOST_SCALE,
    precise_decimals,
    variable_decimals,
)
from trailgate.formats.debezium.options import DebeziumOptions
from trailgate.formats.debezium.placeholder import PlaceholderFinder
from trailgate.formats.debezium.schemas import ConnectFieldType, Schema, numeric_parameter
from trailgate.formats.debezium.times import (
    dates,
    iso_strings,
    times_of_day,
    timestamps,
    zoned_strings,
)
from trailgate.formats.json.base64_text import from_base64
from trailgate.formats.json.images import ConvertedJson, ConvertValues, JsonValues
from trailgate.formats.json.scanner_kernels import ARRAY, FALSE, NUMBER, OBJECT, STRING, TRUE
from trailgate.model.tables import Column
from trailgate.model.types import TypeFamily
from trailgate.model.values import parser_for

CONNECT: Final = "org.apache.kafka.connect.data."
TIME: Final = "io.debezium.time."
DATA: Final = "io.debezium.data."
_MOST: Final = 65535  # the largest length in the two length bytes of a text column
_INTEGER_DIGITS: Final = 18  # digits that always fit into 64 bits
_DIGITS: Final = 50  # characters of a number of unknown precision, as in Defgen
_SIGN_AND_POINT: Final = 2
# Characters of HH:MM:SS.nnnnnnnnn. MySQL's longest time, -838:59:59.000000, has 17.
_TIME_OF_DAY: Final = 18
_LONG_TIME_OF_DAY: Final = 20  # -838:59:59.999999999
_DAY_WIDTH: Final = 10  # of a date
_SECONDS: Final = 19  # of a date time without a fraction
_NUMBERS: Final = frozenset(
    {TypeFamily.INTEGER, TypeFamily.UNSIGNED, TypeFamily.NUMBER_TEXT, TypeFamily.FLOAT}
)
_SCHEMA_HINT: Final = (
    "Write the messages with their schemas (value.converter.schemas.enable=true), or set debezium."
)
_SCALE_HINT: Final = (
    "Without a schema, text of decimal.handling.mode=precise needs it. Write the messages with their schemas "
    "(value.converter.schemas.enable=true), or let the connector write decimal.handling.mode=string"
)
_TEXT, _BIN16, _BIN32, _BIN64 = 64, 130, 132, 134
_REAL, _DOUBLE, _DATETIME = 142, 143, 192
_NUMBER_TEXT, _BINARY_TEXT = 2, 4  # sub types (capture properties §9.4)
_DATE, _MILLIS, _MICROS, _NANOS = 10, 23, 26, 29  # characters


Decode = Callable[[JsonValues], pa.Array]
Encoding = Callable[[ConnectFieldType, Column], Decode]
MakeColumn = Callable[[ConnectFieldType], Column]


def as_text(values: JsonValues) -> pa.Array:
    """Convert the values of a change event to text: strings unchanged, numbers by their digits, `true` and `false`."""
    return values.strings


def _strings(*kinds: int) -> Encoding:
    """Create the decoder of Debezium types whose JSON values are already the text of the column.

    `kinds` are the JSON types that it accepts: by default all except objects and arrays. Other
    types are a DecodeError.
    """

    def decode(values: JsonValues) -> pa.Array:
        if kinds:
            values.require_types(*kinds)
        else:
            values.refuse_nested()
        return values.strings

    return _always(decode)


def base64_bytes(values: JsonValues) -> pa.Array:
    """Convert Debezium's base64 bytes to hex digits."""
    values.require_types(STRING)
    return to_hex(from_base64(values.strings))


def url_safe_bytes(values: JsonValues) -> pa.Array:
    """Convert Debezium's URL-safe base64 bytes to hex digits."""
    values.require_types(STRING)
    usual = pc.replace_substring(pc.replace_substring(values.strings, "-", "+"), "_", "/")
    return to_hex(from_base64(usual))


def _decimals(field_type: ConnectFieldType, _: Column) -> Decode:
    """Create a decoder of Debezium's decimals with the scale in their schema.

    Raises DecodeError if it has no valid scale.
    """
    scale = numeric_parameter(field_type, "scale", MOST_SCALE + 1)
    if abs(scale) > MOST_SCALE:
        text = field_type.parameters.get("scale", "")
        raise DecodeError(
            f"a decimal's scale in the schema of the event is not a number of at most {MOST_SCALE}: {text[:40]!r}"
        )
    return precise_decimals(scale)


def _variable(values: JsonValues) -> pa.Array:
    values.require_types(OBJECT, NUMBER)
    return variable_decimals(values)


def _always(decode: Decode) -> Encoding:
    return lambda *_: decode


def _bits(field_type: ConnectFieldType, column: Column) -> Decode:
    """Choose a decoder of Debezium's bit strings by the column's type.

    It decodes to numbers, to bytes, or to digits 0 and 1.
    """
    if column.family in _NUMBERS:
        return bit_numbers
    if column.family is TypeFamily.BYTES:
        return bit_bytes
    return bit_strings(bit_length(field_type))


def _structures(field_type: ConnectFieldType, column: Column) -> Decode:
    """Return a decoder of a Debezium column's objects and arrays to JSON text.

    Only text columns can store them. For other columns, the decoder raises DecodeError for values
    that are not null.
    """
    if column.family is TypeFamily.TEXT:
        return _take_structures
    return _refusing(
        f"a value of the type {field_type.name or field_type.type} is an object or an array, which only a text column can store",
        "Define the column as text: its value is the JSON text",
    )


def _take_structures(values: JsonValues) -> pa.Array:
    values.require_types(OBJECT, ARRAY)
    return values.strings


def _iso(_: ConnectFieldType, column: Column) -> Decode:
    """Choose a decoder of Debezium's ISO times.

    Times keep their zone if the column is long enough for it; otherwise they are converted to UTC.
    """
    return zoned_strings if column.zoned else iso_strings


def _column(code: int, length: int, sub_type: int = 0) -> MakeColumn:
    column = Column("", code, length, sub_type=sub_type)
    return lambda _: column


def _decimal_column(field_type: ConnectFieldType) -> Column:
    """Infer the column for a Debezium decimal.

    It is an integer with a scale if 64 bits are enough, otherwise a number as text.
    """
    scale = numeric_parameter(field_type, "scale")
    precision = numeric_parameter(field_type, "connect.decimal.precision")
    if 0 < precision <= _INTEGER_DIGITS and 0 <= scale <= precision:
        return Column("", _BIN64, precision, scale=scale)
    length = max(precision, scale) + _SIGN_AND_POINT if precision > 0 else _DIGITS
    return Column("", _TEXT, length, scale=max(scale, 0), sub_type=_NUMBER_TEXT)


def _bits_column(field_type: ConnectFieldType) -> Column:
    return Column("", _TEXT, bit_length(field_type) or _MOST)


class DebeziumTypeRow(NamedTuple):
    """One Debezium type: how its values are converted to text, and the column type that can store all of them.

    If `column` is None, the Connect type determines the column.
    """

    encoding: Encoding
    column: MakeColumn | None = None


_TEXT_COLUMN: Final = _column(_TEXT, _MOST)
_PLAIN: Final = DebeziumTypeRow(_strings())
_NUMBER: Final = _strings(NUMBER, STRING)  # "NaN" is a string
_DAYS: Final = DebeziumTypeRow(_always(dates), _column(_DATETIME, _DATE))
_UTC: Final = DebeziumTypeRow(_iso, _column(_DATETIME, _NANOS))
_STRUCTURE: Final = DebeziumTypeRow(_structures)
_OF_DAY: Final = _column(_TEXT, _TIME_OF_DAY)
_IN_MILLIS: Final = DebeziumTypeRow(_always(timestamps(1)), _column(_DATETIME, _MILLIS))
# By semantic name, or by Connect's type if there is none.
TYPES: Final[Mapping[str, DebeziumTypeRow]] = MappingProxyType(
    {
        **dict.fromkeys(("int8", "int16"), DebeziumTypeRow(_NUMBER, _column(_BIN16, 2))),
        "int32": DebeziumTypeRow(_NUMBER, _column(_BIN32, 4)),
        "int64": DebeziumTypeRow(_NUMBER, _column(_BIN64, 8)),
        **dict.fromkeys(("float", "float32"), DebeziumTypeRow(_NUMBER, _column(_REAL, 4))),
        **dict.fromkeys(("double", "float64"), DebeziumTypeRow(_NUMBER, _column(_DOUBLE, 8))),
        "boolean": DebeziumTypeRow(_strings(TRUE, FALSE), _column(_BIN16, 1)),
        "string": DebeziumTypeRow(_strings(STRING)),
        "bytes": DebeziumTypeRow(_always(base64_bytes), _column(_TEXT, _MOST - 1, _BINARY_TEXT)),
        CONNECT + "Decimal": DebeziumTypeRow(_decimals, _decimal_column),
        CONNECT + "Date": _DAYS,
        CONNECT + "Time": DebeziumTypeRow(_always(times_of_day(1)), _OF_DAY),
        CONNECT + "Timestamp": _IN_MILLIS,
        TIME + "Date": _DAYS,
        TIME + "Time": DebeziumTypeRow(_always(times_of_day(1)), _OF_DAY),
        TIME + "MicroTime": DebeziumTypeRow(_always(times_of_day(1000)), _OF_DAY),
        TIME + "NanoTime": DebeziumTypeRow(
            _always(times_of_day(1_000_000)), _column(_TEXT, _LONG_TIME_OF_DAY)
        ),
        TIME + "Timestamp": _IN_MILLIS,
        TIME + "MicroTimestamp": DebeziumTypeRow(
            _always(timestamps(1000)), _column(_DATETIME, _MICROS)
        ),
        TIME + "NanoTimestamp": DebeziumTypeRow(
            _always(timestamps(1_000_000)), _column(_DATETIME, _NANOS)
        ),
        TIME + "ZonedTimestamp": _UTC,
        TIME + "IsoDate": DebeziumTypeRow(_always(iso_strings), _column(_DATETIME, _DATE)),
        TIME + "IsoTimestamp": _UTC,
        **dict.fromkeys(
            (
                *(TIME + name for name in ("IsoTime", "ZonedTime", "Year", "Interval")),
                *(TIME + name for name in ("MicroDuration", "NanoDuration")),
                DATA + "IsoTime",
            ),
            _PLAIN,
        ),
        DATA + "VariableScaleDecimal": DebeziumTypeRow(
            _always(_variable), _column(_TEXT, _DIGITS, _NUMBER_TEXT)
        ),
        DATA + "Bits": DebeziumTypeRow(_bits, _bits_column),
        **dict.fromkeys(
            (
                DATA + name
                for name in ("Json", "Xml", "Uuid", "Enum", "EnumSet", "Ltree", "Tsvector")
            ),
            _PLAIN,
        ),
        **dict.fromkeys(("struct", "array", "map"), _STRUCTURE),
        **dict.fromkeys(
            (DATA + "geometry." + name for name in ("Point", "Geometry", "Geography")), _STRUCTURE
        ),
        **dict.fromkeys(
            (
                DATA + name
                for name in ("FloatVector", "DoubleVector", "SparseVector", "SparseDoubleVector")
            ),
            _STRUCTURE,
        ),
    }
)


def inferred_column(field_type: ConnectFieldType) -> Column:
    """Return the column that can store all values of a Debezium type, by its row in `TYPES`. Unknown types get a text column."""
    type_row = TYPES.get(field_type.name)
    make = None if type_row is None else type_row.column
    # A type without a name has the column of Connect's type, and so has a known type that leaves its
    # column to it. An unknown type gets a text column.
    if make is None and (type_row is not None or not field_type.name) and field_type.type in TYPES:
        make = TYPES[field_type.type].column
    return replace((make or _TEXT_COLUMN)(field_type), name=field_type.column)


def converter_for(column: Column, schema: Schema | None, options: DebeziumOptions) -> ConvertValues:
    """Create the function that converts a Debezium column's JSON values to the column's type.

    It marks values as missing if they are the placeholder for columns that were not logged.
    """
    kind = None if schema is None else schema.get(column.name.casefold())
    parse, decode = parser_for(column), _decoder(column, schema, kind, options)
    written = "" if kind is None else kind.type
    placeholder = PlaceholderFinder(options.placeholder, column.family, written, options.binary)

    def convert(values: JsonValues) -> ConvertedJson:
        missing = placeholder.find(values)
        if missing is not None:
            kept = pc.if_else(pa.array(missing), pa.scalar(None, pa.string()), values.strings)
            values = JsonValues(values.nodes, kept, values.cells, values.nested)
        return ConvertedJson(parse(decode(values)), missing)

    return convert


def _decoder(
    column: Column,
    schema: Schema | None,
    field_type: ConnectFieldType | None,
    options: DebeziumOptions,
) -> Decode:
    if schema is None:
        bare = BARE.get(column.family)
        return as_text if bare is None else bare(column, options)
    if field_type is None:
        return _refusing("the schema of the event does not have this column", "")
    type_row = TYPES.get(field_type.name or field_type.type)
    if type_row is None:
        return _custom_decoder(column, field_type)
    decode = type_row.encoding(field_type, column)
    return _with_truth(decode) if column.family in _NUMBERS else decode


def _custom_decoder(column: Column, field_type: ConnectFieldType) -> Decode:
    """Return a decoder for a type that neither Debezium nor Connect defines, but a custom converter may write.

    For a text column, the decoder returns text unchanged, and structures as JSON text. In all other
    cases the meaning of the type is unknown, and it raises DecodeError for values that are not
    null.
    """
    if column.family is TypeFamily.TEXT and field_type.type in ("string", "struct", "array", "map"):
        return TYPES[field_type.type].encoding(field_type, column)
    named = field_type.name or field_type.type
    return _refusing(
        f"the notation of the type {named} is unknown (in JSON {field_type.type})",
        "Debezium and Kafka Connect do not document it. Let the connector write one of their types, or text",
    )


def _refusing(problem: str, hint: str) -> Decode:
    def decode(values: JsonValues) -> pa.Array:
        # NULL has no notation, so only other values are refused.
        if values.strings.null_count == len(values.strings):
            return values.strings
        rows = np.flatnonzero(np.asarray(values.strings.is_valid()))
        error = row_error(problem, values.strings, int(rows[0]), hint)
        error.alike = rows.tolist()
        raise error

    return decode


def _bare_time(column: Column, options: DebeziumOptions) -> Decode:
    """Create a decoder of Debezium's times without a schema.

    Strings are ISO times, and numbers follow `time.precision.mode`.
    """
    numbers = _bare_numbers(column, options.times)

    def decode(values: JsonValues) -> pa.Array:
        values.refuse_nested()
        iso = zoned_strings if column.zoned else iso_strings
        return values.decode_by_type(values.strings, {NUMBER: numbers, STRING: iso})

    return decode


def _bare_numbers(column: Column, mode: str) -> Decode:
    # A column of 23 characters, YYYY-MM-DD HH:MI:SS.fff, has 23 - 19 - 1 = 3 digits of a fraction.
    fraction = column.external_length - _SECONDS - 1
    units = {"connect": 1, "microseconds": 1000, "nanoseconds": 1_000_000}.get(mode)
    # Adaptive modes choose the unit by the column's fraction: milliseconds up to 3 digits,
    # microseconds up to 6, then nanoseconds.
    if mode.startswith("adaptive"):
        units = 1 if fraction <= 3 else 1000 if fraction <= 6 else 1_000_000
    if not mode or mode == "isostring":
        hint = f"{_SCHEMA_HINT}time.precision.mode"
        return _refusing("the unit of numbers in a time column is unknown", hint)
    assert units is not None
    return dates if column.external_length <= _DAY_WIDTH else timestamps(units)


def _bare_decimal(column: Column, options: DebeziumOptions) -> Decode:
    """Create a decoder of Debezium's numbers without a schema.

    Numbers are unchanged, and strings follow `decimal.handling.mode`.
    """
    strings = _refusing(
        "the meaning of text in a number column is unknown",
        f"{_SCHEMA_HINT}decimal.handling.mode",
    )
    # Unscaled bytes mean nothing without a scale.
    if (
        options.decimals == "precise"
        and not column.scale
        and column.family is TypeFamily.NUMBER_TEXT
    ):
        strings = _refusing("the definitions do not state the scale of this column", _SCALE_HINT)
    elif options.decimals == "precise":
        strings = precise_decimals(column.scale)
    elif options.decimals:
        strings = as_text

    def decode(values: JsonValues) -> pa.Array:
        return values.decode_by_type(values.strings, {STRING: strings, OBJECT: variable_decimals})

    return _with_truth(decode)


def _with_truth(decode: Decode) -> Decode:
    """Wrap the decoder of a number column so that JSON's true and false become 1 and 0."""

    def numeric(values: JsonValues) -> pa.Array:
        decoded, kinds = decode(values), values.kinds
        for kind, digit in ((TRUE, "1"), (FALSE, "0")):
            if (kinds == kind).any():
                decoded = pc.if_else(pa.array(kinds == kind), digit, decoded)
        return decoded

    return numeric


def _hex(values: JsonValues) -> pa.Array:
    values.require_types(STRING)
    return values.strings


# By the value of binary.handling.mode.
_BINARY: Final[Mapping[str, Decode]] = MappingProxyType(
    {"bytes": base64_bytes, "base64": base64_bytes, "base64-url-safe": url_safe_bytes, "hex": _hex}
)


def _bare_bytes(_: Column, options: DebeziumOptions) -> Decode:
    if options.binary:
        return _BINARY[options.binary]
    return _refusing("the notation of bytes is unknown", f"{_SCHEMA_HINT}binary.handling.mode")


# Decoders of values without a schema, by the type family of the column.
BARE: Final[Mapping[TypeFamily, Callable[[Column, DebeziumOptions], Decode]]] = MappingProxyType(
    {
        TypeFamily.DATETIME: _bare_time,
        TypeFamily.BYTES: _bare_bytes,
        **dict.fromkeys(_NUMBERS, _bare_decimal),
    }
)
