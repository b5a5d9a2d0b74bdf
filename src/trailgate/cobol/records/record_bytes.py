"""COBOL records in a buffer: their boundaries, and copies of the bytes of an item.

``RecordBytes`` is a set of records in one buffer. The functions copy the bytes of an item from all
records into a matrix, which a codec then decodes at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from dataclasses import field as member
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from trailgate.arrays import Longs, Mask, Octets, octets
from trailgate.cobol.copybook.placed_items import PlacedItem
from trailgate.cobol.records.record_bytes_kernels import copy_columns, copy_present
from trailgate.columnar.gather import sliding_windows

Items = npt.NDArray[Any]


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
    """Cut bytes into a ``RecordBytes`` of contiguous records of one length, without an incomplete record at the end."""
    found = octets(data)
    starts = np.arange(0, len(found) - length + 1, length, dtype=np.int64)
    return RecordBytes(
        data=found, starts=starts, ends=starts + length, first=first, base=base, step=length
    )


def find_cut_records(records: RecordBytes, item: PlacedItem) -> Mask | None:
    """Return a mask of the records whose bytes end before the item's last byte, or None if no record's do."""
    end = item.offset + item.field.size
    if records.step is not None and isinstance(end, int):
        return None if end <= records.step else np.ones(len(records), bool)
    found: Mask = records.starts + end > records.ends
    return found if found.any() else None


def copy_items(records: RecordBytes, item: PlacedItem, usable: Mask | None, target: Octets) -> None:
    """Copy the bytes of an item from each record of a ``RecordBytes`` into the rows of a matrix.

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
            slots[usable] = sliding_windows(records.data, size)[starts]


def copy_items_of_one_size(records: RecordBytes, items: list[PlacedItem], target: Octets) -> bool:
    """Copy items of one size, such as all occurrences of an OCCURS, from a ``RecordBytes`` into a matrix, item by item.

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
    """Copy the part of an item that each short record of a ``RecordBytes`` contains, and pad the rest with ``fill``."""
    rows = np.flatnonzero(short)
    # resize repeats the fill: b"ab" in five bytes is b"ababa".
    target[rows] = np.resize(np.frombuffer(fill, np.uint8), target.shape[1])
    starts = (records.starts + item.offset)[rows]
    copy_present(
        records.data, starts, records.ends[rows], rows, item.field.size, target.reshape(-1)
    )


def count_bytes_present(records: RecordBytes, item: PlacedItem) -> Longs:
    """Return how many bytes of the item each record's bytes contain; 0 or less if the record ends before the item."""
    values: Longs = records.ends - records.starts - item.offset
    return np.minimum(values, item.field.size)


def matrix_of(records: RecordBytes, item: PlacedItem) -> Octets:
    """Return the bytes of an item in all records of a ``RecordBytes`` as a matrix, a view of the buffer if possible.

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
        # ``sliding_windows`` views the data as overlapping items of ``size`` bytes, one from each offset on. So an
        # index selects the item that begins there.
        chosen: Items = sliding_windows(records.data, size)[records.starts + item.offset]
        return chosen
    offset = int(records.starts[0]) + item.offset
    return np.ndarray((len(records),), f"V{size}", records.data, offset, (records.step,))
