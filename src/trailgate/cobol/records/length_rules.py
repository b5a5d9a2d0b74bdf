"""Compute the length of a record from its own bytes, for files without descriptors or delimiters.

A ``LengthRule`` is a sum: a constant, plus for each ``LengthTerm`` a number in the record times a
factor. There are several rules if there are several kinds of records, distinguished by the value of
a field. Rules come from an expression over items (``parse_length_expression``), from a table of
values (``lengths_by_value``), or from layouts with OCCURS DEPENDING ON (``layout_lengths``). For
example, a record that consists of a 2-byte counter N and N items of 10 bytes has the length 2 + 10
* N. The kernel ``find_computed_records`` evaluates the rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.cobol.copybook.flat_columns import column_names, flat_columns
from trailgate.cobol.copybook.layouts import (
    CobolDialect,
    CopybookField,
    CopybookLayout,
    CounterKey,
    Endian,
    Usage,
    counter_key,
    find_counter_key,
)
from trailgate.cobol.copybook.placed_items import CounterValues, PlacedItem, place_items
from trailgate.cobol.records import framing_kernels
from trailgate.cobol.records.framing_kernels import LengthTables
from trailgate.cobol.records.key_fields import key_fields
from trailgate.cobol.records.kind_rules import PADDING, REST, RecordKinds, ValueRange
from trailgate.cobol.values.codec import ValueOptions
from trailgate.cobol.values.codecs import encoder
from trailgate.columnar.code_pages import code_page
from trailgate.errors import EncodeError, OptionError, Where, did_you_mean

# A part of 100 * COUNT + FIXED-PART: a number, a name or an operator
_TOKEN: Final = re.compile(r"\s*(?:(\d+)(?![\w-])|([A-Za-z0-9](?:[\w-]*[A-Za-z0-9])?)|([+*-]))")
_FORM: Final = (
    "Write an item, or a sum as ITEM + 4 or 100 * ITEM + ITEM, with blanks around a minus"
)
_TRIED: Final = 64  # random combinations of counts that must confirm a layout's rule


@dataclass(frozen=True, slots=True)
class LengthTerm:
    """A term of a computed record length: a number in the record times ``factor`` bytes.

    The number is at ``offset``, plus ``shifts[i]`` bytes for each unit of the i-th earlier term. It
    is at most ``most``, unless that is negative. ``coding`` is one of the encodings in ``framing_kernels``.
    """

    name: str
    offset: int
    width: int
    coding: int
    factor: int = 1
    most: int = -1
    shifts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LengthRule:
    """A rule that computes the length of a record: ``base`` bytes, plus the bytes of each term."""

    base: int
    terms: tuple[LengthTerm, ...] = ()

    @property
    def least(self) -> int:
        """The smallest length of a record with this rule, in bytes.

        The record contains at least the fields of all terms.
        """
        grows = all(term.factor >= 0 for term in self.terms)
        return max(1, self.base if grows else 1, *(t.offset + t.width for t in self.terms))


@dataclass(frozen=True, slots=True)
class RecordLengths:
    """The length rules of a file without descriptors.

    A record whose bytes at the offsets ``places`` equal ``values[i]`` has the rule ``chosen[i]``;
    all others have the rule ``rest``, or are errors if it is -1. A byte of -1 in a value matches
    any byte.
    """

    rules: tuple[LengthRule, ...]
    places: tuple[int, ...] = ()
    values: tuple[tuple[int, ...], ...] = ()
    chosen: tuple[int, ...] = ()
    rest: int = 0

    @property
    def least(self) -> int:
        """The smallest length of a record in bytes, over all rules."""
        return min(rule.least for rule in self.rules)

    @property
    def terms(self) -> list[LengthTerm]:
        """The terms of all length rules."""
        return [term for rule in self.rules for term in rule.terms]

    def tables(self) -> LengthTables:
        """Return the length rules as arrays for the kernel."""
        terms = self.terms
        widest = max(len(rule.terms) for rule in self.rules)
        ends = np.cumsum([len(rule.terms) for rule in self.rules])
        # Each rule refers to its terms by their range in the flat table of terms.
        rules = [
            (rule.base, rule.least, int(end) - len(rule.terms), int(end))
            for rule, end in zip(self.rules, ends, strict=True)
        ]
        rows = [(t.offset, t.width, t.coding, t.factor, t.most) for t in terms]
        shifts = [(*t.shifts, *[0] * (widest - len(t.shifts))) for t in terms]
        return LengthTables(
            key=np.array([max(self.places, default=-1) + 1, self.rest, widest], np.int64),
            places=np.array(self.places, np.int64),
            values=np.array(self.values, np.int64).reshape(-1),
            chosen=np.array(self.chosen, np.int64),
            rules=np.array(rules, np.int64).reshape(-1),
            terms=np.array(rows, np.int64).reshape(-1),
            shifts=np.array(shifts, np.int64).reshape(-1),
        )


def field_lengths(offset: int, width: int, *, little: bool) -> RecordLengths:
    """Build the length rule of a file in which an unsigned binary number states each record's length."""
    coding = framing_kernels.LITTLE if little else framing_kernels.BIG
    term = LengthTerm("the length field", offset, width, coding)
    return RecordLengths((LengthRule(0, (term,)),))


def parse_length_expression(
    text: str, layouts: Sequence[CopybookLayout], dialect: CobolDialect
) -> RecordLengths:
    """Parse a length expression such as ``LEN`` or ``100 * N + 4``. Raises OptionError."""
    base, factors = _parse(text)
    terms = []
    for name, factor in factors:
        offset, field = _item(name, layouts)
        terms.append(LengthTerm(name, offset, field.size, _coding(field, dialect), factor))
    return RecordLengths((LengthRule(base, tuple(terms)),))


def lengths_by_value(
    name: str, lengths: Mapping[str, int], layouts: Sequence[CopybookLayout], options: ValueOptions
) -> RecordLengths:
    """Build length rules from a mapping of the values of the item ``name`` to record lengths.

    The value ``*`` stands for all other values. Raises OptionError.
    """
    offset, field = _item(name, layouts)
    values = [value for value in lengths if value != REST]
    rules = tuple(LengthRule(length) for length in lengths.values())
    for value, length in lengths.items():
        if length < offset + field.size:
            problem = f"lengthMap: a record of {length} bytes ends before {name} does"
            raise OptionError(problem, where=Where(field=value))
    order = list(lengths)
    return RecordLengths(
        rules,
        tuple(range(offset, offset + field.size)),
        tuple(tuple(_raw_value(field, value, options)) for value in values),
        tuple(order.index(value) for value in values),
        order.index(REST) if REST in lengths else -1,
    )


def layout_lengths(
    layouts: Sequence[CopybookLayout], kinds: RecordKinds | None, options: ValueOptions
) -> RecordLengths:
    """Build the length rules of layouts whose OCCURS DEPENDING ON have only their real elements.

    There is one layout per kind, in order. Raises OptionError if a length is not a sum of multiples
    of the counters, if a range of values chooses a kind, or if records of other kinds are skipped.
    """
    rules = tuple(_layout_rule(layout, options.dialect) for layout in layouts)
    if kinds is None:
        return RecordLengths(rules[:1])
    if kinds.skips_others or any(one.high for rule in kinds.rules for one in rule.values):
        problem = (
            "record lengths can only follow from kinds if each kind is chosen by single values"
        )
        raise OptionError(problem, hint="Use no ranges, and name a record for *")
    numbers = {name: number for number, name in enumerate(kinds.records)}
    fields = key_fields(layouts, kinds.fields)
    values = [
        (parts, numbers[rule.record])
        for rule in kinds.rules
        # Blanks and low-values are two byte patterns, so one rule can need several combinations.
        for parts in product(
            *(
                _key_values(field, one, options)
                for field, one in zip(fields, rule.values, strict=True)
            )
        )
    ]
    return RecordLengths(
        rules,
        tuple(at for field in fields for at in range(field.offset, field.offset + field.size)),
        tuple(tuple(chain.from_iterable(parts)) for parts, _ in values),
        tuple(number for _, number in values),
        -1 if kinds.rest is None else numbers[kinds.rest],
    )


def _key_values(
    field: CopybookField, values: ValueRange, options: ValueOptions
) -> list[Sequence[int]]:
    """Encode a key value of a record kind as the bytes that a record may contain.

    Each result has one number per byte; -1 matches any byte. Blanks have two results: blanks and
    low-values.
    """
    if values.low is None:
        return [[-1] * field.size]
    if not values.low.strip(PADDING):
        blank = code_page(options.dialect.code_page).blank
        return [(blank * field.size)[: field.size], bytes(field.size)]
    return [_raw_value(field, values.low, options)]


def _parse(text: str) -> tuple[int, list[tuple[str, int]]]:
    """Parse a length expression into its constant and its items with factors.

    For example, ``100 * N + 4`` is (4, [(N, 100)]).
    """
    base, factors, at, sign = 0, [], 0, 1
    while True:
        # One product: its numbers are multiplied, so 2 * N * 50 is the item N with the factor 100.
        factor, name = sign, ""
        while True:
            match = _TOKEN.match(text, at)
            if match is None or match[3]:
                raise OptionError(f"not a length: {text!r}", hint=_FORM)
            at = match.end()
            if match[1]:
                factor *= int(match[1])
            elif name:
                raise OptionError(f"not a length: {text!r}", hint="Two items cannot be multiplied")
            else:
                name = match[2]
            after = _TOKEN.match(text, at)
            if after is None or after[3] != "*":
                break
            at = after.end()
        if name:
            factors.append((name, factor))
        else:
            base += factor
        if not text[at:].strip():
            return base, factors
        if after is None or after[3] not in {"+", "-"}:
            raise OptionError(f"not a length: {text!r}", hint=_FORM)
        sign, at = 1 if after[3] == "+" else -1, after.end()


def _item(name: str, layouts: Sequence[CopybookLayout]) -> tuple[int, CopybookField]:
    """Find the item of a length expression or lengthMap. Return its offset and its field.

    Raises OptionError unless all layouts have it once, with the same offset, size and usage.
    """
    offsets_and_fields: list[tuple[int, CopybookField]] = []
    known: list[str] = []
    for layout in layouts:
        columns = flat_columns(layout)
        known += [column.field.name for column in columns]
        matches = [(c.offset, c.field) for c in columns if c.field.name.upper() == name.upper()]
        if len(matches) != 1:
            problem = f"{name} is not one item of the record {layout.name}"
            raise OptionError(problem, hint=did_you_mean(name, known) or f"Known: {known[0]}, ...")
        offsets_and_fields += matches
    if len({(offset, field.size, field.usage) for offset, field in offsets_and_fields}) > 1:
        raise OptionError(f"{name} is not at the same offset in all kinds of records")
    return offsets_and_fields[0]


def _coding(field: CopybookField, dialect: CobolDialect) -> int:
    """Return the kernels' encoding of a field that states a length.

    Raises OptionError unless it is a whole number.
    """
    number = field.number
    if field.usage is Usage.TEXT and field.size <= framing_kernels.MOST_DIGITS:
        return framing_kernels.ZONED
    binary = {
        Usage.BINARY: dialect.binary,
        Usage.NATIVE: dialect.native,
        Usage.SHORT: dialect.binary,
        Usage.NATIVE_SHORT: dialect.native,
        Usage.LITTLE: Endian.LITTLE,
    }
    if number is not None and number.scale == 0 and not number.sign.separate:
        # The kernels read up to 8 bytes as one word.
        order = binary.get(field.usage)
        if order is not None and field.size <= 8:
            little, signed = order is Endian.LITTLE, number.signed
            choice = {
                (False, False): framing_kernels.BIG,
                (True, False): framing_kernels.LITTLE,
                (False, True): framing_kernels.SIGNED_BIG,
                (True, True): framing_kernels.SIGNED_LITTLE,
            }
            return choice[little, signed]
        decimal = {
            Usage.ZONED: framing_kernels.ZONED,
            Usage.PACKED: framing_kernels.PACKED,
            Usage.UNSIGNED_PACKED: framing_kernels.UNSIGNED_PACKED,
        }
        if field.usage in decimal and number.digits <= framing_kernels.MOST_DIGITS:
            return decimal[field.usage]
    problem = f"{field.name} ({field.usage.value}) cannot be a length"
    raise OptionError(problem, hint="It must be a whole number of up to 18 digits")


def _raw_value(field: CopybookField, value: str, options: ValueOptions) -> bytes:
    """Encode a value as the bytes of a field. Raises OptionError if the field cannot contain it."""
    try:
        column = pa.array([value if field.number is None else int(value)])
        raw: bytes = encoder(field, options)(column)[0].tobytes()
    except (EncodeError, ValueError, pa.ArrowInvalid):
        problem = f"the field {field.name} cannot have the value {value!r}"
        raise OptionError(problem) from None
    return raw


def _layout_rule(layout: CopybookLayout, dialect: CobolDialect) -> LengthRule:
    """Derive the length rule of a layout.

    Raises OptionError if the length is not a constant plus a multiple of each counter.

    ``place_items`` computes offsets and lengths for given counts, so the rule is fitted: one trial
    with all counters at their minimum, one trial per counter with that counter increased by 1, and
    random trials that must confirm that the result is linear.
    """
    limits = _limits(layout)
    items, _, _ = _try_counts(layout, np.zeros((1, 0), np.int64))
    keys = frozenset(limits)
    limits_of_items = [
        limits[key] for one in items if (key := find_counter_key(keys, one.field, one.groups))
    ]
    low, high = (np.array([limit[side] for limit in limits_of_items], np.int64) for side in (0, 1))
    count = len(items)
    draw = np.random.default_rng(count)
    trial_counts = np.vstack(
        [low, low + np.eye(count, dtype=np.int64), draw.integers(low, high + 1, (_TRIED, count))]
    )
    trial_counts = np.minimum(trial_counts, high)
    _, offsets, extents = _try_counts(layout, trial_counts)
    values = np.vstack([extents, offsets])
    # Row 0 of ``values`` is the length, row i the offset of counter i - 1. Column 0 has the minimum
    # counts, so the differences to columns 1 to count are the bytes per unit of each counter.
    slopes = values[:, 1 : count + 1] - values[:, :1]
    if (values != values[:, :1] + slopes @ (trial_counts - low).T).any():
        problem = f"the length of {layout.name} is not a sum over its counters"
        hint = "Nested tables with variable numbers of elements need a recordFormat that states lengths"
        raise OptionError(problem, hint=hint)
    bases = values[:, 0] - slopes @ low
    terms = [
        LengthTerm(
            name=item.field.name.upper(),
            offset=int(bases[number + 1]),
            width=item.field.size,
            coding=_coding(item.field, dialect),
            factor=int(slopes[0, number]),
            most=int(high[number]),
            shifts=tuple(slopes[number + 1, :number].tolist()),
        )
        for number, item in enumerate(items)
    ]
    return LengthRule(int(bases[0]), tuple(terms))


def _limits(layout: CopybookLayout) -> dict[CounterKey, tuple[int, int]]:
    """Return the minimum and maximum count of each OCCURS counter of a layout."""
    limits: dict[CounterKey, tuple[int, int]] = {}
    for field in layout.root.walk():
        occurs = field.occurs
        if occurs is not None and occurs.counter:
            key = counter_key(occurs)
            low, high = limits.get(key, (0, occurs.most))
            limits[key] = max(low, occurs.fewest), min(high, occurs.most)
    return limits


def _try_counts(layout: CopybookLayout, counts: Longs) -> tuple[list[PlacedItem], Longs, Longs]:
    """Place a layout's items for these counts (a row per trial, a column per counter).

    Returns its counters, their offsets in each trial, and the record's length in each trial.
    """
    rows, known = counts.shape
    counters: list[PlacedItem] = []

    def read(item: PlacedItem) -> CounterValues:
        number = len(counters)
        counters.append(item)
        return CounterValues(counts[:, number] if number < known else np.zeros(rows, np.int64))

    placed = place_items(layout, column_names(layout), read, real=True)
    offsets = [np.broadcast_to(item.offset, rows) for item in counters]
    extents = np.broadcast_to(placed.extent, rows)
    return (
        counters,
        np.array(offsets, np.int64).reshape(len(counters), rows),
        extents.astype(np.int64),
    )
