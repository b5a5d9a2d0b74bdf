"""Columns to records by a layout, and records to the bytes of a file: the mirror image of decoding."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Octets
from trailgate.cobol.copybook.items import Counts, Item, column_names, columns_below, place_items
from trailgate.cobol.copybook.layouts import Field, Layout
from trailgate.cobol.records.decoding import (
    ERRORS_COLUMN,
    Depending,
    OnError,
    RecordOptions,
)
from trailgate.cobol.records.fields import RecordBytes
from trailgate.cobol.records.framing import FrameKind, Framing, find_frames
from trailgate.cobol.records.kernels import DESCRIPTOR
from trailgate.cobol.values.codecs import encoder
from trailgate.columnar.code_pages import code_page
from trailgate.errors import DecodeError, EncodeError, OptionError, Where, did_you_mean


class RecordEncoder:
    """Encodes flat columns as records of one layout; FILLER becomes blanks."""

    def __init__(self, layout: Layout, options: RecordOptions | None = None) -> None:
        self.layout, self.options = layout, options or RecordOptions()
        self._names = column_names(layout)
        self._spare = _overlaid(layout.root)

    def encode(self, columns: Mapping[str, pa.Array] | pa.RecordBatch) -> RecordBytes:
        """Return the records; raises EncodeError with record and field.

        Every column must be there, but for those whose bytes are another's (REDEFINES); of two for the same
        bytes the later one stays. There must be no others, but for those that reading by the same options adds.
        """
        if isinstance(columns, pa.RecordBatch):
            columns = dict(zip(columns.schema.names, columns.columns, strict=True))
        rows = len(next(iter(columns.values()), ()))
        self._check_names(columns)
        real = self.options.depending is Depending.REAL
        placed = place_items(
            self.layout, self._names, lambda item: _count(columns, item), real=real
        )
        for bad in placed.bad_counts:
            problem = f"{bad.counter} is outside of what {bad.field.name} allows"
            where = Where(record=int(np.argmax(bad.rows)) + 1, field=bad.counter)
            raise EncodeError(problem, where=where)
        page = code_page(self.options.values.dialect.code_page)
        matrix = np.empty((rows, self.layout.size), np.uint8)
        matrix[:] = np.resize(np.frombuffer(page.blank, np.uint8), self.layout.size)
        for item in columns_below(placed.root):
            if item.name in columns:
                self._write(matrix, item, columns[item.name])
            elif item.field not in self._spare:
                raise EncodeError("no column for a field", where=Where(field=item.name))
        return _cut(matrix, placed.extent)

    def _check_names(self, columns: Mapping[str, pa.Array]) -> None:
        """Raise EncodeError for a column that is not an item."""
        known = {*self._names, *self.options.all_added}
        if self.options.errors is OnError.COLUMN:
            known.add(ERRORS_COLUMN)
        for name in columns:
            if name not in known:
                hint = did_you_mean(name, self._names) or "Leave the column out"
                problem = f"the copybook has no item for the column {name}"
                raise EncodeError(problem, where=Where(table=self.layout.name), hint=hint)

    def _write(self, matrix: Octets, item: Item, values: pa.Array) -> None:
        rows = np.arange(len(matrix)) if item.active is None else np.flatnonzero(item.active)
        if not len(rows):
            return
        if item.active is not None:
            values = values.filter(pa.array(item.active))
        try:
            made = encoder(item.field, self.options.values)(values)
        except OptionError as error:
            raise error.with_place(field=item.name) from None
        except EncodeError as error:
            record = error.where.record
            if record is not None:
                where = Where(record=int(rows[record]) + 1, field=item.name)
                raise EncodeError(error.problem, where=where, hint=error.hint) from None
            raise error.with_place(field=item.name) from None
        at = item.offset if isinstance(item.offset, int) else item.offset[rows]
        matrix[rows[:, None], np.reshape(at, (-1, 1)) + np.arange(item.field.size)] = made


def _overlaid(root: Field) -> frozenset[Field]:
    """Return the fields whose bytes are also another's."""
    found: set[Field] = set()
    for group in root.walk():
        shown_again = {child.redefines.upper() for child in group.children if child.redefines}
        for child in group.children:
            if child.redefines or child.name.upper() in shown_again:
                found.update(child.walk())
    return frozenset(found)


def _count(columns: Mapping[str, pa.Array], item: Item) -> Counts:
    values = columns.get(item.name)
    if values is None:
        raise EncodeError("no column for a counter", where=Where(field=item.name))
    counts = pc.cast(values, pa.int64()).fill_null(0)
    return Counts(counts.to_numpy(zero_copy_only=False))


def _cut(matrix: Octets, extent: int | Longs) -> RecordBytes:
    rows, width = matrix.shape
    if isinstance(extent, int):
        starts = np.arange(rows, dtype=np.int64) * width
        return RecordBytes(matrix.reshape(-1), starts, starts + width, step=width)
    ends = np.cumsum(np.broadcast_to(extent, rows))
    inside = np.arange(width) < np.broadcast_to(extent, rows)[:, None]
    return RecordBytes(matrix[inside], ends - extent, ends)


def frame(records: RecordBytes, framing: Framing) -> Octets:
    """Return the bytes of a file with records that follow each other in their buffer; a block holds one record.

    Raises EncodeError for a record that would not be read as it was written: a delimiter in it, a wrong length.
    """
    lengths = records.ends - records.starts
    heads = _descriptors(lengths, framing)
    mark = np.frombuffer(framing.delimiter if framing.kind is FrameKind.LINE else b"", np.uint8)
    ends = np.cumsum(heads.shape[1] + lengths + len(mark))
    begins = ends - len(mark) - lengths
    made = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    body = np.ones(len(made), bool)
    for at, values in ((begins - heads.shape[1], heads), (ends - len(mark), mark[None, :])):
        places = at[:, None] + np.arange(values.shape[1])
        made[places], body[places] = values, False
    made[body] = records.data
    _check_found_again(made, begins, begins + lengths, framing)
    return made


def _descriptors(lengths: Longs, framing: Framing) -> Octets:
    """Return the descriptor words before each record: the block's, then its own."""
    words = {FrameKind.SPANNED: 2, FrameKind.BDW: 2, FrameKind.RDW: 1}.get(framing.kind, 0)
    found = np.zeros((len(lengths), words, DESCRIPTOR), np.uint8)
    for inner, form in enumerate(framing.words.reshape(2, 3).tolist()[:words]):
        little, twisted, adjustment = form
        counted = lengths + DESCRIPTOR * (inner + 1) - adjustment
        half = counted.astype("<u2" if little else ">u2").view(np.uint8).reshape(-1, 2)
        found[:, words - 1 - inner, 2 * twisted : 2 * twisted + 2] = half
    return found.reshape(len(lengths), words * DESCRIPTOR)


def _check_found_again(made: Octets, begins: Longs, ends: Longs, framing: Framing) -> None:
    try:
        found = find_frames(made, framing, finish=True)
    except DecodeError as error:
        raise EncodeError(f"records that do not fit their framing: {error.problem}") from None
    if not (np.array_equal(found.starts, begins) and np.array_equal(found.ends, ends)):
        both = min(len(found.starts), len(begins))
        other = (found.starts[:both] != begins[:both]) | (found.ends[:both] != ends[:both])
        where = Where(record=int(np.append(other, True).argmax()) + 1)
        raise EncodeError("a record that would not be read as it was written", where=where)
