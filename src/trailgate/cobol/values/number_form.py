"""From digits to an Arrow column: its type, scale and sign, and what blanks are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets, Words
from trailgate.cobol.copybook.layouts import Field, Number
from trailgate.cobol.values.codec import Decoded, page_of
from trailgate.cobol.values.options import Blank, Integers, ValueOptions
from trailgate.columnar.wide_integers import Wide, negated, pairs, plus, times, widened
from trailgate.errors import DefinitionError, Where

INT64_DIGITS: Final = 18
DECIMAL_DIGITS: Final = 38
_WORD_POWER: Final = 19  # the greatest power of ten in a word without a sign


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


@dataclass(frozen=True, slots=True)
class Digits:
    """Words of digits, the most significant first; ``widths`` are the digits of those behind it."""

    words: tuple[Words, ...]
    widths: tuple[int, ...]
    negative: Mask | None
    bad: Mask | None


def finished(form: NumberForm, found: Digits, matrix: Octets) -> Decoded:
    """Return the column of decoded digits; ``matrix`` are the bytes they come from."""
    bad, nulls = found.bad, None
    if bad is not None and bad.any():
        for word in found.words:
            word[bad] = 0
        bad, nulls = without_blanks(form, matrix, bad)
    else:
        bad = None
    if form.narrow:
        return Decoded(_narrow(form, found, nulls), bad)
    return Decoded(_wide(form, found, nulls), bad)


def without_blanks(form: NumberForm, matrix: Octets, bad: Mask) -> tuple[Mask | None, Mask]:
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


def _narrow(form: NumberForm, found: Digits, nulls: Mask | None) -> pa.Array:
    value = found.words[0]
    for word, width in zip(found.words[1:], found.widths, strict=True):
        value = value * np.uint64(10**width) + word
    if form.zeros:
        value = value * np.uint64(10**form.zeros)
    signed = value.view(np.int64)
    if found.negative is not None:
        signed = apply_sign(signed, found.negative)
    return from_longs(form, signed, nulls)


def apply_sign(values: Longs, negative: Mask) -> Longs:
    """Return the values, negated in the rows of ``negative``."""
    flip = -negative.view(np.int8).astype(np.int64)  # all ones, or zero
    values = values ^ flip
    values -= flip
    return values


def _wide(form: NumberForm, found: Digits, nulls: Mask | None) -> pa.Array:
    value = widened(found.words[0])
    for word, width in zip(found.words[1:], found.widths, strict=True):
        value = plus(times(value, 10**width), word)
    for step in range(0, form.zeros, _WORD_POWER):
        value = times(value, 10 ** min(_WORD_POWER, form.zeros - step))
    if found.negative is not None:
        value = negated(value, found.negative)
    return from_wide(form, value, nulls)


def from_longs(form: NumberForm, values: Longs, nulls: Mask | None) -> pa.Array:
    """Return a column of unscaled 64-bit values."""
    if pa.types.is_int64(form.type):
        return _array(form.type, np.ascontiguousarray(values), nulls)
    found = np.empty((len(values), 2), np.int64)
    found[:, 0] = values
    np.right_shift(values, 63, out=found[:, 1])
    return _array(form.type, found, nulls)


def from_wide(form: NumberForm, values: Wide, nulls: Mask | None) -> pa.Array:
    """Return a decimal column of unscaled 128-bit values."""
    return _array(form.type, pairs(values), nulls)


def _array(kind: pa.DataType, values: npt.NDArray[np.generic], nulls: Mask | None) -> pa.Array:
    bitmap = None
    if nulls is not None and nulls.any():
        bitmap = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bitmap, pa.py_buffer(values)])


def merged(masks: Sequence[Words]) -> Mask:
    """Return in which rows one of the words is not 0."""
    found = masks[0]
    for mask in masks[1:]:
        found = found | mask
    bad: Mask = found != 0
    return bad
