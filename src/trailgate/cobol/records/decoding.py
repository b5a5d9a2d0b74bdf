"""Decode COBOL records into Arrow columns by a layout.

A ``RecordDecoder`` chooses the codecs of a layout's fields once. For each chunk of records it
computes the offset of each item in each record, copies all items with the same format (``_kind``)
into one byte matrix, decodes the matrix at once, and builds columns, or structs and lists. A field
whose bytes are not a value either stops the run, or becomes NULL with its error in the column
``_errors``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Octets
from trailgate.cobol.copybook.flat_columns import names_of_columns, names_of_item
from trailgate.cobol.copybook.layouts import CopybookField, CopybookLayout
from trailgate.cobol.copybook.placed_items import (
    PlacedItem,
    PlacedItems,
    columns_below,
    place_items,
)
from trailgate.cobol.records.added_columns import make_added_columns
from trailgate.cobol.records.counter_reader import CounterReader
from trailgate.cobol.records.field_faults import (
    ChunkFindings,
    FaultyRecords,
    FieldFault,
    error_column,
    find_padding_after_layout,
    first_error,
    short_fault,
    trailing_fault,
)
from trailgate.cobol.records.indicators import find_indicators
from trailgate.cobol.records.item_metadata import describe_flat, describe_tree
from trailgate.cobol.records.nested_columns import record_members
from trailgate.cobol.records.policy_counts import PolicyCounts, PolicyTally
from trailgate.cobol.records.presence import EVERYWHERE, PICTURED, Presence, PresenceFinder
from trailgate.cobol.records.record_bytes import (
    RecordBytes,
    copy_items,
    copy_items_of_one_size,
    copy_short_items,
    matrix_of,
    records_of_length,
)
from trailgate.cobol.records.record_options import (
    ERRORS_COLUMN,
    BadFieldPolicy,
    ColumnShape,
    RecordOptions,
    TrailingBytesPolicy,
)
from trailgate.cobol.values.code_pages import page_for_errors
from trailgate.cobol.values.codec import (
    Classify,
    DecodedColumn,
    Decoder,
    Explain,
)
from trailgate.cobol.values.codecs import decoder, explainer
from trailgate.cobol.values.reasons import classifier
from trailgate.columnar.code_pages import code_page
from trailgate.columnar.rows import mask_as_null
from trailgate.errors import DecodeError, OptionError, Where, did_you_mean

# A chunk of records should fit the cache, yet be large enough that the cost of calling Arrow and
# numpy does not matter; 3 MB was fastest for records of 27 to 1,300 bytes.
CHUNK_BYTES: Final = 3 << 20
CHUNK_ROWS: Final = (1 << 10, 1 << 14)
LARGE_BYTES: Final = 64 << 20  # limits chunks of very long records, below the minimum of rows


class RecordDecoder:
    """Decodes the records of one layout. A decoder is created once and used for any number of records.

    ``tally`` counts the values to which an option such as ``blank=null`` was applied.
    """

    def __init__(
        self,
        layout: CopybookLayout,
        options: RecordOptions | None = None,
        tally: PolicyCounts | None = None,
    ) -> None:
        self.layout, self.options = layout, options or RecordOptions()
        self.tally: PolicyCounts = PolicyTally() if tally is None else tally
        self._names = self.options.names(layout)
        self._placed = place_items(layout, self._names)
        self._wanted = _find_columns(self._placed, self.options.columns)
        self._alike = self._group(self._placed)
        self._even_end, self._presence = _even_end(self._alike), PresenceFinder(self.options)
        find_indicators(self._placed, self.options.indicators)  # only to raise errors early
        self._decoders: dict[CopybookField, tuple[Decoder, Explain, Classify]] = {}
        for item in columns_below(self._placed.root):
            if item.name in self._wanted:
                # Created now, so that a field that cannot be decoded is an error before any record
                # is read.
                self._decoder_of(item.field)
        self._counters = CounterReader(layout, self.options, self._placed, self._wanted)

    def of_file(self, _: str) -> RecordDecoder:
        """Return this decoder, because it can decode any file."""
        return self

    def independent_pieces(self, chunks: Iterable[RecordBytes]) -> Iterable[RecordBytes]:
        """Return the chunks unchanged, because records of one layout can be decoded independently."""
        return chunks

    def piece_end(self, records: RecordBytes, row: int) -> int:
        """Return the first row, from ``row`` on, at which the records can be split: always ``row`` itself."""
        return min(row, len(records))

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of all decoded batches. Each field's metadata describes its item in the copybook."""
        plain = self.decode(records_of_length(b"", self.layout.size or 1)).schema
        if self.options.shape is ColumnShape.FLAT:
            return describe_flat(plain, self._placed.root)
        return describe_tree(plain, self._placed.root, self._wanted)

    def decode(self, records: RecordBytes) -> pa.RecordBatch:
        """Decode all records of the layout into one batch.

        Raises DecodeError if a bad field stops the run, or if the batch would have more than 2 GB
        of text.
        """
        decoded = list(self.batches(records))
        if len(decoded) > 1:
            decoded = pa.Table.from_batches(decoded).combine_chunks().to_batches()
        if len(decoded) > 1:
            raise DecodeError("more than 2 GB of text in one batch", hint="Read it in batches")
        return decoded[0]

    def batches(self, records: RecordBytes) -> Iterator[pa.RecordBatch]:
        """Decode records of the layout in chunks. Yields at least one batch, which may be empty."""
        rows = _rows_of(max(self.layout.size, 1))
        for begin in range(0, max(len(records), 1), rows):
            yield self._batch(records.part(begin, begin + rows))

    def faults(self, records: RecordBytes) -> Iterator[FaultyRecords]:
        """Yield all records in chunks, each with the problems that decoding finds in it.

        Like decoding, this also counts the records to which an option for short records applied.
        """
        rows = _rows_of(max(self.layout.size, 1))
        for begin in range(0, len(records), rows):
            part = records.part(begin, begin + rows)
            _, _, findings = self._decode_items(part)
            self._count_short(findings)
            faults = [fault for fault in findings.faults if fault.rows.any()]
            yield FaultyRecords(self.layout.name, part, faults)

    def _decode_items(
        self, records: RecordBytes
    ) -> tuple[PlacedItems, Mapping[PlacedItem, pa.Array], ChunkFindings]:
        """Decode one chunk of records.

        Returns the items with their offsets, the wanted columns, and the problems.
        """
        findings, placed = ChunkFindings(len(records)), self._placed
        if self.layout.varies:
            placed = self._counters.place(records, findings)
        self._check_surplus(records, placed, findings)
        return placed, self._columns(records, placed, findings), findings

    def _count_short(self, findings: ChunkFindings) -> None:
        """Add this chunk's counts, including the number of short records, to the tally."""
        findings.count(f"short={self.options.short.value}", self.layout.name, findings.short)
        self.tally.update(findings.tally)

    def _batch(self, records: RecordBytes) -> pa.RecordBatch:
        """Decode one chunk of records into a batch.

        Raises DecodeError if a bad field stops the run.
        """
        placed, columns, findings = self._decode_items(records)
        faults = [fault for fault in findings.faults if fault.rows.any()]
        if faults and self.options.errors is BadFieldPolicy.STOP:
            raise first_error(records, faults, code_page(self.options.values.dialect.code_page))
        if self.options.shape is ColumnShape.FLAT:
            pairs = [(item.name, column) for item, column in columns.items()]
        else:
            pairs = record_members(placed.root, columns, len(records))
        if self.options.errors is BadFieldPolicy.COLUMN:
            pairs.append((ERRORS_COLUMN, error_column(records, faults)))
            for fault in faults:
                findings.count("errors=column", self.layout.name, fault.rows, fault.field)
        self._count_short(findings)
        added = self.options.all_added
        pairs += zip(added, make_added_columns(added, records), strict=True)
        return pa.RecordBatch.from_arrays([c for _, c in pairs], [name for name, _ in pairs])

    def _check_surplus(
        self, records: RecordBytes, placed: PlacedItems, findings: ChunkFindings
    ) -> None:
        """Report records with trailing bytes, or count them if their trailing bytes are dropped."""
        policy = self.options.surplus
        longer = trailing_fault(records, placed.extent, placed.known, self.layout.name)
        if longer is None:
            return
        dropped = longer.rows
        if policy is TrailingBytesPolicy.ERROR:
            dropped = np.zeros(len(records), bool)
        elif policy is TrailingBytesPolicy.PADDING:
            page = code_page(self.options.values.dialect.code_page)
            dropped = find_padding_after_layout(records, longer, page)
        findings.faults.append(replace(longer, rows=longer.rows & ~dropped))
        findings.count(f"surplus={policy.value}", self.layout.name, dropped)

    def _columns(
        self, records: RecordBytes, placed: PlacedItems, findings: ChunkFindings
    ) -> Mapping[PlacedItem, pa.Array]:
        """Decode each wanted item of a chunk of records, in the layout's order."""
        alike = self._alike if placed is self._placed else self._group(placed)
        columns: dict[PlacedItem, pa.Array] = {}
        indicators = find_indicators(placed, self.options.indicators)
        for kind, members in alike.items():
            # Records may have thousands of columns, so one comparison for all of them comes first.
            if placed is self._placed and not indicators and self._is_complete(records):
                presence = [EVERYWHERE] * len(members)
            else:
                presence = [
                    self._presence.find(records, item, findings, indicators.get(item))
                    for item in members
                ]
            columns.update(self._decode_alike(records, kind, members, presence, findings))
        return {item: columns[item] for item in columns_below(placed.root) if item in columns}

    def _is_complete(self, records: RecordBytes) -> bool:
        """Return whether every wanted item is in every record, at the same offset."""
        return (
            self._even_end is not None
            and records.step is not None
            and self._even_end <= records.step
        )

    def _group(self, placed: PlacedItems) -> dict[CopybookField, list[PlacedItem]]:
        """Group the wanted items by format, so that items of one format are decoded together."""
        alike: dict[CopybookField, list[PlacedItem]] = {}
        for item in columns_below(placed.root):
            if item.name in self._wanted:
                alike.setdefault(_kind(item.field), []).append(item)
        return alike

    def _decode_column_major(
        self,
        records: RecordBytes,
        item: CopybookField,
        members: list[PlacedItem],
        presence: list[Presence],
    ) -> DecodedColumn:
        """Decode the values of several COBOL items of one format in one call.

        The values of the first item come first, then those of the second.
        """
        rows, decode = len(records), self._decoder_of(item)[0]
        # An empty matrix is decoded too, as the column's type is needed.
        if not rows:
            return decode(np.zeros((0, item.size), np.uint8))
        # A single item that all records have: decode it where it is, without copying.
        if len(members) == 1 and presence[0].present is None:
            return decode(matrix_of(records, members[0]))
        matrix = np.zeros((rows * len(members), item.size), np.uint8)
        if any(mask is not None for mask, _ in presence) or not copy_items_of_one_size(
            records, members, matrix
        ):
            self._copy_each(records, members, presence, matrix)
        return decode(matrix)

    def _decode_alike(
        self,
        records: RecordBytes,
        kind: CopybookField,
        members: list[PlacedItem],
        presence: list[Presence],
        findings: ChunkFindings,
    ) -> Iterator[tuple[PlacedItem, pa.Array]]:
        """Decode all items of one format from one matrix, and yield the column of each.

        The matrix has the values of the first item in all records, then those of the second, and so
        on.

        ``presence`` has two masks for each item: the records that contain it, and the records that
        contain only a part of it, which is padded. Problems are added to ``findings``.
        """
        _, explain, classify = self._decoder_of(kind)
        rows, decoded = len(records), self._decode_column_major(records, kind, members, presence)
        if decoded.bad is None and not decoded.notes and all(mask is None for mask, _ in presence):
            for index, item in enumerate(members):
                yield item, decoded.values.slice(index * rows, rows)
            return
        for index, (item, (mask, short)) in enumerate(zip(members, presence, strict=True)):
            # Each item has its own block of rows in the matrix.
            cut = slice(index * rows, (index + 1) * rows)
            values = decoded.values[cut] if len(members) > 1 else decoded.values
            bad = None if decoded.bad is None else decoded.bad[cut]
            if mask is not None:
                bad = None if bad is None else bad & mask
                values = mask_as_null(values, ~mask)
            # A padded field that is still bad is reported as too short, not as bad bytes.
            if bad is not None and short is not None:
                findings.faults.append(short_fault(item, bad & short))
                bad = bad & ~short
            if bad is not None and bad.any():
                page = page_for_errors(item.field, self.options.values)
                fault = FieldFault(
                    field=item.name,
                    size=kind.size,
                    at=item.offset,
                    rows=bad,
                    explain=explain,
                    why=classify,
                    page=page,
                )
                findings.faults.append(fault)
            for policy, noted in decoded.notes:
                noted_rows = noted[cut] if mask is None else noted[cut] & mask
                findings.count(policy, self.layout.name, noted_rows, item.name)
            yield item, values

    def _copy_each(
        self,
        records: RecordBytes,
        members: list[PlacedItem],
        presence: list[Presence],
        matrix: Octets,
    ) -> None:
        """Copy the bytes of each item into its rows of the matrix, and pad the rows of short records."""
        rows = len(records)
        for index, (item, (mask, short)) in enumerate(zip(members, presence, strict=True)):
            part = matrix[index * rows : (index + 1) * rows]
            complete = mask if mask is None or short is None else mask & ~short
            copy_items(records, item, complete, part)
            if short is not None:
                copy_short_items(records, item, short, self._presence.fill(item.field), part)

    def _decoder_of(self, field: CopybookField) -> tuple[Decoder, Explain, Classify]:
        """Return the decoder, explainer and classifier of a field's format.

        They are created once per format.
        """
        kind = _kind(field)
        if kind not in self._decoders:
            # The field itself is bound, so that an error names it.
            values = self.options.values
            try:
                bound = decoder(field, values), explainer(field, values), classifier(field, values)
            except OptionError as error:
                raise error.with_place(field=field.name) from None
            self._decoders[kind] = bound
        return self._decoders[kind]


def _even_end(alike: Mapping[CopybookField, list[PlacedItem]]) -> int | None:
    """Return the offset after the last wanted item.

    Returns None if some records may lack an item, or have it at a different offset.
    """
    end = 0
    for item in (item for members in alike.values() for item in members):
        if item.active is not None or not isinstance(item.offset, int):
            return None
        end = max(end, item.offset + item.field.size)
    return end


def _rows_of(size: int) -> int:
    """Return how many records of this size to decode at once."""
    least, most = CHUNK_ROWS
    # At least some rows, since each chunk has a fixed cost, but fewer if records are very large.
    least = max(min(least, LARGE_BYTES // size), 1)
    return min(max(CHUNK_BYTES // size, least), most)


def _kind(field: CopybookField) -> CopybookField:
    """Return a copy of the field with only the attributes that affect decoding.

    Fields with equal copies are decoded together.
    """
    picture = field.picture if field.usage in PICTURED else ""
    return CopybookField(
        "",
        field.usage,
        0,
        field.size,
        picture=picture,
        number=field.number,
        justified=field.justified,
        blank_when_zero=field.blank_when_zero,
        code_page=field.code_page,
    )


def _find_columns(placed: PlacedItems, columns: tuple[str, ...] | None) -> frozenset[str]:
    """Return the names of the wanted flat columns. Raises OptionError if a name matches none.

    A column can be selected by its column name, its field's name, or the name of a group around it.
    """
    items = list(columns_below(placed.root))
    if columns is None:
        return frozenset(item.name for item in items)
    asked = {name.upper() for name in columns}
    known = names_of_columns(items)
    for name in sorted(asked - known):
        where, hint = Where(field=name), did_you_mean(name, known)
        raise OptionError(f"no field {name} in the layout", where=where, hint=hint)
    return frozenset(
        item.name for item in items if asked & {name.upper() for name in names_of_item(item)}
    )
