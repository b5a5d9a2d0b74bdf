"""Read the counters of OCCURS DEPENDING ON, and compute from them the offsets of each record's items.

If a counter cannot be read or is out of range, only the items that depend on it are affected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask, Octets
from trailgate.cobol.copybook.layouts import (
    CopybookField,
    CopybookLayout,
    CounterKey,
    Occurs,
    counter_key,
    counter_keys,
    find_counter_key,
)
from trailgate.cobol.copybook.placed_items import (
    UNPLACED,
    BadCount,
    CounterValues,
    PlacedItem,
    PlacedItems,
    columns_below,
    place_items,
)
from trailgate.cobol.records.field_faults import ChunkFindings, FieldFault
from trailgate.cobol.records.presence import find_usable_rows
from trailgate.cobol.records.record_bytes import RecordBytes, copy_items, count_bytes_present
from trailgate.cobol.records.record_options import (
    BadFieldPolicy,
    DependingLength,
    RecordOptions,
    ShortRecordPolicy,
)
from trailgate.cobol.values.code_pages import page_for_errors
from trailgate.cobol.values.codec import (
    DecodedColumn,
    Decoder,
    FaultExplanation,
    FaultReason,
    IntegerRepresentation,
    NumberRepresentation,
)
from trailgate.cobol.values.codecs import decoder, explainer
from trailgate.cobol.values.reasons import classifier
from trailgate.errors import DefinitionError, Where


class CounterReader:
    """Computes the offsets of a layout's items from the OCCURS counters of each record.

    ``placed`` are the items with every OCCURS at its maximum, and ``wanted`` the names of the
    columns to read. If a counter is itself a wanted column, its problems are reported with that
    column.
    """

    def __init__(
        self,
        layout: CopybookLayout,
        options: RecordOptions,
        placed: PlacedItems,
        wanted: frozenset[str],
    ) -> None:
        self._layout, self._options, self._wanted = layout, options, wanted
        self._names = options.names(layout)
        keys = counter_keys(layout)
        counted = (
            item.field
            for item in columns_below(placed.root)
            if find_counter_key(keys, item.field, item.groups)
        )
        self._decoders = {field: _counter(field, options) for field in set(counted)}

    def place(self, records: RecordBytes, findings: ChunkFindings) -> PlacedItems:
        """Compute the offsets of the items from the counters of these records, and report bad counters of wanted items.

        If a counter cannot be read, only the items that depend on it are affected.
        """
        counters: dict[CounterKey | None, ChunkFindings] = {}
        keys = counter_keys(self._layout)
        real = self._options.depending is DependingLength.REAL
        placed = place_items(
            self._layout,
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
        if bad_counts and self._options.errors is BadFieldPolicy.COLUMN:
            faults += [_uncounted_fault(bad) for bad in bad_counts]
            faults += [
                _lost_fault(item, occurs, rows)
                for item in wanted
                for occurs, rows in item.lost.items()
                if rows is not None
            ]
        return placed

    def _count(
        self, records: RecordBytes, item: PlacedItem, findings: ChunkFindings
    ) -> CounterValues:
        """Read the OCCURS counter ``item`` in all records, and add its problems to ``findings``.

        If the counter is also a wanted column, decoding that column reports the problems, so they
        are not reported here.
        """
        wanted = item.name in self._wanted
        absent = None
        if self._options.short is not ShortRecordPolicy.ERROR:
            # A record that ends before the counter has no elements.
            absent = count_bytes_present(records, item) <= 0
        usable = find_usable_rows(records, item, [] if wanted else findings.faults, absent)
        matrix = np.zeros((len(records), item.field.size), np.uint8)
        if len(records):
            copy_items(records, item, usable, matrix)
        decoded = self._decoders[item.field](matrix)
        unread = decoded.values.is_null().to_numpy(zero_copy_only=False)
        # Bad counters that are not reported as part of a wanted column.
        new = unread if usable is None else unread & usable
        if wanted and decoded.bad is not None:
            new = new & ~decoded.bad
        if new.any():
            values, field = self._options.values, item.field
            page, explain = page_for_errors(field, values), explainer(field, values)
            if field.name.upper() in self._options.counts:
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
            findings.count(policy, self._layout.name, noted_rows, item.name)
        if usable is not None:
            unread = unread | ~usable
        if absent is not None:
            unread = unread & ~absent
        return CounterValues(decoded.values.fill_null(0).to_numpy(zero_copy_only=False), unread)


def counts_of(values: pa.Array, counts: Mapping[str, int]) -> pa.Array:
    """Map the values of an OCCURS counter to counts. A value without a count becomes NULL."""
    texts = pc.utf8_trim(pc.cast(values, pa.string()), " ")
    # An unknown text has the index null, and take makes a null of it.
    codes = pc.index_in(texts, pa.array(list(counts), pa.string()))
    return pa.array(list(counts.values()), pa.int64()).take(codes)


def _explain_uncounted(_: bytes) -> FaultExplanation:
    return FaultExplanation("a value that the option countMap does not contain")


def _counter(field: CopybookField, options: RecordOptions) -> Decoder:
    """Return the decoder of an OCCURS counter, or of the codes that countMap maps to counts.

    Raises DefinitionError if the counter is not a whole number.
    """
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
        usage = f"{field.number.digits} digits" if field.number else field.usage.value
        stated = f"PIC {field.picture}" if field.picture else usage
        problem = (
            f"the counter of an OCCURS must be a whole number of up to 18 digits, not {stated}"
        )
        raise DefinitionError(problem, where=Where(field=field.name))
    return decode


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
