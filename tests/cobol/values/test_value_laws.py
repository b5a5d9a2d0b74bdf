"""What is always true of fields, whatever their bytes and values."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cobol.items import item
from laws import examples
from oracles import cobol_naive as naive
from trailgate.cobol.copybook.layouts import (
    CobolDialect,
    CopybookField,
    Endian,
    FloatFormat,
    NumberFormat,
    SignPosition,
    SignRules,
    Usage,
)
from trailgate.cobol.values.codec import (
    BlankPolicy,
    IntegerRepresentation,
    NumberRepresentation,
    PaddingPolicy,
    TrimSide,
    ValueOptions,
)
from trailgate.cobol.values.codecs import decoder, encoder, explainer
from trailgate.cobol.values.edited import printed_positions
from trailgate.errors import EncodeError, OptionError

MODEST = settings(max_examples=examples(150), deadline=None)
BINARY = (Usage.BINARY, Usage.NATIVE, Usage.SHORT, Usage.NATIVE_SHORT, Usage.LITTLE)
NUMBERS = (Usage.ZONED, Usage.PACKED, Usage.UNSIGNED_PACKED, *BINARY)
SEPARATE = (SignPosition.LEADING_SEPARATE, SignPosition.TRAILING_SEPARATE)
EDITED = (
    *("ZZ,ZZ9.99-", "$$,$$9.99CR", "***,**9.99", "+9(8)", "----9.9", "+++,++9", "ZZZZ", "9(5).9"),
    *("Z(6)VZZ-", "99/99B90", "$***,***.99DB", "-ZZ9", "ZZZ.ZZ", "*(5)"),
)


@st.composite
def number_fields(draw: st.DrawFn) -> CopybookField:
    """Return a field of decimal digits of any usage, width, scale and sign."""
    usage = draw(st.sampled_from(NUMBERS))
    binary = usage in BINARY
    digits = draw(st.integers(1, 38))
    scale = draw(st.integers(-min(6, 38 - digits), digits))
    signed = draw(st.booleans()) and usage is not Usage.UNSIGNED_PACKED
    sign = SignPosition.NONE
    if signed and usage is Usage.ZONED:
        sign = draw(st.sampled_from([s for s in SignPosition if s is not SignPosition.NONE]))
    size = {
        Usage.ZONED: digits + (sign in SEPARATE),
        Usage.PACKED: digits // 2 + 1,
        Usage.UNSIGNED_PACKED: (digits + 1) // 2,
    }.get(usage, 0)
    if binary:
        bits = (10**digits - 1).bit_length() + signed
        size = draw(st.integers((bits + 7) // 8, 8 if digits <= 18 else 16))
        if scale < 0 and size == 8 and not signed:
            scale = 0
    return CopybookField("X", usage, 0, size, number=NumberFormat(digits, scale, signed, sign))


OPTIONS = st.builds(
    lambda page, order, signs, blank, low_values, padding, numbers: ValueOptions(
        CobolDialect(code_page=page, binary=order, native=order, signs=signs),
        blank=blank,
        low_values=low_values,
        padding=padding,
        numbers=numbers,
    ),
    st.sampled_from(["cp037", "ascii", "cp1047", "cp930"]),
    st.sampled_from(Endian),
    st.sampled_from(SignRules),
    st.sampled_from(BlankPolicy),
    st.sampled_from(BlankPolicy),
    st.sampled_from(PaddingPolicy),
    st.sampled_from(NumberRepresentation),
)


def reading(options: ValueOptions) -> naive.Reading:
    dialect = options.dialect
    page = {"cp1047": "cp037", "cp930": "cp037"}.get(dialect.code_page, dialect.code_page)
    return naive.Reading(
        page,
        dialect.binary is Endian.LITTLE,
        dialect.signs is SignRules.STRICT,
        ibm_floats=True,
        blank=options.blank.value,
        low_values=options.low_values.value,
        padding=options.padding.value,
        numbers=options.numbers.value,
    )


@MODEST
@given(number_fields(), OPTIONS, st.data())
def test_numbers_are_written_as_the_oracle_does_and_read_again(
    field: CopybookField, options: ValueOptions, data: st.DataObject
) -> None:
    number = field.number
    assert number is not None
    most = 10**number.digits - 1
    units = data.draw(st.lists(st.integers(-most if number.signed else 0, most), max_size=9))
    values = [naive.scaled(unit, number) for unit in units]
    kind = decoder(field, options)(np.zeros((0, field.size), np.uint8)).values.type
    column = pa.array([shown(v, number, kind) for v in values], kind)

    written = encoder(field, options)(column)
    found = decoder(field, options)(written)

    expected = [naive.write_value(field, v, reading(options)) for v in values]
    assert [bytes(row) for row in written] == expected
    assert found.bad is None
    assert found.values.equals(column)


def shown(value: Decimal, number: NumberFormat, kind: pa.DataType) -> Any:
    if pa.types.is_string(kind):
        return naive.printed(value, number)
    return int(value) if pa.types.is_int64(kind) else value


def _between(size: int, pad: bytes, some: list[int]) -> bytes:
    return bytes(some).center(size, pad)


def likely_bytes(size: int) -> st.SearchStrategy[bytes]:
    """Return bytes of which some are numbers: digits of every kind, then anything."""
    digits = st.sampled_from(
        b"\xf1\xf9\xc3\xd4\xb5\xe6\x31\x39\x7b\x4c\x70\x12\x99\x0c\x3d\x4f\x00\x40"
    )
    pads = b"\x40\x20\x00"
    padded = st.lists(st.sampled_from(pads[:2] + b"\xf1\x32" + pads), min_size=size, max_size=size)
    return st.one_of(
        st.binary(min_size=size, max_size=size),
        padded.map(bytes),
        *(
            st.lists(st.sampled_from(digit), min_size=1, max_size=size).map(
                partial(_between, size, pad)
            )
            for digit, pad in ((b"\xf1\xf2\xd3\xc4\x4e\x60", b"\x40"), (b"12K+-", b" "))
        ),
        st.sampled_from(pads).map(lambda pad: bytes([pad]) * size),
        st.lists(digits, min_size=size, max_size=size).map(bytes),
        st.lists(st.sampled_from(b"\x12\x34"), min_size=size - 1, max_size=size - 1).map(
            lambda front: bytes(front) + b"\x5d"
        ),
    )


@settings(max_examples=examples(300), deadline=None)
@given(number_fields(), OPTIONS, st.data())
def test_any_bytes_give_what_the_oracle_gives(
    field: CopybookField, options: ValueOptions, data: st.DataObject
) -> None:
    """A value, or a row told to be bad, which is null and can be explained."""
    rows = data.draw(st.lists(likely_bytes(field.size), max_size=9))
    matrix = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), field.size)

    found = decoder(field, options)(matrix)

    expected = [naive_or_bad(field, row, options) for row in rows]
    text = options.numbers is NumberRepresentation.TEXT
    values = [v if text or v is None else Decimal(v) for v in found.values.to_pylist()]
    assert values == [None if value is BAD else value for value in expected]
    bad = np.zeros(len(rows), bool) if found.bad is None else found.bad
    assert bad.tolist() == [value is BAD for value in expected]
    strict = replace(
        options, blank=BlankPolicy.ERROR, low_values=BlankPolicy.ERROR, padding=PaddingPolicy.ERROR
    )
    noted = sum([note.rows for note in found.notes], np.zeros(len(rows), int))
    assert noted.tolist() == [
        int(value is not BAD and naive_or_bad(field, row, strict) is BAD)
        for value, row in zip(expected, rows, strict=True)
    ]
    found.values.validate(full=True)
    assert all(explainer(field, options)(row).problem for row in rows)


BAD = object()


def naive_or_bad(field: CopybookField, raw: bytes, options: ValueOptions) -> Any:
    try:
        return naive.read_value(field, raw, reading(options))
    except ValueError:
        return BAD


@MODEST
@given(st.sampled_from(EDITED), st.sampled_from(["ascii", "cp037"]), st.data())
def test_printed_numbers_are_read_again(picture: str, page: str, data: st.DataObject) -> None:
    options = ValueOptions(CobolDialect(code_page=page))
    field = item(f"PIC {picture}", options)
    number = field.number
    assert number is not None
    most = 10**number.digits - 1
    units = data.draw(st.lists(st.integers(-most if number.signed else 0, most), max_size=9))
    column = pa.array([naive.scaled(u, number) for u in units], pa.decimal128(38, number.scale))

    written = encoder(field, options)(column)
    found = decoder(field, options)(written)

    assert found.bad is None
    assert [Decimal(v) for v in found.values.to_pylist()] == column.to_pylist()
    assert len(printed_positions(field)) == written.shape[1]


@MODEST
@given(st.sampled_from(EDITED), st.data())
def test_what_is_read_of_any_printed_text_is_its_digits(picture: str, data: st.DataObject) -> None:
    options = ValueOptions(CobolDialect(code_page="ascii"))
    field = item(f"PIC {picture}", options)
    text = st.text("0123456789 .,-+*$CRDB/", min_size=field.size, max_size=field.size)
    rows = data.draw(st.lists(text, max_size=9))
    matrix = np.frombuffer("".join(rows).encode(), np.uint8).reshape(len(rows), field.size)

    found = decoder(field, options)(matrix)

    for row, value in zip(rows, found.values.to_pylist(), strict=True):
        if value is not None and "B0" not in picture:
            digits = "".join(c for c in row if c.isdigit()) or "0"
            assert abs(int(naive.EXACT.scaleb(Decimal(value), field.number.scale))) == int(digits)  # type: ignore[union-attr]


@MODEST
@given(
    st.sampled_from((*EDITED, "+9(3).99E+99", "-9V9(2)E-99")), st.sampled_from(Endian), st.data()
)
def test_national_characters_are_read_as_those_of_one_byte(
    picture: str, order: Endian, data: st.DataObject
) -> None:
    options = ValueOptions(CobolDialect(code_page="latin-1"), national=order)
    narrow, wide = item(f"PIC {picture}", options), item(f"PIC {picture} NATIONAL", options)
    text = st.text("0123456789 .,-+*$CRDB/E\u0130", min_size=narrow.size, max_size=narrow.size)
    rows = data.draw(st.lists(text, max_size=9))
    page = "utf-16-be" if order is Endian.BIG else "utf-16-le"
    one = "".join(rows).encode("latin-1", "replace").replace(b"?", b"\xff")
    two = "".join(rows).encode(page)

    found = decoder(wide, options)(np.frombuffer(two, np.uint8).reshape(-1, wide.size))

    expected = decoder(narrow, options)(np.frombuffer(one, np.uint8).reshape(-1, narrow.size))
    assert found.values.equals(expected.values)


@MODEST
@given(st.lists(st.binary(min_size=8, max_size=8)), st.sampled_from([4, 8]), st.booleans())
def test_floats_are_read_as_the_oracle_does(raws: list[bytes], size: int, ibm: bool) -> None:
    floats = FloatFormat.IBM if ibm else FloatFormat.IEEE
    options = ValueOptions(CobolDialect(floats=floats))
    usage = Usage.FLOAT if size == 4 else Usage.DOUBLE
    field = CopybookField("X", usage, 0, size)
    rows = [raw[:size] for raw in raws]
    matrix = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), size)

    found = decoder(field, options)(matrix)

    how = naive.Reading(ibm_floats=ibm)
    expected = [naive.read_value(field, row, how) for row in rows]
    assert found.bad is None
    assert list(map(repr, found.values.to_pylist())) == list(map(repr, expected))


@MODEST
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)))
def test_doubles_are_written_exactly_or_not_at_all(values: list[float]) -> None:
    field = CopybookField("X", Usage.DOUBLE, 0, 8)
    column = pa.array(values, pa.float64())
    try:
        written = encoder(field)(column)
    except EncodeError:  # beyond the range of hexadecimal floating point
        assert any(v and not 1e-77 < abs(v) < 1e75 for v in values)
        return

    assert decoder(field)(written).values.to_pylist() == values


@MODEST
@given(
    st.lists(st.text(max_size=6)),
    st.booleans(),
    st.sampled_from(["utf-8", "cp037", "1388"]),
    st.sampled_from([True, *TrimSide]),
)
def test_text_is_written_and_read_again_or_refused(
    strings: list[str], right: bool, page: str, trim: bool | TrimSide
) -> None:
    options = ValueOptions(CobolDialect(code_page=page), trim=trim)
    field = CopybookField("X", Usage.TEXT, 0, 16, justified=right)
    column = pa.array(strings, pa.string())
    try:
        written = encoder(field, options)(column)
    except EncodeError:
        assert page != "utf-8" or max(len(text.encode()) for text in strings) > 16
        return

    found = decoder(field, options)(written)

    assert found.bad is None
    how = naive.Reading("utf-8", trim=trim.value if isinstance(trim, TrimSide) else "padding")
    padded = [decoder(field, replace(options, trim=False))(written).values.to_pylist()]
    trimmed = [naive.read_text(field, text.encode(), how) for text in padded[0]]
    assert found.values.to_pylist() == trimmed
    if trim is True:
        plain = [text.lstrip(" ") if right else text.rstrip(" ") for text in strings]
        assert trimmed == plain


@MODEST
@given(st.lists(st.binary(min_size=6, max_size=6)), st.sampled_from(["utf-16-be", "utf-16-le"]))
def test_national_text_is_read_as_python_reads_it(rows: list[bytes], page: str) -> None:
    field = CopybookField("X", Usage.NATIONAL, 0, 6, code_page=page)
    matrix = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), 6)

    found = decoder(field)(matrix)

    expected: list[str | None] = []
    for row in rows:
        try:
            expected.append(row.decode(page).rstrip(" "))
        except UnicodeDecodeError:
            expected.append(None)
    assert found.values.to_pylist() == expected


def test_a_strided_matrix_reads_as_a_copied_one() -> None:
    """A field's bytes are taken from the midst of records."""
    draw = np.random.default_rng(5)
    records = draw.integers(0, 256, (500, 40)).astype(np.uint8)
    for usage in NUMBERS:
        for size in range(1, 17):
            number = NumberFormat(size if size <= 8 else 19, 0, usage is not Usage.UNSIGNED_PACKED)
            field = CopybookField("X", usage, 0, size, number=number)
            part = records[:, 7 : 7 + size]
            one, other = decoder(field)(part), decoder(field)(part.copy())
            assert one.values.equals(other.values)


def test_integers_are_decimals_by_option() -> None:
    options = ValueOptions(integers=IntegerRepresentation.DECIMAL)
    field = item("PIC S9(5) COMP-3", options)

    found = decoder(field, options)(np.frombuffer(b"\x12\x34\x5c", np.uint8).reshape(1, 3))

    assert found.values.equals(pa.array([Decimal(12345)], pa.decimal128(5, 0)))


@pytest.mark.parametrize("clauses", ["PIC S9(3)", "PIC S9(3) COMP-3", "PIC ZZ9"])
def test_null_is_written_as_blanks_only_by_option(clauses: str) -> None:
    field = item(clauses)
    values = pa.array([1, None], pa.int64())
    options = ValueOptions(blank=BlankPolicy.NULL)

    written = encoder(field, options)(values)

    assert decoder(field, options)(written).values.to_pylist() == [1, None]
    with pytest.raises(EncodeError, match="NULL") as caught:
        encoder(field)(values)
    assert caught.value.where.record == 1


@pytest.mark.parametrize("value", [1000, Decimal("1.5"), -1])
def test_a_value_that_does_not_fit_is_refused(value: Any) -> None:
    field = item("PIC 9(3) COMP-3")
    with pytest.raises(EncodeError, match="a n") as caught:
        encoder(field)(pa.array([Decimal(5), Decimal(value)]))
    assert caught.value.where.record == 1


# Their last 128 bits are small numbers, which a cast that keeps these would write.
WRAPPED = 2**128 + 1
WRAPPED_IN_HUNDREDTHS = -(-(2**128) // 100)  # 37 digits, and 2^128 + 44 hundredths
LONG_NUMBERS: list[tuple[str, pa.DataType, Any, NumberRepresentation]] = [
    (
        "PIC S9(16)V99 COMP",
        pa.decimal128(38, 0),
        Decimal(WRAPPED_IN_HUNDREDTHS),
        NumberRepresentation.VALUE,
    ),
    (
        "PIC S9(16)V99 COMP",
        pa.decimal128(38, 0),
        Decimal(-WRAPPED_IN_HUNDREDTHS),
        NumberRepresentation.VALUE,
    ),
    (
        "PIC 9(16)V99 COMP-5",
        pa.decimal128(38, 0),
        Decimal(WRAPPED_IN_HUNDREDTHS),
        NumberRepresentation.VALUE,
    ),
    *(
        (f"PIC S9(9)V99{usage}", kind, value, NumberRepresentation.VALUE)
        for usage in ("", " COMP", " COMP-3")
        for kind in (pa.decimal256(60, 0), pa.decimal256(76, 2))
        for value in (Decimal(WRAPPED), Decimal(-WRAPPED))
    ),
    *(
        (f"PIC S9(9)V99{usage}", pa.string(), text, NumberRepresentation.TEXT)
        for usage in ("", " COMP", " COMP-3")
        for text in (str(WRAPPED), f"-{WRAPPED}.25", f"{2**256 + 1}", f"{WRAPPED}E0")
    ),
]


@pytest.mark.parametrize(("clauses", "kind", "value", "numbers"), LONG_NUMBERS)
def test_a_number_of_more_than_128_bits_is_refused(
    clauses: str, kind: pa.DataType, value: Any, numbers: NumberRepresentation
) -> None:
    options = ValueOptions(numbers=numbers)
    one = "1" if numbers is NumberRepresentation.TEXT else Decimal(1)
    with pytest.raises(EncodeError) as caught:
        encoder(item(clauses, options), options)(pa.array([one, value], kind))
    assert caught.value.where.record == 1
    assert str(abs(int(Decimal(value))) // 100)[:30] in str(caught.value)


@pytest.mark.parametrize("clauses", ["PIC S9(5)V99", "PIC S9(5)V99 COMP", "PIC S9(5)V99 COMP-3"])
@pytest.mark.parametrize(
    "kind",
    [pa.decimal32(7, 2), pa.decimal64(16, 2), pa.decimal128(38, 2), pa.decimal256(60, 2)],
    ids=str,
)
def test_decimals_of_any_width_are_written(clauses: str, kind: pa.DataType) -> None:
    field = item(clauses)
    values = pa.array([Decimal("9.99"), Decimal("-12345.67"), Decimal("0.01")], kind).slice(1)
    found = decoder(field)(encoder(field)(values))
    assert found.values.to_pylist() == values.to_pylist()


def test_a_page_without_narrow_digits_has_no_zoned_numbers() -> None:
    options = ValueOptions(CobolDialect(code_page="utf-16-be"))
    with pytest.raises(OptionError, match="no digits of one byte"):
        decoder(CopybookField("X", Usage.ZONED, 0, 3, number=NumberFormat(3)), options)


@pytest.mark.parametrize("clauses", ["PIC 9(5)", "PIC 9(5) COMP-3", "PIC 9(5) COMP-6"])
def test_leading_zeros_are_kept_by_option(clauses: str) -> None:
    options = ValueOptions(integers=IntegerRepresentation.TEXT)
    field = item(clauses, options)
    values = pa.array(["00042", "12345"])

    written = encoder(field, options)(values)

    assert decoder(field, options)(written).values.equals(values)
    with pytest.raises(EncodeError, match="text that is not a number"):
        encoder(field, options)(pa.array(["4x"]))


def test_a_number_with_a_sign_has_no_leading_zeros_to_keep() -> None:
    options = ValueOptions(integers=IntegerRepresentation.TEXT)
    field = item("PIC S9(5)", options)
    assert decoder(field, options)(np.zeros((0, 5), np.uint8)).values.type == pa.int64()
