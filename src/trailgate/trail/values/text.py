"""Text in trail form and back: variable (type 64) and blank-padded (type 0) (trail format §10.2).

Bytes (RAW, sub data type 4) in trail form and back; outside they are hexadecimal text (trail format §10.2).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Offsets
from trailgate.columnar.digits import from_hex, to_hex
from trailgate.columnar.gather import NO_NULLS, gather, gather_measured, unfit
from trailgate.columnar.rows import rows_at
from trailgate.errors import DecodeError, EncodeError
from trailgate.model.tables import Column
from trailgate.trail.values import read_kernels
from trailgate.trail.values.cell_writers import FilledCells, VaryingCells
from trailgate.trail.values.codec import (
    INDICATOR_BYTES,
    UTF_8,
    VARIABLE_HEAD,
    Cells,
    CellWriter,
    RecordValues,
    TargetColumn,
    charset_of,
    decoded_strings,
    encoded_strings,
)


def decode_variable(cells: Cells) -> pa.Array:
    """Return the strings: indicator, u16 length, bytes; NULL is FF FF 00 00 or a bare FF FF."""
    return _strings(cells, cells.starts + VARIABLE_HEAD, *measure_variable(cells))


def measure_variable(cells: Cells) -> tuple[Mask | None, Offsets]:
    """Return which values of varying length are NULL, None if none is, and Arrow's offsets of their bytes.

    All lengths are checked.
    """
    source, count = cells.source, len(cells.starts)
    nulls, offsets = np.empty(count, bool), np.empty(count + 1, np.int32)
    found, bad, size = read_kernels.check_variable(
        source.data, cells.starts, cells.lengths, source.big, nulls, offsets
    )
    if bad >= 0:
        raise cells.error("a text's length does not agree with its value", bad)
    if size < 0:
        raise unfit(size, len(source.data))
    return nulls if found else None, offsets


def gather_cells(
    cells: Cells,
    starts: Longs,
    nulls: Mask | None,
    offsets: Offsets | None = None,
    *,
    text: bool = False,
) -> pa.Array:
    """Return the bytes from ``starts`` to the end of each cell; ``offsets`` are Arrow's, where they are known."""
    if offsets is None:
        ends = cells.starts + cells.lengths
        return gather(cells.source.buffer, starts, ends, nulls=nulls, text=text)
    missing = NO_NULLS if nulls is None else nulls
    return gather_measured(cells.source.data, starts, offsets, missing, text=text)


def decode_fixed(cells: Cells) -> pa.Array:
    """Return blank-padded strings without the padding; NULL is FF FF and zeros, or a bare FF FF."""
    width = fixed_width(cells.column)
    nulls = null_cells(cells, width)
    strings = _strings(cells, cells.starts + INDICATOR_BYTES, nulls)
    return pc.utf8_rtrim(strings, " ")


def check_variable(cells: Cells) -> None:
    """Raise for a text of varying length whose length is wrong, or whose character set is not known."""
    _charset(cells)
    measure_variable(cells)


def check_fixed(cells: Cells) -> None:
    """Raise for a blank-padded text whose length is wrong, or whose character set is not known."""
    _charset(cells)
    null_cells(cells, fixed_width(cells.column))


def decode_large_text(cells: Cells) -> pa.Array:
    """Return strings that fill their cells whole, as large objects do."""
    return _strings(cells, cells.starts, None)


def null_cells(cells: Cells, width: int) -> Mask | None:
    """Return which values of a fixed width are NULL, after checking all lengths; None if none is."""
    nulls = np.empty(len(cells.starts), bool)
    found, bad = read_kernels.check_fixed(
        cells.source.data, cells.starts, cells.lengths, width, nulls
    )
    if bad >= 0:
        raise width_error(cells, width, bad)
    return nulls if found else None


def width_error(cells: Cells, width: int, row: int) -> DecodeError:
    """Return an error about a value that is not of a fixed width."""
    return cells.error(f"a value of {width} bytes after 00 00 or ff ff was expected", row)


def fixed_width(column: Column) -> int:
    """Return how many bytes a blank-padded text has."""
    return column.internal_length or column.external_length


def _strings(
    cells: Cells, starts: Longs, nulls: Mask | None, offsets: Offsets | None = None
) -> pa.Array:
    """Return strings as UTF-8, from the character set of their column or of the source."""
    charset = _charset(cells)
    if charset != UTF_8:
        raw = gather_cells(cells, starts, nulls, offsets)
        try:
            return decoded_strings(raw, charset)
        except DecodeError as error:
            raise cells.error(error.problem, error.where.record or 0) from None
    try:
        return gather_cells(cells, starts, nulls, offsets, text=True)
    except DecodeError as error:
        bad = starts == error.where.offset
        raise cells.error(error.problem, int(np.argmax(bad))) from None


def _charset(cells: Cells) -> str:
    charset = charset_of(cells.column, cells.source.charset)
    if charset is None:
        raise cells.error(UNKNOWN_NATIONAL, 0)
    return charset


UNKNOWN_NATIONAL = "the definitions do not tell the character set of this national text: sub data type 1 is UTF-16BE"


def encode_variable(target: TargetColumn, found: RecordValues) -> CellWriter:
    """Return strings as indicator, u16 length and bytes."""
    return VaryingCells(target, found)


def encode_fixed(target: TargetColumn, found: RecordValues) -> CellWriter:
    """Return strings padded with blanks to the column's width; a longer one is an error."""
    width = fixed_width(target.column)
    return FilledCells(target, found, filling=b" " * width, null_filling=bytes(width))


def encode_national(target: TargetColumn, found: RecordValues) -> CellWriter:
    """Return strings of varying length in the character set that the definition of their column names."""
    return encode_variable(target, _in_charset(target, found.held(), None))


def encode_fixed_national(target: TargetColumn, found: RecordValues) -> CellWriter:
    """Return strings padded with blanks, in the character set that the definition of their column names."""
    return encode_fixed_bytes_of(
        target, _in_charset(target, found.held(), fixed_width(target.column))
    )


def _in_charset(target: TargetColumn, found: RecordValues, width: int | None) -> RecordValues:
    """Return strings in the character set of their column, padded to a width in bytes."""
    charset = charset_of(target.column, UTF_8)
    if charset is None:
        raise target.error(UNKNOWN_NATIONAL)
    values = found.values
    if width is not None:
        values = pc.utf8_rpad(values, width // len(" ".encode(charset)), " ")
    try:
        return replace(found, values=encoded_strings(values, charset))
    except EncodeError as error:
        raise error.with_place(table=target.table, field=target.column.name) from None


def encode_fixed_bytes_of(target: TargetColumn, found: RecordValues) -> CellWriter:
    """Return bytes of exactly the column's width; others are an error."""
    width = fixed_width(target.column)
    bad = pc.not_equal(pc.binary_length(found.values), width).fill_null(False)
    row = found.first(bad.to_numpy(zero_copy_only=False))
    if row is not None:
        value = found.values[row].as_py()
        raise target.error(f"{width} bytes were expected, not {len(value)}", value)
    return encode_fixed(target, found)


def fixed_bytes(
    cells: Cells, width: int, nulls: Mask | None
) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Return the value bytes after the indicators as a matrix; NULL rows are left out."""
    starts = cells.starts if nulls is None else cells.starts[~nulls]
    return rows_at(cells.source.data, starts + INDICATOR_BYTES, width)


def decode_variable_bytes(cells: Cells) -> pa.Array:
    """Return bytes of varying length as upper-case hexadecimal digits."""
    return to_hex(gather_cells(cells, cells.starts + VARIABLE_HEAD, *measure_variable(cells)))


def decode_fixed_bytes(cells: Cells) -> pa.Array:
    """Return bytes of the column's width as upper-case hexadecimal digits."""
    nulls = null_cells(cells, fixed_width(cells.column))
    return to_hex(gather_cells(cells, cells.starts + INDICATOR_BYTES, nulls))


def check_fixed_bytes(cells: Cells) -> None:
    """Raise for bytes that are not of the column's width."""
    null_cells(cells, fixed_width(cells.column))


def decode_large_bytes(cells: Cells) -> pa.Array:
    """Return bytes that fill their cells whole as upper-case hexadecimal digits."""
    return to_hex(gather_cells(cells, cells.starts, None))


def encode_variable_bytes(target: TargetColumn, found: RecordValues) -> CellWriter:
    """Return hexadecimal digits as bytes of varying length."""
    return encode_variable(target, _bytes_of(target, found.held()))


def encode_fixed_bytes(target: TargetColumn, found: RecordValues) -> CellWriter:
    """Return hexadecimal digits as bytes of the column's width."""
    return encode_fixed_bytes_of(target, _bytes_of(target, found.held()))


def _bytes_of(target: TargetColumn, found: RecordValues) -> RecordValues:
    try:
        return replace(found, values=from_hex(found.values))
    except DecodeError as error:
        raise target.error(error.problem, error.where.raw or b"") from None
