"""How text becomes a column's values and back: one row a family.

A row makes functions of whole columns, once a column: its length, scale and date format are bound then. A function that refuses a value raises DecodeError with the row as its record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.columnar.digits import from_hex, to_hex
from trailgate.columnar.numbers import check_number_text, format_integers, parse_integers
from trailgate.columnar.rows import most_bytes, row_error
from trailgate.columnar.temporal import (
    DEFAULT_FORMAT,
    DateFormat,
    iso_to_timestamp,
    iso_width,
    parse_datetimes,
)
from trailgate.errors import DecodeError, DefinitionError, OptionError
from trailgate.model.tables import Column
from trailgate.model.types import Family

Convert = Callable[[pa.Array], pa.Array]


class Codec(NamedTuple):
    """A family's makers of converters: text to block, block to text, block to typed column."""

    parse: Callable[[Column, DateFormat], Convert]
    format: Callable[[Column], Convert]
    typed: Callable[[Column], tuple[pa.DataType, Convert]]


def parser_for(column: Column, date_format: DateFormat | None = None) -> Convert:
    """Return the function that makes text a block column; it raises DecodeError by row.

    Raises DefinitionError for a type without a public layout.
    """
    return CODECS[column.family].parse(column, date_format or DEFAULT_FORMAT)


def bytes_unchecked(column: Column) -> int:
    """Return how many bytes text may have that is a block column as it is: longer text is for the parser. -1 where all is."""
    return column.external_length if column.family is Family.TEXT or column.zoned else -1


def formatter_for(column: Column) -> Convert:
    """Return the function that makes a block column text."""
    return CODECS[column.family].format(column)


def typed_for(column: Column) -> tuple[pa.DataType, Convert]:
    """Return the column's type in the typed shape, and the function from the block column."""
    return CODECS[column.family].typed(column)


def _keep(values: pa.Array) -> pa.Array:
    return values


def _as_it_is(_: Column) -> Convert:
    return _keep


def _string_typed(_: Column) -> tuple[pa.DataType, Convert]:
    return pa.string(), _keep


def _text_parser(column: Column, _: DateFormat) -> Convert:
    """Return a check of the length in characters.

    Fixed-length text may have blanks beyond its length; they are padding and are cut off.
    """
    most, fixed = column.external_length, column.type_row.fixed

    def check(values: pa.Array) -> pa.Array:
        # No value has more characters than bytes.
        if most_bytes(values) <= most:
            return values
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
    signed = column.family is Family.INTEGER

    def parse(values: pa.Array) -> pa.Array:
        return parse_integers(values, scale, width, signed)

    return parse


def _integer_typed(column: Column) -> tuple[pa.DataType, Convert]:
    """Return int64, or a decimal; unsigned 8 byte integers go beyond int64: decimal(20, 0)."""
    kind = column.arrow_type
    if column.scale:
        return kind, _keep
    if column.family is Family.UNSIGNED and (column.type_row.width or 8) == 8:
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
    """Return a check of the digits and of the length; digits are made upper case."""
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
    """Return the nearest float of a number's digits; one beyond its range is an error."""
    kind = column.arrow_type

    def parse(values: pa.Array) -> pa.Array:
        try:
            found = pc.cast(values, kind)
        except pa.ArrowInvalid:
            raise _not_a_float(values, kind) from None
        infinite = pc.and_(pc.is_inf(found), pc.match_substring_regex(values, "[0-9]"))
        if pc.any(infinite).as_py():
            row = pc.index(infinite, True).as_py()
            raise row_error(f"beyond the range of {column.type_row.name}", values, row)
        return found

    return parse


def _not_a_float(values: pa.Array, kind: pa.DataType) -> DecodeError:
    for row, value in enumerate(values):
        try:
            value.cast(kind)
        except pa.ArrowInvalid:
            return row_error("not a number", values, row)
    return DecodeError("not a number")


def _shortest_digits(values: pa.Array) -> pa.Array:
    """Return the shortest digits that are read as the same float again."""
    return pc.cast(values, pa.string())


def _datetime_width(column: Column) -> int:
    try:
        return iso_width(column.external_length)
    except OptionError as error:
        raise DefinitionError(f"column {column.name}: {error.problem}") from None


def _datetime_typed(column: Column) -> tuple[pa.DataType, Convert]:
    """Return date32 for dates, naive timestamp[us] for times; years, months and zoned times stay text."""
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
        "whose values have no public layout"
    )


def _unsupported_parser(column: Column, _: DateFormat) -> Convert:
    raise _refuse(column)


def _numbered_parser(column: Column, _: DateFormat) -> Convert:
    raise DefinitionError(f"column {column.name} is numbered: what it holds is a guess")


_INTEGER: Final = Codec(_integer_parser, lambda _: format_integers, _integer_typed)
# Number text keeps its digits in the typed shape too: no Spark type holds all of them.
CODECS: Final[Mapping[Family, Codec]] = MappingProxyType(
    {
        Family.TEXT: Codec(_text_parser, _as_it_is, _string_typed),
        Family.NUMBER_TEXT: Codec(lambda *_: check_number_text, _as_it_is, _string_typed),
        Family.INTEGER: _INTEGER,
        Family.UNSIGNED: _INTEGER,
        Family.DATETIME: Codec(_datetime_parser, _as_it_is, _datetime_typed),
        Family.BYTES: Codec(_bytes_parser, _as_it_is, _string_typed),
        Family.FLOAT: Codec(
            _float_parser,
            lambda _: _shortest_digits,
            lambda column: (column.arrow_type, _keep),
        ),
        Family.NUMBERED: Codec(_numbered_parser, _as_it_is, _string_typed),
        # Such a column has no values but NULL; the others of its table can be read.
        Family.UNSUPPORTED: Codec(_unsupported_parser, _as_it_is, _string_typed),
    }
)
