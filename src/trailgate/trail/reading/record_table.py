"""Records as they stand, one row each: every type, known or not, with headers, tokens and data.

Nothing is refused: what is wrong inside a record is told in the row's ``problem``.
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
from trailgate.columnar.views import rows_at
from trailgate.errors import DecodeError
from trailgate.model.operations_schema import COMMIT_TIME
from trailgate.model.positions import format_positions
from trailgate.trail.format.ddl import read_ddl
from trailgate.trail.format.framing import Records
from trailgate.trail.format.metadata import TrailTables
from trailgate.trail.format.record import decode_record
from trailgate.trail.format.record_header import Source, swapped_indicators
from trailgate.trail.format.record_layout import (
    BY_PARTITION,
    BY_TABLE,
    H_FIXED,
    NAME_AT,
    RECORD_HEADS,
    SHORTEST,
)
from trailgate.trail.format.record_parts import Parts, find_parts
from trailgate.trail.format.record_types import IO_DDL, IO_METADATA, type_name
from trailgate.trail.format.times import JULIAN_EPOCH
from trailgate.trail.reading.token_maps import token_columns

_TEXT: Final = pa.string()
_NUMBER: Final = pa.int32()
_MAP: Final = pa.map_(pa.string(), pa.string())
YEAR_1, YEAR_10000 = -62_135_596_800_000_000, 253_402_300_800_000_000  # what date times can be
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
    """Records as rows, and the tables known behind the last of them."""

    batch: pa.RecordBatch
    tables: TrailTables


def record_table(
    source: Source, records: Records, file_number: int, tables: TrailTables
) -> RecordTable:
    """Return these records as rows; ``tables`` are those known in front of them."""
    starts, lengths = records.offsets, records.lengths
    head = _heads(source, starts, lengths)
    parts = find_parts(source, records, head)
    names, index, known = _tables(source, records, (head, parts), tables)
    tokens, user, problem = token_columns(source, parts)
    times = head["io_time"].astype(np.int64) - JULIAN_EPOCH
    strange = (times < YEAR_1) | (times >= YEAR_10000)
    has_data = parts.data.starts > 0
    columns: dict[str, Any] = {
        "position": format_positions(file_number, starts + source.base),
        "length": pa.array(lengths, _NUMBER),
        "type_name": _TYPE_NAMES.take(pa.array(head["io_type"])),
        "table": names,
        "table_index": index,
        "partition_index": _partition_index(source, starts, head),
        "trans_ind": pa.array(_indicators(source, head), _NUMBER),
        "io_time": pa.array(times, mask=strange).view(COMMIT_TIME),
        "audit_pos": _unsigned(head["audit_pos"]),
        "audit_rba": pa.array(head["audit_rba"].astype(np.int64)),
        "tokens": tokens,
        "user_tokens": user,
        "data": gather(source.buffer, parts.data.starts, parts.data.ends, nulls=~has_data),
        "problem": pc.coalesce(parts.problem, problem, _STRANGE.take(pa.array(strange * 1))),
    }
    columns |= {name: pa.array(head[name].astype(np.int32)) for name in _PLAIN}
    columns |= {name: _LETTER.take(pa.array(head[name])) for name in _LETTERS}
    columns["ddl"] = _ddl(columns["data"], head["io_type"] == IO_DDL)
    arrays = [columns[field.name] for field in RECORDS_SCHEMA]
    return RecordTable(pa.RecordBatch.from_arrays(arrays, schema=RECORDS_SCHEMA), known)


def _heads(source: Source, starts: Longs, lengths: Longs) -> Structs:
    """Return the fixed headers; of a record that is too short, zeros."""
    layout = RECORD_HEADS[source.order]
    whole = lengths >= SHORTEST
    if whole.all():
        return rows_at(source.data, starts, NAME_AT).view(layout).reshape(-1)
    head = np.zeros(len(starts), layout)
    head[whole] = rows_at(source.data, starts[whole], NAME_AT).view(layout).reshape(-1)
    head["io_time"][~whole] = JULIAN_EPOCH
    return head


def _indicators(source: Source, head: Structs) -> npt.NDArray[np.int32]:
    indicator = head["trans_ind"]
    swapped = swapped_indicators(head, source.order)
    odd = (indicator > 3) & (swapped <= 3)
    return np.where(odd, swapped, indicator).astype(np.int32)


def _tables(
    source: Source, records: Records, found: tuple[Structs, Parts], tables: TrailTables
) -> tuple[pa.Array, pa.Array, TrailTables]:
    """Return the table of each record, its index where it has one, and the tables then known."""
    head, parts = found
    by_index = (head["partition"] & BY_TABLE != 0) & parts.named
    index = np.zeros(len(head), np.int32)
    rows = np.flatnonzero(by_index)
    index[rows] = source.order.words(source.data, "u2")[records.offsets[rows] + NAME_AT]
    texts = _texts(source, records, parts, parts.named & ~by_index)
    names = np.full(len(head), None, object)
    done = 0
    for row in np.flatnonzero(head["io_type"] == IO_METADATA).tolist():
        behind = _with_record(source, int(records.offsets[row]), tables)
        if any(name != behind.tables[one].name for one, name in _names(tables).items()):
            _name_rows(names, rows[(rows >= done) & (rows < row)], index, tables)
            done = row
        tables = behind
    _name_rows(names, rows[rows >= done], index, tables)
    if len(rows):
        chosen = pa.array(names, pa.string())
        texts = pc.coalesce(texts, chosen)
    return texts, pa.array(index, mask=~by_index), tables


def _names(tables: TrailTables) -> dict[int, str]:
    return {index: known.name for index, known in tables.tables.items()}


def _name_rows(names: Any, rows: Longs, index: Any, tables: TrailTables) -> None:
    """Set the names of rows by their index; one that is not known has no name."""
    used = index[rows]
    for number in np.unique(used).tolist():
        if number in tables.tables:
            names[rows[used == number]] = tables.tables[number].name


def _with_record(source: Source, place: int, tables: TrailTables) -> TrailTables:
    try:
        record = decode_record(source.data, place, order=source.order, base=source.base)
    except DecodeError:
        return tables
    return tables.with_record(record)


def _texts(source: Source, records: Records, parts: Parts, named: Mask) -> pa.Array:
    """Return the name areas' texts up to their NUL; each different area is looked at once."""
    starts = records.offsets + NAME_AT
    areas = gather(source.buffer, starts, parts.name_ends, nulls=~named).dictionary_encode()
    texts = [
        raw.partition(b"\0")[0].decode("utf-8", "backslashreplace")
        for raw in areas.dictionary.to_pylist()
    ]
    return pa.array(texts, pa.string()).take(areas.indices)


def _partition_index(source: Source, starts: Longs, head: Structs) -> pa.Array:
    both = BY_TABLE | BY_PARTITION
    there = (head["partition"] & both == both) & (head["h_length"] == H_FIXED + 4)
    index = np.zeros(len(head), np.int32)
    rows = np.flatnonzero(there)
    index[rows] = source.order.words(source.data, "u2")[starts[rows] + NAME_AT + 2]
    return pa.array(index, mask=~there)


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
