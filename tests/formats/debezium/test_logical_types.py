"""Each logical type that Debezium and Kafka Connect document, with values as people have them: what is captured, or why it is refused."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from one_column import (
    BYTES,
    DATE,
    DATE_TIME,
    INTEGER,
    NUMBER,
    TEXT,
    ZONED,
    event,
    value_of,
    values_of,
)
from trailgate.errors import DecodeError
from trailgate.formats.debezium.column_types import TYPES
from trailgate.model.tables import Column

TIME, DATA, CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
NANOS = Column("V", 192, 29)
POINT = {"x": 1.5, "y": 2.0, "wkb": "AQEAAAAAAAAAAAD4PwAAAAAAAABA", "srid": None}
POINT_TEXT = '{"x": 1.5, "y": 2.0, "wkb": "AQEAAAAAAAAAAAD4PwAAAAAAAABA", "srid": null}'
REFUSED = object()

# The type in the schema (type, name, parameters), a value, the column, and what is captured.
ROWS: list[tuple[str, str, Any, Column, Any]] = [
    ("string", TIME + "ZonedTimestamp", "2018-03-27T01:34:56.00789-11:00", DATE_TIME, "2018-03-27 12:34:56.007890"),
    ("string", TIME + "ZonedTimestamp", "2018-03-27T01:34:56.123456789+05:30", NANOS, "2018-03-26 20:04:56.123456789"),
    ("string", TIME + "ZonedTimestamp", "2020-02-29T23:59:59-00:30", DATE_TIME, "2020-03-01 00:29:59.000000"),
    ("string", TIME + "ZonedTimestamp", "2020-01-01T00:00:00+14:00", DATE_TIME, "2019-12-31 10:00:00.000000"),
    ("string", TIME + "ZonedTimestamp", "1890-01-01T00:00:00+00:53:28", DATE_TIME, "1889-12-31 23:06:32.000000"),
    ("string", TIME + "ZonedTimestamp", "2020-01-01T10:00+0200", DATE_TIME, "2020-01-01 08:00:00.000000"),
    ("string", TIME + "ZonedTimestamp", "2020-01-02T03:04:05Z", DATE_TIME, "2020-01-02 03:04:05.000000"),
    ("string", TIME + "ZonedTimestamp", "2020-01-02T03:04:05+00:00", DATE_TIME, "2020-01-02 03:04:05.000000"),
    ("string", TIME + "ZonedTimestamp", "2018-03-27T01:34:56.5-11:00", ZONED, "2018-03-27 01:34:56.5 -11:00"),
    ("string", TIME + "ZonedTimestamp", "2018-03-27T01:34:56Z", ZONED, "2018-03-27 01:34:56 +00:00"),
    ("string", TIME + "ZonedTimestamp", "0001-01-01T00:00:00+01:00", DATE_TIME, REFUSED),
    ("string", TIME + "ZonedTimestamp", "9999-12-31T23:00:00-05:00", DATE_TIME, REFUSED),
    ("string", TIME + "ZonedTimestamp", "2020-02-30T00:00:00+01:00", DATE_TIME, REFUSED),
    ("string", TIME + "ZonedTimestamp", "2020-02-03T00:00:00+19:00", DATE_TIME, REFUSED),
    ("string", TIME + "ZonedTimestamp", "2018-03-27T01:34:56.00789-11:00", Column("V", 192, 19), REFUSED),
    ("string", TIME + "ZonedTime", "10:15:30.5+02:00", TEXT, "10:15:30.5+02:00"),
    ("int64", TIME + "MicroTime", 86_400_000_000, TEXT, "24:00:00.000000"),
    ("int64", TIME + "MicroTime", 90_000_000_000, TEXT, "25:00:00.000000"),
    ("int64", TIME + "MicroTime", -1, TEXT, "-00:00:00.000001"),
    ("int64", TIME + "MicroTime", -5_400_000_000, TEXT, "-01:30:00.000000"),
    ("int64", TIME + "MicroTime", 3_020_399_999_999, TEXT, "838:59:59.999999"),
    ("int64", TIME + "MicroTime", -3_020_399_000_000, TEXT, "-838:59:59.000000"),
    ("int64", TIME + "MicroTime", 3_020_400_000_000, TEXT, REFUSED),
    ("int32", TIME + "Time", 86_400_000, TEXT, "24:00:00.000000"),
    ("int32", TIME + "Time", -3_600_001, TEXT, "-01:00:00.001000"),
    ("int32", CONNECT + "Time", 0, TEXT, "00:00:00.000000"),
    ("int64", TIME + "NanoTime", 360_000_000_000_001, TEXT, "100:00:00.000000001"),
    ("string", TIME + "IsoTime", "10:15:30", TEXT, "10:15:30"),
    ("string", DATA + "IsoTime", "10:15:30Z", TEXT, "10:15:30Z"),
    ("string", TIME + "IsoDate", "2020-01-02Z", DATE, "2020-01-02"),
    ("int32", TIME + "Year", 2020, TEXT, "2020"),
    ("int64", TIME + "MicroDuration", 3_600_000_000, INTEGER, "3600000000"),
    ("int64", TIME + "NanoDuration", -1, INTEGER, "-1"),
    ("string", TIME + "Interval", "P1Y2M3DT4H5M6.78S", TEXT, "P1Y2M3DT4H5M6.78S"),
    ("bytes", DATA + "Bits:7", "Cw==", TEXT, "0001011"),
    ("bytes", DATA + "Bits:12", "AQg=", TEXT, "100000000001"),
    ("bytes", DATA + "Bits:12", "AQ==", TEXT, "000000000001"),
    ("bytes", DATA + "Bits:64", "AQAAAAAAAIA=", TEXT, "1" + "0" * 62 + "1"),
    ("bytes", DATA + "Bits:64", "AQAAAAAAAIA=", NUMBER, str(2**63 + 1)),
    ("bytes", DATA + "Bits:72", "AAAAAAAAAAAB", NUMBER, str(2**64)),
    ("bytes", DATA + "Bits:12", "AQg=", INTEGER, "2049"),
    ("bytes", DATA + "Bits:12", "AQg=", BYTES, "0108"),
    ("bytes", DATA + "Bits:2147483647", "AQg=", TEXT, "0000100000000001"),
    ("bytes", DATA + "Bits", "AQ==", TEXT, "00000001"),
    ("bytes", DATA + "Bits:7", "gA==", TEXT, REFUSED),
    ("bytes", DATA + "Bits:7", "no", TEXT, REFUSED),
    ("bytes", DATA + "Bits:7", 11, TEXT, REFUSED),
    ("bytes", CONNECT + "Decimal", "BNI=", NUMBER, "12.34"),
    ("struct", DATA + "VariableScaleDecimal", {"scale": 2, "value": "BNI="}, NUMBER, "12.34"),
    ("struct", DATA + "geometry.Point", POINT, TEXT, POINT_TEXT),
    ("struct", DATA + "geometry.Geometry", {"wkb": "AQEAAAA=", "srid": 4326}, TEXT, '{"wkb": "AQEAAAA=", "srid": 4326}'),
    ("struct", DATA + "geometry.Geography", {"wkb": "AQEAAAA="}, TEXT, '{"wkb": "AQEAAAA="}'),
    ("struct", DATA + "geometry.Geometry", {"wkb": "AQEAAAA="}, NUMBER, REFUSED),
    ("struct", DATA + "geometry.Geometry", "AQEAAAA=", TEXT, REFUSED),
    ("array", DATA + "FloatVector", [1.5, -2], TEXT, "[1.5, -2]"),
    ("array", DATA + "DoubleVector", [1.5], TEXT, "[1.5]"),
    ("struct", DATA + "SparseVector", {"dimensions": 3, "vector": {"1": 2.5}}, TEXT, '{"dimensions": 3, "vector": {"1": 2.5}}'),
    ("array", DATA + "FloatVector", [1.5], DATE, REFUSED),
    ("string", DATA + "Tsvector", "'cat':1 'sat':2", TEXT, "'cat':1 'sat':2"),
    ("string", DATA + "Json", '{"a":1}', TEXT, '{"a":1}'),
    ("string", DATA + "Enum", "large", TEXT, "large"),
    ("string", DATA + "EnumSet", "a,b", TEXT, "a,b"),
    ("string", DATA + "Uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", TEXT, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("string", DATA + "Xml", "<a/>", TEXT, "<a/>"),
    ("string", DATA + "Ltree", "a.b", TEXT, "a.b"),
    ("array", "", ["a", None], TEXT, '["a", null]'),
    ("map", "", {"a": "b"}, TEXT, '{"a": "b"}'),
    ("struct", "", {"a": 1}, TEXT, '{"a": 1}'),
    ("map", "", {"a": "b"}, INTEGER, REFUSED),
    ("string", "com.acme.Money", "12 EUR", TEXT, "12 EUR"),
    ("string", "com.acme.Money", "12", NUMBER, REFUSED),
    ("bytes", "com.acme.Blob", "AQ==", TEXT, REFUSED),
    ("int64", "com.acme.Stamp", 1, TEXT, REFUSED),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name", "value", "column", "expected"),
    ROWS,
    ids=[f"{row[1] or row[0]}-{str(row[2])[:40]}-{row[3].family.value}" for row in ROWS],
)
def test_a_value_of_a_documented_type(
    kind: str, name: str, value: Any, column: Column, expected: Any
) -> None:
    name, _, length = name.partition(":")
    field: dict[str, Any] = {"type": kind, "parameters": {"scale": "2"} | ({"length": length} if length else {})}  # fmt: skip
    field |= {"name": name} if name else {}

    if expected is not REFUSED:
        assert value_of(column, value, field) == expected
        assert value_of(column, None, field) is None
    else:
        with pytest.raises(DecodeError, match="field V"):
            value_of(column, value, field)


def test_every_logical_type_has_a_row() -> None:
    named = {row[1].partition(":")[0] for row in ROWS}
    elsewhere = {
        TIME + "Date", TIME + "Timestamp", TIME + "MicroTimestamp", TIME + "NanoTimestamp", TIME + "IsoTimestamp",
        CONNECT + "Date", CONNECT + "Timestamp", DATA + "SparseDoubleVector",
    }  # fmt: skip

    assert {name for name in TYPES if "." in name} <= named | elsewhere


@settings(max_examples=examples(50))
@given(
    st.lists(
        st.tuples(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)), st.integers(-1080, 1080)),  # noqa: DTZ001
        min_size=1,
        max_size=6,
    )
)
def test_a_zoned_time_is_the_same_moment(times: list[tuple[datetime, int]]) -> None:
    zoned = [at.replace(tzinfo=timezone(timedelta(minutes=minutes))) for at, minutes in times]
    field = {"type": "string", "name": TIME + "ZonedTimestamp"}

    found = values_of(DATE_TIME, [event(at.isoformat(), field) for at in zoned])

    assert found == [
        at.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds") for at in zoned
    ]


@settings(max_examples=examples(50))
@given(st.lists(st.binary(max_size=10), min_size=1, max_size=5))
def test_bits_are_little_endian(raws: list[bytes]) -> None:
    field = {"type": "bytes", "name": DATA + "Bits", "parameters": {"length": "80"}}
    events = [event(base64.b64encode(raw).decode(), field) for raw in raws]
    numbers = [int.from_bytes(raw, "little") for raw in raws]

    assert values_of(TEXT, events) == [f"{number:080b}" for number in numbers]
    assert values_of(NUMBER, events) == [str(number) for number in numbers]
