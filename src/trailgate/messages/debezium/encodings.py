"""What Debezium makes of values, undone: one row a type, by the name of its meaning (Debezium, data type mappings).

Each makes text, from which the column's own type is read as from any message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.columnar.gather import gather
from trailgate.columnar.hexadecimal import to_hex
from trailgate.columnar.numbers import parse_integers
from trailgate.columnar.rows import over_nulls, row_error, text_view
from trailgate.errors import DecodeError
from trailgate.messages.debezium.decimals import MOST_SCALE, decimal_texts, variable_decimals
from trailgate.messages.debezium.schemas import FieldType
from trailgate.messages.json_text.base64_text import from_base64
from trailgate.messages.json_text.images import Values
from trailgate.messages.json_text.kernels.layout import FALSE, NUMBER, OBJECT, STRING, TRUE
from trailgate.model.operations_schema import YEAR_1, YEAR_10000

Decode = Callable[[Values], pa.Array]
Encoding = Callable[[FieldType], Decode]

DAY: Final = 86_400_000_000  # microseconds
CONNECT: Final = "org.apache.kafka.connect.data."
TIME: Final = "io.debezium.time."
DATA: Final = "io.debezium.data."


def as_text(values: Values) -> pa.Array:
    """Return texts, digits of numbers, and the letters of true and false, as they are."""
    return values.texts


def _plain(_: FieldType) -> Decode:
    def decode(values: Values) -> pa.Array:
        values.refuse_nested()
        return values.texts

    return decode


def dates(values: Values) -> pa.Array:
    """Return ISO dates of days since 1970."""
    values.refuse_others(NUMBER)
    return _times(values, lambda days: days * DAY, 10)


def timestamps(units: int) -> Decode:
    """Return what makes ISO date times of times since 1970, of which a millisecond has ``units``, at most nanoseconds."""

    def decode(values: Values) -> pa.Array:
        values.refuse_others(NUMBER)
        if units <= 1000:
            return _times(values, lambda numbers: numbers * (1000 // units), 26)
        return _nanoseconds(values)

    return decode


def _times(values: Values, micros: Callable[[pa.Array], pa.Array], width: int) -> pa.Array:
    def convert(dense: pa.Array) -> pa.Array:
        numbers = parse_integers(dense, 0, 8, signed=True).to_numpy()
        with np.errstate(over="ignore"):
            found = micros(numbers)
        bad = (found < YEAR_1) | (found >= YEAR_10000) | (np.abs(numbers) > YEAR_10000)
        if bad.any():
            raise row_error("not a time in the years 1 to 9999", dense, int(np.argmax(bad)))
        text = pc.cast(pa.array(found).view(pa.timestamp("us")), pa.string())
        return text if width == 26 else pc.utf8_slice_codeunits(text, 0, width)

    return over_nulls(convert, values.texts)


def _nanoseconds(values: Values) -> pa.Array:
    def convert(dense: pa.Array) -> pa.Array:
        numbers = parse_integers(dense, 0, 8, signed=True)
        return pc.cast(numbers.view(pa.timestamp("ns")), pa.string())

    return over_nulls(convert, values.texts)


def _times_of_day(units: int) -> Encoding:
    """Return what makes HH:MI:SS.ffffff of times since midnight, of which a millisecond has ``units``."""

    def decode(values: Values) -> pa.Array:
        values.refuse_others(NUMBER)

        def convert(dense: pa.Array) -> pa.Array:
            numbers = parse_integers(dense, 0, 8, signed=True).to_numpy()
            per_day = DAY // 1000 * units
            bad = (numbers < 0) | (numbers >= per_day)
            if bad.any():
                raise row_error("not a time of day", dense, int(np.argmax(bad)))
            kind = pa.time64("ns") if units > 1000 else pa.time64("us")
            scaled = numbers if units >= 1000 else numbers * (1000 // units)
            return pc.cast(pa.array(scaled).view(kind), pa.string())

        return over_nulls(convert, values.texts)

    return lambda _: decode


def iso_texts(values: Values) -> pa.Array:
    """Return ISO texts in UTC without the letter of their zone; raises DecodeError for one of another zone."""
    values.refuse_others(STRING)

    def convert(dense: pa.Array) -> pa.Array:
        plain = _without_letter(dense)
        if plain is not None:
            return plain
        bare = pc.replace_substring_regex(dense, r"(Z|[+-]00:00)$", "")
        zoned = pc.match_substring_regex(bare, r"T.*[+-][0-9]{2}:?[0-9]{2}$")
        if pc.any(zoned, min_count=0).as_py():
            row = pc.index(zoned, True).as_py()
            raise row_error("not a time in UTC", dense, row, "Debezium writes zoned times in GMT")
        return bare

    return over_nulls(convert, values.texts)


def _without_letter(values: pa.Array) -> pa.Array | None:
    """Return times without their last letter, a Z or none; None where other zones may be among them."""
    offsets, data = text_view(values)
    starts, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    own = data[offsets[0] : offsets[-1]]
    if (ends == starts).any() or (own == ord("+")).any():
        return None
    if np.count_nonzero(own == ord("-")) > 2 * len(values):  # those of dates
        return None
    return gather(data, starts, ends - (data[ends - 1] == ord("Z")), text=True, checked=True)


def base64_bytes(values: Values) -> pa.Array:
    """Return bytes as hexadecimal digits."""
    values.refuse_others(STRING)
    return to_hex(from_base64(values.texts))


def url_safe_bytes(values: Values) -> pa.Array:
    """Return bytes, written with the letters of file names, as hexadecimal digits."""
    values.refuse_others(STRING)
    usual = pc.replace_substring(pc.replace_substring(values.texts, "-", "+"), "_", "/")
    return to_hex(from_base64(usual))


def precise_decimals(scale: int) -> Decode:
    """Return what makes digits of unscaled numbers, as bytes in base64; a JSON number is the number itself.

    Connect's converter writes either one (decimal.format=BASE64 or NUMERIC).
    """

    def decode(values: Values) -> pa.Array:
        values.refuse_others(STRING, NUMBER)
        return by_kind(values, values.texts, {STRING: unscaled})

    def unscaled(values: Values) -> pa.Array:
        return decimal_texts(from_base64(values.texts), scale)

    return decode


def by_kind(values: Values, others: pa.Array, decoders: Mapping[int, Decode]) -> pa.Array:
    """Return what decoders make of the values of each kind, in the place of ``others``."""
    kinds, found = values.kinds, others
    for kind, decode in decoders.items():
        mine = kinds == kind
        if not mine.any():
            continue
        own = values.texts
        if not mine.all():
            own = pc.if_else(pa.array(mine), own, pa.scalar(None, pa.string()))
        made = decode(Values(values.nodes, own, values.cells, values.nested))
        found = made if mine.all() else pc.if_else(pa.array(mine), made, found)
    return found


def _decimals(kind: FieldType) -> Decode:
    """Return what makes digits of numbers with the scale of their schema; raises DecodeError for one without a scale."""
    text = kind.parameters.get("scale", "")
    scale = int(text) if re.fullmatch(r"-?[0-9]{1,4}", text) else MOST_SCALE + 1
    if abs(scale) > MOST_SCALE:
        raise DecodeError(
            f"a decimal's scale in the schema of the event is not a number of at most {MOST_SCALE}: {text[:40]!r}"
        )
    return precise_decimals(scale)


def _string(_: FieldType) -> Decode:
    def decode(values: Values) -> pa.Array:
        values.refuse_others(STRING)
        return values.texts

    return decode


def _days(_: FieldType) -> Decode:
    return dates


def _stamps(units: int) -> Encoding:
    return lambda _: timestamps(units)


def _iso(_: FieldType) -> Decode:
    return iso_texts


def _bytes(_: FieldType) -> Decode:
    return base64_bytes


def _variable(_: FieldType) -> Decode:
    def decode(values: Values) -> pa.Array:
        values.refuse_others(OBJECT, NUMBER)
        return variable_decimals(values)

    return decode


def _true_or_false(_: FieldType) -> Decode:
    def decode(values: Values) -> pa.Array:
        values.refuse_others(TRUE, FALSE)
        return values.texts

    return decode


def _number(_: FieldType) -> Decode:
    def decode(values: Values) -> pa.Array:
        values.refuse_others(NUMBER, STRING)  # "NaN" is a string
        return values.texts

    return decode


# By the name of the meaning, or, without one, Connect's type.
ENCODINGS: Final[Mapping[str, Encoding]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("int8", "int16", "int32", "int64", "float", "double", "float32", "float64"), _number
        ),
        "boolean": _true_or_false,
        "string": _string,
        "bytes": _bytes,
        CONNECT + "Decimal": _decimals,
        CONNECT + "Date": _days,
        CONNECT + "Time": _times_of_day(1),
        CONNECT + "Timestamp": _stamps(1),
        TIME + "Date": _days,
        TIME + "Time": _times_of_day(1),
        TIME + "MicroTime": _times_of_day(1000),
        TIME + "NanoTime": _times_of_day(1_000_000),
        TIME + "Timestamp": _stamps(1),
        TIME + "MicroTimestamp": _stamps(1000),
        TIME + "NanoTimestamp": _stamps(1_000_000),
        TIME + "ZonedTimestamp": _iso,
        TIME + "IsoDate": _iso,
        TIME + "IsoTimestamp": _iso,
        TIME + "IsoTime": _plain,
        TIME + "ZonedTime": _plain,
        TIME + "Year": _plain,
        TIME + "Interval": _plain,
        TIME + "MicroDuration": _plain,
        DATA + "VariableScaleDecimal": _variable,
        **dict.fromkeys(
            (DATA + name for name in ("Json", "Xml", "Uuid", "Enum", "EnumSet", "Ltree")), _plain
        ),
    }
)
