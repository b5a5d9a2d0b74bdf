"""RecordBytes in a buffer: where each begins and ends, and the bytes of one item of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trailgate.arrays import Longs, Mask, Octets
from trailgate.cobol.copybook.item_positions import Item
from trailgate.columnar.views import octets, windows

Items = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class RecordBytes:
    """RecordBytes of a buffer.

    ``first`` is how many records of the source precede these, None if that is unknown, and ``base`` the offset of
    the buffer in the source, for errors. ``step`` is the distance of records that lie evenly, each of at least that many bytes.
    """

    data: Octets
    starts: Longs
    ends: Longs
    first: int | None = 0
    base: int = 0
    step: int | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def part(self, begin: int, end: int) -> RecordBytes:
        """Return some of the records."""
        cut = slice(begin, end)
        first = None if self.first is None else self.first + begin
        return RecordBytes(self.data, self.starts[cut], self.ends[cut], first, self.base, self.step)

    def number(self, row: int) -> int | None:
        """Return the number of a record in its source, from 1; None if it is unknown."""
        return None if self.first is None else self.first + row + 1


def records_at(
    data: Any, starts: Longs, ends: Longs, *, first: int | None = 0, base: int = 0
) -> RecordBytes:
    """Return the records data[start:end]."""
    step = None
    if len(starts):
        length = int(ends[0] - starts[0])
        even = (ends - starts == length).all() and (np.diff(starts) == length).all()
        step = length if even else None
    return RecordBytes(octets(data), starts, ends, first, base, step)


def records_of_length(data: Any, length: int, *, first: int = 0, base: int = 0) -> RecordBytes:
    """Return records of one length, back to back, without the bytes that are left over at the end."""
    found = octets(data)
    starts = np.arange(0, len(found) - length + 1, length, dtype=np.int64)
    return RecordBytes(found, starts, starts + length, first, base, length)


def cut_off(records: RecordBytes, item: Item) -> Mask | None:
    """Return the records that end before the end of an item."""
    end = item.offset + item.field.size
    if records.step is not None and isinstance(end, int):
        return None if end <= records.step else np.ones(len(records), bool)
    found: Mask = records.starts + end > records.ends
    return found if found.any() else None


def copy_items(records: RecordBytes, item: Item, usable: Mask | None, target: Octets) -> None:
    """Copy the bytes of one item of all records into the rows of a matrix; unusable rows stay."""
    size = item.field.size
    slots: Items = target.view(f"V{size}")[:, 0]
    if usable is None:
        slots[:] = _items(records, item, size)
    else:
        starts = (records.starts + item.offset)[usable]
        if len(starts):
            slots[usable] = windows(records.data, size)[starts]


def matrix_of(records: RecordBytes, item: Item) -> Octets:
    """Return the bytes of one item as a matrix, of records that all have it; shared if possible."""
    size = item.field.size
    if records.step is None or not isinstance(item.offset, int):
        return _items(records, item, size).view(np.uint8).reshape(len(records), size)
    offset = int(records.starts[0]) + item.offset
    strides = (records.step, 1)
    return np.ndarray((len(records), size), np.uint8, records.data, offset, strides)


def _items(records: RecordBytes, item: Item, size: int) -> Items:
    if records.step is None or not isinstance(item.offset, int):
        found: Items = windows(records.data, size)[records.starts + item.offset]
        return found
    offset = int(records.starts[0]) + item.offset
    return np.ndarray((len(records),), f"V{size}", records.data, offset, (records.step,))
