"""Text and bytes in trail values, either of varying length (type 64) or padded to a fixed width (type 0) (trail format §10.2).

After the null indicator ``00 00``, the text "AB" is ``00 02 41 42`` with a length, or ``41 42 20
20`` padded to four bytes. Bytes (RAW, sub data type 4) have the same two forms; in Arrow they are
strings of hex digits. Text is converted to UTF-8 from the character set of its column or of the
source.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Offsets
from trailgate.columnar.hex_digits import from_hex, to_hex
from trailgate.errors import DecodeError, EncodeError
from trailgate.model.tables import Column
from trailgate.trail.values.cell_writers import PaddedCells, VaryingCells
from trailgate.trail.values.cells import check_fixed_cells, gather_cells, measure_variable
from trailgate.trail.values.charsets import UTF_8, column_charset, decode_strings, encode_strings
from trailgate.trail.values.codec import (
    INDICATOR_BYTES,
    VARIABLE_HEAD,
    CellTarget,
    CellWriter,
    RecordValues,
    TrailCells,
)

UNKNOWN_NATIONAL = "the definitions do not state the character set of this national text: sub data type 1 is UTF-16BE"


def decode_variable(cells: TrailCells) -> pa.Array:
    """Decode trail strings of varying length: indicator, u16 length, bytes.

    NULL is FF FF 00 00 or a bare FF FF.
    """
    return _strings(cells, cells.starts + VARIABLE_HEAD, *measure_variable(cells))


def decode_fixed(cells: TrailCells) -> pa.Array:
    """Decode blank-padded trail strings and remove the padding. NULL is FF FF and zeros, or a bare FF FF."""
    width = fixed_width(cells.column)
    nulls = check_fixed_cells(cells, width)
    strings = _strings(cells, cells.starts + INDICATOR_BYTES, nulls)
    return pc.utf8_rtrim(strings, " ")


def check_variable(cells: TrailCells) -> None:
    """Raise DecodeError if the length of a text value is wrong or the column's character set is unknown."""
    _charset(cells)
    measure_variable(cells)


def check_fixed(cells: TrailCells) -> None:
    """Raise DecodeError if the length of a padded text is wrong or the column's character set is unknown."""
    _charset(cells)
    check_fixed_cells(cells, fixed_width(cells.column))


def decode_large_text(cells: TrailCells) -> pa.Array:
    """Decode strings that fill their cells completely, such as large objects."""
    return _strings(cells, cells.starts, None)


def fixed_width(column: Column) -> int:
    """Return the width of a column's blank-padded strings in bytes."""
    return column.internal_length or column.external_length


def _strings(
    cells: TrailCells, starts: Longs, nulls: Mask | None, offsets: Offsets | None = None
) -> pa.Array:
    """Decode the strings from ``starts`` to the end of each trail cell, in the character set of their column or of the source."""
    charset = _charset(cells)
    if charset != UTF_8:
        raw = gather_cells(cells, starts, nulls, offsets)
        try:
            return decode_strings(raw, charset)
        except DecodeError as error:
            raise cells.error(error.problem, error.where.record or 0) from None
    try:
        return gather_cells(cells, starts, nulls, offsets, text=True)
    except DecodeError as error:
        # gather reports the offset of the value; find its row for the error.
        bad = starts == error.where.offset
        raise cells.error(error.problem, int(np.argmax(bad))) from None


def _charset(cells: TrailCells) -> str:
    charset = column_charset(cells.column, cells.source.charset)
    if charset is None:
        raise cells.error(UNKNOWN_NATIONAL, 0)
    return charset


def encode_variable(target: CellTarget, column_values: RecordValues) -> CellWriter:
    """Encode strings as trail values of varying length: indicator, u16 length and bytes."""
    return VaryingCells(target, column_values)


def encode_fixed(target: CellTarget, column_values: RecordValues) -> CellWriter:
    """Encode strings as trail values of the column's width, padded with blanks. Raises EncodeError if a string is longer."""
    width = fixed_width(target.column)
    return PaddedCells(target, column_values, filling=b" " * width, null_filling=bytes(width))


def encode_national(target: CellTarget, column_values: RecordValues) -> CellWriter:
    """Encode national text (NVARCHAR) as trail values of varying length, in the character set that the column's definition states."""
    return encode_variable(target, _in_charset(target, column_values.for_records(), None))


def encode_fixed_national(target: CellTarget, column_values: RecordValues) -> CellWriter:
    """Encode national text (NCHAR) as blank-padded trail values, in the character set that the column's definition states."""
    return encode_fixed_bytes_of(
        target, _in_charset(target, column_values.for_records(), fixed_width(target.column))
    )


def _in_charset(target: CellTarget, column_values: RecordValues, width: int | None) -> RecordValues:
    """Encode strings in the character set of their column, and pad them to ``width`` bytes if it is given."""
    charset = column_charset(target.column, UTF_8)
    if charset is None:
        raise target.error(UNKNOWN_NATIONAL)
    values = column_values.values
    if width is not None:
        # The width counts bytes and `utf8_rpad` characters: in UTF-16 a blank has two bytes.
        values = pc.utf8_rpad(values, width // len(" ".encode(charset)), " ")
    try:
        return replace(column_values, values=encode_strings(values, charset))
    except EncodeError as error:
        raise error.with_place(table=target.table, field=target.column.name) from None


def encode_fixed_bytes_of(target: CellTarget, column_values: RecordValues) -> CellWriter:
    """Encode bytes as trail values of the column's width. Raises EncodeError for bytes of another size."""
    width = fixed_width(target.column)
    bad = pc.not_equal(pc.binary_length(column_values.values), width).fill_null(False)
    row = column_values.first_bad_row(bad.to_numpy(zero_copy_only=False))
    if row is not None:
        value = column_values.values[row].as_py()
        raise target.error(f"{width} bytes were expected, not {len(value)}", value)
    return encode_fixed(target, column_values)


def decode_variable_bytes(cells: TrailCells) -> pa.Array:
    """Decode a trail's byte values of varying length as upper-case hex digits."""
    return to_hex(gather_cells(cells, cells.starts + VARIABLE_HEAD, *measure_variable(cells)))


def decode_fixed_bytes(cells: TrailCells) -> pa.Array:
    """Decode a trail's byte values of a fixed width as upper-case hex digits."""
    nulls = check_fixed_cells(cells, fixed_width(cells.column))
    return to_hex(gather_cells(cells, cells.starts + INDICATOR_BYTES, nulls))


def check_fixed_bytes(cells: TrailCells) -> None:
    """Raise DecodeError for a byte value that does not have the column's fixed width."""
    check_fixed_cells(cells, fixed_width(cells.column))


def decode_large_bytes(cells: TrailCells) -> pa.Array:
    """Decode large objects of bytes as upper-case hex digits. A value fills its whole cell and has no length field."""
    return to_hex(gather_cells(cells, cells.starts, None))


def encode_variable_bytes(target: CellTarget, column_values: RecordValues) -> CellWriter:
    """Encode hex digits as a trail's byte values of varying length."""
    return encode_variable(target, _bytes_of(target, column_values.for_records()))


def encode_fixed_bytes(target: CellTarget, column_values: RecordValues) -> CellWriter:
    """Encode hex digits as a trail's byte values of the column's width."""
    return encode_fixed_bytes_of(target, _bytes_of(target, column_values.for_records()))


def _bytes_of(target: CellTarget, column_values: RecordValues) -> RecordValues:
    try:
        return replace(column_values, values=from_hex(column_values.values))
    except DecodeError as error:
        raise target.error(error.problem, error.where.raw or b"") from None
