"""Write operations as delimited publications: the reverse of `delimited_reader.py`.

A record is the header, then the before values and the after values of all columns. Records become
pieces of a template (`columnar/templates.py`), and `cut_messages` distributes them to messages. The
last message of an open transaction is held back until it is full or the transaction ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_letters, digits
from typing import Annotated, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.code_pages import code_page
from trailgate.columnar.gather import gather
from trailgate.columnar.strings import matrix_to_strings, text_view
from trailgate.columnar.templates import (
    EscapeTable,
    MeasuredRows,
    PieceForm,
    RowPiece,
    measure_templates,
)
from trailgate.columnar.temporal import DB2, format_ordinals, format_times, replace_time_marks
from trailgate.errors import EncodeError, OptionError
from trailgate.formats.publications import delimited_kernels
from trailgate.formats.publications.options import DEFAULTS, PROGRAM, Delimiters
from trailgate.messages.publishing import (
    EARLIER,
    NO_MESSAGES,
    ROW,
    MessageCuts,
    PublishOptions,
    WrittenMessages,
    bodies_as_array,
    cut_messages,
)
from trailgate.model.changes import (
    DELETE,
    INSERT,
    KEY_UPDATE,
    TRUNCATE,
    UPDATE,
    ChangeBatch,
    ChangeBlock,
    StateColumn,
)
from trailgate.model.table_names import split_owner
from trailgate.model.tables import TABLES, Column, Table
from trailgate.model.transactions import mask_begins, mask_ends
from trailgate.model.types import TypeFamily
from trailgate.model.values import Convert, formatter_for

TYPE: Final = b"10"  # the value that Q Capture writes; its meaning is internal to IBM
SEGMENT: Final = 7  # the index of the segment number's piece
SEGMENT_DIGITS: Final = 4
_NUMBERS: Final = frozenset(
    {TypeFamily.NUMBER_TEXT, TypeFamily.INTEGER, TypeFamily.UNSIGNED, TypeFamily.FLOAT}
)
# The words for operations in delimited messages. IBM has no word of its own for a key update.
_WORDS: Final = {INSERT: b"ISRT", UPDATE: b"REPL", KEY_UPDATE: b"REPL", DELETE: b"DLET"}
MOST_SEGMENTS: Final = 10**SEGMENT_DIGITS
_NOTHING: Final = np.zeros(0, np.uint8)
# The bytes of numbers, and of words such as Infinity. A text with others needs quotes.
_UNQUOTED: Final = np.isin(
    np.arange(256), np.frombuffer(f"+-.{digits}{ascii_letters}".encode(), np.uint8)
)
QUOTED: Final = 2  # the state of a number's text that needs quotes


@dataclass(frozen=True, slots=True, kw_only=True)
class DelimitedPublishOptions(PublishOptions):
    """How delimited publications are written.

    Delimiters have the same notation as in the reader's properties.
    """

    fielddelim: Annotated[str, "the delimiter between columns"] = DEFAULTS["fielddelim"]
    recorddelim: Annotated[str, "the delimiter after each record"] = DEFAULTS["recorddelim"]
    quote: Annotated[str, "the quote around values that are not numbers"] = DEFAULTS["quote"]
    decimalpoint: Annotated[str, "the decimal point in numbers"] = DEFAULTS["decimalpoint"]
    missing: Annotated[
        Literal["error", "null"],
        "a missing column: an error, or empty, which readers take for NULL",
    ] = "error"

    def __post_init__(self) -> None:
        """Raise OptionError if a delimiter of delimited publications is not allowed."""
        PublishOptions.__post_init__(self)  # super() does not work in classes with slots
        delimiters = self.delimiters
        for name in DEFAULTS:
            if getattr(delimiters, name) in (b"+", b"-"):
                raise OptionError(f"{name} is a sign of numbers, which are not in quotes")

    @property
    def delimiters(self) -> Delimiters:
        """The delimiters of the written publications as bytes. Raises OptionError."""
        given = {name: getattr(self, name) for name in DEFAULTS}
        return Delimiters.of(given, code_page("utf-8"))


@dataclass(frozen=True, slots=True)
class _WrittenColumn:
    """How a column's values are formatted in delimited publications, and whether they are quoted."""

    column: Column
    format: Convert
    quoted: bool


class DelimitedRecordPieces:
    """Creates the template pieces of delimited publications with one set of options."""

    def __init__(self, options: DelimitedPublishOptions) -> None:
        self.options, self.delimiters = options, options.delimiters

    def of(self, block: ChangeBlock) -> list[RowPiece]:
        """Return the template pieces of a block's publication records, without the record delimiter.

        Raises EncodeError, with the row in `where.record`, for values that the format cannot express.
        """
        _check_kinds(block)
        try:
            return [*self._header(block), *self._values(block)]
        except EncodeError as error:
            raise error.with_place(table=block.table.name) from None

    def _header(self, block: ChangeBlock) -> Iterator[RowPiece]:
        marks = self.delimiters
        field, rows = marks.fielddelim, len(block)
        owner, name = split_owner(block.table.name)
        if not owner:
            problem = f"the table {block.table.name} has no schema, but a publication must name one"
            raise EncodeError(problem)
        now = self.options.now
        dates, clocks = format_ordinals(np.full(rows, now) if now else block.op_ts)
        names = field.join(_quote(text.encode(), marks) for text in (owner, name))
        yield self._quoted_piece(TYPE + field + _quote(PROGRAM, marks) + field, dates)
        yield self._quoted_piece(field, clocks)
        yield self._quoted_piece(field + names + field, _words(block.op_type))
        yield self._quoted_piece(field, block.tx_id)
        yield self._quoted_piece(field, _positions(block))
        yield self._quoted_piece(field, format_times(block.op_ts, DB2, trimmed=True))
        yield self._quoted_piece(field, block.tx_name)
        # The segment number is known only when records are cut into messages. Zeros keep its place;
        # the writer overwrites them.
        segments = matrix_to_strings(np.full((rows, SEGMENT_DIGITS), ord("0"), np.uint8))
        yield RowPiece(segments, (PieceForm(field, b""),), plain=True)

    def _values(self, block: ChangeBlock) -> Iterator[RowPiece]:
        columns = _written(block.table, self.delimiters.decimalpoint)
        inserts, deletes = block.op_type == INSERT, block.op_type == DELETE
        changes = ~(inserts | deletes)
        afters = []
        for column, before, after in zip(columns, block.before, block.after, strict=True):
            # Before values of large objects are always NULL (IBM, structure of delimited messages).
            lob = column.column.lob_type > 0
            yield self._piece(block, column, StateColumn(None) if lob else before, inserts, lob=lob)
            # A record has all before values, and then all after values.
            afters.append((column, _complete_after(before, after, changes)))
        for column, after in afters:
            yield self._piece(block, column, after, deletes)

    def _piece(
        self,
        block: ChangeBlock,
        column: _WrittenColumn,
        values: StateColumn,
        without: Mask,
        *,
        lob: bool = False,
    ) -> RowPiece:
        """Return the template piece of one column of an image in delimited publications.

        `without` marks the rows that have no such image, for example inserts in the before image.
        With `lob`, the values are before values of a large object, which are always NULL. Raises
        EncodeError for other missing values, unless the option is missing=null.
        """
        missing = values.is_missing(len(block)) & ~without
        if missing.any() and not lob and self.options.missing == "error":
            raise _missing(block, column.column.name, int(np.argmax(missing)))
        text = None if values.values is None else column.format(values.values)
        if text is None:
            return RowPiece(None, (PieceForm(self.delimiters.fielddelim),))
        # State 1 is the form without a value. Without `states`, the template uses it for null
        # values by itself.
        states = without | np.asarray(text.is_null()) if without.any() else None
        if column.column.family is TypeFamily.NUMBER_TEXT:
            odd = self._mask_other_texts(text)
            if odd.any():
                return self._piece_of_texts(text, without, odd)
        return self._quoted_piece(self.delimiters.fielddelim, text, states, quoted=column.quoted)

    def _mask_other_texts(self, values: pa.Array) -> Mask:
        """Return a mask of the values in a number column that need quotes in delimited publications.

        They have a byte other than digits, letters, signs, and the decimal point.
        """
        offsets, data = text_view(values)
        own = data[offsets[0] : offsets[-1]]
        marks = ~_UNQUOTED[own] & (own != self.delimiters.decimalpoint[0])
        if not marks.any():
            return np.zeros(len(values), bool)
        # Example: the texts "1" and ",2" have the marks 0 1 0, the counts 0 0 1 1 and the offsets 0 1 3.
        counts = np.concatenate([[0], np.cumsum(marks)])[offsets - offsets[0]]
        found: Mask = np.diff(counts) > 0
        return found

    def _piece_of_texts(self, values: pa.Array, without: Mask, odd: Mask) -> RowPiece:
        """Return the template piece of a number column of delimited publications.

        The values in `odd` are not numbers, and are quoted.
        """
        literal, quote = self.delimiters.fielddelim, self.delimiters.quote
        forms = PieceForm(literal, b""), PieceForm(literal), PieceForm(literal + quote, quote)
        states = np.where(without | np.asarray(values.is_null()), 1, odd * QUOTED)
        return RowPiece(values, forms, states.astype(np.uint8))

    def _quoted_piece(
        self,
        literal: bytes,
        values: pa.Array | None,
        nothing: Mask | None = None,
        *,
        quoted: bool = True,
    ) -> RowPiece:
        """Return a publication's template piece: a literal, then a value, in quotes if `quoted`.

        Nulls, and the rows in `nothing`, have only the literal.
        """
        quote = self.delimiters.quote if quoted else b""
        forms = (PieceForm(literal + quote, quote), PieceForm(literal))
        if values is None:
            return RowPiece(None, forms[1:])
        states = None if nothing is None else nothing.astype(np.uint8)
        return RowPiece(values, forms, states, plain=not quoted)


@lru_cache(TABLES)
def _written(table: Table, point: bytes) -> tuple[_WrittenColumn, ...]:
    return tuple(
        _WrittenColumn(column, _formatter(column, point), column.family not in _NUMBERS)
        for column in table.columns
    )


def _formatter(column: Column, point: bytes) -> Convert:
    """Return the function that formats a column for delimited publications."""
    plain = formatter_for(column)
    if column.family is TypeFamily.DATETIME and not column.zoned:
        return lambda values: replace_time_marks(values, DB2)
    if column.family in _NUMBERS and point != b".":
        return lambda values: pc.replace_substring(plain(values), ".", point.decode())
    return plain


def _quote(text: bytes, marks: Delimiters) -> bytes:
    return marks.quote + text.replace(marks.quote, marks.quote * 2) + marks.quote


def _check_kinds(block: ChangeBlock) -> None:
    truncates = np.flatnonzero(block.op_type == TRUNCATE)
    if len(truncates):
        raise _error(
            block,
            int(truncates[0]),
            "a truncate cannot be published in this format",
            "Exclude the table, or publish in the format json",
        )


def _words(op_type: Octets) -> pa.StringArray:
    table = np.zeros((256, len(_WORDS[INSERT])), np.uint8)
    for letter, word in _WORDS.items():
        table[letter] = np.frombuffer(word, np.uint8)
    return matrix_to_strings(np.ascontiguousarray(table[op_type]))


def _positions(block: ChangeBlock) -> pa.Array | None:
    """Return the commit positions that delimited publications state: the CSNs, without a transaction id.

    The reader appends the transaction id to the CSN; here this suffix is removed. Raises
    EncodeError for an operation without CSN and id, because its transaction could not be
    distinguished from the next one.
    """
    csn, ids = block.csn, block.tx_id
    if csn.null_count or ids.null_count:
        bare = pc.and_(csn.is_null(), ids.is_null()).to_numpy(zero_copy_only=False)
        if bare.any():
            problem = "the operation has no transaction id and no commit sequence number"
            raise _error(block, int(np.argmax(bare)), problem, "A publication has one of them")
    offsets, data = text_view(csn)
    id_offsets, id_data = text_view(ids)
    ends = np.empty(len(csn), np.int64)
    delimited_kernels.trim_ids(data, offsets, id_data, id_offsets, ord("."), ends)
    nulls = csn.is_null().to_numpy(zero_copy_only=False) if csn.null_count else None
    starts: Longs = offsets[:-1].astype(np.int64)
    return gather(data, starts, ends, nulls=nulls, text=True, checked=True)


def _complete_after(before: StateColumn, after: StateColumn, changes: Mask) -> StateColumn:
    """Complete the after images of delimited publications, which have all columns.

    A column without an after value in an update did not change, so it gets the before value.
    """
    if before.values is None or (after.values is not None and after.missing is None):
        return after
    rows = len(changes)
    same = changes & after.is_missing(rows) & ~before.is_missing(rows)
    if not same.any():
        return after
    if after.values is None:
        return StateColumn(before.values, ~same)
    values = pc.if_else(pa.array(same), before.values, after.values)
    # Rows of `same` now have a value. Rows in which both images lack it stay missing.
    return StateColumn(values, after.is_missing(rows) & ~same)


def _missing(block: ChangeBlock, name: str, row: int) -> EncodeError:
    hint = (
        "Capture with all columns and their befores (NOCOMPRESSUPDATES, GETUPDATEBEFORES, NOCOMPRESSDELETES), publish "
        "in another format, or give the option missing=null"
    )
    problem = f"column {name} is missing, but a delimited publication has all columns"
    return _error(block, row, problem, hint).with_place(field=name)


def _error(block: ChangeBlock, row: int, problem: str, hint: str = "") -> EncodeError:
    place = block.position[row].as_py()
    where = f"{problem} (operation at {place})"
    return EncodeError(where, hint=hint).with_place(table=block.table.name)


class DelimitedWriter:
    """Writes delimited publications.

    The last message is held back until it is full or its transaction ends.
    """

    def __init__(self, options: DelimitedPublishOptions) -> None:
        self.options = options
        self._pieces = DelimitedRecordPieces(options)
        self._held, self._number = _NOTHING, 0

    def write(self, batch: ChangeBatch) -> WrittenMessages:
        """Write a batch of operations as delimited publications, and return the messages that it completes.

        Raises EncodeError for values that the format cannot express.
        """
        if not batch.rows:
            return NO_MESSAGES
        measured = [(block.order, self._measure(block)) for block in batch.blocks if len(block)]
        sizes = np.empty(batch.rows, np.int64)
        for order, rows in measured:
            sizes[order] = rows.sizes
        marks = batch.tx_indicators()
        held = len(self._held)
        cut = cut_messages(
            sizes,
            mask_begins(marks),
            self.options,
            held=held or -1,
            number=self._number,
        )
        # The held message comes first in the output buffer, then the records in the order of the
        # batch.
        starts = np.cumsum(sizes) - sizes + held
        out = np.empty(held + int(sizes.sum()), np.uint8)
        out[:held] = self._held
        self._number_segments(cut, measured, batch.rows)
        for order, rows in measured:
            rows.write(starts[order], out)
        ended = self.options.content == ROW or bool(mask_ends(marks[-1:])[0])
        return self._split_messages(out, cut, starts, ended=ended)

    def finish(self) -> WrittenMessages:
        """Return the last delimited publication, which was held back."""
        if not len(self._held):
            return NO_MESSAGES
        bodies = bodies_as_array(self._held, np.array([0, len(self._held)]))
        self._held = _NOTHING
        return WrittenMessages(bodies, np.array([EARLIER]))

    def _measure(self, block: ChangeBlock) -> MeasuredRows:
        marks = self._pieces.delimiters
        pieces = [*self._pieces.of(block), RowPiece(None, (PieceForm(marks.recorddelim),))]
        return measure_templates(
            pieces, len(block), EscapeTable.of({marks.quote[0]: 2 * marks.quote})
        )

    def _number_segments(
        self, cut: MessageCuts, measured: list[tuple[Longs, MeasuredRows]], rows: int
    ) -> None:
        """Write into each delimited record the number of its message in its transaction, from 0.

        Does nothing if all are 0. Raises EncodeError if a number has too many digits.
        """
        first = np.append(cut.first, rows)
        numbers = np.repeat(cut.segment, np.diff(first))
        numbers = np.concatenate([np.full(int(first[0]), self._number), numbers])
        if not numbers.any():
            return
        if int(numbers.max()) >= MOST_SEGMENTS:
            problem = f"a transaction has more than {MOST_SEGMENTS} messages, whose numbers have {SEGMENT_DIGITS} digits"
            raise EncodeError(problem, hint="Set a higher max-message-bytes")
        # Digits of each number, most significant first: 12 becomes 0, 0, 1, 2.
        powers = 10 ** np.arange(SEGMENT_DIGITS - 1, -1, -1)
        digits = (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)
        for order, of_block in measured:
            of_block.piece_matrix(SEGMENT, SEGMENT_DIGITS)[:] = digits[order]

    def _split_messages(
        self, out: Octets, cut: MessageCuts, starts: Longs, *, ended: bool
    ) -> WrittenMessages:
        """Return the complete delimited publications.

        The last one is held back if its transaction continues.
        """
        held = len(self._held) > 0
        begins = np.append(starts[cut.first], len(out))
        if len(cut.segment):
            self._number = int(cut.segment[-1])
        order = cut.first
        if held:
            begins, order = np.append(0, begins), np.append(EARLIER, order)
        # ``begins`` are the offsets of messages in ``out``, and the end. The message held back from before is at
        # the front of ``out``, and its first operation was in an earlier batch.
        if ended:
            self._held = _NOTHING
        else:
            self._held = out[begins[-2] :].copy()
            begins, order = begins[:-1], order[:-1]
        return WrittenMessages(bodies_as_array(out, begins), order.astype(np.int64))
