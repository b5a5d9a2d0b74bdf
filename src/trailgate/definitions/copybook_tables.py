"""Build definitions for the tables of copybooks, as gendef does (capture properties §8).

A copybook's table has the flat columns of its layout (``cobol.copybook.flat_columns``), with the types
that the adapter assigns to them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from trailgate.cobol.copybook.flat_columns import FlatColumn, flat_columns
from trailgate.cobol.copybook.layouts import CopybookField, CopybookLayout, NumberFormat, Usage
from trailgate.columnar.temporal import DatePart, compile_format
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.definitions.defgen_layout import complete_table
from trailgate.errors import OptionError
from trailgate.model.tables import Column, DatabaseLines, Definitions, Table

INTEGER_DIGITS: Final = 18  # always fit 64 bits

# Type codes and sub types (capture properties §9.3 and §9.4).
_CHAR, _VARCHAR, _BIN64, _DATETIME = 0, 64, 134, 192
_FLOAT_TEXT, _FIXED_TEXT, _BINARY = 2, 3, 4
_DATE, _TO_THE_SECOND = 10, 19  # characters of ISO text
_MOST_DIGITS: Final = 9  # of a fraction
_FLOAT_LENGTH: Final = 50  # the length of an unconstrained NUMBER

# capture properties §8: the header that gendef itself writes is not public; the 19-attribute form of
# version 2.0 "is the safe choice". The character sets are those of the trails written here.
GENERATED: Final = DatabaseLines(
    version="2.0",
    character_set="UTF-8",
    national_character_set="UTF-16",
    locale="neutral",
)


def table_of_layout(layout: CopybookLayout, name: str | None = None) -> Table:
    """Return the table definition that gendef generates for a record of a copybook."""
    columns = tuple(column_of(column) for column in flat_columns(layout))
    return complete_table(Table(name or layout.name, columns))


def column_of(column: FlatColumn) -> Column:
    """Build the definition of a copybook item's column, with the types of the adapter (capture properties §5.1, §9.4)."""
    field = column.field
    return replace(_convert_type(field), name=column.name, key=field.key, nullable=not field.key)


def _convert_type(field: CopybookField) -> Column:
    if field.date_format is not None:
        return Column("", _DATETIME, _date_length(field.date_format, field))
    if field.usage in (Usage.FLOAT, Usage.DOUBLE, Usage.FLOAT_TEXT, Usage.NATIONAL_FLOAT):
        return Column("", _VARCHAR, _FLOAT_LENGTH, sub_type=_FLOAT_TEXT)
    if field.number is not None:
        return _number(field.number)
    if field.usage is Usage.RAW:
        return Column("", _VARCHAR, 2 * field.size, sub_type=_BINARY)
    if field.usage in (Usage.NATIONAL, Usage.DBCS):
        # A character of two bytes needs up to three bytes in UTF-8.
        characters = field.size // 2
        return Column("", _VARCHAR, 3 * characters, character_length=characters)
    return Column("", _VARCHAR if field.usage is Usage.UTF8 else _CHAR, field.size)


def _number(number: NumberFormat) -> Column:
    # A negative scale means that the last digits before the decimal point are not stored.
    scale = max(number.scale, 0)
    digits = max(number.digits + max(-number.scale, 0), scale)
    if digits <= INTEGER_DIGITS:
        return Column("", _BIN64, digits, scale=scale)
    length = digits + number.signed + (scale > 0)
    return Column("", _VARCHAR, length, scale=scale, sub_type=_FIXED_TEXT)


def _date_length(form: str, field: CopybookField) -> int:
    """Return the number of characters that a date field of a copybook has in the trail.

    A fraction has as many digits as fit in the field, but at most nine: "FFF depending on the size
    of the field".
    """
    try:
        layouts = compile_format(form).layouts
    except OptionError as error:
        raise error.with_place(field=field.name) from None
    # A format such as YY-M-D has layouts of several lengths; the field's size selects one.
    layout = next((one for one in layouts if one.length == field.size), layouts[0])
    widths = {part.part: part.width for part in layout.fields}
    if DatePart.FRACTION in widths:
        return _TO_THE_SECOND + 1 + min(widths[DatePart.FRACTION], _MOST_DIGITS)
    return _TO_THE_SECOND if widths.keys() & {DatePart.HOUR, DatePart.MINUTE} else _DATE


def format_definitions(definitions: Definitions) -> bytes:
    """Format the table definitions of copybooks as a Defgen file.

    If the definitions have database lines of a Defgen file, these are kept. Otherwise they are
    those of ``GENERATED``.
    """
    given = definitions.database
    database = given if given.version else replace(GENERATED, time_zone=given.time_zone)
    return write_sourcedefs(Definitions(definitions.tables, database))
