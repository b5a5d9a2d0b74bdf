"""What is wrong in the fields of records: a stop at the first, or a column that tells of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.errors import DecodeError, Where
from trailgate.messages.fixed.places import Place
from trailgate.messages.fixed.records import Records
from trailgate.messages.fixed.values.codec import Explain, Longs, Mask, Reason

ERROR: Final = pa.struct(
    [
        pa.field("field", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("raw", pa.string()),
        pa.field("reason", pa.string()),
    ]
)
CUT_OFF: Final = Reason("the record ends in front of the field's end")


@dataclass(frozen=True, slots=True, eq=False)
class Fault:
    """Records in which a field is wrong; the offset counts from the record's begin."""

    field: str
    size: int
    at: Place
    rows: Mask
    explain: Explain

    def offset(self, row: int) -> int:
        """Return where the field begins in a record."""
        return self.at if isinstance(self.at, int) else int(self.at[row])


def _raw(records: Records, fault: Fault, row: int) -> bytes:
    start = int(records.starts[row]) + fault.offset(row)
    end = min(start + fault.size, int(records.ends[row]))
    return records.data[start : max(start, end)].tobytes()


def first_error(records: Records, faults: list[Fault]) -> DecodeError:
    """Return the error of the first wrong field of the first record that has one."""
    row = min(int(np.argmax(fault.rows)) for fault in faults)
    fault = min((f for f in faults if f.rows[row]), key=lambda f: f.offset(row))
    raw = _raw(records, fault, row)
    reason = fault.explain(raw)
    offset = records.base + int(records.starts[row]) + fault.offset(row)
    where = Where(record=records.first + row, offset=offset, field=fault.field, raw=raw)
    return DecodeError(reason.problem, where=where, hint=reason.hint)


def error_column(records: Records, faults: list[Fault]) -> pa.Array:
    """Return for each record the list of its wrong fields; an empty one where there is none."""
    found = [(row, fault) for fault in faults for row in np.flatnonzero(fault.rows).tolist()]
    found.sort(key=lambda pair: (pair[0], pair[1].offset(pair[0])))
    rows: Longs = np.array([row for row, _ in found], np.int64)
    offsets = np.searchsorted(rows, np.arange(len(records) + 1)).astype(np.int32)
    values = pa.array([_told(records, fault, row) for row, fault in found], ERROR)
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _told(records: Records, fault: Fault, row: int) -> dict[str, object]:
    raw = _raw(records, fault, row)
    problem, hint = fault.explain(raw)
    return {
        "field": fault.field,
        "offset": fault.offset(row),
        "raw": raw.hex(" "),
        "reason": f"{problem}. {hint}" if hint else problem,
    }
