"""Read the metadata of operations: ids, times, tables, types.

Each value comes from a header field of the record, a message header or a literal, or is generated.

Generated ids are the record's position in the source. They have 20 digits, ascend, fit into 64
bits, and are the same whenever the same messages are captured again.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar.rows import encode_distinct
from trailgate.columnar.strings import text_view
from trailgate.columnar.temporal import DEFAULT_FORMAT, DateFormat, parse_timestamps
from trailgate.errors import DecodeError
from trailgate.messages.bad_values import errors_by_row
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.message_ids import (
    HEADERS_HINT,
    message_id_header,
    read_message_ids,
)
from trailgate.messages.metadata_options import TIME, MetadataOptions
from trailgate.messages.property_reader import ValueSource
from trailgate.messages.property_rows import SourceKind
from trailgate.messages.records import MessageRecords
from trailgate.model.table_names import join_table_name

_READ: Final = (SourceKind.FIELD, SourceKind.HEADER, SourceKind.MESSAGE_ID)
CUT_TIMES: Final = "commit times have microseconds in a trail: further digits were dropped"


class MetadataValues:
    """Reads the metadata of operations from one batch of records.

    `now` is the time of the run, for records whose time of receipt is unknown.
    """

    def __init__(self, options: MetadataOptions, records: MessageRecords, now: int) -> None:
        self.options, self.records, self.now = options, records, now
        self.notes: frozenset[str] = frozenset()

    def text(self, source: ValueSource, generated: pa.Array | None, what: str) -> pa.Array:
        """Return a required metadata value as text for each record, for example the transaction id.

        `what` names it in errors, such as "txid". `generated` has the values for records in which
        the value is not read but generated. Raises BadMessagesError for the messages without the
        value.
        """
        values = self.optional(source, generated)
        assert values is not None
        rows = self._rows_without_value(source, values, what)
        if len(rows):
            problem, hint = self._missing_problem(source, what)
            self.records.refuse(rows, lambda rows: self.errors(rows, source, problem, hint))
        return values

    def errors(
        self,
        rows: Longs,
        source: ValueSource,
        problem: str | pa.Array,
        hint: str | pa.Array = "",
        **place: Any,
    ) -> ErrorColumns:
        """Create errors about metadata, located at the field of the record, or at the record."""
        is_field = source.kind is SourceKind.FIELD
        at = self.records.field_places(rows, source.name) if is_field else None
        if at is None:
            return self.records.errors(rows, problem, hint, **place)
        # Show the field's own bytes instead of the whole record.
        return self.records.errors(rows, problem, hint, **{"field": source.name} | place | {**at})

    def _rows_without_value(self, source: ValueSource, values: pa.Array, what: str) -> Longs:
        """Return the records that lack a required metadata value.

        An empty id counts as no value, because all records with an empty id would be one
        transaction.
        """
        rows = np.zeros(0, np.int64)
        if values.null_count:
            rows = np.flatnonzero(np.asarray(values.is_null()))
        elif source.kind in _READ and what in self._required_ids():
            # An empty text ends at the offset at which it begins.
            offsets = text_view(values)[0]
            rows = (offsets[1:] == offsets[:-1]).nonzero()[0]
        return rows

    def _required_ids(self) -> tuple[str, ...]:
        """Return the names of the ids that every record must have: seqid, and perhaps txid.

        If sequence ids identify transactions, no transaction id is needed.
        """
        by_sequence = self.options.by_id and not self.options.operation_ids
        return ("seqid",) if by_sequence else ("seqid", "txid")

    def codes(self, source: ValueSource, what: str) -> tuple[Longs, list[str]]:
        """Return a required metadata value that repeats, such as the operation type, as codes.

        A code is an index into the list of distinct values; there is one for each record. `what`
        names the value in errors. Raises BadMessagesError for the messages without the value.
        """
        if source.kind is SourceKind.FIELD:
            codes, values = self.records.codes(source.name)
            if None not in values:
                return codes, values
        return encode_distinct(self.text(source, None, what))

    def _missing_problem(self, source: ValueSource, what: str) -> tuple[str, str]:
        if source.kind is SourceKind.FIELD:
            return self.records.missing_problem(source.name, what)
        return f"the message has no header {self._header(source)} for {what}", HEADERS_HINT

    def optional(self, source: ValueSource | None, generated: pa.Array | None) -> pa.Array | None:
        """Return an optional metadata value for each record, or None if `source` is None.

        A value is null if the message does not have the header. `generated` has the values for
        records in which the value is not read but generated.
        """
        if source is None:
            return None
        if source.kind is SourceKind.FIELD:
            values, mine = self.records.text(source.name), self.records.is_generated(source.name)
            return values if mine is None else pc.if_else(pa.array(mine), generated, values)
        if source.kind is SourceKind.LITERAL:
            return pa.repeat(pa.scalar(source.name, pa.string()), len(self.records.message))
        if source.kind in (SourceKind.HEADER, SourceKind.MESSAGE_ID):
            if source.kind is SourceKind.MESSAGE_ID and self.options.message_id == TIME:
                return generated
            return self._of_message(source).take(pa.array(self.records.message))
        return generated

    def _of_message(self, source: ValueSource) -> pa.Array:
        """Return the header that is the source of a metadata value, or the id, of each message."""
        if source.kind is SourceKind.MESSAGE_ID:
            return read_message_ids(self.records.messages, self.options.message_id)
        return self.records.messages.header(source.name)

    def _header(self, source: ValueSource) -> str:
        if source.kind is SourceKind.MESSAGE_ID:
            return message_id_header(self.options.message_id).header
        return source.name

    def times(self) -> Longs:
        """Return each record's commit time in microseconds since 1970 UTC."""
        source = self.options.timestamp
        if source.kind is SourceKind.TIMESTAMP:
            return self._received_times()
        known = self.records.times()
        if known is not None:
            return known
        formats = self.records.time_formats()
        times = self._shared_times(source) if formats is None else None
        if times is not None:
            return times
        generated = self.records.is_generated(source.name)
        values = self.text(source, pa.scalar("", pa.string()), "timestamp")
        if formats is None and generated is None:
            rows = np.arange(len(values))
            return self._parse_times(values, rows, self.options.timestamp_format)
        times = self._received_times()
        for rows, given in formats or [(np.arange(len(values)), self.options.timestamp_format)]:
            read = rows if generated is None else rows[~generated[rows]]
            times[read] = self._parse_times(values.take(pa.array(read)), read, given)
        return times

    def _received_times(self) -> Longs:
        """Return the time at which each record's message was received, or the time of the run if it is unknown."""
        message, received = self.records.message, self.records.messages.received
        if received is None:
            return np.full(len(message), self.now, np.int64)
        # A copy, in which the times that records state replace some.
        times: Longs = received[message]
        return times

    def _shared_times(self, source: ValueSource) -> Longs | None:
        """Parse the distinct values of a time field that many records share, such as a commit time.

        Returns a time for each record, or None if times must be parsed record by record, for
        example because one of them is invalid.
        """
        shared = self.records.shared(source.name) if source.kind is SourceKind.FIELD else None
        if shared is None or shared[0].null_count:
            return None
        values, which = shared
        given, fmt = self.options.timestamp_format, None
        # Without a configured format, digits alone are read without a format, and text by the
        # default one.
        if given:
            fmt = given
        else:
            digits = np.asarray(pc.utf8_is_digit(values))
            fmt = None if digits.any() else DEFAULT_FORMAT
            if fmt is None and not digits.all():
                return None
        try:
            times, cut = parse_timestamps(values, fmt)
        except DecodeError:
            return None
        return times[which] if cut < 0 else None

    def _parse_times(self, values: pa.Array, rows: Longs, given: DateFormat | None) -> Longs:
        """Parse the commit times `values` of the records `rows` with the configured format `given`.

        If that is None, text is parsed with the default format, and digits alone as a number.
        """
        if given:
            return self._parse_with(values, rows, given)
        digits = self._in_digits(values, rows)
        # Without a configured format, a time is either text or a number. Mixed batches are read in
        # two parts.
        if digits.all() or not digits.any():
            return self._parse_with(values, rows, DEFAULT_FORMAT if not digits.any() else None)
        times = np.empty(len(values), np.int64)
        for mine, fmt in ((~digits, DEFAULT_FORMAT), (digits, None)):
            which = np.flatnonzero(mine)
            times[which] = self._parse_with(values.take(pa.array(which)), rows[which], fmt)
        return times

    def _in_digits(self, values: pa.Array, rows: Longs) -> Mask:
        """Return a mask of the records in messages whose first record has a time of digits only.

        All records of a message are read with the same format.
        """
        message = self.records.message[rows]
        # For each record, the index of the first record of its message: all records of a message
        # are read in the same way.
        first = np.searchsorted(message, message)
        digits: Mask = pc.utf8_is_digit(values).to_numpy(zero_copy_only=False)[first]
        return digits

    def _parse_with(self, values: pa.Array, rows: Longs, fmt: DateFormat | None) -> Longs:
        """Parse the commit times `values` of the records `rows` with one format (None: numbers).

        Raises BadMessagesError with the messages that have an invalid time.
        """
        try:
            times, cut = parse_timestamps(values, fmt)
        except DecodeError as error:
            bad, errors = errors_by_row(lambda part: parse_timestamps(part, fmt), values, error)
            self._refuse_times(rows[bad], errors)
        if cut >= 0:
            self.notes |= {CUT_TIMES}
        return times

    def _refuse_times(self, rows: Longs, found: ErrorColumns) -> NoReturn:
        if not self.options.timestamp_format:
            hint, more = (
                found.columns["hint"],
                ": set timestamp.format if the messages have another format",
            )
            longer = pc.binary_join_element_wise(hint, more, "")
            found = found.replace(hint=pc.if_else(pc.equal(hint, ""), "", longer))

        def errors_at(first: Longs) -> ErrorColumns:
            # ``first`` are some of ``rows``, which ascend: find the index of the error of each.
            own = found.take(np.searchsorted(rows, first))
            problem, hint = own.columns["problem"], own.columns["hint"]
            errors = self.errors(first, self.options.timestamp, problem, hint, field="timestamp")
            # A time that is not a field of its own is shown instead of the whole record.
            whole = np.asarray(errors.column("offset")) == self.records.offset[first]
            raw = own.columns.get("raw")
            return errors.replace(raw=pc.if_else(pa.array(whole), raw, errors.column("raw")))

        self.records.refuse(rows, errors_at)

    def table_names(self) -> tuple[Longs, list[str]]:
        """Return each record's table as an index into the list of distinct SCHEMA.TABLE names."""
        options = self.options
        if options.schemaandtable is not None:
            return self.codes(options.schemaandtable, "schemaandtable")
        codes, names = self.codes(options.table[0], "table")
        for source in options.table[1:]:
            codes, names = _pair((codes, names), self.codes(source, "table"), "")
        if options.quotes_table:
            names = [join_table_name((name,)) for name in names]
        if options.schema is None:
            return codes, names
        return _pair(self.codes(options.schema, "schema"), (codes, names), ".")


def _pair(
    left: tuple[Longs, list[str]], right: tuple[Longs, list[str]], between: str
) -> tuple[Longs, list[str]]:
    """Join two parts of table names, such as schemas and tables, with the separator ``between``.

    A part is an index for each record, and the list of distinct strings.
    """
    # Usually all tables have one schema: then the numbers of the tables are those of the pairs.
    if len(left[1]) == 1 or len(right[1]) == 1:
        codes = left[0] if len(right[1]) == 1 else right[0]
        return codes, [one + between + other for one in left[1] for other in right[1]]
    # Numbers each pair (a, b) as a * n + b, then renumbers the pairs that occur as 0, 1, 2, ...
    pairs = left[0] * len(right[1]) + right[0]
    used = np.flatnonzero(np.bincount(pairs, minlength=1))
    numbers = np.zeros(int(used[-1]) + 1 if len(used) else 1, np.int64)
    numbers[used] = np.arange(len(used))
    strings = [divmod(pair, len(right[1])) for pair in used.tolist()]
    return numbers[pairs], [left[1][a] + between + right[1][b] for a, b in strings]
