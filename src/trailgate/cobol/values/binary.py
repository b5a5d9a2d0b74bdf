"""Decode and encode binary numbers of 1 to 16 bytes, and floating point in IBM's and IEEE's formats.

Up to eight bytes are loaded as one 64-bit word per row, longer ones as two. An IBM single has a
24-bit fraction and a larger range than an IEEE single, so it becomes a float64, exactly. An IBM
double has a 56-bit fraction, a float64 only 53 bits: if the last bits are not zero, the value is
rounded to the nearest float64.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from decimal import Decimal
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.cobol.copybook.layouts import CopybookField, Endian, FloatFormat, Usage
from trailgate.cobol.values.codec import (
    DecodedColumn,
    Decoder,
    Encoder,
    IntegerRepresentation,
    ValueOptions,
    encode_error,
    refuse_nulls,
)
from trailgate.cobol.values.decimals import (
    DECIMAL_DIGITS,
    NumberForm,
    build_decimal_column,
    number_form,
    number_of,
    unscale_decimals,
)
from trailgate.cobol.values.kernels import scale_pairs, scale_words
from trailgate.columnar.numbers import integer_limits, parse_decimals
from trailgate.errors import DecodeError, EncodeError, OptionError

_LOG: Final = logging.getLogger(__name__)
ABOVE_PICTURE: Final = "%s: %d has more than the %d digits of its picture, and is written as TRUNC(BIN) stores it; signs=strict refuses such numbers"
WORD: Final = 8
# Bytes of a decimal128: two words of 64 bits.
_PAIR: Final = 16
_MOST: Final = 10**DECIMAL_DIGITS - 1
# Every number of 18 digits fits a signed word of 64 bits: 10**18 < 2**63 < 10**19.
_INT64_DIGITS: Final = 18
_UNITS: Final = pa.decimal128(DECIMAL_DIGITS, 0)
_BIAS: Final = 64  # of the power of sixteen


def _little(field: CopybookField, options: ValueOptions) -> bool:
    """Return True if the binary number is little-endian."""
    if field.usage is Usage.LITTLE:
        return True
    native = field.usage in (Usage.NATIVE, Usage.NATIVE_SHORT)
    order = options.dialect.native if native else options.dialect.binary
    return order is Endian.LITTLE


def is_limited(field: CopybookField, options: ValueOptions) -> bool:
    """Return True if values are limited by the digits of the picture, not only by the size of the field."""
    return options.strict and field.usage in (Usage.BINARY, Usage.LITTLE)


def _bounds(field: CopybookField, options: ValueOptions) -> tuple[int, int]:
    """Return the smallest and largest accepted number. Both fit into a decimal128 column."""
    number = number_of(field)
    low, high = integer_limits(field.size, number.signed)
    # Example: if the picture counts, S9(4) COMP takes -9999 to 9999, although two bytes reach 32767.
    most = 10**number.digits - 1 if is_limited(field, options) else _MOST
    return max(low, -most), min(high, most)


def binary_form(field: CopybookField, options: ValueOptions) -> NumberForm:
    """Choose the Arrow type of the values of a COBOL binary field, with enough digits for its bytes or for its picture.

    Integers with up to 18 digits in the picture become int64, unless the options ask for decimals or
    the field is an unsigned COMP-5, COMP-N or COMP-X of eight bytes, whose values can exceed int64.
    All other numbers become decimals.
    """
    number = number_of(field)
    _, high = integer_limits(field.size, number.signed)
    if field.size > WORD:
        high = min(high, 10 ** (DECIMAL_DIGITS - max(-number.scale, 0)) - 1)
    digits = number.digits if is_limited(field, options) else max(len(str(high)), number.digits)
    unsigned_word = (
        field.usage not in (Usage.BINARY, Usage.LITTLE) and not number.signed and field.size == WORD
    )
    integral = number.scale == 0 and options.integers is not IntegerRepresentation.DECIMAL
    if integral and not unsigned_word and number.digits <= _INT64_DIGITS:
        digits = min(digits, _INT64_DIGITS)
    return number_form(field, options, digits)


def decode_binary(field: CopybookField, options: ValueOptions) -> Decoder:
    """Return the decoder of COMP, COMP-4, COMP-5, COMP-9, COMP-N and COMP-X."""
    number, form = number_of(field), binary_form(field, options)
    little = _little(field, options)
    low, high = _bounds(field, options)
    # Two words per number; the column's precision can be lower than the bytes allow.
    if field.size > WORD:
        most = 10 ** (form.type.precision - form.zeros) - 1
        bounds = max(low, -most), min(high, most)
        return _pairs_decoder(form, bounds, little=little, signed=number.signed)
    high = min(high, 10**_INT64_DIGITS - 1) if _exceeds_int64(field, form) else high
    unlimited = (low, high) == integer_limits(field.size, number.signed)

    def decode(matrix: Octets) -> DecodedColumn:
        words = load_words(matrix, little=little, signed=number.signed)
        bad: Mask | None = None
        if not unlimited:
            outside = (words < low) | (words > high)
            bad = outside if outside.any() else None
        return DecodedColumn(_column(form, words, bad), bad)

    return decode


def _pairs_decoder(
    form: NumberForm, bounds: tuple[int, int], *, little: bool, signed: bool
) -> Decoder:
    """Return the decoder of numbers of more than eight bytes. Numbers outside ``bounds`` are bad."""
    low, high = bounds

    def decode(matrix: Octets) -> DecodedColumn:
        pairs = _load_pairs(matrix, little=little, signed=signed)
        wrong = _above(pairs, high, signed=signed)
        if signed:
            wrong |= ~_above(pairs, low - 1, signed=True)
        bad = wrong if wrong.any() else None
        if form.zeros:
            pairs[wrong] = 0
            scale_pairs(pairs.reshape(-1), form.zeros)
        return DecodedColumn(build_decimal_column(form, pairs.reshape(-1), len(pairs), bad), bad)

    return decode


def _load_pairs(matrix: Octets, *, little: bool, signed: bool) -> npt.NDArray[np.uint64]:
    """Load binary numbers of 9 to 16 bytes as 128-bit integers, each a low and a high word."""
    rows, size = matrix.shape
    # Sign-extend each row to 16 bytes: with size 9, the bytes 9 to 15 repeat the sign bit of byte
    # 8.
    low_first = matrix if little else matrix[:, ::-1]
    words = np.zeros((rows, _PAIR), np.uint8)
    words[:, :size] = low_first
    if signed:
        words[:, size:] = np.where(low_first[:, -1:] & 0x80, 0xFF, 0)
    return words.view("<u8").astype(np.uint64, copy=False)


def _above(pairs: npt.NDArray[np.uint64], bound: int, *, signed: bool) -> Mask:
    """Return a mask of the 128-bit numbers above ``bound``.

    The high words are compared first. If they are equal, the low words are compared.
    """
    # Example: the bound 2**64 + 5 has the high word 1 and the low word 5.
    high = pairs[:, 1].view(np.int64) if signed else pairs[:, 1]
    top = high.dtype.type(bound >> 64)
    above: Mask = (high > top) | ((high == top) & (pairs[:, 0] > np.uint64(bound & (2**64 - 1))))
    return above


def _exceeds_int64(field: CopybookField, form: NumberForm) -> bool:
    """Return True if the field is an unsigned 8-byte word in an int64 column."""
    unsigned_word = not number_of(field).signed and field.size == WORD
    return unsigned_word and pa.types.is_int64(form.type)


def load_words(matrix: Octets, *, little: bool, signed: bool) -> Longs:
    """Load the bytes of binary numbers as 64-bit integers: int64 if signed, otherwise uint64."""
    rows, size = matrix.shape
    order, kind = "<" if little else ">", "i" if signed else "u"
    if size in (1, 2, 4, 8) and (size == 1 or matrix.strides[1] == 1):
        return matrix.view(f"{order}{kind}{size}")[:, 0].astype(f"{kind}8")
    # Put the bytes at the top of the word; shifting right then extends the sign. Example: the 3 bytes
    # FF FF FE become FF FF FE 00 00 00 00 00, shifted by 40 bits: -2.
    padded = np.zeros((rows, WORD), np.uint8)
    first = WORD - size if little else 0
    padded[:, first : first + size] = matrix
    words: Longs = padded.view(f"{order}{kind}8")[:, 0].astype(f"{kind}8")
    return words >> words.dtype.type(8 * (WORD - size))


def _column(form: NumberForm, words: Longs, bad: Mask | None) -> pa.Array:
    """Build a column of binary numbers from 64-bit words: int64 if signed, otherwise uint64."""
    rows, signed = len(words), words.dtype == np.int64
    if pa.types.is_int64(form.type) and not form.zeros:
        return build_decimal_column(form, words, rows, bad)
    # One word per row for int64, two for decimal128.
    numbers = np.empty(rows if pa.types.is_int64(form.type) else 2 * rows, np.uint64)
    scale_words(words.view(np.uint64), signed, form.zeros, numbers)
    return build_decimal_column(form, numbers, rows, bad)


def encode_binary(field: CopybookField, options: ValueOptions) -> Encoder:
    """Return the encoder of COMP, COMP-4, COMP-5, COMP-9, COMP-N and COMP-X."""
    number, little = number_of(field), _little(field, options)
    low, high = _bounds(field, options)
    warn = _picture_warning(field, options)

    def encode(values: pa.Array) -> Octets:
        refuse_nulls(values)
        units_of = f" in units of 10^{-number.scale}" if number.scale else ""
        problem = f"a number outside {low} to {high}{units_of}"
        try:
            units = parse_decimals(unscale_decimals(values, number.scale), _UNITS)
        except DecodeError as error:  # more digits than a decimal has
            row = error.where.record or 0
            raise encode_error(problem, row, values[row].as_py()) from None
        outside = pc.or_(pc.less(units, _decimal(low)), pc.greater(units, _decimal(high)))
        wrong = outside.to_numpy(zero_copy_only=False)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise encode_error(problem, row, values[row].as_py())
        warn(units)
        # The 16-byte decimals as little-endian bytes; the field takes the lowest ``size`` of them.
        words = np.frombuffer(units.buffers()[1] or b"", np.int64)[2 * units.offset :]
        low_first = words[: 2 * len(units)].astype("<i8").view(np.uint8).reshape(-1, _PAIR)
        # size - 1 :: -1 selects the lowest bytes in reverse order: of 01 02 00 .. and size 2, 02 01.
        return low_first[:, : field.size] if little else low_first[:, field.size - 1 :: -1]

    return encode


def _picture_warning(field: CopybookField, options: ValueOptions) -> Callable[[pa.Array], None]:
    """Return a function that logs one warning if a written number has more digits than the picture.

    It never warns for COMP-5, COMP-N and COMP-X, which have no such limit, or with strict signs, since
    such numbers are errors then.
    """
    most = 10 ** number_of(field).digits - 1
    is_silent = field.usage not in (Usage.BINARY, Usage.LITTLE) or is_limited(field, options)
    warned = False

    def warn(units: pa.Array) -> None:
        nonlocal warned
        if is_silent or warned:
            return
        beyond = pc.greater(pc.abs(units), _decimal(most))
        if pc.any(beyond).as_py():
            warned = True
            number = units[pc.index(beyond, True).as_py()].as_py()
            _LOG.warning(ABOVE_PICTURE, field.name, number, number_of(field).digits)

    return warn


def _decimal(bound: int) -> pa.Scalar:
    return pa.scalar(Decimal(bound), _UNITS)


Doubles = npt.NDArray[np.float64]


def _ibm(options: ValueOptions) -> bool:
    """Return True if floats are IBM hexadecimal. Raises OptionError if they would be little-endian."""
    ibm = options.dialect.floats is FloatFormat.IBM
    if ibm and options.dialect.native is Endian.LITTLE:
        problem = "native=little applies to floating point too, but IBM's is always big-endian"
        raise OptionError(problem, hint="Is it floats=ieee?")
    return ibm


def _order(options: ValueOptions) -> str:
    """Return numpy's byte-order prefix for IEEE floats, which have the machine's native byte order."""
    return "<" if options.dialect.native is Endian.LITTLE else ">"


def decode_float(field: CopybookField, options: ValueOptions) -> Decoder:
    """Return the decoder of COMP-1 and COMP-2. Every bit pattern is a number."""
    size, ibm = field.size, _ibm(options)
    ieee = f"{_order(options)}f{size}"

    def decode(matrix: Octets) -> DecodedColumn:
        rows = np.ascontiguousarray(matrix)
        if not ibm:
            # ``view`` reads the bytes in the dialect's order; ``astype`` converts to the machine's
            # order.
            return DecodedColumn(pa.array(rows.view(ieee)[:, 0].astype(f"f{size}")))
        return DecodedColumn(
            pa.array(_from_ibm(rows.view(f">u{size}")[:, 0].astype(f"u{size}"), size))
        )

    return decode


def _from_ibm(words: npt.NDArray[np.uint32 | np.uint64], size: int) -> Doubles:
    """Convert IBM hexadecimal floats, in integer words, to float64."""
    # Sign (1 bit), power of 16 plus 64 (7 bits), fraction. Example: 42 64 00 00 has the power 2 and
    # the fraction 0.390625, so it is 0.390625 * 16**2 = 100.
    bits = 8 * size - 8  # of the fraction
    kind = words.dtype.type
    fraction = (words & kind((1 << bits) - 1)).astype(np.float64)
    power = ((words >> kind(bits)) & kind(0x7F)).astype(np.int64)
    numbers: Doubles = np.ldexp(fraction, (4 * (power - _BIAS) - bits).astype(np.int32))
    return np.where(words >> kind(8 * size - 1) != 0, -numbers, numbers)


def encode_float(field: CopybookField, options: ValueOptions) -> Encoder:
    """Return the encoder of COMP-1 and COMP-2. It raises EncodeError if a number would be rounded."""
    size, ibm = field.size, _ibm(options)
    ieee = f"{_order(options)}f{size}"

    def encode(values: pa.Array) -> Octets:
        refuse_nulls(values)
        if not pa.types.is_floating(values.type):
            raise EncodeError(f"{values.type} values in a floating-point field")
        numbers = pc.cast(values, pa.float64()).to_numpy()
        return _to_ibm(numbers, size) if ibm else _to_ieee(numbers, ieee)

    return encode


def _to_ieee(numbers: Doubles, ieee: str) -> Octets:
    """Convert float64 to IEEE floats as bytes. Raises EncodeError if a number would change."""
    with np.errstate(over="ignore"):
        # Too large a number becomes infinity, which differs from it and is refused below.
        rounded = numbers.astype(ieee)
    _refuse((rounded != numbers) & ~np.isnan(numbers), numbers)
    return rounded.view(np.uint8).reshape(len(numbers), rounded.itemsize)


def _to_ibm(numbers: Doubles, size: int) -> Octets:
    """Convert float64 to IBM hexadecimal floats. Raises EncodeError if a number would change."""
    finite = np.isfinite(numbers)
    _refuse(~finite, numbers)
    bits = 8 * size - 8
    mantissa, exponent = np.frexp(np.abs(numbers))  # 0.5 <= mantissa < 1
    # Round the power of 2 up to a power of 16: 100 is 0.78125 * 2**7, so the power is 2 (16**2 =
    # 2**8), and the fraction is 0.78125 * 2**-1 = 0.390625.
    power = -(-exponent.astype(np.int64) // 4)
    units = np.ldexp(mantissa, (exponent - 4 * power + bits).astype(np.int32))
    # Zero has no normalized form: it gets the lowest exponent, so that all bits are zero.
    zero = numbers == 0
    power = np.where(zero, -_BIAS, power)
    _refuse((units != np.floor(units)) | (power < -_BIAS) | (power >= _BIAS), numbers)
    words = units.astype(np.uint64) | (power + _BIAS).astype(np.uint64) << np.uint64(bits)
    words |= np.signbit(numbers).astype(np.uint64) << np.uint64(8 * size - 1)
    return words.astype(f">u{size}").view(np.uint8).reshape(len(numbers), size)


def _refuse(wrong: npt.NDArray[np.bool_], numbers: Doubles) -> None:
    """Raise EncodeError for the first number in the mask ``wrong``, which no float equals."""
    if wrong.any():
        row = int(np.argmax(wrong))
        problem = "a number that the field's floating-point format cannot represent exactly"
        raise encode_error(problem, row, float(numbers[row]))
