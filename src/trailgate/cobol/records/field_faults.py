"""The problems of fields in COBOL records: bad values, cut fields and trailing bytes.

A ``FieldFault`` has the records in which one field is bad. ``ChunkFindings`` collects the faults of
a chunk of records. They become an error for the first bad field, or a column with the errors of all
(``_errors``).
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as member
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.cobol.copybook.placed_items import UNPLACED, Offset, PlacedItem
from trailgate.cobol.records.policy_counts import PolicyTally
from trailgate.cobol.records.record_bytes import RecordBytes
from trailgate.cobol.records.record_bytes_kernels import find_padding_runs
from trailgate.cobol.values.codec import Classify, Explain, FaultExplanation, FaultReason
from trailgate.columnar.code_pages import CodePage, decode_with_page
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
CUT_OFF: Final = FaultExplanation(
    "the record ends before the field's end",
    "The option short reads records that end early; for missing numbers see the option blank",
)
CUT_REDEFINED: Final = FaultExplanation(
    CUT_OFF.problem,
    "Other items redefine it. If a field chooses between them, use the option kinds; otherwise the option short reads records that end early",
)
SURPLUS: Final = FaultExplanation(
    "the record has more bytes than the copybook describes",
    "Is the copybook, or depending=most, wrong? surplus=drop drops the bytes, surplus=padding if they are blanks",
)
SHOWN: Final = 64  # the most trailing bytes shown in an error


@dataclass(slots=True)
class ChunkFindings:
    """The problems found in a chunk of records, and the counts of the policy options that were applied."""

    rows: int
    faults: list[FieldFault] = member(default_factory=list)
    tally: PolicyTally = member(default_factory=PolicyTally)
    short: Mask = member(init=False)  # records in which an incomplete item was accepted

    def __post_init__(self) -> None:
        self.short = np.zeros(self.rows, bool)

    def count(self, policy: str, record: str, rows: Mask, item: str = "") -> None:
        """Add the number of selected rows to the count of a policy option."""
        number = int(np.count_nonzero(rows))
        if number:
            self.tally[policy, record, item] += number


@dataclass(frozen=True, slots=True, eq=False)
class FieldFault:
    """The records in which a field's bytes are wrong (mask ``rows``), and the reason.

    ``at`` is the field's offset in the record, or UNPLACED if the offset is unknown, and ``size``
    the number of bytes to show in the error. ``explain`` explains one value in words; ``why`` is
    the reason, or a function that finds it for many values.
    """

    field: str
    size: int
    at: Offset
    rows: Mask
    explain: Explain
    why: FaultReason | Classify
    page: CodePage | None = None  # the field's code page, if it is not the record's

    def offset(self, row: int) -> int:
        """Return the wrong field's offset in a record."""
        return self.at if isinstance(self.at, int) else int(self.at[row])

    def offsets(self, rows: Longs) -> Longs:
        """Return the wrong field's offset in each of several records."""
        return np.broadcast_to(self.at, rows.shape) if isinstance(self.at, int) else self.at[rows]

    def raw(self, records: RecordBytes, row: int) -> bytes:
        """Return the wrong field's bytes in a record. There are fewer if the record ends inside the field."""
        raws: bytes = _raws(records, self, np.array([row]))[0].as_py()
        return raws


class FaultyRecords(NamedTuple):
    """All records of one layout in a chunk, good or bad, and the problems in them.

    ``record`` is the layout's name, or "" for records of unknown kind. ``numbers`` are the records'
    numbers in the source. If it is None, ``records.number`` returns them.
    """

    record: str
    records: RecordBytes
    faults: list[FieldFault]
    numbers: Longs | None = None


def trailing_fault(
    records: RecordBytes, extent: Offset, known: Mask | None, name: str
) -> FieldFault | None:
    """Build the fault of records that have bytes after the end of the layout ``name``.

    ``extent`` is the layout's length in each record. ``known`` is a mask of the records whose extent
    is known; None means all. Returns None if no record can be too long.
    """
    if records.step is not None and isinstance(extent, int) and records.step <= extent:
        return None
    # Records of unknown extent are not checked.
    longer = records.ends - records.starts > extent
    rows = longer if known is None else longer & known
    return FieldFault(
        field=name,
        size=SHOWN,
        at=extent,
        rows=rows,
        explain=lambda _: SURPLUS,
        why=FaultReason.SURPLUS,
    )


def find_padding_after_layout(records: RecordBytes, longer: FieldFault, page: CodePage) -> Mask:
    """Return a mask of the records with a trailing fault whose trailing bytes are only blanks and low-values.

    ``longer`` is the result of ``trailing_fault``.
    """
    rows = np.flatnonzero(longer.rows)
    pads = np.zeros(256, bool)
    pads[[0, *page.blank]] = True
    padded = np.zeros(len(records), bool)
    is_padding = np.empty(len(rows), bool)
    starts = records.starts[rows] + longer.offsets(rows)
    find_padding_runs(records.data, starts, records.ends[rows], pads, is_padding)
    # ``rows`` are the indexes of the records with trailing bytes.
    padded[rows] = is_padding
    return padded


def _raws(records: RecordBytes, fault: FieldFault, rows: Longs) -> pa.Array:
    """Return the bytes of a bad field in several records.

    The bytes are cut if a record ends inside the field.
    """
    ends = records.ends[rows]
    # A record may end before the field: start and end are then equal, and the bytes empty.
    starts = np.minimum(records.starts[rows] + fault.offsets(rows), ends)
    return gather(records.data, starts, np.minimum(starts + fault.size, ends))


def first_error(records: RecordBytes, faults: list[FieldFault], page: CodePage) -> DecodeError:
    """Build the error for the first bad field in the first bad record.

    ``page`` is the code page in which the bytes are shown as text.
    """
    # argmax of a mask is its first True.
    row = min(int(np.argmax(fault.rows)) for fault in faults)
    fault = min((f for f in faults if f.rows[row]), key=lambda f: f.offset(row))
    raw = fault.raw(records, row)
    reason = fault.explain(raw)
    offset = int(records.offsets[row]) + fault.offset(row)
    text = decode_with_page(raw, fault.page or page)
    where = Where(record=records.number(row), offset=offset, field=fault.field, raw=raw, text=text)
    return DecodeError(reason.problem, where=where, hint=reason.hint)


def error_column(records: RecordBytes, faults: list[FieldFault]) -> pa.Array:
    """Build the column ``_errors``: a list per record, which is empty if the record has no errors."""
    where = [np.flatnonzero(fault.rows) for fault in faults]
    errors = [_errors(records, f, rows) for f, rows in zip(faults, where, strict=True)]
    values = pa.concat_arrays([pa.array([], ERROR), *errors])
    rows = np.concatenate([np.zeros(0, np.int64), *where])
    offsets = values.field("offset").fill_null(UNPLACED).to_numpy(zero_copy_only=False)
    # Sort by record, then by offset; ``ends`` are the list offsets: the number of errors before
    # each record.
    order = np.lexsort((offsets, rows))
    ends = np.searchsorted(rows[order], np.arange(len(records) + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), values.take(pa.array(order)))


def _errors(records: RecordBytes, fault: FieldFault, rows: Longs) -> pa.Array:
    """Return the elements of the column ``_errors`` for one bad field, one for each of ``rows``.

    Each distinct value is explained only once.
    """
    # Bad values repeat, so explain each distinct one only once.
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


def short_fault(item: PlacedItem, rows: Mask) -> FieldFault:
    """Build the fault of records that end before, or inside, an item."""
    reason = CUT_REDEFINED if _is_redefined(item) else CUT_OFF
    return FieldFault(
        field=item.name,
        size=item.field.size,
        at=item.offset,
        rows=rows,
        explain=lambda _: reason,
        why=FaultReason.SHORT,
    )


def _is_redefined(item: PlacedItem) -> bool:
    """Return True if a REDEFINES shares bytes with the item or with a group around it."""
    for group, field in pairwise((*item.groups, item.field)):
        # Two fields share bytes if one redefines the other, or both redefine a third.
        base = (field.redefines or field.name).upper()
        for other in group.children:
            if other is field or other.filler:
                continue
            if (other.redefines or "").upper() == base or other.name.upper() == base:
                return True
    return False
