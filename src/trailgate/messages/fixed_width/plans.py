"""Which columns a record of a table has, by where it ends, and what is wrong about its end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.errors import DecodeError
from trailgate.messages.fixed_width.cells import Cells
from trailgate.messages.fixed_width.layouts import RecordLayout
from trailgate.messages.fixed_width.options import FixedWidthOptions
from trailgate.messages.fixed_width.records import FixedWidthRecords, Place
from trailgate.messages.fixed_width.values import field_reader
from trailgate.messages.parsing.record_groups import Reading

_CUT = "A shorter record ends behind a complete column"
_KEY = "Only columns without key may be missing at the end of a record"
_LONG = "Is it another table's record, or are several records not told apart (fixed.records)?"


@dataclass(frozen=True, slots=True)
class RecordPlan:
    """The columns of a table's records: the header's own in front, then those of the record.

    ``ends`` are where the record's columns end, or the columns in front of them if those end later.
    """

    places: tuple[Place, ...]
    carried: int
    ends: Longs
    size: int

    def complete(self, lengths: Longs) -> Longs:
        """Return how many of the columns are whole in records of these lengths."""
        found: Longs = np.searchsorted(self.ends, lengths, side="right")
        return found + self.carried


def planned(layout: RecordLayout, options: FixedWidthOptions) -> RecordPlan:
    """Return where the columns of a table lie behind the header."""
    begin, carried = options.header.size, options.carried
    slots = [(slot, slot.offset) for slot in carried]
    slots += [(slot, begin + slot.offset) for slot in layout.slots]
    places = tuple(Place(slot, at, field_reader(slot, options.values)) for slot, at in slots)
    ends = np.array([place.end for place in places[len(carried) :]], np.int64)
    return RecordPlan(places, len(carried), np.maximum.accumulate(ends), begin + layout.size)


def check_ends(
    reading: Reading[FixedWidthRecords], plan: RecordPlan, count: int, blank: int
) -> None:
    """Add the faults of records of which so many columns are complete."""
    if count == len(plan.places):
        _refuse_surplus(reading, plan.size, blank)
        return
    key = next((p.slot.column.name for p in plan.places[count:] if p.slot.column.key), None)
    if key is None:
        _refuse_parts(reading, plan.places[count])
    else:
        reading.refuse(f"key column {key} is missing", _KEY, key)


def _refuse_parts(reading: Reading[FixedWidthRecords], place: Place) -> None:
    """Refuse records that hold a part of a column, instead of all or nothing of it."""
    records, table, name = reading.records, reading.table.name, place.slot.column.name
    problem = f"the record ends within {name}, which has {place.slot.field.size}"

    def error(row: int) -> DecodeError:
        return records.error(row, problem, _CUT, table=table, field=name)

    reading.add(reading.rows[records.lengths[reading.rows] > place.at], error)


def _refuse_surplus(reading: Reading[FixedWidthRecords], size: int, blank: int) -> None:
    """Refuse records that go on behind their end with more than blanks."""
    records, table = reading.records, reading.table.name
    long = reading.rows[records.lengths[reading.rows] > size]
    if not len(long):
        return
    long = long[_not_blank(records.cells, records.starts[long] + size, records.ends[long], blank)]

    def error(row: int) -> DecodeError:
        problem = f"more than blanks behind the {size} of header and record"
        return records.error(row, problem, _LONG, table=table)

    reading.add(long, error)


def _not_blank(cells: Cells, starts: Longs, ends: Longs, blank: int) -> Mask:
    """Return which stretches, none of them empty, hold more than blanks."""
    marked = np.append(cells.units != blank, False)
    edges = np.stack([starts, ends], axis=1).ravel()
    found: Mask = np.logical_or.reduceat(marked, edges)[::2]
    return found
