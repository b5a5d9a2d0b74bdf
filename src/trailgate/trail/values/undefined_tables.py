"""Tables that nothing defines: columns named #0, #1, ... and values as their bytes look.

trail format §10.2, "Without a TDR": a guess, value by value, so that how the input is cut changes nothing. What is text
is given as text, what is not, or may be a number as well, as 0x and upper-case hexadecimal digits; a text that itself begins with 0x is given so too,
so that what begins with 0x is always digits.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask
from trailgate.columnar.gather import gather
from trailgate.columnar.views import words
from trailgate.model.tables import Column, Table
from trailgate.model.types import NUMBERED
from trailgate.trail.records.trail_bytes import Spans, TrailBytes
from trailgate.trail.values import read_kernels
from trailgate.trail.values.codec import (
    INDICATOR_BYTES,
    NULL,
    VARIABLE_HEAD,
    Cells,
    CellWriter,
    RecordValues,
    TargetColumn,
)

MAX_COLUMNS: Final = (
    4096  # no table of a common database has more; a greater index is a damaged one
)
NOT_DEFINED: Final = "nothing defines the table: its columns are numbered"
_DATETIME: Final = re.compile(rb"\d{4}-\d\d-\d\d(:\d\d:\d\d:\d\d(\.\d{1,9})?)?", re.ASCII)
_BETWEEN: Final = 10  # offset of what separates date and time
_INTEGER_SIZES: Final = (4, 8)
_NUMBER_SIZES: Final = (2, 4, 8)  # of integers and floats
_HEX: Final = "0x"


def _text_bytes() -> Mask:
    table = np.zeros(256, bool)
    table[0x20:0x7F] = True
    table[[0x09, 0x0A, 0x0D]] = True
    table.setflags(write=False)
    return table


_TEXT_BYTE: Final = _text_bytes()
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def numbered_table(name: str, columns: int) -> Table:
    """Return a table of so many columns, marked as a guess."""
    found = tuple(Column(f"#{i}", NUMBERED.code, 0) for i in range(columns))
    return Table(name, found, guessed=True)


def columns_used(source: TrailBytes, areas: Spans) -> int:
    """Return one more than the greatest column index in these data areas.

    An area that cells do not fill counts as far as it holds cells: whoever reads it reports what is wrong.
    """
    return int(
        read_kernels.count_columns(source.data, areas.starts, areas.ends, source.big, MAX_COLUMNS)
    )


def decode_numbered(cells: Cells) -> pa.Array:
    """Return what the values of a column look like; NULL is FF FF, whatever follows."""
    nulls = check_numbered(cells)
    frames = cells.source.order.words(cells.source.data, "u4")[cells.starts]
    counted = frames == cells.source.order.pair(0, cells.lengths - VARIABLE_HEAD)
    ends = cells.starts + cells.lengths
    skipped = np.where(counted, VARIABLE_HEAD, INDICATOR_BYTES)
    raw = gather(cells.source.buffer, cells.starts + skipped, ends, nulls=nulls)
    if counted[~nulls].all():
        return _shown(raw, cells.source.charset, counted=True)
    slots = pa.array(np.asarray(counted, bool))
    texts = [_shown(raw, cells.source.charset, counted=kind) for kind in (True, False)]
    return pc.if_else(slots, *texts)


def check_numbered(cells: Cells) -> Mask:
    """Return which values are NULL; raises for one without an indicator."""
    head = words(cells.source.data, "u2")[cells.starts]
    nulls = np.asarray(head == NULL, bool)
    cells.require(nulls | (head == 0), "a null indicator must be 00 00 or ff ff")
    return nulls


def decode_large_numbered(cells: Cells) -> pa.Array:
    """Return what large objects look like."""
    raw = gather(cells.source.buffer, cells.starts, cells.starts + cells.lengths)
    return _shown(raw, cells.source.charset, counted=True)


def encode_numbered(target: TargetColumn, _: RecordValues) -> CellWriter:
    """Refuse: what only looks like a value is not written back."""
    raise target.error(f"{NOT_DEFINED}, and cannot be written")


def _shown(values: pa.Array, charset: str, *, counted: bool) -> pa.Array:
    if counted and charset == "utf-8" and _plain(values):
        return values.view(pa.string())
    distinct = values.dictionary_encode()
    show = _counted if counted else _bare
    texts = [show(raw, charset) for raw in distinct.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(distinct.indices)


def _plain(values: pa.Array) -> bool:
    """Return whether all values are printable ASCII that does not begin with 0x."""
    if not len(values):
        return True
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[[values.offset, values.offset + len(values)]]
    content = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[1]]
    if not _TEXT_BYTE[content].all():
        return False
    return not pc.any(pc.starts_with(values.view(pa.string()), _HEX)).as_py()


def _counted(raw: bytes, charset: str) -> str:
    """Return bytes after a length: text if they can be, else hex."""
    text = _text(raw, charset)
    return _digits(raw) if text is None else text


def _bare(raw: bytes, charset: str) -> str:
    """Return bytes without a length: a date time, a padded text, a binary integer, else hex.

    Bytes that are a text and may be a number are given in hex, which is right for both.
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
