"""Decimals of bytes have the digits that Python's numbers have."""

from __future__ import annotations

from decimal import Context, Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailgate.errors import DecodeError
from trailgate.formats.debezium.column_types import TYPES
from trailgate.formats.debezium.decimals import decimal_strings
from trailgate.formats.debezium.schemas import ConnectFieldType
from trailgate.model.tables import Column

EXACT = Context(prec=400)
NUMBER = Column("V", 64, 50, sub_type=2)


def _bytes(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


@given(
    st.lists(
        st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**40), 10**40), min_size=1, max_size=5
    ),
    st.integers(-3, 60),
)
def test_digits_are_those_of_the_number(numbers: list[int], scale: int) -> None:
    found = decimal_strings(pa.array([*map(_bytes, numbers), None]), scale).to_pylist()

    assert [Decimal(text) for text in found[:-1]] == [
        EXACT.scaleb(Decimal(number), -scale) for number in numbers
    ]
    assert found[-1] is None
    assert all("E" not in text for text in found[:-1])
    assert scale <= 0 or all(len(text.partition(".")[2]) == scale for text in found[:-1])


@pytest.mark.parametrize(
    "scale", ["", "None", "1.5", "1e2", "inf", "1001", "-1001", "9" * 5000, "٣"]
)
def test_a_scale_of_a_schema_that_is_not_one_is_refused(scale: str) -> None:
    name = "org.apache.kafka.connect.data.Decimal"

    with pytest.raises(DecodeError, match="scale in the schema"):
        TYPES[name].encoding(ConnectFieldType("bytes", name, {"scale": scale}), NUMBER)


def test_a_schema_without_a_scale_is_refused() -> None:
    name = "org.apache.kafka.connect.data.Decimal"

    with pytest.raises(DecodeError, match="scale in the schema"):
        TYPES[name].encoding(ConnectFieldType("bytes", name), NUMBER)


def test_a_number_of_thousands_of_bytes_is_refused_with_its_row() -> None:
    values = pa.array([b"\1", None, b"\1" * 2000])

    with pytest.raises(DecodeError, match="more than 1000 bytes") as raised:
        decimal_strings(values, 2)

    assert raised.value.where.record == 2
