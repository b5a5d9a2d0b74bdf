"""Columns to records by a layout, and records to the bytes of a file: the mirror image of decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.cobol.copybook.items import (
    Counts,
    Item,
    ItemNode,
    PlacedItems,
    columns_below,
    counter_keys,
    key_among,
    place_items,
)
from trailgate.cobol.copybook.layouts import Field, Layout, Usage
from trailgate.cobol.records.added_columns import RAW_COLUMN
from trailgate.cobol.records.decoding import (
    ERRORS_COLUMN,
    Depending,
    OnError,
    RecordOptions,
    counts_of,
)
from trailgate.cobol.records.fields import RecordBytes
from trailgate.cobol.records.framing import FrameKind, Framing, find_frames, word_width
from trailgate.cobol.records.kept_bytes import KeptBytes
from trailgate.cobol.records.kernels import DATA, DESCRIPTOR
from trailgate.cobol.records.nulls import NullAs, NullPolicies, with_nulls
from trailgate.cobol.records.trees import is_tree, tree_columns
from trailgate.cobol.values.codec import Blank, Encoder
from trailgate.cobol.values.codecs import encoder
from trailgate.columnar.code_pages import code_page
from trailgate.errors import DecodeError, EncodeError, OptionError, Where, did_you_mean

_BLANKS: Final = (Usage.ZONED, Usage.EDITED, Usage.PACKED, Usage.UNSIGNED_PACKED)


class RecordEncoder:
    """Encodes flat columns, or a tree of them, as records of one layout; FILLER becomes blanks.

    Columns are a tree where one of them is a struct or a list. NULL is written by the policy of its usage; without one it is an error.
    ``width`` is the length of records with all elements, where it is not that of the layout: they end with blanks, or before FILLER.
    """

    def __init__(
        self,
        layout: Layout,
        options: RecordOptions | None = None,
        nulls: NullPolicies | None = None,
        width: int = 0,
    ) -> None:
        self.layout, self.options = layout, options or RecordOptions()
        self._names = self.options.names(layout)
        self._root = place_items(layout, self._names).root
        self._spare = _overlaid(layout.root)
        self._nulls = nulls or {}
        self._width = width or layout.size
        self._counters = _counter_columns(self._root, layout)
        self._encoders: dict[Field, Encoder] = {}
        errors = (ERRORS_COLUMN,) if self.options.errors is OnError.COLUMN else ()
        self.added = frozenset((*errors, *self.options.all_added))

    def encode(self, columns: Mapping[str, pa.Array] | pa.RecordBatch) -> RecordBytes:
        """Return the records; raises EncodeError with record and field.

        Every column must be there, but for those whose bytes are another's (REDEFINES); of two for the same
        bytes the later one that is not NULL stays. There must be no others, but for those that reading by the same options adds. With the column
        ``_raw``, which is one of these, bytes stay where a column holds what they hold, or is not there.
        """
        if isinstance(columns, pa.RecordBatch):
            columns = dict(zip(columns.schema.names, columns.columns, strict=True))
        rows = len(next(iter(columns.values()), ()))
        own = {name: column for name, column in columns.items() if name not in self.added}
        tree = None
        kinds = {name: own[name].type for name in own if name not in (ERRORS_COLUMN, RAW_COLUMN)}
        if is_tree(kinds):
            tree = tree_columns(self._root, own)
            own = tree.columns
        self._check_names(own)
        kept = None
        if RAW_COLUMN in self.added and RAW_COLUMN in columns:
            kept = KeptBytes(columns[RAW_COLUMN], self.layout, self.options)
        placed = self._place(own, kept)
        if tree is not None:
            tree.check_lengths(placed.root)
        written = self._begin(rows, placed, kept)
        changed = None if kept is None else kept.changed(own)
        items = list(columns_below(placed.root))
        for item in items:
            if item.name in own:
                rows_of = None if changed is None else changed[item.name]
                self._write(written, item, own[item.name], rows_of)
            elif item.field not in self._spare and (kept is None or not kept.present.all()):
                raise EncodeError("no column for a field", where=Where(field=item.name))
        self._check_spare(written.matrix.shape, items, own, changed)
        return written.cut()

    def _place(self, columns: Mapping[str, pa.Array], kept: KeptBytes | None) -> PlacedItems:
        """Return the items by the counts that the columns hold; raises EncodeError for one that its OCCURS does not allow."""
        real = self.options.depending is Depending.REAL
        if kept is not None and self.layout.varies:
            counters_ = self._counters & set(columns)
            others = self._counters - set(columns)
            columns = {**columns, **kept.values(others)}
            for name, rows in kept.changed({name: columns[name] for name in counters_}).items():
                if real and (rows & kept.present).any():
                    problem = f"another count than {RAW_COLUMN} holds, after which its items are at other places"
                    where = Where(record=int(np.argmax(rows & kept.present)) + 1, field=name)
                    raise EncodeError(problem, where=where, hint=f"Leave out {RAW_COLUMN}")
        placed = place_items(
            self.layout,
            self._names,
            lambda item: _count(columns, item, self.options.counts),
            real=real,
        )
        for bad in placed.bad_counts:
            row = int(np.argmax(bad.rows if kept is None else bad.rows & ~kept.present))
            if kept is not None and kept.present[row]:
                continue  # as it was read
            problem = f"{bad.counter} is outside of what {bad.field.name} allows"
            where = Where(record=row + 1, field=bad.counter)
            raise EncodeError(f"{problem}: {bad.counts[row]}", where=where)
        return placed

    def _begin(self, rows: int, placed: PlacedItems, kept: KeptBytes | None) -> _Written:
        """Return records of blanks, or of the bytes that are kept."""
        extent = placed.extent + (self._width - self.layout.size)
        width = max(self._width, self.layout.size)
        if kept is not None and rows:
            width = max(width, int(kept.lengths.max()))
        page = code_page(self.options.values.dialect.code_page)
        matrix = np.empty((rows, width), np.uint8)
        matrix[:] = np.resize(np.frombuffer(page.blank, np.uint8), width)
        if kept is None:
            return _Written(matrix, extent)
        kept.copy_to(matrix)
        return _Written(matrix, np.where(kept.present, kept.lengths, extent))

    def _check_spare(
        self,
        shape: tuple[int, ...],
        items: list[Item],
        columns: Mapping[str, pa.Array],
        changed: Mapping[str, Mask] | None,
    ) -> None:
        """Raise EncodeError for the NULL of an item whose bytes no other definition of them has written."""
        spare = [item for item in items if item.field in self._spare]
        unwritten = {item: self._unwritten(item, columns, changed, shape[0]) for item in spare}
        if not any(rows.any() for rows in unwritten.values()):
            return
        written = np.zeros(shape, bool)
        for item in spare:
            own = np.flatnonzero(_both(~unwritten[item], item.active))
            written[own[:, None], _bytes_at(item, own)] = True
        for item in spare:
            rows = np.flatnonzero(_both(unwritten[item], item.active))
            alone = ~written[rows[:, None], _bytes_at(item, rows)].any(axis=1)
            if alone.any() and not self._is_blank(item.field):
                problem = "NULL has no bytes, and no other item of the same bytes has a value"
                where = Where(record=int(rows[np.argmax(alone)]) + 1, field=item.name)
                raise EncodeError(problem, where=where)

    def _unwritten(
        self,
        item: Item,
        columns: Mapping[str, pa.Array],
        changed: Mapping[str, Mask] | None,
        rows: int,
    ) -> Mask:
        """Return the records in which an item has no bytes: it is NULL without a policy, or there is no column."""
        if item.name not in columns:
            return np.full(rows, changed is None)
        if not self._leaves_null(item.field):
            return np.zeros(rows, bool)
        found: Mask = columns[item.name].is_null().to_numpy(zero_copy_only=False)
        return found if changed is None else found & changed[item.name]

    def _is_blank(self, field: Field) -> bool:
        """Return whether blanks are how NULL is read, and so written."""
        return self.options.values.blank is Blank.NULL and field.usage in _BLANKS

    def _leaves_null(self, field: Field) -> bool:
        """Return whether NULL of a field leaves its bytes to another definition of them."""
        policy = self._nulls.get(field.usage, NullAs.ERROR)
        return field in self._spare and policy is NullAs.ERROR

    def _check_names(self, columns: Mapping[str, pa.Array]) -> None:
        """Raise EncodeError for a column that is not an item."""
        known = frozenset(self._names)
        for name in (name for name in columns if name not in known):
            hint = did_you_mean(name, self._names) or "Leave the column out"
            problem = f"the copybook has no item for the column {name}"
            raise EncodeError(problem, where=Where(table=self.layout.name), hint=hint)

    def _write(self, written: _Written, item: Item, values: pa.Array, changed: Mask | None) -> None:
        """Write the values of an item, where they changed, into the records that have it."""
        active, count = item.active, len(written.matrix)
        if changed is not None:
            active = _both(changed, active)
        if self._leaves_null(item.field) and values.null_count:
            active = _both(values.is_valid().to_numpy(zero_copy_only=False), active)
        rows = np.arange(count) if active is None else np.flatnonzero(active)
        if not len(rows) and count:
            return  # columns without rows are still to have a type that fits
        if active is not None:
            values = values.filter(pa.array(active))
        try:
            made = self._encoder_of(item.field)(values)
        except OptionError as error:
            raise error.with_place(field=item.name) from None
        except EncodeError as error:
            record = error.where.record
            if record is not None:
                where = Where(record=int(rows[record]) + 1, field=item.name)
                raise EncodeError(error.problem, where=where, hint=error.hint) from None
            raise error.with_place(field=item.name) from None
        written.put(item, rows, made)

    def _encoder_of(self, field: Field) -> Encoder:
        if field not in self._encoders:
            values = self.options.values
            encode = encoder(field, values)
            policy = self._nulls.get(field.usage, NullAs.ERROR)
            if policy is not NullAs.ERROR:
                encode = with_nulls(field, encode, policy, values)
            self._encoders[field] = encode
        return self._encoders[field]


class _Written:
    """Records as the rows of a matrix, each with its length."""

    def __init__(self, matrix: Octets, extent: int | Longs) -> None:
        self.matrix, self.extent = matrix, extent

    def put(self, item: Item, rows: Longs, made: Octets) -> None:
        """Write an item's bytes into some records; one that ended before it becomes longer."""
        at = _bytes_at(item, rows)
        self.matrix[rows[:, None], at] = made
        if not isinstance(self.extent, int):
            self.extent[rows] = np.maximum(self.extent[rows], at[:, -1] + 1)

    def cut(self) -> RecordBytes:
        """Return the records, back to back."""
        count, width = self.matrix.shape
        if isinstance(self.extent, int):
            starts = np.arange(count, dtype=np.int64) * self.extent
            data = np.ascontiguousarray(self.matrix[:, : self.extent]).reshape(-1)
            return RecordBytes(data, starts, starts + self.extent, step=self.extent)
        ends = np.cumsum(np.broadcast_to(self.extent, count))
        inside = np.arange(width) < np.broadcast_to(self.extent, count)[:, None]
        return RecordBytes(self.matrix[inside], ends - self.extent, ends)


def _both(rows: Mask, others: Mask | None) -> Mask:
    return rows if others is None else rows & others


def _bytes_at(item: Item, rows: Longs) -> Longs:
    """Return the offsets of an item's bytes in some records, a row a record, or one row for all."""
    at = item.offset if isinstance(item.offset, int) else item.offset[rows]
    found: Longs = np.reshape(at, (-1, 1)) + np.arange(item.field.size)
    return found


def _overlaid(root: Field) -> frozenset[Field]:
    """Return the fields whose bytes are also another's."""
    found: set[Field] = set()
    for group in root.walk():
        shown_again = {child.redefines.upper() for child in group.children if child.redefines}
        for child in group.children:
            if child.redefines or child.name.upper() in shown_again:
                found.update(child.walk())
    return frozenset(found)


def _counter_columns(root: ItemNode, layout: Layout) -> frozenset[str]:
    keys = counter_keys(layout)
    return frozenset(
        item.name for item in columns_below(root) if key_among(keys, item.field, item.groups)
    )


def _count(
    columns: Mapping[str, pa.Array], item: Item, stated: Mapping[str, Mapping[str, int]]
) -> Counts:
    values = columns.get(item.name)
    if values is None:
        raise EncodeError("no column for a counter", where=Where(field=item.name))
    table = stated.get(item.field.name.upper())
    if table is not None:
        values = counts_of(values, table)
        if values.null_count:
            row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
            where = Where(record=row + 1, field=item.name)
            raise EncodeError("a value that the option countMap has no number for", where=where)
    counts = pc.cast(values, pa.int64()).fill_null(0)
    return Counts(counts.to_numpy(zero_copy_only=False))


@dataclass(frozen=True, slots=True)
class Blocks:
    """How many records are in a block, and how many bytes it has with its word, at most; without ``length`` any number.

    A longer record is an error if the length is ``strict``, else it has a block of its own.
    """

    records: int | None = 1
    length: int | None = None
    strict: bool = True

    def begins(self, sizes: Longs) -> Longs:
        """Return the numbers of the records that begin blocks, of records that take so many bytes; raises EncodeError for one that is too long."""
        if self.length is None:
            return np.arange(0, len(sizes), self.records or 1)
        room = self.length - DESCRIPTOR
        if self.strict and (sizes > room).any():
            row = int(np.argmax(sizes > room))
            problem = f"a record of {sizes[row]} bytes with its word, and blocks of {self.length}"
            raise EncodeError(problem, where=Where(record=row + 1), hint="blockLength is too small")
        ends, found, at = np.cumsum(sizes), list[int](), 0
        while at < len(sizes):
            found.append(at)
            before = int(ends[at] - sizes[at])
            end = max(at + 1, int(np.searchsorted(ends, before + room, side="right")))
            at = end if self.records is None else min(end, at + self.records)
        return np.array(found, np.int64)


ONE_A_BLOCK: Final = Blocks()
FILLED: Final = Blocks(records=None, length=32_760, strict=False)  # the largest block of z/OS
_BLOCKED: Final = (FrameKind.SPANNED, FrameKind.BDW)


def whole_blocks(records: RecordBytes, framing: Framing, blocks: Blocks) -> int:
    """Return how many of the records are in blocks that no record after these can be in."""
    if framing.kind not in _BLOCKED or blocks == ONE_A_BLOCK or not len(records):
        return len(records)
    return int(blocks.begins(records.ends - records.starts + DESCRIPTOR)[-1])


def frame(records: RecordBytes, framing: Framing, blocks: Blocks = ONE_A_BLOCK) -> Octets:
    """Return the bytes of a file with records that follow each other in their buffer.

    Raises EncodeError for a record that would not be read as it was written: a delimiter in it, a wrong length.
    """
    if framing.kind is FrameKind.MICRO_FOCUS:
        return _frame_typed(records, framing)
    lengths = records.ends - records.starts
    own, outer = framing.words.reshape(2, 3).tolist()
    heads = np.zeros((len(lengths), 0), np.uint8)
    if framing.kind in (*_BLOCKED, FrameKind.RDW):
        heads = _words(lengths + DESCRIPTOR, own)
    mark = np.frombuffer(framing.delimiter if framing.kind is FrameKind.LINE else b"", np.uint8)
    sizes = heads.shape[1] + lengths + len(mark)
    firsts = blocks.begins(sizes) if framing.kind in _BLOCKED else np.zeros(0, np.int64)
    before = np.zeros(len(sizes), np.int64)
    before[firsts] = DESCRIPTOR
    ends = np.cumsum(before + sizes)
    begins = ends - len(mark) - lengths
    made = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    body = np.ones(len(made), bool)
    held = np.add.reduceat(sizes, firsts) if len(firsts) else firsts
    for at, values in (
        (begins - heads.shape[1], heads),
        (ends - len(mark), mark[None, :]),
        ((begins - heads.shape[1])[firsts] - DESCRIPTOR, _words(held + DESCRIPTOR, outer)),
    ):
        places = at[:, None] + np.arange(values.shape[1])
        made[places], body[places] = values, False
    if len(records):
        made[body] = records.data[int(records.starts[0]) : int(records.ends[-1])]
    _check_found_again(made, begins, begins + lengths, framing)
    return made


def _frame_typed(records: RecordBytes, framing: Framing) -> Octets:
    """Return records as a file of Micro Focus has them: after words with their type and length, padded to a multiple of four bytes."""
    width, lengths = word_width(framing), records.ends - records.starts
    if len(lengths) and int(lengths.max()) > framing.length:
        row = int(lengths.argmax())
        problem = f"a record of {lengths[row]} bytes, and the longest of the copybook has {framing.length}"
        raise EncodeError(problem, where=Where(record=row + 1))
    padded = np.maximum(8, (lengths + width + 3) & ~3)
    ends = np.cumsum(padded)
    begins = ends - padded + width
    made = np.full(int(ends[-1]) if len(ends) else 0, ord(" "), np.uint8)
    words = (lengths | DATA << (8 * width - 4)).astype(">u4").view(np.uint8).reshape(-1, 4)
    made[(begins - width)[:, None] + np.arange(width)] = words[:, 4 - width :]
    if len(records):
        inside = np.repeat(begins - records.starts, lengths) + np.arange(
            int(records.starts[0]), int(records.ends[-1])
        )
        made[inside] = records.data[int(records.starts[0]) : int(records.ends[-1])]
    _check_found_again(made, begins, begins + lengths, replace(framing, left=width))
    return made


def _words(counted: Longs, form: Sequence[int]) -> Octets:
    """Return descriptor words that state these lengths: whether they are little-endian and twisted, and what is added to them."""
    little, twisted, adjustment = form
    found = np.zeros((len(counted), DESCRIPTOR), np.uint8)
    half = (counted - adjustment).astype("<u2" if little else ">u2").view(np.uint8).reshape(-1, 2)
    found[:, 2 * twisted : 2 * twisted + 2] = half
    return found


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
