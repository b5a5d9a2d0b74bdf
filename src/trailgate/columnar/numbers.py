"""Numbers from text and back, exactly: nothing rounds, and nothing generous is let through."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.columnar.kernels import dates as kernels
from trailgate.columnar.rows import (
    byte_view,
    failing_row,
    most_bytes,
    octets,
    over_nulls,
    row_error,
    text_view,
    trim,
)
from trailgate.errors import DecodeError

MOST: Final = 2**63 - 1
# One notation of a number: sign, digits with at most one point, exponent of ten.
NUMBER: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
# Zeros without a value: before a number, and after the last digit of a fraction.
_LEADING_ZEROS: Final = r"^([+-]?)0+([0-9])"
_TRAILING_ZEROS: Final = r"^([+-]?[0-9]*\.[0-9]*?)0+$"
_ZERO: Final = r"^[+-]?(0+(\.0*)?|\.0+)([eE][+-]?[0-9]+)?$"  # whatever the power of ten
_NUMBER_BYTES: Final = np.isin(np.arange(256), np.frombuffer(b"0123456789+-.eE", np.uint8))
# pyarrow's casts of decimals to text turn to exponents beyond this scale (0.0000001 is 1E-7).
_PLAIN_SCALE: Final = 6


def limits(width_bytes: int, signed: bool) -> tuple[int, int]:
    """Return the least and greatest value of a binary integer of that many bytes."""
    bits = 8 * width_bytes
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def parse_integers(values: pa.StringArray, scale: int, width_bytes: int, signed: bool) -> pa.Array:
    """Return decimal text as int64 or uint64, or as decimal128(19 or 20, scale) with a scale.

    The unscaled value must fit a binary integer of ``width_bytes``. Raises DecodeError with the
    row as its record.
    """
    low, high = limits(width_bytes, signed)

    def parse(dense: pa.Array) -> pa.Array:
        found = _decimals(dense, scale) if scale else _integers(dense, signed)
        return _check(found, low, high, scale, signed)

    def with_place(dense: pa.Array) -> pa.Array:
        try:
            return parse(dense)
        except (pa.ArrowException, DecodeError):
            row = failing_row(parse, dense)
        raise _number_error(dense, row, (low, high), scale)

    found = None if scale else _digits(values, (low, high), signed)
    return over_nulls(with_place, values) if found is None else found


def _digits(values: pa.StringArray, bounds: tuple[int, int], signed: bool) -> pa.Array | None:
    """Return numbers written as digits alone, as most are; None where some are not or are out of bounds."""
    if values.offset or values.null_count == len(values):
        return None
    offsets, data = text_view(values)
    bits = values.buffers()[0] if values.null_count else None
    found = np.empty(len(values), np.int64)
    low, high = bounds
    valid = octets(bits or b"")
    row = kernels.read_integers(data, offsets, valid, low, min(high, MOST), found)
    kind = pa.int64() if signed else pa.uint64()
    return (
        None if row >= 0 else pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(found)])
    )


def _no_number(values: pa.Array, row: int) -> DecodeError:
    """Return the error of the first row that is not a number, with all others that are none either."""
    error = row_error("not a number", values, row)
    numbers = np.asarray(pc.match_substring_regex(trim(values), NUMBER).fill_null(True))
    error.alike = np.flatnonzero(~numbers).tolist()
    return error


def _number_error(values: pa.Array, row: int, bounds: tuple[int, int], scale: int) -> DecodeError:
    if not pc.match_substring_regex(trim(values.slice(row, 1)), NUMBER)[0].as_py():
        return _no_number(values, row)
    low, high = bounds
    problem = (
        f"number outside {low} to {high}"
        if not scale
        else (
            f"number with more than {scale} fraction digits, or outside {low} to {high} "
            f"in units of 10^-{scale}"
        )
    )
    if not scale:
        problem += ", or not whole"
    return row_error(problem, values, row)


def _integers(values: pa.Array, signed: bool) -> pa.Array:
    kind = pa.int64() if signed else pa.uint64()
    offsets, data = byte_view(values)
    # Arrow reads 0x10 as 16; every x is refused by the general way below.
    odd = (data[offsets[0] : offsets[-1]] | 0x20) == ord("x")
    if not odd.any():
        try:
            return pc.cast(values, kind)
        except pa.ArrowInvalid:
            pass
    return pc.cast(_exact(_plain(values), pa.decimal128(38, 0)), kind)


def _decimals(values: pa.Array, scale: int) -> pa.Array:
    kind = pa.decimal128(38, scale)
    try:
        return _exact(values, kind)
    except pa.ArrowInvalid:
        return _exact(_plain(values), kind)


def _exact(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return text as decimals; raises ArrowInvalid or DecodeError where that would lose digits."""
    found = pc.cast(values, kind)
    offsets, data = byte_view(values)
    has_power = ((data[offsets[0] : offsets[-1]] | 0x20) == ord("e")).any()
    if has_power or most_bytes(values) > kind.precision - kind.scale:
        _check_found(values, found, has_power=has_power)
    if not has_power:
        return found
    # Arrow takes a value for zero where its power and the scale are 39 digits apart.
    zero = pc.equal(found, pa.scalar(0).cast(kind))
    if pc.any(pc.match_substring_regex(values.filter(zero), "^[^eE]*[1-9]")).as_py():
        raise DecodeError("digits would be lost")
    return found


def _check_found(values: pa.Array, found: pa.Array, *, has_power: bool) -> None:
    """Raise DecodeError if text became another number, or one with more digits than the type has.

    pyarrow 26 keeps the last 128 bits of long digits, so that 2^128 + 1 would be 1, and takes 10^38 (39 digits, but 127 bits) for a decimal of 38 digits.
    """
    left = found.type.precision - found.type.scale  # digits before the point
    chosen = pc.greater(pc.binary_length(values), left)
    if has_power:
        chosen = pc.or_(chosen, pc.match_substring_regex(values, "[eE]"))
    pairs = zip(values.filter(chosen).to_pylist(), found.filter(chosen).to_pylist(), strict=True)
    try:
        same = all(
            Decimal(text) == number and (not number or number.adjusted() < left)
            for text, number in pairs
        )
    except InvalidOperation:  # an exponent of 19 digits and more
        same = False
    if not same:
        raise DecodeError("digits would be lost")


def _plain(values: pa.Array) -> pa.Array:
    """Return numbers without blanks around them and without zeros that carry no value."""
    values = pc.replace_substring_regex(trim(values), _LEADING_ZEROS, r"\1\2")
    values = pc.replace_substring_regex(values, _ZERO, "0")
    return pc.replace_substring_regex(values, _TRAILING_ZEROS, r"\1")


def _check(found: pa.Array, low: int, high: int, scale: int, signed: bool) -> pa.Array:
    if scale:
        words = words_from_decimal(found, signed)
        sign = np.frombuffer(found.buffers()[1], np.int64)[2 * found.offset :][: 2 * len(found)]
        above = sign[1::2]
        expected = words >> 63 if signed else np.zeros(len(words), np.int64)
        bad = len(words) and not (above == expected).all()
        if not bad:
            found = _as_decimal(words, scale, signed)
    else:
        words, bad = found.to_numpy(zero_copy_only=False), False
    if bad or (len(words) and (int(words.min()) < low or int(words.max()) > high)):
        raise DecodeError("number out of range")
    return found


def check_number_text(values: pa.StringArray) -> pa.StringArray:
    """Return the values as they are, without blanks around them, all proved to be numbers.

    Raises DecodeError with the row as its record.
    """

    def check(dense: pa.Array) -> pa.Array:
        dense = trim(dense)
        if not _surely_numbers(dense) and not _match(dense):
            raise DecodeError("not a number")
        return dense

    def with_place(dense: pa.Array) -> pa.Array:
        try:
            return check(dense)
        except DecodeError:
            row = failing_row(check, dense)
        raise _no_number(dense, row)

    return over_nulls(with_place, values)


def _surely_numbers(values: pa.Array) -> bool:
    offsets, data = byte_view(values)
    if not _NUMBER_BYTES[data[offsets[0] : offsets[-1]]].all():
        return False
    try:
        pc.cast(values, pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _match(values: pa.Array) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, NUMBER), min_count=0).as_py())


def words_from_decimal(
    values: pa.Array, signed: bool = True
) -> npt.NDArray[np.int64] | npt.NDArray[np.uint64]:
    """Return the low words of decimal128 values, the unscaled values, without a copy.

    Null rows have any word. The values must fit a word; parse_integers sees to that.
    """
    words = np.frombuffer(values.buffers()[1] or b"", np.int64)
    words = words[2 * values.offset :][: 2 * len(values) : 2]
    return words if signed else words.view(np.uint64)


def _as_decimal(
    words: npt.NDArray[np.int64] | npt.NDArray[np.uint64],
    scale: int,
    signed: bool,
    nulls: npt.NDArray[np.bool_] | None = None,
) -> pa.Array:
    pairs = np.empty((len(words), 2), np.int64)
    pairs[:, 0] = words.view(np.int64)
    pairs[:, 1] = words >> 63 if signed else 0
    valid = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    kind = pa.decimal128(19 if signed else 20, scale)
    return pa.Array.from_buffers(kind, len(words), [valid, pa.py_buffer(pairs)])


def format_integers(values: pa.Array) -> pa.StringArray:
    """Return int64, uint64 or decimal128 values as plain text that keeps the scale: -0.05."""
    scale = values.type.scale if pa.types.is_decimal(values.type) else 0
    if scale <= _PLAIN_SCALE:
        return pc.cast(values, pa.string())
    text = pc.cast(_unscale(values), pa.string())
    minus = pc.if_else(pc.starts_with(text, "-"), "-", "")
    digits = pc.utf8_lpad(pc.utf8_ltrim(text, "-"), scale + 1, "0")
    whole = pc.utf8_slice_codeunits(digits, 0, -scale)
    point = pc.binary_join_element_wise(whole, pc.utf8_slice_codeunits(digits, -scale), ".")
    return pc.binary_join_element_wise(minus, point, "")


def _unscale(values: pa.Array) -> pa.Array:
    kind = pa.decimal128(values.type.precision, 0)
    return pa.Array.from_buffers(
        kind, len(values), values.buffers(), values.null_count, values.offset
    )


def exact_decimals(values: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Return number text as decimals of a type; raises DecodeError, with its row, for what the type cannot hold."""

    def convert(dense: pa.Array) -> pa.Array:
        try:
            return _exact(dense, kind)
        except (pa.ArrowException, DecodeError):
            pass  # zeros without a value may be what the cast refuses
        try:
            return _exact(_plain(dense), kind)
        except (pa.ArrowException, DecodeError):
            row = failing_row(lambda part: _exact(_plain(part), kind), dense)
        left = kind.precision - kind.scale
        problem = f"a number with more than {left} digits, or {kind.scale} after the point"
        raise row_error(problem, dense, row)

    return over_nulls(convert, values)
