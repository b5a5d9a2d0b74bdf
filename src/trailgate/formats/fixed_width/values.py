"""Decode the fields of fixed-width records into column values.

The values of a field in all records are a matrix of units (`units.py`) with one row per record.
Numbers of a copybook are converted directly. Text, dates, and all columns of a definitions file
become text first, which is parsed by `model.values`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.cobol.copybook.layouts import CopybookField, SignPosition, Usage
from trailgate.cobol.values.code_pages import page_for_errors
from trailgate.cobol.values.codec import BlankPolicy, DecodedColumn, Explain, ValueOptions
from trailgate.cobol.values.codecs import decoder, explainer
from trailgate.columnar.code_pages import CodePage
from trailgate.columnar.numbers import format_integers
from trailgate.columnar.rows import find_failing_row, row_error
from trailgate.columnar.strings import strings_from_lengths
from trailgate.columnar.temporal import DateFormat, compile_format
from trailgate.formats.fixed_width.layouts import ColumnSlot
from trailgate.formats.fixed_width.units import UnitMatrix
from trailgate.model.tables import Column
from trailgate.model.types import TypeFamily
from trailgate.model.values import Convert, parser_for

# Usages in which each byte is a printed character, except for a sign overpunched on a digit.
_PRINTED: Final = frozenset({Usage.TEXT, Usage.EDITED, Usage.ZONED})
_TEXTUAL: Final = frozenset({Usage.TEXT, Usage.NATIONAL, Usage.UTF8, Usage.DBCS})
_BINARY_NUMBERS: Final = frozenset(
    {Usage.BINARY, Usage.NATIVE, Usage.SHORT, Usage.NATIVE_SHORT, Usage.LITTLE}
)
# Usages whose bytes are not characters.
BINARY: Final = frozenset(set(Usage) - _PRINTED - {Usage.GROUP})
_SURE_DIGITS: Final = 17  # with more digits, a binary field may exceed its picture and 64 bits
_SUBSTITUTE: Final = 0x1A  # replaces non-ASCII characters in fields that need bytes


Decode = Callable[[UnitMatrix], DecodedColumn]


class FieldReader(NamedTuple):
    """Reads one fixed-width field from records.

    `decode` turns units into values, `explain` returns the reason why units are not a value, and
    `convert` converts values to the type of the column.
    """

    slot: ColumnSlot
    decode: Decode
    explain: Explain
    convert: Convert
    page: CodePage  # for showing its bytes in errors


def field_reader(slot: ColumnSlot, options: ValueOptions) -> FieldReader:
    """Create the reader of a column's fixed-width field.

    Raises DefinitionError or OptionError if the field cannot be read.
    """
    field, column = slot.field, slot.column
    if column.family is TypeFamily.DATETIME:
        form = compile_format(field.date_format) if field.date_format else None
        return text_reader(slot, options, _or_blank(column, options, form))
    if field.usage is Usage.TEXT and column.family is not TypeFamily.TEXT:
        return text_reader(slot, options, _or_blank(column, options))
    if field.usage in _TEXTUAL:
        return text_reader(slot, options, parser_for(column))
    decode, explain = _decode(field, options), explainer(field, options)
    return FieldReader(slot, decode, explain, _fit(slot), page_for_errors(field, options))


def text_reader(slot: ColumnSlot, options: ValueOptions, convert: Convert) -> FieldReader:
    """Create a reader that decodes a fixed-width field as text, and converts the text."""
    field = slot.field
    if _is_printed(field):
        field = replace(field, usage=Usage.TEXT, number=None)
    decode, explain = _decode(field, options), explainer(field, options)
    page = page_for_errors(field, options)
    if field.usage in _TEXTUAL:
        return FieldReader(slot, decode, explain, convert, page)
    return FieldReader(
        slot, decode, explain, lambda values: convert(_number_text(values, field)), page
    )


def keep_text(values: pa.Array) -> pa.Array:
    """Return a fixed-width field's text unchanged: the conversion of header fields."""
    return values


def _is_printed(field: CopybookField) -> bool:
    sign = SignPosition.NONE if field.number is None else field.number.sign
    return field.usage in _PRINTED and sign in (SignPosition.NONE, SignPosition.LEADING_SEPARATE)


def _decode(field: CopybookField, options: ValueOptions) -> Decode:
    """Return a decoder of a fixed-width field, for units that are bytes or characters."""
    of_bytes, text = decoder(field, options), field.usage is Usage.TEXT

    def decode(units: UnitMatrix) -> DecodedColumn:
        if units.dtype == np.uint8:
            return of_bytes(units)
        if text:
            return DecodedColumn(
                _characters(units, trim=pc.ascii_ltrim if field.justified else pc.ascii_rtrim)
            )
        return of_bytes(np.where(units < 0x80, units, _SUBSTITUTE).astype(np.uint8))

    return decode


def _characters(units: UnitMatrix, trim: Callable[..., pa.Array]) -> pa.Array:
    """Convert rows of code points, the values of a fixed-width field, to text.

    `trim` removes blanks.
    """
    # The UTF-8 length of each code point: 1 below 0x80, 2 below 0x800, 3 below 0x10000, otherwise
    # 4.
    sizes = 1 + (units > 0x7F).astype(np.int64) + (units > 0x7FF) + (units > 0xFFFF)
    text = units.astype("<u4").tobytes().decode("utf-32-le").encode()
    return trim(strings_from_lengths(text, sizes.sum(axis=1)), " ")


def _or_blank(column: Column, options: ValueOptions, form: DateFormat | None = None) -> Convert:
    """Return the parser of a fixed-width column's text.

    With fixed.blank=null, it returns NULL for blank text. `form` is the date format, if the field
    has one.
    """
    parse = parser_for(column, form)
    if options.blank is not BlankPolicy.NULL:
        return parse

    def convert(values: pa.Array) -> pa.Array:
        blank = pc.equal(pc.utf8_trim(values, " "), "")
        return parse(pc.if_else(blank, None, values))

    return convert


def _fit(slot: ColumnSlot) -> Convert:
    """Return the conversion of fixed-width numbers, or bytes in hex, to a column's type."""
    field, column = slot.field, slot.column
    wide = field.usage in _BINARY_NUMBERS and column.external_length > _SURE_DIGITS
    if column.family is TypeFamily.INTEGER and not wide:
        return _cast_to(column.arrow_type)
    parse = parser_for(column)
    if field.usage is Usage.RAW:
        return parse
    return lambda values: parse(_as_text(values))


def _cast_to(data_type: pa.DataType) -> Convert:
    def convert(values: pa.Array) -> pa.Array:
        return values if values.type == data_type else pc.cast(values, data_type)

    def with_place(values: pa.Array) -> pa.Array:
        try:
            return convert(values)
        except pa.ArrowInvalid:
            # Arrow's error does not name the row: find it.
            row = find_failing_row(convert, values)
        raise row_error(f"the number does not fit {data_type}", _as_text(values), row)

    return with_place


def _as_text(values: pa.Array) -> pa.Array:
    return (
        format_integers(values)
        if pa.types.is_decimal(values.type)
        else pc.cast(values, pa.string())
    )


def _number_text(values: pa.Array, field: CopybookField) -> pa.Array:
    """Format the decoded numbers of a fixed-width field as text.

    Integers that are not negative get leading zeros up to the digits of their field, as COBOL's
    DISPLAY statement prints them.
    """
    text, number = _as_text(values), field.number
    if number is None or number.scale:
        return text
    filled = pc.utf8_lpad(text, number.digits, "0")
    return pc.if_else(pc.starts_with(text, "-"), text, filled)
