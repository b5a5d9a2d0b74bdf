"""Decode records into columns by a layout.

A ``RecordDecoder`` chooses the codecs of a layout's fields once. For each chunk of records it
computes the offset of each item in each record, copies all items with the same format (``_kind``)
into one byte matrix, decodes the matrix at once, and builds columns, or structs and lists. A field
whose bytes are not a value either stops the run, or becomes NULL with its error in the column
``_errors``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as member
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask, Octets
from trailgate.cobol.copybook.items import (
    UNPLACED,
    BadCount,
    CounterKey,
    CounterValues,
    PlacedItem,
    PlacedItems,
    column_names,
    columns_below,
    counter_key,
    counter_keys,
    find_counter_key,
    place_items,
)
from trailgate.cobol.copybook.layouts import CopybookField, CopybookLayout, Occurs, Usage
from trailgate.cobol.records.added_columns import RAW_COLUMN, make_added_columns
from trailgate.cobol.records.described import describe_flat, describe_tree
from trailgate.cobol.records.fields import (
    CUT_OFF,
    CUT_REDEFINED,
    ChunkFindings,
    FaultyRecords,
    FieldFault,
    PolicyCounts,
    PolicyTally,
    RecordBytes,
    copy_alike,
    copy_items,
    copy_short_items,
    count_bytes_present,
    error_column,
    find_cut_records,
    find_padded_rows,
    first_error,
    matrix_of,
    record_members,
    records_of_length,
    trailing_fault,
)
from trailgate.cobol.records.indicators import Indicator, find_indicators
from trailgate.cobol.values.codec import (
    BlankPolicy,
    Classify,
    DecodedColumn,
    Decoder,
    Explain,
    FaultExplanation,
    FaultReason,
    IntegerRepresentation,
    NumberRepresentation,
    ValueOptions,
)
from trailgate.cobol.values.codecs import decoder, explainer
from trailgate.cobol.values.reasons import classifier
from trailgate.cobol.values.text import page_for_errors
from trailgate.columnar.code_pages import code_page, mask_as_null
from trailgate.errors import DecodeError, DefinitionError, OptionError, Where, did_you_mean

ERRORS_COLUMN = "_errors"
# A chunk of records should fit the cache, yet be large enough that the cost of calling Arrow and
# numpy does not matter; 3 MB was fastest for records of 27 to 1,300 bytes.
CHUNK_BYTES: Final = 3 << 20
CHUNK_ROWS: Final = (1 << 10, 1 << 14)
# Masks of the records that have an item, and of the padded ones among them; None: all, and none.
Presence = tuple[Mask | None, Mask | None]
NO_MASKS: Final[Presence] = (None, None)
LARGE_BYTES: Final = 64 << 20  # limits chunks of very long records, below the minimum of rows

# Text usages; usages whose codec depends on the picture; numbers that are printed characters; and
# numbers that can be blank.
_TEXTS: Final = (Usage.TEXT, Usage.NATIONAL, Usage.UTF8, Usage.DBCS)
_PICTURED: Final = (
    *(Usage.EDITED, Usage.NATIONAL_EDITED),
    *(Usage.FLOAT_TEXT, Usage.NATIONAL_FLOAT),
)  # whose codecs depend on the picture
_PRINTED: Final = (Usage.ZONED, Usage.NATIONAL_DIGITS, *_PICTURED)
_BLANKED: Final = (*_PRINTED, Usage.PACKED)


class ColumnShape(Enum):
    """How groups and OCCURS are represented in columns."""

    FLAT = "flat"  # one column per elementary item
    TREE = "tree"  # structs and lists


class DependingLength(Enum):
    """How many elements an OCCURS DEPENDING ON has in the record's bytes."""

    MOST = "most"  # always the maximum
    REAL = "real"  # as many as the counter states: the items after it move


class BadFieldPolicy(Enum):
    """What to do with a field whose bytes are not a value."""

    STOP = "stop"
    COLUMN = "column"  # NULL, with its error in the column _errors


class TrailingBytesPolicy(Enum):
    """What to do with trailing bytes after the last item of the layout."""

    ERROR = "error"
    DROP = "drop"
    PADDING = "padding"  # drop blanks and low-values; other bytes are errors


class ShortRecordPolicy(Enum):
    """What to do with items that are missing, or cut, because the record ends early."""

    ERROR = "error"
    PAD = "pad"  # missing bytes count as blanks; a binary number counts as a blank number
    NULL = "null"  # NULL, but text that is cut keeps its first characters


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """How records become columns.

    - ``columns`` are names of columns or groups to read; None means all.
    - ``added`` are names of extra columns that are not in the copybook (except the raw bytes).
    - ``indicators`` maps items to the items that state whether they are NULL.
    - ``counts`` maps values of a counter to numbers, by the counter's name in capitals.
    """

    values: ValueOptions = member(default_factory=ValueOptions)
    shape: ColumnShape = ColumnShape.FLAT
    depending: DependingLength = DependingLength.MOST
    columns: tuple[str, ...] | None = None
    errors: BadFieldPolicy = BadFieldPolicy.STOP
    raw: bool = False
    surplus: TrailingBytesPolicy = TrailingBytesPolicy.ERROR
    short: ShortRecordPolicy = ShortRecordPolicy.ERROR
    added: tuple[str, ...] = ()
    renamed: Mapping[str, str] = member(default_factory=dict)
    indicators: Mapping[str, str] = member(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = member(default_factory=dict)

    @property
    def all_added(self) -> tuple[str, ...]:
        """The names of all columns that are not in the copybook, except the column of errors."""
        return (RAW_COLUMN, *self.added) if self.raw else self.added

    def names(self, layout: CopybookLayout) -> tuple[str, ...]:
        """Return the names of a layout's flat columns, after ``renamed``.

        Raises OptionError if two columns get the same name.
        """
        if not self.renamed:
            return column_names(layout)
        new = {old.upper(): name for old, name in self.renamed.items()}
        names = tuple(new.get(name.upper(), name) for name in column_names(layout))
        if len({name.upper() for name in names}) < len(names):
            raise OptionError(f"rename: two columns of {layout.name} have the same name")
        return names


class RecordDecoder:
    """Decodes the records of one layout. It is created once and used for any number of records.

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
        self._even_end, self._varies = _even_end(self._alike), layout.varies
        find_indicators(self._placed, self.options.indicators)  # only to raise errors early
        self._decoders: dict[CopybookField, tuple[Decoder, Explain, Classify]] = {}
        for item in columns_below(self._placed.root):
            if item.name in self._wanted:
                self._decoder_of(item.field)
        keys = counter_keys(layout)
        counted = (
            item.field
            for item in columns_below(self._placed.root)
            if find_counter_key(keys, item.field, item.groups)
        )
        self._counters = {field: _counter(field, self.options) for field in set(counted)}

    def of_file(self, _: str) -> RecordDecoder:
        """Return the decoder for one file: this one, as it is the same for all files."""
        return self

    def whole(self, chunks: Iterable[RecordBytes]) -> Iterable[RecordBytes]:
        """Return chunks that can be decoded independently: all, as records do not depend on each other."""
        return chunks

    def piece_end(self, records: RecordBytes, row: int) -> int:
        """Return a row, at least ``row``, after which the records can be split: any row."""
        return min(row, len(records))

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of all batches. Each field's metadata describes its item in the copybook."""
        plain = self.decode(records_of_length(b"", self.layout.size or 1)).schema
        if self.options.shape is ColumnShape.FLAT:
            return describe_flat(plain, self._placed.root)
        return describe_tree(plain, self._placed.root, self._wanted)

    def decode(self, records: RecordBytes) -> pa.RecordBatch:
        """Decode all records into one batch. Raises DecodeError if a bad field stops the run."""
        batches_ = list(self.batches(records))
        if len(batches_) > 1:
            batches_ = pa.Table.from_batches(batches_).combine_chunks().to_batches()
        if len(batches_) > 1:
            raise DecodeError("more than 2 GB of text in one batch", hint="Read it in batches")
        return batches_[0]

    def batches(self, records: RecordBytes) -> Iterator[pa.RecordBatch]:
        """Decode records in chunks. Yields at least one batch, which may be empty."""
        rows = _rows_of(max(self.layout.size, 1))
        for begin in range(0, max(len(records), 1), rows):
            yield self._batch(records.part(begin, begin + rows))

    def faults(self, records: RecordBytes) -> Iterator[FaultyRecords]:
        """Yield chunks of records, each with the problems that decoding it finds.

        Also counts the records to which an option for short records applied, as decoding does.
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
        """Return the placed items, the wanted columns, and the problems found in them."""
        findings, placed = ChunkFindings(len(records)), self._placed
        if self.layout.varies:
            placed = self._with_counts(records, findings)
        self._check_surplus(records, placed, findings)
        return placed, self._columns(records, placed, findings), findings

    def _count_short(self, findings: ChunkFindings) -> None:
        """Add the counts of this chunk, including its short records, to the tally."""
        self._count_rows(findings, f"short={self.options.short.value}", findings.short)
        self.tally.update(findings.tally)

    def _batch(self, records: RecordBytes) -> pa.RecordBatch:
        """Decode one chunk into a batch. Raises DecodeError if a bad field stops the run."""
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
                self._count_rows(findings, "errors=column", fault.rows, fault.field)
        self._count_short(findings)
        added = self.options.all_added
        pairs += zip(added, make_added_columns(added, records), strict=True)
        return pa.RecordBatch.from_arrays([c for _, c in pairs], [name for name, _ in pairs])

    def _check_surplus(
        self, records: RecordBytes, placed: PlacedItems, findings: ChunkFindings
    ) -> None:
        """Report records with trailing bytes, or count those whose trailing bytes are dropped."""
        policy = self.options.surplus
        longer = trailing_fault(records, placed.extent, placed.known, self.layout.name)
        if longer is None:
            return
        dropped = longer.rows
        if policy is TrailingBytesPolicy.ERROR:
            dropped = np.zeros(len(records), bool)
        elif policy is TrailingBytesPolicy.PADDING:
            page = code_page(self.options.values.dialect.code_page)
            dropped = find_padded_rows(records, longer, page)
        findings.faults.append(replace(longer, rows=longer.rows & ~dropped))
        self._count_rows(findings, f"surplus={policy.value}", dropped)

    def _count_rows(self, findings: ChunkFindings, policy: str, rows: Mask, item: str = "") -> None:
        """Add the number of selected rows to the count of an option."""
        count = int(np.count_nonzero(rows))
        if count:
            findings.tally[policy, self.layout.name, item] += count

    def _with_counts(self, records: RecordBytes, findings: ChunkFindings) -> PlacedItems:
        """Place the items by the records' own counters, and report bad counters of wanted items.

        A counter that cannot be read affects only the items that depend on it.
        """
        counters: dict[CounterKey | None, ChunkFindings] = {}
        keys = counter_keys(self.layout)
        real = self.options.depending is DependingLength.REAL
        placed = place_items(
            self.layout,
            self._names,
            lambda item: self._count(
                records,
                item,
                counters.setdefault(
                    find_counter_key(keys, item.field, item.groups), ChunkFindings(len(records))
                ),
            ),
            real=real,
        )
        wanted = [item for item in columns_below(placed.root) if item.name in self._wanted]
        # Only counters on which wanted items depend are reported.
        depends = frozenset[Occurs]().union(*{item.depends for item in wanted})
        for key in {counter_key(occurs) for occurs in depends if occurs.counter}:
            findings.faults.extend(counters[key].faults)
            findings.tally.update(counters[key].tally)
        faults = findings.faults
        bad_counts = [bad for bad in placed.bad_counts if bad.field.occurs in depends]
        faults += [_count_fault(bad) for bad in bad_counts]
        if bad_counts and self.options.errors is BadFieldPolicy.COLUMN:
            faults += [_uncounted_fault(bad) for bad in bad_counts]
            faults += [
                _lost_fault(item, occurs, rows)
                for item in wanted
                for occurs, rows in item.lost.items()
                if rows is not None
            ]
        return placed

    def _columns(
        self, records: RecordBytes, placed: PlacedItems, findings: ChunkFindings
    ) -> Mapping[PlacedItem, pa.Array]:
        """Decode each wanted item, in the layout's order."""
        alike = self._alike if placed is self._placed else self._group(placed)
        columns: dict[PlacedItem, pa.Array] = {}
        indicators = find_indicators(placed, self.options.indicators)
        for kind, members in alike.items():
            # Records may have thousands of columns, so one comparison for all of them comes first.
            if placed is self._placed and not indicators and self._is_complete(records):
                presence = [NO_MASKS] * len(members)
            else:
                presence = [
                    self._not_null(records, item, findings, indicators.get(item))
                    for item in members
                ]
            columns.update(self._decode_alike(records, kind, members, presence, findings))
        return {item: columns[item] for item in columns_below(placed.root) if item in columns}

    def _is_complete(self, records: RecordBytes) -> bool:
        """Return whether every record has every wanted item, at the same offset."""
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
        """Decode all values of items of one format in one call: the first item's of all records, then the second's."""
        rows, decode = len(records), self._decoder_of(item)[0]
        # An empty matrix is decoded too, as the column's type is needed.
        if not rows:
            return decode(np.zeros((0, item.size), np.uint8))
        # A single item that all records have: decode it where it is, without copying.
        if len(members) == 1 and presence[0][0] is None:
            return decode(matrix_of(records, members[0]))
        matrix = np.zeros((rows * len(members), item.size), np.uint8)
        if any(mask is not None for mask, _ in presence) or not copy_alike(
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
        """Decode all items of one format from one matrix: rows of the first item, then of the second, ...

        ``presence`` has two masks for each item: the records that have it, and the records that
        have only a part of it and are padded. Problems are added to ``findings``.
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
                findings.faults.append(_short_fault(item, bad & short))
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
                self._count_rows(findings, policy, noted_rows, item.name)
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
                copy_short_items(records, item, short, self._fill(item.field), part)

    def _not_null(
        self,
        records: RecordBytes,
        item: PlacedItem,
        findings: ChunkFindings,
        indicator: Indicator | None,
    ) -> Presence:
        """Like ``_present``, but without the records whose indicator states that the item is NULL."""
        usable, filled = self._present(records, item, findings)
        if indicator is None:
            return usable, filled
        present = ~indicator.absent(records, findings.faults)
        return (
            present if usable is None else usable & present,
            None if filled is None else filled & present,
        )

    def _present(self, records: RecordBytes, item: PlacedItem, findings: ChunkFindings) -> Presence:
        """Return a mask of the records that have a value for the item (None: all), and those to be padded.

        Other records are reported as too short. For example, with ``short=pad`` text that a record
        cuts is padded with blanks.
        """
        policy = self.options.short
        short = None if policy is ShortRecordPolicy.ERROR else find_cut_records(records, item)
        if short is None:
            return _usable(records, item, findings.faults), None
        if item.active is not None:
            short &= item.active
        size = count_bytes_present(records, item)
        # Records without any byte of the item, and records with some.
        missing, part = short & (size <= 0), short & (size > 0)
        usage, blank = item.field.usage, self.options.values.blank
        text = usage in _TEXTS
        # A record that ends inside a multi-byte character is not padded.
        filled = part & (size % len(self._fill(item.field)) == 0)
        # Only text and printed numbers can be padded. With short=null a cut number is NULL.
        if not text and (policy is ShortRecordPolicy.NULL or usage not in _PRINTED):
            filled[:] = False
        nulls = missing
        if policy is ShortRecordPolicy.PAD and (
            text or usage in _BLANKED or blank is BlankPolicy.ZERO
        ):
            filled, nulls = filled | missing, np.zeros_like(missing)
        elif policy is ShortRecordPolicy.PAD and blank is BlankPolicy.ERROR:
            nulls = np.zeros_like(missing)
        findings.short |= filled | nulls
        findings.faults.append(_short_fault(item, short & ~filled & ~nulls))
        usable = ~short | filled
        if item.active is not None:
            usable &= item.active
        return usable, filled

    def _fill(self, field: CopybookField) -> bytes:
        """Return the padding of a field: its blank, or a zero byte for binary numbers."""
        if field.usage in (*_TEXTS, *_BLANKED):
            return page_for_errors(field, self.options.values).blank
        return b"\0"

    def _count(
        self, records: RecordBytes, item: PlacedItem, findings: ChunkFindings
    ) -> CounterValues:
        """Read a counter in all records. Problems are added to ``findings``.

        If the counter is also a wanted column, its own problems are reported there, and not twice.
        """
        wanted = item.name in self._wanted
        absent = None
        if self.options.short is not ShortRecordPolicy.ERROR:
            # A record that ends before the counter has no elements.
            absent = count_bytes_present(records, item) <= 0
        usable = _usable(records, item, [] if wanted else findings.faults, absent)
        matrix = np.zeros((len(records), item.field.size), np.uint8)
        if len(records):
            copy_items(records, item, usable, matrix)
        decoded = self._counters[item.field](matrix)
        unread = decoded.values.is_null().to_numpy(zero_copy_only=False)
        # Bad counters that are not reported as part of a wanted column.
        new = unread if usable is None else unread & usable
        if wanted and decoded.bad is not None:
            new = new & ~decoded.bad
        if new.any():
            values, field = self.options.values, item.field
            page, explain = page_for_errors(field, values), explainer(field, values)
            if field.name.upper() in self.options.counts:
                explain = _explain_uncounted
            why = classifier(field, values)
            fault = FieldFault(
                field=item.name,
                size=field.size,
                at=item.offset,
                rows=new,
                explain=explain,
                why=why,
                page=page,
            )
            findings.faults.append(fault)
        for policy, noted in () if wanted else decoded.notes:
            noted_rows = noted if usable is None else noted & usable
            self._count_rows(findings, policy, noted_rows, item.name)
        if usable is not None:
            unread = unread | ~usable
        if absent is not None:
            unread = unread & ~absent
        return CounterValues(decoded.values.fill_null(0).to_numpy(zero_copy_only=False), unread)

    def _decoder_of(self, field: CopybookField) -> tuple[Decoder, Explain, Classify]:
        """Return the decoder, explainer and classifier of a field's format, which are made once."""
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
    """Return the offset after the last item, or None if records may lack an item or have it at another offset."""
    end = 0
    for item in (item for members in alike.values() for item in members):
        if item.active is not None or not isinstance(item.offset, int):
            return None
        end = max(end, item.offset + item.field.size)
    return end


def _rows_of(size: int) -> int:
    """Return how many records of this size to decode at once."""
    least, most = CHUNK_ROWS
    least = max(min(least, LARGE_BYTES // size), 1)
    return min(max(CHUNK_BYTES // size, least), most)


def counts_of(values: pa.Array, counts: Mapping[str, int]) -> pa.Array:
    """Map the values of a counter to counts. Unknown values become NULL."""
    texts = pc.utf8_trim(pc.cast(values, pa.string()), " ")
    codes = pc.index_in(texts, pa.array(list(counts), pa.string()))
    return pa.array(list(counts.values()), pa.int64()).take(codes)


def _explain_uncounted(_: bytes) -> FaultExplanation:
    return FaultExplanation("a value that the option countMap does not contain")


def _counter(field: CopybookField, options: RecordOptions) -> Decoder:
    """Return the decoder of a counter field: a whole number, or values that stand for one (countMap)."""
    as_integer = replace(
        options.values, integers=IntegerRepresentation.INT64, numbers=NumberRepresentation.VALUE
    )
    decode = decoder(field, as_integer)
    counts = options.counts.get(field.name.upper())
    if counts is not None:

        def decode_counts(matrix: Octets) -> DecodedColumn:
            decoded = decode(matrix)
            return decoded._replace(values=counts_of(decoded.values, counts))

        return decode_counts
    if not pa.types.is_int64(decode(np.zeros((0, field.size), np.uint8)).values.type):
        problem = "the counter of an OCCURS must be a whole number"
        raise DefinitionError(problem, where=Where(field=field.name))
    return decode


def _kind(field: CopybookField) -> CopybookField:
    """Return a field with only the attributes that its decoding depends on.

    Two fields with equal results are decoded together.
    """
    picture = field.picture if field.usage in _PICTURED else ""
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


def _usable(
    records: RecordBytes, item: PlacedItem, faults: list[FieldFault], absent: Mask | None = None
) -> Mask | None:
    """Return a mask of the records that contain the complete item (None: all).

    The others are added to ``faults``, except those in ``absent``.
    """
    short = find_cut_records(records, item)
    if short is None:
        return item.active
    if item.active is not None:
        short &= item.active
    faults.append(_short_fault(item, short if absent is None else short & ~absent))
    return ~short if item.active is None else item.active & ~short


def _short_fault(item: PlacedItem, rows: Mask) -> FieldFault:
    reason = CUT_REDEFINED if _is_redefined(item) else CUT_OFF
    return FieldFault(
        field=item.name,
        size=item.field.size,
        at=item.offset,
        rows=rows,
        explain=lambda _: reason,
        why=FaultReason.SHORT,
    )


def _is_redefined(item: PlacedItem) -> bool:
    """Return True if a REDEFINES shares bytes with the item or with a group around it."""
    for group, field in pairwise((*item.groups, item.field)):
        # Two fields share bytes if one redefines the other, or both redefine a third.
        base = (field.redefines or field.name).upper()
        for other in group.children:
            if other is field or other.filler:
                continue
            if (other.redefines or "").upper() == base or other.name.upper() == base:
                return True
    return False


def _count_fault(bad: BadCount) -> FieldFault:
    occurs = bad.field.occurs
    assert occurs is not None
    allowed = f"{occurs.least} to {occurs.most}"
    wrong = sorted({int(count) for count in bad.counts[bad.rows & ~bad.unread].tolist()})[:3]
    counts = " or ".join(map(str, wrong))
    reason = FaultExplanation(f"{bad.counter} is {counts}, but the item occurs {allowed} times")
    # A counter that could not be read (``unread``) is reported separately.
    return FieldFault(
        field=bad.field.name,
        size=0,
        at=bad.offset,
        rows=bad.rows & ~bad.unread,
        explain=lambda _: reason,
        why=FaultReason.COUNT,
    )


def _uncounted_fault(bad: BadCount) -> FieldFault:
    reason = FaultExplanation(f"its counter {bad.counter} cannot be read")
    return FieldFault(
        field=bad.field.name,
        size=0,
        at=bad.offset,
        rows=bad.unread,
        explain=lambda _: reason,
        why=FaultReason.UNCOUNTED,
    )


def _lost_fault(item: PlacedItem, occurs: Occurs, rows: Mask) -> FieldFault:
    reason = FaultExplanation(f"its offset depends on {occurs.counter}, which is not a valid count")
    return FieldFault(
        field=item.name,
        size=0,
        at=UNPLACED,
        rows=rows,
        explain=lambda _: reason,
        why=FaultReason.UNCOUNTED,
    )


def _find_columns(placed: PlacedItems, columns: tuple[str, ...] | None) -> frozenset[str]:
    """Return the names of the wanted flat columns. Raises OptionError if a name matches none.

    A column can be selected by its column name, its field's name, or the name of a group around it.
    """
    items = list(columns_below(placed.root))
    if columns is None:
        return frozenset(item.name for item in items)
    asked = {name.upper() for name in columns}
    known = _known_names(items)
    for name in sorted(asked - known):
        where, hint = Where(field=name), did_you_mean(name, known)
        raise OptionError(f"no field {name} in the layout", where=where, hint=hint)
    return frozenset(item.name for item in items if asked & {name.upper() for name in _names(item)})


def names_of_columns(layout: CopybookLayout, options: RecordOptions) -> frozenset[str]:
    """Return all names, in capitals, by which columns of a layout can be selected."""
    return _known_names(list(columns_below(place_items(layout, options.names(layout)).root)))


def _known_names(items: list[PlacedItem]) -> frozenset[str]:
    return frozenset(name.upper() for item in items for name in _names(item))


def _names(item: PlacedItem) -> tuple[str, ...]:
    return (item.name, item.field.name, *(group.name for group in item.groups))
