"""The records of a batch of messages, read by groups that are alike, and errors placed at them.

A format's records know the message and the byte at which each begins (``Records``), and a group of them adds the errors of its rows, of which a message's
first one counts (``RecordGroup``). So the errors of many messages are found at once, and each message is parsed only once. A row is found by its key: a key of
a before image that is NULL is an error.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, NoReturn, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar.rows import distinct, row_error
from trailgate.columnar.temporal import DateFormat
from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.messages.bounds import Borders
from trailgate.messages.messages import MessageBatch
from trailgate.model.changes import Image, StateColumn
from trailgate.model.tables import Table


class BadMessagesError(Exception):
    """The error of each bad message that was found, by its number in the batch.

    There may be more. It never leaves the parser: the good ones are parsed again without these.
    """

    def __init__(self, errors: Mapping[int, TrailgateError]) -> None:
        self.errors = errors
        super().__init__(f"{len(errors)} bad messages")


def errors_by_row(
    convert: Callable[[pa.Array], object], values: pa.Array, error: DecodeError
) -> dict[int, DecodeError]:
    """Return the error of each row that ``convert`` refuses; ``error`` is that of the column.

    An error has the first bad row of what was tried. How much is tried at once follows from how
    far the last bad rows lay apart, so that both few and many cost little.
    """
    coded = values.dictionary_encode()
    # Values that look alike are mostly bad together: sorted, they are neighbours.
    order = pc.array_sort_indices(coded.dictionary)
    found = find_errors(convert, coded.dictionary.take(order))
    if not found:
        raise error
    by_value = {order[at].as_py(): found[at] for at in found}
    codes = enumerate(coded.indices.to_pylist())
    return {row: by_value[code] for row, code in codes if code in by_value}


class Column(Protocol):
    """Values that can be converted in parts, as Arrow's arrays can."""

    def __len__(self) -> int: ...
    def slice(self, at: int, count: int, /) -> Self:
        """Return consecutive values."""
        ...

    def take(self, rows: pa.Array, /) -> Self:
        """Return the values of some rows."""
        ...


C = TypeVar("C", bound=Column)


def find_errors(convert: Callable[[C], object], values: C) -> dict[int, DecodeError]:
    """Return the error of each value that ``convert`` refuses.

    An error names those that are like it (``alike``): they are left out then, and the rest is tried again. Only what is found in no other way is
    tried in parts.
    """
    errors: dict[int, DecodeError] = {}
    left = np.arange(len(values))
    while len(left):
        part = values if len(left) == len(values) else values.take(pa.array(left))
        try:
            convert(part)
        except DecodeError as error:
            if len(error.alike) < 2:
                errors |= {int(left[at]): one for at, one in _refuse(convert, part).items()}
                break
            for at in error.alike:
                errors[int(left[at])] = _as_row(error, part, at)
            left = np.delete(left, error.alike)
        else:
            break
    return errors


def _as_row(error: DecodeError, values: Any, row: int) -> DecodeError:
    """Return an error as that of another row."""
    strings = values if isinstance(values, pa.Array) else values.strings
    return row_error(error.problem, strings, row, error.hint)


def _refuse(convert: Callable[[C], object], values: C) -> dict[int, DecodeError]:
    errors = {}
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


RETURNS: Final = (
    "the carriage return before a line feed that ends a record is not part of the record"
)


@dataclass(frozen=True, slots=True)
class Records(ABC):
    """The records of a batch: the message and byte each begins at; a format knows what is in them."""

    messages: MessageBatch
    message: Longs
    offset: Longs  # of the record in its message's body

    @abstractmethod
    def text(self, name: str) -> pa.Array:
        """Return each record's text of a header field."""

    def codes(self, name: str) -> tuple[Longs, list[str]]:
        """Return each record's number among the different strings of a header field, and those strings."""
        return distinct(self.text(name))

    def lacking(self, name: str, what: str) -> tuple[str, str]:
        """Return the problem of a record whose header field is blank, where ``what`` is needed, and a hint."""
        return f"the field {name} is blank, where {what} is needed", ""

    def shared(self, name: str) -> tuple[pa.Array, Longs] | None:
        """Return the values of a header field that records share, and the number of each record's; None where they do not."""
        del name
        return None

    def time_formats(self) -> list[tuple[Longs, DateFormat | None]] | None:
        """Return the records of each format of timestamps, or None where all have that of the options."""
        return None

    def is_generated(self, name: str) -> Mask | None:
        """Return the records whose value of a header field is generated, as the field's source states for each; None where it is for none."""
        del name
        return None

    def segments(self) -> Longs | None:
        """Return the number, from 1 on, of each record's message in its transaction, 0 for none; None where the format has no such numbers."""
        return None

    def transaction_ends(self) -> Mask | None:
        """Return which records end their transaction, where the format states that and it is known by its id."""
        return None

    def tokens(self) -> pa.Array | None:
        """Return each record's user tokens as a map of names to strings, or None where there are none."""
        return None

    def times(self) -> Longs | None:
        """Return each record's commit time in microseconds since 1970 UTC, or None where it is a header field's text."""
        return None

    def borders(self, ids: pa.Array) -> Borders | None:  # noqa: ARG002  for formats whose messages are numbered
        """Return what is known of messages that a transaction continues in; ``ids`` are the transactions' sequence ids."""
        return None

    @property
    def notes(self) -> frozenset[str]:
        """Return what a run notes once about such records."""
        return frozenset()

    @abstractmethod
    def raw(self, row: int) -> bytes:
        """Return a record's bytes."""

    def error(self, row: int, problem: str, hint: str = "", **place: object) -> DecodeError:
        """Return an error placed at a record."""
        where = Where(record=self.number(row), offset=int(self.offset[row]), raw=self.raw(row))
        return DecodeError(problem, where=where, hint=hint).with_place(**place)

    def field_place(self, row: int, name: str) -> Where | None:
        """Return the offset and the bytes of a record's header field, or None if the format does not know them."""
        del row, name
        return None

    def refuse(self, rows: Longs, error: Callable[[int], TrailgateError]) -> NoReturn:
        """Raise the errors of the messages of these bad records; a message's first one counts."""
        messages, first = np.unique(self.message[rows], return_index=True)
        pairs = zip(messages.tolist(), rows[first].tolist(), strict=True)
        raise BadMessagesError({message: error(row) for message, row in pairs})

    def check_sizes(self, sizes: Longs, least: int, size: str, hint: str) -> None:
        """Raise the errors of records shorter than the header, which is ``least`` long; ``size`` states how long one is."""

        def error(row: int) -> DecodeError:
            problem = f"{size.format(sizes[row])} where the header alone has {least}"
            return self.error(row, problem, hint)

        short = np.flatnonzero(sizes < least)
        if len(short):
            self.refuse(short, error)

    def number(self, row: int) -> int:
        """Return a record's number in its message, from 1."""
        return int(row - np.searchsorted(self.message, self.message[row])) + 1


MessageErrors = dict[int, TrailgateError]
R = TypeVar("R", bound=Records)


class RecordGroup(Generic[R]):
    """Records of one table, and where their errors are gathered; a message's first one counts."""

    def __init__(self, records: R, table: Table, rows: Longs, errors: MessageErrors) -> None:
        self.records, self.table, self.rows, self.errors = records, table, rows, errors

    def refuse(self, problem: str, hint: str = "", field: str | None = None) -> None:
        """Add a fault that all the records have."""

        def error(row: int) -> TrailgateError:
            return self.records.error(row, problem, hint, table=self.table.name, field=field)

        self.add(self.rows, error)

    def add(self, rows: Longs, error: Callable[[int], TrailgateError]) -> None:
        """Add the errors of some rows, made of a row's number."""
        for row, message in zip(rows.tolist(), self.records.message[rows].tolist(), strict=True):
            if message not in self.errors:
                self.errors[message] = error(row)


_NULL_KEY_HINT: Final = "No row is found by such a key. Are before values sent with this record?"


def check_keys(group: RecordGroup[R], before: Image) -> None:
    """Add the error of each record whose before image has a NULL key (decision 0008).

    A marked column that is not nullable must have a value. Definitions of Oracle call all columns nullable
    (capture properties §9.2), so of nullable key columns one at least must have a value.
    """
    nulls = {key: _nulls(before[key], len(group.rows)) for key in group.table.marked_keys}
    if not any(mask.any() for mask in nulls.values()):
        return
    whole = np.logical_and.reduce(list(nulls.values()))
    for key, mask in nulls.items():
        column = group.table.columns[key]
        group.add(group.rows[whole if column.nullable else mask], _error(group, column.name))


def _nulls(column: StateColumn, rows: int) -> Mask:
    values = column.values
    if values is None or not values.null_count:
        return np.zeros(rows, bool)
    nulls: Mask = values.is_null().to_numpy(zero_copy_only=False)
    return nulls if column.missing is None else nulls & ~column.missing


def _error(group: RecordGroup[R], name: str) -> Callable[[int], TrailgateError]:
    problem = f"the before value of key column {name} is NULL"
    return lambda row: group.records.error(
        row, problem, _NULL_KEY_HINT, table=group.table.name, field=name
    )


_HINT = "Convert the messages to UTF-8 before capture"
_MARK_HINT = "Convert the messages to UTF-8 before capture: iconv -f {mark} -t UTF-8"
# Those of UTF-32 first: in little-endian order it begins as that of UTF-16 does.
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
# What clients of a schema registry write before a value: a byte of zeros, and the number of its schema.
_REGISTRY_HEAD = 5


def registry_hint(body: bytes) -> str:
    """Return what to try where a body seems to be of a schema registry, as Avro is; empty for others."""
    if body[:1] != b"\0" or len(body) < _REGISTRY_HEAD:
        return ""
    number = int.from_bytes(body[1:_REGISTRY_HEAD], "big")
    return (
        f"It begins as values of a schema registry do (schema {number}): Avro, Protobuf or JSON Schema. Bodies are text: "
        "let the producer's or a connector's converter write JSON, or decode them on Spark (from_avro)"
    )


def other_encoding(body: bytes, where: Where) -> DecodeError | None:
    """Return the error of a body that begins with the byte order mark of UTF-16 or UTF-32, None for others."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            problem = f"the message is not UTF-8 text: it begins with the byte order mark of {name}"
            return DecodeError(problem, where=where, hint=_MARK_HINT.format(mark=name))
    return None


def check_utf8(messages: MessageBatch, hint: str = _HINT) -> None:
    """Check at once that all bodies are UTF-8; raises BadMessagesError where some are not."""
    if not are_utf8(messages):
        errors = _bad_strings(messages, hint)
        if errors:  # else the bytes that are not text lie between the messages
            raise BadMessagesError(errors)


def are_utf8(messages: MessageBatch) -> bool:
    """Return whether the bytes from the first body to the end of the last one are UTF-8."""
    if not len(messages):
        return True
    low, high = int(messages.starts[0]), int(messages.ends[-1])
    return is_utf8(messages.data.slice(low, high - low))


def is_utf8(text: pa.Buffer | bytes) -> bool:
    """Return whether bytes are UTF-8, by Arrow's check, which is several times as fast as decoding."""
    data = pa.py_buffer(text)
    offsets = pa.py_buffer(np.array([0, data.size], np.int64))
    try:
        pa.LargeStringArray.from_buffers(1, offsets, data).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _bad_strings(messages: MessageBatch, hint: str) -> dict[int, TrailgateError]:
    errors: dict[int, TrailgateError] = {}
    bounds = zip(messages.starts.tolist(), messages.ends.tolist(), strict=True)
    whole = memoryview(messages.data)
    for message, (begin, end) in enumerate(bounds):
        body = bytes(whole[begin:end])
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raw = body[max(0, error.start - 8) : error.end + 8]
            where = Where(offset=error.start, raw=raw)
            own = registry_hint(body) or hint
            found = DecodeError("the message is not UTF-8 text", where=where, hint=own)
            errors[message] = other_encoding(body, where) or found
    return errors
