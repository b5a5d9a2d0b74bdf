"""Report which XML rules match in a run, and which of their paths find values.

At the end of a run, warnings name rules that never matched, and paths that never found a value or
found several. Each batch records its results as notes such as "matched orders"; the notes of all
workers are merged. `explain_message` shows the same for one document:
each match with its position and values, and the rules without a match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from trailgate.errors import nearest_name
from trailgate.formats.xml.documents import XmlDocument, XmlElement, parse_document
from trailgate.formats.xml.kernels.match_records import mark_rules
from trailgate.formats.xml.matches import AGAIN, PATHS, RuleMatches
from trailgate.formats.xml.matching import PathMatcher, RuleMatch, RuleMatcher
from trailgate.formats.xml.options import XmlOptions
from trailgate.formats.xml.rules import ANY, ElementPart, RulePath, Value, XmlRule
from trailgate.messages.property_reader import ValueSource
from trailgate.messages.property_rows import SourceKind

MOST_NAMES: Final = 1000  # names that a batch records
_MATCHED, _NAME, _FOUND, _AGAIN = "matched ", "name ", "found ", "again "
_OWN: Final = (_MATCHED, _NAME, _FOUND, _AGAIN)


class RuleCoverage:
    """Records which XML rules match in a run, and what their paths find."""

    def __init__(self, rules: Sequence[XmlRule]) -> None:
        self.rules = rules
        every = [rule for top in rules for rule in top.all()]
        self.paths = {
            rule.name: tuple(name for name in PATHS if isinstance(rule.values.get(name), RulePath))
            for rule in every
        }
        # In the order of the marks of `mark_rules`. Literals are always found, so they get no mark.
        self.texts = [
            text
            for rule in every
            for text in (
                f"{_MATCHED}{rule.name}",
                *(f"{_FOUND}{rule.name} {name}" for name in PATHS),
                *(f"{_AGAIN}{rule.name} {name}" for name in PATHS),
            )
        ]
        self.noted = np.array(
            [[True, *(name in self.paths[rule.name] for name in PATHS * 2)] for rule in every]
        )

    def seen(self, matches: RuleMatches, names: Iterable[str]) -> frozenset[str]:
        """Return which rules matched in a batch and which of their paths found values, as notes such as "matched orders" (see the module docstring)."""
        seen = np.zeros(self.noted.shape, bool)
        for found in (matches.outer, matches.operations, matches.columns):
            # A value's length is in the field after its start. 0 means that records lack the property.
            again, *lengths = (found.fields.get(name, -1) + 1 for name in (AGAIN, *PATHS))
            mark_rules(found.records, found.width, np.array(lengths), again, seen.reshape(-1))
        marked = np.flatnonzero(seen & self.noted)
        notes = frozenset(self.texts[number] for number in marked.tolist())
        matched_and_found = slice(0, 1 + len(PATHS))
        # Names are recorded only if something was not found, to suggest similar ones.
        if (self.noted & ~seen)[:, matched_and_found].any():
            notes |= {f"{_NAME}{name}" for name in sorted(names)[:MOST_NAMES]}
        return notes

    def warnings(self, notes: frozenset[str]) -> frozenset[str]:
        """Replace a run's notes about XML rules by warnings. Other notes are kept.

        Without notes about rules, no message could be read. Then nothing is known about the rules,
        and there are no warnings about them.
        """
        if not any(note.startswith(_OWN) for note in notes):
            return notes
        names = {note.removeprefix(_NAME) for note in notes if note.startswith(_NAME)}
        texts = set(self.other_notes(notes))
        for rule in self._rules_without_match(self.rules, notes):
            similar = _similar_names(similar_names(rule.match, names))
            texts.add(f"the rule {rule.name} never matched: {rule.match or '.'}{similar}")
        for top in self.rules:
            for rule in top.all():
                if f"{_MATCHED}{rule.name}" in notes:
                    texts.update(self._without_values(rule, notes, names))
        return frozenset(texts)

    @staticmethod
    def other_notes(notes: frozenset[str]) -> frozenset[str]:
        """Return the notes of a run that are not about XML rules."""
        return frozenset(note for note in notes if not note.startswith(_OWN))

    def _without_values(
        self, rule: XmlRule, notes: frozenset[str], names: set[str]
    ) -> Iterator[str]:
        """Yield warnings about an XML rule's paths that found several values, or never found one.

        Messages may have only one of the images. Therefore, if some of the rule's paths found a
        value, a path that found nothing is only reported if the messages have a similar name.
        """
        paths = self.paths[rule.name]
        missed = [name for name in paths if f"{_FOUND}{rule.name} {name}" not in notes]
        for name in paths:
            if f"{_AGAIN}{rule.name} {name}" in notes:
                yield f"{rule.name}.{name} found several values at once, of which the first counts: {rule.values[name]}"
        for name in missed:
            path = rule.values[name]
            assert isinstance(path, RulePath)
            near = similar_names(path, names)
            if near or len(missed) == len(paths):
                yield f"{rule.name}.{name} never found anything: {path}{_similar_names(near)}"

    def _rules_without_match(
        self, rules: Iterable[XmlRule], notes: frozenset[str]
    ) -> Iterator[XmlRule]:
        """Yield the XML rules that never matched although the rule above them did."""
        for rule in rules:
            if f"{_MATCHED}{rule.name}" in notes:
                yield from self._rules_without_match(rule.subrules, notes)
            else:
                yield rule


def _similar_names(near: tuple[str, ...]) -> str:
    return f"; the messages have {', '.join(near)}" if near else ""


def similar_names(path: RulePath | None, names: Iterable[str]) -> tuple[str, ...]:
    """Suggest names for an XML path: the most similar name for each one that occurs in no message."""
    known = set(names)
    if path is None:
        return ()
    wanted = {step.name.local for step in path.steps}
    if path.accessor is not None and path.accessor.part is ElementPart.ATTRIBUTE:
        wanted.add(path.accessor.attribute.local)
    wanted -= known | {ANY.local}
    return tuple(sorted({near for name in wanted if (near := nearest_name(name, known))}))


@dataclass(frozen=True, slots=True)
class ExplainedValue:
    """A property of an explained XML rule: its name, the path or constant that it is read from, and its value or None."""

    name: str
    source: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ExplainedMatch:
    """A match of an explained XML rule: the element's path and line, and the values.

    `below` are the matches of the rule's subrules inside this element.
    """

    rule: str
    type: str
    element: str
    line: int
    values: tuple[ExplainedValue, ...]
    below: tuple[ExplainedMatch, ...]


@dataclass(frozen=True, slots=True)
class UnmatchedRule:
    """An XML rule without a match although the rule above it has one.

    `match` is its path, and `like` are similar names in the document.
    """

    rule: str
    match: str
    like: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The matches of the XML rules in a document, and the rules without a match."""

    matches: tuple[ExplainedMatch, ...]
    unmatched: tuple[UnmatchedRule, ...]


def explain_message(options: XmlOptions, body: bytes) -> Explanation:
    """Explain which elements of a message the XML rules match.

    Raises DecodeError if it is malformed.
    """
    document = parse_document(body, options.limits, options.encoding)
    matches = RuleMatcher(options.rules, PathMatcher(options.namespaces)).matches(document)
    seen = {match.rule.number for match in _all(matches)}
    names = document.top.names()
    missed = [rule for rule in _reached_rules(options.rules, seen) if rule.number not in seen]
    return Explanation(
        tuple(_explain(match, document) for match in matches),
        tuple(
            UnmatchedRule(rule.name, str(rule.match or "."), similar_names(rule.match, names))
            for rule in missed
        ),
    )


def _reached_rules(rules: Iterable[XmlRule], seen: set[int]) -> Iterator[XmlRule]:
    """Yield the top-level XML rules, and all rules whose parent has a match."""
    for rule in rules:
        yield rule
        if rule.number in seen:
            yield from _reached_rules(rule.subrules, seen)


def _all(matches: Iterable[RuleMatch]) -> Iterator[RuleMatch]:
    for match in matches:
        yield match
        yield from _all(match.below)


def _explain(match: RuleMatch, document: XmlDocument) -> ExplainedMatch:
    values = (_value(name, source, match) for name, source in match.rule.values.items())
    below = sorted(match.below, key=lambda each: each.order)
    return ExplainedMatch(
        rule=match.rule.name,
        type=match.rule.type.value,
        element=_path(match.element),
        line=document.data.count(b"\n", 0, match.element.start) + 1,
        values=tuple(values),
        below=tuple(_explain(each, document) for each in below),
    )


def _value(name: str, source: Value, match: RuleMatch) -> ExplainedValue:
    if isinstance(source, ValueSource):
        literal = source.kind is SourceKind.LITERAL
        return ExplainedValue(name, str(source), source.name if literal else None)
    value = match.values.get(name)
    if source.accessor is None and value is not None:
        value = "found"
    return ExplainedValue(name, str(source), value)


def _path(element: XmlElement) -> str:
    """Return the path of an XML element, such as `/orders/order[2]`.

    A step has the element's position if siblings have the same name.
    """
    steps = []
    while element.parent is not None:
        alike = [each for each in element.parent.children if each.name == element.name]
        number = f"[{alike.index(element) + 1}]" if len(alike) > 1 else ""
        steps.append(element.name + number)
        element = element.parent
    return "/" + "/".join(reversed(steps))
