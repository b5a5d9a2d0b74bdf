"""The columns that a record of a table has, by where it ends, and what is wrong with its end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.errors import DecodeError
from trailgate.messages.fixed_width.layouts import RecordLayout, Slot
from trailgate.messages.fixed_width.options import FixedWidthOptions
from trailgate.messages.fixed_width.records import FixedWidthRecords
from trailgate.messages.fixed_width.units import MessageUnits
from trailgate.messages.fixed_width.values import FieldReader, field_reader
from trailgate.messages.parsing.record_groups import RecordGroup

_CUT = "A shorter record ends after a complete column"
_KEY = "Only columns without key may be missing at the end of a record"
_LONG = "Is it another table's record, or are several records taken for one (fixed.records)?"


@dataclass(frozen=True, slots=True)
class RecordPlan:
    """The readers of a table's columns: those carried by the header first, then those of the record.

    ``ends`` are where the record's columns end, or the columns before them if those end later.
    """

    readers: tuple[FieldReader, ...]
    carried: int
    ends: Longs
    size: int

    def complete(self, lengths: Longs) -> Longs:
        """Return how many of the columns are whole in records of these lengths."""
        found: Longs = np.searchsorted(self.ends, lengths, side="right")
        return found + self.carried


def planned(layout: RecordLayout, options: FixedWidthOptions) -> RecordPlan:
    """Return how the records of a table are read, each after its header."""
    begin, carried = options.header.size, options.carried
    slots = [slot.moved(begin) for slot in layout.slots]
    readers = tuple(field_reader(slot, options.values) for slot in (*carried, *slots))
    ends = np.array([slot.end for slot in slots], np.int64)
    return RecordPlan(readers, len(carried), np.maximum.accumulate(ends), begin + layout.size)


def check_ends(
    group: RecordGroup[FixedWidthRecords], plan: RecordPlan, count: int, blank: int
) -> None:
    """Add the faults of records of which ``count`` columns are complete."""
    if count == len(plan.readers):
        _refuse_surplus(group, plan.size, blank)
        return
    missing = [reader.slot for reader in plan.readers[count:]]
    key = next((slot.column.name for slot in missing if slot.column.key), None)
    if key is None:
        _refuse_parts(group, missing[0])
    else:
        group.refuse(f"key column {key} is missing", _KEY, key)


def _refuse_parts(group: RecordGroup[FixedWidthRecords], slot: Slot) -> None:
    """Refuse records that hold a part of a column, instead of all or nothing of it."""
    records, table, name = group.records, group.table.name, slot.column.name
    problem = f"the record ends within {name}, which has {slot.field.size}"

    def error(row: int) -> DecodeError:
        return records.error(row, problem, _CUT, table=table, field=name)

    group.add(group.rows[records.lengths[group.rows] > slot.offset], error)


def _refuse_surplus(group: RecordGroup[FixedWidthRecords], size: int, blank: int) -> None:
    """Refuse records that have more than blanks after their end."""
    records, table = group.records, group.table.name
    long = group.rows[records.lengths[group.rows] > size]
    if not len(long):
        return
    long = long[_not_blank(records.units, records.starts[long] + size, records.ends[long], blank)]

    def error(row: int) -> DecodeError:
        problem = f"more than blanks after the {size} of header and record"
        return records.error(row, problem, _LONG, table=table)

    group.add(long, error)


def _not_blank(units: MessageUnits, starts: Longs, ends: Longs, blank: int) -> Mask:
    """Return which stretches, none of them empty, hold more than blanks."""
    marked = np.append(units.units != blank, False)
    edges = np.stack([starts, ends], axis=1).ravel()
    found: Mask = np.logical_or.reduceat(marked, edges)[::2]
    return found
