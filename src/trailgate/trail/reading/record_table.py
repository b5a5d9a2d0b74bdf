"""Read records as a table with one row per record: headers, tokens and data of every record type, known or not.

A damaged record never raises an error: the column ``problem`` of its row describes the damage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Structs
from trailgate.columnar.gather import gather
from trailgate.errors import DecodeError
from trailgate.model.changes import COMMIT_TIME
from trailgate.model.operations_table import mask_undatable
from trailgate.model.positions import format_positions
from trailgate.trail.format.record_header import (
    BY_PARTITION,
    BY_TABLE,
    H_FIXED,
    NAME_AT,
    format_redo_address,
)
from trailgate.trail.format.record_types import IO_DDL, IO_METADATA, RecordRole, type_name
from trailgate.trail.format.tokens import FRAME
from trailgate.trail.reading.tokens import build_token_columns
from trailgate.trail.records.framing import Spans, TrailBytes
from trailgate.trail.records.record import decode_record
from trailgate.trail.records.record_data import read_ddl
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
from trailgate.trail.records.record_view import RecordColumns, find_names
from trailgate.trail.records.table_metadata import TrailTables

_TEXT: Final = pa.string()
_NUMBER: Final = pa.int32()
_MAP: Final = pa.map_(pa.string(), pa.string())
UNSIGNED: Final = pa.decimal128(20, 0)  # Spark has no unsigned integers

RECORDS_SCHEMA: Final = pa.schema(
    [
        ("position", _TEXT),  # 10 digits of file number and 10 of byte offset
        ("length", _NUMBER),  # of the complete record
        ("io_type", _NUMBER),
        ("type_name", _TEXT),  # as Logdump prints it
        ("table", _TEXT),  # the name area's text, or the name of the table index
        ("table_index", _NUMBER),
        ("partition_index", _NUMBER),
        ("image", _TEXT),  # A after, B before
        ("trans_ind", _NUMBER),  # 0 first, 1 middle, 2 last, 3 only
        ("io_time", COMMIT_TIME),
        ("audit_pos", UNSIGNED),
        ("audit_rba", pa.int64()),
        ("redo_address", _TEXT),  # Oracle: sequence, block and offset
        ("partition", _NUMBER),
        ("undo", _NUMBER),
        ("node", _NUMBER),
        ("format", _TEXT),  # R from the log, F fetched
        ("syskey_length", _NUMBER),
        ("incomplete", _NUMBER),
        ("continued", _NUMBER),
        ("record_count", _NUMBER),
        ("data_length", _NUMBER),  # as stated in the header
        ("tokens", _MAP),
        ("user_tokens", _MAP),
        ("data", pa.binary()),  # null: the record has no data
        ("ddl", _MAP),  # the fields of a DDL record by name; null for other records
        ("problem", _TEXT),  # null: no problem
    ]
)
_PLAIN: Final = (
    "io_type", "partition", "undo", "node", "syskey_length", "incomplete", "continued",
    "record_count", "data_length",
)  # fmt: skip
_LETTERS: Final = ("image", "format")

# The texts for a record's problems. The first row with one of the record's bits counts.
_STRINGS: Final = (
    (SHORT, "the record is too short for its header"),
    (NO_HEADER | NO_INDICATOR, "the record does not begin with its header (48, then 45)"),
    (HEADER_LENGTH, "the record header's length does not fit its record"),
    (PART_OVER, "a part of the record exceeds it"),
    (MISTYPED, "the partition byte is that of a data record, but the type is not"),
    (SYSTEM_KEY_SIZE, "the system key does not have 4 or 8 bytes of the data"),
    (DATA_LENGTH, "the data are not as long as the header states"),
)

_TIME_PROBLEM: Final = pa.array([None, "the time is not in the years 1 to 9999"], pa.string())
_TYPE_NAMES: Final = pa.array([type_name(code) for code in range(256)], pa.string())


@dataclass(frozen=True, slots=True)
class RecordTable:
    """Trail records as an Arrow batch with one row per record, and the tables known after the last record."""

    batch: pa.RecordBatch
    tables: TrailTables


def build_record_table(
    source: TrailBytes,
    view: RecordColumns,
    file_number: int,
    tables: TrailTables,
    *,
    oracle: bool = False,
) -> RecordTable:
    """Convert the records of ``view`` to a table with one row per record.

    ``tables`` are the tables known before them.

    With ``oracle``, AuditPos and AuditRBA are formatted as an address in Oracle's redo log.
    """
    head = view.headers(source.data, source.order)
    names, index, known = _tables(source, view, tables)
    data, tokens, user = (_whole(view, part) for part in (view.data, view.tokens, view.user))
    token_maps, user_maps, problem = build_token_columns(source, tokens, user)
    undated = mask_undatable(view.io_time)
    has_data = (data.sizes > 0) | (view.problems & EMPTY_DATA != 0)
    columns: dict[str, Any] = {
        "position": format_positions(file_number, view.offsets + source.base),
        "length": pa.array(view.lengths, _NUMBER),
        "type_name": _TYPE_NAMES.take(pa.array(view.io_type)),
        "table": names,
        "table_index": index,
        "partition_index": _partition_index(source, view, head),
        "trans_ind": pa.array(view.indicator, _NUMBER),
        "io_time": pa.array(view.io_time, mask=undated).view(COMMIT_TIME),
        "audit_pos": _unsigned(head["audit_pos"]),
        "audit_rba": pa.array(head["audit_rba"].astype(np.int64)),
        "redo_address": _redo_addresses(view, head) if oracle else pa.nulls(len(view), _TEXT),
        "tokens": token_maps,
        "user_tokens": user_maps,
        "data": gather(source.buffer, data.starts, data.ends, nulls=~has_data),
        "problem": pc.coalesce(_problems(view), problem, _TIME_PROBLEM.take(pa.array(undated * 1))),
    }
    columns |= {name: pa.array(head[name].astype(np.int32)) for name in _PLAIN}
    # ``_LETTER`` has a string for each of the 256 bytes, so that a lookup converts the column.
    columns |= {name: _LETTER.take(pa.array(head[name])) for name in _LETTERS}
    # The statement of DDL records is in their data, so this needs the column above.
    columns["ddl"] = _ddl(columns["data"], view.io_type == IO_DDL)
    arrays = [columns[field.name] for field in RECORDS_SCHEMA]
    return RecordTable(pa.RecordBatch.from_arrays(arrays, schema=RECORDS_SCHEMA), known)


def _whole(view: RecordColumns, part: Spans) -> Spans:
    """Return the span of a part, such as the data, for each trail record. It is empty if the part is cut off by the record's end."""
    over = (view.problems & PART_OVER != 0) & (part.ends == view.offsets + view.lengths - FRAME)
    return Spans(part.starts, np.where(over, part.starts, part.ends)) if over.any() else part


def _problems(view: RecordColumns) -> pa.Array:
    strings = np.full(len(view), None, object)
    for bits, text in reversed(_STRINGS):
        strings[view.problems & bits != 0] = text
    return pa.array(strings, _TEXT)


def _tables(
    source: TrailBytes, view: RecordColumns, tables: TrailTables
) -> tuple[pa.Array, pa.Array, TrailTables]:
    """Return the table name and the table index of each trail record, and the tables known after the last one.

    ``tables`` are the tables known before the first one.
    """
    names_of_records = find_names(source, view)
    index = names_of_records.indexes()
    rows = np.flatnonzero(index >= 0)
    # Records without a name have the code -1: they select the null after the last name.
    strings = pa.array([*names_of_records.strings(lambda _: None), None], _TEXT)
    strings = strings.take(
        pa.array(
            np.where(
                names_of_records.codes < 0, len(names_of_records.names), names_of_records.codes
            )
        )
    )
    names = np.full(len(view), None, object)
    done = 0
    for row in np.flatnonzero(view.io_type == IO_METADATA).tolist():
        later = _with_record(source, int(view.offsets[row]), tables)
        if len(later.tables) == len(tables.tables) and later.tables is not tables.tables:
            # A known index may change its meaning here: name the rows so far by its old meaning.
            _name_rows(names, rows[(rows >= done) & (rows < row)], index, tables)
            done = row
        tables = later
    _name_rows(names, rows[rows >= done], index, tables)
    if len(rows):
        strings = pc.coalesce(strings, pa.array(names, _TEXT))
    return strings, pa.array(index, _NUMBER, mask=index < 0), tables


def _name_rows(names: Any, rows: Longs, index: Any, tables: TrailTables) -> None:
    """Set ``names`` for the records at ``rows``, by their table index. An unknown index leaves the name null."""
    used = index[rows]
    for number in np.unique(used).tolist():
        if number in tables.tables:
            names[rows[used == number]] = tables.tables[number].name


def _with_record(source: TrailBytes, offset: int, tables: TrailTables) -> TrailTables:
    try:
        record = decode_record(source.data, offset, order=source.order, base=source.base)
    except DecodeError:
        return tables
    return tables.with_record(record)


def _partition_index(source: TrailBytes, view: RecordColumns, head: Structs) -> pa.Array:
    both = BY_TABLE | BY_PARTITION
    has_index = (view.partition & both == both) & (head["h_length"] == H_FIXED + 4)
    index = np.zeros(len(view), np.int32)
    rows = np.flatnonzero(has_index)
    # The name area has two u16 numbers, the index of the table and that of the partition.
    index[rows] = source.order.words(source.data, "u2")[view.offsets[rows] + NAME_AT + 2]
    return pa.array(index, mask=~has_index)


def _redo_addresses(view: RecordColumns, head: Structs) -> pa.Array:
    """Return the redo log address of changes and their pieces. It is null for other records."""
    of_changes = (view.role >= RecordRole.CHANGE) & (view.role <= RecordRole.FRAGMENT)
    rows = zip(of_changes, head["audit_rba"].tolist(), head["audit_pos"].tolist(), strict=True)
    return pa.array(
        [format_redo_address(*at) if is_change else None for is_change, *at in rows], _TEXT
    )


def _unsigned(numbers: npt.NDArray[np.uint64]) -> pa.Array:
    # A decimal128 is 16 bytes, little-endian: the u64, then eight zeros.
    halves = np.zeros((len(numbers), 2), "<u8")
    halves[:, 0] = numbers
    return pa.Array.from_buffers(UNSIGNED, len(numbers), [None, pa.py_buffer(halves)])


def _ddl(data: pa.Array, rows: Mask) -> pa.Array:
    """Return the fields of the DDL records, marked in ``rows``, as maps. Text without fields becomes the field ``text``."""
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


_LETTER: Final = pa.array([_letter(code) for code in range(256)], pa.string())
