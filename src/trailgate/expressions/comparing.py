"""Compare two values in expressions: numbers exactly, text as text, dates as dates.

``_PAIRS`` contains for each pair of types a function that converts both values to one Arrow type. A
literal is first converted to the type of the other value: in ``PRICE > '9.5'`` it becomes a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Context, Decimal
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.columnar.numbers import NUMBER, parse_decimals
from trailgate.errors import DecodeError, OptionError
from trailgate.expressions.values import ExpressionValueType, Value
from trailgate.model.values import parser_for

WIDE: Final = pa.decimal256(76, 38)  # can represent both numbers of any comparison
MOST_DIGITS: Final = 38  # on each side of the point
EXACT: Final = Context(prec=80)
WHOLE_TIME: Final = "1970-01-01 00:00:00.000000000"

# By operator: Arrow's function. Its result is null if a side is null.
SIGNS: Final[Mapping[str, Callable[[Any, Any], Any]]] = MappingProxyType(
    {
        "=": pc.equal,
        "<>": pc.not_equal,
        "<": pc.less,
        "<=": pc.less_equal,
        ">": pc.greater,
        ">=": pc.greater_equal,
    }
)
Data: TypeAlias = Any  # a column or a constant of Arrow
Pair = tuple[Data, Data]


def compare_values(sign: str, left: Value, right: Value) -> Data:
    """Compare the values of two expressions by a sign such as ``<=``, for each row.

    The result is NULL if either is NULL. Raises OptionError if their types cannot be compared.
    """
    if left.kind is ExpressionValueType.LITERAL:
        left = _read(left, right)
    if right.kind is ExpressionValueType.LITERAL:
        right = _read(right, left)
    prepare = _PAIRS.get(frozenset((left.kind, right.kind)))
    if prepare is None:
        left_name, right_name = (_name(value) for value in (left, right))
        hint = "To compare a number with text, write it in single quotes"
        is_number = {left.kind, right.kind} == {
            ExpressionValueType.NUMBER,
            ExpressionValueType.TEXT,
        }
        raise OptionError(
            f"{left_name} and {right_name} cannot be compared", hint=hint if is_number else ""
        )
    return SIGNS[sign](*prepare(left, right))


def _name(value: Value) -> str:
    kind = value.kind.value
    return kind if value.column is None else f"the column {value.column.name} ({kind})"


def _read(literal: Value, other: Value) -> Value:
    """Convert a literal to the type of the value that it is compared with."""
    text = literal.data.as_py()
    return _LITERALS.get(other.kind, _as_text)(text, other)


def _as_text(text: str, _: Value) -> Value:
    return Value(pa.scalar(text, pa.string()), ExpressionValueType.TEXT)


def _as_number(text: str, other: Value) -> Value:
    if not re.search(NUMBER, text.strip()):
        raise OptionError(f"{text!r} is not a number, but {_name(other)} is compared with it")
    return Value(pa.scalar(text.strip(), pa.string()), ExpressionValueType.NUMBER)


def _as_datetime(text: str, other: Value) -> Value:
    if other.column is None:
        return Value(pa.scalar(text, pa.string()), ExpressionValueType.DATETIME)
    try:
        read = parser_for(other.column)(pa.array([text], pa.string()))
    except DecodeError as error:
        problem = f"{text!r} is not a value of the column {other.column.name}: {error.problem}"
        raise OptionError(problem) from None
    return Value(read[0], ExpressionValueType.DATETIME, column=other.column)


def _as_bytes(text: str, other: Value) -> Value:
    if not re.fullmatch(r"(?:[0-9A-Fa-f]{2})*", text):
        raise OptionError(f"{text!r} is not hexadecimal, but {_name(other)} is compared with it")
    return Value(pa.scalar(text.upper(), pa.string()), ExpressionValueType.BYTES)


# By the type of the other side: how a literal is read to compare it with that.
_LITERALS: Final[Mapping[ExpressionValueType, Callable[[str, Value], Value]]] = MappingProxyType(
    {
        ExpressionValueType.NUMBER: _as_number,
        ExpressionValueType.FLOAT: _as_number,
        ExpressionValueType.DATETIME: _as_datetime,
        ExpressionValueType.BYTES: _as_bytes,
    }
)


def _strings(left: Value, right: Value) -> Pair:
    """Prepare two texts for comparison. If one is a fixed-length column, remove trailing blanks."""
    # CHAR columns are padded, so 'AB' equals 'AB   '.
    fixed = any(v.column is not None and v.column.type_row.fixed for v in (left, right))
    if not fixed:
        return left.data, right.data
    return pc.utf8_rtrim(left.data, " "), pc.utf8_rtrim(right.data, " ")


def _plain(left: Value, right: Value) -> Pair:
    return left.data, right.data


def _datetimes(left: Value, right: Value) -> Pair:
    """Prepare two dates or times for comparison: as ISO text of equal length.

    The shorter value is extended, for example a date by the time 00:00:00.
    """
    widths = _width(left), _width(right)
    return _pad(left, widths[0], max(widths)), _pad(right, widths[1], max(widths))


def _width(value: Value) -> int:
    """Return the length of a date's or time's text, equal in all rows, or 0 if all are NULL."""
    sample = value.data if isinstance(value.data, pa.Scalar) else _first(value.data)
    return len(sample.as_py() or "")


def _pad(value: Value, width: int, size: int) -> Data:
    if width in (0, size):
        return value.data
    tail = pa.scalar(WHOLE_TIME[width:size], pa.string())
    return pc.binary_join_element_wise(value.data, tail, "")


def _first(values: pa.Array) -> pa.Scalar:
    present = values.drop_null() if values.null_count else values
    return present[0] if len(present) else pa.scalar(None, pa.string())


def _numbers(left: Value, right: Value) -> Pair:
    """Prepare two numbers for comparison: convert them to a type that represents both exactly.

    This is the column's type if one value is a constant that fits it, or the type that both have;
    otherwise a decimal with 38 digits on each side of the point.
    """
    # A constant that fits the column's type is converted, which avoids converting the column.
    for constant, other, swapped in ((right, left, False), (left, right, True)):
        if isinstance(constant.data, pa.Scalar) and not pa.types.is_string(other.data.type):
            fitted = _fit(constant, other.data.type)
            if fitted is not None:
                return (fitted, other.data) if swapped else (other.data, fitted)
    if left.data.type == right.data.type and not pa.types.is_string(left.data.type):
        return left.data, right.data
    return _wide(left), _wide(right)


def _decimal(value: Value) -> Decimal | None:
    """Convert a compared constant to a Decimal, or None for NULL.

    Raises OptionError if it has more than 38 digits on a side of the point.
    """
    plain = value.data.as_py()
    if plain is None:
        return None
    number = Decimal(plain)
    if not number:
        return Decimal(0)
    # Too many digits on either side of the point for WIDE.
    exponent = number.as_tuple().exponent
    if number.adjusted() >= MOST_DIGITS or not isinstance(exponent, int) or exponent < -MOST_DIGITS:
        raise OptionError(f"{plain} has more than {MOST_DIGITS} digits on a side of its point")
    return number


def _fit(constant: Value, data_type: pa.DataType) -> pa.Scalar | None:
    """Convert a compared constant to a column's type, or return None if digits would be lost."""
    number = _decimal(constant)
    if number is None:
        return pa.scalar(None, data_type)
    if not (pa.types.is_decimal(data_type) or pa.types.is_integer(data_type)):
        return None
    scale = data_type.scale if pa.types.is_decimal(data_type) else 0
    scaled = EXACT.scaleb(number, scale)
    if scaled != scaled.to_integral_value():
        return None
    try:
        return pa.scalar(number if pa.types.is_decimal(data_type) else int(number), data_type)
    except (pa.ArrowException, OverflowError):
        return None


def _wide(value: Value) -> Data:
    """Convert compared numbers to decimals with 38 digits on each side of the point.

    Raises DecodeError (for a constant, OptionError) if a number has more.
    """
    if isinstance(value.data, pa.Scalar):
        return pa.scalar(_decimal(value), WIDE)
    if pa.types.is_string(value.data.type):
        return parse_decimals(value.data, WIDE)
    return pc.cast(value.data, WIDE)


def _floats(left: Value, right: Value) -> Pair:
    return _float(left), _float(right)


def _float(value: Value) -> Data:
    return pc.cast(value.data, pa.float64(), safe=False)


# By the types of both sides: how both become values that Arrow compares.
_PAIRS: Final[Mapping[frozenset[ExpressionValueType], Callable[[Value, Value], Pair]]] = (
    MappingProxyType(
        {
            frozenset((ExpressionValueType.TEXT,)): _strings,
            frozenset((ExpressionValueType.NUMBER,)): _numbers,
            frozenset((ExpressionValueType.FLOAT,)): _floats,
            frozenset((ExpressionValueType.NUMBER, ExpressionValueType.FLOAT)): _floats,
            frozenset((ExpressionValueType.DATETIME,)): _datetimes,
            frozenset((ExpressionValueType.BYTES,)): _plain,
        }
    )
)


def text_for_comparison(value: Value) -> Data:
    """Convert the values of a column to texts that are equal if the values compare as equal. @RANGE hashes them."""
    if value.kind is ExpressionValueType.NUMBER and pa.types.is_string(value.data.type):
        value = replace(value, data=_wide(value))
        return pc.cast(value.data, pa.string())
    if value.column is not None and value.column.type_row.fixed:
        return pc.utf8_rtrim(value.data, " ")
    return value.text()
