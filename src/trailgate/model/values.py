"""Convert text to the values of a column and back, with one table row per type family.

A row has functions that create converters. A converter is created once per column, for its length,
scale and date format, and then converts whole arrays. For a value that it cannot convert, it raises
DecodeError with the row in ``where.record``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.columnar.hex_digits import from_hex, to_hex
from trailgate.columnar.numbers import check_number_text, format_integers, parse_integers
from trailgate.columnar.rows import row_error
from trailgate.columnar.strings import most_bytes
from trailgate.columnar.temporal import (
    DEFAULT_FORMAT,
    DateFormat,
    iso_to_timestamp,
    iso_width,
    parse_datetimes,
)
from trailgate.errors import DecodeError, DefinitionError, OptionError
from trailgate.model.tables import Column
from trailgate.model.types import TypeFamily

Convert = Callable[[pa.Array], pa.Array]


class FamilyCodec(NamedTuple):
    """The functions of a type family that create its converters.

    ``parse`` creates the converter from text to the block column, and ``format`` the converter from
    the block column to text. ``typed`` returns the Arrow type of the column in the typed shape
    (``model/shapes.py``), and the converter from the block column to that type.
    """

    parse: Callable[[Column, DateFormat], Convert]
    format: Callable[[Column], Convert]
    typed: Callable[[Column], tuple[pa.DataType, Convert]]


def parser_for(column: Column, date_format: DateFormat | None = None) -> Convert:
    """Return the converter from text to the values of a block column.

    The converter raises DecodeError with the row in ``where.record``. Raises DefinitionError if the
    layout of the column's type is not documented, or if nothing defines the column.
    """
    return CODECS[column.family].parse(column, date_format or DEFAULT_FORMAT)


def unchecked_size(column: Column) -> int:
    """Return the number of characters up to which every text is a valid value of the column.

    Only longer text has to be parsed. Returns -1 if every text has to be parsed.
    """
    return column.external_length if column.family is TypeFamily.TEXT or column.zoned else -1


def formatter_for(column: Column) -> Convert:
    """Return the converter from a block column to text."""
    return CODECS[column.family].format(column)


def typed_for(column: Column) -> tuple[pa.DataType, Convert]:
    """Return the Arrow type of a column's values in the typed shape, and the converter from the block column to it."""
    return CODECS[column.family].typed(column)


def _keep(values: pa.Array) -> pa.Array:
    return values


def _as_it_is(_: Column) -> Convert:
    return _keep


def _string_typed(_: Column) -> tuple[pa.DataType, Convert]:
    return pa.string(), _keep


def _text_parser(column: Column, _: DateFormat) -> Convert:
    """Return a converter of text columns, which checks the length in characters.

    Fixed-length text may have blanks beyond its length: they are padding and are removed.
    """
    most, fixed = column.external_length, column.type_row.fixed

    def check(values: pa.Array) -> pa.Array:
        # A value never has more characters than bytes.
        if most_bytes(values) <= most:
            return values
        # For CHAR(3): "AB " stays, "AB   " is cut to "AB " (trim all blanks, then pad again), "ABCD" is refused.
        long = pc.greater(pc.utf8_length(values), most)
        if fixed and pc.any(long).as_py():
            values = pc.if_else(long, pc.utf8_rtrim(values, " "), values)
            cut = pc.utf8_length(values)
            pad = pc.utf8_rpad(values, most, " ")
            values = pc.if_else(pc.and_(long, pc.less(cut, most)), pad, values)
            long = pc.greater(pc.utf8_length(values), most)
        if pc.any(long).as_py():
            row = int(np.argmax(long.fill_null(False).to_numpy(zero_copy_only=False)))
            raise row_error(f"text longer than {most} characters", values, row)
        return values

    return check


def _integer_parser(column: Column, _: DateFormat) -> Convert:
    scale, width = column.scale, column.type_row.width or 8
    signed = column.family is TypeFamily.INTEGER

    def parse(values: pa.Array) -> pa.Array:
        return parse_integers(values, scale, width, signed)

    return parse


def _integer_typed(column: Column) -> tuple[pa.DataType, Convert]:
    """Return the type of an integer column in the typed shape (int64 or a decimal), and the converter.

    Unsigned integers of 8 bytes exceed int64 and become decimal(20, 0).
    """
    kind = column.arrow_type
    if column.scale:
        return kind, _keep
    if column.family is TypeFamily.UNSIGNED and (column.type_row.width or 8) == 8:
        wide = pa.decimal128(20, 0)
        return wide, lambda values: pc.cast(values, wide)
    if kind == pa.int64():
        return kind, _keep
    return pa.int64(), lambda values: pc.cast(values, pa.int64())


def _datetime_parser(column: Column, date_format: DateFormat) -> Convert:
    if column.zoned:
        return _text_parser(column, date_format)
    width = _datetime_width(column)

    def parse(values: pa.Array) -> pa.Array:
        return parse_datetimes(values, date_format, width)

    return parse


def _bytes_parser(column: Column, _: DateFormat) -> Convert:
    """Return a converter of a binary column's hexadecimal digits to upper case; checks their number."""
    most = column.external_length

    def check(values: pa.Array) -> pa.Array:
        raw = from_hex(values)
        longest = pc.max(pc.binary_length(raw)).as_py() or 0
        if longest > most:
            row = pc.index(pc.binary_length(raw), longest).as_py()
            raise row_error(f"more than {most} bytes", values, row)
        return to_hex(raw)

    return check


def _float_parser(column: Column, _: DateFormat) -> Convert:
    """Return a converter from text to the nearest float. It refuses numbers beyond the range of the type."""
    kind = column.arrow_type

    def parse(values: pa.Array) -> pa.Array:
        try:
            floats = pc.cast(values, kind)
        except pa.ArrowInvalid:
            raise _not_a_float(values, kind) from None
        infinite = pc.and_(pc.is_inf(floats), pc.match_substring_regex(values, "[0-9]"))
        if pc.any(infinite).as_py():
            row = pc.index(infinite, True).as_py()
            raise row_error(f"beyond the range of {column.type_row.name}", values, row)
        return floats

    return parse


def _not_a_float(values: pa.Array, data_type: pa.DataType) -> DecodeError:
    for row, value in enumerate(values):
        try:
            value.cast(data_type)
        except pa.ArrowInvalid:
            return row_error("not a number", values, row)
    return DecodeError("not a number")


def _shortest_digits(values: pa.Array) -> pa.Array:
    """Format floats with the fewest digits that parse to the same float."""
    return pc.cast(values, pa.string())


def _datetime_width(column: Column) -> int:
    try:
        return iso_width(column.external_length)
    except OptionError as error:
        raise DefinitionError(f"column {column.name}: {error.problem}") from None


def _datetime_typed(column: Column) -> tuple[pa.DataType, Convert]:
    """Return the type of a datetime column in the typed shape, and the converter.

    Dates become date32, and times become timestamp[us] without a zone. Years, months and zoned times stay text.
    """
    if column.zoned:
        return pa.string(), _keep
    width = _datetime_width(column)
    if width < 10:
        return pa.string(), _keep
    kind = pa.date32() if width == 10 else pa.timestamp("us")
    return kind, lambda values: iso_to_timestamp(values, width)


def _refuse(column: Column) -> DefinitionError:
    return DefinitionError(
        f"column {column.name} has type {column.type_row.name} ({column.data_type}), "
        "whose layout is not documented, so it can only be NULL"
    )


def _unsupported_parser(column: Column, _: DateFormat) -> Convert:
    raise _refuse(column)


def _numbered_parser(column: Column, _: DateFormat) -> Convert:
    problem = (
        f"nothing defines column {column.name}: it has a number instead of a name, and no type"
    )
    raise DefinitionError(problem, hint="Give a definition of its table")


_INTEGER: Final = FamilyCodec(_integer_parser, lambda _: format_integers, _integer_typed)
# Number text keeps its digits in the typed shape too: no Spark type holds all of them.
CODECS: Final[Mapping[TypeFamily, FamilyCodec]] = MappingProxyType(
    {
        TypeFamily.TEXT: FamilyCodec(_text_parser, _as_it_is, _string_typed),
        TypeFamily.NUMBER_TEXT: FamilyCodec(lambda *_: check_number_text, _as_it_is, _string_typed),
        TypeFamily.INTEGER: _INTEGER,
        TypeFamily.UNSIGNED: _INTEGER,
        TypeFamily.DATETIME: FamilyCodec(_datetime_parser, _as_it_is, _datetime_typed),
        TypeFamily.BYTES: FamilyCodec(_bytes_parser, _as_it_is, _string_typed),
        TypeFamily.FLOAT: FamilyCodec(
            _float_parser,
            lambda _: _shortest_digits,
            lambda column: (column.arrow_type, _keep),
        ),
        TypeFamily.NUMBERED: FamilyCodec(_numbered_parser, _as_it_is, _string_typed),
        # Such a column can only be NULL; the other columns of its table can be read.
        TypeFamily.UNSUPPORTED: FamilyCodec(_unsupported_parser, _as_it_is, _string_typed),
    }
)
