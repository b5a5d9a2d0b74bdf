"""Read delimited publications with the engine for delimited messages, and handle their special features.

- Values are in the code page of the messages (`CodePageValues`). Undecodable bytes affect only
  their own field.
- The header is fixed, and its fields are checked (`_check`).
- Numbers may have a different decimal point. Before values of large objects are always NULL and
  have no meaning.
- Messages of one transaction are numbered, so that missing and redelivered ones can be detected
  (`boundaries`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets, octets
from trailgate.columnar.code_pages import CodePage, SingleBytePage, code_page, decode_column
from trailgate.columnar.delimited import DelimitedFields
from trailgate.columnar.rows import row_error
from trailgate.columnar.strings import join_string_columns, text_view
from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.formats.delimited.options import DelimitedOptions
from trailgate.formats.delimited.reader import (
    ColumnPairing,
    DelimitedFormat,
    DelimitedImageReader,
    DelimitedRecords,
    FieldValues,
)
from trailgate.formats.publications import delimited_kernels
from trailgate.formats.publications.options import (
    AUTHORIZATION,
    HEADER,
    PROGRAM,
    TRANSACTION,
    EventPublishingOptions,
    is_byte_safe,
)
from trailgate.messages.encoding_checks import are_utf8
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.message_numbers import AUTO, MessageBoundaries
from trailgate.messages.parser import MessageFormat
from trailgate.messages.problems import MessageErrors
from trailgate.messages.raw_operations import POINT
from trailgate.messages.records import BadMessagesError, MessageRecordGroup, errors_one_by_one
from trailgate.model.changes import ABSENT, DELETE, INSERT, Image, StateColumn
from trailgate.model.tables import Column, Table
from trailgate.model.types import TypeFamily
from trailgate.model.values import Convert

ERROR: Final = "error"
REPLACE: Final = "replace"
_HEADER_HINT: Final = "Is event_publishing.codepage the code page of the messages?"
_HINT: Final = f"{_HEADER_HINT} event_publishing.undecodable=missing or replace accepts such values"


_DIGITS: Final = 9  # the most digits of a message's number
PLAN_NAME: Final = "plan_name"
IDENTIFIER: Final = "identifier"
TYPE: Final = "type"
SEGMENT: Final = "segment_number"
_TYPE_HINT: Final = "Do the delimiters match the messages?"
_NAMES: Final = ("table_owner", "table_name", "operation")  # adjacent header fields
_NUMBERS: Final = frozenset(
    {TypeFamily.NUMBER_TEXT, TypeFamily.INTEGER, TypeFamily.UNSIGNED, TypeFamily.FLOAT}
)
_NO_IDS: Final = "the record has neither a commit LSN nor a transaction identifier"
_ALWAYS_NULL: Final = "Before values of inserts and after values of deletes are always null. Do delimiters and definitions match the messages?"
# The image that an operation must not have (0: before, 1: after), and the problem if it has it.
_SIDES: Final = {
    INSERT: (0, "an insert has a before value"),
    DELETE: (1, "a delete has an after value"),
}
_KEY_HINT: Final = "A key column cannot be missing or replaced: without it the row cannot be found"
_FLAG_HINT: Final = "Classic CDC names the first column with malformed data; event_publishing.takeflagged=true accepts such records"
# IBM, format of delimited messages: PUBBDCOMPAT.
_FLAGS: Final = (
    IDENTIFIER,
    lambda text: text.encode() == PROGRAM,
    f"the record has the error flag {{!r}} instead of {PROGRAM.decode()}",
    _FLAG_HINT,
)

# Without its number, a missing message could not be detected.
_SEGMENTS: Final = (
    SEGMENT,
    lambda text: _is_number(text) and len(text) <= _DIGITS,
    f"the number of the message is {{!r}}, not one of up to {_DIGITS} digits",
    _TYPE_HINT,
)


class CodePageValues(FieldValues):
    """Copies field values of delimited publications and decodes them from a code page.

    `policy` is the property event_publishing.undecodable. Unless it is "error", `undecodable`
    describes the fields read by the last call of `columns`: it maps the position of a field to the
    mask of the rows whose bytes are not in the code page.
    """

    def __init__(
        self,
        data: Octets,
        fields: DelimitedFields,
        options: DelimitedOptions,
        page: CodePage,
        policy: str = ERROR,
    ) -> None:
        super().__init__(data, fields, options)
        self.page = page
        self.policy = policy
        self.undecodable: dict[int, Mask] = {}

    def check_text(self, messages: MessageBatch) -> None:
        """Check whether all delimited publications are UTF-8, and set `checked`.

        If they are, values need not be checked separately.
        """
        self.checked = self.page.name == "utf-8" and are_utf8(messages)

    def columns(
        self, first: Longs, places: Sequence[int], *, nullable: bool = True
    ) -> list[pa.Array]:
        """Decode a text column for each field position in `places` from delimited publications.

        A NULL field becomes null. Raises DecodeError for bytes outside the code page, depending on
        the policy (see `_text`).
        """
        self.undecodable = {}
        return super().columns(first, places, nullable=nullable)

    def not_characters(self, where: Where, hint: str) -> DecodeError:
        """Create the error for bytes of a publication that are not characters of its code page."""
        problem = f"bytes that are not characters of the code page {self.page.name}"
        return DecodeError(problem, where=where, hint=hint)

    def _text(self, values: pa.Array, place: int) -> pa.Array:
        """Decode a column of delimited publications from the code page.

        Bytes outside the code page raise DecodeError, with the row in `where.record` and the field
        position in `where.column`, in header fields and with the policy "error". Otherwise the
        rows are recorded in `undecodable`, and with "replace" such bytes become U+FFFD.
        """
        raw = values.view(pa.binary())
        # In UTF-8, Arrow's cast validates and does not copy.
        if not isinstance(self.page, SingleBytePage):
            try:
                return raw.cast(pa.string())
            except pa.ArrowInvalid:
                pass
        text, bad = decode_column(self.page, raw)
        if bad is None or not bad.any():
            return text
        row = int(np.argmax(bad))
        in_header = place < len(self.options.header)
        if self.policy == ERROR or in_header:
            where = Where(record=row, column=place, raw=raw[row].as_py())
            raise self.not_characters(where, _HEADER_HINT if in_header else _HINT)
        self.undecodable[place] = bad
        return _replace(self.page.name, raw, text, bad) if self.policy == REPLACE else text


def messages_to_utf8(messages: MessageBatch, page: CodePage) -> MessageBatch:
    """Convert delimited publications in a multi-byte code page to UTF-8.

    Raises BadMessagesError if some are not text.
    """
    data_view = memoryview(messages.data)
    bounds = zip(messages.starts.tolist(), messages.ends.tolist(), strict=True)
    # One copy per message, because a message must be decoded by itself: shift states of a mixed
    # page do not continue in the next one.
    bodies = pa.array([bytes(data_view[begin:end]) for begin, end in bounds], pa.binary())
    text, bad = decode_column(page, bodies)
    if bad is not None and bad.any():
        problem = f"the message is not text of the code page {page.name}"
        numbers, errors = np.flatnonzero(bad), MessageErrors()
        raw = bodies.take(pa.array(numbers))
        errors.add(numbers, ErrorColumns.of(len(numbers), problem, raw=raw))
        raise BadMessagesError(errors)
    offsets, data = text_view(text)
    starts, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    return replace(messages, data=pa.py_buffer(data), starts=starts, ends=ends)


def _replace(page: str, raw: pa.Array, text: pa.Array, bad: Mask) -> pa.Array:
    """Decode the bad rows of a publication column again, with U+FFFD in place of undecodable bytes."""
    strings = text.to_pylist()
    for row in np.flatnonzero(bad).tolist():
        strings[row] = raw[row].as_py().decode(page, "replace")
    return pa.array(strings, pa.string())


@dataclass(frozen=True, slots=True)
class DelimitedPublicationRecords(DelimitedRecords):
    """Records of delimited publications.

    `content` is the property event_publishing.content: what a message contains, a transaction or a
    row. `header` and `names` cache header fields that were already read.
    """

    content: str = AUTO
    header: dict[str, pa.Array] = field(default_factory=dict)
    names: dict[str, tuple[Longs, list[str]]] = field(default_factory=dict)

    def text(self, name: str) -> pa.Array:
        """Return a header field of delimited publications as text.

        The field `TRANSACTION` is the commit LSN and the transaction id, joined.
        """
        if name == AUTHORIZATION:
            return pa.nulls(len(self.message), pa.string())
        if name == TRANSACTION:
            ids = join_string_columns(
                self.text("commit_lsn"), self.text("transaction_identifier"), POINT
            )
            return self._with_ids(ids)
        known = self.header
        if name not in known:
            place, nullable = HEADER.index(name), name == PLAN_NAME
            try:
                columns = self.values.columns(self.fields.first, [place], nullable=nullable)
            except DecodeError as error:
                row = error.where.record or 0
                raise self.field_error(row, place, error).with_place(field=name) from None
            known[name] = columns[0]
        return known[name]

    def _with_ids(self, ids: pa.Array) -> pa.Array:
        """Check that each record of delimited publications has a transaction id, and return the ids.

        Raises BadMessagesError if a record has no id, because all records without one would form
        one transaction.
        """
        none = np.flatnonzero(np.diff(text_view(ids)[0]) == len(POINT))
        if len(none):
            self.refuse(none, lambda rows: self.errors(rows, _NO_IDS, field="commit_lsn"))
        return ids

    def boundaries(self, ids: pa.Array) -> MessageBoundaries:
        """Return the segment numbers of delimited records where messages meet inside a transaction.

        Two messages of one transaction must have consecutive numbers, or one of them is missing.
        The first and last record of the batch are included too, because their transaction may
        continue in another batch. If two neighbours have the same number, one of them may be
        redelivered: for a record that is alone in its message, a digest of its content is also
        returned.
        """
        count = len(self.message)
        marks = np.zeros(count, bool)
        delimited_kernels.mark_boundaries(*text_view(ids)[::-1], self.message, marks)
        # An empty batch has no first and last record to mark.
        marks[[0, -1] if count else []] = True
        rows = np.flatnonzero(marks)
        strings = self.values.text(self.fields.first[rows], HEADER.index(SEGMENT))
        numbers = np.array([int(text) for text in strings.to_pylist()], np.int64)
        alone = np.ones(len(rows), bool)
        # A record is alone if the records before and after it belong to other messages.
        alone[rows > 0] = self.message[rows[rows > 0] - 1] != self.message[rows[rows > 0]]
        follow = rows < count - 1
        alone[follow] &= self.message[rows[follow] + 1] != self.message[rows[follow]]
        digests = np.zeros(len(rows), np.int64)
        # The digest is Python work for each record, so only compute it where two neighbours have
        # the same number, or where the neighbour is in another batch and its number is unknown.
        for at in np.flatnonzero(
            alone & (_equals_neighbour(numbers) | (rows == 0) | (rows == count - 1))
        ):
            digests[at] = _digest(self._content_of(int(rows[at])))
        return MessageBoundaries(self.content, rows, numbers, digests)

    def undecodable_key_error(self, row: int, place: int) -> TrailgateError:
        """Create the error for a key value of a delimited publication that has bytes outside the code page."""
        assert isinstance(self.values, CodePageValues)
        field = int(self.fields.first[row]) + place
        raw = self.values.data[self.fields.starts[field] : self.fields.ends[field]].tobytes()
        error = self.values.not_characters(Where(raw=raw), _KEY_HINT)
        return self.field_error(row, place, error)

    def _content_of(self, row: int) -> bytes:
        """Return a publication record's bytes without the time of sending.

        A redelivered message has a different time.
        """
        begin = int(self.fields.starts[self.fields.first[row] + HEADER.index("table_owner")])
        last = int(self.fields.bounds[row + 1]) - 1
        return self.values.data[begin : int(self.fields.ends[last])].tobytes()

    def codes(self, name: str) -> tuple[Longs, list[str]]:
        """Return a header field of delimited publications as codes: for each record an index into the list of distinct strings.

        Owner, table and operation are adjacent, so they are coded together as one byte string in
        one pass.
        """
        try:
            if name not in _NAMES:
                return DelimitedRecords.codes(self, name)
            if not self.names:
                self.names.update(self._names())
        except DecodeError:
            # Read the fields one by one, so that the error names its field.
            for each in (name, *_NAMES):
                self.text(each)  # raises an error with record and field
            raise
        return self.names[name]

    def _names(self) -> Iterator[tuple[str, tuple[Longs, list[str]]]]:
        first, place = self.fields.first, HEADER.index(_NAMES[0])
        codes, rows = self.values.spans(first, place, len(_NAMES))
        for at, name in enumerate(_NAMES):
            if rows is None:
                yield name, DelimitedRecords.codes(self, name)
                continue
            strings = self.values.text(first[rows], place + at).to_pylist()
            numbers = {text: number for number, text in enumerate(dict.fromkeys(strings))}
            own_codes = codes
            if len(numbers) < len(strings) or list(numbers) != strings:
                own_codes = np.array([numbers[text] for text in strings], np.int64)[codes]
            yield name, (own_codes, list(numbers))


class DelimitedPublications(MessageFormat[DelimitedPublicationRecords]):
    """Reads delimited publications with one set of options."""

    def __init__(self, options: EventPublishingOptions) -> None:
        self.options = options
        page = code_page(options.codepage)
        self._converted = None if is_byte_safe(page) else page
        self._page = page if is_byte_safe(page) else code_page("utf-8")
        zero, program = self._page.encode(pa.array(["0", PROGRAM.decode()])).to_pylist()
        quote = options.delimited.quote or b""
        self._usual = zero[0], octets(quote + program + quote)
        images = _PublicationImages(options.delimited, options.decimal_point)
        self._engine = DelimitedFormat(options.delimited, self._values, images)

    def _values(
        self, data: Octets, fields: DelimitedFields, options: DelimitedOptions
    ) -> CodePageValues:
        return CodePageValues(data, fields, options, self._page, self.options.undecodable)

    def records(self, messages: MessageBatch) -> DelimitedPublicationRecords:
        """Split delimited publications into records. Each has all header fields. Raises BadMessagesError."""
        if self._converted is not None:
            messages = messages_to_utf8(messages, self._converted)
        delimited = self._engine.records(messages)
        records = DelimitedPublicationRecords(
            messages=delimited.messages,
            message=delimited.message,
            offset=delimited.offset,
            fields=delimited.fields,
            values=delimited.values,
            content=self.options.content,
        )
        fields = records.fields
        places = fields.starts, fields.ends, fields.first
        if (
            # One kernel call checks the usual header of all records. Only if one is unusual are its
            # fields examined.
            delimited_kernels.first_unusual(
                records.values.data, *places, len(HEADER) - 1, *self._usual
            )
            >= 0
        ):
            flags = () if self.options.take_flagged else (_FLAGS,)
            for check in (_TYPES, _SEGMENTS, *flags):
                _check(records, *check)
        return records

    def layouts(
        self, records: DelimitedPublicationRecords, tables: Sequence[Table], table_of: Longs
    ) -> Longs:
        """Return the layout number of each delimited publication record: its number of fields."""
        return self._engine.layouts(records, tables, table_of)

    def images(
        self,
        records: DelimitedPublicationRecords,
        table: Table,
        kind: int,
        rows: Longs,
        errors: MessageErrors,
    ) -> tuple[Image, Image]:
        """Read the before and after images of delimited publications of one table and type.

        Errors are added to `errors`.

        IBM: "The before values for LOB columns are always NULL". Such a value is therefore unknown,
        and counts as missing.
        """
        before, after = self._engine.images(records, table, kind, rows, errors)
        _refuse_values(MessageRecordGroup(records, table, rows, errors), kind)
        before = _without_lobs(table, before)
        values = records.values
        if isinstance(values, CodePageValues) and values.undecodable:
            # The fields of all columns: half of them are before values.
            given = int(records.fields.count[rows[0]]) - len(HEADER)
            pairing = ColumnPairing.of(self.options.delimited, given // 2)
            assert pairing.before is not None
            group = MessageRecordGroup(records, table, rows, errors)
            if values.policy == REPLACE:
                # A table without a key keeps its rows: equal bytes have equal replacements.
                _refuse_keys(group, pairing, values.undecodable, table.marked_keys)
                return before, after
            _refuse_keys(group, pairing, values.undecodable, table.keys)
            wanted = None if kind == INSERT else pairing.before
            before = tuple(
                column
                if wanted is None
                else _mark_missing(column, values.undecodable.get(wanted(i)))
                for i, column in enumerate(before)
            )
            after = tuple(
                _mark_missing(column, values.undecodable.get(pairing.after(i)))
                for i, column in enumerate(after)
            )
        return before, after


class _PublicationImages(DelimitedImageReader):
    """Reads images of delimited publications, which must have all columns.

    Numbers may have another decimal point than ".".

    IBM: "All of the columns are published for all subscribed rows". If a record has fewer fields,
    it is unknown which columns they are.
    """

    def __init__(self, options: DelimitedOptions, point: str) -> None:
        super().__init__(options, whole=True)
        self._point = point

    def converter(self, table: Table, column: Column) -> Convert:
        """Return the function that converts the strings of a delimited publication's column to values."""
        convert, point = super().converter(table, column), self._point
        if point == "." or column.family not in _NUMBERS:
            return convert

        def convert_with_point(values: pa.Array) -> pa.Array:
            other = pc.match_substring(values, ".")
            if pc.any(other).as_py():
                problem = f"not a number whose decimal point is {point}"
                raise row_error(problem, values, pc.index(other, True).as_py())
            return convert(pc.replace_substring(values, point, "."))

        return convert_with_point


def _equals_neighbour(numbers: Longs) -> Mask:
    """Return a mask of the segment numbers that equal the number before or after them."""
    # same[i] compares the numbers i - 1 and i, and is False at both edges: for 5, 7, 7 it is F F T
    # F. A number equals a neighbour if the mark at its left or at its right is set.
    same = np.zeros(len(numbers) + 1, bool)
    same[1:-1] = numbers[1:] == numbers[:-1]
    return same[1:] | same[:-1]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


# Checks of header fields: the name, the test of a text, and the problem and hint if it fails.
_TYPES: Final = (TYPE, _is_number, "the record's type is {!r}, not a number", _TYPE_HINT)


def _check(
    records: DelimitedPublicationRecords,
    name: str,
    is_right: Callable[[str], bool],
    problem: str,
    hint: str,
) -> None:
    """Raise BadMessagesError for the delimited publications whose header field fails a check."""
    codes, strings = records.codes(name)
    # Each distinct text is checked once: wrong[codes[i]] is the result for record i.
    wrong = np.array([not is_right(text) for text in strings], bool)

    def errors(rows: Longs) -> ErrorColumns:
        own = pa.array(codes[rows])
        fields = [text if name == IDENTIFIER and text else name for text in strings]
        texts = pa.array([problem.format(text) for text in strings], pa.string())
        field = pa.array(fields, pa.string()).take(own)
        return records.errors(rows, texts.take(own), hint, field=field)

    if wrong.any():
        records.refuse(np.flatnonzero(wrong[codes]), errors)


def _refuse_values(group: MessageRecordGroup[DelimitedPublicationRecords], kind: int) -> None:
    """Add an error to each published insert with a before value and each delete with an after value."""
    fields, columns = group.records.fields, len(group.table.columns)
    first = fields.first[group.rows]
    if kind not in _SIDES or int(fields.count[group.rows[0]]) != len(HEADER) + 2 * columns:
        return
    side, problem = _SIDES[kind]
    begin = first + len(HEADER) + side * columns
    # Empty fields have only the columns - 1 delimiters between the first start and the last end.
    filled = fields.ends[begin + columns - 1] - fields.starts[begin] != columns - 1

    def errors(rows: Longs) -> ErrorColumns:
        place = len(HEADER) + side * columns
        own = (fields.first[rows] + place)[:, None] + np.arange(columns)
        column = np.argmax(fields.ends[own] > fields.starts[own], axis=1)
        name = pa.array([each.name for each in group.table.columns]).take(pa.array(column))
        found = ErrorColumns.of(len(rows), problem, _ALWAYS_NULL)
        located = group.records.field_errors(rows, place + column, found)
        return located.with_place(table=group.table.name, field=name)

    group.add(group.rows[filled], errors)


def _refuse_keys(
    group: MessageRecordGroup[DelimitedPublicationRecords],
    pairing: ColumnPairing,
    undecodable: Mapping[int, Mask],
    before_keys: Collection[int],
) -> None:
    """Add an error to each publication record with an undecodable key: its row cannot be identified.

    With replaced characters, different keys could become equal. ``before_keys`` are the indexes of
    the columns that identify a row in a before image.
    """
    table = group.table
    for place, bad in undecodable.items():
        column = pairing.column_of(place)
        if column not in (before_keys if place < pairing.after(0) else table.marked_keys):
            continue

        def error(
            row: int, place: int = place, name: str = table.columns[column].name
        ) -> TrailgateError:
            found = group.records.undecodable_key_error(row, place)
            return found.with_place(table=table.name, field=name)

        group.add(group.rows[bad], errors_one_by_one(error))


def _without_lobs(table: Table, before: Image) -> Image:
    if not any(column.lob_type for column in table.columns):
        return before
    return tuple(
        _known(values) if column.lob_type else values
        for column, values in zip(table.columns, before, strict=True)
    )


def _known(column: StateColumn) -> StateColumn:
    """Return a publication's before values with NULL marked as missing, because it is unknown."""
    if column.values is None or not column.values.null_count:
        return column
    return _mark_missing(column, column.values.is_null().to_numpy(zero_copy_only=False))


def _mark_missing(column: StateColumn, missing: Mask | None) -> StateColumn:
    """Return a column of a publication's image with the given rows marked as missing too."""
    if missing is None or column.values is None:
        return column
    missing = missing | column.is_missing(len(missing))
    return ABSENT if missing.all() else replace(column, missing=missing)


def _digest(content: bytes) -> int:
    """Return a digest of a publication record that is the same in every process, and never 0.

    Python's own hash differs between processes.
    """
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big", signed=True) or 1
