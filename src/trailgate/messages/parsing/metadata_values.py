"""The value sources of metadata: header field, message header, generated value or literal.

Generated ids are the record's position in the source: 20 digits that ascend, fit 64 bits, and
are the same whenever the same messages are captured again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar.rows import distinct, text_view
from trailgate.columnar.temporal import DEFAULT_FORMAT, DateFormat, parse_timestamps
from trailgate.errors import DecodeError
from trailgate.messages.parsing.bad_messages import errors_by_row
from trailgate.messages.parsing.message_ids import message_id_kind, message_ids
from trailgate.messages.parsing.records import Records
from trailgate.messages.properties.metadata import TIME, MetadataOptions
from trailgate.messages.properties.rows import SourceKind
from trailgate.messages.properties.values import ValueSource

HEADERS_HINT: Final = (
    "Headers come with .jsonl files ({'body': ..., 'headers': {...}} a line), "
    "brokers and Kafka; plain files have none"
)

_READ: Final = (SourceKind.FIELD, SourceKind.HEADER, SourceKind.MESSAGE_ID)

CUT_TIMES: Final = "commit times have microseconds in a trail: further digits were dropped"


class MetadataValues:
    """Reads metadata of the records of one batch."""

    def __init__(self, options: MetadataOptions, records: Records, now: int) -> None:
        self.options, self.records, self.now = options, records, now
        self.notes: frozenset[str] = frozenset()

    def text(self, source: ValueSource, generated: pa.Array | None, what: str) -> pa.Array:
        """Return a value for each record; raises BadMessagesError where messages lack the header."""
        values = self.optional(source, generated)
        assert values is not None
        rows = self._blank(source, values, what)
        if len(rows):
            problem, hint = self._lack(source, what)
            self.records.refuse(rows, lambda row: self.records.error(row, problem, hint))
        return values

    def _blank(self, source: ValueSource, values: pa.Array, what: str) -> Longs:
        """Return the records without a value. An id without a character is none: all such records would be one."""
        rows = np.zeros(0, np.int64)
        if values.null_count:
            rows = np.flatnonzero(np.asarray(values.is_null()))
        elif source.kind in _READ and what in self._ids():
            rows = np.flatnonzero(np.diff(text_view(values)[0]) == 0)
        return rows

    def _ids(self) -> tuple[str, ...]:
        """Return the ids that have to be there; where transactions are known by their sequence ids, that is enough."""
        by_sequence = self.options.by_id and not self.options.operation_ids
        return ("seqid",) if by_sequence else ("seqid", "txid")

    def codes(self, source: ValueSource, what: str) -> tuple[Longs, list[str]]:
        """Return each record's number among the different values, and these; raises as ``text`` does."""
        if source.kind is SourceKind.FIELD:
            codes, found = self.records.codes(source.name)
            if None not in found:
                return codes, found
        return distinct(self.text(source, None, what))

    def _lack(self, source: ValueSource, what: str) -> tuple[str, str]:
        if source.kind is SourceKind.FIELD:
            return self.records.lacking(source.name, what)
        return f"the message has no header {self._header(source)} for {what}", HEADERS_HINT

    def optional(self, source: ValueSource | None, generated: pa.Array | None) -> pa.Array | None:
        """Return a value for each record, null where a message lacks the header."""
        if source is None:
            return None
        if source.kind is SourceKind.FIELD:
            values, mine = self.records.text(source.name), self.records.generated(source.name)
            return values if mine is None else pc.if_else(pa.array(mine), generated, values)
        if source.kind is SourceKind.LITERAL:
            return pa.repeat(pa.scalar(source.name, pa.string()), len(self.records.message))
        if source.kind in (SourceKind.HEADER, SourceKind.MESSAGE_ID):
            if source.kind is SourceKind.MESSAGE_ID and self.options.message_id == TIME:
                return generated
            return self._of_message(source).take(pa.array(self.records.message))
        return generated

    def _of_message(self, source: ValueSource) -> pa.Array:
        """Return a header of each message, or its id."""
        if source.kind is SourceKind.MESSAGE_ID:
            return message_ids(self.records.messages, self.options.message_id)
        return self.records.messages.header(source.name)

    def _header(self, source: ValueSource) -> str:
        if source.kind is SourceKind.MESSAGE_ID:
            return message_id_kind(self.options.message_id).header
        return source.name

    def times(self) -> Longs:
        """Return each record's commit time in microseconds since 1970 UTC."""
        source = self.options.timestamp
        if source.kind is SourceKind.TIMESTAMP:
            return self._received()
        known = self.records.times()
        if known is not None:
            return known
        formats = self.records.time_formats()
        times = self._shared_times(source) if formats is None else None
        if times is not None:
            return times
        generated = self.records.generated(source.name)
        values = self.text(source, pa.scalar("", pa.string()), "timestamp")
        if formats is None and generated is None:
            rows = np.arange(len(values))
            return self._formatted(values, rows, self.options.timestamp_format)
        times = self._received()
        for rows, given in formats or [(np.arange(len(values)), self.options.timestamp_format)]:
            read = rows if generated is None else rows[~generated[rows]]
            times[read] = self._formatted(values.take(pa.array(read)), read, given)
        return times

    def _received(self) -> Longs:
        """Return when each record's message was received, or when it is read."""
        message, received = self.records.message, self.records.messages.received
        if received is None:
            return np.full(len(message), self.now, np.int64)
        times: Longs = received[message]
        return times

    def _shared_times(self, source: ValueSource) -> Longs | None:
        """Return the times of records that share them, each read once; None where that has to be done for each record, as for errors."""
        shared = self.records.shared(source.name) if source.kind is SourceKind.FIELD else None
        if shared is None or shared[0].null_count:
            return None
        values, which = shared
        given, fmt = self.options.timestamp_format, None
        digits = np.asarray(pc.utf8_is_digit(values))
        if given:
            fmt = given
        elif not digits.any():
            fmt = DEFAULT_FORMAT
        elif not digits.all():
            return None
        try:
            times, cut = parse_timestamps(values, fmt)
        except DecodeError:
            return None
        return times[which] if cut < 0 else None

    def _formatted(self, values: pa.Array, rows: Longs, given: DateFormat | None) -> Longs:
        """Return the times of these records' values, of one format or of the default ones."""
        if given:
            return self._times(values, rows, given)
        digits = self._in_digits(values, rows)
        if digits.all() or not digits.any():
            return self._times(values, rows, DEFAULT_FORMAT if not digits.any() else None)
        times = np.empty(len(values), np.int64)
        for mine, fmt in ((~digits, DEFAULT_FORMAT), (digits, None)):
            which = np.flatnonzero(mine)
            times[which] = self._times(values.take(pa.array(which)), rows[which], fmt)
        return times

    def _in_digits(self, values: pa.Array, rows: Longs) -> Mask:
        """Return the records of messages whose first one, of these, has a time in digits alone."""
        message = self.records.message[rows]
        first = np.searchsorted(message, message)
        digits: Mask = pc.utf8_is_digit(values).to_numpy(zero_copy_only=False)[first]
        return digits

    def _times(self, values: pa.Array, rows: Longs, fmt: DateFormat | None) -> Longs:
        """Return the times of these records' values; raises BadMessagesError."""
        try:
            times, cut = parse_timestamps(values, fmt)
        except DecodeError as error:
            errors = errors_by_row(lambda part: parse_timestamps(part, fmt), values, error)
            self._refuse_times({int(rows[at]): errors[at] for at in errors})
        if cut >= 0:
            self.notes |= {CUT_TIMES}
        return times

    def _refuse_times(self, errors: dict[int, DecodeError]) -> NoReturn:
        def placed(row: int) -> DecodeError:
            problem, hint = errors[row].problem, errors[row].hint
            if hint and not self.options.timestamp_format:
                hint += ": set timestamp.format where the messages have another form"
            error = self.records.error(row, problem, hint, field="timestamp")
            error.where = replace(error.where, raw=errors[row].where.raw)
            return error

        self.records.refuse(np.fromiter(errors, np.int64, len(errors)), placed)

    def table_names(self) -> tuple[Longs, list[str]]:
        """Return each record's number among the different SCHEMA.TABLE, and these."""
        options = self.options
        if options.schemaandtable is not None:
            return self.codes(options.schemaandtable, "schemaandtable")
        codes, names = self.codes(options.table[0], "table")
        for source in options.table[1:]:
            codes, names = _paired((codes, names), self.codes(source, "table"), "")
        if options.schema is None:
            return codes, names
        return _paired(self.codes(options.schema, "schema"), (codes, names), ".")


def _paired(
    left: tuple[Longs, list[str]], right: tuple[Longs, list[str]], between: str
) -> tuple[Longs, list[str]]:
    """Return the numbers and texts of two columns joined."""
    pairs = left[0] * len(right[1]) + right[0]
    used = np.flatnonzero(np.bincount(pairs, minlength=1))
    numbers = np.zeros(int(used[-1]) + 1 if len(used) else 1, np.int64)
    numbers[used] = np.arange(len(used))
    texts = [divmod(pair, len(right[1])) for pair in used.tolist()]
    return numbers[pairs], [left[1][a] + between + right[1][b] for a, b in texts]
