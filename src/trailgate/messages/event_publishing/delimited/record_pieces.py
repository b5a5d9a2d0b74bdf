"""What a delimited publication has for each operation: its header, and the before and after values of all columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.gather import gather
from trailgate.columnar.rows import strings_of, text_view
from trailgate.columnar.templates import Piece
from trailgate.columnar.time_texts import DB2, format_ordinals, format_times, marked
from trailgate.errors import EncodeError
from trailgate.messages.event_publishing.delimited import kernels
from trailgate.messages.event_publishing.delimited.delimiters import Delimiters
from trailgate.messages.event_publishing.delimited.engine_options import PROGRAM
from trailgate.messages.event_publishing.delimited.writer_options import DelimitedPublishOptions
from trailgate.model.changes import (
    DELETE,
    INSERT,
    KEY_UPDATE,
    TRUNCATE,
    UPDATE,
    ChangeBlock,
    StateColumn,
)
from trailgate.model.tables import TABLES, Column, Table
from trailgate.model.types import Family
from trailgate.operations.values import Convert, formatter_for

TYPE: Final = b"10"  # what Q Capture writes; its meaning is internal
SEGMENT: Final = 7  # the piece of the segment number
SEGMENT_DIGITS: Final = 4
_NUMBERS: Final = frozenset({Family.NUMBER_TEXT, Family.INTEGER, Family.UNSIGNED, Family.FLOAT})
_WORDS: Final = {INSERT: b"ISRT", UPDATE: b"REPL", KEY_UPDATE: b"REPL", DELETE: b"DLET"}


@dataclass(frozen=True, slots=True)
class _WrittenColumn:
    """How a column's values become text, and whether that is quoted."""

    column: Column
    format: Convert
    quoted: bool


class RecordPieces:
    """Makes the pieces of records by one set of options."""

    def __init__(self, options: DelimitedPublishOptions) -> None:
        self.options, self.delimiters = options, options.delimiters

    def of(self, block: ChangeBlock) -> list[Piece]:
        """Return the pieces of a block's records, without the record delimiter.

        Raises EncodeError for what the format cannot hold, with the row as its record.
        """
        _check_kinds(block)
        try:
            return [*self._header(block), *self._values(block)]
        except EncodeError as error:
            raise error.located(table=block.table.name) from None

    def _header(self, block: ChangeBlock) -> Iterator[Piece]:
        marks = self.delimiters
        field, rows = marks.fielddelim, len(block)
        owner, _, name = block.table.name.rpartition(".")
        if not owner:
            problem = f"the table {block.table.name} has no schema, which a publication names"
            raise EncodeError(problem)
        now = self.options.now
        dates, clocks = format_ordinals(np.full(rows, now) if now else block.op_ts)
        names = field.join(_quoted(text.encode(), marks) for text in (owner, name))
        yield Piece(TYPE + field + _quoted(PROGRAM, marks) + field, dates, quoted=True)
        yield Piece(field, clocks, quoted=True)
        yield Piece(field + names + field, _words(block.op_type), quoted=True)
        yield Piece(field, block.tx_id, quoted=True)
        yield Piece(field, _positions(block), quoted=True)
        yield Piece(field, format_times(block.op_ts, DB2, trimmed=True), quoted=True)
        yield Piece(field, block.tx_name, quoted=True)
        yield Piece(field, strings_of(np.full((rows, SEGMENT_DIGITS), ord("0"), np.uint8)))

    def _values(self, block: ChangeBlock) -> Iterator[Piece]:
        columns = _written(block.table, self.delimiters.decimalpoint)
        inserts, deletes = block.op_type == INSERT, block.op_type == DELETE
        changes = ~(inserts | deletes)
        afters = []
        for column, before, after in zip(columns, block.before, block.after, strict=True):
            lob = column.column.lob_type > 0
            yield self._piece(block, column, StateColumn(None) if lob else before, inserts, lob=lob)
            afters.append((column, _filled(before, after, changes)))
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
    ) -> Piece:
        """Return the piece of one column of an image, which the rows ``without`` do not have."""
        missing = values.is_missing(len(block)) & ~without
        if missing.any() and not lob and self.options.missing == "error":
            raise _missing(block, column.column.name, int(np.argmax(missing)))
        text = None if values.values is None else column.format(values.values)
        return Piece(self.delimiters.fielddelim, text, quoted=column.quoted, nulls=without)


@lru_cache(TABLES)
def _written(table: Table, point: bytes) -> tuple[_WrittenColumn, ...]:
    return tuple(
        _WrittenColumn(column, _formatter(column, point), column.family not in _NUMBERS)
        for column in table.columns
    )


def _formatter(column: Column, point: bytes) -> Convert:
    """Return what makes a column's text: Db2's ISO form of date times, the decimal point of numbers."""
    plain = formatter_for(column)
    if column.family is Family.DATETIME and not column.zoned:
        return lambda values: marked(values, DB2)
    if column.family in _NUMBERS and point != b".":
        return lambda values: pc.replace_substring(plain(values), ".", point.decode())
    return plain


def _quoted(text: bytes, marks: Delimiters) -> bytes:
    return marks.quote + text.replace(marks.quote, marks.quote * 2) + marks.quote


def _check_kinds(block: ChangeBlock) -> None:
    truncates = np.flatnonzero(block.op_type == TRUNCATE)
    if len(truncates):
        raise _error(
            block,
            int(truncates[0]),
            "a truncate cannot be published in this format",
            "Leave it out, or publish in the format json",
        )


def _words(op_type: Octets) -> pa.StringArray:
    table = np.zeros((256, len(_WORDS[INSERT])), np.uint8)
    for letter, word in _WORDS.items():
        table[letter] = np.frombuffer(word, np.uint8)
    return strings_of(np.ascontiguousarray(table[op_type]))


def _positions(block: ChangeBlock) -> pa.Array | None:
    """Return the log positions of commits: the commit sequence numbers without the transaction's id that the reader adds.

    Raises EncodeError for an operation that has neither of the two: nothing would tell its transaction from the next one.
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
    kernels.before_ids(data, offsets, id_data, id_offsets, ord("."), ends)
    nulls = csn.is_null().to_numpy(zero_copy_only=False) if csn.null_count else None
    starts: Longs = offsets[:-1].astype(np.int64)
    return gather(data, starts, ends, nulls=nulls, text=True, checked=True)


def _filled(before: StateColumn, after: StateColumn, changes: Mask) -> StateColumn:
    """Return the after image in which a column that an update does not have is as it was before."""
    if before.values is None or (after.values is not None and after.missing is None):
        return after
    rows = len(changes)
    same = changes & after.is_missing(rows) & ~before.is_missing(rows)
    if not same.any():
        return after
    if after.values is None:
        return StateColumn(before.values, ~same)
    values = pc.if_else(pa.array(same), before.values, after.values)
    return StateColumn(values, after.is_missing(rows) & ~same)


def _missing(block: ChangeBlock, name: str, row: int) -> EncodeError:
    hint = (
        "Capture with all columns and their befores (NOCOMPRESSUPDATES, GETUPDATEBEFORES, NOCOMPRESSDELETES), publish "
        "in another format, or give the option missing=null"
    )
    problem = f"column {name} is missing, and a delimited publication has all columns"
    return _error(block, row, problem, hint).located(field=name)


def _error(block: ChangeBlock, row: int, problem: str, hint: str = "") -> EncodeError:
    place = block.position[row].as_py()
    where = f"{problem} (operation at {place})"
    return EncodeError(where, hint=hint).located(table=block.table.name)
