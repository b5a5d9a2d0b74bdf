"""Encode Arrow columns as COBOL records by a layout.

This is the reverse of decoding. ``RecordEncoder.encode`` fills a matrix with blanks (or with the
original bytes of ``_raw``), writes the values of each item into its bytes, and cuts the rows to
their lengths. ``frame_encoding.py`` then adds what separates the records of a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.cobol.copybook.layouts import (
    CopybookField,
    CopybookLayout,
    Usage,
    counter_keys,
    find_counter_key,
)
from trailgate.cobol.copybook.placed_items import (
    CounterValues,
    ItemNode,
    PlacedItem,
    PlacedItems,
    columns_below,
    place_items,
)
from trailgate.cobol.records.added_columns import RAW_COLUMN
from trailgate.cobol.records.counter_reader import counts_of
from trailgate.cobol.records.kept_bytes import OriginalBytes
from trailgate.cobol.records.nested_columns import flatten_nested_columns, has_nested_columns
from trailgate.cobol.records.nulls import NullAs, NullPolicies, with_nulls
from trailgate.cobol.records.record_bytes import RecordBytes
from trailgate.cobol.records.record_options import (
    ERRORS_COLUMN,
    BadFieldPolicy,
    DependingLength,
    RecordOptions,
)
from trailgate.cobol.values.codec import BlankPolicy, Encoder
from trailgate.cobol.values.codecs import encoder
from trailgate.columnar.code_pages import code_page
from trailgate.errors import EncodeError, OptionError, Where, did_you_mean

_BLANKS: Final = (Usage.ZONED, Usage.EDITED, Usage.PACKED, Usage.UNSIGNED_PACKED)


class RecordEncoder:
    """Encodes flat columns, or structs and lists, as records of one layout. FILLER becomes blanks.

    ``nulls`` has for each usage the policy for writing NULL; without a policy, NULL is an error.
    ``width`` is the maximum length of a record (0: the layout's). If it is greater than the layout's,
    records are padded with blanks; if it is smaller, the FILLER at their ends is cut.
    """

    def __init__(
        self,
        layout: CopybookLayout,
        options: RecordOptions | None = None,
        nulls: NullPolicies | None = None,
        width: int = 0,
    ) -> None:
        self.layout, self.options = layout, options or RecordOptions()
        self._names = self.options.names(layout)
        self._root = place_items(layout, self._names).root
        self._shared = _overlaid(layout.root)
        self._nulls = nulls or {}
        self._width = width or layout.size
        self._counters = _counter_columns(self._root, layout)
        self._encoders: dict[CopybookField, Encoder] = {}
        errors = (ERRORS_COLUMN,) if self.options.errors is BadFieldPolicy.COLUMN else ()
        self.added = frozenset((*errors, *self.options.all_added))

    def encode(self, columns: Mapping[str, pa.Array] | pa.RecordBatch) -> RecordBytes:
        """Encode a batch of rows as COBOL records of one layout.

        Raises EncodeError with record and field.

        Every item needs a column, except items that share their bytes with another item
        (REDEFINES): if several columns describe the same bytes, the last column that is not NULL is
        written. Columns that are not items are errors, unless they are columns that reading with
        the same options adds. If one of them is ``_raw``, a record keeps its original bytes for
        every item whose column is missing or unchanged.
        """
        if isinstance(columns, pa.RecordBatch):
            columns = dict(zip(columns.schema.names, columns.columns, strict=True))
        rows = len(next(iter(columns.values()), ()))
        # Columns that reading added, such as errors, are ignored; ``_raw`` is used below.
        items_only = {name: column for name, column in columns.items() if name not in self.added}
        tree = None
        kinds = {
            name: items_only[name].type
            for name in items_only
            if name not in (ERRORS_COLUMN, RAW_COLUMN)
        }
        if has_nested_columns(kinds):
            tree = flatten_nested_columns(self._root, items_only)
            items_only = tree.columns
        self._check_names(items_only)
        kept = None
        if RAW_COLUMN in self.added and RAW_COLUMN in columns:
            kept = OriginalBytes(columns[RAW_COLUMN], self.layout, self.options)
        placed = self._place(items_only, kept)
        if tree is not None:
            tree.check_lengths(placed.root)
        written = self._begin(rows, placed, kept)
        changed = None if kept is None else kept.find_changes(items_only)
        items = list(columns_below(placed.root))
        for item in items:
            if item.name in items_only:
                rows_of = None if changed is None else changed[item.name]
                self._write(written, item, items_only[item.name], rows_of)
            elif item.field not in self._shared and (kept is None or not kept.present.all()):
                raise EncodeError("no column for a field", where=Where(field=item.name))
        self._check_shared(written.matrix.shape, items, items_only, changed)
        return written.cut()

    def _place(
        self, columns: Mapping[str, pa.Array], original: OriginalBytes | None
    ) -> PlacedItems:
        """Compute the offsets of the items from the counters in the columns.

        Raises EncodeError if a count is not allowed.
        """
        real = self.options.depending is DependingLength.REAL
        if original is not None and self.layout.varies:
            counters = self._counters & set(columns)
            # A counter without a column keeps the value that the original bytes have.
            others = self._counters - set(columns)
            columns = {**columns, **original.values(others)}
            for name, rows in original.find_changes(
                {name: columns[name] for name in counters}
            ).items():
                if real and (rows & original.present).any():
                    problem = f"the count differs from that in {RAW_COLUMN}, which would move the items after it"
                    where = Where(record=int(np.argmax(rows & original.present)) + 1, field=name)
                    raise EncodeError(problem, where=where, hint=f"Drop the column {RAW_COLUMN}")
        placed = place_items(
            self.layout,
            self._names,
            lambda item: _count(columns, item, self.options.counts),
            real=real,
        )
        for bad in placed.bad_counts:
            rows = bad.rows if original is None else bad.rows & ~original.present
            # Bad counts in original bytes are written as they were read.
            if not rows.any():
                continue
            row = int(np.argmax(rows))
            problem = f"{bad.counter} is outside the limits of {bad.field.name}"
            where = Where(record=row + 1, field=bad.counter)
            raise EncodeError(f"{problem}: {bad.counts[row]}", where=where)
        return placed

    def _begin(self, rows: int, placed: PlacedItems, original: OriginalBytes | None) -> _Written:
        """Create the records, filled with blanks or with the original bytes."""
        extent = placed.extent + (self._width - self.layout.size)
        width = max(self._width, self.layout.size)
        if original is not None and rows:
            width = max(width, int(original.lengths.max()))
        page = code_page(self.options.values.dialect.code_page)
        matrix = np.empty((rows, width), np.uint8)
        # A blank may have two bytes (DBCS, UTF-16): ``resize`` repeats them over the width.
        matrix[:] = np.resize(np.frombuffer(page.blank, np.uint8), width)
        if original is None:
            return _Written(matrix, extent)
        original.copy_to(matrix)
        return _Written(matrix, np.where(original.present, original.lengths, extent))

    def _check_shared(
        self,
        shape: tuple[int, ...],
        items: list[PlacedItem],
        columns: Mapping[str, pa.Array],
        changed: Mapping[str, Mask] | None,
    ) -> None:
        """Raise EncodeError if an item is NULL and no item that redefines its bytes has a value.

        ``shape`` is the number of records and their width. ``changed`` has for each column a mask
        of the rows whose value differs from the original bytes; None if there are no original
        bytes.
        """
        shared = [item for item in items if item.field in self._shared]
        unwritten = {item: self._unwritten(item, columns, changed, shape[0]) for item in shared}
        if not any(rows.any() for rows in unwritten.values()):
            return
        written = np.zeros(shape, bool)
        for item in shared:
            rows_written = np.flatnonzero(_both(~unwritten[item], item.active))
            # Mark the bytes that any of the items sharing them has written.
            written[rows_written[:, None], _bytes_at(item, rows_written)] = True
        for item in shared:
            rows = np.flatnonzero(_both(unwritten[item], item.active))
            # Records in which no byte of the item was written by another item.
            lone = ~written[rows[:, None], _bytes_at(item, rows)].any(axis=1)
            if lone.any() and not self._is_blank(item.field):
                problem = "NULL cannot be written, and no other item of the same bytes has a value"
                where = Where(record=int(rows[np.argmax(lone)]) + 1, field=item.name)
                raise EncodeError(problem, where=where)

    def _unwritten(
        self,
        item: PlacedItem,
        columns: Mapping[str, pa.Array],
        changed: Mapping[str, Mask] | None,
        rows: int,
    ) -> Mask:
        """Return a mask of the records in which the item is not written.

        It has no column, or is NULL and no policy states how to write NULL. If original bytes are
        kept (``changed`` is not None), these count as written.
        """
        if item.name not in columns:
            return np.full(rows, changed is None)
        if not self._leaves_null(item.field):
            return np.zeros(rows, bool)
        nulls: Mask = columns[item.name].is_null().to_numpy(zero_copy_only=False)
        return nulls if changed is None else nulls & changed[item.name]

    def _is_blank(self, field: CopybookField) -> bool:
        """Return True if blanks are read as NULL in this field, so that NULL can be written as blanks."""
        return self.options.values.blank is BlankPolicy.NULL and field.usage in _BLANKS

    def _leaves_null(self, field: CopybookField) -> bool:
        """Return True if NULL is allowed in this field because another item may write the same bytes."""
        policy = self._nulls.get(field.usage, NullAs.ERROR)
        return field in self._shared and policy is NullAs.ERROR

    def _check_names(self, columns: Mapping[str, pa.Array]) -> None:
        """Raise EncodeError if a column to write is not an item of the layout."""
        known = frozenset(self._names)
        for name in (name for name in columns if name not in known):
            hint = did_you_mean(name, self._names) or "Drop the column"
            problem = f"the copybook has no item for the column {name}"
            raise EncodeError(problem, where=Where(table=self.layout.name), hint=hint)

    def _write(
        self, written: _Written, item: PlacedItem, values: pa.Array, changed: Mask | None
    ) -> None:
        """Encode an item's values, and write them into the records that contain it.

        With original bytes, ``changed`` selects the rows whose value differs from them, and only these
        are written. Otherwise it is None.
        """
        active, count = item.active, len(written.matrix)
        if changed is not None:
            active = _both(changed, active)
        if self._leaves_null(item.field) and values.null_count:
            active = _both(values.is_valid().to_numpy(zero_copy_only=False), active)
        rows = np.arange(count) if active is None else np.flatnonzero(active)
        # No record has the item.
        if not len(rows) and count:
            return  # but an empty batch is encoded below, to check the column's type
        if active is not None:
            values = values.filter(pa.array(active))
        try:
            encoded = self._encoder_of(item.field)(values)
        except OptionError as error:
            raise error.with_place(field=item.name) from None
        except EncodeError as error:
            record = error.where.record
            if record is not None:
                where = Where(record=int(rows[record]) + 1, field=item.name)
                raise EncodeError(error.problem, where=where, hint=error.hint) from None
            raise error.with_place(field=item.name) from None
        except pa.ArrowException as error:
            raise _unfit(values, item.name, error) from None
        written.put(item, rows, encoded)

    def _encoder_of(self, field: CopybookField) -> Encoder:
        if field not in self._encoders:
            values = self.options.values
            encode = encoder(field, values)
            policy = self._nulls.get(field.usage, NullAs.ERROR)
            if policy is not NullAs.ERROR:
                encode = with_nulls(field, encode, policy, values)
            self._encoders[field] = encode
        return self._encoders[field]


class _Written:
    """Records being encoded, as the rows of a byte matrix, and their lengths (``extent``)."""

    def __init__(self, matrix: Octets, extent: int | Longs) -> None:
        self.matrix, self.extent = matrix, extent

    def put(self, item: PlacedItem, rows: Longs, encoded: Octets) -> None:
        """Write an item's bytes into these rows. Records that end earlier are lengthened."""
        at = _bytes_at(item, rows)
        self.matrix[rows[:, None], at] = encoded
        # A record of ``_raw`` that ended before the item becomes longer.
        if not isinstance(self.extent, int):
            self.extent[rows] = np.maximum(self.extent[rows], at[:, -1] + 1)

    def cut(self) -> RecordBytes:
        """Cut the rows to their lengths, and return them as contiguous records."""
        count, width = self.matrix.shape
        if isinstance(self.extent, int):
            starts = np.arange(count, dtype=np.int64) * self.extent
            data = np.ascontiguousarray(self.matrix[:, : self.extent]).reshape(-1)
            return RecordBytes(data, starts, starts + self.extent, step=self.extent)
        # Example: extents 2 and 3 in rows of 4 bytes, AB.. and CDE.: the mask is 1100 1110, and selects
        # ABCDE with ends = 2 5.
        ends = np.cumsum(np.broadcast_to(self.extent, count))
        # Selects the first ``extent`` bytes of each row; numpy returns them row by row.
        inside = np.arange(width) < np.broadcast_to(self.extent, count)[:, None]
        return RecordBytes(self.matrix[inside], ends - self.extent, ends)


def _both(rows: Mask, others: Mask | None) -> Mask:
    return rows if others is None else rows & others


def _bytes_at(item: PlacedItem, rows: Longs) -> Longs:
    """Return the offset of each byte of an item, with one row per record.

    If the item has the same offset in all records, only one row is returned.
    """
    at = item.offset if isinstance(item.offset, int) else item.offset[rows]
    # Example: an item of 2 bytes at 5 in one record and at 7 in the next: [[5, 6], [7, 8]].
    offsets: Longs = np.reshape(at, (-1, 1)) + np.arange(item.field.size)
    return offsets


def _overlaid(root: CopybookField) -> frozenset[CopybookField]:
    """Return the fields that share their bytes with another field (REDEFINES)."""
    shared: set[CopybookField] = set()
    for group in root.walk():
        shown_again = {child.redefines.upper() for child in group.children if child.redefines}
        for child in group.children:
            if child.redefines or child.name.upper() in shown_again:
                shared.update(child.walk())
    return frozenset(shared)


def _counter_columns(root: ItemNode, layout: CopybookLayout) -> frozenset[str]:
    """Return the names of the flat columns that are OCCURS counters."""
    keys = counter_keys(layout)
    return frozenset(
        item.name for item in columns_below(root) if find_counter_key(keys, item.field, item.groups)
    )


def _unfit(values: pa.Array, name: str, error: pa.ArrowException) -> EncodeError:
    """Return the error for a column that Arrow cannot convert to the type of its item."""
    reason = str(error).partition("\n")[0]
    problem = f"{values.type} values do not fit the item: {reason}"
    hint = "read_records(...).schema is the schema that the columns need"
    return EncodeError(problem, where=Where(field=name), hint=hint)


def _count(
    columns: Mapping[str, pa.Array], item: PlacedItem, stated: Mapping[str, Mapping[str, int]]
) -> CounterValues:
    """Return the counts in a counter's column. ``stated`` is the option countMap, which maps values to counts."""
    values = columns.get(item.name)
    if values is None:
        raise EncodeError("no column for a counter", where=Where(field=item.name))
    table = stated.get(item.field.name.upper())
    if table is not None:
        values = counts_of(values, table)
        if values.null_count:
            row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
            where = Where(record=row + 1, field=item.name)
            raise EncodeError("a value that the option countMap does not contain", where=where)
    try:
        counts = pc.cast(values, pa.int64()).fill_null(0)
    except pa.ArrowException as error:
        raise _unfit(values, item.name, error) from None
    return CounterValues(counts.to_numpy(zero_copy_only=False))
