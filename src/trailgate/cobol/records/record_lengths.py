"""How long a record is where only its own bytes state it: numbers in it, a value that a table gives a length, or how often its items occur.

A rule is a sum: bytes that are always there, and so many for each one of the numbers in the record. Several rules are for
records of several kinds, which the value of one field distinguishes. Kernels follow the rules from record to record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.cobol.copybook.items import (
    CounterKey,
    Counts,
    Item,
    column_names,
    counter_key,
    flat_columns,
    key_among,
    place_items,
)
from trailgate.cobol.copybook.layouts import Dialect, Endian, Field, Layout, Usage
from trailgate.cobol.records import kernels
from trailgate.cobol.records.key_fields import key_fields
from trailgate.cobol.records.kind_rules import PADDING, REST, RecordKinds, ValueRange
from trailgate.cobol.values.codec import ValueOptions
from trailgate.cobol.values.codecs import encoder
from trailgate.columnar.code_pages import code_page
from trailgate.errors import EncodeError, OptionError, Where, did_you_mean

_TOKEN: Final = re.compile(r"\s*(?:(\d+)(?![\w-])|([A-Za-z0-9](?:[\w-]*[A-Za-z0-9])?)|([+*-]))")
_FORM: Final = (
    "Write an item, or a sum as ITEM + 4 or 100 * ITEM + ITEM, with blanks around a minus"
)
_TRIED: Final = 64  # records by which a layout's lengths are tried


@dataclass(frozen=True, slots=True)
class LengthTerm:
    """A number in a record, for each one of which the record has ``factor`` bytes.

    The number is at ``offset``, and ``shifts`` bytes further for each one of the numbers of the terms before. It is at most ``most``, unless that is
    negative; ``coding`` is one of the kernels' codings.
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
    """The length of a record: ``base`` bytes, and those of the terms."""

    base: int
    terms: tuple[LengthTerm, ...] = ()

    @property
    def least(self) -> int:
        """Return the fewest bytes of a record."""
        grows = all(term.factor >= 0 for term in self.terms)
        return max(1, self.base if grows else 1, *(t.offset + t.width for t in self.terms))


class LengthTables(NamedTuple):
    """Rules as a kernel takes them."""

    key: Longs
    places: Longs
    values: Longs
    chosen: Longs
    rules: Longs
    terms: Longs
    shifts: Longs


@dataclass(frozen=True, slots=True)
class RecordLengths:
    """The rules of a file's records: those whose bytes at the offsets ``places`` are one of ``values`` have the rules ``chosen``, others ``rest``.

    A byte of a value is -1 if any byte is one.
    """

    rules: tuple[LengthRule, ...]
    places: tuple[int, ...] = ()
    values: tuple[tuple[int, ...], ...] = ()
    chosen: tuple[int, ...] = ()
    rest: int = 0

    @property
    def least(self) -> int:
        """Return the fewest bytes of a record."""
        return min(rule.least for rule in self.rules)

    @property
    def terms(self) -> list[LengthTerm]:
        """Return the terms of all rules."""
        return [term for rule in self.rules for term in rule.terms]

    def tables(self) -> LengthTables:
        """Return the rules as arrays."""
        terms = self.terms
        widest = max(len(rule.terms) for rule in self.rules)
        ends = np.cumsum([len(rule.terms) for rule in self.rules])
        rules = [
            (rule.base, rule.least, int(end) - len(rule.terms), int(end))
            for rule, end in zip(self.rules, ends, strict=True)
        ]
        rows = [(t.offset, t.width, t.coding, t.factor, t.most) for t in terms]
        shifts = [(*t.shifts, *[0] * (widest - len(t.shifts))) for t in terms]
        return LengthTables(
            np.array([max(self.places, default=-1) + 1, self.rest, widest], np.int64),
            np.array(self.places, np.int64),
            np.array(self.values, np.int64).reshape(-1),
            np.array(self.chosen, np.int64),
            np.array(rules, np.int64).reshape(-1),
            np.array(rows, np.int64).reshape(-1),
            np.array(shifts, np.int64).reshape(-1),
        )


def field_lengths(offset: int, width: int, *, little: bool) -> RecordLengths:
    """Return the lengths that a binary number without a sign states."""
    coding = kernels.LITTLE if little else kernels.BIG
    term = LengthTerm("the length field", offset, width, coding)
    return RecordLengths((LengthRule(0, (term,)),))


def stated_lengths(text: str, layouts: Sequence[Layout], dialect: Dialect) -> RecordLengths:
    """Return the lengths that items state: one, or a sum of them; raises OptionError."""
    base, factors = _parse(text)
    terms = []
    for name, factor in factors:
        offset, field = _item(name, layouts)
        terms.append(LengthTerm(name, offset, field.size, _coding(field, dialect), factor))
    return RecordLengths((LengthRule(base, tuple(terms)),))


def mapped_lengths(
    name: str, lengths: Mapping[str, int], layouts: Sequence[Layout], options: ValueOptions
) -> RecordLengths:
    """Return the lengths that the values of an item have, by a table in which ``*`` are the others; raises OptionError."""
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
    layouts: Sequence[Layout], kinds: RecordKinds | None, options: ValueOptions
) -> RecordLengths:
    """Return the lengths that layouts have with as many elements of each OCCURS as there are; raises OptionError.

    There is a layout for each record of the kinds, in their order.
    """
    rules = tuple(_layout_rule(layout, options.dialect) for layout in layouts)
    if kinds is None:
        return RecordLengths(rules[:1])
    if kinds.others or any(one.high for rule in kinds.rules for one in rule.values):
        problem = "the length of a record follows from its kind only where each kind has values of its own"
        raise OptionError(problem, hint="Give no ranges, and a record for *")
    numbers = {name: number for number, name in enumerate(kinds.records)}
    fields = key_fields(layouts, kinds.fields)
    values = [
        (parts, numbers[rule.record])
        for rule in kinds.rules
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


def _key_values(field: Field, values: ValueRange, options: ValueOptions) -> list[Sequence[int]]:
    """Return the bytes that a field can have for a value: any, blanks or low-values, or those of the value."""
    if values.low is None:
        return [[-1] * field.size]
    if not values.low.strip(PADDING):
        blank = code_page(options.dialect.code_page).blank
        return [(blank * field.size)[: field.size], bytes(field.size)]
    return [_raw_value(field, values.low, options)]


def _parse(text: str) -> tuple[int, list[tuple[str, int]]]:
    """Return the number and the items with their factors that a sum consists of."""
    base, factors, at, sign = 0, [], 0, 1
    while True:
        factor, name = sign, ""
        while True:
            found = _TOKEN.match(text, at)
            if found is None or found[3]:
                raise OptionError(f"not a length: {text!r}", hint=_FORM)
            at = found.end()
            if found[1]:
                factor *= int(found[1])
            elif name:
                raise OptionError(f"not a length: {text!r}", hint="Two items cannot be multiplied")
            else:
                name = found[2]
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


def _item(name: str, layouts: Sequence[Layout]) -> tuple[int, Field]:
    """Return the offset of an item, and the item, which is at the same place in all layouts; raises OptionError."""
    places: list[tuple[int, Field]] = []
    known: list[str] = []
    for layout in layouts:
        columns = flat_columns(layout)
        known += [column.field.name for column in columns]
        own = [(c.offset, c.field) for c in columns if c.field.name.upper() == name.upper()]
        if len(own) != 1:
            problem = f"{name} is not one item of the record {layout.name}"
            raise OptionError(problem, hint=did_you_mean(name, known) or f"Known: {known[0]}, ...")
        places += own
    if len({(offset, field.size, field.usage) for offset, field in places}) > 1:
        raise OptionError(f"{name} is not at the same place in all kinds of records")
    return places[0]


def _coding(field: Field, dialect: Dialect) -> int:
    """Return how the number of a field is coded; raises OptionError where it is not a whole number."""
    number = field.number
    if field.usage is Usage.TEXT and field.size <= kernels.MOST_DIGITS:
        return kernels.ZONED
    binary = {
        Usage.BINARY: dialect.binary,
        Usage.NATIVE: dialect.native,
        Usage.SHORT: dialect.binary,
        Usage.NATIVE_SHORT: dialect.native,
        Usage.LITTLE: Endian.LITTLE,
    }
    if number is not None and number.scale == 0 and not number.sign.separate:
        order = binary.get(field.usage)
        if order is not None and field.size <= 8:
            little, signed = order is Endian.LITTLE, number.signed
            choice = {
                (False, False): kernels.BIG,
                (True, False): kernels.LITTLE,
                (False, True): kernels.SIGNED_BIG,
                (True, True): kernels.SIGNED_LITTLE,
            }
            return choice[little, signed]
        decimal = {
            Usage.ZONED: kernels.ZONED,
            Usage.PACKED: kernels.PACKED,
            Usage.UNSIGNED_PACKED: kernels.UNSIGNED_PACKED,
        }
        if field.usage in decimal and number.digits <= kernels.MOST_DIGITS:
            return decimal[field.usage]
    problem = f"{field.name} ({field.usage.value}) cannot hold a length"
    raise OptionError(problem, hint="It must be a whole number of up to 18 digits")


def _raw_value(field: Field, value: str, options: ValueOptions) -> bytes:
    """Return the bytes that a field has for a value; raises OptionError for one that it cannot have."""
    try:
        column = pa.array([value if field.number is None else int(value)])
        raw: bytes = encoder(field, options)(column)[0].tobytes()
    except (EncodeError, ValueError, pa.ArrowInvalid):
        problem = f"the field {field.name} cannot have the value {value!r}"
        raise OptionError(problem) from None
    return raw


def _layout_rule(layout: Layout, dialect: Dialect) -> LengthRule:
    """Return the length of a layout by its counters; raises OptionError where it is not a sum of them.

    Where items are for some counts is known (``place_items``), so the sum is found by trying, and tried with other counts.
    """
    limits = _limits(layout)
    items, _, _ = _try_counts(layout, np.zeros((1, 0), np.int64))
    keys = frozenset(limits)
    own = [limits[key] for one in items if (key := key_among(keys, one.field, one.groups))]
    low, high = (np.array([limit[side] for limit in own], np.int64) for side in (0, 1))
    count = len(items)
    draw = np.random.default_rng(count)
    tried = np.vstack(
        [low, low + np.eye(count, dtype=np.int64), draw.integers(low, high + 1, (_TRIED, count))]
    )
    tried = np.minimum(tried, high)
    _, offsets, extents = _try_counts(layout, tried)
    values = np.vstack([extents, offsets])
    slopes = values[:, 1 : count + 1] - values[:, :1]
    if (values != values[:, :1] + slopes @ (tried - low).T).any():
        problem = f"the length of {layout.name} is not a sum of its counters' parts"
        hint = "A table in a table, each with a number of elements, needs a recordFormat that states lengths"
        raise OptionError(problem, hint=hint)
    bases = values[:, 0] - slopes @ low
    terms = [
        LengthTerm(
            item.field.name.upper(),
            int(bases[number + 1]),
            item.field.size,
            _coding(item.field, dialect),
            int(slopes[0, number]),
            int(high[number]),
            tuple(slopes[number + 1, :number].tolist()),
        )
        for number, item in enumerate(items)
    ]
    return LengthRule(int(bases[0]), tuple(terms))


def _limits(layout: Layout) -> dict[CounterKey, tuple[int, int]]:
    """Return the fewest and the most that each counter can hold."""
    found: dict[CounterKey, tuple[int, int]] = {}
    for field in layout.root.walk():
        occurs = field.occurs
        if occurs is not None and occurs.counter:
            key = counter_key(occurs)
            low, high = found.get(key, (0, occurs.most))
            found[key] = max(low, occurs.fewest), min(high, occurs.most)
    return found


def _try_counts(layout: Layout, counts: Longs) -> tuple[list[Item], Longs, Longs]:
    """Return the counters of a layout, their offsets in records of these counts, and the records' lengths."""
    rows, known = counts.shape
    found: list[Item] = []

    def read(item: Item) -> Counts:
        number = len(found)
        found.append(item)
        return Counts(counts[:, number] if number < known else np.zeros(rows, np.int64))

    placed = place_items(layout, column_names(layout), read, real=True)
    offsets = [np.broadcast_to(item.offset, rows) for item in found]
    extents = np.broadcast_to(placed.extent, rows)
    return found, np.array(offsets, np.int64).reshape(len(found), rows), extents.astype(np.int64)
