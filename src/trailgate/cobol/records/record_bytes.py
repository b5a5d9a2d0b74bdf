"""COBOL records in a buffer: their boundaries, the bytes of an item, errors, and nested columns.

``RecordBytes`` is a set of records in one buffer. The functions copy the bytes of an item from all
records into a matrix, build structs for groups and lists for OCCURS from decoded columns, and
report bad fields: as an error for the first bad field, or as a column with the errors of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as member
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.cobol.copybook.flat_columns import make_names_distinct
from trailgate.cobol.copybook.items import (
    UNPLACED,
    GroupItem,
    ItemNode,
    Offset,
    PlacedItem,
    RepeatedItem,
)
from trailgate.cobol.records.kernels import copy_columns, copy_present, find_padding_runs
from trailgate.cobol.values.codec import Classify, Explain, FaultExplanation, FaultReason
from trailgate.columnar.code_pages import CodePage, decode_with_page
from trailgate.columnar.gather import gather
from trailgate.columnar.rows import octets, windows
from trailgate.errors import DecodeError, Where, count_noun

Items = npt.NDArray[Any]

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


@dataclass(frozen=True, slots=True, eq=False)
class RecordBytes:
    """The bytes of COBOL records in a buffer; record i is ``data[starts[i]:ends[i]]``.

    - ``first`` is the number of records before these in the source (None if unknown), and ``base`` the offset of the buffer in the source, for error messages.
    - ``step`` is the distance between records if they are evenly spaced, without gaps.
    - ``places`` are the offsets of the records in the source if the buffer was assembled from several parts of it, for example from segments.
    - ``texts`` are the values of columns that are the same for all records of the source.
    """

    data: Octets
    starts: Longs
    ends: Longs
    first: int | None = 0
    base: int = 0
    step: int | None = None
    places: Longs | None = None
    texts: Mapping[str, str | None] = member(default_factory=lambda: MappingProxyType({}))
    given_numbers: Longs | None = None  # record numbers, if records between these were removed

    def __len__(self) -> int:
        return len(self.starts)

    def part(self, begin: int, end: int) -> RecordBytes:
        """Return the records from index ``begin`` to before ``end``."""
        cut = slice(begin, end)
        first = None if self.first is None else self.first + begin
        numbers = None if self.given_numbers is None else self.given_numbers[cut]
        return replace(self._rows(cut), first=first, given_numbers=numbers)

    def take(self, rows: Longs) -> RecordBytes:
        """Return the records at these indexes. They are renumbered from 1."""
        return replace(self._rows(rows), first=0, step=None, given_numbers=None)

    def without(self, rows: Mask) -> RecordBytes:
        """Return the records that the mask does not select. They keep their numbers."""
        kept = np.flatnonzero(~rows)
        return replace(self._rows(kept), step=None, given_numbers=self.numbers(kept))

    def followed_by(self, others: RecordBytes) -> RecordBytes:
        """Return these records and ``others`` together, in a new buffer. Both must be contiguous.

        Unless these are none, numbers and offsets in the source are lost.
        """
        if not len(self):
            return others
        # The joined buffer is the used bytes of these records, and then all bytes of the others. So
        # offsets move back by the unused bytes before the first record, and the others' forward.
        data = self.data[int(self.starts[0]) : int(self.ends[-1])]
        begin, move = int(self.starts[0]), len(data)
        starts = np.append(self.starts - begin, others.starts + move)
        return RecordBytes(
            np.append(data, others.data), starts, np.append(self.ends - begin, others.ends + move)
        )

    def _rows(self, rows: slice | Longs) -> RecordBytes:
        places = None if self.places is None else self.places[rows]
        return replace(self, starts=self.starts[rows], ends=self.ends[rows], places=places)

    @property
    def offsets(self) -> Longs:
        """The offsets of the records in their source file."""
        return self.base + self.starts if self.places is None else self.places

    def number(self, row: int) -> int | None:
        """Return the number of a record in its source, from 1, or None if unknown."""
        found = self.numbers(np.array([row]))
        return None if found is None else int(found[0])

    def numbers(self, rows: Longs) -> Longs | None:
        """Return the numbers of records in their source, from 1, or None if unknown."""
        if self.first is None:
            return None
        return self.first + rows + 1 if self.given_numbers is None else self.given_numbers[rows]


def records_at(
    data: Any, starts: Longs, ends: Longs, *, first: int | None = 0, base: int = 0
) -> RecordBytes:
    """Return the records ``data[start:end]`` as ``RecordBytes``, and detect whether they are evenly spaced."""
    # Evenly spaced means: all of one length, and without gaps.
    step = None
    if len(starts):
        length = int(ends[0] - starts[0])
        even = (ends - starts == length).all() and (np.diff(starts) == length).all()
        step = length if even else None
    return RecordBytes(
        data=octets(data), starts=starts, ends=ends, first=first, base=base, step=step
    )


def records_of_length(data: Any, length: int, *, first: int = 0, base: int = 0) -> RecordBytes:
    """Cut data into contiguous records of one length, without an incomplete record at the end."""
    found = octets(data)
    starts = np.arange(0, len(found) - length + 1, length, dtype=np.int64)
    return RecordBytes(
        data=found, starts=starts, ends=starts + length, first=first, base=base, step=length
    )


def find_cut_records(records: RecordBytes, item: PlacedItem) -> Mask | None:
    """Return a mask of the records that end before the item's last byte, or None if no record does."""
    end = item.offset + item.field.size
    if records.step is not None and isinstance(end, int):
        return None if end <= records.step else np.ones(len(records), bool)
    found: Mask = records.starts + end > records.ends
    return found if found.any() else None


def copy_items(records: RecordBytes, item: PlacedItem, usable: Mask | None, target: Octets) -> None:
    """Copy the bytes of a COBOL item from each record into the rows of a matrix.

    The rows of records that are not ``usable`` stay unchanged.
    """
    size = item.field.size
    # Each row viewed as one void scalar of ``size`` bytes, so that numpy copies it at once.
    slots: Items = target.view(f"V{size}")[:, 0]
    if usable is None:
        slots[:] = _items(records, item, size)
    else:
        starts = (records.starts + item.offset)[usable]
        if len(starts):
            slots[usable] = windows(records.data, size)[starts]


def copy_alike(records: RecordBytes, items: list[PlacedItem], target: Octets) -> bool:
    """Copy items of one size, such as all occurrences of an OCCURS, into a matrix, item by item.

    Returns False, and copies nothing, if the records are not evenly spaced, or if an item's offset
    is not the same in all records.
    """
    offsets = [item.offset for item in items]
    if records.step is None or not all(isinstance(one, int) for one in offsets):
        return False
    begin, size = int(records.starts[0]), target.shape[1]
    copy_columns(records.data, begin, records.step, np.array(offsets), size, target.reshape(-1))
    return True


def copy_short_items(
    records: RecordBytes, item: PlacedItem, short: Mask, fill: bytes, target: Octets
) -> None:
    """Copy the part of an item that each short record contains, and pad the rest with ``fill``."""
    rows = np.flatnonzero(short)
    # resize repeats the fill: b"ab" in five bytes is b"ababa".
    target[rows] = np.resize(np.frombuffer(fill, np.uint8), target.shape[1])
    starts = (records.starts + item.offset)[rows]
    copy_present(
        records.data, starts, records.ends[rows], rows, item.field.size, target.reshape(-1)
    )


def count_bytes_present(records: RecordBytes, item: PlacedItem) -> Longs:
    """Return how many bytes of the item each record contains; 0 or less if it ends before the item."""
    values: Longs = records.ends - records.starts - item.offset
    return np.minimum(values, item.field.size)


def matrix_of(records: RecordBytes, item: PlacedItem) -> Octets:
    """Return the bytes of an item in all records as a matrix, a view of the buffer if possible.

    All records must have the complete item.
    """
    size = item.field.size
    if records.step is None or not isinstance(item.offset, int):
        return _items(records, item, size).view(np.uint8).reshape(len(records), size)
    # A view: from one row to the next are ``step`` bytes, from one byte to the next is one.
    offset = int(records.starts[0]) + item.offset
    strides = (records.step, 1)
    return np.ndarray((len(records), size), np.uint8, records.data, offset, strides)


def _items(records: RecordBytes, item: PlacedItem, size: int) -> Items:
    if records.step is None or not isinstance(item.offset, int):
        # ``windows`` views the data as overlapping items of ``size`` bytes, one from each offset on. So an
        # index selects the item that begins there.
        chosen: Items = windows(records.data, size)[records.starts + item.offset]
        return chosen
    offset = int(records.starts[0]) + item.offset
    return np.ndarray((len(records),), f"V{size}", records.data, offset, (records.step,))


PolicyCounts = Counter[tuple[str, str, str]]


class PolicyTally(PolicyCounts):
    """Counts how many values or records each policy option was applied to.

    The key is the option with its value (``padding=left``), the record's name, and the item ("" for
    records).
    """

    def lines(self) -> Iterator[str]:
        """Yield a summary line per policy option, for example ``padding=left: 12 values (AMOUNT 9, QTY 3)``."""
        several = len({record for _, record, _ in self}) > 1
        policies: dict[str, list[tuple[str, int]]] = {}
        for (policy, record, item), count in sorted(self.items()):
            name = f"{record}.{item}" if several and item else item or record
            policies.setdefault(policy, []).append((name, count))
        items = {policy for policy, _, item in self if item}
        for policy, counts in policies.items():
            total = count_noun(
                sum(count for _, count in counts), "value" if policy in items else "record"
            )
            names = ", ".join(f"{name} {count:,}" for name, count in counts)
            yield f"{policy}: {total} ({names})"


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
    """Find the records that have bytes after the end of the layout ``name``.

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


def find_padded_rows(records: RecordBytes, longer: FieldFault, page: CodePage) -> Mask:
    """Return a mask of the records whose trailing bytes are only blanks and low-values.

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


Columns = Mapping[PlacedItem, pa.Array]


def members_of(node: ItemNode, columns: Columns, rows: int) -> list[tuple[str, pa.Array]]:
    """Return the names and columns that an item or group adds to its parent's struct.

    A nameless group adds its members directly; an item without a column adds nothing.
    """
    if isinstance(node, PlacedItem):
        return [(node.field.name, columns[node])] if node in columns else []
    if isinstance(node, RepeatedItem):
        array = _list(node, columns, rows)
        return [] if array is None else [(node.field.name, array)]
    below = _members(node, columns, rows)
    if node.field.filler:
        return below
    return [(node.field.name, _struct(below))] if below else []


def _members(group: GroupItem, columns: Columns, rows: int) -> list[tuple[str, pa.Array]]:
    below: list[tuple[str, pa.Array]] = []
    for child in group.members:
        if isinstance(child, PlacedItem):  # nearly all are; a list for each would take time
            if child in columns:
                below.append((child.field.name, columns[child]))
        else:
            below += members_of(child, columns, rows)
    names = make_names_distinct([name for name, _ in below])
    return list(zip(names, (array for _, array in below), strict=True))


def record_members(root: ItemNode, columns: Columns, rows: int) -> list[tuple[str, pa.Array]]:
    """Return the names and columns of a record in nested form: the members of its root."""
    if not isinstance(root, GroupItem):
        return members_of(root, columns, rows)
    return _members(root, columns, rows)


def _struct(below: list[tuple[str, pa.Array]]) -> pa.Array:
    return pa.StructArray.from_arrays([array for _, array in below], [name for name, _ in below])


def _list(node: RepeatedItem, columns: Columns, rows: int) -> pa.Array | None:
    elements = [_element(element, columns, rows) for element in node.elements]
    arrays = [array for array in elements if array is not None]
    if not arrays:
        return None
    most = len(arrays)
    # The elements are concatenated one after the other: element e of row r is at e * rows + r. For
    # 2 elements of 3 rows the indexes are 0 3, 1 4, 2 5. With counts 1, 2, 0 only 0, 1, 4 remain.
    indexes = np.arange(rows)[:, None] + np.arange(most)[None, :] * rows
    if node.count is None:
        counts = np.full(rows, most)
        chosen = indexes.reshape(-1)
    else:
        counts = np.minimum(node.count, most)
        chosen = indexes[np.arange(most)[None, :] < counts[:, None]]
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    values = pa.concat_arrays(arrays).take(pa.array(chosen))
    mask = None if node.unknown is None else pa.array(node.unknown)
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=mask)


def _element(node: ItemNode, columns: Columns, rows: int) -> pa.Array | None:
    member_arrays = members_of(node, columns, rows)
    if not member_arrays:
        return None
    if isinstance(node, GroupItem) and node.field.filler:
        return _struct(member_arrays)
    return member_arrays[0][1]
