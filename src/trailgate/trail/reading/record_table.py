"""Records as rows: every type, known or not, with headers, tokens and data.

Nothing is refused: what is wrong inside a record is the row's ``problem``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Structs
from trailgate.columnar.digits import format_positions
from trailgate.columnar.gather import gather
from trailgate.errors import DecodeError
from trailgate.model.changes import COMMIT_TIME, undatable
from trailgate.trail.format.record_layout import (
    BY_PARTITION,
    BY_TABLE,
    H_FIXED,
    NAME_AT,
    redo_address,
)
from trailgate.trail.format.record_types import IO_DDL, IO_METADATA, Role, read_ddl, type_name
from trailgate.trail.format.tokens import FRAME
from trailgate.trail.reading.tokens import token_columns
from trailgate.trail.records.framing import Spans, TrailBytes
from trailgate.trail.records.metadata import TrailTables
from trailgate.trail.records.record import decode_record
from trailgate.trail.records.record_problems import (
    DATA_LENGTH,
    EMPTY_DATA,
    HEADER_LENGTH,
    MISTYPED,
    NO_HEADER,
    NO_INDICATOR,
    PART_OVER,
    SHORT,
    SYSTEM_KEY_SIZE,
)
from trailgate.trail.records.record_view import RecordView, find_names

_TEXT: Final = pa.string()
_NUMBER: Final = pa.int32()
_MAP: Final = pa.map_(pa.string(), pa.string())
UNSIGNED: Final = pa.decimal128(20, 0)  # Spark has no unsigned integers

RECORDS_SCHEMA: Final = pa.schema(
    [
        ("position", _TEXT),  # 10 digits of file number and 10 of byte offset
        ("length", _NUMBER),  # of the whole record
        ("io_type", _NUMBER),
        ("type_name", _TEXT),  # as Logdump has it
        ("table", _TEXT),  # the name area's text, or what the table index means
        ("table_index", _NUMBER),
        ("partition_index", _NUMBER),
        ("image", _TEXT),  # A after, B before
        ("trans_ind", _NUMBER),  # 0 first, 1 middle, 2 last, 3 only
        ("io_time", COMMIT_TIME),
        ("audit_pos", UNSIGNED),
        ("audit_rba", pa.int64()),
        ("redo_address", _TEXT),  # of Oracle: sequence, block and offset
        ("partition", _NUMBER),
        ("undo", _NUMBER),
        ("node", _NUMBER),
        ("format", _TEXT),  # R from the log, F fetched
        ("syskey_length", _NUMBER),
        ("incomplete", _NUMBER),
        ("continued", _NUMBER),
        ("record_count", _NUMBER),
        ("data_length", _NUMBER),  # as the header has it
        ("tokens", _MAP),
        ("user_tokens", _MAP),
        ("data", pa.binary()),  # null: the record has none
        ("ddl", _MAP),  # the fields of a DDL record by name; null for others
        ("problem", _TEXT),  # null: nothing is wrong
    ]
)
_PLAIN: Final = (
    "io_type", "partition", "undo", "node", "syskey_length", "incomplete", "continued",
    "record_count", "data_length",
)  # fmt: skip
_LETTERS: Final = ("image", "format")


@dataclass(frozen=True, slots=True)
class RecordTable:
    """Records as rows, and the tables known after the last of them."""

    batch: pa.RecordBatch
    tables: TrailTables


def record_table(
    source: TrailBytes,
    view: RecordView,
    file_number: int,
    tables: TrailTables,
    *,
    oracle: bool = False,
) -> RecordTable:
    """Return these records as rows; ``tables`` are those known before them.

    With ``oracle``, AuditPos and AuditRBA are places in Oracle's redo log.
    """
    head = view.headers(source.data, source.order)
    names, index, known = _tables(source, view, tables)
    data, tokens, user = (_whole(view, part) for part in (view.data, view.tokens, view.user))
    token_maps, user_maps, problem = token_columns(source, tokens, user)
    strange = undatable(view.io_time)
    has_data = (data.sizes > 0) | (view.problems & EMPTY_DATA != 0)
    columns: dict[str, Any] = {
        "position": format_positions(file_number, view.offsets + source.base),
        "length": pa.array(view.lengths, _NUMBER),
        "type_name": _TYPE_NAMES.take(pa.array(view.io_type)),
        "table": names,
        "table_index": index,
        "partition_index": _partition_index(source, view, head),
        "trans_ind": pa.array(view.indicator, _NUMBER),
        "io_time": pa.array(view.io_time, mask=strange).view(COMMIT_TIME),
        "audit_pos": _unsigned(head["audit_pos"]),
        "audit_rba": pa.array(head["audit_rba"].astype(np.int64)),
        "redo_address": _redo_addresses(view, head) if oracle else pa.nulls(len(view), _TEXT),
        "tokens": token_maps,
        "user_tokens": user_maps,
        "data": gather(source.buffer, data.starts, data.ends, nulls=~has_data),
        "problem": pc.coalesce(_problems(view), problem, _STRANGE.take(pa.array(strange * 1))),
    }
    columns |= {name: pa.array(head[name].astype(np.int32)) for name in _PLAIN}
    columns |= {name: _LETTER.take(pa.array(head[name])) for name in _LETTERS}
    columns["ddl"] = _ddl(columns["data"], view.io_type == IO_DDL)
    arrays = [columns[field.name] for field in RECORDS_SCHEMA]
    return RecordTable(pa.RecordBatch.from_arrays(arrays, schema=RECORDS_SCHEMA), known)


def _whole(view: RecordView, part: Spans) -> Spans:
    """Return a part of each record, empty where it runs over the record's end."""
    over = (view.problems & PART_OVER != 0) & (part.ends == view.offsets + view.lengths - FRAME)
    return Spans(part.starts, np.where(over, part.starts, part.ends)) if over.any() else part


# By these bits of a record's problems, the first that fits.
_STRINGS: Final = (
    (SHORT, "the record is too short for its header"),
    (NO_HEADER | NO_INDICATOR, "the record does not begin with its header (48, then 45)"),
    (HEADER_LENGTH, "the record header's length does not fit its record"),
    (PART_OVER, "a part of the record runs over it"),
    (MISTYPED, "the partition byte is that of a data record, the type is not"),
    (SYSTEM_KEY_SIZE, "the system key does not have 4 or 8 bytes of the data"),
    (DATA_LENGTH, "the data are not as long as the header states"),
)


def _problems(view: RecordView) -> pa.Array:
    strings = np.full(len(view), None, object)
    for bits, text in reversed(_STRINGS):
        strings[view.problems & bits != 0] = text
    return pa.array(strings, _TEXT)


def _tables(
    source: TrailBytes, view: RecordView, tables: TrailTables
) -> tuple[pa.Array, pa.Array, TrailTables]:
    """Return the table of each record, its index where it has one, and the tables then known."""
    found = find_names(source, view)
    index = found.indexes()
    rows = np.flatnonzero(index >= 0)
    strings = pa.array([*found.strings(lambda _: None), None], _TEXT)
    strings = strings.take(pa.array(np.where(found.codes < 0, len(found.names), found.codes)))
    names = np.full(len(view), None, object)
    done = 0
    for row in np.flatnonzero(view.io_type == IO_METADATA).tolist():
        later = _with_record(source, int(view.offsets[row]), tables)
        if len(later.tables) == len(tables.tables) and later.tables is not tables.tables:
            # An index may mean something else from here on.
            _name_rows(names, rows[(rows >= done) & (rows < row)], index, tables)
            done = row
        tables = later
    _name_rows(names, rows[rows >= done], index, tables)
    if len(rows):
        strings = pc.coalesce(strings, pa.array(names, _TEXT))
    return strings, pa.array(index, _NUMBER, mask=index < 0), tables


def _name_rows(names: Any, rows: Longs, index: Any, tables: TrailTables) -> None:
    """Set the names of rows by their index; one that is not known has no name."""
    used = index[rows]
    for number in np.unique(used).tolist():
        if number in tables.tables:
            names[rows[used == number]] = tables.tables[number].name


def _with_record(source: TrailBytes, place: int, tables: TrailTables) -> TrailTables:
    try:
        record = decode_record(source.data, place, order=source.order, base=source.base)
    except DecodeError:
        return tables
    return tables.with_record(record)


def _partition_index(source: TrailBytes, view: RecordView, head: Structs) -> pa.Array:
    both = BY_TABLE | BY_PARTITION
    there = (view.partition & both == both) & (head["h_length"] == H_FIXED + 4)
    index = np.zeros(len(view), np.int32)
    rows = np.flatnonzero(there)
    index[rows] = source.order.words(source.data, "u2")[view.offsets[rows] + NAME_AT + 2]
    return pa.array(index, mask=~there)


def _redo_addresses(view: RecordView, head: Structs) -> pa.Array:
    """Return where changes and their pieces are in Oracle's redo log."""
    of_changes = (view.role >= Role.CHANGE) & (view.role <= Role.FRAGMENT)
    rows = zip(of_changes, head["audit_rba"].tolist(), head["audit_pos"].tolist(), strict=True)
    return pa.array([redo_address(*place) if is_one else None for is_one, *place in rows], _TEXT)


def _unsigned(numbers: npt.NDArray[np.uint64]) -> pa.Array:
    halves = np.zeros((len(numbers), 2), "<u8")
    halves[:, 0] = numbers
    return pa.Array.from_buffers(UNSIGNED, len(numbers), [None, pa.py_buffer(halves)])


def _ddl(data: pa.Array, rows: Mask) -> pa.Array:
    """Return the fields of DDL records; text that has none as ``text``."""
    if not rows.any():
        return pa.nulls(len(data), _MAP)
    values: list[list[tuple[str, str]] | None] = [None] * len(data)
    for row in np.flatnonzero(rows).tolist():
        raw = data[row].as_py() or b""
        try:
            values[row] = list(read_ddl(raw).items())
        except DecodeError:
            values[row] = [("text", raw.decode("utf-8", "backslashreplace"))]
    return pa.array(values, _MAP)


def _letter(code: int) -> str:
    text = chr(code)
    return text if text.isascii() and text.isprintable() else f"x{code:02x}"


_LETTER: Final = pa.array([_letter(code) for code in range(256)])
_STRANGE: Final = pa.array([None, "the time is in no year from 1 to 9999"])
_TYPE_NAMES: Final = pa.array([type_name(code) for code in range(256)])
