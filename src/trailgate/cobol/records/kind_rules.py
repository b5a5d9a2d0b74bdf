"""Which record is of which kind: values and ranges of a field, as ``KIND: H=HEADER, D|E=DETAIL, 10 THRU 19=ITEM, *=OTHER``.

Several fields choose together, as ``KIND + PART: D + 1=DETAIL, D + *=OTHER``: each value is one of each field, and ``*`` is any.

Values are compared as the field's type compares them: numbers as numbers, so that ``01`` is 1; text without the blanks and low-values around it, and
ranges of text by their bytes, as COBOL's collating sequence orders them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as member
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple, Self

import pyarrow as pa

from trailgate.columnar.code_pages import CodePage
from trailgate.errors import EncodeError, OptionError, Where

REST: Final = "*"
PADDING: Final = " \0"  # around text that is compared
_FORM: Final = "kinds are written FIELD: VALUE=RECORD, VALUE|VALUE=RECORD, LOW THRU HIGH=RECORD, and of several fields FIELD + FIELD: VALUE + VALUE=RECORD"
_LITERAL: Final = r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[^\s'"=|,][^=|,\n]*?"""
_RANGE: Final = re.compile(rf"\s*({_LITERAL})(?:\s+THRU\s+({_LITERAL}))?\s*", re.IGNORECASE)
_ENTRY: Final = re.compile(r"""((?:'[^']*'|"[^"]*"|[^=,\n'"])*)(?:=([^,\n]*))?(?:[,\n]|$)""")


class ValueRange(NamedTuple):
    """Values of one field from ``low`` to ``high``, which is None for one value; ``low`` is None for any value, and empty for blanks."""

    low: str | None
    high: str | None = None

    def __str__(self) -> str:
        if self.low is None:
            return REST
        return f"{self.low!r} to {self.high!r}" if self.high else repr(self.low)


@dataclass(frozen=True, slots=True)
class KindRule:
    """Values of each of the fields, and the record that has them."""

    values: tuple[ValueRange, ...]
    record: str

    def __str__(self) -> str:
        return " + ".join(map(str, self.values))


@dataclass(frozen=True, slots=True)
class RecordKinds:
    """Which records a file holds: each of the ``fields`` has the same place in all of them.

    Records of other values are ``rest``; where that is None they are left out with ``others``, else an error. ``parents`` are the kinds that kinds are
    below, by their names.
    """

    fields: tuple[str, ...]
    rules: tuple[KindRule, ...]
    others: bool = False
    rest: str | None = None
    parents: Mapping[str, str] = member(default_factory=dict)

    @property
    def field(self) -> str:
        """Return the name of the field, or the names of the fields, as errors name them."""
        return " + ".join(self.fields)

    @property
    def records(self) -> tuple[str, ...]:
        """Return the names of the records in their order."""
        named = [rule.record for rule in self.rules]
        return tuple(dict.fromkeys(named if self.rest is None else [*named, self.rest]))

    def renamed(self, name: Callable[[str], str]) -> RecordKinds:
        """Return the kinds with other names of their fields and their records."""
        rules = tuple(replace(rule, record=name(rule.record)) for rule in self.rules)
        rest = None if self.rest is None else name(self.rest)
        return replace(self, fields=tuple(map(name, self.fields)), rules=rules, rest=rest)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the kinds that a text states; raises OptionError."""
        name, colon, entries = text.partition(":")
        if not colon:
            raise OptionError(_FORM)
        pairs = []
        for found in _ENTRY.finditer(entries):
            values, record = found[1].strip(), found[2]
            if values or record is not None:
                pairs.append((values, None if record is None else record.strip()))
        if "".join(found[0] for found in _ENTRY.finditer(entries)) != entries:
            raise OptionError(_FORM, hint="A quote has no end, or text follows it")
        return cls.of([one.strip() for one in name.split("+")], pairs)

    @classmethod
    def of_mapping(cls, kinds: Mapping[str, Any]) -> Self:
        """Return the kinds of ``{FIELD: {VALUE: RECORD}}``, values as in a text; raises OptionError.

        Several fields are a tuple or a text, ``{("A", "B"): {("1", "2"): RECORD}}`` or ``{"A + B": {"1 + 2": RECORD}}``.
        """
        if len(kinds) != 1:
            raise OptionError("kinds are {FIELD: {VALUE: RECORD}}, with one key")
        ((name, values),) = kinds.items()
        if not isinstance(values, Mapping):
            raise OptionError(f"the kinds by {name} are {{VALUE: RECORD}}, not {values!r}")
        names = name if isinstance(name, tuple) else str(name).split("+")
        pairs = [(_text_of(v), None if r is None else str(r)) for v, r in values.items()]
        return cls.of([str(one).strip() for one in names], pairs)

    @classmethod
    def of(cls, names: Sequence[str], pairs: Iterable[tuple[str, str | None]]) -> Self:
        """Return the kinds of values and records; ``*`` without a record leaves the others out. Raises OptionError."""
        rules: list[KindRule] = []
        others, rest = False, None
        for values, record in pairs:
            if values == REST:
                others, rest = record is None, record or None
            elif not record:
                raise OptionError(f"VALUE=RECORD was expected, not {values!r}")
            else:
                rules += _rules_of(values, record, len(names))
        if not names or not all(names) or not rules:
            raise OptionError(_FORM)
        return cls(tuple(names), tuple(rules), others, rest)

    def chooser(
        self, columns: Sequence[KeyColumn]
    ) -> Callable[[Sequence[Sequence[Any]]], list[str | None]]:
        """Return what gives each distinct combination of values its record, None if no rule has it.

        NULL is the value of a number of blanks or low-values. Raises OptionError for a rule whose values a field cannot have.
        """
        orders = [column.order(name) for column, name in zip(columns, self.fields, strict=True)]
        tests = [
            (
                [
                    _test(name, order, values)
                    for name, order, values in zip(self.fields, orders, rule.values, strict=True)
                ],
                rule.record,
            )
            for rule in self.rules
        ]

        def record_of(values: Sequence[Any]) -> str | None:
            texts = ["" if value is None else str(value).strip(PADDING) for value in values]
            held = [
                order(text) if text else None for order, text in zip(orders, texts, strict=True)
            ]
            for own, record in tests:
                if all(test(value) for test, value in zip(own, held, strict=True)):
                    return record
            return self.rest

        return lambda values: [record_of(value) for value in values]


class KeyColumn(NamedTuple):
    """A column of values of a field that chooses kinds: its type, and the bytes of the field, to which texts are padded to be ordered."""

    type: pa.DataType
    size: int
    page: CodePage

    def order(self, name: str) -> Callable[[str], Any]:
        """Return what makes a text comparable; raises OptionError for a type without values to choose by."""
        if pa.types.is_string(self.type):
            return _text_order(self.size, self.page)
        if pa.types.is_integer(self.type) or pa.types.is_decimal(self.type):
            return _number
        raise OptionError(f"the field {name} has no values that kinds can be chosen by")


def _test(name: str, order: Callable[[str], Any], values: ValueRange) -> Callable[[Any], bool]:
    """Return whether a value of a field, None for blanks, is one of a range; raises OptionError for a range that it cannot have."""
    low, high = values
    if low is None:
        return lambda _: True
    if not low.strip(PADDING):
        return lambda value: value is None
    try:
        first, last = order(low), order(high or low)
    except (InvalidOperation, EncodeError):
        problem = f"kinds: the field {name} cannot have the value {low if high is None else high!r}"
        raise OptionError(problem, where=Where(field=name)) from None
    return lambda value: value is not None and bool(first <= value <= last)


def _text_of(values: Any) -> str:
    """Return values of several fields as a text that states them."""
    if not isinstance(values, tuple):
        return str(values)
    quoted = ("'" + str(value).replace("'", "''") + "'" for value in values)
    parts = (
        REST if str(value) == REST else text for value, text in zip(values, quoted, strict=True)
    )
    return " + ".join(parts)


def _rules_of(values: str, record: str, fields: int) -> list[KindRule]:
    """Return a rule for each value or range between bars; nothing is the value of blanks."""
    rules = []
    for one in _split(values, "|"):
        parts = _split(one, "+") if fields > 1 else [one]
        if len(parts) != fields:
            problem = (
                f"a value of each of {fields} fields was expected, not '{one.strip()}={record}'"
            )
            raise OptionError(problem, hint=_FORM)
        rules.append(
            KindRule(tuple(_range_of(part, values, record, fields) for part in parts), record)
        )
    return rules


def _range_of(text: str, values: str, record: str, fields: int) -> ValueRange:
    """Parse the value or range of one field."""
    if fields > 1 and text.strip() == REST:
        return ValueRange(None)
    if not text.strip() and (fields > 1 or not values):
        return ValueRange("")
    found = _RANGE.fullmatch(text)
    if found is None:
        raise OptionError(f"VALUE=RECORD was expected, not '{values}={record}'", hint=_FORM)
    return ValueRange(_unquoted(found[1]), found[2] and _unquoted(found[2]))


def _split(text: str, mark: str) -> list[str]:
    """Split a text at a mark outside of quotes."""
    parts, quote, begin = list[str](), "", 0
    for place, character in enumerate(text):
        if character == mark and not quote:
            parts.append(text[begin:place])
            begin = place + 1
        elif character in "'\"" and quote in ("", character):
            quote = "" if quote else character
    return [*parts, text[begin:]]


def _unquoted(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(2 * quote, quote) if quote in "'\"" else text


def _number(text: str) -> Decimal:
    found = Decimal(text.strip(PADDING))
    if not found.is_finite():
        raise InvalidOperation
    return found


def _text_order(size: int, page: CodePage) -> Callable[[str], bytes]:
    def order(text: str) -> bytes:
        padded = text.strip(PADDING).ljust(size)
        raw: bytes = page.encode(pa.array([padded]))[0].as_py()
        return raw

    return order
