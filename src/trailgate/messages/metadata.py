"""The metadata of operations, by their sources: header field, message header, generated value or literal.

Generated ids are the record's position in the source: 20 digits that ascend, fit 64 bits, and are the same whenever the same messages are captured again. Message
ids, as ``jms.id`` selects them, ascend and have one length, and a message that comes again is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple, NoReturn, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar.digits import checksums
from trailgate.columnar.rows import distinct, text_view
from trailgate.columnar.temporal import DEFAULT_FORMAT, DateFormat, parse_timestamps
from trailgate.errors import DecodeError, TransactionError
from trailgate.messages.bounds import Problem
from trailgate.messages.messages import MessageBatch
from trailgate.messages.properties import TIME, MetadataOptions, ValueSource
from trailgate.messages.property_rows import SourceKind
from trailgate.messages.records import Records, errors_by_row

JMS_MESSAGE_ID: Final = "JMSMessageID"
REMEMBERED: Final = 200_000  # ids of messages: many times what brokers send ahead
ANY_BODY: Final = -1  # in the place of a body's checksum that is not known
_FIXED: Final = (
    "Message ids (jms.id) must be unique, ascend, and have a fixed length, so that text order is their order: "
    "let the sender set a header that does, and name it by jms.id"
)
_ASCEND: Final = (
    "Message ids (jms.id) must ascend from message to message. --unordered-ids captures them as they are; "
    "a message whose id is remembered is left out all the same"
)
_UNIQUE: Final = (
    "Message ids (jms.id) must be unique: messages with one id and different bodies are not one message sent twice. "
    "Let jms.id name a header that each message has a value of its own in"
)
_ABSENT: Final = "jms.id names it: set it in the sender, or remove jms.id and $jmsid"


def _padded_ids(ids: pa.Array) -> pa.Array:
    """Return ids of ActiveMQ's clients with their numbers padded with zeros; others as they are.

    An id is ``ID:HOST-PORT-START-INSTANCE:CONNECTION:SESSION:PRODUCER:NUMBER``.
    """
    parts = pc.extract_regex(ids, _ACTIVEMQ)
    strings: list[pa.Array | str] = [pc.struct_field(parts, "name")]
    for (name, width), before in zip(_WIDTHS.items(), ("", *"--:", *":::"), strict=True):
        digits = pc.utf8_lpad(pc.struct_field(parts, name), width, "0")
        strings += [before, digits] if before else [digits]
    return pc.coalesce(pc.binary_join_element_wise(*strings, ""), ids)


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


class MessageIdKind(NamedTuple):
    """One word of ``jms.id``: the header that has the id, and how that is made fit for an order, None where it is taken as it is."""

    header: str
    reformat: Callable[[pa.Array], pa.Array] | None = None


# capture properties 2.1; any other value of jms.id is the name of a header.
MESSAGE_ID_KINDS: Final[Mapping[str, MessageIdKind]] = MappingProxyType(
    {
        "ogg": MessageIdKind("GG_ID"),
        "wmq": MessageIdKind(JMS_MESSAGE_ID),
        "activemq": MessageIdKind(JMS_MESSAGE_ID, _padded_ids),
    }
)


def message_id_kind(name: str | None) -> MessageIdKind:
    """Return what a value of ``jms.id`` selects; None is JMSMessageID."""
    name = name or JMS_MESSAGE_ID
    return MESSAGE_ID_KINDS.get(name, MessageIdKind(name))


def message_ids(messages: MessageBatch, name: str | None) -> pa.Array:
    """Return each message's id by a value of ``jms.id`` that is not ``time``; null where it lacks the header."""
    kind = message_id_kind(name)
    ids = messages.header(kind.header)
    return ids if kind.reformat is None else kind.reformat(ids)


class MessageIdRule(NamedTuple):
    """How the ids of messages are compared: the value of ``jms.id``, and whether they are to ascend."""

    name: str | None
    ordered: bool = True
    remembered: int = REMEMBERED

    @classmethod
    def of(
        cls, options: MetadataOptions, *, ordered: bool = True, remembered: int = REMEMBERED
    ) -> Self | None:
        """Return how a capture of these options compares ids; None: it does not."""
        return (
            cls(options.message_id, ordered, remembered) if options.compares_message_ids else None
        )


@dataclass(frozen=True, slots=True)
class Deduplicated:
    """What is left of messages whose ids were looked at.

    ``kept`` are those that did not come before, None where that is all of them; ``problems`` count among all. ``last`` is the
    highest id after each message, None before the first one.
    """

    kept: Longs | None
    problems: tuple[Problem, ...]
    last: Sequence[str | None]

    @property
    def duplicates(self) -> int:
        """Return how many messages came before."""
        return 0 if self.kept is None else len(self.last) - len(self.kept)

    def apply(
        self, messages: MessageBatch, problems: tuple[Problem, ...]
    ) -> tuple[MessageBatch, tuple[Problem, ...]]:
        """Return the messages that are left, and their problems: those known before, and those of their ids."""
        known = {problem.message for problem in problems}
        every = (*problems, *(one for one in self.problems if one.message not in known))
        if self.kept is None:
            return messages, every
        place = {int(at): number for number, at in enumerate(self.kept.tolist())}
        moved = (replace(one, message=place[one.message]) for one in every if one.message in place)
        return messages.only(self.kept), tuple(moved)


class MessageIds:
    """Compares the ids of messages, batch by batch; the last ``remembered`` ones are known again.

    A message whose id and body came before is left out. Problems are ids that came before with another body, that have another
    length than the one before, or are lower and unknown, where they are to be ``ordered``.
    """

    def __init__(self, rule: MessageIdRule) -> None:
        self._name, self._ordered, self._remembered = rule
        self._known: dict[str, int] = {}  # the checksum of the body, by the id
        self._last: str | None = None

    def begin(self, last: str | None) -> None:
        """Note the highest id before the first message, where that is known; of its body nothing is."""
        if last is not None:
            self._known.setdefault(last, ANY_BODY)
            self._last = max(last, self._last or last)

    def screen(self, messages: MessageBatch) -> Deduplicated:
        """Return what is left of a batch."""
        ids = message_ids(messages, self._name)
        names: list[str | None] = ids.to_pylist()
        sums = checksums(messages.data, messages.starts, messages.ends)
        if self._ascends(ids):
            self._known.update(zip(ids.to_pylist(), sums, strict=True))
            self._last = names[-1] if names else self._last
            self._forget()
            return Deduplicated(None, (), names)
        return self._one_by_one(names, sums, absent=ids.null_count < len(ids))

    def _ascends(self, ids: pa.Array) -> bool:
        """Return whether ids are all higher than those before, and as long."""
        if not len(ids) or ids.null_count:
            return not len(ids)
        lengths = pc.min_max(pc.binary_length(ids)).as_py()
        width = lengths["max"] if self._last is None else len(self._last.encode())
        if lengths["min"] != width or lengths["max"] != width:
            return False
        if self._last is not None and ids[0].as_py() <= self._last:
            return False
        return pc.all(pc.greater(ids[1:], ids[:-1])).as_py() is not False

    def _one_by_one(
        self, names: list[str | None], sums: list[int], *, absent: bool
    ) -> Deduplicated:
        kept, last = np.ones(len(names), bool), []
        problems: list[Problem] = []
        for at, (own, checksum) in enumerate(zip(names, sums, strict=True)):
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
        return Deduplicated(None if kept.all() else np.flatnonzero(kept), tuple(problems), last)

    def _error(self, own: str | None, *, absent: bool) -> TransactionError | None:
        """Return what is wrong with the id of a message that did not come before."""
        if own is None:
            header = message_id_kind(self._name).header
            problem = f"the message has no header {header} for its id"
            return TransactionError(problem, hint=_ABSENT) if absent else None
        if own in self._known:
            problem = f"the message id {own} came before, with another body"
            return TransactionError(problem, hint=_UNIQUE)
        if self._last is None:
            return None
        if len(own) != len(self._last):
            problem = f"the message id {own} has {len(own)} characters, and {self._last} before it has {len(self._last)}"
            return TransactionError(problem, hint=_FIXED)
        if self._ordered and own < self._last:
            problem = f"the message id {own} follows the higher {self._last}"
            return TransactionError(problem, hint=_ASCEND)
        return None

    def _forget(self) -> None:
        """Forget the ids that came first, where they are more than are remembered."""
        for own in list(islice(self._known, max(0, len(self._known) - self._remembered))):
            del self._known[own]


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
            self.records.refuse(rows, lambda row: self.error(row, source, problem, hint))
        return values

    def error(
        self, row: int, source: ValueSource, problem: str, hint: str = "", **place: object
    ) -> DecodeError:
        """Return an error about a value of a record, placed at the value's field if it has one, or else at the record."""
        error = self.records.error(row, problem, hint, **place)
        at = self.records.field_place(row, source.name) if source.kind is SourceKind.FIELD else None
        if at is not None:
            field = error.where.field or source.name
            error.where = replace(
                error.where, offset=at.offset, field=field, raw=at.raw, text=at.text
            )
        return error

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
            return self._receive()
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
            return self._format(values, rows, self.options.timestamp_format)
        times = self._receive()
        for rows, given in formats or [(np.arange(len(values)), self.options.timestamp_format)]:
            read = rows if generated is None else rows[~generated[rows]]
            times[read] = self._format(values.take(pa.array(read)), read, given)
        return times

    def _receive(self) -> Longs:
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

    def _format(self, values: pa.Array, rows: Longs, given: DateFormat | None) -> Longs:
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
        def error_at(row: int) -> DecodeError:
            problem, hint = errors[row].problem, errors[row].hint
            if hint and not self.options.timestamp_format:
                hint += ": set timestamp.format where the messages have another form"
            source = self.options.timestamp
            error = self.error(row, source, problem, hint, field="timestamp")
            if error.where.offset == int(self.records.offset[row]):
                error.where = replace(error.where, raw=errors[row].where.raw)
            return error

        self.records.refuse(np.fromiter(errors, np.int64, len(errors)), error_at)

    def table_names(self) -> tuple[Longs, list[str]]:
        """Return each record's number among the different SCHEMA.TABLE, and these."""
        options = self.options
        if options.schemaandtable is not None:
            return self.codes(options.schemaandtable, "schemaandtable")
        codes, names = self.codes(options.table[0], "table")
        for source in options.table[1:]:
            codes, names = _pair((codes, names), self.codes(source, "table"), "")
        if options.schema is None:
            return codes, names
        return _pair(self.codes(options.schema, "schema"), (codes, names), ".")


def _pair(
    left: tuple[Longs, list[str]], right: tuple[Longs, list[str]], between: str
) -> tuple[Longs, list[str]]:
    """Return the numbers and strings of two columns joined."""
    pairs = left[0] * len(right[1]) + right[0]
    used = np.flatnonzero(np.bincount(pairs, minlength=1))
    numbers = np.zeros(int(used[-1]) + 1 if len(used) else 1, np.int64)
    numbers[used] = np.arange(len(used))
    strings = [divmod(pair, len(right[1])) for pair in used.tolist()]
    return numbers[pairs], [left[1][a] + between + right[1][b] for a, b in strings]
