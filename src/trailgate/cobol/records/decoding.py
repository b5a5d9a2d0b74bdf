"""Records to columns by a layout: places first, then alike fields of all records at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as member
from enum import Enum
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.cobol.copybook.layouts import Field, Layout, Usage
from trailgate.cobol.records.bad_fields import CUT_OFF, Fault, error_column, first_error
from trailgate.cobol.records.item_positions import BadCount, Leaf, Placed, counters, leaves, place
from trailgate.cobol.records.record_bytes import (
    Records,
    copy_items,
    cut_off,
    matrix_of,
    records_of_length,
)
from trailgate.cobol.records.trees import record_members
from trailgate.cobol.values.codec import Decoder, Explain, Reason
from trailgate.cobol.values.codecs import decoder, explainer
from trailgate.cobol.values.options import Integers, ValueOptions
from trailgate.columnar.code_pages.page_text import without
from trailgate.columnar.gather import gather
from trailgate.errors import DecodeError, DefinitionError, OptionError, Where

ERRORS_COLUMN, RAW_COLUMN = "_errors", "_raw"
# Records are decoded in portions whose bytes and columns stay in the cache, but are enough for a
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
    """What becomes of a field whose bytes are no value."""

    STOP = "stop"
    COLUMN = "column"  # NULL, and told in the column _errors


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """How records become columns; ``columns`` are names of columns or groups, None for all."""

    values: ValueOptions = member(default_factory=ValueOptions)
    shape: Shape = Shape.FLAT
    depending: Depending = Depending.MOST
    columns: tuple[str, ...] | None = None
    errors: OnError = OnError.STOP
    raw: bool = False


class RecordDecoder:
    """Decodes records of one layout; made once, used for any number of records."""

    def __init__(self, layout: Layout, options: RecordOptions | None = None) -> None:
        self.layout, self.options = layout, options or RecordOptions()
        self._placed = place(layout)
        self._wanted = _wanted(self._placed, self.options.columns)
        self._alike = self._grouped(self._placed)
        self._decoders: dict[Field, tuple[Decoder, Explain]] = {}
        for leaf in leaves(self._placed.root):
            if leaf.name in self._wanted:
                self._decoder_of(leaf.field)
        counted = (f for f in layout.root.walk() if f.name.upper() in counters(layout))
        self._counters = {field: _counter(field, self.options.values) for field in counted}

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of all batches."""
        return self.decode(records_of_length(b"", self.layout.size or 1)).schema

    def decode(self, records: Records) -> pa.RecordBatch:
        """Return the columns of all records; raises DecodeError where a field stops the run."""
        found = list(self.batches(records))
        if len(found) > 1:
            found = pa.Table.from_batches(found).combine_chunks().to_batches()
        if len(found) > 1:
            raise DecodeError("more than 2 GB of text in one batch", hint="Take it in batches")
        return found[0]

    def batches(self, records: Records) -> Iterator[pa.RecordBatch]:
        """Yield the columns of some records after the other; at least one batch, be it empty."""
        rows = _rows_of(max(self.layout.size, 1))
        for begin in range(0, max(len(records), 1), rows):
            yield self._batch(records.part(begin, begin + rows))

    def _batch(self, records: Records) -> pa.RecordBatch:
        faults: list[Fault] = []
        placed = self._placed
        if self.layout.varies:
            real = self.options.depending is Depending.REAL
            placed = place(self.layout, lambda leaf: self._count(records, leaf, faults), real=real)
        faults += [_count_fault(bad) for bad in placed.bad_counts]
        columns = self._columns(records, placed, faults)
        faults = [fault for fault in faults if fault.rows.any()]
        if faults and self.options.errors is OnError.STOP:
            raise first_error(records, faults)
        if self.options.shape is Shape.FLAT:
            pairs = [(leaf.name, column) for leaf, column in columns.items()]
        else:
            pairs = record_members(placed.root, columns, len(records))
        if self.options.errors is OnError.COLUMN:
            pairs.append((ERRORS_COLUMN, error_column(records, faults)))
        if self.options.raw:
            pairs.append((RAW_COLUMN, gather(records.data, records.starts, records.ends)))
        return pa.RecordBatch.from_arrays([c for _, c in pairs], [name for name, _ in pairs])

    def _columns(
        self, records: Records, placed: Placed, faults: list[Fault]
    ) -> Mapping[Leaf, pa.Array]:
        """Return the column of each wanted item in the layout's order, and tell faults."""
        alike = self._alike if placed is self._placed else self._grouped(placed)
        found: dict[Leaf, pa.Array] = {}
        for kind, members in alike.items():
            found.update(self._decode_alike(records, kind, members, faults))
        return {leaf: found[leaf] for leaf in leaves(placed.root) if leaf in found}

    def _grouped(self, placed: Placed) -> dict[Field, list[Leaf]]:
        """Return the wanted items by what their decoding depends on."""
        alike: dict[Field, list[Leaf]] = {}
        for leaf in leaves(placed.root):
            if leaf.name in self._wanted:
                alike.setdefault(_kind(leaf.field), []).append(leaf)
        return alike

    def _decode_alike(
        self, records: Records, kind: Field, members: list[Leaf], faults: list[Fault]
    ) -> Iterator[tuple[Leaf, pa.Array]]:
        decode, explain = self._decoder_of(kind)
        rows = len(records)
        usable = [_usable(records, leaf, faults) for leaf in members]
        if not rows:
            found = decode(np.zeros((0, kind.size), np.uint8))
        elif len(members) == 1 and usable[0] is None:
            found = decode(matrix_of(records, members[0]))
        else:
            matrix = np.zeros((rows * len(members), kind.size), np.uint8)
            for index, (leaf, mask) in enumerate(zip(members, usable, strict=True)):
                copy_items(records, leaf, mask, matrix[index * rows : (index + 1) * rows])
            found = decode(matrix)
        for index, (leaf, mask) in enumerate(zip(members, usable, strict=True)):
            cut = slice(index * rows, (index + 1) * rows)
            values = found.values[cut] if len(members) > 1 else found.values
            bad = None if found.bad is None else found.bad[cut]
            if mask is not None:
                bad = None if bad is None else bad & mask
                values = without(values, ~mask)
            if bad is not None and bad.any():
                faults.append(Fault(leaf.name, kind.size, leaf.at, bad, explain))
            yield leaf, values

    def _count(
        self, records: Records, leaf: Leaf, faults: list[Fault]
    ) -> tuple[Longs, Mask | None]:
        """Return the counts that a counter holds, and where it holds none; tells why.

        What is told anyway, because the counter is also a wanted column, is not told twice.
        """
        wanted = leaf.name in self._wanted
        usable = _usable(records, leaf, [] if wanted else faults)
        matrix = np.zeros((len(records), leaf.field.size), np.uint8)
        if len(records):
            copy_items(records, leaf, usable, matrix)
        found = self._counters[leaf.field](matrix)
        unread = found.values.is_null().to_numpy(zero_copy_only=False)
        untold = unread if usable is None else unread & usable
        if wanted and found.bad is not None:
            untold = untold & ~found.bad
        if untold.any():
            explain = explainer(leaf.field, self.options.values)
            faults.append(Fault(leaf.name, leaf.field.size, leaf.at, untold, explain))
        if usable is not None:
            unread = unread | ~usable
        return found.values.fill_null(0).to_numpy(zero_copy_only=False), unread

    def _decoder_of(self, field: Field) -> tuple[Decoder, Explain]:
        kind = _kind(field)
        if kind not in self._decoders:
            # The field itself is bound, so that an error names it.
            try:
                bound = (decoder(field, self.options.values), explainer(field, self.options.values))
            except OptionError as error:
                raise error.located(field=field.name) from None
            self._decoders[kind] = bound
        return self._decoders[kind]


def _rows_of(size: int) -> int:
    """Return how many records of a size are decoded at once."""
    least, most = CHUNK_ROWS
    least = max(min(least, LARGE_BYTES // size), 1)
    return min(max(CHUNK_BYTES // size, least), most)


def _counter(field: Field, options: ValueOptions) -> Decoder:
    """Return the decoder of a field that says how often others occur; it must be a whole number."""
    decode = decoder(field, replace(options, integers=Integers.INT64))
    if not pa.types.is_int64(decode(np.zeros((0, field.size), np.uint8)).values.type):
        problem = "a field that says how often others occur must be a whole number"
        raise DefinitionError(problem, where=Where(field=field.name))
    return decode


def _kind(field: Field) -> Field:
    """Return a field with nothing but what its decoding depends on: alike fields are equal."""
    picture = field.picture if field.usage is Usage.EDITED else ""
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


def _usable(records: Records, leaf: Leaf, faults: list[Fault]) -> Mask | None:
    """Return the records whose item is there and whole, None for all; tells of cut ones."""
    short = cut_off(records, leaf)
    if short is None:
        return leaf.active
    if leaf.active is not None:
        short &= leaf.active
    faults.append(Fault(leaf.name, leaf.field.size, leaf.at, short, lambda _: CUT_OFF))
    return ~short if leaf.active is None else leaf.active & ~short


def _count_fault(bad: BadCount) -> Fault:
    occurs = bad.field.occurs
    assert occurs is not None
    allowed = f"{occurs.least} to {occurs.most}"
    wrong = sorted({int(count) for count in bad.counts[bad.rows].tolist()})[:3]
    told = " or ".join(map(str, wrong))
    reason = Reason(f"{bad.counter} says that it occurs {told} times, outside {allowed}")
    return Fault(bad.field.name, 0, bad.at, bad.rows, lambda _: reason)


def _wanted(placed: Placed, columns: tuple[str, ...] | None) -> frozenset[str]:
    """Return the names of the flat columns asked for, by their own or a group's name."""
    found = list(leaves(placed.root))
    if columns is None:
        return frozenset(leaf.name for leaf in found)
    asked = {name.upper() for name in columns}
    known = {name.upper() for leaf in found for name in _names(leaf)}
    for name in sorted(asked - known):
        near = difflib.get_close_matches(name, known, 3)
        hint = f"Is it {' or '.join(near)}?" if near else ""
        raise OptionError(f"no field {name} in the layout", where=Where(field=name), hint=hint)
    return frozenset(leaf.name for leaf in found if asked & {name.upper() for name in _names(leaf)})


def _names(leaf: Leaf) -> tuple[str, ...]:
    return (leaf.name, leaf.field.name, *leaf.groups)
