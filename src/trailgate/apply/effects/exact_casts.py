"""Cast a column to another Arrow type without changing any value.

A value that would change raises DecodeError.

Types are divided into a few groups, and ``CASTS`` has a function for each pair of groups that can
be cast. If Arrow refuses every value that would change, the function only calls Arrow. Otherwise it
casts back and compares, or casts through text. Arrow does not report, for example, that a timestamp
loses its time as a date32, that 2 becomes true, or that 16777217.25 becomes 16777216 as a float32.

Text is compared by its meaning: '00012', '12' and '1.2E1' are all the number 12. A number equals a
float if its digits are the shortest digits that identify the float: 0.1 fits a double, and
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

from trailgate.apply.effects.operation_errors import TOO_LARGE
from trailgate.arrays import Mask
from trailgate.columnar.numbers import NUMBER, parse_decimals
from trailgate.columnar.rows import find_failing_row, mask_equal_values, row_error
from trailgate.columnar.strings import trim_strings
from trailgate.errors import DecodeError, DefinitionError, Where

Cast = Callable[[pa.Array, pa.DataType], pa.Array]
ZONED: Final = r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)? ?([Zz]|[+-]\d\d:?\d\d)$"
# Zeros that end a fraction of a second, perhaps before an offset: 12:00:00.120000000+02:00 is 12:00:00.12+02:00.
ZEROS: Final = r"(:\d\d)(?:(\.\d*[1-9])0+|\.0+)([Zz]|[+-].*)?$"
MIDNIGHT: Final = r"^(\d{4}-\d\d-\d\d)[ T]00:00:00$"
# Numbers as databases print them: no plus sign, no redundant zeros or point, and no exponent.
PLAIN_NUMBER: Final = r"^(0|-?[1-9][0-9]*|-?(0|[1-9][0-9]*)\.[0-9]*[1-9])$"
# The spellings of special numbers, in lower case, and the one that a cast to a float gets.
FLOATS: Final = MappingProxyType(
    {
        **dict.fromkeys(("nan", "-nan", "+nan"), "NaN"),
        **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), "Infinity"),
        **dict.fromkeys(("-inf", "-infinity"), "-Infinity"),
    }
)
NO_CAST: Final = (
    "ALTER the target's column to a type for {}, or map the trail's column differently with COLMAP in a parameter file (--params), "
    "where @NUMSTR, @STRNUM, @DATE and other functions convert values"
)
MOST_ZEROS: Final = 200_000  # larger exponents are not written out: no database has such numbers


class CastGroup(Enum):
    """A group of Arrow types whose values are cast in the same way, such as the integer types."""

    TEXT = "text"
    NUMBER = "a number"
    FLOAT = "a float"
    BOOLEAN = "a boolean"
    TIME = "a date or a time"
    ZONED = "a time with a zone"
    BYTES = "bytes"
    OTHER = "something else"


def cast_group_of(arrow_type: pa.DataType) -> CastGroup:
    """Return the ``CastGroup`` of an Arrow type."""
    tests = {
        CastGroup.TEXT: (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
        CastGroup.NUMBER: (pa.types.is_integer, pa.types.is_decimal),
        CastGroup.FLOAT: (pa.types.is_floating,),
        CastGroup.BOOLEAN: (pa.types.is_boolean,),
        CastGroup.BYTES: (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
            pa.types.is_binary_view,
        ),
        CastGroup.TIME: (pa.types.is_date, pa.types.is_timestamp),
    }
    group = next((one for one, is_one in tests.items() if any(t(arrow_type) for t in is_one)), None)
    if group is CastGroup.TIME and pa.types.is_timestamp(arrow_type) and arrow_type.tz is not None:
        return CastGroup.ZONED
    return group or CastGroup.OTHER


def cast_exactly(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Cast a column to another Arrow type without changing any value.

    Raises DecodeError for a value that does not fit, and DefinitionError if no value of this type
    can fit.
    """
    if values.type == arrow_type:
        return values
    groups = cast_group_of(values.type), cast_group_of(arrow_type)
    cast = CASTS.get(groups)
    if cast is None and groups[1] is CastGroup.ZONED:
        raise DefinitionError(
            f"the target's column has type {arrow_type}, but times in a trail have no zone",
            hint="Change its type to one without a zone",
        )
    if cast is None:
        raise _no_cast(values.type, arrow_type)
    try:
        return cast(values, arrow_type)
    except pa.ArrowNotImplementedError:
        raise _no_cast(values.type, arrow_type) from None
    except pa.ArrowInvalid:
        # Arrow does not state which row it refused.
        row = find_failing_row(lambda part: cast(part, arrow_type), values)
        raise lost_value_error(values, row, arrow_type) from None


def _no_cast(source_type: pa.DataType, arrow_type: pa.DataType) -> DefinitionError:
    """Build the error for a column whose type cannot represent the trail's values at all."""
    problem = f"the target's column has type {arrow_type}, but the trail's values are {source_type}"
    return DefinitionError(problem, hint=NO_CAST.format(cast_group_of(source_type).value))


def lost_value_error(values: pa.Array, row: int, arrow_type: pa.DataType | str) -> DecodeError:
    """Build the error for a value that the target column's type cannot represent unchanged. ``row`` is its index."""
    numbers = TOO_LARGE if _is_too_large(values[row], arrow_type) else ()
    problem = f"the target's column has type {arrow_type}, which cannot hold this value"
    if pa.types.is_string(values.type):
        return row_error(problem, values, row).with_numbers(numbers)
    error = DecodeError(f"{problem}: {values[row]}", where=Where(record=row))
    return error.with_numbers(numbers)


def check_values_fit(values: pa.Array, good: Mask, arrow_type: pa.DataType | str) -> None:
    """Raise DecodeError for the first value that the target column's type would change. ``good`` is a mask of the others."""
    if not good.all():
        raise lost_value_error(values, int(np.argmin(good)), arrow_type)


def spell_numbers_plainly(values: pa.StringArray) -> pa.StringArray:
    """Convert numbers in text to the canonical spelling in which casts compare them. Other text stays unchanged.

    '00012', ' 12', '+12' and '1.20E1' become '12', '.50' becomes '0.5', '-0' becomes '0', and 'inf'
    becomes 'Infinity'.
    """
    plain = np.asarray(pc.fill_null(pc.match_substring_regex(values, PLAIN_NUMBER), True))
    rows = np.flatnonzero(~plain)
    if not len(rows):
        return values
    # Numbers repeat in real columns: each distinct spelling is converted once.
    coded = values.take(pa.array(rows)).dictionary_encode()
    spelled = pa.array([_plain(one) for one in coded.dictionary.to_pylist()], values.type)
    respelled = spelled.take(coded.indices)
    # Rows that are not plain yet take their value from ``respelled``, after all of ``values``.
    sources = np.where(plain, np.arange(len(values)), 0)
    sources[rows] = len(values) + np.arange(len(rows))
    mask = np.asarray(values.is_null())
    return pa.concat_arrays([values, respelled]).take(pa.array(sources, mask=mask))


def _plain(text: str) -> str:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    if not number.is_finite():
        return FLOATS.get(text.lower(), text)
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    plain = "".join(map(str, digits)).lstrip("0")
    if not plain:
        return "0"
    if abs(exponent) > MOST_ZEROS:
        return text
    if exponent >= 0:
        integer, fraction = plain + "0" * exponent, ""
    else:
        plain = plain.rjust(1 - exponent, "0")
        integer, fraction = plain[:exponent], plain[exponent:].rstrip("0")
    return f"{'-' if sign else ''}{integer}{'.' if fraction else ''}{fraction}"


def cast_to_number_text(values: pa.Array, arrow_type: pa.DataType | str) -> pa.StringArray:
    """Cast a source column of integers, floats or text exactly to decimal text for a number column of the target: " +12" becomes "12".

    Raises DecodeError for text that is not a number.
    """
    text = pc.cast(values, pa.string())
    if cast_group_of(values.type) is not CastGroup.TEXT:
        return spell_numbers_plainly(text)
    text = trim_strings(text)
    # Not left to Decimal, which also reads 1_000 and the digits of all scripts.
    is_number = pc.match_substring_regex(text, NUMBER)
    if not pc.all(is_number).as_py():
        is_float = pc.is_in(pc.utf8_lower(text), pa.array(list(FLOATS)))
        is_valid = pc.or_(is_number, pc.and_(is_float, text.is_valid()))
        check_values_fit(values, np.asarray(pc.fill_null(is_valid, True)), arrow_type)
    return spell_numbers_plainly(text)


def _cast_and_compare(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Cast a column to the type, and raise DecodeError for the first value that changes when it is cast back."""
    result = pc.cast(values, arrow_type)
    check_values_fit(values, mask_equal_values(values, pc.cast(result, values.type)), arrow_type)
    return result


def _number_through_text(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    text = cast_to_number_text(values, arrow_type)
    try:
        if pa.types.is_decimal(arrow_type):
            return parse_decimals(text, arrow_type)
        return pc.cast(text, arrow_type)
    except DecodeError as error:
        row = error.where.record or 0
    except pa.ArrowInvalid:
        row = find_failing_row(lambda part: pc.cast(part, arrow_type), text)
    raise lost_value_error(values, row, arrow_type)


def _float_by_digits(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    text = cast_to_number_text(values, arrow_type)
    result = pc.cast(text, arrow_type)
    back = spell_numbers_plainly(pc.cast(result, pa.string()))
    check_values_fit(values, mask_equal_values(text, back), arrow_type)
    return result


def _boolean_of_text(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    return pc.cast(values, arrow_type)  # true, false, 1 or 0: Arrow refuses other text


def _number(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    # Arrow checks these casts itself. But from an integer it casts only to a decimal that holds
    # every integer of that type (19 digits for int64), even if these values are smaller.
    if pa.types.is_decimal(arrow_type) and pa.types.is_integer(values.type):
        return _number_through_text(values, arrow_type)
    return pc.cast(values, arrow_type)


def _float_of_number(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    cast = pc.cast if pa.types.is_integer(values.type) else _float_by_digits
    return cast(values, arrow_type)  # Arrow refuses an integer with more bits than a float has


def _boolean_of_number(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    return pc.cast(cast_to_number_text(values, arrow_type), arrow_type)  # 0 or 1


def _time_of_text(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Cast times in text to dates or timestamps. Digits beyond the unit, or the time of a date, may only be zeros."""
    try:
        return pc.cast(values, arrow_type)
    except pa.ArrowInvalid:
        # Dropping zeros takes several times as long as the cast, so it is done only if Arrow refuses a value.
        plain = pc.replace_substring_regex(values, ZEROS, r"\1\2\3")
        if pa.types.is_date(arrow_type):
            plain = pc.replace_substring_regex(plain, MIDNIGHT, r"\1")
        return pc.cast(plain, arrow_type)


def _instant_of_text(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Cast timestamps in text that include their UTC offset.

    A time without an offset is not an instant, and raises DecodeError.
    """
    zoned = np.asarray(pc.fill_null(pc.match_substring_regex(values, ZONED), True))
    if not zoned.all():
        error = lost_value_error(values, int(np.argmin(zoned)), arrow_type)
        error.hint = "A time with a zone needs its offset from UTC, as in 2026-02-05 12:00:00 +02:00. Use a text column if it has none"
        raise error
    plain = pc.replace_substring_regex(values, r" ?([Zz]|[+-]\d\d:?\d\d)$", r"\1")
    return _time_of_text(plain, arrow_type)


CASTS: Final[Mapping[tuple[CastGroup, CastGroup], Cast]] = MappingProxyType(
    {
        (CastGroup.TEXT, CastGroup.TEXT): pc.cast,
        (CastGroup.TEXT, CastGroup.NUMBER): _number_through_text,
        (CastGroup.TEXT, CastGroup.FLOAT): _float_by_digits,
        (CastGroup.TEXT, CastGroup.BOOLEAN): _boolean_of_text,
        (CastGroup.TEXT, CastGroup.TIME): _time_of_text,
        (CastGroup.TEXT, CastGroup.ZONED): _instant_of_text,
        (CastGroup.TEXT, CastGroup.BYTES): _cast_and_compare,
        (CastGroup.TEXT, CastGroup.OTHER): _cast_and_compare,
        (CastGroup.NUMBER, CastGroup.TEXT): pc.cast,
        (CastGroup.NUMBER, CastGroup.NUMBER): _number,
        (CastGroup.NUMBER, CastGroup.FLOAT): _float_of_number,
        (CastGroup.NUMBER, CastGroup.BOOLEAN): _boolean_of_number,
        (CastGroup.FLOAT, CastGroup.TEXT): pc.cast,
        (CastGroup.FLOAT, CastGroup.NUMBER): _number_through_text,
        (CastGroup.FLOAT, CastGroup.FLOAT): _cast_and_compare,
        (CastGroup.FLOAT, CastGroup.BOOLEAN): _boolean_of_number,
        (CastGroup.TIME, CastGroup.TEXT): pc.cast,
        (CastGroup.TIME, CastGroup.TIME): _cast_and_compare,
        (CastGroup.BYTES, CastGroup.BYTES): _cast_and_compare,
        (CastGroup.BYTES, CastGroup.TEXT): pc.cast,
    }
)


def _is_too_large(value: pa.Scalar, arrow_type: pa.DataType | str) -> bool:
    """Return whether a number is out of the range of a decimal or integer type (ORA-01438).

    Digits after the decimal point do not count: 1.234 is not too large for decimal(3,2). False for
    other types, and if the value is not a number.
    """
    try:
        number = Decimal(str(value.as_py()))
    except InvalidOperation:
        return False
    if isinstance(arrow_type, str) or not number.is_finite():
        return False
    if pa.types.is_decimal(arrow_type):
        # ``adjusted`` is the exponent of the first digit: 2 for 123.45, which has three digits
        # before the point. decimal(5,2) has room for three, so 2 >= 5 - 2 is False.
        return bool(number) and number.adjusted() >= arrow_type.precision - arrow_type.scale
    if not pa.types.is_integer(arrow_type):
        return False
    bits = arrow_type.bit_width - pa.types.is_signed_integer(arrow_type)
    # For int8 ``bits`` is 7: the range is -128 to 127.
    least = -(1 << bits) if pa.types.is_signed_integer(arrow_type) else 0
    return not least <= number < 1 << bits
