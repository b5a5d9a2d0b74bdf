"""Decimals of bytes have the digits that Python's numbers have."""

from __future__ import annotations

from decimal import Context, Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from trailgate.messages.debezium.decimals import decimal_texts

EXACT = Context(prec=400)


def _bytes(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


@given(
    st.lists(
        st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**40), 10**40), min_size=1, max_size=5
    ),
    st.integers(-3, 60),
)
def test_digits_are_those_of_the_number(numbers: list[int], scale: int) -> None:
    found = decimal_texts(pa.array([*map(_bytes, numbers), None]), scale).to_pylist()

    assert [Decimal(text) for text in found[:-1]] == [
        EXACT.scaleb(Decimal(number), -scale) for number in numbers
    ]
    assert found[-1] is None
    assert all("E" not in text for text in found[:-1])
    assert scale <= 0 or all(len(text.partition(".")[2]) == scale for text in found[:-1])
