"""The rules that find transactions, operations and columns in XML messages (capture properties §7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from trailgate.columnar.datetime_formats import DateFormat
from trailgate.errors import OptionError, did_you_mean
from trailgate.messages.properties.file import Entry, Properties
from trailgate.messages.properties.metadata import NUMBERED_INDICATORS, OP_TYPES, TX_INDICATORS
from trailgate.messages.properties.reader import configured_format
from trailgate.messages.properties.rows import SourceKind
from trailgate.messages.properties.values import (
    HeaderFields,
    Lookup,
    ValueSource,
    parse_bytes,
    parse_names,
    parse_source,
)
from trailgate.messages.properties.xml_rules import (
    OTHERS,
    SUBRULES,
    VALUES,
    RuleProperty,
    RuleType,
)
from trailgate.messages.xml.paths import Path, parse_path

_PREFIXES: Final = ("xmlparser.rules.", "xml.")  # capture properties §7.2
GENERATED: Final = (SourceKind.TIMESTAMP, SourceKind.TX_ID, SourceKind.SEQ_ID)
_SYSTEM: Final = ("*ts", "*txid", "*seqid")
_PROPERTIES: Final = {row.name: row for row in VALUES}

Value = Path | ValueSource


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule with its subrules. ``number`` counts the rules of all messages, each before its subrules.

    ``match`` is None where the rule is applied to its parent's element; a subrule's begins there, or above with ``..``.
    ``codes`` are the values of operation types and indicators, by ``optype`` and ``txind``.
    """

    number: int
    name: str
    type: RuleType
    match: Path | None
    values: Lookup[str, Value]
    subrules: tuple[Rule, ...]
    timestamp_format: DateFormat | None = None
    codes: Lookup[str, Lookup[bytes, str]] = field(default_factory=Lookup)

    @property
    def groups(self) -> bool:
        """Return whether an operation rule only gives values to the operations below it."""
        kinds = {rule.type for rule in self.subrules}
        return self.type is RuleType.OPERATION and kinds == {RuleType.OPERATION}

    def all(self) -> Iterator[Rule]:
        """Yield this rule and all below it, in the order of their numbers."""
        yield self
        for rule in self.subrules:
            yield from rule.all()


def read_rules(properties: Properties) -> tuple[Rule, ...]:
    """Return the rules that ``xml.rules`` names; raises OptionError that names line and property."""
    return _RuleReader(properties).rules()


class _RuleReader:
    """Reads rules from the properties that begin with their names."""

    def __init__(self, properties: Properties) -> None:
        self.properties = properties
        self.entries: dict[str, dict[str, Entry]] = {}
        for entry in properties.entries:
            if entry.of_rule:
                self._add(entry)
        self.count = 0
        self.used: set[str] = set()

    def _add(self, entry: Entry) -> None:
        name = entry.name
        for prefix in _PREFIXES:
            name = name.removeprefix(prefix)
        rule, _, own = name.partition(".")
        known = self.entries.setdefault(rule, {})
        earlier = known.get(own)
        if earlier is not None and earlier.value != entry.value:
            problem = f"{entry.written} differs from its value in line {earlier.line}"
            raise self.properties.error(problem, entry)
        known[own] = entry

    def rules(self) -> tuple[Rule, ...]:
        """Return the top rules."""
        entry = self.properties.get("xml.rules")
        if entry is None:
            hint = "It names the rules that messages are parsed by, as xml.rules=txrule"
            raise self.properties.error("xml.rules is required", hint=hint)
        tops = [self._rule(name, entry, None, ()) for name in self._names(entry)]
        for top in tops:
            if top.type is RuleType.COLUMN:
                raise self.properties.error(
                    f"{top.name} is a column rule, which must be a subrule of an operation rule",
                    entry,
                )
        for name, own in self.entries.items():
            if name not in self.used:
                hint = did_you_mean(name, self.used) or "Name it in xml.rules or in subrules"
                first = next(iter(own.values()))
                raise self.properties.error(f"no rule {name} is in use", first, hint)
        self._check_indicators(tops, entry)
        return tuple(tops)

    def _names(self, entry: Entry) -> tuple[str, ...]:
        try:
            return parse_names(entry.value)
        except OptionError as error:
            raise self.properties.error(error.problem, entry, error.hint) from None

    def _rule(
        self, name: str, named: Entry, parent: RuleType | None, above: tuple[str, ...]
    ) -> Rule:
        """Return a rule that the entry ``named`` names, with its subrules."""
        own = self.entries.get(name)
        if own is None:
            hint = did_you_mean(name, self.entries) or f"Give {name}.type and its other properties"
            raise self.properties.error(f"there is no rule {name}", named, hint)
        if name in above:
            problem = f"the rule {name} is its own subrule, by {' and '.join(above)}"
            raise self.properties.error(problem, named)
        self.used.add(name)
        kind = self._type(name, own, named)
        if parent is not None and kind not in SUBRULES[parent]:
            allowed = " or ".join(each.value for each in SUBRULES[parent])
            problem = f"{name} is a rule of type {kind.value}; here only {allowed} is allowed"
            raise self.properties.error(problem, named)
        self._check_names(name, kind, own)
        number = self.count
        self.count += 1
        match = self._path(own["match"], value=False) if "match" in own else None
        if match is not None:
            self._check_match(own["match"], match, parent)
            if parent is not None:
                match = replace(match, absolute=False)
        return Rule(
            number,
            name,
            kind,
            match,
            Lookup(tuple(self._values(own))),
            tuple(self._subrules(name, kind, own, above)),
            self._time_format(own),
            Lookup(tuple(self._codes(name, own))) if kind is RuleType.OPERATION else Lookup(),
        )

    def _type(self, name: str, own: dict[str, Entry], named: Entry) -> RuleType:
        entry = own.get("type")
        if entry is None:
            raise self.properties.error(f"{name}.type is required", named, "It is tx, op or col")
        for kind in RuleType:
            if kind.value == entry.value.casefold():
                return kind
        raise self.properties.error(
            f"{entry.value} is not a type of rule", entry, "It is tx, op or col"
        )

    def _check_names(self, name: str, kind: RuleType, own: dict[str, Entry]) -> None:
        for word, entry in own.items():
            row = _PROPERTIES.get(word)
            types = OTHERS.get(word) if row is None else row.types
            if types is None:
                hint = did_you_mean(word, (*_PROPERTIES, *OTHERS), cutoff=0.5)
                raise self.properties.error(f"a rule has no property {word}", entry, hint)
            if kind not in types:
                allowed = " and ".join(each.value for each in types)
                problem = f"{word} belongs to rules of type {allowed}, and {name} is {kind.value}"
                raise self.properties.error(problem, entry)
            if not entry.value:
                raise self.properties.error(f"{entry.written} has no value", entry)

    def _check_match(self, entry: Entry, match: Path, parent: RuleType | None) -> None:
        if match.up and parent is None:
            hint = "There is nothing above the message"
            raise self.properties.error("this match cannot begin with ..", entry, hint)

    def _path(self, entry: Entry, *, value: bool) -> Path:
        try:
            return parse_path(entry.value, value=value)
        except OptionError as error:
            raise self.properties.error(error.problem, entry, error.hint) from None

    def _values(self, own: dict[str, Entry]) -> Iterator[tuple[str, Value]]:
        for word, entry in own.items():
            row = _PROPERTIES.get(word)
            if row is not None:
                yield word, self._value(entry, row)

    def _value(self, entry: Entry, row: RuleProperty) -> Value:
        text = entry.value
        if row.name == "index" and text.isdecimal():
            return ValueSource(SourceKind.LITERAL, str(int(text)))
        if text[0] in '"$' or text.casefold() in _SYSTEM:
            try:
                return parse_source(text, row.sources, HeaderFields())
            except OptionError as error:
                hint = error.hint or "A path into the message is written as ./name/text()"
                raise self.properties.error(error.problem, entry, hint) from None
        path = self._path(entry, value=True)
        exists = row.name.endswith(("isnull", "ismissing"))
        if path.accessor is None and not exists:
            hint = f"End the path with an accessor, as {text.rstrip('/')}/text() or @name"
            if SourceKind.LITERAL in row.sources:
                hint += f'; where it is the value itself, write it in quotes: "{text}"'
            raise self.properties.error(f"{text} leads to an element, not to a value", entry, hint)
        return path

    def _subrules(
        self, name: str, kind: RuleType, own: dict[str, Entry], above: tuple[str, ...]
    ) -> Iterator[Rule]:
        entry = own.get("subrules")
        for word in () if entry is None else self._names(entry):
            assert entry is not None
            yield self._rule(word, entry, kind, (*above, name))

    def _time_format(self, own: dict[str, Entry]) -> DateFormat | None:
        entry = own.get("timestamp.format")
        return None if entry is None else configured_format(self.properties, entry)

    def _codes(self, name: str, own: dict[str, Entry]) -> Iterator[tuple[str, Lookup[bytes, str]]]:
        yield "optype", self._lookup(name, own, "optype", OP_TYPES)
        found = self._lookup(name, own, "txind", TX_INDICATORS)
        numbered = not any(word.startswith("txind.") for word in own)
        yield "txind", Lookup((*found.pairs, *NUMBERED_INDICATORS)) if numbered else found

    def _lookup(
        self, name: str, own: dict[str, Entry], what: str, kinds: Iterable[tuple[str, str]]
    ) -> Lookup[bytes, str]:
        """Return the codes of a rule's operation types or indicators; two equal ones are an error."""
        found: dict[bytes, str] = {}
        for word, letter in kinds:
            entry = own.get(f"{what}.{word}val")
            code = letter.encode() if entry is None else parse_bytes(entry.value)
            if code in found:
                shown = code.decode(errors="replace")
                problem = f"{shown} is the code of two values of {name}.{what}"
                raise self.properties.error(problem, entry)
            found[code] = letter
        return Lookup(tuple(found.items()))

    def _check_indicators(self, tops: list[Rule], entry: Entry) -> None:
        """Raise OptionError where an indicator is below a transaction rule, or only some of the other rules have one."""
        below = [rule for top in tops if top.type is RuleType.TRANSACTION for rule in top.all()]
        for rule in below:
            if "txind" in rule.values:
                own = self.entries[rule.name]["txind"]
                hint = "A transaction rule gives the bounds of transactions itself"
                problem = f"{rule.name} is below a transaction rule and cannot have txind"
                raise self.properties.error(problem, own, hint)
        with_it = [any("txind" in rule.values for rule in top.all()) for top in tops]
        without = [
            top.name
            for top, own in zip(tops, with_it, strict=True)
            if top.type is not RuleType.TRANSACTION and not own
        ]
        if any(with_it) and without:
            problem = f"some rules have txind, and {without[0]} has none"
            hint = "With txind all operations must have it, but those of transaction rules: transactions may span messages"
            raise self.properties.error(problem, entry, hint)
