"""Rules that determine the kind of a record from the values of its fields.

They are written as ``KIND: H=HEADER, D|E=DETAIL, 10 THRU 19=ITEM, *=OTHER``. Several fields can be
combined, as in ``KIND + PART: D + 1=DETAIL, D + *=OTHER``: one value for each field, where ``*``
matches any value.

Values are compared by the field's type. Numbers compare as numbers, so ``01`` equals 1. Text is
compared without surrounding blanks and low-values, and ranges of text by their bytes, which is
COBOL's collating sequence.
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
PADDING: Final = " \0"  # stripped from text before comparing
_HINT: Final = "They are written FIELD: VALUE=RECORD, VALUE|VALUE=RECORD, LOW THRU HIGH=RECORD, and of several fields FIELD + FIELD: VALUE + VALUE=RECORD"
_LITERAL: Final = r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[^\s'"=|,][^=|,\n]*?"""
# A THRU F, or '01' alone
_RANGE: Final = re.compile(rf"\s*({_LITERAL})(?:\s+THRU\s+({_LITERAL}))?\s*", re.IGNORECASE)
# One of H=HEADER, D|E=DETAIL: the values and the record
_ENTRY: Final = re.compile(r"""((?:'[^']*'|"[^"]*"|[^=,\n'"])*)(?:=([^,\n]*))?(?:[,\n]|$)""")


class ValueRange(NamedTuple):
    """A range of a key field's values from ``low`` to ``high``, or only ``low`` if ``high`` is None.

    ``low`` is None for any value, and "" for blanks.
    """

    low: str | None
    high: str | None = None

    def __str__(self) -> str:
        if self.low is None:
            return REST
        return f"{self.low!r} to {self.high!r}" if self.high else repr(self.low)


@dataclass(frozen=True, slots=True)
class KindRule:
    """One rule: a value range per key field, and the record kind of the records whose values are in these ranges."""

    values: tuple[ValueRange, ...]
    record: str

    def __str__(self) -> str:
        return " + ".join(map(str, self.values))


@dataclass(frozen=True, slots=True)
class RecordKinds:
    """The record kinds of a file, and the fields whose values determine a record's kind.

    Records that no rule matches are of the kind ``rest``. If ``rest`` is None, they are skipped if
    ``skips_others`` is set, and are errors otherwise. ``parents`` maps kinds to their parent kinds.
    """

    fields: tuple[str, ...]
    rules: tuple[KindRule, ...]
    skips_others: bool = False
    rest: str | None = None
    parents: Mapping[str, str] = member(default_factory=dict)

    @property
    def field(self) -> str:
        """The names of the key fields, joined for error messages: ``TYPE + SUBTYPE``."""
        return " + ".join(self.fields)

    @property
    def records(self) -> tuple[str, ...]:
        """The names of the records that the rules choose, each once, in order."""
        named = [rule.record for rule in self.rules]
        return tuple(dict.fromkeys(named if self.rest is None else [*named, self.rest]))

    def with_names(self, name: Callable[[str], str]) -> RecordKinds:
        """Return these record kinds with new names of fields and records: ``name(old)``."""
        rules = tuple(replace(rule, record=name(rule.record)) for rule in self.rules)
        rest = None if self.rest is None else name(self.rest)
        return replace(self, fields=tuple(map(name, self.fields)), rules=rules, rest=rest)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse rules of record kinds such as ``TYPE: H=HEADER, D=DETAIL``. Raises OptionError."""
        name, colon, entries = text.partition(":")
        if not colon:
            raise OptionError(f"kinds: {text.strip()!r} has no colon after the field", hint=_HINT)
        pairs = []
        for entry in _ENTRY.finditer(entries):
            values, record = entry[1].strip(), entry[2]
            if values or record is not None:
                pairs.append((values, None if record is None else record.strip()))
        if "".join(entry[0] for entry in _ENTRY.finditer(entries)) != entries:
            problem = f"kinds: a quote is not closed, or followed by text: {entries.strip()!r}"
            raise OptionError(problem, where=Where(field=name.strip()), hint=_HINT)
        return cls.of([one.strip() for one in name.split("+")], pairs)

    @classmethod
    def of_mapping(cls, kinds: Mapping[str, Any]) -> Self:
        """Build record kinds from a mapping ``{FIELD: {VALUE: RECORD}}``. Raises OptionError.

        Several fields are a tuple or text: ``{("A", "B"): {("1", "2"): RECORD}}`` or ``{"A + B":
        {"1 + 2": RECORD}}``.
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
        """Build record kinds from the fields' names, and pairs such as ``("D|E", "DETAIL")``.

        Raises OptionError.

        ``*`` with a record matches all others; ``*`` without one skips them.
        """
        rules: list[KindRule] = []
        others, rest = False, None
        for values, record in pairs:
            if values == REST:
                if others or rest is not None:
                    problem = "kinds: * is stated twice"
                    raise OptionError(problem, where=Where(field=" + ".join(names)))
                others, rest = record is None, record or None
            elif not record:
                problem = f"kinds: VALUE=RECORD was expected, not {values!r}"
                raise OptionError(problem, where=Where(field=" + ".join(names)), hint=_HINT)
            else:
                rules += _rules_of(values, record, len(names))
        if not names or not all(names):
            raise OptionError("kinds: the name of a field is missing", hint=_HINT)
        if not rules:
            problem = "kinds: no value has a record"
            raise OptionError(problem, where=Where(field=" + ".join(names)), hint=_HINT)
        return cls(tuple(names), tuple(rules), others, rest)

    def chooser(
        self, columns: Sequence[KeyColumn]
    ) -> Callable[[Sequence[Sequence[Any]]], list[str | None]]:
        """Return a function that maps combinations of key values to record kinds.

        If no rule matches, the kind is ``rest``, which may be None. A key value that is NULL, as of a
        number of blanks or low-values, counts as blanks. Raises OptionError if a rule has a value
        that the field cannot have.
        """
        orders = [column.order(name) for column, name in zip(columns, self.fields, strict=True)]
        tests = [
            (
                [
                    _interval(name, order, values)
                    for name, order, values in zip(self.fields, orders, rule.values, strict=True)
                ],
                rule,
            )
            for rule in self.rules
        ]
        self._refuse_rules_without_effect(tests)

        def record_of(values: Sequence[Any]) -> str | None:
            texts = ["" if value is None else str(value).strip(PADDING) for value in values]
            keys = [
                order(text) if text else None for order, text in zip(orders, texts, strict=True)
            ]
            for intervals, rule in tests:
                if all(one.has(key) for one, key in zip(intervals, keys, strict=True)):
                    return rule.record
            return self.rest

        return lambda values: [record_of(value) for value in values]

    def _refuse_rules_without_effect(
        self, tests: Sequence[tuple[Sequence[_Interval], KindRule]]
    ) -> None:
        """Raise OptionError if a rule can never apply, because earlier rules assign all its values to another record.

        An example is ``C=CUST, C=ORD``. Rules of the same record may overlap.
        """
        for at, (intervals, rule) in enumerate(tests):
            for earlier, before in tests[:at]:
                if before.record != rule.record and all(
                    outer.covers(inner) for outer, inner in zip(earlier, intervals, strict=True)
                ):
                    problem = f"kinds: {rule}={rule.record} has no effect, since {before}={before.record} before it has these values"
                    hint = "The first rule that matches chooses the record"
                    raise OptionError(problem, where=Where(field=self.field), hint=hint)


class KeyColumn(NamedTuple):
    """A decoded key field: its column type, its size in bytes, and its code page."""

    type: pa.DataType
    size: int
    page: CodePage

    def order(self, name: str) -> Callable[[str], Any]:
        """Return a function that converts a key value's text to a value that can be compared.

        Raises OptionError if kinds cannot be chosen by a field of this type.
        """
        if pa.types.is_string(self.type):
            return _text_order(self.size, self.page)
        if pa.types.is_integer(self.type) or pa.types.is_decimal(self.type):
            return _number
        raise OptionError(f"kinds cannot be chosen by the field {name}: its type is {self.type}")


@dataclass(frozen=True, slots=True)
class _Interval:
    """An interval of a key field's comparable values.

    With ``is_any`` it contains every value. Otherwise, if ``low`` is None, it contains only blanks.
    """

    low: Any = None
    high: Any = None
    is_any: bool = False

    def has(self, value: Any) -> bool:
        """Return True if a key value is in the interval. None stands for blanks."""
        if self.is_any or value is None or self.low is None:
            return self.is_any or value is self.low
        return bool(self.low <= value <= self.high)

    def covers(self, other: _Interval) -> bool:
        """Return True if all key values of another interval are in this one."""
        return self.is_any or (not other.is_any and self.has(other.low) and self.has(other.high))


def _interval(name: str, order: Callable[[str], Any], values: ValueRange) -> _Interval:
    """Return the interval of a range. Raises OptionError if the field cannot have its values."""
    low, high = values
    if low is None:
        return _Interval(is_any=True)
    if not low.strip(PADDING):
        return _Interval()
    try:
        interval = _Interval(order(low), order(high or low))
    except (InvalidOperation, EncodeError):
        problem = f"kinds: the field {name} cannot have the value {low if high is None else high!r}"
        raise OptionError(problem, where=Where(field=name)) from None
    if interval.low > interval.high:
        hint = f"Write {high} THRU {low}; text is compared in the order of its code page"
        raise OptionError(f"kinds: {values} has no values", where=Where(field=name), hint=hint)
    return interval


def _text_of(values: Any) -> str:
    """Format a tuple of key values as in a rule: ``(1, 2)`` becomes ``'1' + '2'``."""
    if not isinstance(values, tuple):
        return str(values)
    quoted = ("'" + str(value).replace("'", "''") + "'" for value in values)
    parts = (
        REST if str(value) == REST else text for value, text in zip(values, quoted, strict=True)
    )
    return " + ".join(parts)


def _rules_of(values: str, record: str, fields: int) -> list[KindRule]:
    """Parse the values of one kind, such as ``D|E``, into one rule each.

    An empty value stands for blanks.
    """
    rules = []
    for alternative in _split(values, "|"):
        parts = _split(alternative, "+") if fields > 1 else [alternative]
        if len(parts) != fields:
            problem = f"kinds: a value of each of {fields} fields was expected, not '{alternative.strip()}={record}'"
            raise OptionError(problem, hint=_HINT)
        rules.append(
            KindRule(tuple(_range_of(part, values, record, fields) for part in parts), record)
        )
    return rules


def _range_of(text: str, values: str, record: str, fields: int) -> ValueRange:
    """Parse the value or range of one field, such as ``10 THRU 19``.

    ``values`` and ``record`` are the complete rule, for errors. ``fields`` is the number of fields.
    """
    if fields > 1 and text.strip() == REST:
        return ValueRange(None)
    if not text.strip() and (fields > 1 or not values):
        return ValueRange("")
    match = _RANGE.fullmatch(text)
    if match is None:
        problem = f"kinds: VALUE=RECORD was expected, not '{values}={record}'"
        raise OptionError(problem, hint=_HINT)
    return ValueRange(_unquote(match[1]), match[2] and _unquote(match[2]))


def _split(text: str, mark: str) -> list[str]:
    """Split a rule of record kinds at a mark such as ``|``, but not inside quotes."""
    parts, quote, begin = list[str](), "", 0
    for index, character in enumerate(text):
        if character == mark and not quote:
            parts.append(text[begin:index])
            begin = index + 1
        elif character in "'\"" and quote in ("", character):
            quote = "" if quote else character
    return [*parts, text[begin:]]


def _unquote(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(2 * quote, quote) if quote in "'\"" else text


def _number(text: str) -> Decimal:
    number = Decimal(text.strip(PADDING))
    if not number.is_finite():
        raise InvalidOperation
    return number


def _text_order(size: int, page: CodePage) -> Callable[[str], bytes]:
    def order(text: str) -> bytes:
        padded = text.strip(PADDING).ljust(size)
        raw: bytes = page.encode(pa.array([padded]))[0].as_py()
        return raw

    return order
