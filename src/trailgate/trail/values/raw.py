"""Bytes (RAW, sub data type 4) in trail form and back; outside they are hexadecimal text (trail format §10.2)."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from trailgate.columnar.hexadecimal import from_hex, to_hex
from trailgate.errors import DecodeError
from trailgate.trail.values.codec import (
    INDICATOR_BYTES,
    VARIABLE_HEAD,
    Cells,
    CellWriter,
    RecordValues,
    TargetColumn,
)
from trailgate.trail.values.text import (
    encode_fixed_bytes_of,
    encode_variable,
    fixed_width,
    gather_cells,
    measure_variable,
    null_cells,
)


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
