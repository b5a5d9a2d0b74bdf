"""Numbers from text: equal to a reading value by value with decimal.Decimal."""

from __future__ import annotations

import re
from decimal import Context, Decimal, Inexact

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trailgate.columnar.numbers import (
    check_number_text,
    format_integers,
    parse_decimals,
    parse_integers,
    words_from_decimal,
)
from trailgate.columnar.rows import find_failing_row
from trailgate.errors import DecodeError

EXACT = Context(prec=200, traps=[Inexact])
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


def naive(text: str, scale: int, width: int, signed: bool) -> Decimal | None:
    """Return the value, or None where it is refused."""
    text = text.strip(" \t\r\n")
    if not NUMBER.fullmatch(text):
        return None
    value = Decimal(text)
    if abs(value.adjusted()) > 60 and value:
        return None
    units = EXACT.scaleb(value, scale)
    low = -(1 << (8 * width - 1)) if signed else 0
    high = (1 << (8 * width - signed)) - 1
    return value if units == int(units) and low <= units <= high else None


strings = st.one_of(
    st.from_regex(r"[ ]?[+-]?[0-9]{1,21}(\.[0-9]{0,4}0{0,3})?[ ]?", fullmatch=True),
    st.from_regex(r"[+-]?[0-9]{0,3}(\.[0-9]{0,3})?([eE][+-]?[0-9]{1,2})?", fullmatch=True),
    st.text("0123456789+-.eExXnaif ", max_size=8),
    st.text(max_size=4),
)


@given(
    st.lists(st.none() | strings, max_size=6),
    st.sampled_from([0, 2, 9]),
    st.sampled_from([2, 4, 8]),
    st.booleans(),
)
@example(["0E40", "-0.00e-7", ".0E99"], 2, 8, True)
@example(["0E40", ""], 0, 2, False)
@example([".0", " -.00"], 0, 2, False)
@example([" .0"], 2, 4, True)
@example(["340282366920938463463374607431768211457"], 0, 8, True)  # 2^128 + 1
@example(["-6805647338418769269267492148635364.22912", "1"], 2, 8, True)
@example(["68056473384187692692674921486353642291.2E1"], 0, 8, False)
def test_integers_equal_the_naive_reading(
    values: list[str | None], scale: int, width: int, signed: bool
) -> None:
    expected = [None if v is None else naive(v, scale, width, signed) for v in values]
    refused = [i for i, v in enumerate(values) if v is not None and expected[i] is None]
    column = pa.array(values, pa.string())

    if refused:
        with pytest.raises(DecodeError) as caught:
            parse_integers(column, scale, width, signed)
        assert caught.value.where.record == refused[0]
        assert caught.value.where.raw == (values[refused[0]] or "").encode()
    else:
        found = parse_integers(column, scale, width, signed)
        assert found.to_pylist() == expected


@given(st.lists(st.none() | strings, max_size=6))
def test_number_text_is_checked_and_kept(values: list[str | None]) -> None:
    stripped = [None if v is None else v.strip(" \t\r\n") for v in values]
    bad = [i for i, v in enumerate(stripped) if v is not None and not NUMBER.fullmatch(v)]
    column = pa.array(values, pa.string())

    if bad:
        with pytest.raises(DecodeError) as caught:
            check_number_text(column)
        assert caught.value.where.record == bad[0]
    else:
        assert check_number_text(column).to_pylist() == stripped


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)), st.sampled_from([0, 2, 9, 18]))
def test_formatting_and_parsing_are_inverse(units: list[int | None], scale: int) -> None:
    values = [None if u is None else format(EXACT.scaleb(Decimal(u), -scale), "f") for u in units]
    column = pa.array(values, pa.string())

    found = parse_integers(column, scale, 8, signed=True)

    assert format_integers(found).to_pylist() == values


@given(st.lists(st.integers(-(2**63), 2**64 - 1)), st.integers(0, 2))
def test_the_words_of_a_decimal_are_its_unscaled_values(units: list[int], skipped: int) -> None:
    values = [EXACT.scaleb(Decimal(unit), -3) for unit in units]
    column = pa.array(values, pa.decimal128(20, 3)).slice(skipped)

    words = words_from_decimal(column, signed=False)

    assert words.tolist() == [unit % 2**64 for unit in units[skipped:]]
    assert words_from_decimal(column).tolist() == words.view(np.int64).tolist()


def test_a_row_of_a_slice_is_counted_within_the_slice() -> None:
    column = pa.array(["x", "1", None, "0x10"]).slice(1)

    with pytest.raises(DecodeError, match=r"not a number \(record 2, text '0x10'\)"):
        parse_integers(column, 0, 8, signed=True)


@pytest.mark.parametrize(("text", "scale"), [("1E-48", 9), ("1.5E-47", 9), ("1E-39", 0)])
def test_a_power_far_below_the_scale_is_not_taken_for_zero(text: str, scale: int) -> None:
    with pytest.raises(DecodeError, match=r"digits|whole"):
        parse_integers(pa.array([text]), scale, 8, signed=True)


TYPES = (pa.decimal128(38, 0), pa.decimal128(38, 6), pa.decimal128(9, 2), pa.decimal256(76, 38))
LONG = (2**128 + 1, 2**128 * 10 + 1, 2**256 + 1, 2**256 + 2**128, 10**38, 10**38 - 1)


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("ending", ["", ".", ".5", ".000000", "e0", "E-2", "0" * 40])
@pytest.mark.parametrize("sign", ["", "-", "+", "0" * 50])
def test_long_digits_are_exact_or_refused(kind: pa.DataType, ending: str, sign: str) -> None:
    for number in LONG:
        text = f"{sign}{number}{ending}"
        column = pa.array(["1", None, text])
        units = EXACT.scaleb(Decimal(text), kind.scale)
        if units == int(units) and units.copy_abs() < 10**kind.precision:
            assert parse_decimals(column, kind).to_pylist() == [1, None, Decimal(text)]
            continue
        with pytest.raises(DecodeError, match="a number with more than") as caught:
            parse_decimals(column, kind)
        assert caught.value.where.record == 2


@pytest.mark.parametrize("bad", [0, 1, 2, 3, 7, 100, 4094, 4095])
def test_the_first_bad_row_is_found_at_the_cost_of_the_rows_before_it(bad: int) -> None:
    values = pa.array(["1"] * bad + ["x"] * (4096 - bad))
    tried = []

    def check(part: pa.Array) -> None:
        tried.append(len(part))
        if part.to_pylist()[-1] == "x":
            raise DecodeError("not a number")

    assert find_failing_row(check, values) == bad
    assert sum(tried) <= 4 * bad + 2


@pytest.mark.parametrize("blank", [" ", "\t", "\r\n", "  "])
def test_integers_may_have_blanks_around_them_and_nothing_else(blank: str) -> None:
    values = pa.array([f"{blank}12{blank}", "-3", f"007{blank}"])
    assert parse_integers(values, 0, 8, signed=True).to_pylist() == [12, -3, 7]
    for wrong in ("0x10", "1_0", "1 2", "\u0661", "1\0"):
        with pytest.raises(DecodeError, match="not a number") as error:
            parse_integers(pa.array(["1", wrong]), 0, 8, signed=True)
        assert error.value.where.record == 1
