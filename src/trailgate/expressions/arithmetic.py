"""Exact arithmetic in expressions: sums, differences, products, and remainders of integers.

A number has at most 17 digits, as the manual states for @COMPUTE. The manual does not state how
many digits a quotient has, so division is not supported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.columnar.numbers import check_number_text, format_integers, parse_decimals
from trailgate.errors import DecodeError, OptionError
from trailgate.expressions.values import ExpressionValueType, Value, missing_of

# As the manual states for @COMPUTE. The 34 digits of a product of two such numbers fit decimal128.
DIGITS: Final = 17
_WHOLE: Final = pa.decimal128(2 * DIGITS, 0)
_FACTOR: Final = 37  # digits of a factor, so that a product has at most 75 and fits decimal256
_LEFT_OUT: Final = r"[-.]|^-?0*\.?0*"  # the characters of a number that are not significant digits


def compute(sign: str, left: Value, right: Value, rows: int) -> Value:
    """Compute a sum, difference, product or remainder for each row, NULL if an operand is NULL.

    Raises OptionError if an operand is not a number, or if a number has too many digits.
    """
    left_numbers, right_numbers = _decimals(left, rows), _decimals(right, rows)
    result = _OPERATIONS[sign](left_numbers, right_numbers)
    text = format_integers(result.cast(pa.decimal128(38, result.type.scale)))
    if result.type.scale:
        text = pc.replace_substring_regex(text, r"\.?0+$", "")
    _check_digits(text, "a result")
    return Value(text, ExpressionValueType.NUMBER, missing_of((left, right)))


def _decimals(value: Value, rows: int) -> pa.Array:
    """Convert an operand to decimals, one per row, with the scale of its longest fraction.

    Raises OptionError if it is not a number, or has too many digits.
    """
    if value.kind not in (ExpressionValueType.NUMBER, ExpressionValueType.LITERAL):
        name = value.kind.value if value.column is None else f"the column {value.column.name}"
        raise OptionError(f"{name} is not a number")
    text = value.text()
    if isinstance(text, pa.Scalar):
        text = pa.repeat(text, rows) if rows else pa.array([], pa.string())
    try:
        text = check_number_text(text)
        _check_digits(text, "a number")
        # The scale is the number of characters after the point, or 0 without one.
        points = pc.find_substring(text, ".")
        fraction_lengths = pc.if_else(
            pc.less(points, 0), 0, pc.subtract(pc.utf8_length(text), pc.add(points, 1))
        )
        scale = pc.max(fraction_lengths).as_py() or 0
        return parse_decimals(text, pa.decimal128(2 * DIGITS, scale))
    except DecodeError as error:
        raise OptionError(f"{error.problem}: {error.where.text or ''}".rstrip(": ")) from None


def _check_digits(text: pa.Array, what: str) -> None:
    """Raise OptionError if a number in an expression has too many digits.

    ``what`` names it in the error: "a number" or "a result".
    """
    digits = pc.utf8_length(pc.replace_substring_regex(text, _LEFT_OUT, ""))
    longest = pc.max(digits).as_py() or 0
    if longest > DIGITS:
        row = int(np.argmax(digits.fill_null(0).to_numpy(zero_copy_only=False)))
        raise OptionError(f"{what} has more than {DIGITS} digits: {text[row].as_py()}")


def _product(one: pa.Array, other: pa.Array) -> pa.Array:
    wide = (part.cast(pa.decimal256(_FACTOR, part.type.scale)) for part in (one, other))
    return pc.multiply(*wide)


def _remainder(one: pa.Array, other: pa.Array) -> pa.Array:
    """Return the remainders of integer divisions, with the sign of the first operand."""
    try:
        integers = [part.cast(_WHOLE).cast(pa.int64()) for part in (one, other)]
    except pa.ArrowInvalid:
        raise OptionError("a remainder needs two integers") from None
    if pc.any(pc.equal(integers[1], 0), min_count=0).as_py():
        raise OptionError("remainder of a division by 0")
    # NULL operands are replaced by 1, and masked in the result.
    nulls = np.asarray(pc.or_(*(pc.is_null(part) for part in integers)))
    values = (part.fill_null(1).to_numpy() for part in integers)
    return pa.array(np.fmod(*values), mask=nulls).cast(pa.decimal128(19, 0))


# By operator. Division is refused, since the digits of a quotient are not documented.
_OPERATIONS: Final[Mapping[str, Callable[[pa.Array, pa.Array], Any]]] = MappingProxyType(
    {"+": pc.add, "-": pc.subtract, "*": _product, "\\": _remainder}
)
