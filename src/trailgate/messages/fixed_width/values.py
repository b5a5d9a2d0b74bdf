"""The readers of fields: bytes or characters are decoded, then converted to the column's type.

Numbers of a copybook are converted without becoming text. Text, dates, and all columns of a
definitions file are text first, and become values by ``operations.values``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.cobol.copybook.layouts import Field, Sign, Usage
from trailgate.cobol.values.codec import Decoded, Explain
from trailgate.cobol.values.codecs import decoder, explainer
from trailgate.cobol.values.options import Blank, ValueOptions
from trailgate.cobol.values.text import shown_page
from trailgate.columnar.code_pages.page_text import CodePage, strings
from trailgate.columnar.datetime_formats import DateFormat, compile_format
from trailgate.columnar.numbers import format_integers
from trailgate.columnar.rows import failing_row, row_error
from trailgate.messages.fixed_width.layouts import Slot
from trailgate.messages.fixed_width.units import UnitMatrix
from trailgate.model.tables import Column
from trailgate.model.types import Family
from trailgate.operations.values import Convert, parser_for

Decode = Callable[[UnitMatrix], Decoded]
# In such fields each byte is a printed character, except for a sign over a digit.
_PRINTED: Final = frozenset({Usage.TEXT, Usage.EDITED, Usage.ZONED})
_TEXTUAL: Final = frozenset({Usage.TEXT, Usage.NATIONAL, Usage.UTF8, Usage.DBCS})
_BINARY_NUMBERS: Final = frozenset({Usage.BINARY, Usage.NATIVE, Usage.SHORT})
# Their bytes are not characters.
BINARY: Final = frozenset(set(Usage) - _PRINTED - {Usage.GROUP})
_SURE_DIGITS: Final = 17  # so many fit 64 bits, whatever a binary field holds beyond its picture
_SUBSTITUTE: Final = 0x1A  # instead of a character beyond ASCII where bytes are wanted


class FieldReader(NamedTuple):
    """Reads one field: units to values, why units are not a value, and values to the block's column."""

    slot: Slot
    decode: Decode
    explain: Explain
    convert: Convert
    page: CodePage  # in which its bytes are shown


def field_reader(slot: Slot, options: ValueOptions) -> FieldReader:
    """Return what reads a column; raises DefinitionError or OptionError where nothing can."""
    field, column = slot.field, slot.column
    if column.family is Family.DATETIME:
        form = compile_format(field.date_format) if field.date_format else None
        return text_reader(slot, options, _or_blank(column, options, form))
    if field.usage is Usage.TEXT and column.family is not Family.TEXT:
        return text_reader(slot, options, _or_blank(column, options))
    if field.usage in _TEXTUAL:
        return text_reader(slot, options, parser_for(column))
    decode, explain = _decoded(field, options), explainer(field, options)
    return FieldReader(slot, decode, explain, _fitted(slot), shown_page(field, options))


def text_reader(slot: Slot, options: ValueOptions, convert: Convert) -> FieldReader:
    """Return what reads a field as its text, and converts that."""
    field = slot.field
    if _is_printed(field):
        field = replace(field, usage=Usage.TEXT, number=None)
    decode, explain = _decoded(field, options), explainer(field, options)
    page = shown_page(field, options)
    if field.usage in _TEXTUAL:
        return FieldReader(slot, decode, explain, convert, page)
    return FieldReader(
        slot, decode, explain, lambda values: convert(_number_text(values, field)), page
    )


def as_it_is(values: pa.Array) -> pa.Array:
    """Return the values."""
    return values


def _is_printed(field: Field) -> bool:
    sign = Sign.NONE if field.number is None else field.number.sign
    return field.usage in _PRINTED and sign in (Sign.NONE, Sign.LEADING_SEPARATE)


def _decoded(field: Field, options: ValueOptions) -> Decode:
    """Return a decoder of bytes, which takes characters as well."""
    of_bytes, text = decoder(field, options), field.usage is Usage.TEXT

    def decode(units: UnitMatrix) -> Decoded:
        if units.dtype == np.uint8:
            return of_bytes(units)
        if text:
            return Decoded(
                _characters(units, trim=pc.ascii_ltrim if field.justified else pc.ascii_rtrim)
            )
        return of_bytes(np.where(units < 0x80, units, _SUBSTITUTE).astype(np.uint8))

    return decode


def _characters(units: UnitMatrix, trim: Callable[..., pa.Array]) -> pa.Array:
    """Return rows of code points as text."""
    sizes = 1 + (units > 0x7F).astype(np.int64) + (units > 0x7FF) + (units > 0xFFFF)
    text = units.astype("<u4").tobytes().decode("utf-32-le").encode()
    return trim(strings(text, sizes.sum(axis=1)), " ")


def _or_blank(column: Column, options: ValueOptions, form: DateFormat | None = None) -> Convert:
    """Return the column's parser; with the option, blanks alone are NULL."""
    parse = parser_for(column, form)
    if options.blank is not Blank.NULL:
        return parse

    def convert(values: pa.Array) -> pa.Array:
        blank = pc.equal(pc.utf8_trim(values, " "), "")
        return parse(pc.if_else(blank, None, values))

    return convert


def _fitted(slot: Slot) -> Convert:
    """Return what converts decoded numbers, or bytes in hex, to the column's type."""
    field, column = slot.field, slot.column
    wide = field.usage in _BINARY_NUMBERS and column.external_length > _SURE_DIGITS
    if column.family is Family.INTEGER and not wide:
        return _cast_to(column.arrow_type)
    parse = parser_for(column)
    if field.usage is Usage.RAW:
        return parse
    return lambda values: parse(_as_text(values))


def _cast_to(kind: pa.DataType) -> Convert:
    def convert(values: pa.Array) -> pa.Array:
        return values if values.type == kind else pc.cast(values, kind)

    def located(values: pa.Array) -> pa.Array:
        try:
            return convert(values)
        except pa.ArrowInvalid:
            row = failing_row(convert, values)
        raise row_error(f"the number does not fit {kind}", _as_text(values), row)

    return located


def _as_text(values: pa.Array) -> pa.Array:
    return (
        format_integers(values)
        if pa.types.is_decimal(values.type)
        else pc.cast(values, pa.string())
    )


def _number_text(values: pa.Array, field: Field) -> pa.Array:
    """Return numbers as text; whole ones with all digits of their field, as DISPLAY has them."""
    text, number = _as_text(values), field.number
    if number is None or number.scale:
        return text
    filled = pc.utf8_lpad(text, number.digits, "0")
    return pc.if_else(pc.starts_with(text, "-"), text, filled)
