"""Build the template pieces of the rows of written XML publications.

`xml_writer.py` puts the rows into messages. A row has an element for each column; large objects may
be excluded, to be written in separate messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask, Octets
from trailgate.columnar.templates import PieceForm, RowPiece
from trailgate.columnar.temporal import ISO_T, replace_time_marks
from trailgate.errors import EncodeError, Where
from trailgate.formats.publications.xml_schemas import publication_type
from trailgate.formats.publications.xml_vocabulary import AFTER, BEFORE, escape_attribute
from trailgate.model.changes import DELETE, INSERT, KEY_UPDATE, UPDATE, ChangeBlock, StateColumn
from trailgate.model.table_names import split_owner
from trailgate.model.tables import TABLES, Column, Table
from trailgate.model.types import TypeFamily
from trailgate.model.values import Convert, formatter_for

# How a row contains a column: with a value, as NULL, or not at all. OTHER is the before value of an
# update that is missing: only the tags around both values are written.
VALUE, NULL, NOTHING, OTHER = range(4)
# By the operation's type: the element of its row.
ROWS = {INSERT: b"insertRow", UPDATE: b"updateRow", KEY_UPDATE: b"updateRow", DELETE: b"deleteRow"}
_MOST_EXPONENT = 6144  # the largest of a DECFLOAT with 34 digits
_NIL = b' xsi:nil="1"/>'
_HINT = "Capture with all columns and their befores (NOCOMPRESSUPDATES, GETUPDATEBEFORES, NOCOMPRESSDELETES), or publish in the format json"


@dataclass(frozen=True, slots=True)
class _Written:
    """How a column is written in XML publications: its tags, and the function that formats its values."""

    column: Column
    begin: bytes  # up to the name of the type's element
    type: bytes
    format: Convert

    @property
    def end(self) -> bytes:
        """The end tags of a value's type element and of its `col` element in XML publications."""
        return b"</" + self.type + b"></col>"


@dataclass(frozen=True, slots=True)
class RowPieces:
    """The template pieces of XML publication rows, and the large objects to write in separate messages."""

    pieces: list[RowPiece]
    large: tuple[LargeObjectColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class LargeObjectColumn:
    """A large object column whose values are written in separate `lob` messages.

    `rows` is the mask of rows with a value.
    """

    name: str
    type: str
    strings: pa.Array
    rows: Mask


def row_pieces(block: ChangeBlock, numbers: pa.Array, *, apart: bool) -> RowPieces:
    """Build the template pieces of XML rows for operations of one table and type.

    `numbers` are the operations' rowNum. With `apart`, large objects are written to separate
    messages. Raises EncodeError for values that the format cannot express.
    """
    kind = int(block.op_type[0])
    if kind not in ROWS:
        problem = "a truncate cannot be published in this format"
        raise publication_error(
            block, 0, problem, "Exclude the table, or publish in the format json"
        )
    owner, name = split_owner(block.table.name)
    if not owner:
        problem = f"the table {block.table.name} has no schema, but a publication must name one"
        raise publication_error(block, 0, problem)
    names = (escape_attribute(name), escape_attribute(owner), escape_attribute(name))
    begin = b'<%b subName="%b" srcOwner="%b" srcName="%b" rowNum="' % (ROWS[kind], *names)
    block, large = _without_large(block) if apart and kind != DELETE else (block, ())
    pieces = [attribute_piece(numbers, begin)]
    if large:
        # A row is flagged if any of its columns has a large object.
        flagged = np.logical_or.reduce([own.rows for own in large])
        forms = (PieceForm(), PieceForm(b' hasLOBCols="1"'))
        pieces.append(RowPiece(None, forms, flagged.astype(np.uint8)))
    make = _of_update if kind in (UPDATE, KEY_UPDATE) else _of_one
    written = _written_pieces(block.table)
    pieces.append(RowPiece(None, (PieceForm(b">"),)))
    for i, column in enumerate(written):
        pieces += make(block, i, column)
    pieces.append(RowPiece(None, (PieceForm(b"</" + ROWS[kind] + b">"),)))
    return RowPieces(pieces, large)


def _without_large(block: ChangeBlock) -> tuple[ChangeBlock, tuple[LargeObjectColumn, ...]]:
    """Remove the after values of large objects from operations, to write them in `lob` messages.

    Return the operations and the removed values.
    """
    after, large = list(block.after), []
    for i, column in enumerate(_written_pieces(block.table)):
        state = after[i]
        if not column.column.lob_type or state.values is None:
            continue
        # Only non-null values move to lob messages; NULL stays in the row.
        states = _states(state, len(block))
        rows: Mask = states == VALUE
        if not rows.any():
            continue
        name = column.column.name
        befores = rows & (_states(block.before[i], len(block)) != NOTHING)
        if befores.any():
            problem = f"large object {name} has a before value, which lob messages cannot have"
            raise publication_error(block, int(np.argmax(befores)), problem, "Set lobs=inline")
        large.append(
            LargeObjectColumn(name, column.type.decode(), column.format(state.values), rows)
        )
        # In the row, such a value is missing.
        after[i] = StateColumn(state.values, state.is_missing(len(block)) | rows)
    return replace(block, after=tuple(after)), tuple(large)


def _of_one(block: ChangeBlock, i: int, column: _Written) -> Iterator[RowPiece]:
    """Yield the template piece of a column in XML insert or delete rows, which have one image."""
    state = (block.before if block.op_type[0] == DELETE else block.after)[i]
    _check_key(block, i, state)
    states = _states(state, len(block))
    opened = column.begin + column.type
    # In the order of the states: present, NULL, missing.
    forms = (
        PieceForm(opened + b">", column.end),
        PieceForm(opened + _NIL + b"</col>"),
        PieceForm(),
    )
    yield RowPiece(_strings(state, column), forms, states, name=column.column.name)


def _of_update(block: ChangeBlock, i: int, column: _Written) -> Iterator[RowPiece]:
    """Yield a column's two template pieces in XML update rows: the before and the after value."""
    before, after, rows = block.before[i], block.after[i], len(block)
    _check_key(block, i, after)
    old, new = _states(before, rows), _states(after, rows)
    # Rows with a before value but without an after value.
    alone = (old != NOTHING) & (new == NOTHING)
    if alone.any():
        problem = f"column {column.column.name} has a before value but no after value; a publication needs both"
        raise publication_error(block, int(np.argmax(alone)), problem, _HINT)
    opened = column.begin + column.type + b">"
    # An after value without a before value: only the start tags are written before it.
    old[(old == NOTHING) & (new != NOTHING)] = OTHER
    # Example, A from 1 to NULL: <col name="A"><integer><beforeVal>1</beforeVal> is the first piece, and
    # <afterVal xsi:nil="1"/></integer></col> the second.
    first, last, name = BEFORE.encode(), AFTER.encode(), column.column.name
    forms = (
        PieceForm(opened + b"<" + first + b">", b"</" + first + b">"),
        PieceForm(opened + b"<" + first + _NIL),
        PieceForm(),
        PieceForm(opened),
    )
    yield RowPiece(_strings(before, column), forms, old, name=name)
    afters = (
        PieceForm(b"<" + last + b">", b"</" + last + b">" + column.end),
        PieceForm(b"<" + last + _NIL + column.end),
        PieceForm(),
    )
    yield RowPiece(_strings(after, column), afters, new, name=name)


def _states(column: StateColumn, rows: int) -> Octets:
    if column.values is None:
        return np.full(rows, NOTHING, np.uint8)
    # The last assignment decides: a missing value counts as NOTHING, also where its slot is null.
    states = np.full(rows, VALUE, np.uint8)
    if column.values.null_count:
        states[column.values.is_null().to_numpy(zero_copy_only=False)] = NULL
    if column.missing is not None:
        states[column.missing] = NOTHING
    return states


def _strings(column: StateColumn, written: _Written) -> pa.Array | None:
    return None if column.values is None else written.format(column.values)


def _check_key(block: ChangeBlock, i: int, column: StateColumn) -> None:
    if not block.table.columns[i].key:
        return
    missing: Mask = column.is_missing(len(block))
    if missing.any():
        name = block.table.columns[i].name
        raise publication_error(
            block, int(np.argmax(missing)), f"key column {name} is missing", _HINT
        )


@lru_cache(TABLES)
def _written_pieces(table: Table) -> tuple[_Written, ...]:
    return tuple(map(_column, table.columns))


def _column(column: Column) -> _Written:
    key = b' isKey="1"' if column.key else b""
    begin = b'<col name="%b"%b><' % (escape_attribute(column.name), key)
    return _Written(column, begin, publication_type(column).encode(), _formatter(column))


def _formatter(column: Column) -> Convert:
    """Return the function that formats a column in the lexical form of XML schemas."""
    plain = formatter_for(column)
    if column.family is TypeFamily.DATETIME and not column.zoned:
        return lambda values: replace_time_marks(values, ISO_T)
    if column.family is TypeFamily.NUMBER_TEXT:
        return lambda values: _without_exponents(plain(values))
    if column.family is TypeFamily.FLOAT:
        return lambda values: _special(plain(values), values)
    return plain


def _without_exponents(strings: pa.Array) -> pa.Array:
    """Write numbers with exponents as plain decimals for XML publications.

    IBM's published schema of decimal and decfloat does not allow exponents. Raises EncodeError for
    exponents above Db2's largest.
    """
    with_one = pc.fill_null(pc.match_substring_regex(strings, "^[-+]?[0-9.]+[eE]"), False)
    if not pc.any(with_one, min_count=0).as_py():
        return strings
    rows = np.flatnonzero(np.asarray(with_one))
    expanded = []
    for row, text in zip(rows.tolist(), strings.take(pa.array(rows)).to_pylist(), strict=True):
        number = Decimal(text)
        # Expanding a larger exponent could produce millions of digits.
        if abs(number.adjusted()) > _MOST_EXPONENT:
            problem = f"the number has an exponent above {_MOST_EXPONENT}, the largest in Db2"
            raise EncodeError(problem, where=Where(record=row, raw=text.encode()))
        expanded.append(f"{number:f}")
    return pc.replace_with_mask(strings, with_one, pa.array(expanded, strings.type))


def _special(strings: pa.Array, values: pa.Array) -> pa.Array:
    """Replace infinite and undefined floats by their names in XML schemas: INF, -INF and NaN."""
    if pc.all(pc.is_finite(values), min_count=0).as_py() in (True, None):
        return strings
    for word, own in (("inf", "INF"), ("nan", "NaN")):
        strings = pc.replace_substring(strings, word, own)
    return strings


def publication_error(block: ChangeBlock, row: int, problem: str, hint: str = "") -> EncodeError:
    """Create an error located at an operation that cannot be written as an XML publication."""
    place = block.position[row].as_py()
    return EncodeError(f"{problem} (operation at {place})", hint=hint).with_place(
        table=block.table.name
    )


def attribute_piece(values: pa.Array, before: bytes) -> RowPiece:
    """Return the template piece of an XML attribute, which is omitted if its value is null."""
    return RowPiece(values, (PieceForm(before, b'"'), PieceForm()))
