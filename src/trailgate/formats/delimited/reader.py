r"""Read delimited messages, a batch at a time (capture properties §6).

A record has n header fields, then for each column a value and, if configured, its name and its
before value. They are grouped by type (`isgrouped`) or by column:

    METACOL 1..n [,COLNAME 1..m] [,COLBEFOREVAL 1..m] ,COLVALUE 1..m \n
    I,GG.ORDERS,2024-05-01:10:00:00,,7,,new          header of 3; ID = NULL -> 7, STATE = NULL -> new

A compiled scan (`columnar/delimited.py`) finds the spans of all fields. Header fields are read
first. Records of one table, operation type and number of fields are then read together:
`ColumnPairing` assigns fields to columns, and `FieldValues` copies one column at a time, without
quotes and with escapes decoded. NULL and empty text stay distinct.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets, octets
from trailgate.columnar import delimited_kernels as kernels
from trailgate.columnar.delimited import (
    PROBLEMS,
    DelimitedDialect,
    DelimitedFields,
    UnbalancedQuotesError,
    find_token_offsets,
    index_fields,
)
from trailgate.columnar.gather import check_gathered_text, gather
from trailgate.columnar.rows import encode_distinct
from trailgate.columnar.strings import NO_NULLS, build_binary_column
from trailgate.columnar.temporal import DateFormat
from trailgate.columnar.word_kernels import SPARE
from trailgate.errors import DecodeError, TrailgateError, Where, count_noun
from trailgate.formats.delimited.options import DelimitedOptions
from trailgate.messages.bad_values import errors_by_row
from trailgate.messages.encoding_checks import check_utf8
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.parser import MessageFormat
from trailgate.messages.problems import MessageErrors
from trailgate.messages.records import (
    RETURNS,
    BadMessagesError,
    MessageRecordGroup,
    MessageRecords,
    take_of_messages,
)
from trailgate.model.changes import ABSENT, TRUNCATE, Image, StateColumn
from trailgate.model.tables import Column, Table
from trailgate.model.values import Convert, parser_for

INSERT: Final = ord("I")
DELETE: Final = ord("D")


class FieldValues:
    """Copies the values of delimited fields from a batch's bytes, a column at a time.

    `checked` is set if all messages are known to be UTF-8, so that no column has to be checked.
    """

    def __init__(self, data: Octets, fields: DelimitedFields, options: DelimitedOptions) -> None:
        self.data, self.fields, self.options = data, fields, options
        self.checked = False
        quote = options.quote or b""
        # Without an escaped form, a quote inside a quoted value is doubled.
        escaped = options.quote_escaped or quote * 2
        self._coded: dict[int, tuple[Longs, Longs | None]] = {}
        self._texts = kernels.FieldTexts(
            octets(quote), octets(escaped), octets(options.nullindicator or b"")
        )
        self._replacements = [
            (escaped, plain)
            for escaped, plain in (
                (options.fielddelim_escaped, options.fielddelim),
                (options.linedelim_escaped, options.linedelim),
            )
            if escaped and len(find_token_offsets(data, escaped))
        ]

    def check_text(self, messages: MessageBatch) -> None:
        """Check once that all delimited messages are UTF-8. Raises BadMessagesError if some are not.

        Does nothing if a delimiter or the quote is not ASCII, because it may split a character.
        Then each column is checked separately when it is read.
        """
        options = self.options
        quotes = (options.quote or b"") + (options.quote_escaped or b"")
        if not (options.fielddelim + options.linedelim + quotes).isascii() or not len(messages):
            return
        if not self.fields.is_ascii:
            check_utf8(messages)
        self.checked = True

    def text(self, first: Longs, place: int) -> pa.Array:
        """Copy one delimited field of each record as text, without quotes and escapes.

        `first` is the number of each record's first field in the batch. `place` is the
        field's position in the record, from 0.
        """
        return self.columns(first, [place], nullable=False)[0]

    def codes(self, place: int) -> tuple[Longs, list[str]]:
        """Encode one header field of all delimited records as a dictionary.

        `place` is the field's position in the record. Returns an index for each record, and the
        distinct strings.
        """
        first = self.fields.first
        codes, known = self.coded(place)
        if known is None:
            return encode_distinct(self.text(first, place))
        strings = self.text(first[known], place).to_pylist()
        numbers = {text: number for number, text in enumerate(dict.fromkeys(strings))}
        # `numbers` maps each text to its code; map the codes of byte strings through it.
        if len(numbers) < len(known):  # the same text, once quoted and once not
            codes = np.array([numbers[text] for text in strings])[codes]
        return codes, list(numbers)

    def coded(self, place: int) -> tuple[Longs, Longs | None]:
        """Assign a number to each distinct byte string of a header field of all delimited records; see `spans`.

        Header fields that repeat are read together the first time, since they lie beside each other.
        """
        if place not in self._coded:
            places = [*dict.fromkeys((place, *self.options.repeated_fields))]
            self._coded |= zip(places, self._code(self.fields.first, places, 1), strict=True)
        return self._coded[place]

    def spans(self, first: Longs, place: int, count: int) -> tuple[Longs, Longs | None]:
        """Assign a number to each distinct byte string that `count` adjacent fields of delimited records form.

        `first` is the number of each record's first field in the batch, and `place` the position of
        the first of the adjacent fields in a record.

        Returns for each record the number of its byte string, and for each byte string one row that
        has it. If there are too many distinct byte strings, the rows are None and the numbers are
        not valid.
        """
        return next(self._code(first, [place], count))

    def _code(
        self, first: Longs, places: list[int], count: int
    ) -> Iterator[tuple[Longs, Longs | None]]:
        wide = len(places)
        codes = np.empty((wide, len(first)), np.int64)
        known = np.empty((wide, kernels.MOST_KNOWN), np.int64)
        counts = np.empty(wide, np.int64)
        slots = np.empty((4, wide * kernels.SLOTS), np.int64)
        slots[0] = -1
        # Shifted by count - 1, ends[i] is the end of the last of the `count` fields that begin with field i.
        starts, ends = self.fields.starts, self.fields.ends[count - 1 :]
        done = kernels.code_fields(
            kernels.FieldSpans(self.data, starts, ends, self.fields.flags),
            first,
            np.array(places, np.int64),
            codes.ravel(),
            known.ravel(),
            counts,
            kernels.TextSlots(slots[0], slots[1].view(np.uint64), slots[2], slots[3]),
        )
        assert done == 0, "the caller counts the fields of its records"
        for number, size in enumerate(counts.tolist()):
            yield codes[number], None if size < 0 else known[number, :size]

    def columns(
        self, first: Longs, places: Sequence[int], *, nullable: bool = True
    ) -> list[pa.Array]:
        """Copy one text column for each field position in `places` from delimited records.

        `first` is the number of each record's first field in the batch. With `nullable`, a NULL
        field becomes null. Raises DecodeError, with the row in `where.record` and the field
        position in `where.column`, if a value is not UTF-8.
        """
        fields, texts, rows = self.fields, self._texts, len(first)
        offsets = np.empty((len(places), rows + 1), np.int32)
        begins = np.empty(len(places) * rows, np.int32)
        nulls = np.zeros((len(places) if nullable else 0, rows), np.bool_)
        seen = np.zeros(len(places), np.uint8)
        numbers = np.array(places, np.int64)
        count = kernels.measure_fields(
            kernels.FieldSpans(self.data, fields.starts, fields.ends, fields.flags),
            first,
            numbers,
            texts,
            kernels.MeasuredFields(offsets.ravel(), begins, nulls.ravel(), seen),
        )
        assert count >= 0, "the caller counts the fields of its records"
        # All columns share one output buffer: column c has the bytes from `bases[c]` to `ends[c]`, the last
        # SPARE of which are free, because the copy kernel writes whole words.
        ends = (offsets[:, -1].astype(np.int64) + SPARE).cumsum()
        bases = np.zeros_like(ends)
        bases[1:] = ends[:-1]
        out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
        which = (first, numbers, texts.quote, texts.escaped)
        kernels.copy_fields(self.data, fields.ends, *which, offsets.ravel(), begins, bases, out)
        columns = []
        for number, (base, end) in enumerate(zip(bases.tolist(), ends.tolist(), strict=True)):
            mask = nulls[number] if count else NO_NULLS
            values = build_binary_column(offsets[number], out[base:end], mask, text=True)
            if not self.checked:
                values = self._text(values, places[number])
            columns.append(self._plain(values, first, places[number], int(seen[number])))
        return columns

    def _text(self, values: pa.Array, place: int) -> pa.Array:
        """Return a column of delimited values, after checking that it is UTF-8.

        Raises DecodeError with the row in `where.record` and the field position in `where.column`.
        """
        try:
            check_gathered_text(values, np.arange(len(values)))
        except DecodeError as error:
            where = Where(record=error.where.offset, column=place, raw=error.where.raw)
            raise DecodeError(error.problem, where=where, hint=error.hint) from None
        return values

    def _plain(self, values: pa.Array, first: Longs, place: int, seen: int) -> pa.Array:
        """Decode the escapes in a column of delimited values: fields `first + place` (decision 0026).

        `seen` combines the flags of all these fields: without the bit `QUOTED`, none of them is
        quoted.

        capture properties §6.3: escapes are removed "only in quoted values". In its examples
        without a quote property, all values contain them.
        """
        options = self.options
        if options.quote and not seen & kernels.QUOTED:
            return values
        plain = values
        for escaped, delimiter in self._replacements:
            plain = _replace(plain, escaped, delimiter)
        if options.nullindicator_escaped and options.nullindicator:
            literal = pc.equal(plain, options.nullindicator_escaped.decode())
            plain = pc.if_else(literal, options.nullindicator.decode(), plain)
        # With a quote property, only quoted values have escapes: keep the others as they were.
        if plain is values or not options.quote:
            return plain
        quoted = self.fields.flags[first + place] & kernels.QUOTED > 0
        return plain if quoted.all() else pc.if_else(pa.array(quoted), plain, values)


def _replace(values: pa.Array, pattern: bytes, replacement: bytes) -> pa.Array:
    if not pc.any(pc.match_substring(values, pattern.decode())).as_py():
        return values
    return pc.replace_substring(values, pattern.decode(), replacement.decode())


FieldNumber = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class ColumnPairing:
    """The positions of each column's name, before value and after value in a delimited record.

    For example, `after(i)` is the field with the after value of column i. Fields are counted from
    the record's first field, from 0. `columns` is the number of columns in the record. `name` or
    `before` is None if records do not contain column names or before values.
    """

    columns: int
    name: FieldNumber | None
    before: FieldNumber | None
    after: FieldNumber

    @staticmethod
    def of(options: DelimitedOptions, columns: int) -> ColumnPairing:
        """Return the pairing of delimited records with this number of columns."""
        parts = ["name"] if options.hasnames else []
        values = ["before", "after"] if options.hasbefores else ["after"]
        parts += values[::-1] if options.afterfirst else values
        header = len(options.header)

        # Example: a header of one field, then names and values of two columns. The value of column 0 is
        # field 1 + 0 * 2 + 1 = 2 in H N0 V0 N1 V1, and, if grouped, field 1 + 1 * 2 + 0 = 3 in H N0 N1 V0 V1.
        def place(part: str) -> FieldNumber:
            at = parts.index(part)
            if options.isgrouped:
                return lambda i: header + at * columns + i
            return lambda i: header + i * len(parts) + at

        return ColumnPairing(
            columns,
            place("name") if options.hasnames else None,
            place("before") if options.hasbefores else None,
            place("after"),
        )

    def column_of(self, place: int) -> int:
        """Return the index of the column whose before or after value is the delimited field `place`."""
        places = [place for place in (self.before, self.after) if place]
        return next(i for i in range(self.columns) for of in places if of(i) == place)


@dataclass(frozen=True, slots=True)
class DelimitedRecords(MessageRecords):
    """The records of a batch of delimited messages: lists of fields, which begin with the header fields.

    `fields` contains the offsets of all fields, and `values` copies their text.
    """

    fields: DelimitedFields
    values: FieldValues

    def text(self, name: str) -> pa.Array:
        """Return a header field of delimited records as text, one value per record."""
        place = self.values.options.header.index(name)
        return self.values.text(self.fields.first, place)

    def codes(self, name: str) -> tuple[Longs, list[str]]:
        """Return a header field of delimited records as codes: for each record an index into the list of distinct strings."""
        place = self.values.options.header.index(name)
        return self.values.codes(place)

    def shared(self, name: str) -> tuple[pa.Array, Longs] | None:
        """Return the distinct values of a header field and each delimited record's index into them.

        Returns None if there are too many distinct values.
        """
        place = self.values.options.header.index(name)
        codes, known = self.values.coded(place)
        return None if known is None else (self.values.text(self.fields.first[known], place), codes)

    @property
    def notes(self) -> frozenset[str]:
        """The warning about carriage returns after delimited records, if there are any."""
        return frozenset({RETURNS} if self.fields.returned else ())

    def raws(self, rows: Longs) -> pa.BinaryArray:
        """Return the bytes of several delimited records, for errors."""
        # Record r has the fields bounds[r] to bounds[r + 1] - 1.
        fields, last = self.fields, self.fields.bounds[rows + 1] - 1
        return gather(self.values.data, fields.starts[fields.first[rows]], fields.ends[last])

    def field_places(self, rows: Longs, name: str) -> Mapping[str, Any]:
        """Return the offsets and bytes of a header field in delimited records, for errors."""
        field = self.fields.first[rows] + self.values.options.header.index(name)
        begins, ends = self.fields.starts[field], self.fields.ends[field]
        offset = begins - self.messages.starts[self.message[rows]]
        return {"offset": offset, "raw": gather(self.values.data, begins, ends)}

    def field_errors(self, rows: Longs, place: int | Longs, errors: ErrorColumns) -> ErrorColumns:
        """Locate errors of several delimited records at the field `place`, counted from a record's first field."""
        field = self.fields.first[rows] + place
        offset = self.fields.starts[field] - self.messages.starts[self.message[rows]]
        return errors.replace(record=self.numbers(rows), column=None, offset=offset)

    def field_error(self, row: int, place: int, error: DecodeError) -> TrailgateError:
        """Locate the error of a delimited record at the field `place`, counted from the record's first field."""
        return self.field_errors(np.array([row]), place, ErrorColumns.of_errors([error]))[0]


class DelimitedImageReader:
    """Reads the images of delimited records. Converters are created once per table.

    A record may end after any column, unless a key column would be missing. With `whole`, it must
    have all columns of its table.
    """

    def __init__(self, options: DelimitedOptions, *, whole: bool = False) -> None:
        self.options, self.whole = options, whole
        self._converters: dict[str, tuple[Convert, ...]] = {}

    def images(
        self, records: DelimitedRecords, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Read the before and after images of delimited records of one table, type and number of fields.

        Errors are added to `errors`.
        """
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
        # An insert has no before image. A delete's only value may be written as its after value.
        wanted = [pairing.before, pairing.after]
        if kind == INSERT:
            wanted[0] = None
        elif kind == DELETE:
            wanted = [pairing.before or pairing.after, None]
        places = [place(i) for place in wanted if place for i in range(pairing.columns)]
        # All columns of both images are copied in one call; `image` takes them off one after the
        # other, before values first.
        strings = iter(group.strings(places))

        def image(place: FieldNumber | None) -> Image:
            if place is None:
                return absent
            columns = [
                group.convert_values(next(strings), i, place(i), made)
                for i, made in enumerate(converters)
            ]
            return (*columns, *absent[pairing.columns :])

        return image(wanted[0]), image(wanted[1])

    def _pairing(self, group: _DelimitedGroup) -> ColumnPairing | None:
        """Pair the fields of a group's delimited records with the columns of their table.

        Adds an error to each record and returns None if the fields do not make complete columns,
        there are too many or too few columns, or a key column is missing.
        """
        options, table = self.options, group.table
        bounds, row = group.records.fields.bounds, group.rows[0]
        given = int(bounds[row + 1] - bounds[row]) - len(options.header)
        # The fields of one column: its value, and if configured its name and before value.
        parts = 1 + options.hasbefores + options.hasnames
        columns, left = divmod(given, parts)
        if left:
            group.add_to_all(
                f"{given} column fields do not make complete columns of {parts} fields each"
            )
            return None
        if columns > len(table.columns) or (self.whole and columns < len(table.columns)):
            group.add_to_all(
                f"{columns} columns, but the table has {len(table.columns)}",
                "Is this the right definitions file, or is a delimiter not escaped?",
            )
            return None
        for number in table.keys:
            if number >= columns:
                name = table.columns[number].name
                hint = "Only columns that are not keys may be missing at the end of a record"
                if not table.marked_keys:
                    hint += "; the definitions mark no key of this table, so all its columns are the key"
                group.add_to_all(f"key column {name} is missing", hint, name)
                return None
        return ColumnPairing.of(options, columns)

    def _converters_of(self, table: Table) -> tuple[Convert, ...]:
        if table.name not in self._converters:
            self._converters[table.name] = tuple(
                self.converter(table, column) for column in table.columns
            )
        return self._converters[table.name]

    def converter(self, table: Table, column: Column) -> Convert:
        """Return the function that converts the strings of a delimited column to values."""
        return parser_for(column, self._date_format(table.name, column.name))

    def _date_format(self, table: str, column: str) -> DateFormat | None:
        """Return the date format of a delimited column: that of the column, its table, or all tables.

        The first of these that is set counts. Returns None if none is set.
        """
        options = self.options
        return (
            options.column_date_formats.get((table.upper(), column.upper()))
            or options.table_date_formats.get(table.upper())
            or options.date_format
        )


class _DelimitedGroup(MessageRecordGroup[DelimitedRecords]):
    """Delimited records of one table and operation type that all have the same number of fields."""

    pairing: ColumnPairing

    @cached_property
    def first(self) -> Longs:
        """The number of each delimited record's first field, counted over all fields of the batch."""
        first = self.records.fields.first
        return first if len(self.rows) == len(first) else first[self.rows]

    def strings(self, places: list[int]) -> list[pa.Array]:
        """Copy one text column for each field position from the group's delimited records.

        Raises an error with the record, table and column if a value is not UTF-8.
        """
        try:
            return self.records.values.columns(self.first, places)
        except DecodeError as error:
            at, place = error.where.record or 0, error.where.column or 0
            column = self.pairing.column_of(place)
            row = self.rows[[at]]
            raise self._add_places(ErrorColumns.of_errors([error]), row, column, place)[0] from None

    def convert_values(self, values: pa.Array, i: int, place: int, convert: Convert) -> StateColumn:
        """Convert the strings of column i, which is the field `place` of each delimited record.

        If some strings are not values of the column, adds errors to their records and returns
        `ABSENT`.
        """
        try:
            return StateColumn(convert(values))
        except DecodeError as error:
            bad, errors = errors_by_row(convert, values, error)
        wrong = self.rows[bad]

        def errors_at(rows: Longs) -> ErrorColumns:
            # `rows` is a subset of `wrong`: the first bad row of each message.
            own = errors.take(np.searchsorted(wrong, rows))
            return self._add_places(own, rows, i, place)

        self.add(wrong, errors_at)
        return ABSENT

    def _add_places(self, errors: ErrorColumns, rows: Longs, i: int, place: int) -> ErrorColumns:
        """Add the record, offset, table and column to the errors of a delimited column's values."""
        located = self.records.field_errors(rows, place, errors)
        return located.with_place(table=self.table.name, field=self.table.columns[i].name)


def _check_names(group: _DelimitedGroup, pairing: ColumnPairing) -> None:
    """Add an error to each delimited record that names a column differently than the table."""
    if pairing.name is None:
        return
    for i in range(pairing.columns):
        column = group.table.columns[i]
        codes, names = encode_distinct(group.records.values.text(group.first, pairing.name(i)))
        wrong = [name.casefold() != column.name.casefold() for name in names]
        if any(wrong):
            _refuse_names(group, i, codes, names, np.array(wrong))


def _refuse_names(
    group: _DelimitedGroup, i: int, codes: Longs, names: list[str], wrong: Mask
) -> None:
    table = group.table
    column = table.columns[i].name
    bad = np.flatnonzero(wrong[codes])
    problems = pa.array([f"column {i + 1} is named {name!r}, not {column}" for name in names])

    def errors(rows: Longs) -> ErrorColumns:
        # From row numbers in the batch back to rows of the group, and from those to the name that
        # each has.
        problem = problems.take(pa.array(codes[np.searchsorted(group.rows, rows)]))
        return group.records.errors(rows, problem, table=table.name, field=column)

    group.add(group.rows[bad], errors)


def _unbalanced(quotes: UnbalancedQuotesError) -> MessageErrors:
    """Build the errors of delimited messages whose quotes are not balanced."""
    places = pa.array(quotes.kinds, pa.int64())
    kinds = range(max(PROBLEMS) + 1)
    problem, hint = (
        pa.array([PROBLEMS[kind][part] if kind in PROBLEMS else "" for kind in kinds]).take(places)
        for part in (0, 1)
    )
    errors = MessageErrors()
    errors.add(
        quotes.bodies,
        ErrorColumns.of(len(quotes.bodies), problem, hint, offset=quotes.offsets, raw=quotes.raw),
    )
    return errors


MakeValues = Callable[[Octets, DelimitedFields, DelimitedOptions], FieldValues]


class DelimitedFormat(MessageFormat[DelimitedRecords]):
    """Reads delimited messages with one set of options.

    Formats that are nearly delimited, such as event publishing, pass `values` and `images` to
    replace the classes that copy values and read images.
    """

    def __init__(
        self,
        options: DelimitedOptions,
        values: MakeValues = FieldValues,
        images: DelimitedImageReader | None = None,
    ) -> None:
        self.options, self._values = options, values
        # With a quote property, escapes count only inside quotes, where delimiters are data anyway
        # (decision 0026). So the scan looks for escaped delimiters only without one.
        escapes = () if options.quote else (options.fielddelim_escaped, options.linedelim_escaped)
        self.dialect = DelimitedDialect(
            options.fielddelim,
            options.linedelim,
            options.quote,
            options.quote_escaped,
            tuple(escape for escape in escapes if escape),
            returns=options.linedelim == b"\n",
        )
        self._images = images or DelimitedImageReader(options)

    @property
    def has_befores(self) -> bool:
        """Whether updates in delimited messages may have before values (`delim.hasbefores`)."""
        return self.options.hasbefores

    def records(self, messages: MessageBatch) -> DelimitedRecords:
        """Split delimited messages into records and fields.

        A record with fewer fields than the header is an error.
        """
        data, starts = octets(messages.data), messages.without_marks().starts
        try:
            fields = index_fields(data, starts, messages.ends, self.dialect)
        except UnbalancedQuotesError as quotes:
            raise BadMessagesError(_unbalanced(quotes)) from None
        owner = fields.body
        values = self._values(data, fields, self.options)
        values.check_text(messages)
        offset = fields.starts[fields.first] - take_of_messages(messages.starts, owner)
        records = DelimitedRecords(messages, owner, offset, fields, values)
        hint = "Is the field delimiter right? Is the record cut off, or an empty line?"
        describe = partial(count_noun, name="field")
        records.check_sizes(fields.count, len(self.options.header), describe, hint)
        return records

    def layouts(
        self,
        records: DelimitedRecords,
        tables: Sequence[Table],  # noqa: ARG002  the number of fields decides
        table_of: Longs,  # noqa: ARG002
    ) -> Longs:
        """Return the layout number of each delimited record: its number of fields.

        Records of one table with the same number of fields are read together.
        """
        return records.fields.count

    def images(
        self, records: DelimitedRecords, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Read the before and after images of delimited records of one table, type and number of fields.

        Errors are added to `errors`.
        """
        return self._images.images(records, table, kind, rows, errors)
