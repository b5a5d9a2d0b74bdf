"""Records to columns by a layout: offsets first, then alike fields of all records at once.

A ``RecordDecoder`` chooses the codecs of a layout's fields once. Then, for each chunk of records, it computes where each item is in each record, decodes all items of one codec together as
rows of a matrix, and builds columns, or structs and lists, of them. A field whose bytes are not a value stops the run, or is NULL with its error in a column.
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
    Counts,
    Item,
    PlacedItems,
    column_names,
    columns_below,
    counter_key,
    counter_keys,
    key_among,
    place_items,
)
from trailgate.cobol.copybook.layouts import Field, Layout, Occurs, Usage
from trailgate.cobol.records.added_columns import RAW_COLUMN, added_columns
from trailgate.cobol.records.described import describe_flat, describe_tree
from trailgate.cobol.records.fields import (
    CUT_OFF,
    CUT_REDEFINED,
    Fault,
    FaultyRecords,
    Findings,
    PolicyCounts,
    RecordBytes,
    Tally,
    bytes_present,
    copy_alike,
    copy_items,
    copy_short_items,
    cut_off,
    error_column,
    first_error,
    matrix_of,
    padded_rows,
    record_members,
    records_of_length,
    surplus,
)
from trailgate.cobol.records.indicators import Indicator, find_indicators
from trailgate.cobol.values.codec import (
    Blank,
    Classify,
    Decoded,
    Decoder,
    Explain,
    Integers,
    Numbers,
    Reason,
    ValueOptions,
    Why,
)
from trailgate.cobol.values.codecs import decoder, explainer
from trailgate.cobol.values.reasons import classifier
from trailgate.cobol.values.text import shown_page
from trailgate.columnar.code_pages import code_page, without
from trailgate.errors import DecodeError, DefinitionError, OptionError, Where, did_you_mean

ERRORS_COLUMN = "_errors"
# Records are decoded in chunks whose bytes and columns stay in the cache, but are enough for a
# column's operations to cost more than their calls; 3 MB was fastest for records of 27 to 1,300 bytes.
CHUNK_BYTES: Final = 3 << 20
CHUNK_ROWS: Final = (1 << 10, 1 << 14)
LARGE_BYTES: Final = 64 << 20  # of very long records fewer than the least rows are taken


class Shape(Enum):
    """What columns become of groups and OCCURS."""

    FLAT = "flat"  # a column an elementary item
    TREE = "tree"  # structs and lists


class Depending(Enum):
    """How long an OCCURS DEPENDING ON is."""

    MOST = "most"  # as many elements as there can be
    REAL = "real"  # as many as there are: what follows moves


class OnError(Enum):
    """What becomes of a field whose bytes are not a value."""

    STOP = "stop"
    COLUMN = "column"  # NULL, with its error in the column _errors


class Surplus(Enum):
    """What becomes of the bytes of a record after the last item of its layout."""

    ERROR = "error"
    DROP = "drop"
    PADDING = "padding"  # blanks and low-values are dropped, others are errors


class Short(Enum):
    """What becomes of the items that a record ends before, or inside."""

    ERROR = "error"
    PAD = "pad"  # the bytes that are not there are blanks; a binary number is a blank one
    NULL = "null"  # NULL; text that is there in part is what is there


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """How records become columns; ``columns`` are names of columns or groups, None for all.

    ``added`` are the names of columns that are not of the copybook, but for that of the raw bytes. ``indicators`` are the names of items that state
    whether other ones are NULL. ``counts`` are the counts that values of counters state, by the counter's name in capitals.
    """

    values: ValueOptions = member(default_factory=ValueOptions)
    shape: Shape = Shape.FLAT
    depending: Depending = Depending.MOST
    columns: tuple[str, ...] | None = None
    errors: OnError = OnError.STOP
    raw: bool = False
    surplus: Surplus = Surplus.ERROR
    short: Short = Short.ERROR
    added: tuple[str, ...] = ()
    renamed: Mapping[str, str] = member(default_factory=dict)
    indicators: Mapping[str, str] = member(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = member(default_factory=dict)

    @property
    def all_added(self) -> tuple[str, ...]:
        """Return the names of all columns that are not of the copybook, but for that of errors."""
        return (RAW_COLUMN, *self.added) if self.raw else self.added

    def names(self, layout: Layout) -> tuple[str, ...]:
        """Return the names of a layout's flat columns, those of ``renamed`` instead of their own; raises OptionError for one that is taken."""
        if not self.renamed:
            return column_names(layout)
        new = {old.upper(): name for old, name in self.renamed.items()}
        names = tuple(new.get(name.upper(), name) for name in column_names(layout))
        if len({name.upper() for name in names}) < len(names):
            raise OptionError(f"rename: two columns of {layout.name} have one name")
        return names


class RecordDecoder:
    """Decodes records of one layout; made once, used for any number of records.

    ``tally`` counts what policies decided on in all of them.
    """

    def __init__(
        self,
        layout: Layout,
        options: RecordOptions | None = None,
        tally: PolicyCounts | None = None,
    ) -> None:
        self.layout, self.options = layout, options or RecordOptions()
        self.tally: PolicyCounts = Tally() if tally is None else tally
        self._names = self.options.names(layout)
        self._placed = place_items(layout, self._names)
        self._wanted = _find_columns(self._placed, self.options.columns)
        self._alike = self._group(self._placed)
        self._even_end, self._varies = _even_end(self._alike), layout.varies
        find_indicators(self._placed, self.options.indicators)  # raises
        self._decoders: dict[Field, tuple[Decoder, Explain, Classify]] = {}
        for item in columns_below(self._placed.root):
            if item.name in self._wanted:
                self._decoder_of(item.field)
        keys = counter_keys(layout)
        counted = (
            item.field
            for item in columns_below(self._placed.root)
            if key_among(keys, item.field, item.groups)
        )
        self._counters = {field: _counter(field, self.options) for field in set(counted)}

    def of_file(self, _: str) -> RecordDecoder:
        """Return the decoder of the records of one file, which is the same for all."""
        return self

    def whole(self, chunks: Iterable[RecordBytes]) -> Iterable[RecordBytes]:
        """Return records in pieces that can be decoded apart from each other: as they are."""
        return chunks

    def piece_end(self, records: RecordBytes, row: int) -> int:
        """Return where a piece can end that has the records before ``row`` at least."""
        return min(row, len(records))

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the schema of all batches, with what each field is in the copybook as its metadata."""
        plain = self.decode(records_of_length(b"", self.layout.size or 1)).schema
        if self.options.shape is Shape.FLAT:
            return describe_flat(plain, self._placed.root)
        return describe_tree(plain, self._placed.root, self._wanted)

    def decode(self, records: RecordBytes) -> pa.RecordBatch:
        """Return the columns of all records; raises DecodeError where a field stops the run."""
        found = list(self.batches(records))
        if len(found) > 1:
            found = pa.Table.from_batches(found).combine_chunks().to_batches()
        if len(found) > 1:
            raise DecodeError("more than 2 GB of text in one batch", hint="Take it in batches")
        return found[0]

    def batches(self, records: RecordBytes) -> Iterator[pa.RecordBatch]:
        """Yield the columns of some records after the other; at least one batch, which may be empty."""
        rows = _rows_of(max(self.layout.size, 1))
        for begin in range(0, max(len(records), 1), rows):
            yield self._batch(records.part(begin, begin + rows))

    def faults(self, records: RecordBytes) -> Iterator[FaultyRecords]:
        """Yield some of the records after the other, with what is wrong in them; policies are counted as in decoding."""
        rows = _rows_of(max(self.layout.size, 1))
        for begin in range(0, len(records), rows):
            part = records.part(begin, begin + rows)
            _, _, found = self._found(part)
            self._count_short(found)
            faults = [fault for fault in found.faults if fault.rows.any()]
            yield FaultyRecords(self.layout.name, part, faults)

    def _found(self, records: RecordBytes) -> tuple[PlacedItems, Mapping[Item, pa.Array], Findings]:
        """Return where items are, the wanted columns, and what was found in them."""
        found, placed = Findings(len(records)), self._placed
        if self._varies:
            placed = self._with_counts(records, found)
        self._check_surplus(records, placed, found)
        return placed, self._columns(records, placed, found), found

    def _count_short(self, found: Findings) -> None:
        """Add what was found to the counts, and the records that are short."""
        self._count_rows(found, f"short={self.options.short.value}", found.short)
        self.tally.update(found.tally)

    def _batch(self, records: RecordBytes) -> pa.RecordBatch:
        placed, columns, found = self._found(records)
        faults = [fault for fault in found.faults if fault.rows.any()]
        if faults and self.options.errors is OnError.STOP:
            raise first_error(records, faults, code_page(self.options.values.dialect.code_page))
        if self.options.shape is Shape.FLAT:
            pairs = [(item.name, column) for item, column in columns.items()]
        else:
            pairs = record_members(placed.root, columns, len(records))
        if self.options.errors is OnError.COLUMN:
            pairs.append((ERRORS_COLUMN, error_column(records, faults)))
            for fault in faults:
                self._count_rows(found, "errors=column", fault.rows, fault.field)
        self._count_short(found)
        added = self.options.all_added
        pairs += zip(added, added_columns(added, records), strict=True)
        return pa.RecordBatch.from_arrays([c for _, c in pairs], [name for name, _ in pairs])

    def _check_surplus(self, records: RecordBytes, placed: PlacedItems, found: Findings) -> None:
        """Add the fault of records that continue after their layout, or count those whose rest is dropped."""
        policy = self.options.surplus
        longer = surplus(records, placed.extent, placed.known, self.layout.name)
        if longer is None:
            return
        dropped = longer.rows
        if policy is Surplus.ERROR:
            dropped = np.zeros(len(records), bool)
        elif policy is Surplus.PADDING:
            page = code_page(self.options.values.dialect.code_page)
            dropped = padded_rows(records, longer, page)
        found.faults.append(replace(longer, rows=longer.rows & ~dropped))
        self._count_rows(found, f"surplus={policy.value}", dropped)

    def _count_rows(self, found: Findings, policy: str, rows: Mask, item: str = "") -> None:
        count = int(np.count_nonzero(rows))
        if count:
            found.tally[policy, self.layout.name, item] += count

    def _with_counts(self, records: RecordBytes, found: Findings) -> PlacedItems:
        """Return the items by the records' own counts; adds the findings of the counts that wanted items depend on.

        A counter that cannot be read leaves only what depends on it without a value.
        """
        counters: dict[CounterKey | None, Findings] = {}
        keys = counter_keys(self.layout)
        real = self.options.depending is Depending.REAL
        placed = place_items(
            self.layout,
            self._names,
            lambda item: self._count(
                records,
                item,
                counters.setdefault(
                    key_among(keys, item.field, item.groups), Findings(len(records))
                ),
            ),
            real=real,
        )
        wanted = [item for item in columns_below(placed.root) if item.name in self._wanted]
        depends = frozenset[Occurs]().union(*{item.depends for item in wanted})
        for key in {counter_key(occurs) for occurs in depends if occurs.counter}:
            found.faults.extend(counters[key].faults)
            found.tally.update(counters[key].tally)
        faults = found.faults
        bad_counts = [bad for bad in placed.bad_counts if bad.field.occurs in depends]
        faults += [_count_fault(bad) for bad in bad_counts]
        if bad_counts and self.options.errors is OnError.COLUMN:
            faults += [_uncounted_fault(bad) for bad in bad_counts]
            faults += [
                _lost_fault(item, occurs, rows)
                for item in wanted
                for occurs, rows in item.lost.items()
                if rows is not None
            ]
        return placed

    def _columns(
        self, records: RecordBytes, placed: PlacedItems, found: Findings
    ) -> Mapping[Item, pa.Array]:
        """Return the column of each wanted item in the layout's order, and add the findings."""
        alike = self._alike if placed is self._placed else self._group(placed)
        columns: dict[Item, pa.Array] = {}
        indicators = find_indicators(placed, self.options.indicators)
        for kind, members in alike.items():
            # Records may have thousands of columns, so nothing is asked for each of them that one comparison answers.
            if placed is self._placed and not indicators and self._is_whole(records):
                there = [(None, None)] * len(members)
            else:
                there = [
                    self._not_null(records, item, found, indicators.get(item)) for item in members
                ]
            columns.update(self._decode_alike(records, kind, members, there, found))
        return {item: columns[item] for item in columns_below(placed.root) if item in columns}

    def _is_whole(self, records: RecordBytes) -> bool:
        """Return whether every record has every wanted item, at the same offset."""
        return (
            self._even_end is not None
            and records.step is not None
            and self._even_end <= records.step
        )

    def _group(self, placed: PlacedItems) -> dict[Field, list[Item]]:
        """Return the wanted items by what their decoding depends on."""
        alike: dict[Field, list[Item]] = {}
        for item in columns_below(placed.root):
            if item.name in self._wanted:
                alike.setdefault(_kind(item.field), []).append(item)
        return alike

    def _decode_alike(
        self,
        records: RecordBytes,
        kind: Field,
        members: list[Item],
        there: list[tuple[Mask | None, Mask | None]],
        findings: Findings,
    ) -> Iterator[tuple[Item, pa.Array]]:
        decode, explain, classify = self._decoder_of(kind)
        rows = len(records)
        if not rows:
            found = decode(np.zeros((0, kind.size), np.uint8))
        elif len(members) == 1 and there[0][0] is None:
            found = decode(matrix_of(records, members[0]))
        else:
            matrix = np.zeros((rows * len(members), kind.size), np.uint8)
            if any(mask is not None for mask, _ in there) or not copy_alike(
                records, members, matrix
            ):
                self._copy_each(records, members, there, matrix)
            found = decode(matrix)
        if found.bad is None and not found.notes and all(mask is None for mask, _ in there):
            for index, item in enumerate(members):
                yield item, found.values.slice(index * rows, rows)
            return
        yield from self._checked(kind, members, there, (found, explain, classify), findings)

    def _checked(
        self,
        kind: Field,
        members: list[Item],
        there: list[tuple[Mask | None, Mask | None]],
        decoded: tuple[Decoded, Explain, Classify],
        findings: Findings,
    ) -> Iterator[tuple[Item, pa.Array]]:
        """Yield the column of each item, null in the rows that lack the item; ``decoded`` has one column after the other."""
        found, explain, classify = decoded
        rows = len(found.values) // len(members)
        for index, (item, (mask, short)) in enumerate(zip(members, there, strict=True)):
            cut = slice(index * rows, (index + 1) * rows)
            values = found.values[cut] if len(members) > 1 else found.values
            bad = None if found.bad is None else found.bad[cut]
            if mask is not None:
                bad = None if bad is None else bad & mask
                values = without(values, ~mask)
            if bad is not None and short is not None:
                findings.faults.append(_short_fault(item, bad & short))
                bad = bad & ~short
            if bad is not None and bad.any():
                page = shown_page(item.field, self.options.values)
                fault = Fault(item.name, kind.size, item.offset, bad, explain, classify, page)
                findings.faults.append(fault)
            for policy, noted in found.notes:
                own = noted[cut] if mask is None else noted[cut] & mask
                self._count_rows(findings, policy, own, item.name)
            yield item, values

    def _copy_each(
        self,
        records: RecordBytes,
        members: list[Item],
        there: list[tuple[Mask | None, Mask | None]],
        matrix: Octets,
    ) -> None:
        """Copy the bytes of items into the rows of a matrix, an item after the other; those of records that end early are filled up."""
        rows = len(records)
        for index, (item, (mask, short)) in enumerate(zip(members, there, strict=True)):
            part = matrix[index * rows : (index + 1) * rows]
            whole = mask if mask is None or short is None else mask & ~short
            copy_items(records, item, whole, part)
            if short is not None:
                copy_short_items(records, item, short, self._fill(item.field), part)

    def _not_null(
        self, records: RecordBytes, item: Item, found: Findings, indicator: Indicator | None
    ) -> tuple[Mask | None, Mask | None]:
        """Return what ``_present`` does, without the records in which an indicator states that the item is NULL."""
        usable, filled = self._present(records, item, found)
        if indicator is None:
            return usable, filled
        present = ~indicator.absent(records, found.faults)
        return (
            present if usable is None else usable & present,
            None if filled is None else filled & present,
        )

    def _present(
        self, records: RecordBytes, item: Item, found: Findings
    ) -> tuple[Mask | None, Mask | None]:
        """Return the records whose item has a value, None for all, and those of them whose bytes are filled up; adds a fault for others."""
        policy = self.options.short
        short = None if policy is Short.ERROR else cut_off(records, item)
        if short is None:
            return _usable(records, item, found.faults), None
        if item.active is not None:
            short &= item.active
        size = bytes_present(records, item)
        missing, part = short & (size <= 0), short & (size > 0)
        usage, blank = item.field.usage, self.options.values.blank
        text = usage in _TEXTS
        # Half a character is not filled up.
        filled = part & (size % len(self._fill(item.field)) == 0)
        if not text and (policy is Short.NULL or usage not in _PRINTED):
            filled[:] = False
        nulls = missing
        if policy is Short.PAD and (text or usage in _BLANKED or blank is Blank.ZERO):
            filled, nulls = filled | missing, np.zeros_like(missing)
        elif policy is Short.PAD and blank is Blank.ERROR:
            nulls = np.zeros_like(missing)
        found.short |= filled | nulls
        found.faults.append(_short_fault(item, short & ~filled & ~nulls))
        usable = ~short | filled
        if item.active is not None:
            usable &= item.active
        return usable, filled

    def _fill(self, field: Field) -> bytes:
        """Return what fills up the bytes of a field: its blank, or zeros for a binary number."""
        if field.usage in (*_TEXTS, *_BLANKED):
            return shown_page(field, self.options.values).blank
        return b"\0"

    def _count(self, records: RecordBytes, item: Item, findings: Findings) -> Counts:
        """Return the counts that a counter holds; adds the faults of those that it does not hold, and what policies decided on.

        What the counter has as a wanted column is not added twice.
        """
        wanted = item.name in self._wanted
        absent = None
        if self.options.short is not Short.ERROR:
            absent = (
                bytes_present(records, item) <= 0
            )  # of a record that ends before it: no elements
        usable = _usable(records, item, [] if wanted else findings.faults, absent)
        matrix = np.zeros((len(records), item.field.size), np.uint8)
        if len(records):
            copy_items(records, item, usable, matrix)
        found = self._counters[item.field](matrix)
        unread = found.values.is_null().to_numpy(zero_copy_only=False)
        new = unread if usable is None else unread & usable
        if wanted and found.bad is not None:
            new = new & ~found.bad
        if new.any():
            values, field = self.options.values, item.field
            page, explain = shown_page(field, values), explainer(field, values)
            if field.name.upper() in self.options.counts:
                explain = _explain_uncounted
            why = classifier(field, values)
            fault = Fault(item.name, field.size, item.offset, new, explain, why, page)
            findings.faults.append(fault)
        for policy, noted in () if wanted else found.notes:
            own = noted if usable is None else noted & usable
            self._count_rows(findings, policy, own, item.name)
        if usable is not None:
            unread = unread | ~usable
        if absent is not None:
            unread = unread & ~absent
        return Counts(found.values.fill_null(0).to_numpy(zero_copy_only=False), unread)

    def _decoder_of(self, field: Field) -> tuple[Decoder, Explain, Classify]:
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


def _even_end(alike: Mapping[Field, list[Item]]) -> int | None:
    """Return where the last of some items ends; None if records may lack one, or have it at another offset."""
    end = 0
    for item in (item for members in alike.values() for item in members):
        if item.active is not None or not isinstance(item.offset, int):
            return None
        end = max(end, item.offset + item.field.size)
    return end


def _rows_of(size: int) -> int:
    """Return how many records of a size are decoded at once."""
    least, most = CHUNK_ROWS
    least = max(min(least, LARGE_BYTES // size), 1)
    return min(max(CHUNK_BYTES // size, least), most)


def counts_of(values: pa.Array, counts: Mapping[str, int]) -> pa.Array:
    """Return the counts that values of a counter state; NULL where a value states none."""
    texts = pc.utf8_trim(pc.cast(values, pa.string()), " ")
    found = pc.index_in(texts, pa.array(list(counts), pa.string()))
    return pa.array(list(counts.values()), pa.int64()).take(found)


def _explain_uncounted(_: bytes) -> Reason:
    return Reason("a value that the option countMap has no number for")


def _counter(field: Field, options: RecordOptions) -> Decoder:
    """Return the decoder of a field that holds how often others occur: a whole number, or values that stand for one."""
    whole = replace(options.values, integers=Integers.INT64, numbers=Numbers.VALUE)
    decode = decoder(field, whole)
    counts = options.counts.get(field.name.upper())
    if counts is not None:

        def decode_counts(matrix: Octets) -> Decoded:
            found = decode(matrix)
            return found._replace(values=counts_of(found.values, counts))

        return decode_counts
    if not pa.types.is_int64(decode(np.zeros((0, field.size), np.uint8)).values.type):
        problem = "a field that states how often others occur must be a whole number"
        raise DefinitionError(problem, where=Where(field=field.name))
    return decode


def _kind(field: Field) -> Field:
    """Return a field with only what its decoding depends on: alike fields are equal."""
    picture = field.picture if field.usage in _PICTURED else ""
    return Field(
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


# Text, the numbers that blanks alone are not, and those of them with a byte a digit.
_TEXTS: Final = (Usage.TEXT, Usage.NATIONAL, Usage.UTF8, Usage.DBCS)
_PICTURED: Final = (
    *(Usage.EDITED, Usage.NATIONAL_EDITED),
    *(Usage.FLOAT_TEXT, Usage.NATIONAL_FLOAT),
)  # whose codecs depend on the picture
_PRINTED: Final = (Usage.ZONED, Usage.NATIONAL_DIGITS, *_PICTURED)
_BLANKED: Final = (*_PRINTED, Usage.PACKED)


def _usable(
    records: RecordBytes, item: Item, faults: list[Fault], absent: Mask | None = None
) -> Mask | None:
    """Return the records whose item is there and whole, None for all; adds a fault for others but those that are known to be ``absent``."""
    short = cut_off(records, item)
    if short is None:
        return item.active
    if item.active is not None:
        short &= item.active
    faults.append(_short_fault(item, short if absent is None else short & ~absent))
    return ~short if item.active is None else item.active & ~short


def _short_fault(item: Item, rows: Mask) -> Fault:
    reason = CUT_REDEFINED if _is_redefined(item) else CUT_OFF
    return Fault(item.name, item.field.size, item.offset, rows, lambda _: reason, Why.SHORT)


def _is_redefined(item: Item) -> bool:
    """Return whether other items that are read define bytes of an item, or of a group that it is in."""
    for group, field in pairwise((*item.groups, item.field)):
        base = (field.redefines or field.name).upper()
        for other in group.children:
            if other is field or other.filler:
                continue
            if (other.redefines or "").upper() == base or other.name.upper() == base:
                return True
    return False


def _count_fault(bad: BadCount) -> Fault:
    occurs = bad.field.occurs
    assert occurs is not None
    allowed = f"{occurs.least} to {occurs.most}"
    wrong = sorted({int(count) for count in bad.counts[bad.rows & ~bad.unread].tolist()})[:3]
    counts = " or ".join(map(str, wrong))
    reason = Reason(f"{bad.counter} states that it occurs {counts} times, outside {allowed}")
    # A counter that is not a count has its own fault.
    return Fault(bad.field.name, 0, bad.offset, bad.rows & ~bad.unread, lambda _: reason, Why.COUNT)


def _uncounted_fault(bad: BadCount) -> Fault:
    reason = Reason(f"{bad.counter}, which states how often it occurs, is not known")
    return Fault(bad.field.name, 0, bad.offset, bad.unread, lambda _: reason, Why.UNCOUNTED)


def _lost_fault(item: Item, occurs: Occurs, rows: Mask) -> Fault:
    reason = Reason(f"it is after items whose number {occurs.counter} does not state")
    return Fault(item.name, 0, UNPLACED, rows, lambda _: reason, Why.UNCOUNTED)


def _find_columns(placed: PlacedItems, columns: tuple[str, ...] | None) -> frozenset[str]:
    """Return the names of the flat columns asked for, by their own or a group's name."""
    found = list(columns_below(placed.root))
    if columns is None:
        return frozenset(item.name for item in found)
    asked = {name.upper() for name in columns}
    known = _known_names(found)
    for name in sorted(asked - known):
        where, hint = Where(field=name), did_you_mean(name, known)
        raise OptionError(f"no field {name} in the layout", where=where, hint=hint)
    return frozenset(item.name for item in found if asked & {name.upper() for name in _names(item)})


def names_of_columns(layout: Layout, options: RecordOptions) -> frozenset[str]:
    """Return the names by which columns of a layout can be asked for, in capitals."""
    return _known_names(list(columns_below(place_items(layout, options.names(layout)).root)))


def _known_names(items: list[Item]) -> frozenset[str]:
    return frozenset(name.upper() for item in items for name in _names(item))


def _names(item: Item) -> tuple[str, ...]:
    return (item.name, item.field.name, *(group.name for group in item.groups))
