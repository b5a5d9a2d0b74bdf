"""Cast a column to another Arrow type without changing any value.

A value that would change raises DecodeError.

Types belong to a few groups, and ``CASTS`` has a function for each pair of groups that can be cast.
Most of these functions cast, cast back and compare. So it does not matter which losses Arrow
reports itself: it does not report, for example, that a timestamp loses its time as a date32, that 2
becomes true, or that 16777217.25 becomes 16777216 as a float32.

Text is compared by its meaning: '00012', '12' and '1.2E1' are all the number 12. A number equals a
float if the shortest digits that identify the float are the number's digits: 0.1 fits a double, and
12345678901234567.89 does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from enum import Enum
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.faults import TOO_LARGE
from trailgate.arrays import Mask
from trailgate.columnar.numbers import NUMBER, exact_decimals
from trailgate.columnar.rows import failing_row, row_error, trim
from trailgate.errors import DecodeError, DefinitionError, Where

Cast = Callable[[pa.Array, pa.DataType], pa.Array]
ZONED: Final = r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)? ?([Zz]|[+-]\d\d:?\d\d)$"
# Numbers as databases print them: no sign but a minus, no zero or point without a meaning, no exponent.
PLAIN_NUMBER: Final = r"^(0|-?[1-9][0-9]*|-?(0|[1-9][0-9]*)\.[0-9]*[1-9])$"
FLOATS: Final = MappingProxyType(
    {
        **dict.fromkeys(("nan", "-nan", "+nan"), "NaN"),
        **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), "Infinity"),
        **dict.fromkeys(("-inf", "-infinity"), "-Infinity"),
    }
)
NO_CAST: Final = (
    "ALTER the target's column to a type for {}, or give the trail's column to another one, or none, by COLMAP in a parameter file (--params); "
    "@NUMSTR, @STRNUM, @DATE and other functions there convert values"
)
MOST_ZEROS: Final = 200_000  # an exponent beyond it stays one: no database has such numbers


class Group(Enum):
    """A group of Arrow types whose values are cast in the same way."""

    TEXT = "text"
    NUMBER = "a number"
    FLOAT = "a float"
    BOOLEAN = "a boolean"
    TIME = "a date or a time"
    ZONED = "a time with a zone"
    BYTES = "bytes"
    OTHER = "something else"


def group_of(kind: pa.DataType) -> Group:
    """Return the group of an Arrow type."""
    tests = {
        Group.TEXT: (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
        Group.NUMBER: (pa.types.is_integer, pa.types.is_decimal),
        Group.FLOAT: (pa.types.is_floating,),
        Group.BOOLEAN: (pa.types.is_boolean,),
        Group.BYTES: (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
            pa.types.is_binary_view,
        ),
        Group.TIME: (pa.types.is_date, pa.types.is_timestamp),
    }
    found = next((one for one, is_one in tests.items() if any(t(kind) for t in is_one)), None)
    if found is Group.TIME and pa.types.is_timestamp(kind) and kind.tz is not None:
        return Group.ZONED
    return found or Group.OTHER


def exact_cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast a column.

    Raises DecodeError for a value that does not fit, and DefinitionError if no value of this type
    can fit.
    """
    if values.type == kind:
        return values
    groups = group_of(values.type), group_of(kind)
    cast = CASTS.get(groups)
    if cast is None and groups[1] is Group.ZONED:
        raise DefinitionError(
            f"the target's column is of {kind}, and the times of a trail have no zone",
            hint="Make it a column of times without a zone",
        )
    if cast is None:
        raise _no_cast(values.type, kind)
    try:
        return cast(values, kind)
    except pa.ArrowNotImplementedError:
        raise _no_cast(values.type, kind) from None
    except pa.ArrowInvalid:
        row = failing_row(lambda part: cast(part, kind), values)
        raise not_held(values, row, kind) from None


def _no_cast(own: pa.DataType, kind: pa.DataType) -> DefinitionError:
    """Return the error for a column whose type cannot hold the trail's values at all."""
    problem = f"the target's column is of {kind}, and the trail's values are {own}"
    return DefinitionError(problem, hint=NO_CAST.format(group_of(own).value))


def not_held(values: pa.Array, row: int, kind: pa.DataType | str) -> DecodeError:
    """Return the error for a value that the type cannot hold unchanged."""
    numbers = TOO_LARGE if _is_too_large(values[row], kind) else ()
    problem = f"the target's column is of {kind}, which does not hold this value"
    if pa.types.is_string(values.type):
        return row_error(problem, values, row).numbered(numbers)
    found = DecodeError(f"{problem}: {values[row]}", where=Where(record=row))
    return found.numbered(numbers)


def check_rows(values: pa.Array, good: Mask, kind: pa.DataType | str) -> None:
    """Raise DecodeError for the first value whose row is false in the mask ``good``."""
    if not good.all():
        raise not_held(values, int(np.argmin(good)), kind)


def plain_numbers(values: pa.StringArray) -> pa.StringArray:
    """Return numbers in text in one plain spelling; other text stays as it is.

    '00012', ' 12', '+12' and '1.20E1' become '12', '.50' becomes '0.5', '-0' becomes '0', and 'inf'
    becomes 'Infinity'.
    """
    plain = np.asarray(pc.fill_null(pc.match_substring_regex(values, PLAIN_NUMBER), True))
    rows = np.flatnonzero(~plain)
    if not len(rows):
        return values
    coded = values.take(pa.array(rows)).dictionary_encode()
    spelled = pa.array([_plain(one) for one in coded.dictionary.to_pylist()], values.type)
    found = spelled.take(coded.indices)
    places = np.where(plain, np.arange(len(values)), 0)
    places[rows] = len(values) + np.arange(len(rows))
    mask = np.asarray(values.is_null())
    return pa.concat_arrays([values, found]).take(pa.array(places, mask=mask))


def _plain(text: str) -> str:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    if not number.is_finite():
        return FLOATS.get(text.lower(), text)
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    shown = "".join(map(str, digits)).lstrip("0")
    if not shown:
        return "0"
    if abs(exponent) > MOST_ZEROS:
        return text
    if exponent >= 0:
        whole, part = shown + "0" * exponent, ""
    else:
        shown = shown.rjust(1 - exponent, "0")
        whole, part = shown[:exponent], shown[exponent:].rstrip("0")
    return f"{'-' if sign else ''}{whole}{'.' if part else ''}{part}"


def numbers_of(values: pa.Array, kind: pa.DataType | str) -> pa.StringArray:
    """Return numbers, floats or text as plain numbers in text.

    Raises DecodeError for text that is not a number.
    """
    text = pc.cast(values, pa.string())
    if group_of(values.type) is not Group.TEXT:
        return plain_numbers(text)
    text = trim(text)
    # Decimal reads 1_000 and the digits of all scripts.
    is_number = pc.match_substring_regex(text, NUMBER)
    if not pc.all(is_number).as_py():
        is_float = pc.is_in(pc.utf8_lower(text), pa.array(list(FLOATS)))
        known = pc.or_(is_number, pc.and_(is_float, text.is_valid()))
        check_rows(values, np.asarray(pc.fill_null(known, True)), kind)
    return plain_numbers(text)


def _through(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast, cast back and compare."""
    found = pc.cast(values, kind)
    check_rows(values, same_values(values, pc.cast(found, values.type)), kind)
    return found


def same_values(one: pa.Array, other: pa.Array) -> Mask:
    """Return a mask of the rows in which two columns are equal.

    NULL equals NULL, and NaN equals NaN.
    """
    same = pc.fill_null(pc.equal(one, other), False)
    if pa.types.is_floating(one.type):
        both = pc.and_(pc.is_nan(one), pc.is_nan(other))
        same = pc.or_(same, pc.fill_null(both, False))
    found: Mask = np.asarray(same) | (np.asarray(one.is_null()) & np.asarray(other.is_null()))
    return found


def _number_through_text(values: pa.Array, kind: pa.DataType) -> pa.Array:
    text = numbers_of(values, kind)
    try:
        if pa.types.is_decimal(kind):
            return exact_decimals(text, kind)
        return pc.cast(text, kind)
    except DecodeError as error:
        row = error.where.record or 0
    except pa.ArrowInvalid:
        row = failing_row(lambda part: pc.cast(part, kind), text)
    raise not_held(values, row, kind)


def _float_by_digits(values: pa.Array, kind: pa.DataType) -> pa.Array:
    text = numbers_of(values, kind)
    found = pc.cast(text, kind)
    back = plain_numbers(pc.cast(found, pa.string()))
    check_rows(values, same_values(text, back), kind)
    return found


def _boolean_of_text(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return pc.cast(values, kind)  # true, false, 1 or 0: Arrow refuses other text


def _number(values: pa.Array, kind: pa.DataType) -> pa.Array:
    # Arrow checks these casts itself, but for one: it asks for a decimal that holds every integer.
    if pa.types.is_decimal(kind) and pa.types.is_integer(values.type):
        return _number_through_text(values, kind)
    return pc.cast(values, kind)


def _float_of_number(values: pa.Array, kind: pa.DataType) -> pa.Array:
    cast = pc.cast if pa.types.is_integer(values.type) else _float_by_digits
    return cast(values, kind)  # Arrow refuses an integer with more bits than a float has


def _boolean_of_number(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return pc.cast(numbers_of(values, kind), kind)  # 0 or 1


def _time_of_text(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return pc.cast(
        values, kind
    )  # Arrow refuses a date with a time as a date, and digits beyond the unit


def _instant_of_text(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast times that state their offset from UTC.

    A time without an offset is not an instant, and is refused.
    """
    zoned = np.asarray(pc.fill_null(pc.match_substring_regex(values, ZONED), True))
    if not zoned.all():
        error = not_held(values, int(np.argmin(zoned)), kind)
        error.hint = "A time with a zone states its distance from UTC, as in 2026-02-05 12:00:00 +02:00: make it a column of text"
        raise error
    return pc.cast(pc.replace_substring_regex(values, r" ?([Zz]|[+-]\d\d:?\d\d)$", r"\1"), kind)


CASTS: Final[Mapping[tuple[Group, Group], Cast]] = MappingProxyType(
    {
        (Group.TEXT, Group.TEXT): pc.cast,
        (Group.TEXT, Group.NUMBER): _number_through_text,
        (Group.TEXT, Group.FLOAT): _float_by_digits,
        (Group.TEXT, Group.BOOLEAN): _boolean_of_text,
        (Group.TEXT, Group.TIME): _time_of_text,
        (Group.TEXT, Group.ZONED): _instant_of_text,
        (Group.TEXT, Group.BYTES): _through,
        (Group.TEXT, Group.OTHER): _through,
        (Group.NUMBER, Group.TEXT): pc.cast,
        (Group.NUMBER, Group.NUMBER): _number,
        (Group.NUMBER, Group.FLOAT): _float_of_number,
        (Group.NUMBER, Group.BOOLEAN): _boolean_of_number,
        (Group.FLOAT, Group.TEXT): pc.cast,
        (Group.FLOAT, Group.NUMBER): _number_through_text,
        (Group.FLOAT, Group.FLOAT): _through,
        (Group.FLOAT, Group.BOOLEAN): _boolean_of_number,
        (Group.TIME, Group.TEXT): pc.cast,
        (Group.TIME, Group.TIME): _through,
        (Group.BYTES, Group.BYTES): _through,
        (Group.BYTES, Group.TEXT): pc.cast,
    }
)


def _is_too_large(value: pa.Scalar, kind: pa.DataType | str) -> bool:
    """Return whether a number has more digits before the decimal point than the type holds.

    Digits after the point do not count.
    """
    try:
        number = Decimal(str(value.as_py()))
    except InvalidOperation:
        return False
    if isinstance(kind, str) or not number.is_finite():
        return False
    if pa.types.is_decimal(kind):
        return bool(number) and number.adjusted() >= kind.precision - kind.scale
    if not pa.types.is_integer(kind):
        return False
    bits = kind.bit_width - pa.types.is_signed_integer(kind)
    least = -(1 << bits) if pa.types.is_signed_integer(kind) else 0
    return not least <= number < 1 << bits
