"""Floating point: IBM's hexadecimal form and IEEE's.

IBM's single has 24 bits of fraction and a range beyond that of IEEE's, so it becomes a float64, exactly. Of a
double's 56 bits a float64 holds 53: those whose last bits are not zero become the nearest one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Octets
from trailgate.cobol.copybook.dialect import Endian, FloatFormat
from trailgate.cobol.copybook.layouts import Field
from trailgate.cobol.values.codec import (
    Decoded,
    Decoder,
    Encoder,
    Explain,
    Reason,
    encode_error,
    no_nulls,
)
from trailgate.cobol.values.options import ValueOptions
from trailgate.errors import EncodeError, OptionError

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


def explain_float(field: Field, options: ValueOptions) -> Explain:
    """Return what would explain bad bytes; no bytes are."""
    del field, options
    return lambda raw: Reason(f"{len(raw)} bytes, not a floating point number")
