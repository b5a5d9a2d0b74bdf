"""What the rules find in one document: each match, where it is, the values it gives, and the rules without a match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trailgate.messages.properties.rows import SourceKind
from trailgate.messages.properties.values import ValueSource
from trailgate.messages.xml.matches.coverage import like
from trailgate.messages.xml.options import XmlOptions
from trailgate.messages.xml.rules import Rule, Value
from trailgate.messages.xml.tree.documents import Document, Element, names_in, parse_document
from trailgate.messages.xml.tree.matching import Matcher
from trailgate.messages.xml.tree.rule_matching import Match, RuleMatcher


@dataclass(frozen=True, slots=True)
class FoundValue:
    """A property of a rule: where its value comes from, and the value or None."""

    name: str
    source: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Explained:
    """A rule's match: the element's path and line, the values, and the matches below it."""

    rule: str
    type: str
    element: str
    line: int
    values: tuple[FoundValue, ...]
    below: tuple[Explained, ...]


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A rule that has no match where the rule above it has one, its path, and names in the document that are like those of the path."""

    rule: str
    match: str
    like: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the rules find in a document, and those that find nothing."""

    matches: tuple[Explained, ...]
    unmatched: tuple[Unmatched, ...]


def explain(options: XmlOptions, body: bytes) -> Explanation:
    """Return what the rules find in a message; raises DecodeError for a broken one."""
    document = parse_document(body, options.limits, options.encoding)
    found = RuleMatcher(options.rules, Matcher(options.namespaces)).matches(document)
    seen = {match.rule.number for match in _all(found)}
    names = names_in(document.top)
    missed = [rule for rule in _reached(options.rules, seen) if rule.number not in seen]
    return Explanation(
        tuple(_explained(match, document) for match in found),
        tuple(
            Unmatched(rule.name, str(rule.match or "."), like(rule.match, names)) for rule in missed
        ),
    )


def _reached(rules: Iterable[Rule], seen: set[int]) -> Iterator[Rule]:
    """Yield the rules whose parent has a match."""
    for rule in rules:
        yield rule
        if rule.number in seen:
            yield from _reached(rule.subrules, seen)


def _all(matches: Iterable[Match]) -> Iterator[Match]:
    for match in matches:
        yield match
        yield from _all(match.below)


def _explained(match: Match, document: Document) -> Explained:
    values = (_value(name, source, match) for name, source in match.rule.values.items())
    below = sorted(match.below, key=lambda each: each.order)
    return Explained(
        match.rule.name,
        match.rule.type.value,
        _path(match.element),
        document.data.count(b"\n", 0, match.element.start) + 1,
        tuple(values),
        tuple(_explained(each, document) for each in below),
    )


def _value(name: str, source: Value, match: Match) -> FoundValue:
    if isinstance(source, ValueSource):
        literal = source.kind is SourceKind.LITERAL
        return FoundValue(name, str(source), source.name if literal else None)
    value = match.values.get(name)
    if source.accessor is None and value is not None:
        value = "found"
    return FoundValue(name, str(source), value)


def _path(element: Element) -> str:
    """Return an element's path, with its number where others beside it have its name."""
    steps = []
    while element.parent is not None:
        alike = [each for each in element.parent.children if each.name == element.name]
        number = f"[{alike.index(element) + 1}]" if len(alike) > 1 else ""
        steps.append(element.name + number)
        element = element.parent
    return "/" + "/".join(reversed(steps))
