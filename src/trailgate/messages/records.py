"""The records of a batch of messages, and the errors found in them.

A format cuts each message into records (`MessageRecords`): one row per record, with its message and
its byte offset. Rows of one table and operation type are then read together as a
`MessageRecordGroup`, which collects the errors of its rows.

All checks are done on complete columns, so one pass finds the errors of many messages; only the
first error of each message is kept. `BadMessagesError` returns them to the caller, which removes
the bad messages and parses the rest again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, NoReturn, TypeVar

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.columnar.rows import encode_distinct, first_of_each
from trailgate.columnar.temporal import DateFormat
from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.message_numbers import MessageBoundaries
from trailgate.messages.problems import MessageErrors
from trailgate.messages.skipped import SkipReason
from trailgate.model.tables import Table

RETURNS: Final = (
    "the carriage return before a line feed that ends a record is not part of the record"
)

R = TypeVar("R", bound="MessageRecords")


class BadMessagesError(Exception):
    """The bad messages of a batch: their numbers (`messages`) and errors (`columns`).

    The batch may contain further bad messages. The package `capture` catches this exception, and
    parses the other messages again without the bad ones.
    """

    def __init__(self, errors: MessageErrors | Mapping[int, TrailgateError]) -> None:
        found = errors if isinstance(errors, MessageErrors) else MessageErrors(errors)
        self.messages, self.columns = found.first_of_each()
        super().__init__(f"{len(self.messages)} bad messages")

    @property
    def errors(self) -> dict[int, TrailgateError]:
        """The errors of the bad messages as exceptions, by message number."""
        return dict(zip(self.messages.tolist(), self.columns, strict=True))


@dataclass(frozen=True, slots=True)
class MessageRecords(ABC):
    """The records in a batch of messages: the number of each one's message, and its byte offset.

    This is the base class; the class of each format adds the content, and reads the header fields.
    """

    # Why a message that is not blank contains no record of the format.
    no_record: ClassVar[SkipReason] = SkipReason.NO_RECORD

    messages: MessageBatch
    message: Longs
    offset: Longs  # of the record in its message's body

    @abstractmethod
    def text(self, name: str) -> pa.Array:
        """Return the header field `name` of the records as text, one value per record."""

    def codes(self, name: str) -> tuple[Longs, list[str]]:
        """Return a header field of the records as codes: for each record an index into the list of distinct strings."""
        return encode_distinct(self.text(name))

    def missing_problem(self, name: str, what: str) -> tuple[str, str]:
        """Return the problem and the hint for a record whose header field is blank.

        `what` is the metadata that the field is needed for.
        """
        return f"the field {name} is blank, but {what} is needed", ""

    def shared(self, name: str) -> tuple[pa.Array, Longs] | None:
        """Return the distinct values of a header field and each record's index into them.

        Only implemented by formats in which many records share a header field; others return None.
        """
        del name
        return None

    def time_formats(self) -> list[tuple[Longs, DateFormat | None]] | None:
        """Return each timestamp format that occurs in the records, with the rows that have it.

        Returns None if all records have the format of the options.
        """
        return None

    def is_generated(self, name: str) -> Mask | None:
        """Return a mask of the records in which a header field's value is generated, not read.

        Returns None if there are none.
        """
        del name
        return None

    def segments(self) -> Longs | None:
        """Return the number, from 1, of each record's message in its transaction, or 0 if it is not numbered.

        Returns None if messages of this format have no such numbers.
        """
        return None

    def transaction_ends(self) -> Mask | None:
        """Return a mask of the records that end their transaction.

        Returns None if the format has no such mark. Used only if transactions are identified by
        their ids alone.
        """
        return None

    def tokens(self) -> pa.Array | None:
        """Return each record's user tokens as an Arrow map of names to strings.

        Returns None if there are none.
        """
        return None

    def times(self) -> Longs | None:
        """Return each record's commit time in microseconds since 1970 UTC.

        Returns None if it must be parsed from a header field.
        """
        return None

    def boundaries(self, ids: pa.Array) -> MessageBoundaries | None:  # noqa: ARG002  for formats whose messages are numbered
        """Return the message boundaries, which show whether parts of a transaction were redelivered.

        `ids` are the transactions' sequence ids. Returns None if messages are not numbered.
        """
        return None

    def of_messages(self, values: Longs) -> Longs:
        """Return for each record the value of its message. `values` has one value for each message."""
        return take_of_messages(values, self.message)

    @property
    def notes(self) -> frozenset[str]:
        """Warnings about records of this format, which a run reports once."""
        return frozenset()

    def messages_without(self) -> Longs:
        """Return the numbers of the messages that contain no record, except those that `notes` report."""
        return messages_without_records(self.message, len(self.messages))

    @abstractmethod
    def raws(self, rows: Longs) -> pa.BinaryArray:
        """Return the bytes of these records, to show them in errors. Long records are cut."""

    def raw(self, row: int) -> bytes:
        """Return the bytes of one record, to show them in an error."""
        return bytes(self.raws(np.array([row]))[0].as_py())

    def error(self, row: int, problem: str, hint: str = "", **place: object) -> DecodeError:
        """Create an error located at a record: with its number in the message, offset and bytes."""
        where = Where(record=self.number(row), offset=int(self.offset[row]), raw=self.raw(row))
        return DecodeError(problem, where=where, hint=hint).with_place(**place)

    def errors(
        self, rows: Longs, problem: str | pa.Array, hint: str | pa.Array = "", **place: Any
    ) -> ErrorColumns:
        """Create errors located at records: with the number, the offset and the bytes of each.

        `problem`, `hint` and each field of `place` is one value for all errors, or a column.
        """
        own = {"record": self.numbers(rows), "offset": self.offset[rows], "raw": self.raws(rows)}
        return ErrorColumns.of(len(rows), problem, hint, **own | place)

    def field_places(self, rows: Longs, name: str) -> Mapping[str, Any] | None:
        """Return the offsets and bytes of a header field in these records, to locate their errors.

        Returns None if the format does not know them.
        """
        del rows, name
        return None

    def refuse(self, rows: Longs, errors: RowErrors) -> NoReturn:
        """Raise BadMessagesError for the messages of these bad records, with the first error of each.

        `rows` ascend, so the first row of a message is its first bad record.
        """
        # `first` is the index of each message's first bad row.
        messages, first = first_of_each(self.message[rows])
        found = MessageErrors()
        found.add(messages, errors(rows[first]))
        raise BadMessagesError(found)

    def check_sizes(
        self, sizes: Longs, least: int, describe: Callable[[int], str], hint: str
    ) -> None:
        """Raise BadMessagesError for the messages with a record that is shorter than the header.

        `sizes` are the lengths of the records, `least` is the length of the header, and `describe`
        formats a length, such as "2 fields".
        """

        def errors(rows: Longs) -> ErrorColumns:
            # One text for each distinct size, of which there are few.
            known, which = np.unique(sizes[rows], return_inverse=True)
            own = [f"{describe(one)}, but the header alone has {least}" for one in known.tolist()]
            return self.errors(rows, pa.array(own, pa.string()).take(pa.array(which)), hint)

        short = sizes < least
        if short.any():
            self.refuse(np.flatnonzero(short), errors)

    def number(self, row: int) -> int:
        """Return the number of one record within its message, counted from 1."""
        return int(self.numbers(np.array([row]))[0])

    def numbers(self, rows: Longs) -> Longs:
        """Return the number of each of these records within its message, counted from 1."""
        # Records ascend by message, so a search finds the first one of a message. Example: records of the
        # messages 0 0 1: record 1 is number 1 - 0 + 1 = 2 of message 0.
        first: Longs = np.searchsorted(self.message, self.message[rows])
        return rows - first + 1


def is_one_each(message: Longs, count: int) -> bool:
    """Return whether each of `count` messages has exactly one record. `message` is the message of each record, in order."""
    # Usual for delimited text. Arrays of messages are then arrays of records too, and are not copied.
    return len(message) == count and bool((message == np.arange(count)).all())


def take_of_messages(values: Longs, message: Longs) -> Longs:
    """Return for each record the value of its message.

    If each message has one record, this is `values` itself, which must not be written to.
    """
    return values if is_one_each(message, len(values)) else values[message]


def messages_without_records(message: Longs, count: int) -> Longs:
    """Return the numbers of the messages without records: those below `count` not in `message`.

    `message` is the message of each record. Example: of 4 messages, 0 0 3 lacks 1 and 2.
    """
    if is_one_each(message, count):
        return np.zeros(0, np.int64)
    lacking = np.ones(count, bool)
    lacking[message] = False
    return np.flatnonzero(lacking)


RowErrors = Callable[[Longs], ErrorColumns]


def errors_one_by_one(error: Callable[[int], TrailgateError]) -> RowErrors:
    """Wrap a function that creates the error of one record, so that it creates the errors of several records (`RowErrors`)."""
    return lambda rows: ErrorColumns.of_errors([error(row) for row in rows.tolist()])


class MessageRecordGroup(Generic[R]):
    """Records of one table in a batch of messages, which are read together.

    `rows` are the indexes of the group's records in `records`. `errors` collects the errors of the
    batch, of which only the first one of each message is kept.
    """

    def __init__(self, records: R, table: Table, rows: Longs, errors: MessageErrors) -> None:
        self.records, self.table, self.rows, self.errors = records, table, rows, errors

    def add_to_all(self, problem: str, hint: str = "", field: str | None = None) -> None:
        """Add the same error to all records of the group, for example about its table."""

        def errors(rows: Longs) -> ErrorColumns:
            return self.records.errors(rows, problem, hint, table=self.table.name, field=field)

        self.add(self.rows, errors)

    def add(self, rows: Longs, errors: RowErrors) -> None:
        """Add an error to each message of these records of the group.

        `rows` are the indexes of the bad records in the batch. `errors` is called with the first
        one in each message, and creates their errors.
        """
        if len(rows):
            messages, first = first_of_each(self.records.message[rows])
            self.errors.add(messages, errors(rows[first]))

    def add_values(self, at: Longs, found: ErrorColumns, name: str) -> None:
        """Add the errors `found` of values in the column `name` to the records of the group.

        `at` are the rows of these values in the group, ascending.
        """
        wrong = self.rows[at]

        def errors(rows: Longs) -> ErrorColumns:
            own = found.take(np.searchsorted(wrong, rows))
            problem, hint = own.columns["problem"], own.columns["hint"]
            located = self.records.errors(rows, problem, hint, table=self.table.name, field=name)
            return located.replace(raw=own.columns.get("raw"))

        self.add(wrong, errors)
