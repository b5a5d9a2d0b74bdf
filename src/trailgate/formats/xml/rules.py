"""Rules that find transactions, operations and columns in XML messages (capture properties §7).

`read_rules` reads the properties of rules. Their values are paths into the message, a subset of
XPath (capture properties §7.3):

    /Orders/Order[@kind = 'new'][2]/Note/text()

A path has steps from the document (`/`), from the current element (`./`) or from an element around
it (`../`). A step is a name or `*`; after `//` it may be at any depth. Predicates in brackets
choose among the elements that a step finds. A path to a value may end with an accessor: `@name`,
`text()`, `content()`, `name()` or `position()`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple

from trailgate.columnar.temporal import DateFormat
from trailgate.errors import OptionError, caret_below, did_you_mean
from trailgate.messages.metadata_options import NUMBERED_INDICATORS, OP_TYPES, TX_INDICATORS
from trailgate.messages.properties import Properties, PropertyEntry
from trailgate.messages.property_reader import (
    HeaderFields,
    Lookup,
    ValueSource,
    configured_format,
    parse_bytes,
    parse_names,
    parse_source,
)
from trailgate.messages.property_rows import SourceKind

_NAME: Final = r"[^\W\d][\w.\-]*"
_QNAME: Final = rf"(?:{_NAME}:)?{_NAME}(?!:)"
# One step or sign of a path: //, .., ., @id, text(), child::, orders or *, [
_TOKEN: Final = re.compile(
    rf"""\s*(?:
    (?P<slash>//?) | (?P<up>\.\.) | (?P<here>\.) |
    @\s*(?P<attribute>{_QNAME}) |
    (?P<function>[\w-]+)\s*\(\s*\) |
    (?P<axis>{_NAME})\s*:: |
    (?P<name>{_QNAME}|\*)(?![\w.\-:*]|\s*\() |
    (?P<open>\[)
    )""",
    re.VERBOSE,
)
# [2], [@type='new'], [text()="x"], [position()=2]
_PREDICATE: Final = re.compile(
    rf"""\[\s*(?:
    (?P<number>\d+) |
    (?:@\s*(?P<attribute>{_QNAME}) | (?P<function>[\w-]+)\s*\(\s*\))
    \s*=\s*(?:'(?P<single>[^']*)' | "(?P<double>[^"]*)" | (?P<digits>\d+))
    )\s*\]""",
    re.VERBOSE,
)
_SUPPORTED: Final = "A path has names, *, /, //, ../, [n], [@a='v'], [text()='v'] and [name()='v']"
_PREFIXES: Final = ("xmlparser.rules.", "xml.")  # capture properties §7.2
GENERATED: Final = (SourceKind.TIMESTAMP, SourceKind.TX_ID, SourceKind.SEQ_ID)
_SYSTEM: Final = ("*ts", "*txid", "*seqid")
_HEADER, _LITERAL = SourceKind.HEADER, SourceKind.LITERAL
_ID: Final = (_HEADER, SourceKind.MESSAGE_ID)


class RuleType(Enum):
    """The types of XML rules: for transactions, operations or columns."""

    TRANSACTION = "tx"
    OPERATION = "op"
    COLUMN = "col"


class RuleProperty(NamedTuple):
    """A property of XML rules, such as `txid`. `types` are the types of rules that may have it.

    Its value is a path into the message, or one of `sources`.
    """

    name: str
    types: tuple[RuleType, ...]
    sources: tuple[SourceKind, ...]
    doc: str


_TX, _OP, _COL = RuleType.TRANSACTION, RuleType.OPERATION, RuleType.COLUMN
_BOTH: Final = (_TX, _OP)

VALUES: Final[tuple[RuleProperty, ...]] = (
    RuleProperty(
        "timestamp",
        _BOTH,
        (_HEADER, SourceKind.TIMESTAMP),
        "commit time; that of an operation overrides its transaction's",
    ),
    RuleProperty(
        "seqid",
        _BOTH,
        (*_ID, SourceKind.SEQ_ID),
        "sequence id; also the transaction's id if there is no `txid`",
    ),
    RuleProperty("txid", _BOTH, (*_ID, SourceKind.TX_ID), "transaction's id"),
    RuleProperty("txowner", _BOTH, (_HEADER, _LITERAL), "user of the transaction"),
    RuleProperty("txname", _BOTH, (_HEADER, _LITERAL), "name of the transaction"),
    RuleProperty("schemaandtable", (_OP,), (_HEADER, _LITERAL), "table, as SCHEMA.TABLE"),
    RuleProperty("schema", (_OP,), (_HEADER, _LITERAL), "schema of the table"),
    RuleProperty("table", (_OP,), (_HEADER, _LITERAL), "table, without its schema"),
    RuleProperty("optype", (_OP,), (_HEADER, _LITERAL), "operation type"),
    RuleProperty(
        "txind", (_OP,), (_HEADER,), "transaction indicator; not below a transaction rule"
    ),
    RuleProperty("name", (_COL,), (_LITERAL,), "column, by name"),
    RuleProperty("index", (_COL,), (_LITERAL,), "column, by number, from 0"),
    *(
        RuleProperty(f"{image}{name}", (_COL,), sources, doc.format(what))
        for image, what in (("", ""), ("before.", "before "), ("after.", "after "))
        for name, sources, doc in (
            ("value", (_LITERAL,), "{}value of the column"),
            ("isnull", (), "the {}value is NULL if the path finds anything"),
            ("ismissing", (), "the {}value is missing if the path finds anything"),
        )
    ),
)

# Other properties of rules, whose values are not paths to values.
OTHERS: Final[dict[str, tuple[RuleType, ...]]] = {
    "type": tuple(RuleType),
    "match": tuple(RuleType),
    "subrules": _BOTH,
    "timestamp.format": _BOTH,
    **{f"optype.{word}val": (_OP,) for word in ("insert", "update", "delete", "truncate")},
    **{f"txind.{word}val": (_OP,) for word in ("begin", "middle", "end", "whole")},
}

# The types of rules that may be below a rule of each type.
SUBRULES: Final = {_TX: (_OP,), _OP: (_OP, _COL), _COL: ()}


class ElementPart(Enum):
    """The part of an XML element that a path compares or returns."""

    ATTRIBUTE = "@"
    TEXT = "text()"
    EXACT_TEXT = "exact text"  # with blanks, "" if there is none; only in built-in rules
    CONTENT = "content()"
    NAME = "name()"
    POSITION = "position()"


@dataclass(frozen=True, slots=True)
class PathName:
    """A name in a path of an XML rule; `*` matches any name.

    A name without a `prefix` matches any namespace.
    """

    local: str
    prefix: str = ""

    def __str__(self) -> str:
        return f"{self.prefix}:{self.local}" if self.prefix else self.local


ANY: Final = PathName("*")


@dataclass(frozen=True, slots=True)
class PathPredicate:
    """A condition on an element in a path of an XML rule: its position, or a part that equals a text."""

    part: ElementPart
    value: str
    attribute: PathName = ANY

    def __str__(self) -> str:
        if self.part is ElementPart.POSITION:
            return f"[{self.value}]"
        part = f"@{self.attribute}" if self.part is ElementPart.ATTRIBUTE else self.part.value
        return f"[{part}='{self.value}']"


@dataclass(frozen=True, slots=True)
class PathStep:
    """One step of an XML rule's path: elements directly below the previous one, or `anywhere` below."""

    name: PathName
    anywhere: bool = False
    predicates: tuple[PathPredicate, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}{''.join(map(str, self.predicates))}"


@dataclass(frozen=True, slots=True)
class PathAccessor:
    """The part of the final element that a path of an XML rule returns."""

    part: ElementPart
    attribute: PathName = ANY

    def __str__(self) -> str:
        return f"@{self.attribute}" if self.part is ElementPart.ATTRIBUTE else self.part.value


@dataclass(frozen=True, slots=True)
class RulePath:
    """A path of an XML rule, for example `../id/text()`.

    It begins at the document (`absolute`), or at the element `up` levels above the current one.
    """

    absolute: bool = False
    up: int = 0
    steps: tuple[PathStep, ...] = ()
    accessor: PathAccessor | None = None

    def prefixes(self) -> Iterator[str]:
        """Yield the namespace prefixes of all names in an XML path, "" for a name without one."""
        for step in self.steps:
            yield from (step.name.prefix, *(p.attribute.prefix for p in step.predicates))
        if self.accessor is not None:
            yield self.accessor.attribute.prefix

    def __str__(self) -> str:
        text = "/".join([".."] * self.up) if self.up else "" if self.absolute else "."
        for step in self.steps:
            text += ("//" if step.anywhere else "/") + str(step)
        return text or "/" if self.accessor is None else f"{text}/{self.accessor}"


# text() and the like, by their names without the parentheses.
_FUNCTIONS: Final = {part.value[:-2]: part for part in ElementPart if part.value.endswith("()")}
_COMPARED: Final = (ElementPart.TEXT, ElementPart.NAME, ElementPart.POSITION)


def parse_path(text: str, *, value: bool) -> RulePath:
    """Parse a path of an XML rule. Only a path to a `value` may have an accessor.

    Raises OptionError, with the path and a caret below the fault, for anything that is not
    supported.
    """
    return _Parser(text, value=value).path()


def path_error(text: str, at: int, problem: str, hint: str = "") -> OptionError:
    """Create an error for a path of an XML rule, with a caret below the character at fault."""
    return OptionError(problem, hint=f"{hint}:{caret_below(text, at)}")


class _Parser:
    """Parses one path of an XML rule from left to right."""

    def __init__(self, text: str, *, value: bool) -> None:
        self.text, self.value = text, value
        self.at = 0
        self.found = RulePath()
        self.pending = ""  # the last slash, until its step follows

    def path(self) -> RulePath:
        """Parse the complete path of an XML rule. Raises OptionError."""
        if not self.text.strip():
            raise path_error(self.text, 0, "the path is empty", _SUPPORTED)
        first = True
        while self.text[self.at :].strip():
            self._token(first=first)
            first = False
        if self.pending and self.text.strip() != "/":
            raise self._error(len(self.text), "a name is expected here")
        return self.found

    def _token(self, *, first: bool) -> None:
        matched = _TOKEN.match(self.text, self.at)
        # Where the token itself starts, after blanks, for the caret in errors.
        start = self.at + len(self.text[self.at :]) - len(self.text[self.at :].lstrip())
        if matched is None:
            raise self._error(start, "this is not understood")
        if self.found.accessor is not None:
            raise self._error(start, f"nothing may follow {self.found.accessor}")
        # Exactly one group of the pattern matches: its name is the token's type.
        kind, word = next((k, v) for k, v in matched.groupdict().items() if v is not None)
        if kind == "axis":
            raise self._error(start, f"the axis {word}:: is not supported")
        if kind not in {"slash", "open"} and not first and not self.pending:
            raise self._error(start, "a / is expected here")
        self.at = matched.end()
        handlers = {
            "slash": self._slash, "up": self._up, "here": self._here, "attribute": self._attribute,
            "function": self._function, "name": self._name, "open": self._predicate,
        }  # fmt: skip
        handlers[kind](word, start)

    def _slash(self, word: str, start: int) -> None:
        if self.pending:
            raise self._error(start, "a name is expected here")
        # A slash at the start: the path begins at the document.
        if not self.text[:start].strip():
            self.found = replace(self.found, absolute=True)
        self.pending = word

    def _up(self, _: str, start: int) -> None:
        if self.found.steps or self.found.absolute or self.pending == "//":
            raise self._error(start, ".. is supported at the beginning of a path only")
        self.found = replace(self.found, up=self.found.up + 1)
        self.pending = ""

    def _here(self, _: str, start: int) -> None:
        if self.pending or self.found.up:
            raise self._error(start, ". is supported at the beginning of a path only")

    def _attribute(self, word: str, start: int) -> None:
        self._access(PathAccessor(ElementPart.ATTRIBUTE, _name(word)), start)

    def _function(self, word: str, start: int) -> None:
        if word not in _FUNCTIONS:
            hint = did_you_mean(word, _FUNCTIONS) or f"There are {_list(_FUNCTIONS)}"
            raise self._error(start, f"the function {word}() is not supported", hint)
        self._access(PathAccessor(_FUNCTIONS[word]), start)

    def _access(self, accessor: PathAccessor, start: int) -> None:
        if not self.value:
            hint = "A match names elements; the rule's other properties read values"
            raise self._error(start, f"{accessor} is a value, not an element", hint)
        if self.pending == "//":
            raise self._error(start, f"// before {accessor} is not supported", "Write //*/ for //")
        self.found, self.pending = replace(self.found, accessor=accessor), ""

    def _name(self, word: str, _: int) -> None:
        step = PathStep(_name(word), anywhere=self.pending == "//")
        self.found, self.pending = replace(self.found, steps=(*self.found.steps, step)), ""

    def _predicate(self, _: str, start: int) -> None:
        matched = _PREDICATE.match(self.text, start)
        if not self.found.steps or self.pending:
            raise self._error(start, "a predicate follows a name or *")
        if matched is None:
            hint = "A predicate is [n], [@a='v'], [text()='v'], [name()='v'] or [position()=n]"
            raise self._error(start, "this predicate is not supported", hint)
        step = self.found.steps[-1]
        added = replace(step, predicates=(*step.predicates, self._condition(matched, start)))
        self.found = replace(self.found, steps=(*self.found.steps[:-1], added))
        self.at = matched.end()

    def _condition(self, matched: re.Match[str], start: int) -> PathPredicate:
        number, attribute = matched["number"], matched["attribute"]
        if number is not None:
            return self._position(number, start)
        given = (matched["single"], matched["double"], matched["digits"])
        value = next(text for text in given if text is not None)
        if attribute is not None:
            return PathPredicate(ElementPart.ATTRIBUTE, value, _name(attribute))
        part = _FUNCTIONS.get(matched["function"])
        if part not in _COMPARED:
            names = _list(p.value[:-2] for p in _COMPARED)
            raise self._error(
                start, f"{matched['function']}() cannot be compared", f"There are {names}"
            )
        if part is ElementPart.POSITION:
            return self._position(value, start)
        return PathPredicate(part, value)

    def _position(self, digits: str, start: int) -> PathPredicate:
        if not digits.isdecimal() or not 0 < int(digits) < 1 << 31:
            raise self._error(start, "a position counts from 1")
        return PathPredicate(ElementPart.POSITION, str(int(digits)))

    def _error(self, at: int, problem: str, hint: str = _SUPPORTED) -> OptionError:
        return path_error(self.text, at, problem, hint)


def _name(word: str) -> PathName:
    prefix, colon, local = word.partition(":")
    return PathName(local, prefix) if colon else PathName(word)


def _list(names: Iterable[str]) -> str:
    return ", ".join(f"{name}()" for name in names)


# By name, without the name of the rule before it.
_PROPERTIES: Final = {row.name: row for row in VALUES}

Value = RulePath | ValueSource


@dataclass(frozen=True, slots=True)
class XmlRule:
    """An XML rule with its subrules. `number` counts all rules, each before its subrules.

    `match` is the path to the rule's elements; a subrule's path begins at the element of the rule
    above. If it is None, the rule applies to the element of the rule above. `values` maps
    properties to the paths or constants that supply them. `codes` maps "optype" and "txind" to
    lookups of their values in messages, for example from b"NEW" to the letter "I".
    """

    number: int
    name: str
    type: RuleType
    match: RulePath | None
    values: Lookup[str, Value]
    subrules: tuple[XmlRule, ...]
    timestamp_format: DateFormat | None = None
    codes: Lookup[str, Lookup[bytes, str]] = field(default_factory=Lookup)

    @property
    def groups(self) -> bool:
        """Whether this XML operation rule only supplies values to the operation rules below it."""
        kinds = {rule.type for rule in self.subrules}
        return self.type is RuleType.OPERATION and kinds == {RuleType.OPERATION}

    def all(self) -> Iterator[XmlRule]:
        """Yield this XML rule and all rules below it, in the order of their numbers."""
        yield self
        for rule in self.subrules:
            yield from rule.all()


def read_rules(properties: Properties) -> tuple[XmlRule, ...]:
    """Read the XML rules named in `xml.rules`. Raises OptionError that names line and property."""
    return _RuleReader(properties).rules()


class _RuleReader:
    """Reads XML rules from the properties whose names begin with the rule's name."""

    def __init__(self, properties: Properties) -> None:
        self.properties = properties
        self.entries: dict[str, dict[str, PropertyEntry]] = {}
        for entry in properties.entries:
            if entry.of_rule:
                self._add(entry)
        self.count = 0
        self.used: set[str] = set()

    def _add(self, entry: PropertyEntry) -> None:
        name = entry.name
        for prefix in _PREFIXES:
            # Example: xmlparser.rules.order.type, xml.order.type and order.type are the same
            # property.
            name = name.removeprefix(prefix)
        # `order.optype.insertval` is the property optype.insertval of the rule order.
        rule, _, own = name.partition(".")
        known = self.entries.setdefault(rule, {})
        earlier = known.get(own)
        if earlier is not None and earlier.value != entry.value:
            problem = f"{entry.written} differs from its value in line {earlier.line}"
            raise self.properties.error(problem, entry)
        known[own] = entry

    def rules(self) -> tuple[XmlRule, ...]:
        """Read the XML rules named in `xml.rules`, with their subrules.

        Raises OptionError if a rule is wrong, or defined but not used.
        """
        entry = self.properties.get("xml.rules")
        if entry is None:
            hint = "It names the rules for parsing messages, such as xml.rules=txrule"
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

    def _names(self, entry: PropertyEntry) -> tuple[str, ...]:
        try:
            return parse_names(entry.value)
        except OptionError as error:
            raise self.properties.error(error.problem, entry, error.hint) from None

    def _rule(
        self, name: str, named: PropertyEntry, parent: RuleType | None, above: tuple[str, ...]
    ) -> XmlRule:
        """Read an XML rule and its subrules.

        `named` is the property that names it, `above` the rules around it.
        """
        own = self.entries.get(name)
        if own is None:
            hint = did_you_mean(name, self.entries) or f"Give {name}.type and its other properties"
            raise self.properties.error(f"there is no rule {name}", named, hint)
        if name in above:
            problem = f"the rule {name} is its own subrule, through {' and '.join(above)}"
            raise self.properties.error(problem, named)
        self.used.add(name)
        kind = self._type(name, own, named)
        if parent is not None and kind not in SUBRULES[parent]:
            allowed = " or ".join(each.value for each in SUBRULES[parent])
            problem = f"{name} is a rule of type {kind.value}; here only {allowed} is allowed"
            raise self.properties.error(problem, named)
        self._check_names(name, kind, own)
        number = self.count
        # The number is taken before the subrules are read, so that each rule has a lower number
        # than they have.
        self.count += 1
        match = self._path(own["match"], value=False) if "match" in own else None
        # The match of a subrule is relative to its parent, even if it is written with a leading
        # slash.
        if match is not None:
            self._check_match(own["match"], match, parent)
            if parent is not None:
                match = replace(match, absolute=False)
        return XmlRule(
            number=number,
            name=name,
            type=kind,
            match=match,
            values=Lookup(tuple(self._values(own))),
            subrules=tuple(self._subrules(name, kind, own, above)),
            timestamp_format=self._time_format(own),
            codes=Lookup(tuple(self._codes(name, own))) if kind is RuleType.OPERATION else Lookup(),
        )

    def _type(
        self, name: str, properties: dict[str, PropertyEntry], named: PropertyEntry
    ) -> RuleType:
        entry = properties.get("type")
        if entry is None:
            raise self.properties.error(f"{name}.type is required", named, "It is tx, op or col")
        for kind in RuleType:
            if kind.value == entry.value.casefold():
                return kind
        raise self.properties.error(
            f"{entry.value} is not a type of rule", entry, "It is tx, op or col"
        )

    def _check_names(
        self, name: str, rule_type: RuleType, properties: dict[str, PropertyEntry]
    ) -> None:
        for word, entry in properties.items():
            row = _PROPERTIES.get(word)
            types = OTHERS.get(word) if row is None else row.types
            if types is None:
                hint = did_you_mean(word, (*_PROPERTIES, *OTHERS), cutoff=0.5)
                raise self.properties.error(f"a rule has no property {word}", entry, hint)
            if rule_type not in types:
                allowed = " and ".join(each.value for each in types)
                problem = (
                    f"{word} belongs to rules of type {allowed}, but {name} is {rule_type.value}"
                )
                raise self.properties.error(problem, entry)
            if not entry.value:
                raise self.properties.error(f"{entry.written} has no value", entry)

    def _check_match(self, entry: PropertyEntry, match: RulePath, parent: RuleType | None) -> None:
        if match.up and parent is None:
            hint = "There is nothing above the message"
            raise self.properties.error("this match cannot begin with ..", entry, hint)

    def _path(self, entry: PropertyEntry, *, value: bool) -> RulePath:
        try:
            return parse_path(entry.value, value=value)
        except OptionError as error:
            raise self.properties.error(error.problem, entry, error.hint) from None

    def _values(self, properties: dict[str, PropertyEntry]) -> Iterator[tuple[str, Value]]:
        for word, entry in properties.items():
            row = _PROPERTIES.get(word)
            if row is not None:
                yield word, self._value(entry, row)

    def _value(self, entry: PropertyEntry, row: RuleProperty) -> Value:
        text = entry.value
        if row.name == "index" and text.isdecimal():
            return ValueSource(SourceKind.LITERAL, str(int(text)))
        # A literal, a header, or a system value; anything else is a path.
        # Examples: "USD" is a literal, $JMSTimestamp a header, *ts a system value, and ./id/text()
        # a path.
        if text[0] in '"$' or text.casefold() in _SYSTEM:
            try:
                return parse_source(text, row.sources, HeaderFields())
            except OptionError as error:
                hint = error.hint or "A path into the message is written as ./name/text()"
                raise self.properties.error(error.problem, entry, hint) from None
        path = self._path(entry, value=True)
        exists = row.name.endswith(("isnull", "ismissing"))
        if path.accessor is None and not exists:
            hint = f"End the path with an accessor, such as {text.rstrip('/')}/text() or @name"
            if SourceKind.LITERAL in row.sources:
                hint += f'; if it is the value itself, write it in quotes: "{text}"'
            raise self.properties.error(f"{text} leads to an element, not to a value", entry, hint)
        return path

    def _subrules(
        self,
        name: str,
        rule_type: RuleType,
        properties: dict[str, PropertyEntry],
        above: tuple[str, ...],
    ) -> Iterator[XmlRule]:
        entry = properties.get("subrules")
        for word in () if entry is None else self._names(entry):
            assert entry is not None
            yield self._rule(word, entry, rule_type, (*above, name))

    def _time_format(self, properties: dict[str, PropertyEntry]) -> DateFormat | None:
        entry = properties.get("timestamp.format")
        return None if entry is None else configured_format(self.properties, entry)

    def _codes(
        self, name: str, properties: dict[str, PropertyEntry]
    ) -> Iterator[tuple[str, Lookup[bytes, str]]]:
        yield "optype", self._lookup(name, properties, "optype", OP_TYPES)
        indicators = self._lookup(name, properties, "txind", TX_INDICATORS)
        # Without txind.*val properties, 0 to 3 are accepted too.
        numbered = not any(word.startswith("txind.") for word in properties)
        yield "txind", Lookup((*indicators.pairs, *NUMBERED_INDICATORS)) if numbered else indicators

    def _lookup(
        self,
        name: str,
        properties: dict[str, PropertyEntry],
        what: str,
        kinds: Iterable[tuple[str, str]],
    ) -> Lookup[bytes, str]:
        """Build an XML rule's lookup from codes in messages to letters of operation types or indicators.

        `what` is "optype" or "txind". `kinds` are words and their letters, such as ("insert", "I").
        Raises OptionError if two codes are equal.
        """
        found: dict[bytes, str] = {}
        for word, letter in kinds:
            entry = properties.get(f"{what}.{word}val")
            code = letter.encode() if entry is None else parse_bytes(entry.value)
            if code in found:
                shown = code.decode(errors="replace")
                problem = f"{shown} is the code of two values of {name}.{what}"
                raise self.properties.error(problem, entry)
            found[code] = letter
        return Lookup(tuple(found.items()))

    def _check_indicators(self, tops: list[XmlRule], entry: PropertyEntry) -> None:
        """Check which XML rules have txind, the transaction indicator.

        Raises OptionError if a rule below a transaction rule has it, or if only some of the other
        top-level rules have it (or a rule below them).
        """
        below = [rule for top in tops if top.type is RuleType.TRANSACTION for rule in top.all()]
        for rule in below:
            if "txind" in rule.values:
                own = self.entries[rule.name]["txind"]
                hint = "A transaction rule already defines the bounds of transactions"
                problem = f"{rule.name} is below a transaction rule and cannot have txind"
                raise self.properties.error(problem, own, hint)
        with_it = [any("txind" in rule.values for rule in top.all()) for top in tops]
        # Rules of transactions need no txind: their element is the transaction.
        without = [
            top.name
            for top, own in zip(tops, with_it, strict=True)
            if top.type is not RuleType.TRANSACTION and not own
        ]
        if any(with_it) and without:
            problem = f"some rules have txind, but {without[0]} has none"
            hint = "With txind, transactions may span messages: all operations outside of transaction rules must have it"
            raise self.properties.error(problem, entry, hint)
