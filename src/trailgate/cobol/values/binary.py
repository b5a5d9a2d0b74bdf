"""Binary numbers of 1 to 16 bytes in either byte order, and floating point in IBM's hexadecimal form and IEEE's.

IBM's single has 24 bits of fraction and a range beyond that of IEEE's, so it becomes a float64, exactly. Of a
double's 56 bits a float64 holds 53: those whose last bits are not zero become the nearest one.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.cobol.copybook.layouts import Endian, Field, FloatFormat, Usage
from trailgate.cobol.values.codec import (
    Decoded,
    Decoder,
    Encoder,
    Explain,
    Integers,
    Reason,
    ValueOptions,
    encode_error,
    no_nulls,
)
from trailgate.cobol.values.digits import (
    DECIMAL_DIGITS,
    NumberForm,
    column_of,
    number_form,
    number_of,
    unscaled_to,
)
from trailgate.cobol.values.kernels import scale_pairs, scaled_words
from trailgate.columnar.numbers import exact_decimals, limits
from trailgate.errors import DecodeError, EncodeError, OptionError

_WORD: Final = 8
_PAIR: Final = 16
_MOST: Final = 10**DECIMAL_DIGITS - 1
_INT64_DIGITS: Final = 18
_UNITS: Final = pa.decimal128(DECIMAL_DIGITS, 0)


def _little(field: Field, options: ValueOptions) -> bool:
    if field.usage is Usage.LITTLE:
        return True
    native = field.usage in (Usage.NATIVE, Usage.NATIVE_SHORT)
    order = options.dialect.native if native else options.dialect.binary
    return order is Endian.LITTLE


def _is_limited(field: Field, options: ValueOptions) -> bool:
    return options.strict and field.usage in (Usage.BINARY, Usage.LITTLE)


def _bounds(field: Field, options: ValueOptions) -> tuple[int, int]:
    """Return the least and greatest number that is taken: in bytes of two words no more than a decimal column holds."""
    number = number_of(field)
    low, high = limits(field.size, number.signed)
    most = 10**number.digits - 1 if _is_limited(field, options) else _MOST
    return max(low, -most), min(high, most)


def binary_form(field: Field, options: ValueOptions) -> NumberForm:
    """Return the form of a binary number: digits enough for its bytes, or as its picture states.

    Whole numbers of up to 18 digits in the picture are int64 even so, unless decimals are asked for: 64 bits hold
    the others too, but for eight bytes of COMP-5 or COMP-X without a sign. Of larger numbers a column has as many digits as it can.
    """
    number = number_of(field)
    _, high = limits(field.size, number.signed)
    if field.size > _WORD:
        high = min(high, 10 ** (DECIMAL_DIGITS - max(-number.scale, 0)) - 1)
    digits = number.digits if _is_limited(field, options) else max(len(str(high)), number.digits)
    unsigned_word = (
        field.usage not in (Usage.BINARY, Usage.LITTLE)
        and not number.signed
        and field.size == _WORD
    )
    whole = number.scale == 0 and options.integers is not Integers.DECIMAL
    if whole and not unsigned_word and number.digits <= _INT64_DIGITS:
        digits = min(digits, _INT64_DIGITS)
    return number_form(field, options, digits)


def decode_binary(field: Field, options: ValueOptions) -> Decoder:
    """Return the decoder of COMP, COMP-4, COMP-5, COMP-9, COMP-N and COMP-X."""
    number, form = number_of(field), binary_form(field, options)
    little = _little(field, options)
    low, high = _bounds(field, options)
    if field.size > _WORD:
        most = 10 ** (form.type.precision - form.zeros) - 1
        bounds = max(low, -most), min(high, most)
        return _pairs_decoder(form, bounds, little=little, signed=number.signed)
    high = min(high, 10**_INT64_DIGITS - 1) if _exceeds_int64(field, form) else high
    whole = (low, high) == limits(field.size, number.signed)

    def decode(matrix: Octets) -> Decoded:
        words = load_words(matrix, little=little, signed=number.signed)
        bad: Mask | None = None
        if not whole:
            found = (words < low) | (words > high)
            bad = found if found.any() else None
        return Decoded(_column(form, words, bad), bad)

    return decode


def _pairs_decoder(
    form: NumberForm, bounds: tuple[int, int], *, little: bool, signed: bool
) -> Decoder:
    """Return the decoder of numbers of more than eight bytes, within these bounds."""
    low, high = bounds

    def decode(matrix: Octets) -> Decoded:
        pairs = _load_pairs(matrix, little=little, signed=signed)
        wrong = _above(pairs, high, signed=signed)
        if signed:
            wrong |= ~_above(pairs, low - 1, signed=True)
        bad = wrong if wrong.any() else None
        if form.zeros:
            pairs[wrong] = 0
            scale_pairs(pairs.reshape(-1), form.zeros)
        return Decoded(column_of(form, pairs.reshape(-1), len(pairs), bad), bad)

    return decode


def _load_pairs(matrix: Octets, *, little: bool, signed: bool) -> npt.NDArray[np.uint64]:
    """Return the rows as 128-bit integers, each a low and a high word."""
    rows, size = matrix.shape
    low_first = matrix if little else matrix[:, ::-1]
    whole = np.zeros((rows, _PAIR), np.uint8)
    whole[:, :size] = low_first
    if signed:
        whole[:, size:] = np.where(low_first[:, -1:] & 0x80, 0xFF, 0)
    return whole.view("<u8").astype(np.uint64, copy=False)


def _above(pairs: npt.NDArray[np.uint64], bound: int, *, signed: bool) -> Mask:
    """Return the rows above a bound."""
    high = pairs[:, 1].view(np.int64) if signed else pairs[:, 1]
    top = high.dtype.type(bound >> 64)
    found: Mask = (high > top) | ((high == top) & (pairs[:, 0] > np.uint64(bound & (2**64 - 1))))
    return found


def _exceeds_int64(field: Field, form: NumberForm) -> bool:
    """Return whether a word without a sign could be beyond int64."""
    unsigned_word = not number_of(field).signed and field.size == _WORD
    return unsigned_word and pa.types.is_int64(form.type)


def load_words(matrix: Octets, *, little: bool, signed: bool) -> Longs:
    """Return the rows as 64-bit integers (unsigned ones as uint64)."""
    rows, size = matrix.shape
    order, kind = "<" if little else ">", "i" if signed else "u"
    if size in (1, 2, 4, 8) and (size == 1 or matrix.strides[1] == 1):
        return matrix.view(f"{order}{kind}{size}")[:, 0].astype(f"{kind}8")
    # At the top of a word, so that shifting it down carries the sign.
    padded = np.zeros((rows, _WORD), np.uint8)
    first = _WORD - size if little else 0
    padded[:, first : first + size] = matrix
    words: Longs = padded.view(f"{order}{kind}8")[:, 0].astype(f"{kind}8")
    return words >> words.dtype.type(8 * (_WORD - size))


def _column(form: NumberForm, words: Longs, bad: Mask | None) -> pa.Array:
    """Return the column of words whose type states whether they have a sign."""
    rows, signed = len(words), words.dtype == np.int64
    if pa.types.is_int64(form.type) and not form.zeros:
        return column_of(form, words, rows, bad)
    numbers = np.empty(rows if pa.types.is_int64(form.type) else 2 * rows, np.uint64)
    scaled_words(words.view(np.uint64), signed, form.zeros, numbers)
    return column_of(form, numbers, rows, bad)


def encode_binary(field: Field, options: ValueOptions) -> Encoder:
    """Return the encoder of COMP, COMP-4, COMP-5 and COMP-X."""
    number, little = number_of(field), _little(field, options)
    low, high = _bounds(field, options)

    def encode(values: pa.Array) -> Octets:
        no_nulls(values)
        units_of = f" in units of 10^{-number.scale}" if number.scale else ""
        problem = f"a number outside {low} to {high}{units_of}"
        try:
            units = exact_decimals(unscaled_to(values, number.scale), _UNITS)
        except DecodeError as error:  # more digits than a decimal has
            row = error.where.record or 0
            raise encode_error(problem, row, values[row].as_py()) from None
        outside = pc.or_(pc.less(units, _decimal(low)), pc.greater(units, _decimal(high)))
        wrong = outside.to_numpy(zero_copy_only=False)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise encode_error(problem, row, values[row].as_py())
        words = np.frombuffer(units.buffers()[1] or b"", np.int64)[2 * units.offset :]
        low_first = words[: 2 * len(units)].astype("<i8").view(np.uint8).reshape(-1, _PAIR)
        return low_first[:, : field.size] if little else low_first[:, field.size - 1 :: -1]

    return encode


def _decimal(bound: int) -> pa.Scalar:
    return pa.scalar(Decimal(bound), _UNITS)


def explain_binary(field: Field, options: ValueOptions) -> Explain:
    """Return what explains why bytes are not a number of the picture."""
    if field.size > _WORD and not _is_limited(field, options):
        problem = (
            f"a binary number of more than {binary_form(field, options).type.precision} digits"
        )
        return lambda _: Reason(problem, "A decimal column holds no more")
    problem = f"a binary number of more than {number_of(field).digits} digits"
    reason = Reason(problem, "COMP-5, or lenient signs, take all that the bytes hold")
    return lambda _: reason


Doubles = npt.NDArray[np.float64]
_BIAS: Final = 64  # of the power of sixteen


def _ibm(options: ValueOptions) -> bool:
    """Return whether numbers are hexadecimal; raises OptionError for little-endian ones, which no machine has."""
    ibm = options.dialect.floats is FloatFormat.IBM
    if ibm and options.dialect.native is Endian.LITTLE:
        problem = "native=little concerns floating point too, and IBM's is big-endian"
        raise OptionError(problem, hint="Is it floats=ieee?")
    return ibm


def _order(options: ValueOptions) -> str:
    """Return the prefix of IEEE numbers' byte order: that of the machine's other native numbers."""
    return "<" if options.dialect.native is Endian.LITTLE else ">"


def decode_float(field: Field, options: ValueOptions) -> Decoder:
    """Return the decoder of COMP-1 and COMP-2; every bit pattern is a number."""
    size, ibm = field.size, _ibm(options)
    ieee = f"{_order(options)}f{size}"

    def decode(matrix: Octets) -> Decoded:
        rows = np.ascontiguousarray(matrix)
        if not ibm:
            return Decoded(pa.array(rows.view(ieee)[:, 0].astype(f"f{size}")))
        return Decoded(pa.array(_from_ibm(rows.view(f">u{size}")[:, 0].astype(f"u{size}"), size)))

    return decode


def _from_ibm(words: npt.NDArray[np.uint32 | np.uint64], size: int) -> Doubles:
    bits = 8 * size - 8  # of the fraction
    kind = words.dtype.type
    fraction = (words & kind((1 << bits) - 1)).astype(np.float64)
    power = ((words >> kind(bits)) & kind(0x7F)).astype(np.int64)
    found: Doubles = np.ldexp(fraction, (4 * (power - _BIAS) - bits).astype(np.int32))
    return np.where(words >> kind(8 * size - 1) != 0, -found, found)


def encode_float(field: Field, options: ValueOptions) -> Encoder:
    """Return the encoder of COMP-1 and COMP-2; raises EncodeError where a number would be rounded."""
    size, ibm = field.size, _ibm(options)
    ieee = f"{_order(options)}f{size}"

    def encode(values: pa.Array) -> Octets:
        no_nulls(values)
        if not pa.types.is_floating(values.type):
            raise EncodeError(f"{values.type} values in a field of floating point")
        numbers = pc.cast(values, pa.float64()).to_numpy()
        return _to_ibm(numbers, size) if ibm else _to_ieee(numbers, ieee)

    return encode


def _to_ieee(numbers: Doubles, ieee: str) -> Octets:
    with np.errstate(over="ignore"):
        made = numbers.astype(ieee)
    _refuse((made != numbers) & ~np.isnan(numbers), numbers)
    return made.view(np.uint8).reshape(len(numbers), made.itemsize)


def _to_ibm(numbers: Doubles, size: int) -> Octets:
    finite = np.isfinite(numbers)
    _refuse(~finite, numbers)
    bits = 8 * size - 8
    mantissa, exponent = np.frexp(np.abs(numbers))  # 0.5 <= mantissa < 1
    power = -(-exponent.astype(np.int64) // 4)
    units = np.ldexp(mantissa, (exponent - 4 * power + bits).astype(np.int32))
    zero = numbers == 0
    power = np.where(zero, -_BIAS, power)
    _refuse((units != np.floor(units)) | (power < -_BIAS) | (power >= _BIAS), numbers)
    words = units.astype(np.uint64) | (power + _BIAS).astype(np.uint64) << np.uint64(bits)
    words |= np.signbit(numbers).astype(np.uint64) << np.uint64(8 * size - 1)
    return words.astype(f">u{size}").view(np.uint8).reshape(len(numbers), size)


def _refuse(wrong: npt.NDArray[np.bool_], numbers: Doubles) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        problem = "a number that the field's floating point does not hold exactly"
        raise encode_error(problem, row, float(numbers[row]))
