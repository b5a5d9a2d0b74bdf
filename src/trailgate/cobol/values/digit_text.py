"""Columns of numbers to rows of decimal digits, exactly: the first half of writing a number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask, Octets
from trailgate.cobol.copybook.layouts import Number
from trailgate.cobol.values.codec import encode_error, no_nulls
from trailgate.cobol.values.number_form import NumberForm
from trailgate.cobol.values.options import Blank
from trailgate.columnar.rows import byte_view
from trailgate.errors import EncodeError


@dataclass(frozen=True, slots=True)
class Written:
    """Digits from 0 to 9, a row a number; NULL and what is written as blanks have zeros."""

    digits: Octets
    negative: Mask
    blank: Mask


def digits_of(values: pa.Array, number: Number, form: NumberForm) -> Written:
    """Return the digits that a picture holds; raises EncodeError for a value that does not fit."""
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    if form.blank_is is not Blank.NULL:
        no_nulls(values)
    text, scale = _unscaled(values)
    negative = pc.starts_with(text, "-").to_numpy(zero_copy_only=False)
    if not number.signed and negative.any():
        raise _misfit(values, negative, "a negative number in an unsigned field")
    digits = _rescaled(values, pc.utf8_ltrim(text, "-"), number.scale - scale)
    digits = pc.utf8_ltrim(digits, "0")
    long = pc.greater(pc.utf8_length(digits), number.digits).to_numpy(zero_copy_only=False)
    if long.any():
        raise _misfit(values, long, f"a number of more than {number.digits} digits")
    _, data = byte_view(pc.utf8_lpad(digits, number.digits, "0"))
    matrix = data[: len(values) * number.digits].reshape(len(values), number.digits)
    if form.blank_is is None:  # BLANK WHEN ZERO
        nulls = (matrix == ord("0")).all(axis=1)
    return Written(matrix - np.uint8(ord("0")), negative, nulls)


def _unscaled(values: pa.Array) -> tuple[pa.Array, int]:
    """Return the units of numbers as text, 0 for NULL, and how many digits are behind the point."""
    if pa.types.is_integer(values.type):
        return pc.cast(values.fill_null(0), pa.string()), 0
    if not pa.types.is_decimal(values.type):
        raise EncodeError(f"{values.type} values in a field of decimal digits")
    whole = pa.decimal128(38, 0)
    units = pa.Array.from_buffers(
        whole, len(values), values.buffers(), values.null_count, values.offset
    )
    return pc.cast(units, pa.string()).fill_null("0"), values.type.scale


def unscaled_to(values: pa.Array, scale: int) -> pa.Array:
    """Return numbers in units of 10^-scale as text with their signs; raises EncodeError."""
    text, own = _unscaled(values)
    minus = pc.if_else(pc.starts_with(text, "-"), "-", "")
    digits = _rescaled(values, pc.utf8_ltrim(text, "-"), scale - own)
    digits = pc.utf8_lpad(pc.utf8_ltrim(digits, "0"), 1, "0")
    return pc.binary_join_element_wise(minus, digits, "")


def _rescaled(values: pa.Array, digits: pa.Array, steps: int) -> pa.Array:
    """Return the digits in units 10^-steps as large; those that fall away must be zeros."""
    if steps >= 0:
        return pc.binary_join_element_wise(digits, "0" * steps, "")
    padded = pc.utf8_lpad(digits, 1 - steps, "0")
    lost = pc.not_equal(pc.utf8_slice_codeunits(padded, steps), "0" * -steps)
    wrong = lost.to_numpy(zero_copy_only=False)
    if wrong.any():
        raise _misfit(values, wrong, "a number with digits behind those of the field")
    return pc.utf8_slice_codeunits(padded, 0, steps)


def _misfit(values: pa.Array, wrong: Mask, problem: str) -> EncodeError:
    row = int(np.argmax(wrong))
    return encode_error(problem, row, values[row].as_py())
