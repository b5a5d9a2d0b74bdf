"""Read the metadata of operations: ids, times, tables, types.

Each value comes from a header field of the record, a message header or a literal, or is generated.

Generated ids are the record's position in the source. They have 20 digits, ascend, fit into 64
bits, and are the same whenever the same messages are captured again.

`MessageIds` recognizes redelivered messages by the id that `jms.id` selects. These ids must ascend
and all have the same length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple, NoReturn, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar.gather import checksums
from trailgate.columnar.rows import encode_distinct
from trailgate.columnar.strings import text_view
from trailgate.columnar.temporal import DEFAULT_FORMAT, DateFormat, parse_timestamps
from trailgate.errors import DecodeError, TransactionError
from trailgate.messages.bad_values import errors_by_row
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.messages import MessageBatch
from trailgate.messages.metadata_options import TIME, MetadataOptions
from trailgate.messages.problems import Problem
from trailgate.messages.property_reader import ValueSource
from trailgate.messages.property_rows import SourceKind
from trailgate.messages.records import MessageRecords
from trailgate.model.table_names import join_table_name

JMS_MESSAGE_ID: Final = "JMSMessageID"
# Message ids: many times the number of messages that brokers send ahead.
REMEMBERED: Final = 200_000
ANY_BODY: Final = -1  # instead of the checksum of an unknown body
_FIXED: Final = (
    "Message ids (jms.id) must be unique, ascend, and have a fixed length, because they are compared as text: "
    "let the sender set such a header, and name it in jms.id"
)
_ASCEND: Final = (
    "Message ids (jms.id) must ascend from message to message. --unordered-ids captures them as they are; "
    "a message whose id is remembered is skipped even then"
)
_UNIQUE: Final = (
    "Message ids (jms.id) must be unique: messages with one id and different bodies are not one message sent twice. "
    "Let jms.id name a header with a different value in each message"
)
_ABSENT: Final = "jms.id names it: set it in the sender, or remove jms.id and $jmsid"


_WIDTHS: Final = {
    "port": 5,
    "start": 13,
    "instance": 10,
    "connection": 10,
    "session": 10,
    "producer": 10,
    "number": 10,
}
_ACTIVEMQ: Final = (
    r"^(?P<name>ID:.*-)(?P<port>\d+)-(?P<start>\d+)-(?P<instance>\d+)"
    r":(?P<connection>-?\d+):(?P<session>-?\d+):(?P<producer>-?\d+):(?P<number>\d+)$"
)
HEADERS_HINT: Final = (
    "Headers come with .jsonl files ({'body': ..., 'headers': {...}} a line), "
    "brokers and Kafka; plain files have none"
)
_READ: Final = (SourceKind.FIELD, SourceKind.HEADER, SourceKind.MESSAGE_ID)
CUT_TIMES: Final = "commit times have microseconds in a trail: further digits were dropped"


def _padded_ids(ids: pa.Array) -> pa.Array:
    """Pad the numbers in message ids of ActiveMQ with zeros, so that text order is number order.

    Other ids are unchanged.

    An id is `ID:HOST-PORT-START-INSTANCE:CONNECTION:SESSION:PRODUCER:NUMBER`.
    """
    parts = pc.extract_regex(ids, _ACTIVEMQ)
    strings: list[pa.Array | str] = [pc.struct_field(parts, "name")]
    for (name, width), before in zip(_WIDTHS.items(), ("", *"--:", *":::"), strict=True):
        digits = pc.utf8_lpad(pc.struct_field(parts, name), width, "0")
        strings += [before, digits] if before else [digits]
    return pc.coalesce(pc.binary_join_element_wise(*strings, ""), ids)


class MessageIdHeader(NamedTuple):
    """What a value of `jms.id` selects: the header with the message id.

    `reformat` makes the ids sortable as text; None if they already are.
    """

    header: str
    reformat: Callable[[pa.Array], pa.Array] | None = None


# capture properties 2.1; any other value of jms.id is the name of a header.
MESSAGE_ID_HEADERS: Final[Mapping[str, MessageIdHeader]] = MappingProxyType(
    {
        "ogg": MessageIdHeader("GG_ID"),
        "wmq": MessageIdHeader(JMS_MESSAGE_ID),
        "activemq": MessageIdHeader(JMS_MESSAGE_ID, _padded_ids),
    }
)


def message_id_header(name: str | None) -> MessageIdHeader:
    """Return which header the message ids are read from: that of a keyword of `jms.id`, or the one with its name.

    None selects JMSMessageID.
    """
    name = name or JMS_MESSAGE_ID
    return MESSAGE_ID_HEADERS.get(name, MessageIdHeader(name))


def message_ids(messages: MessageBatch, name: str | None) -> pa.Array:
    """Read the id of each message of a batch from the header of `jms.id`, or null if the message does not have it.

    `name` is the value of `jms.id`, but not `time`.
    """
    selected = message_id_header(name)
    ids = messages.header(selected.header)
    return ids if selected.reformat is None else selected.reformat(ids)


class MessageIdRule(NamedTuple):
    """How message ids are compared: the value of `jms.id`, whether they must ascend, and how many are remembered."""

    name: str | None
    ordered: bool = True
    remembered: int = REMEMBERED

    @classmethod
    def of(
        cls, options: MetadataOptions, *, ordered: bool = True, remembered: int = REMEMBERED
    ) -> Self | None:
        """Return the rule for these options, or None if message ids are not compared."""
        return (
            cls(options.message_id, ordered, remembered) if options.compares_message_ids else None
        )


@dataclass(frozen=True, slots=True)
class DeduplicatedMessages:
    """The result of deduplicating a batch by message ids.

    `kept` are the numbers of new messages, or None if all are new. `problems` refer to message
    numbers in the original batch. `last[i]` is the highest id up to message i, or None before the
    first id.
    """

    kept: Longs | None
    problems: Sequence[Problem]
    last: Sequence[str | None]

    @property
    def duplicates(self) -> int:
        """The number of redelivered messages in the batch."""
        return 0 if self.kept is None else len(self.last) - len(self.kept)

    def apply(
        self, messages: MessageBatch, problems: Sequence[Problem]
    ) -> tuple[MessageBatch, Sequence[Problem]]:
        """Remove the duplicates from the messages and from their problems.

        The returned problems are `problems` and those of the deduplication, numbered for the
        remaining messages. A message that already has a problem gets no second one.
        """
        known = {problem.message for problem in problems}
        every = (*problems, *(one for one in self.problems if one.message not in known))
        if self.kept is None:
            return messages, every
        place = {int(at): number for number, at in enumerate(self.kept.tolist())}
        moved = (replace(one, message=place[one.message]) for one in every if one.message in place)
        return messages.only(self.kept), tuple(moved)


class MessageIds:
    """Deduplicates messages by their ids, batch by batch.

    The last `remembered` ids are kept in memory.

    A message is skipped if an earlier one had the same id and body. It is a problem if the same id
    comes with a different body, if an id differs in length from the highest id so far, or if only
    some messages of a batch have an id. With `ordered`, a new id must also be higher than all
    earlier ones.
    """

    def __init__(self, rule: MessageIdRule) -> None:
        self._name, self._ordered, self._remembered = rule
        self._known: dict[str, int] = {}  # the checksum of the body, by the id
        self._last: str | None = None

    def begin(self, last: str | None) -> None:
        """Set the highest id of earlier messages, or None if it is unknown.

        The body of that message is unknown, so a message with this id counts as a duplicate
        whatever its body is.
        """
        if last is not None:
            self._known.setdefault(last, ANY_BODY)
            self._last = max(last, self._last or last)

    def deduplicate(self, messages: MessageBatch) -> DeduplicatedMessages:
        """Find the messages of a batch whose ids are new, and the problems of ids."""
        ids = message_ids(messages, self._name)
        names: list[str | None] = ids.to_pylist()
        sums = checksums(messages.data, messages.starts, messages.ends)
        # The fast path for new, ascending ids: all are kept, without a loop in Python.
        if self._ascends(ids):
            self._known.update(zip(ids.to_pylist(), sums, strict=True))
            self._last = names[-1] if names else self._last
            self._forget()
            return DeduplicatedMessages(None, (), names)
        return self._one_by_one(names, sums, absent=ids.null_count < len(ids))

    def _ascends(self, ids: pa.Array) -> bool:
        """Return whether all ids ascend, from the last known id on, and have the same length.

        In that case none of them can be a duplicate.
        """
        if not len(ids) or ids.null_count:
            return not len(ids)
        lengths = pc.min_max(pc.binary_length(ids)).as_py()
        # Compared in bytes: all ids must be as long as the last one.
        width = lengths["max"] if self._last is None else len(self._last.encode())
        if lengths["min"] != width or lengths["max"] != width:
            return False
        if self._last is not None and ids[0].as_py() <= self._last:
            return False
        return pc.all(pc.greater(ids[1:], ids[:-1])).as_py() is not False

    def _one_by_one(
        self, names: list[str | None], sums: list[int], *, absent: bool
    ) -> DeduplicatedMessages:
        kept, last = np.ones(len(names), bool), []
        problems: list[Problem] = []
        for at, (own, checksum) in enumerate(zip(names, sums, strict=True)):
            # ANY_BODY matches a message whose body is unknown, such as the last one before a
            # restart.
            if own is not None and self._known.get(own) in (checksum, ANY_BODY):
                kept[at] = False
            else:
                error = self._error(own, absent=absent)
                if error is not None:
                    problems.append(Problem(at, error))
                elif own is not None:
                    self._known[own] = checksum
                    self._last = own if self._last is None else max(own, self._last)
            last.append(self._last)
        self._forget()
        return DeduplicatedMessages(
            None if kept.all() else np.flatnonzero(kept), tuple(problems), last
        )

    def _error(self, message_id: str | None, *, absent: bool) -> TransactionError | None:
        """Return the error of a message that is not a duplicate, or None if its id is good.

        A missing id (None) is an error only with `absent`, which means that other messages of the
        batch have an id.
        """
        if message_id is None:
            header = message_id_header(self._name).header
            problem = f"the message has no header {header} for its id"
            return TransactionError(problem, hint=_ABSENT) if absent else None
        if message_id in self._known:
            problem = f"the message id {message_id} was received before with a different body"
            return TransactionError(problem, hint=_UNIQUE)
        if self._last is None:
            return None
        if len(message_id) != len(self._last):
            problem = f"the message id {message_id} has {len(message_id)} characters, but {self._last} before it has {len(self._last)}"
            return TransactionError(problem, hint=_FIXED)
        if self._ordered and message_id < self._last:
            problem = f"the message id {message_id} follows the higher {self._last}"
            return TransactionError(problem, hint=_ASCEND)
        return None

    def _forget(self) -> None:
        """Remove the oldest ids if there are more than should be remembered."""
        for own in list(islice(self._known, max(0, len(self._known) - self._remembered))):
            del self._known[own]


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
            return message_ids(self.records.messages, self.options.message_id)
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
        received = self.records.messages.received
        if received is None:
            return np.full(len(self.records.message), self.now, np.int64)
        return self.records.of_messages(received)

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
