"""Parse and format numbers exactly: nothing is rounded, and ambiguous text is an error.

Most columns are plain digits, which one compiled loop reads. Everything else (``1.50``, ``1e3``, ``
7 ``) is parsed by Arrow's casts. These accept too much (``0x10``) and are wrong for very long
digits, so their results are checked. If a column has a bad value, its row is found by bisection.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, octets
from trailgate.columnar import numbers_kernels as kernels
from trailgate.columnar.gather import measure_error
from trailgate.columnar.rows import convert_valid_rows, find_failing_row, row_error
from trailgate.columnar.strings import (
    NO_NULLS,
    build_binary_column,
    byte_view,
    most_bytes,
    text_view,
    trim_strings,
)
from trailgate.columnar.word_kernels import SPARE
from trailgate.errors import DecodeError

MOST: Final = 2**63 - 1
# The notation of a number: sign, digits with at most one point, exponent of ten.
NUMBER: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
# Zeros that carry no value: at the beginning of a number, and at the end of a fraction.
_LEADING_ZEROS: Final = r"^([+-]?)0+([0-9])"
_TRAILING_ZEROS: Final = r"^([+-]?[0-9]*\.[0-9]*?)0+$"
_ZERO: Final = r"^[+-]?(0+(\.0*)?|\.0+)([eE][+-]?[0-9]+)?$"  # whatever the power of ten
_NUMBER_BYTES: Final = np.isin(np.arange(256), np.frombuffer(b"0123456789+-.eE", np.uint8))
# Beyond this scale, pyarrow casts decimals to text with exponents (0.0000001 becomes 1E-7).
_PLAIN_SCALE: Final = 6


def integer_limits(width_bytes: int, signed: bool) -> tuple[int, int]:
    """Return the lowest and highest number that a signed or unsigned integer of ``width_bytes`` can have."""
    bits = 8 * width_bytes
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def parse_integers(values: pa.StringArray, scale: int, width_bytes: int, signed: bool) -> pa.Array:
    """Parse decimal text as int64 or uint64, or with a scale as decimal128(19 or 20, scale).

    The unscaled value must fit in a binary integer of ``width_bytes``. Raises DecodeError with the
    row in ``where.record``.
    """
    low, high = integer_limits(width_bytes, signed)

    def parse(dense: pa.Array) -> pa.Array:
        numbers = _decimals(dense, scale) if scale else _integers(dense, signed)
        return _check(numbers, low, high, scale, signed)

    def with_place(dense: pa.Array) -> pa.Array:
        try:
            return parse(dense)
        except (pa.ArrowException, DecodeError):
            row = find_failing_row(parse, dense)
        raise _number_error(dense, row, (low, high), scale)

    plain = None if scale else parse_plain_integers(values, (low, high), signed)
    return convert_valid_rows(with_place, values) if plain is None else plain


def parse_plain_integers(
    values: pa.StringArray, bounds: tuple[int, int], signed: bool = True
) -> pa.Array | None:
    """Parse a column of integers of 1 to 18 plain digits in one loop, or return None if a value has another form.

    Also returns None if a number is outside ``bounds`` (lowest and highest), or if the column is a
    slice or has only nulls.
    """
    if values.offset or values.null_count == len(values):
        return None
    offsets, data = text_view(values)
    bits = values.buffers()[0] if values.null_count else None
    numbers = np.empty(len(values), np.int64)
    low, high = bounds
    valid = octets(bits or b"")
    row = kernels.read_integers(data, offsets, valid, low, min(high, MOST), numbers)
    kind = pa.int64() if signed else pa.uint64()
    return (
        None
        if row >= 0
        else pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(numbers)])
    )


def _no_number(values: pa.Array, row: int) -> DecodeError:
    """Build the error for a row that is not a number.

    Its ``alike`` lists all rows that are not numbers.
    """
    error = row_error("not a number", values, row)
    numbers = np.asarray(pc.match_substring_regex(trim_strings(values), NUMBER).fill_null(True))
    error.alike = np.flatnonzero(~numbers).tolist()
    return error


def _number_error(values: pa.Array, row: int, bounds: tuple[int, int], scale: int) -> DecodeError:
    if not pc.match_substring_regex(trim_strings(values.slice(row, 1)), NUMBER)[0].as_py():
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
    integer_type = pa.int64() if signed else pa.uint64()
    offsets, data = byte_view(values)
    # Arrow's cast accepts 0x10 as 16, which is not a number here, and not all blanks around a number.
    if not _NUMBER_BYTES[data[offsets[0] : offsets[-1]]].all():
        values = trim_strings(values)
        offsets, data = byte_view(values)
        if not _NUMBER_BYTES[data[offsets[0] : offsets[-1]]].all():
            raise DecodeError("not a number")
    try:
        return pc.cast(values, integer_type)
    except pa.ArrowInvalid:
        pass
    return pc.cast(_exact(_plain(values), pa.decimal128(38, 0)), integer_type)


def _decimals(values: pa.Array, scale: int) -> pa.Array:
    decimal_type = pa.decimal128(38, scale)
    try:
        return _exact(values, decimal_type)
    except pa.ArrowInvalid:
        return _exact(_plain(values), decimal_type)


def _exact(values: pa.Array, decimal_type: pa.DataType) -> pa.Array:
    """Cast a column of number text to decimals. Raises ArrowInvalid or DecodeError if digits would be lost."""
    decimals = pc.cast(values, decimal_type)
    offsets, data = byte_view(values)
    has_power = ((data[offsets[0] : offsets[-1]] | 0x20) == ord("e")).any()
    if has_power or most_bytes(values) > decimal_type.precision - decimal_type.scale:
        _check_cast(values, decimals, has_power=has_power)
    if not has_power:
        return decimals
    # pyarrow casts a value to zero if its exponent and the scale are more than 38 digits apart.
    zero = pc.equal(decimals, pa.scalar(0).cast(decimal_type))
    if pc.any(pc.match_substring_regex(values.filter(zero), "^[^eE]*[1-9]")).as_py():
        raise DecodeError("digits would be lost")
    return decimals


def _check_cast(values: pa.Array, decimals: pa.Array, *, has_power: bool) -> None:
    """Raise DecodeError if a cast changed a number or returned more digits than the type allows.

    pyarrow 26 keeps only the low 128 bits of very long numbers, so 2^128 + 1 becomes 1. It also
    accepts 10^38 (39 digits, but 127 bits) as a decimal of 38 digits.
    """
    left = decimals.type.precision - decimals.type.scale  # digits before the point
    chosen = pc.greater(pc.binary_length(values), left)
    if has_power:
        chosen = pc.or_(chosen, pc.match_substring_regex(values, "[eE]"))
    pairs = zip(values.filter(chosen).to_pylist(), decimals.filter(chosen).to_pylist(), strict=True)
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
    """Return number text without surrounding blanks and without insignificant zeros: " 01.50" becomes "1.5"."""
    values = pc.replace_substring_regex(trim_strings(values), _LEADING_ZEROS, r"\1\2")
    values = pc.replace_substring_regex(values, _ZERO, "0")
    return pc.replace_substring_regex(values, _TRAILING_ZEROS, r"\1")


def _check(numbers: pa.Array, low: int, high: int, scale: int, signed: bool) -> pa.Array:
    if scale:
        words = words_from_decimal(numbers, signed)
        # The high word of each decimal128 must only extend the sign of its low word.
        pairs = np.frombuffer(numbers.buffers()[1], np.int64)[2 * numbers.offset :]
        above = pairs[: 2 * len(numbers)][1::2]
        expected = words >> 63 if signed else np.zeros(len(words), np.int64)
        bad = len(words) and not (above == expected).all()
        if not bad:
            numbers = _as_decimal(words, scale, signed)
    else:
        words, bad = numbers.to_numpy(zero_copy_only=False), False
    if bad or (len(words) and (int(words.min()) < low or int(words.max()) > high)):
        raise DecodeError("number out of range")
    return numbers


def check_number_text(values: pa.StringArray) -> pa.StringArray:
    """Check that all values of a string column are numbers, and return them trimmed.

    Raises DecodeError with the row in ``where.record``.
    """

    def check(dense: pa.Array) -> pa.Array:
        dense = trim_strings(dense)
        if not _surely_numbers(dense) and not _match(dense):
            raise DecodeError("not a number")
        return dense

    def with_place(dense: pa.Array) -> pa.Array:
        try:
            return check(dense)
        except DecodeError:
            row = find_failing_row(check, dense)
        raise _no_number(dense, row)

    return convert_valid_rows(with_place, values)


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
    """Return the low 64-bit words of decimal128 values (their unscaled values) without a copy.

    The words of null rows are arbitrary. The values must fit in 64 bits, which parse_integers
    guarantees.
    """
    words = np.frombuffer(values.buffers()[1] or b"", np.int64)
    # A decimal128 is two words, the low one first: take every second one, from the slice's first
    # row on.
    words = words[2 * values.offset :][: 2 * len(values) : 2]
    return words if signed else words.view(np.uint64)


def _as_decimal(
    words: npt.NDArray[np.int64] | npt.NDArray[np.uint64],
    scale: int,
    signed: bool,
    nulls: npt.NDArray[np.bool_] | None = None,
) -> pa.Array:
    # A decimal128 is a little-endian number of 16 bytes: the value's word, and a word of its sign,
    # 0 or -1. Example: -2 is FE FF FF FF FF FF FF FF, and eight more FF.
    pairs = np.empty((len(words), 2), np.int64)
    pairs[:, 0] = words.view(np.int64)
    pairs[:, 1] = words >> 63 if signed else 0
    valid = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    kind = pa.decimal128(19 if signed else 20, scale)
    return pa.Array.from_buffers(kind, len(words), [valid, pa.py_buffer(pairs)])


def format_integers(values: pa.Array) -> pa.StringArray:
    """Format int64, uint64 or decimal128 values as plain text with all digits of the scale, such as -0.05."""
    scale = values.type.scale if pa.types.is_decimal(values.type) else 0
    if scale <= _PLAIN_SCALE:
        return pc.cast(values, pa.string())
    # -5 with scale 7: pad the digits to "00000005", then put the point before the last seven.
    text = pc.cast(_unscale(values), pa.string())
    minus = pc.if_else(pc.starts_with(text, "-"), "-", "")
    digits = pc.utf8_lpad(pc.utf8_ltrim(text, "-"), scale + 1, "0")
    integer_part = pc.utf8_slice_codeunits(digits, 0, -scale)
    point = pc.binary_join_element_wise(integer_part, pc.utf8_slice_codeunits(digits, -scale), ".")
    return pc.binary_join_element_wise(minus, point, "")


def _unscale(values: pa.Array) -> pa.Array:
    kind = pa.decimal128(values.type.precision, 0)
    return pa.Array.from_buffers(
        kind, len(values), values.buffers(), values.null_count, values.offset
    )


def parse_decimals(values: pa.StringArray, data_type: pa.DataType) -> pa.Array:
    """Parse number text as decimals of a type. Raises DecodeError, with its row, if the type cannot hold a value."""

    def convert(dense: pa.Array) -> pa.Array:
        try:
            return _exact(dense, data_type)
        except (pa.ArrowException, DecodeError):
            pass  # the cast may have refused only zeros that carry no value
        try:
            return _exact(_plain(dense), data_type)
        except (pa.ArrowException, DecodeError):
            row = find_failing_row(lambda part: _exact(_plain(part), data_type), dense)
        left = data_type.precision - data_type.scale
        problem = f"a number with more than {left} digits, or {data_type.scale} after the point"
        raise row_error(problem, dense, row)

    return convert_valid_rows(convert, values)


def append_ten_digits(strings: pa.StringArray, numbers: Longs) -> pa.StringArray:
    """Append a point and a number of ten digits to each string of a column, for example ``a.0000000042``.

    So sequence ids number the operations of a transaction. There must be no nulls.
    """
    offsets, data = text_view(strings)
    placed = np.empty(len(strings) + 1, np.int32)
    out = np.empty(
        int(offsets[-1]) - int(offsets[0]) + len(strings) * (kernels.DIGITS + 1) + SPARE, np.uint8
    )
    size = kernels.append_numbers(
        data, offsets, np.ascontiguousarray(numbers, np.int64), placed, out
    )
    if size < 0:
        raise measure_error(size, len(data))
    return build_binary_column(placed, out, NO_NULLS, text=True)
