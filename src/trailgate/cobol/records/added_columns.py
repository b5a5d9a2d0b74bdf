"""Columns that are not in the copybook: a record's bytes, number and offset, and facts about its file.

The bytes, number and offset are computed for each record. All others, such as the file's name or a
folder's partition value, are the same text for all records of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.cobol.records.record_bytes import RecordBytes
from trailgate.columnar.gather import gather
from trailgate.errors import DecodeError

RAW_COLUMN, FILE_COLUMN = "_raw", "_file"
NUMBER_COLUMN, OFFSET_COLUMN = "_record_number", "_offset"


class _Added(NamedTuple):
    """A computed column: its type, and the function that computes it for the records at some indexes."""

    type: pa.DataType
    compute: Callable[[RecordBytes, Longs], pa.Array]


def _raws(records: RecordBytes, rows: Longs) -> pa.Array:
    return gather(records.data, records.starts[rows], records.ends[rows])


def _numbers(records: RecordBytes, rows: Longs) -> pa.Array:
    numbers = records.numbers(rows)
    if numbers is None:
        raise DecodeError("record numbers are unknown, because the file is read in splits")
    return pa.array(numbers)


def _offsets(records: RecordBytes, rows: Longs) -> pa.Array:
    return pa.array(records.offsets[rows])


_COMPUTED: Final[Mapping[str, _Added]] = MappingProxyType(
    {
        RAW_COLUMN: _Added(pa.binary(), _raws),
        NUMBER_COLUMN: _Added(pa.int64(), _numbers),
        OFFSET_COLUMN: _Added(pa.int64(), _offsets),
    }
)


def is_of_record(name: str) -> bool:
    """Return True if an added column differs between the records of a file, such as their number."""
    return name in _COMPUTED


def make_added_fields(names: Iterable[str]) -> list[pa.Field]:
    """Return the Arrow fields of added columns, such as ``_raw`` and ``_offset``."""
    return [
        pa.field(name, _COMPUTED[name].type if name in _COMPUTED else pa.string()) for name in names
    ]


def make_added_columns(
    names: Iterable[str], records: RecordBytes, rows: Longs | None = None
) -> list[pa.Array]:
    """Compute added columns, such as ``_offset``, of the records ``rows`` (None: of all)."""
    indexes = np.arange(len(records)) if rows is None else rows
    # Other columns have one text for the file. Taking index 0 for each record repeats it.
    return [
        _COMPUTED[name].compute(records, indexes)
        if name in _COMPUTED
        else pa.array([records.texts.get(name)], pa.string()).take(pa.array(np.zeros_like(indexes)))
        for name in names
    ]
