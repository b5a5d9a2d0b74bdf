"""Columns that are not of the copybook: the record's bytes, number and offset, and what its file's name and folders state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.cobol.records.fields import RecordBytes
from trailgate.columnar.gather import gather
from trailgate.errors import DecodeError

RAW_COLUMN, FILE_COLUMN = "_raw", "_file"
NUMBER_COLUMN, OFFSET_COLUMN = "_record_number", "_offset"


class _Added(NamedTuple):
    """A column that is computed of records and the numbers of some of them."""

    type: pa.DataType
    compute: Callable[[RecordBytes, Longs], pa.Array]


def _raws(records: RecordBytes, rows: Longs) -> pa.Array:
    return gather(records.data, records.starts[rows], records.ends[rows])


def _numbers(records: RecordBytes, rows: Longs) -> pa.Array:
    found = records.numbers(rows)
    if found is None:
        raise DecodeError("the number of a record is not known where its file is split")
    return pa.array(found)


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
    """Return whether an added column differs between the records of a file."""
    return name in _COMPUTED


def added_fields(names: Iterable[str]) -> list[pa.Field]:
    """Return the fields of added columns; those that are not computed have one text in all records of a file."""
    return [
        pa.field(name, _COMPUTED[name].type if name in _COMPUTED else pa.string()) for name in names
    ]


def added_columns(
    names: Iterable[str], records: RecordBytes, rows: Longs | None = None
) -> list[pa.Array]:
    """Return added columns of some records, None for all."""
    own = np.arange(len(records)) if rows is None else rows
    return [
        _COMPUTED[name].compute(records, own)
        if name in _COMPUTED
        else pa.array([records.texts.get(name)], pa.string()).take(pa.array(np.zeros_like(own)))
        for name in names
    ]
