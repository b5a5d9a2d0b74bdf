"""The records of a batch of messages, and the errors found in them.

A format cuts each message into records (`MessageRecords`): one row per record, with its message and
its byte offset. Rows of one table and operation type are then read together as a
`MessageRecordGroup`, which collects the errors of its rows.

All checks are done on complete columns, so one pass finds the errors of many messages; only the
first error of each message is kept. `BadMessagesError` returns them to the caller, which removes
the bad messages and parses the rest again.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, NoReturn, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar.gather import gather
from trailgate.columnar.rows import encode_distinct, first_of_each, octets
from trailgate.columnar.temporal import DateFormat
from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.messages import kernels
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.message_numbers import MessageBoundaries
from trailgate.messages.messages import MessageBatch
from trailgate.messages.problems import MessageErrors
from trailgate.messages.skipped import SkipReason
from trailgate.model.changes import Image, StateColumn
from trailgate.model.tables import Table

RETURNS: Final = (
    "the carriage return before a line feed that ends a record is not part of the record"
)
_NULL_KEY_HINT: Final = (
    "The row cannot be found by such a key. Are before values sent with this record?"
)
_HINT = "Convert the messages to UTF-8 before capture"
_MARK_HINT = "Convert the messages to UTF-8 before capture: iconv -f {mark} -t UTF-8"
# UTF-32 first: its little-endian mark FF FE 00 00 begins with that of UTF-16, FF FE.
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
# Clients of a schema registry write a zero byte and the 4-byte id of the schema before each value.
_REGISTRY_HEAD = 5
_FIRST_OF_OTHERS: Final = np.array([0, *{mark[0] for mark, _ in _MARKS}], np.uint8)

C = TypeVar("C", bound="ValueColumn")
R = TypeVar("R", bound="MessageRecords")


class BadMessagesError(Exception):
    """The errors of several bad messages in a batch, by message number.

    The batch may contain further bad messages. This error never leaves `capture`: it catches the
    error, and parses the good messages again without the bad ones.
    """

    def __init__(self, errors: MessageErrors | Mapping[int, TrailgateError]) -> None:
        found = errors if isinstance(errors, MessageErrors) else MessageErrors(errors)
        self.messages, self.columns = found.first_of_each()
        super().__init__(f"{len(self.messages)} bad messages")

    @property
    def errors(self) -> dict[int, TrailgateError]:
        """The errors as exceptions, by message."""
        return dict(zip(self.messages.tolist(), self.columns, strict=True))


def errors_by_row(
    convert: Callable[[pa.Array], object], values: pa.Array, error: DecodeError
) -> tuple[Longs, ErrorColumns]:
    """Return the rows whose values `convert` rejects, in order, with the error of each.

    `error` is the error of the whole column.
    """
    coded = values.dictionary_encode()
    found, errors = find_errors(convert, coded.dictionary)
    if not len(found):
        raise error
    # ``which`` is the index of a distinct value's error, or -1 if the value is good. Example: of
    # the values a, b, a, null only b is bad: which = -1 0, of_row = -1 0 -1 -1, rows = 1.
    which = np.full(len(coded.dictionary), -1)
    which[found] = np.arange(len(found))
    of_row = which[np.asarray(coded.indices.fill_null(0))]
    if coded.indices.null_count:
        of_row[np.asarray(coded.indices.is_null())] = -1
    rows = np.flatnonzero(of_row >= 0)
    return rows, errors.take(of_row[rows])


class ValueColumn(Protocol):
    """The interface of columns that can be sliced and taken from like an Arrow array."""

    def __len__(self) -> int: ...
    def slice(self, at: int, count: int, /) -> Self:
        """Return `count` consecutive values of the column, from index `at` on."""
        ...

    def take(self, rows: pa.Array, /) -> Self:
        """Return the column's values at these row indexes."""
        ...


def find_errors(convert: Callable[[C], object], values: C) -> tuple[Longs, ErrorColumns]:
    """Return the indexes of the values that `convert` rejects, in order, with the error of each.

    An error may list all values with the same fault (`alike`). These are removed and the rest is
    converted again. If it lists none, the values are converted in parts.
    """
    errors = MessageErrors()
    rows = np.arange(len(values))
    while len(rows):
        part = values if len(rows) == len(values) else values.take(pa.array(rows))
        try:
            convert(part)
        except DecodeError as error:
            # The error concerns only one value: search for the others in slices.
            if len(error.alike) < 2:
                alone = _find_in_slices(convert, part)
                places = np.fromiter(alone, np.int64, len(alone))
                errors.add(rows[places], ErrorColumns.of_errors(list(alone.values())))
                break
            alike = np.asarray(error.alike, np.int64)
            errors.add(rows[alike], _as_rows(error, part, alike))
            rows = np.delete(rows, alike)
        else:
            break
    return errors.first_of_each()


def _as_rows(error: DecodeError, values: Any, rows: Longs) -> ErrorColumns:
    """Return an error as columns, one row for each of several rows."""
    strings = values if isinstance(values, pa.Array) else values.strings
    raw = strings.take(pa.array(rows))
    return ErrorColumns.of(len(rows), error.problem, error.hint, record=rows, raw=raw)


def _find_in_slices(convert: Callable[[C], object], values: C) -> dict[int, DecodeError]:
    """Find the bad values by converting slices whose size adapts to the distance between bad values.

    After a good slice, the next one is twice as long. After a bad value, it is as long as the good
    stretch before that value. So both a few and many bad values need few attempts. Texts are
    converted in sorted order, because similar texts tend to be bad together.
    """
    if isinstance(values, pa.Array):
        order = pc.array_sort_indices(values)
        found = _find_in_slices_of(convert, values.take(order))
        return {order[at].as_py(): found[at] for at in found}
    return _find_in_slices_of(convert, values)


def _find_in_slices_of(convert: Callable[[C], object], values: C) -> dict[int, DecodeError]:
    errors = {}
    # Example: of 100 values number 40 is bad. The slice [0, 100) finds it, and the next ones, [41, 82)
    # and [82, 100), are good: three calls.
    at, size = 0, len(values)
    while at < len(values):
        size = min(size, len(values) - at)
        try:
            convert(values.slice(at, size))
        except DecodeError as error:
            good = error.where.record or 0
            errors[at + good] = error
            at, size = at + good + 1, 1 + good
        else:
            at, size = at + size, 2 * size
    return errors


@dataclass(frozen=True, slots=True)
class MessageRecords(ABC):
    """The records in a batch of messages: the message and byte offset of each.

    Subclasses for the formats add the content.
    """

    # Why a message that is not blank contains no record of the format.
    no_record: ClassVar[SkipReason] = SkipReason.NO_RECORD

    messages: MessageBatch
    message: Longs
    offset: Longs  # of the record in its message's body

    @abstractmethod
    def text(self, name: str) -> pa.Array:
        """Return a header field as text, one value per record."""

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
        """Return the rows of each timestamp format that occurs in the records.

        Returns None if all records have the format of the options.
        """
        return None

    def is_generated(self, name: str) -> Mask | None:
        """Return a mask of the records whose header field is generated, or None if there are none."""
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

    @property
    def notes(self) -> frozenset[str]:
        """Warnings about records of this format, which a run reports once."""
        return frozenset()

    def messages_without(self) -> Longs:
        """Return the numbers of the messages that contain no record, except those that `notes` report."""
        return numbers_without(self.message, len(self.messages))

    @abstractmethod
    def raws(self, rows: Longs) -> pa.BinaryArray:
        """Return the bytes of several records, for errors. Long records are cut."""

    def raw(self, row: int) -> bytes:
        """Return the bytes of one record of a message."""
        return bytes(self.raws(np.array([row]))[0].as_py())

    def error(self, row: int, problem: str, hint: str = "", **place: object) -> DecodeError:
        """Create an error located at a record, with its message and offset."""
        where = Where(record=self.number(row), offset=int(self.offset[row]), raw=self.raw(row))
        return DecodeError(problem, where=where, hint=hint).with_place(**place)

    def errors(
        self, rows: Longs, problem: str | pa.Array, hint: str | pa.Array = "", **place: Any
    ) -> ErrorColumns:
        """Create errors located at records. Each part is one value for all errors, or a column."""
        own = {"record": self.numbers(rows), "offset": self.offset[rows], "raw": self.raws(rows)}
        return ErrorColumns.of(len(rows), problem, hint, **own | place)

    def field_places(self, rows: Longs, name: str) -> Mapping[str, Any] | None:
        """Return the offsets and bytes of a header field in records, to show in their errors.

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
        """Raise BadMessagesError if records are shorter than the header.

        `least` is the length of the header, and `describe` formats a length, such as "2 fields".
        """

        def errors(rows: Longs) -> ErrorColumns:
            # One text for each distinct size, of which there are few.
            known, which = np.unique(sizes[rows], return_inverse=True)
            own = [f"{describe(one)}, but the header alone has {least}" for one in known.tolist()]
            return self.errors(rows, pa.array(own, pa.string()).take(pa.array(which)), hint)

        short = np.flatnonzero(sizes < least)
        if len(short):
            self.refuse(short, errors)

    def number(self, row: int) -> int:
        """Return a record's number within its message, counted from 1."""
        return int(self.numbers(np.array([row]))[0])

    def numbers(self, rows: Longs) -> Longs:
        """Return each record's number within its message, counted from 1."""
        # Records ascend by message, so a search finds the first one of a message. Example: records of the
        # messages 0 0 1: record 1 is number 1 - 0 + 1 = 2 of message 0.
        first: Longs = np.searchsorted(self.message, self.message[rows])
        return rows - first + 1


def numbers_without(message: Longs, count: int) -> Longs:
    """Return the numbers below `count` that do not occur in `message`."""
    lacking = np.ones(count, bool)
    lacking[message] = False
    return np.flatnonzero(lacking)


RowErrors = Callable[[Longs], ErrorColumns]


def one_by_one(error: Callable[[int], TrailgateError]) -> RowErrors:
    """Wrap a function that creates the error of one row, so that it creates the errors of several rows."""
    return lambda rows: ErrorColumns.of_errors([error(row) for row in rows.tolist()])


class MessageRecordGroup(Generic[R]):
    """Records of one table in a batch of messages, which are read together.

    Collects their errors; only the first one of each message is kept.
    """

    def __init__(self, records: R, table: Table, rows: Longs, errors: MessageErrors) -> None:
        self.records, self.table, self.rows, self.errors = records, table, rows, errors

    def refuse(self, problem: str, hint: str = "", field: str | None = None) -> None:
        """Add the same error to all records of the group."""

        def errors(rows: Longs) -> ErrorColumns:
            return self.records.errors(rows, problem, hint, table=self.table.name, field=field)

        self.add(self.rows, errors)

    def add(self, rows: Longs, errors: RowErrors) -> None:
        """Add errors to some rows of the group.

        `errors` creates the errors, for the first bad row of each message.
        """
        if len(rows):
            messages, first = first_of_each(self.records.message[rows])
            self.errors.add(messages, errors(rows[first]))

    def add_values(self, at: Longs, found: ErrorColumns, name: str) -> None:
        """Add the errors of values in the column `name`.

        `at` are their rows in the group, ascending.
        """
        wrong = self.rows[at]

        def errors(rows: Longs) -> ErrorColumns:
            own = found.take(np.searchsorted(wrong, rows))
            problem, hint = own.columns["problem"], own.columns["hint"]
            located = self.records.errors(rows, problem, hint, table=self.table.name, field=name)
            return located.replace(raw=own.columns.get("raw"))

        self.add(wrong, errors)


def check_keys(group: MessageRecordGroup[R], before: Image) -> None:
    """Add an error to each record whose before image has a NULL key (decision 0008).

    A key column that is not nullable must have a value. Definitions of Oracle tables declare all
    columns nullable (capture properties §9.2), so of the nullable key columns only one needs a
    value.
    """
    nulls = {key: _nulls(before[key], len(group.rows)) for key in group.table.marked_keys}
    if not any(mask.any() for mask in nulls.values()):
        return
    # A nullable column is an error only in rows in which all key columns are NULL.
    all_null = np.logical_and.reduce(list(nulls.values()))
    for key, mask in nulls.items():
        column = group.table.columns[key]
        group.add(
            group.rows[all_null if column.nullable else mask], _null_key_error(group, column.name)
        )


def _nulls(column: StateColumn, rows: int) -> Mask:
    values = column.values
    if values is None or not values.null_count:
        return np.zeros(rows, bool)
    nulls: Mask = values.is_null().to_numpy(zero_copy_only=False)
    return nulls if column.missing is None else nulls & ~column.missing


def _null_key_error(group: MessageRecordGroup[R], name: str) -> RowErrors:
    problem = f"the before value of key column {name} is NULL"
    return lambda rows: group.records.errors(
        rows, problem, _NULL_KEY_HINT, table=group.table.name, field=name
    )


def registry_hint(body: bytes) -> str:
    """Return a hint if a body looks like data in a schema registry's format, for example Avro, otherwise ""."""
    if body[:1] != b"\0" or len(body) < _REGISTRY_HEAD:
        return ""
    number = int.from_bytes(body[1:_REGISTRY_HEAD], "big")
    return (
        f"It begins like a value from a schema registry (schema {number}): Avro, Protobuf or JSON Schema. Bodies are text: "
        "let the producer's or a connector's converter write JSON, or decode them on Spark (from_avro)"
    )


def encoding_error(body: bytes, where: Where) -> DecodeError | None:
    """Build an error if a message body begins with the byte order mark of UTF-16 or UTF-32; otherwise return None."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            problem = f"the message is not UTF-8 text: it begins with the byte order mark of {name}"
            return DecodeError(problem, where=where, hint=_MARK_HINT.format(mark=name))
    return None


def check_utf8(messages: MessageBatch, hint: str = _HINT) -> None:
    """Check that all message bodies are UTF-8. Raises BadMessagesError with the messages that are not."""
    if not are_utf8(messages):
        errors = _utf8_errors(messages, hint)
        if errors:  # otherwise the invalid bytes lie between the messages
            raise BadMessagesError(errors)


def are_utf8(messages: MessageBatch) -> bool:
    """Return whether the bytes from the first body to the end of the last one are UTF-8."""
    if not len(messages):
        return True
    low, high = int(messages.starts[0]), int(messages.ends[-1])
    return is_utf8(messages.data.slice(low, high - low))


def is_utf8(text: pa.Buffer | bytes) -> bool:
    """Return whether the bytes of a message are UTF-8.

    Uses Arrow's validation, which is several times as fast as decoding.
    """
    data = pa.py_buffer(text)
    offsets = pa.py_buffer(np.array([0, data.size], np.int64))
    try:
        pa.LargeStringArray.from_buffers(1, offsets, data).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _utf8_errors(messages: MessageBatch, hint: str) -> MessageErrors:
    data, starts, ends = octets(messages.data), messages.starts, messages.ends
    places, stops = np.empty(len(messages), np.int64), np.empty(len(messages), np.int64)
    kernels.find_not_utf8(data, starts, ends, places, stops)
    bad = np.flatnonzero(places >= 0)
    begins, at = starts[bad], places[bad]
    raw = gather(data, np.maximum(begins, at - 8), np.minimum(ends[bad], stops[bad] + 8))
    errors = ErrorColumns.of(
        len(bad), "the message is not UTF-8 text", hint, offset=at - begins, raw=raw
    )
    found = MessageErrors()
    # Another encoding, or a schema registry's format, is only recognized if the first byte may begin it.
    odd = np.flatnonzero(np.isin(data[begins], _FIRST_OF_OTHERS))
    if len(odd):
        others = [_other_format(messages, bad[at], errors[at], hint) for at in odd.tolist()]
        found.add(bad[odd], ErrorColumns.of_errors(others))
    found.add(bad, errors)  # of a message with two errors the first one counts
    return found


def _other_format(
    messages: MessageBatch, message: int, error: TrailgateError, hint: str
) -> TrailgateError:
    begin, end = int(messages.starts[message]), int(messages.ends[message])
    body = bytes(memoryview(messages.data)[begin : min(end, begin + _REGISTRY_HEAD)])
    error.hint = registry_hint(body) or hint
    return encoding_error(body, error.where) or error
