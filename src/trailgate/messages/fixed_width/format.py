"""Fixed-width messages to records and images, a batch at a time (capture properties §5).

A record is the header, then the columns of the table that the header names, each at its offset. It may end
after any complete column, if no key column is left out; bytes between columns do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from trailgate.arrays import Longs
from trailgate.columnar.code_pages.registry import code_page
from trailgate.errors import DecodeError, TrailgateError
from trailgate.messages.fixed_width.options import FixedWidthOptions
from trailgate.messages.fixed_width.plans import RecordPlan, check_ends, planned
from trailgate.messages.fixed_width.records import FixedWidthRecords
from trailgate.messages.fixed_width.units import units_of
from trailgate.messages.fixed_width.values import BINARY, FieldReader, as_it_is, text_reader
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.parsing.parser import MessageFormat
from trailgate.messages.parsing.record_groups import MessageErrors, RecordGroup
from trailgate.model.changes import ABSENT, DELETE, TRUNCATE, Image, StateColumn
from trailgate.model.tables import Table

_SHORT = "Is the header the right one, or is the record cut off?"


class FixedWidthFormat(MessageFormat[FixedWidthRecords]):
    """Reads records by one set of options; how a table is read is decided once and kept."""

    def __init__(self, options: FixedWidthOptions) -> None:
        self.options = options
        values, header = options.values, options.header
        self._header = {
            slot.column.name: text_reader(slot, values, as_it_is) for slot in header.slots
        }
        self._layouts = {record.name.casefold(): record for record in options.records}
        self._plans: dict[str, RecordPlan] = {}
        page = code_page(values.dialect.code_page)
        self._blank = page.blank[0]
        fields = [slot.field for layout in (header, *options.records) for slot in layout.slots]
        binary = any(field.usage in BINARY for field in fields)
        self._characters = page.name == "utf-8" and not binary

    @property
    def has_befores(self) -> bool:
        """Return whether records of updates may have before values."""
        return False

    def records(self, messages: MessageBatch) -> FixedWidthRecords:
        """Return the records of the messages, each with its whole header."""
        units = units_of(messages, characters=self._characters)
        message, starts, ends = units.records(self.options.framing)
        records = FixedWidthRecords(
            messages=units.messages,
            message=message,
            offset=units.byte(starts) - units.messages.starts[message],
            units=units,
            starts=starts,
            ends=ends,
            header=self._header,
            returns=self.options.framing is not None and self.options.framing.returns,
        )
        self._check_headers(records)
        return records

    def _check_headers(self, records: FixedWidthRecords) -> None:
        least, lengths = self.options.header.size, records.lengths
        short = np.flatnonzero(lengths < least)
        if len(short):

            def error(row: int) -> DecodeError:
                problem = f"a record of {lengths[row]} where the header alone has {least}"
                return records.error(row, problem, _SHORT)

            records.refuse(short, error)

    def layouts(
        self, records: FixedWidthRecords, tables: Sequence[Table], table_of: Longs
    ) -> Longs:
        """Return how many columns of each record are complete."""
        found, lengths = np.zeros(len(table_of), np.int64), records.lengths
        for number, table in enumerate(tables):
            rows = np.flatnonzero(table_of == number)
            found[rows] = self._plan(table).complete(lengths[rows])
        return found

    def images(
        self,
        records: FixedWidthRecords,
        table: Table,
        kind: int,
        rows: Longs,
        errors: MessageErrors,
    ) -> tuple[Image, Image]:
        """Return before and after of alike records; what is wrong is added to the errors."""
        absent = (ABSENT,) * len(table.columns)
        if kind == TRUNCATE:
            return absent, absent
        plan = self._plan(table)
        group = RecordGroup(records, table, rows, errors)
        count = int(plan.complete(records.lengths[rows[:1]])[0])
        check_ends(group, plan, count, self._blank)
        columns = [_column(group, reader) for reader in plan.readers[:count]]
        image = (*columns, *absent[count:])
        return (image, absent) if kind == DELETE else (absent, image)

    def _plan(self, table: Table) -> RecordPlan:
        name = table.name.casefold()
        if name not in self._plans:
            self._plans[name] = planned(self._layouts[name], self.options)
        return self._plans[name]


def _column(group: RecordGroup[FixedWidthRecords], reader: FieldReader) -> StateColumn:
    name = group.table.name

    def refuse(rows: Longs, error: Callable[[int], TrailgateError]) -> None:
        group.add(rows, lambda row: error(row).located(table=name))

    return StateColumn(group.records.column(reader, group.rows, refuse))
