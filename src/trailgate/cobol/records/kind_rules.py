"""Which record is of which kind: values and ranges of one field, as ``KIND: H=HEADER, D|E=DETAIL, 10 THRU 19=ITEM, *=OTHER``.

Values are compared as the field's type compares them: numbers as numbers, so that ``01`` is 1; text without the blanks and low-values around it, and
ranges of text by their bytes, as COBOL's collating sequence orders them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as member
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Self

import pyarrow as pa

from trailgate.columnar.code_pages import CodePage
from trailgate.errors import EncodeError, OptionError, Where

REST: Final = "*"
PADDING: Final = " \0"  # around text that is compared
_FORM: Final = "kinds are written FIELD: VALUE=RECORD, VALUE|VALUE=RECORD, LOW THRU HIGH=RECORD"
_LITERAL: Final = r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[^\s'"=|,][^=|,\n]*?"""
_RANGE: Final = re.compile(rf"\s*({_LITERAL})(?:\s+THRU\s+({_LITERAL}))?\s*", re.IGNORECASE)
_ENTRY: Final = re.compile(r"""((?:'[^']*'|"[^"]*"|[^=,\n'"])*)(?:=([^,\n]*))?(?:[,\n]|$)""")


@dataclass(frozen=True, slots=True)
class KindRule:
    """Values from ``low`` to ``high`` of the field, and the record that has them; ``high`` is None for one value."""

    low: str
    high: str | None
    record: str


@dataclass(frozen=True, slots=True)
class RecordKinds:
    """Which records a file holds: ``field`` has the same place in all of them.

    Records of other values are ``rest``; where that is None they are left out with ``others``, else an error. ``parents`` are the kinds that kinds are
    below, by their names.
    """

    field: str
    rules: tuple[KindRule, ...]
    others: bool = False
    rest: str | None = None
    parents: Mapping[str, str] = member(default_factory=dict)

    @property
    def records(self) -> tuple[str, ...]:
        """Return the names of the records in their order."""
        named = [rule.record for rule in self.rules]
        return tuple(dict.fromkeys(named if self.rest is None else [*named, self.rest]))

    def renamed(self, name: Callable[[str], str]) -> RecordKinds:
        """Return the kinds with other names of their field and their records."""
        rules = tuple(KindRule(rule.low, rule.high, name(rule.record)) for rule in self.rules)
        rest = None if self.rest is None else name(self.rest)
        return replace(self, field=name(self.field), rules=rules, rest=rest)

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
        return cls.of(name.strip(), pairs)

    @classmethod
    def of_mapping(cls, kinds: Mapping[str, Any]) -> Self:
        """Return the kinds of ``{FIELD: {VALUE: RECORD}}``, values as in a text; raises OptionError."""
        if len(kinds) != 1:
            raise OptionError("kinds are {FIELD: {VALUE: RECORD}}, with one field")
        ((name, values),) = kinds.items()
        if not isinstance(values, Mapping):
            raise OptionError(f"the kinds by {name} are {{VALUE: RECORD}}, not {values!r}")
        pairs = [(str(v), None if r is None else str(r)) for v, r in values.items()]
        return cls.of(str(name), pairs)

    @classmethod
    def of(cls, name: str, pairs: Iterable[tuple[str, str | None]]) -> Self:
        """Return the kinds of values and records; ``*`` without a record leaves the others out. Raises OptionError."""
        rules: list[KindRule] = []
        others, rest = False, None
        for values, record in pairs:
            if values == REST:
                others, rest = record is None, record or None
            elif not record:
                raise OptionError(f"VALUE=RECORD was expected, not {values!r}")
            else:
                rules += _rules_of(values, record)
        if not name or not rules:
            raise OptionError(_FORM)
        return cls(name, tuple(rules), others, rest)

    def chooser(
        self, kind: pa.DataType, size: int, page: CodePage
    ) -> Callable[[Sequence[Any]], list[str | None]]:
        """Return what gives each distinct value of a column of this type its record, None where no rule has it.

        ``size`` are the bytes of the field, to which texts are padded to be ordered. NULL is the value of a number of blanks or low-values. Raises
        OptionError for a rule whose values the field cannot have.
        """
        is_text = pa.types.is_string(kind)
        if not (is_text or pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
            raise OptionError(f"the field {self.field} has no values that kinds can be chosen by")
        order = _text_order(size, page) if is_text else _number
        blank = next((rule.record for rule in self.rules if not rule.low.strip(PADDING)), self.rest)
        bounds = [
            (self._bound(order, rule.low), self._bound(order, rule.high or rule.low), rule.record)
            for rule in self.rules
            if rule.low.strip(PADDING)
        ]

        def record_of(value: Any) -> str | None:
            text = "" if value is None else str(value).strip(PADDING)
            held = order(text) if text else None
            found = (record for low, high, record in bounds if low <= held <= high)
            return next(found, self.rest) if text else blank

        return lambda values: [record_of(value) for value in values]

    def _bound(self, order: Callable[[str], Any], text: str) -> Any:
        try:
            return order(text)
        except (InvalidOperation, EncodeError):
            problem = f"kinds: the field {self.field} cannot have the value {text!r}"
            raise OptionError(problem, where=Where(field=self.field)) from None


def _rules_of(values: str, record: str) -> list[KindRule]:
    """Return a rule for each value or range between bars; nothing is the value of blanks."""
    if not values:
        return [KindRule("", None, record)]
    rules = []
    at = 0
    while at <= len(values):
        found = _RANGE.fullmatch(values, at, _bar_after(values, at))
        if found is None:
            raise OptionError(f"VALUE=RECORD was expected, not '{values}={record}'", hint=_FORM)
        rules.append(KindRule(_unquoted(found[1]), found[2] and _unquoted(found[2]), record))
        at = found.end() + 1
    return rules


def _bar_after(text: str, at: int) -> int:
    quote = ""
    for place in range(at, len(text)):
        if text[place] == "|" and not quote:
            return place
        if text[place] in "'\"" and quote in ("", text[place]):
            quote = "" if quote else text[place]
    return len(text)


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
