"""Decode the trail values of a table without a definition: numbered columns, whose types are guessed.

The columns of such a table are named #0, #1, ... The form of each value is guessed from its bytes
(trail format §10.2, "Without a TDR"), each one separately, so that the result does not depend on
how the input is split. Bytes that look like text become text. Bytes that do not, or that may also
be a number, become 0x and upper-case hex digits. A text that itself begins with 0x becomes hex too,
so 0x always means hex.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask, byte_mask
from trailgate.columnar.gather import gather, sliding_words
from trailgate.model.tables import Column, Table
from trailgate.model.types import NUMBERED
from trailgate.trail.records.framing import Spans, TrailBytes
from trailgate.trail.values import cell_kernels
from trailgate.trail.values.codec import (
    INDICATOR_BYTES,
    NULL,
    VARIABLE_HEAD,
    CellTarget,
    CellWriter,
    RecordValues,
    TrailCells,
)

MAX_COLUMNS: Final = 4096  # no common database allows more columns: a higher index means damage
NOT_DEFINED: Final = "nothing defines the table: its columns are numbered"
# 2026-01-05, or 2026-01-05:12:30:00.123456
_DATETIME: Final = re.compile(rb"\d{4}-\d\d-\d\d(:\d\d:\d\d:\d\d(\.\d{1,9})?)?", re.ASCII)
_BETWEEN: Final = 10  # offset of the character between date and time
_INTEGER_SIZES: Final = (4, 8)
_NUMBER_SIZES: Final = (2, 4, 8)  # of integers and floats
_HEX: Final = "0x"
_TEXT_BYTE: Final = byte_mask(
    [0x09, 0x0A, 0x0D, *range(0x20, 0x7F)]
)  # printable ASCII, TAB, LF and CR
# Controls other than TAB, LF and CR: bytes with any of them are not shown as text.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def make_numbered_table(name: str, columns: int) -> Table:
    """Build a table with ``columns`` numbered columns for an undefined table, marked as a guess."""
    numbered = tuple(Column(f"#{i}", NUMBERED.code, 0) for i in range(columns))
    return Table(name, numbered, guessed=True)


def count_columns_used(source: TrailBytes, areas: Spans) -> int:
    """Return the number of columns that the records of an undefined table use: their highest column index plus one.

    In a damaged area, only the part before the damage is counted; the reader that decodes the area
    reports the error.
    """
    return int(
        cell_kernels.count_columns(source.data, areas.starts, areas.ends, source.big, MAX_COLUMNS)
    )


def decode_numbered(cells: TrailCells) -> pa.Array:
    """Decode the trail values of an undefined column by their appearance.

    An indicator FF FF is NULL, whatever bytes follow it.
    """
    nulls = check_numbered(cells)
    # A value is ``counted`` if its four bytes are 00 00 and the length of the rest: 00 00 00 02 41 42.
    frames = cells.source.order.words(cells.source.data, "u4")[cells.starts]
    counted = frames == cells.source.order.pair(0, cells.lengths - VARIABLE_HEAD)
    ends = cells.starts + cells.lengths
    skipped = np.where(counted, VARIABLE_HEAD, INDICATOR_BYTES)
    raw = gather(cells.source.buffer, cells.starts + skipped, ends, nulls=nulls)
    if counted[~nulls].all():
        return _format_guess(raw, cells.source.charset, counted=True)
    is_counted = pa.array(np.asarray(counted, bool))
    strings = [_format_guess(raw, cells.source.charset, counted=kind) for kind in (True, False)]
    return pc.if_else(is_counted, *strings)


def check_numbered(cells: TrailCells) -> Mask:
    """Check the null indicators of an undefined trail column. Returns a mask of the NULL values.

    Raises DecodeError for a value without a null indicator.
    """
    head = sliding_words(cells.source.data, "u2")[cells.starts]
    nulls = np.asarray(head == NULL, bool)
    cells.require(nulls | (head == 0), "a null indicator must be 00 00 or ff ff")
    return nulls


def decode_large_numbered(cells: TrailCells) -> pa.Array:
    """Decode large objects of a table without a definition: as text if the bytes can be text, otherwise as hex digits."""
    raw = gather(cells.source.buffer, cells.starts, cells.starts + cells.lengths)
    return _format_guess(raw, cells.source.charset, counted=True)


def encode_numbered(target: CellTarget, _: RecordValues) -> CellWriter:
    """Raise EncodeError: a value whose type was guessed cannot be written."""
    raise target.error(f"{NOT_DEFINED}, and cannot be written")


def _format_guess(values: pa.Array, charset: str, *, counted: bool) -> pa.Array:
    if counted and charset == "utf-8" and _plain(values):
        return values.view(pa.string())
    # Columns repeat their values, so decide only once per distinct value.
    distinct = values.dictionary_encode()
    show = _counted_text if counted else _bare
    strings = [show(raw, charset) for raw in distinct.dictionary.to_pylist()]
    return pa.array(strings, pa.string()).take(distinct.indices)


def _plain(values: pa.Array) -> bool:
    """Return whether all values of an undefined column are printable ASCII and none begins with 0x."""
    if not len(values):
        return True
    _, offsets, data = values.buffers()
    # The values may be a slice: only the bytes between its first and last offset are its own.
    ends = np.frombuffer(offsets, np.int32)[[values.offset, values.offset + len(values)]]
    content = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[1]]
    if not _TEXT_BYTE[content].all():
        return False
    return not pc.any(pc.starts_with(values.view(pa.string()), _HEX)).as_py()


def _counted_text(raw: bytes, charset: str) -> str:
    """Decode a value of unknown type that follows a length: as text if the bytes can be text, otherwise in hex."""
    text = _text(raw, charset)
    return _digits(raw) if text is None else text


def _bare(raw: bytes, charset: str) -> str:
    """Decode a value of unknown type without a length: as a date time, padded text or binary integer, otherwise in hex.

    Bytes that may be either a text or a number are returned in hex, which is correct for both.
    """
    if _DATETIME.fullmatch(raw):
        text = raw.decode()
        return text[:_BETWEEN] + text[_BETWEEN:].replace(":", " ", 1)
    padded = _text(raw, charset)
    if padded is not None:
        return _digits(raw) if len(raw) in _NUMBER_SIZES else padded.rstrip(" ")
    if len(raw) in _INTEGER_SIZES and not raw.startswith(_HEX.encode()):
        # Binary values are big-endian in either order of a trail (trail format §3).
        return str(int.from_bytes(raw, "big", signed=True))
    return _digits(raw)


def _text(raw: bytes, charset: str) -> str | None:
    try:
        text = raw.decode(charset)
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) or text.startswith(_HEX) else text


def _digits(raw: bytes) -> str:
    return _HEX + raw.hex().upper()
