"""Read fixed-width messages, a batch at a time (capture properties §5).

A record is the header, followed by the columns of the table that the header names, each at its
offset. It may end after any complete column, unless a key column would be missing. Bytes between
columns are ignored.

For example, with a header of TABLE (6) and OP (1), then ID (4) and NAME (3):

    ORDERSI0007Ada      all columns; ID is at offset 7, NAME at 11
    ORDERSI0007         ends after ID: NAME is missing
    ORDERSI0007Ad       an error: it ends within NAME
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar.code_pages import code_page, decode_values
from trailgate.columnar.gather import gather
from trailgate.columnar.rows import first_of_each
from trailgate.errors import DecodeError
from trailgate.formats.fixed_width.layouts import ColumnSlot, ElementCounter, RecordLayout
from trailgate.formats.fixed_width.options import FixedWidthOptions
from trailgate.formats.fixed_width.units import MessageUnits, split_into_units
from trailgate.formats.fixed_width.values import (
    BINARY,
    FieldReader,
    field_reader,
    keep_text,
    text_reader,
)
from trailgate.messages.bad_values import errors_by_row
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.parser import MessageFormat
from trailgate.messages.problems import MessageErrors
from trailgate.messages.records import (
    RETURNS,
    BadMessagesError,
    MessageRecordGroup,
    MessageRecords,
    RowErrors,
)
from trailgate.model.changes import ABSENT, DELETE, TRUNCATE, Image, StateColumn
from trailgate.model.tables import Table

_RETURN: Final = ord("\r")
Refuse = Callable[[Longs, RowErrors], object]


_CUT = "A shorter record ends after a complete column"
_CUT_OFF = "Is the record cut off, or are bytes before the counter missing?"
_UNCOUNTED = "Is the counter right? A program that reuses its storage must clear the other elements"
# Bytes of an element that was never set, besides blanks and printed zeros: zero bytes, and the last
# byte of a packed zero.
_EMPTY_BYTES: Final = (0x00, 0x0C, 0x0F)
_KEY = "Only columns that are not keys may be missing at the end of a record"
BLANK_HINT: Final = "fixed.blank=null reads blank numbers and dates as NULL"
_LONG = "Is it another table's record, or are several records read as one (fixed.records)?"
ASCII_BLANK: Final = ord(" ")
_SHORT = "Is the header the right one, or is the record cut off?"


@dataclass(frozen=True, slots=True, eq=False)
class FixedWidthRecords(MessageRecords):
    """The records of a batch of fixed-width messages. Each record contains its complete header.

    `starts` and `ends` count units, which are bytes or characters (see `MessageUnits`). `header`
    has a reader for each header field.
    """

    units: MessageUnits
    starts: Longs
    ends: Longs
    header: Mapping[str, FieldReader]
    returns: bool = False  # a carriage return may follow a record

    @property
    def notes(self) -> frozenset[str]:
        """The warning about carriage returns after fixed-width records, if there are any."""
        units = self.units.units
        # A record may end at the very end of the data, where no byte follows.
        inside = self.ends[self.ends < len(units)] if self.returns else self.ends[:0]
        return frozenset({RETURNS} if (units[inside] == _RETURN).any() else ())

    @property
    def lengths(self) -> Longs:
        """The number of units (bytes or characters) of each fixed-width record."""
        return self.ends - self.starts

    def text(self, name: str) -> pa.Array:
        """Return a header field of fixed-width records as text without surrounding blanks.

        Raises BadMessagesError if the bytes of a field cannot be decoded.
        """
        errors = MessageErrors()

        def refuse(rows: Longs, found: RowErrors) -> None:
            if len(rows):
                messages, first = first_of_each(self.message[rows])
                errors.add(messages, found(rows[first]))

        values = self.column(self.header[name], np.arange(len(self.starts)), refuse)
        if errors:
            raise BadMessagesError(errors)
        return pc.utf8_trim(values, " ")

    def column(self, reader: FieldReader, rows: Longs, refuse: Refuse) -> pa.Array | None:
        """Decode a fixed-width field in the given records.

        For bad values, `refuse` is called with their rows, and a function that creates the errors
        of some of these rows. Units that are not a value become null. If values do not fit the
        column, the result is None.
        """
        slot = reader.slot
        values, bad, _ = reader.decode(
            self.units.rows(self.starts[rows] + slot.offset, slot.field.size)
        )
        # Bytes that are not a value, for example a packed number with a bad nibble.
        if bad is not None:
            refuse(rows[bad], lambda rows: self._unreadable(rows, reader))
        try:
            return reader.convert(values)
        except DecodeError as error:
            # The values are valid, but do not fit the column.
            bad_rows, errors = errors_by_row(reader.convert, values, error)
        wrong = rows[bad_rows]

        def misfits(rows: Longs) -> ErrorColumns:
            own = errors.take(np.searchsorted(wrong, rows)).columns
            place = self._place(rows, reader)
            return self._at_field(rows, reader, own["problem"], own["hint"], place)

        refuse(wrong, misfits)
        return None

    def _unreadable(self, rows: Longs, reader: FieldReader) -> ErrorColumns:
        place = self._place(rows, reader)
        coded = place["raw"].dictionary_encode()
        explained = [reader.explain(value) for value in coded.dictionary.to_pylist()]
        problem, hint = (
            pa.array(part, pa.string()).take(coded.indices) for part in zip(*explained, strict=True)
        )
        return self._at_field(rows, reader, problem, hint, place)

    def field_places(self, rows: Longs, name: str) -> Mapping[str, Any]:
        """Return the offsets, bytes and texts of a header field in fixed-width records, for errors."""
        return self._place(rows, self.header[name])

    def _place(self, rows: Longs, reader: FieldReader) -> Mapping[str, Any]:
        slot = reader.slot
        begins = self.units.to_bytes(self.starts[rows] + slot.offset)
        raw = gather(self.units.data, begins, self.units.to_bytes(self.starts[rows] + slot.end))
        return {
            "offset": begins - self.messages.starts[self.message[rows]],
            "raw": raw,
            "text": decode_values(raw, reader.page),
        }

    def _at_field(
        self,
        rows: Longs,
        reader: FieldReader,
        problem: pa.Array,
        hint: pa.Array,
        place: Mapping[str, Any],
    ) -> ErrorColumns:
        blank = pc.equal(pc.utf8_trim(pc.fill_null(place["text"], "-"), " "), "")
        hint = pc.if_else(blank, BLANK_HINT, hint)
        own: dict[str, Any] = {"record": self.numbers(rows), "field": reader.slot.column.name}
        return ErrorColumns.of(len(rows), problem, hint, **own | {**place})

    def raws(self, rows: Longs) -> pa.BinaryArray:
        """Return the bytes of several fixed-width records, for errors."""
        begins, ends = (self.units.to_bytes(units[rows]) for units in (self.starts, self.ends))
        return gather(self.units.data, begins, ends)


@dataclass(frozen=True, slots=True)
class RecordPlan:
    """The plan for reading a table's fixed-width records: the readers of its columns in order.

    The first `carried` columns are stored in the header. `ends` contains for each other column the
    smallest record length that includes this column and all columns before it. `size` is the length
    of the header and the record. In `counters`, offsets are counted from the beginning of the
    header, and column indexes include the carried columns.
    """

    readers: tuple[FieldReader, ...]
    carried: int
    ends: Longs
    size: int
    counters: tuple[ElementCounter, ...]

    def complete(self, lengths: Longs) -> Longs:
        """Return the number of columns that fixed-width records of these lengths contain completely."""
        # `ends` ascend, so the number of ends up to the length is the number of complete columns.
        counts: Longs = np.searchsorted(self.ends, lengths, side="right")
        return counts + self.carried


def plan_records(layout: RecordLayout, options: FixedWidthOptions) -> RecordPlan:
    """Create the plan for reading a table's fixed-width records.

    `layout` describes the part of a record after the header.
    """
    begin, carried = options.header.size, options.carried
    slots = [slot.move(begin) for slot in layout.slots]
    readers = tuple(field_reader(slot, options.values) for slot in (*carried, *slots))
    # maximum.accumulate: with REDEFINES a column may end before the one preceding it.
    ends = np.array([slot.end for slot in slots], np.int64)
    counters = tuple(
        replace(one, column=one.column + len(carried), offset=one.offset + begin)
        for one in layout.counters
    )
    ends = np.maximum.accumulate(ends)
    return RecordPlan(readers, len(carried), ends, begin + layout.size, counters)


def check_ends(
    group: MessageRecordGroup[FixedWidthRecords], plan: RecordPlan, count: int, blank: int
) -> None:
    """Check the ends of fixed-width records in which only the first `count` columns are complete.

    If these are all columns, only units equal to `blank` may follow. Otherwise a record must not
    end inside a column, and no key column may be missing. Records that violate this get an error.
    """
    if count == len(plan.readers):
        _refuse_trailing(group, plan.size, blank)
        return
    missing = [reader.slot for reader in plan.readers[count:]]
    key = next((slot.column.name for slot in missing if slot.column.key), None)
    if key is None:
        _refuse_parts(group, missing[0])
    else:
        group.add_to_all(f"key column {key} is missing", _KEY, key)


def _refuse_parts(group: MessageRecordGroup[FixedWidthRecords], slot: ColumnSlot) -> None:
    """Add an error to fixed-width records that end within a column, the first incomplete one."""
    records, table, name = group.records, group.table.name, slot.column.name
    problem = f"the record ends within {name}, which has a length of {slot.field.size}"

    def errors(rows: Longs) -> ErrorColumns:
        return records.errors(rows, problem, _CUT, table=table, field=name)

    group.add(group.rows[records.lengths[group.rows] > slot.offset], errors)


def _refuse_trailing(group: MessageRecordGroup[FixedWidthRecords], size: int, blank: int) -> None:
    """Add an error to fixed-width records with units other than `blank` after the first `size` units."""
    records, table = group.records, group.table.name
    long = group.rows[records.lengths[group.rows] > size]
    if not len(long):
        return
    unset = np.array([blank])
    long = long[_has_other(records.units, records.starts[long] + size, records.ends[long], unset)]

    def errors(rows: Longs) -> ErrorColumns:
        problem = f"bytes other than blanks follow the header and the record, which have a length of {size}"
        return records.errors(rows, problem, _LONG, table=table)

    group.add(long, errors)


def _has_other(units: MessageUnits, starts: Longs, ends: Longs, unset: Longs) -> Mask:
    """Return a mask of the spans of fixed-width data with a unit that is not in `unset`.

    Spans must not be empty.
    """
    marked = np.append(~np.isin(units.units, unset), False)
    # reduceat over [s0, e0, s1, e1, ...] gives the OR of [s0, e0), then of [e0, s1), and so on:
    # every second result is a span. The appended False allows an end at the very end of the data.
    edges = np.stack([starts, ends], axis=1).ravel()
    other: Mask = np.logical_or.reduceat(marked, edges)[::2]
    return other


class FixedWidthFormat(MessageFormat[FixedWidthRecords]):
    """Reads fixed-width records with one set of options. A plan is created once per table."""

    def __init__(self, options: FixedWidthOptions) -> None:
        self.options = options
        values, header = options.values, options.header
        self._header = {
            slot.column.name: text_reader(slot, values, keep_text) for slot in header.slots
        }
        self._layouts = {record.name.casefold(): record for record in options.records}
        self._plans: dict[str, RecordPlan] = {}
        page = code_page(values.dialect.code_page)
        self._blank = page.blank[0]
        zeros = b"".join(page.encode(pa.array(["0", "{"])).to_pylist())
        self._unset = np.array([self._blank, *zeros, *_EMPTY_BYTES])
        fields = [slot.field for layout in (header, *options.records) for slot in layout.slots]
        binary = any(field.usage in BINARY for field in fields)
        self._characters = page.name == "utf-8" and not binary
        # In EBCDIC or with binary numbers, the bytes of a byte order mark may be data.
        self._is_text = not binary and self._blank == ASCII_BLANK

    @property
    def has_befores(self) -> bool:
        """Always false: updates in fixed-width messages have no before values."""
        return False

    def records(self, messages: MessageBatch) -> FixedWidthRecords:
        """Cut fixed-width messages into records. Each has its complete header."""
        if self._is_text:
            messages = messages.without_marks()
        units = split_into_units(messages, characters=self._characters)
        message, starts, ends = units.records(self.options.framing)
        records = FixedWidthRecords(
            messages=units.messages,
            message=message,
            offset=units.to_bytes(starts) - units.messages.starts[message],
            units=units,
            starts=starts,
            ends=ends,
            header=self._header,
            returns=self.options.framing is not None and self.options.framing.returns,
        )
        least = self.options.header.size
        records.check_sizes(records.lengths, least, "a record of {}".format, _SHORT)
        return records

    def layouts(
        self, records: FixedWidthRecords, tables: Sequence[Table], table_of: Longs
    ) -> Longs:
        """Return the layout number of each fixed-width record: its number of complete columns.

        Records of one table with the same number are read together.
        """
        counts, lengths = np.zeros(len(table_of), np.int64), records.lengths
        for number, table in enumerate(tables):
            rows = np.flatnonzero(table_of == number)
            counts[rows] = self._plan(table).complete(lengths[rows])
        return counts

    def images(
        self,
        records: FixedWidthRecords,
        table: Table,
        kind: int,
        rows: Longs,
        errors: MessageErrors,
    ) -> tuple[Image, Image]:
        """Read the images of fixed-width records of one table, type and number of columns.

        Errors are added to `errors`.
        """
        absent = (ABSENT,) * len(table.columns)
        if kind == TRUNCATE:
            return absent, absent
        plan = self._plan(table)
        group = MessageRecordGroup(records, table, rows, errors)
        # All records of the group have the same number of complete columns: `layouts` grouped them
        # by it.
        count = int(plan.complete(records.lengths[rows[:1]])[0])
        check_ends(group, plan, count, self._blank)
        columns = [_column(group, reader) for reader in plan.readers[:count]]
        for counter in plan.counters if kind != DELETE else ():
            if counter.column < count:
                _check_counter(group, counter, columns[counter.column], self._unset)
        image = (*columns, *absent[count:])
        return (image, absent) if kind == DELETE else (absent, image)

    def _plan(self, table: Table) -> RecordPlan:
        name = table.name.casefold()
        if name not in self._plans:
            self._plans[name] = plan_records(self._layouts[name], self.options)
        return self._plans[name]


def _check_counter(
    group: MessageRecordGroup[FixedWidthRecords],
    counter: ElementCounter,
    column: StateColumn,
    unset: Longs,
) -> None:
    """Add an error to fixed-width records whose OCCURS DEPENDING ON counter contradicts their elements.

    The counter is negative, or greater than the copybook or the record allows; or there are values
    in elements that it does not count. Elements that consist only of `unset` units, such as blanks,
    have no value: programs that always write the longest record fill the rest with them.
    """
    if column.values is None:  # some of the counters are invalid, which is an error already
        return
    records, array, most = group.records, counter.array, counter.most
    counts = pc.cast(pc.fill_null(column.values, 0), pa.int64()).to_numpy(zero_copy_only=False)
    room = records.lengths[group.rows] - counter.offset
    existing = np.clip(room // counter.stride, 0, most)
    bad = np.flatnonzero((counts > existing) | (counts < 0))
    _refuse_more(group, counter, counts, unset)

    def errors(rows: Longs) -> ErrorColumns:
        at = np.searchsorted(group.rows, rows)
        problems = [
            f"{array} occurs 0 to {most} times, but its counter is {stated}"
            if not 0 <= stated <= most
            else f"the counter of {array} is {stated}, but the record has {f'only {has}' if has else 'none'} of its elements"
            for stated, has in zip(counts[at].tolist(), existing[at].tolist(), strict=True)
        ]
        problem = pa.array(problems, pa.string())
        return records.errors(rows, problem, _CUT_OFF, table=group.table.name, field=array)

    group.add(group.rows[bad], errors)


def _refuse_more(
    group: MessageRecordGroup[FixedWidthRecords],
    counter: ElementCounter,
    counts: Longs,
    unset: Longs,
) -> None:
    """Add an error to fixed-width records whose OCCURS DEPENDING ON counter is too small.

    In such a record, an element that is not counted has a value: a unit that is not in `unset`.
    """
    records, array = group.records, counter.array
    begins = counter.offset + np.clip(counts, 0, counter.most) * counter.stride
    ends = np.minimum(records.lengths[group.rows], counter.offset + counter.most * counter.stride)
    more = np.flatnonzero(begins < ends)
    starts = records.starts[group.rows[more]]
    if not len(more):
        return
    more = more[_has_other(records.units, starts + begins[more], starts + ends[more], unset)]

    def errors(rows: Longs) -> ErrorColumns:
        stated = counts[np.searchsorted(group.rows, rows)].tolist()
        texts = [
            f"the counter of {array} is {one}, but the record has more elements" for one in stated
        ]
        problem = pa.array(texts, pa.string())
        return records.errors(rows, problem, _UNCOUNTED, table=group.table.name, field=array)

    group.add(group.rows[more], errors)


def _column(group: MessageRecordGroup[FixedWidthRecords], reader: FieldReader) -> StateColumn:
    name = group.table.name

    def refuse(rows: Longs, errors: RowErrors) -> None:
        group.add(rows, lambda rows: errors(rows).with_place(table=name))

    return StateColumn(group.records.column(reader, group.rows, refuse))
