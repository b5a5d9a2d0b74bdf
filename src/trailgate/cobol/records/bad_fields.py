"""What is wrong in the fields of records: an error of the first one, or a column of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.cobol.copybook.item_positions import UNPLACED, Offset
from trailgate.cobol.records.record_bytes import RecordBytes
from trailgate.cobol.values.codec import Explain, Reason
from trailgate.columnar.code_pages.page_text import CodePage, page_text
from trailgate.columnar.gather import gather
from trailgate.errors import DecodeError, Where

ERROR: Final = pa.struct(
    [
        pa.field("field", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("raw", pa.string()),
        pa.field("reason", pa.string()),
    ]
)
CUT_OFF: Final = Reason("the record ends before the field's end")
SURPLUS: Final = Reason(
    "the record has more bytes than the copybook describes",
    "Is it the right copybook, or depending=most? With surplus=drop they are left out",
)
SHOWN: Final = 64  # of the bytes that are too many


@dataclass(frozen=True, slots=True, eq=False)
class Fault:
    """Records in which a field is wrong; the offset counts from the record's begin, UNPLACED where it is not known."""

    field: str
    size: int
    at: Offset
    rows: Mask
    explain: Explain
    page: CodePage | None = None  # of its bytes, where it is not the records'

    def offset(self, row: int) -> int:
        """Return where the field begins in a record."""
        return self.at if isinstance(self.at, int) else int(self.at[row])

    def offsets(self, rows: Longs) -> Longs:
        """Return where the field begins in some records."""
        return np.broadcast_to(self.at, rows.shape) if isinstance(self.at, int) else self.at[rows]


def surplus(records: RecordBytes, extent: Offset, known: Mask | None, name: str) -> Fault | None:
    """Return the fault of records that continue after the end of the layout of that name.

    ``known`` are the records whose extent is known, None for all.
    """
    if records.step is not None and isinstance(extent, int) and records.step <= extent:
        return None
    longer = records.ends - records.starts > extent
    rows = longer if known is None else longer & known
    return Fault(name, SHOWN, extent, rows, lambda _: SURPLUS)


def _raws(records: RecordBytes, fault: Fault, rows: Longs) -> pa.Array:
    """Return a field's bytes in some records, as many as a record has of them."""
    ends = records.ends[rows]
    starts = np.minimum(records.starts[rows] + fault.offsets(rows), ends)
    return gather(records.data, starts, np.minimum(starts + fault.size, ends))


def first_error(records: RecordBytes, faults: list[Fault], page: CodePage) -> DecodeError:
    """Return the error of the first wrong field of the first record that has one.

    ``page`` is the code page of the records, in which the bytes are shown as text.
    """
    row = min(int(np.argmax(fault.rows)) for fault in faults)
    fault = min((f for f in faults if f.rows[row]), key=lambda f: f.offset(row))
    raw = _raws(records, fault, np.array([row]))[0].as_py()
    reason = fault.explain(raw)
    offset = records.base + int(records.starts[row]) + fault.offset(row)
    text = page_text(raw, fault.page or page)
    where = Where(record=records.number(row), offset=offset, field=fault.field, raw=raw, text=text)
    return DecodeError(reason.problem, where=where, hint=reason.hint)


def error_column(records: RecordBytes, faults: list[Fault]) -> pa.Array:
    """Return for each record the list of its wrong fields; an empty one where there is none."""
    where = [np.flatnonzero(fault.rows) for fault in faults]
    found = [_errors(records, f, rows) for f, rows in zip(faults, where, strict=True)]
    values = pa.concat_arrays([pa.array([], ERROR), *found])
    rows = np.concatenate([np.zeros(0, np.int64), *where])
    offsets = values.field("offset").fill_null(UNPLACED).to_numpy(zero_copy_only=False)
    order = np.lexsort((offsets, rows))
    ends = np.searchsorted(rows[order], np.arange(len(records) + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), values.take(pa.array(order)))


def _errors(records: RecordBytes, fault: Fault, rows: Longs) -> pa.Array:
    """Return the errors of a field in some records; each distinct value is explained once."""
    raws = _raws(records, fault, rows).dictionary_encode()
    distinct = raws.dictionary.to_pylist()
    reasons = [". ".join(filter(None, fault.explain(raw))) for raw in distinct]
    offsets = fault.offsets(rows)
    hexed = [raw.hex(" ") for raw in distinct]
    columns = [
        pa.repeat(fault.field, len(rows)),
        pa.array(offsets, pa.int64(), mask=offsets == UNPLACED),
        pa.array(hexed, pa.string()).take(raws.indices),
        pa.array(reasons, pa.string()).take(raws.indices),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(ERROR))
