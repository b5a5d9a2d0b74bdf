"""Bytes, floats, intervals and times with a zone, between text and block columns."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailgate.columnar.hex_digits import LOWER, from_hex, to_hex
from trailgate.errors import DecodeError
from trailgate.model.tables import Column
from trailgate.model.values import formatter_for, parser_for, typed_for

RAW = Column("R", 64, 3, sub_type=4)
REAL, DOUBLE = Column("F", 142, 4), Column("D", 143, 8)
ZONED = Column("Z", 192, 36)


@given(st.lists(st.none() | st.binary(max_size=9)))
def test_hexadecimal_digits_and_back(raw: list[bytes | None]) -> None:
    values = pa.array([b"in front", *raw], pa.binary()).slice(1)

    digits = to_hex(values)

    assert digits.to_pylist() == [None if one is None else one.hex().upper() for one in raw]
    assert from_hex(digits).to_pylist() == raw
    assert from_hex(to_hex(values, LOWER)).equals(values)


@pytest.mark.parametrize("text", ["a", "0g", "é", "0x00", "12 34"])
def test_text_that_is_not_hexadecimal_is_named_with_its_row(text: str) -> None:
    with pytest.raises(DecodeError, match=r"not pairs of hexadecimal digits .record 1"):
        from_hex(pa.array(["00", text]))


def test_bytes_are_measured_and_given_in_upper_case() -> None:
    parse = parser_for(RAW)

    assert parse(pa.array(["00abFF", "", None])).to_pylist() == ["00ABFF", "", None]
    with pytest.raises(DecodeError, match=r"more than 3 bytes .record 1"):
        parse(pa.array(["00", "00112233"]))
    assert typed_for(RAW)[0] == pa.string()


@given(st.lists(st.none() | st.floats(allow_nan=False)))
def test_a_double_keeps_its_value_through_text(numbers: list[float | None]) -> None:
    values = pa.array(numbers, pa.float64())

    assert parser_for(DOUBLE)(formatter_for(DOUBLE)(values)).equals(values)


@given(st.lists(st.none() | st.floats(allow_nan=False, width=32)))
def test_a_real_keeps_its_value_through_text(numbers: list[float | None]) -> None:
    values = pa.array(numbers, pa.float32())

    assert parser_for(REAL)(formatter_for(REAL)(values)).equals(values)


def test_floats_have_the_shortest_digits() -> None:
    assert formatter_for(REAL)(pa.array([0.1, -2.5], pa.float32())).to_pylist() == ["0.1", "-2.5"]
    found = parser_for(DOUBLE)(pa.array(["NaN", "-inf", "1e3"])).to_pylist()
    assert math.isnan(found[0])
    assert found[1:] == [-math.inf, 1000.0]
    assert (typed_for(REAL)[0], typed_for(DOUBLE)[0]) == (pa.float32(), pa.float64())


@pytest.mark.parametrize(("column", "text"), [(DOUBLE, "1e999"), (REAL, "1e39"), (REAL, "one")])
def test_text_that_is_not_a_float_is_named_with_its_row(column: Column, text: str) -> None:
    with pytest.raises(DecodeError, match=rf"record 1, text '{text}'"):
        parser_for(column)(pa.array(["1", text]))


def test_a_time_with_a_zone_stays_text() -> None:
    text = "2021-01-03 15:26:03.160000000 +09:00"

    assert ZONED.zoned
    assert not Column("T", 192, 29).zoned
    assert parser_for(ZONED)(pa.array([text])).to_pylist() == [text]
    assert typed_for(ZONED)[0] == pa.string()


def test_an_interval_is_text_of_its_length() -> None:
    interval = Column("I", 197, 6)

    assert parser_for(interval)(pa.array(["+01-03"])).to_pylist() == ["+01-03"]
    with pytest.raises(DecodeError, match="longer than 6"):
        parser_for(interval)(pa.array(["+0001-03"]))


@pytest.mark.parametrize(
    ("code", "value", "expected"),
    [
        (134, "123456789012", 123456789012),
        (134, "5.0", 5),
        (134, "123456789012.5", None),
        (132, "2147483647", 2147483647),
        (132, "2147483648", None),
        (130, "32768", None),
        (135, "18446744073709551615", 18446744073709551615),
    ],
)
def test_the_code_of_an_integer_decides_on_its_bytes(
    code: int, value: str, expected: int | None
) -> None:
    parse = parser_for(Column("N", code, 4, internal_length=4, binary_length=4))

    if expected is not None:
        assert parse(pa.array([value])).to_pylist() == [expected]
    else:
        with pytest.raises(DecodeError, match="number outside"):
            parse(pa.array([value]))
