"""The before and after images of records of one table, operation type and number of fields."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.columnar.datetime_formats import DateFormat
from trailgate.columnar.rows import distinct
from trailgate.errors import DecodeError, TrailgateError
from trailgate.messages.delimited.column_pairing import ColumnPairing, FieldNumber
from trailgate.messages.delimited.options import DelimitedOptions
from trailgate.messages.delimited.records import DelimitedRecords
from trailgate.messages.parsing.bad_messages import errors_by_row
from trailgate.messages.parsing.record_groups import MessageErrors, RecordGroup
from trailgate.model.changes import ABSENT, TRUNCATE, Image, StateColumn
from trailgate.model.tables import Column, Table
from trailgate.operations.values import Convert, parser_for

INSERT: Final = ord("I")
DELETE: Final = ord("D")


class ImageReader:
    """Reads images by one set of options; what a table's columns decide is made once and kept.

    A record may end after any column unless records are ``whole``: then each has all columns of its table.
    """

    def __init__(self, options: DelimitedOptions, *, whole: bool = False) -> None:
        self.options, self.whole = options, whole
        self._converters: dict[str, tuple[Convert, ...]] = {}

    def images(
        self, records: DelimitedRecords, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Return before and after of alike records; what is wrong is added to the errors."""
        absent = (ABSENT,) * len(table.columns)
        if kind == TRUNCATE:
            return absent, absent
        group = _DelimitedGroup(records, table, rows, errors)
        pairing = self._pairing(group)
        if pairing is None:
            return absent, absent
        group.pairing = pairing
        _check_names(group, pairing)

        converters = self._converters_of(table)[: pairing.columns]
        wanted = [pairing.before, pairing.after]
        if kind == INSERT:
            wanted[0] = None
        elif kind == DELETE:
            wanted = [pairing.before or pairing.after, None]
        places = [place(i) for place in wanted if place for i in range(pairing.columns)]
        texts = iter(group.texts(places))

        def image(place: FieldNumber | None) -> Image:
            if place is None:
                return absent
            columns = [
                group.converted(next(texts), i, place(i), made) for i, made in enumerate(converters)
            ]
            return (*columns, *absent[pairing.columns :])

        return image(wanted[0]), image(wanted[1])

    def _pairing(self, group: _DelimitedGroup) -> ColumnPairing | None:
        """Return how the columns lie in these records; None, with errors, where they do not."""
        options, table = self.options, group.table
        bounds, row = group.records.fields.bounds, group.rows[0]
        given = int(bounds[row + 1] - bounds[row]) - len(options.header)
        parts = 1 + options.hasbefores + options.hasnames
        columns, left = divmod(given, parts)
        if left:
            group.refuse(f"{given} column fields do not make whole columns of {parts} fields each")
            return None
        if columns > len(table.columns) or (self.whole and columns < len(table.columns)):
            group.refuse(
                f"{columns} columns where the table has {len(table.columns)}",
                "Is the definitions file the right one, or a delimiter not escaped?",
            )
            return None
        for number in table.keys:
            if number >= columns:
                name = table.columns[number].name
                hint = "Only columns without key may be missing at the end of a record"
                if not table.marked_keys:
                    hint += "; the definitions mark no key of this table, so that all its columns are the key"
                group.refuse(f"key column {name} is missing", hint, name)
                return None
        return ColumnPairing.of(options, columns)

    def _converters_of(self, table: Table) -> tuple[Convert, ...]:
        if table.name not in self._converters:
            self._converters[table.name] = tuple(
                self.converter(table, column) for column in table.columns
            )
        return self._converters[table.name]

    def converter(self, table: Table, column: Column) -> Convert:
        """Return the function that makes a column's values of their texts."""
        return parser_for(column, self._date_format(table.name, column.name))

    def _date_format(self, table: str, column: str) -> DateFormat | None:
        """Return a column's date format: its own, its table's, the global one, or none."""
        options = self.options
        return (
            options.column_date_formats.get((table.upper(), column.upper()))
            or options.table_date_formats.get(table.upper())
            or options.date_format
        )


class _DelimitedGroup(RecordGroup[DelimitedRecords]):
    """Records of as many fields each."""

    pairing: ColumnPairing

    @cached_property
    def first(self) -> Longs:
        """Return the number of each record's first field."""
        first = self.records.fields.first
        return first if len(self.rows) == len(first) else first[self.rows]

    def texts(self, places: list[int]) -> list[pa.Array]:
        """Return a text column for each place in the records."""
        try:
            return self.records.values.columns(self.first, places)
        except DecodeError as error:
            at, place = error.where.record or 0, error.where.column or 0
            column = self.pairing.column_of(place)
            raise self._placed(error, int(self.rows[at]), column, place) from None

    def converted(self, values: pa.Array, i: int, place: int, convert: Convert) -> StateColumn:
        """Return the values of column i, which is at a place in each record."""
        try:
            return StateColumn(convert(values))
        except DecodeError as error:
            errors = errors_by_row(convert, values, error)
        bad = np.fromiter(errors, np.int64, len(errors))
        by_row = {int(self.rows[at]): errors[at] for at in errors}
        self.add(self.rows[bad], lambda row: self._placed(by_row[row], row, i, place))
        return ABSENT

    def _placed(self, error: DecodeError, row: int, i: int, place: int) -> TrailgateError:
        """Return the error of a value as that of its record, table and column."""
        found = self.records.field_error(row, place, error)
        return found.located(table=self.table.name, field=self.table.columns[i].name)


def _check_names(group: _DelimitedGroup, pairing: ColumnPairing) -> None:
    """Add a fault for each record that names a column otherwise than the table does."""
    if pairing.name is None:
        return
    for i in range(pairing.columns):
        column = group.table.columns[i]
        codes, found = distinct(group.records.values.text(group.first, pairing.name(i)))
        wrong = [name.casefold() != column.name.casefold() for name in found]
        if any(wrong):
            _add_names(group, i, codes, found, np.array(wrong))


def _add_names(group: _DelimitedGroup, i: int, codes: Longs, found: list[str], wrong: Mask) -> None:
    table = group.table
    column = table.columns[i].name
    bad = np.flatnonzero(wrong[codes])
    named = {int(group.rows[at]): found[int(codes[at])] for at in bad}

    def error(row: int) -> TrailgateError:
        problem = f"column {i + 1} is named {named[row]!r}, not {column}"
        return group.records.error(row, problem, table=table.name, field=column)

    group.add(group.rows[bad], error)
