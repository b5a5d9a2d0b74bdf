"""From digits to an Arrow column: its type, scale and sign, and what blanks are."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as member
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import as_strided

from trailgate.arrays import Longs, Mask, Octets, Words
from trailgate.cobol.copybook.layouts import Field, Number
from trailgate.cobol.values.codec import Decoded, page_of
from trailgate.cobol.values.kernels import WRONG, narrow_numbers, wide_numbers
from trailgate.cobol.values.options import Blank, Integers, ValueOptions
from trailgate.errors import DefinitionError, Where

INT64_DIGITS: Final = 18
DECIMAL_DIGITS: Final = 38
NOWHERE: Final = -1  # of a sign that has no byte


@dataclass(frozen=True, slots=True)
class NumberForm:
    """What a field's digits become: a type, and zeros that trailing Ps stand for."""

    type: pa.DataType
    zeros: int
    blank: bytes
    blank_is: Blank | None  # None: zero

    @property
    def narrow(self) -> bool:
        """Return whether every value fits 18 digits, so 64 bits."""
        return bool(pa.types.is_int64(self.type) or self.type.precision <= INT64_DIGITS)


def number_of(field: Field) -> Number:
    """Return a field's number; raises DefinitionError where it has none."""
    if field.number is None:
        problem = f"a {field.usage.value} field without a number's picture"
        raise DefinitionError(problem, where=Where(field=field.name))
    return field.number


def number_form(field: Field, options: ValueOptions, digits: int | None = None) -> NumberForm:
    """Return the form of a field's values, which have its picture's digits or as many as told."""
    number = number_of(field)
    zeros, scale = max(-number.scale, 0), max(number.scale, 0)
    precision = max((digits or number.digits) + zeros, scale)
    if precision > DECIMAL_DIGITS:
        problem = f"a number of {precision} digits; a decimal column holds {DECIMAL_DIGITS}"
        raise DefinitionError(problem, where=Where(field=field.name))
    small = not scale and precision <= INT64_DIGITS and options.integers is not Integers.DECIMAL
    kind = pa.int64() if small else pa.decimal128(precision, scale)
    blank_is = None if field.blank_when_zero else options.blank
    return NumberForm(kind, zeros, page_of(field, options).blank, blank_is)


@dataclass(frozen=True, slots=True, eq=False)
class DigitBytes:
    """What the bytes of a field of decimal digits hold; see ``kernels`` for the tables."""

    digits: Longs
    base: int
    signs: Longs = member(default_factory=lambda: np.full(256, WRONG))
    sign_at: int = NOWHERE
    sign_base: int = 1
    most_first: int = 0xFF


def decode_digits(
    form: NumberForm, held: DigitBytes, matrix: Octets, written: Octets | None = None
) -> Decoded:
    """Return the column of a field of decimal digits, one row of ``matrix`` a value.

    ``written`` are the field's own bytes where the matrix has been made of them.
    """
    rows, size = matrix.shape
    data, step = _flat(matrix)
    words = 1 if pa.types.is_int64(form.type) else 2
    numbers = np.empty(rows * words, np.int64 if form.narrow else np.uint64)
    bad = np.empty(rows, bool)
    fill = narrow_numbers if form.narrow else wide_numbers
    tables = (held.most_first, held.digits, held.base, held.signs, held.sign_at, held.sign_base)
    if not fill(data, step, size, *tables, form.zeros, numbers, bad):
        return Decoded(column_of(form, numbers, rows))
    still, nulls = _without_blanks(form, matrix if written is None else written, bad)
    return Decoded(column_of(form, numbers, rows, nulls), still)


def _flat(matrix: Octets) -> tuple[Octets, int]:
    """Return the bytes from the first row's first one to the last row's last one, and the rows' distance."""
    rows, size = matrix.shape
    if not rows:
        return np.zeros(0, np.uint8), size
    if matrix.strides[1] != 1 or matrix.strides[0] < 1:
        matrix = np.ascontiguousarray(matrix)
    step = matrix.strides[0]
    return as_strided(matrix, ((rows - 1) * step + size,), (1,)), step


def _without_blanks(form: NumberForm, matrix: Octets, bad: Mask) -> tuple[Mask | None, Mask]:
    """Return which bad rows stay bad, and which are null: blank rows are bad, NULL or zero."""
    rows = np.flatnonzero(bad)
    blank = np.resize(np.frombuffer(form.blank, np.uint8), matrix.shape[1])
    empty = rows[(matrix[rows] == blank).all(axis=1)]
    nulls, still = bad.copy(), bad.copy()
    if form.blank_is is not Blank.ERROR:
        still[empty] = False
    if form.blank_is is None:
        nulls[empty] = False
    return (still if still.any() else None), nulls


def column_of(
    form: NumberForm, words: Longs | Words, rows: int, nulls: Mask | None = None
) -> pa.Array:
    """Return the column whose values are in ``words``, one or two a row."""
    bitmap = None
    if nulls is not None and nulls.any():
        bitmap = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.Array.from_buffers(form.type, rows, [bitmap, pa.py_buffer(words)])
