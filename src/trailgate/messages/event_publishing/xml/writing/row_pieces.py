"""Operations of one table and type as the pieces of XML rows (event publishing §3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask, Octets
from trailgate.columnar.time_texts import ISO_T, marked
from trailgate.errors import EncodeError, Where
from trailgate.messages.event_publishing.xml.schemas import type_of
from trailgate.messages.event_publishing.xml.vocabulary import AFTER, BEFORE
from trailgate.messages.event_publishing.xml.writing.elements import (
    NOTHING,
    NULL,
    OTHER,
    VALUE,
    ElementPiece,
    escaped,
)
from trailgate.model.changes import DELETE, INSERT, KEY_UPDATE, UPDATE, ChangeBlock, StateColumn
from trailgate.model.tables import TABLES, Column, Table
from trailgate.model.types import Family
from trailgate.operations.values import Convert, formatter_for

ROWS = {INSERT: b"insertRow", UPDATE: b"updateRow", KEY_UPDATE: b"updateRow", DELETE: b"deleteRow"}
_MOST_EXPONENT = 6144  # of a DECFLOAT with 34 digits
_NIL = b' xsi:nil="1"/>'
_HINT = "Capture with all columns and their befores (NOCOMPRESSUPDATES, GETUPDATEBEFORES, NOCOMPRESSDELETES), or publish in the format json"


@dataclass(frozen=True, slots=True)
class _Written:
    """How a column is written: its start and end tags, and what makes its values texts."""

    column: Column
    begin: bytes  # up to the name of the type's element
    type: bytes
    format: Convert

    @property
    def end(self) -> bytes:
        """Return the end tags of the type's element and of the column."""
        return b"</" + self.type + b"></col>"


@dataclass(frozen=True, slots=True)
class RowPieces:
    """The pieces of rows, their end tag, and the large objects that are not in them."""

    pieces: list[ElementPiece]
    end: bytes
    large: tuple[LargeColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class LargeColumn:
    """A column whose values have messages of their own: their texts, and the rows that have one."""

    name: str
    type: str
    texts: pa.Array
    rows: Mask


def row_pieces(block: ChangeBlock, numbers: pa.Array, *, apart: bool) -> RowPieces:
    """Return the pieces of operations of one type; ``numbers`` are their rowNum, ``apart``: large objects are not in them.

    Raises EncodeError for what the format cannot hold.
    """
    kind = int(block.op_type[0])
    if kind not in ROWS:
        problem = "a truncate cannot be published in this format"
        raise refused(block, 0, problem, "Leave it out, or publish in the format json")
    owner, _, name = block.table.name.rpartition(".")
    if not owner:
        problem = f"the table {block.table.name} has no schema, which a publication names"
        raise refused(block, 0, problem)
    names = (escaped(name), escaped(owner), escaped(name))
    begin = b'<%b subName="%b" srcOwner="%b" srcName="%b" rowNum="' % (ROWS[kind], *names)
    block, large = _without_large(block) if apart and kind != DELETE else (block, ())
    pieces = [ElementPiece(numbers, (begin, b'"', b"", b""))]
    if large:
        flagged = np.logical_or.reduce([own.rows for own in large])
        states = np.where(flagged, OTHER, NOTHING).astype(np.uint8)
        pieces.append(ElementPiece(None, (b"", b"", b"", b' hasLOBCols="1"'), states))
    make = _of_update if kind in (UPDATE, KEY_UPDATE) else _of_one
    written = _written(block.table)
    pieces.append(ElementPiece(None, (b"", b"", b"", b">"), np.full(len(block), OTHER, np.uint8)))
    for i, column in enumerate(written):
        pieces += make(block, i, column)
    return RowPieces(pieces, b"</" + ROWS[kind] + b">", large)


def _without_large(block: ChangeBlock) -> tuple[ChangeBlock, tuple[LargeColumn, ...]]:
    """Return operations without the values after of large objects, and these."""
    after, large = list(block.after), []
    for i, column in enumerate(_written(block.table)):
        own = after[i]
        if not column.column.lob_type or own.values is None:
            continue
        states = _states(own, len(block))
        rows: Mask = states == VALUE
        if not rows.any():
            continue
        name = column.column.name
        befores = rows & (_states(block.before[i], len(block)) != NOTHING)
        if befores.any():
            problem = f"large object {name} has a value before, and lob messages have none"
            raise refused(block, int(np.argmax(befores)), problem, "Set lobs=inline")
        large.append(LargeColumn(name, column.type.decode(), column.format(own.values), rows))
        after[i] = StateColumn(own.values, own.is_missing(len(block)) | rows)
    return replace(block, after=tuple(after)), tuple(large)


def _of_one(block: ChangeBlock, i: int, column: _Written) -> Iterator[ElementPiece]:
    """Yield the piece of a column of inserts or deletes, which have one image."""
    own = (block.before if block.op_type[0] == DELETE else block.after)[i]
    _check_key(block, i, own)
    states = _states(own, len(block))
    opened = column.begin + column.type
    literals = (opened + b">", column.end, opened + _NIL + b"</col>", b"")
    yield ElementPiece(_texts(own, column), literals, states, column.column.name)


def _of_update(block: ChangeBlock, i: int, column: _Written) -> Iterator[ElementPiece]:
    """Yield the pieces of a column of updates: before and after."""
    before, after, rows = block.before[i], block.after[i], len(block)
    _check_key(block, i, after)
    old, new = _states(before, rows), _states(after, rows)
    alone = (old != NOTHING) & (new == NOTHING)
    if alone.any():
        problem = f"column {column.column.name} has a value before and none after, and a publication has both"
        raise refused(block, int(np.argmax(alone)), problem, _HINT)
    opened = column.begin + column.type + b">"
    old[(old == NOTHING) & (new != NOTHING)] = OTHER
    first = _tag(BEFORE)
    yield ElementPiece(
        _texts(before, column),
        (opened + b"<" + first + b">", b"</" + first + b">", opened + b"<" + first + _NIL, opened),
        old,
        column.column.name,
    )
    last = _tag(AFTER)
    yield ElementPiece(
        _texts(after, column),
        (
            b"<" + last + b">",
            b"</" + last + b">" + column.end,
            b"<" + last + _NIL + column.end,
            b"",
        ),
        new,
        column.column.name,
    )


def _tag(name: str) -> bytes:
    return name.encode()


def _states(column: StateColumn, rows: int) -> Octets:
    if column.values is None:
        return np.full(rows, NOTHING, np.uint8)
    found = np.full(rows, VALUE, np.uint8)
    if column.values.null_count:
        found[column.values.is_null().to_numpy(zero_copy_only=False)] = NULL
    if column.missing is not None:
        found[column.missing] = NOTHING
    return found


def _texts(column: StateColumn, written: _Written) -> pa.Array | None:
    return None if column.values is None else written.format(column.values)


def _check_key(block: ChangeBlock, i: int, column: StateColumn) -> None:
    if not block.table.columns[i].key:
        return
    missing: Mask = column.is_missing(len(block))
    if missing.any():
        name = block.table.columns[i].name
        raise refused(block, int(np.argmax(missing)), f"key column {name} is missing", _HINT)


@lru_cache(TABLES)
def _written(table: Table) -> tuple[_Written, ...]:
    return tuple(map(_column, table.columns))


def _column(column: Column) -> _Written:
    key = b' isKey="1"' if column.key else b""
    begin = b'<col name="%b"%b><' % (escaped(column.name), key)
    return _Written(column, begin, type_of(column).encode(), _formatter(column))


def _formatter(column: Column) -> Convert:
    """Return what makes a column's texts: lexical forms of XML schemas."""
    plain = formatter_for(column)
    if column.family is Family.DATETIME and not column.zoned:
        return lambda values: marked(values, ISO_T)
    if column.family is Family.NUMBER_TEXT:
        return lambda values: _without_exponents(plain(values))
    if column.family is Family.FLOAT:
        return lambda values: _special(plain(values), values)
    return plain


def _without_exponents(texts: pa.Array) -> pa.Array:
    """Return numbers as digits: the published schema has no exponents in decimal and decfloat."""
    with_one = pc.fill_null(pc.match_substring_regex(texts, "^[-+]?[0-9.]+[eE]"), False)
    if not pc.any(with_one, min_count=0).as_py():
        return texts
    rows = np.flatnonzero(np.asarray(with_one))
    found = []
    for row, text in zip(rows.tolist(), texts.take(pa.array(rows)).to_pylist(), strict=True):
        number = Decimal(text)
        if abs(number.adjusted()) > _MOST_EXPONENT:
            problem = (
                f"the number has an exponent above {_MOST_EXPONENT}, which no number of Db2 has"
            )
            raise EncodeError(problem, where=Where(record=row, raw=text.encode()))
        found.append(f"{number:f}")
    return pc.replace_with_mask(texts, with_one, pa.array(found, texts.type))


def _special(texts: pa.Array, values: pa.Array) -> pa.Array:
    """Return floats as XML schemas write them: INF, -INF and NaN."""
    if pc.all(pc.is_finite(values), min_count=0).as_py() in (True, None):
        return texts
    for word, own in (("inf", "INF"), ("nan", "NaN")):
        texts = pc.replace_substring(texts, word, own)
    return texts


def refused(block: ChangeBlock, row: int, problem: str, hint: str = "") -> EncodeError:
    """Return the error of an operation."""
    place = block.position[row].as_py()
    return EncodeError(f"{problem} (operation at {place})", hint=hint).located(
        table=block.table.name
    )
