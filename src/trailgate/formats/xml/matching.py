"""Apply XML rules to the tree of a document (the general engine).

The general engine is used for all constructs that the compiled scanner does not support, and for
`explain_message`.

A path is followed step by step; each step starts from all elements that the previous step found. A
rule matches the elements that its path finds, and its subrules start there. `MatchCollector`
gathers the matches of many messages as the same `RuleMatches` that the scanner returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np

from trailgate.formats.xml.documents import XmlAttribute, XmlDocument, XmlElement
from trailgate.formats.xml.kernels.tables import EMPTY, SPARE
from trailgate.formats.xml.matches import AGAIN, PATHS, MatchRecords, RuleMatches
from trailgate.formats.xml.rules import (
    ANY,
    ElementPart,
    PathAccessor,
    PathName,
    PathPredicate,
    PathStep,
    RulePath,
    RuleType,
    XmlRule,
)

# How each part of an element is read from the tree.
_PARTS: Final[Mapping[ElementPart, Callable[[XmlElement, XmlDocument], str | None]]] = (
    MappingProxyType(
        {
            ElementPart.TEXT: lambda element, _: element.text(),
            ElementPart.EXACT_TEXT: lambda element, _: element.exact_text(),
            ElementPart.CONTENT: lambda element, document: document.content(element),
            ElementPart.NAME: lambda element, _: element.name,
            ElementPart.POSITION: lambda element, _: str(element.position),
        }
    )
)


class PathMatcher:
    """Follows paths in an XML document's tree. `namespaces` maps the prefixes in paths.

    A name without a prefix matches any namespace.
    """

    def __init__(self, namespaces: Mapping[str, str]) -> None:
        self.namespaces = namespaces

    def elements(self, path: RulePath, context: XmlElement) -> list[XmlElement]:
        """Return the XML elements that a path finds from an element, in document order."""
        reached: list[XmlElement] = [context]
        if path.absolute:
            reached = [_top(context)]
        for _ in range(path.up):
            reached = [element.parent for element in reached if element.parent is not None]
        for step in path.steps:
            reached = self._step(step, reached)
        return reached

    def values(self, path: RulePath, context: XmlElement, document: XmlDocument) -> Iterator[str]:
        """Yield the values that a path finds from an XML element.

        A path without an accessor yields "" for each element.
        """
        for element in self.elements(path, context):
            value = self._access(path.accessor, element, document)
            if value is not None:
                yield value

    def finds_empty(self, path: RulePath, context: XmlElement) -> bool:
        """Return whether an XML path finds an element from which it reads the text or content.

        Called if the path yields no values: then the element is empty if the result is true, and
        missing if it is false.
        """
        contents = path.accessor is not None and path.accessor.part in {
            ElementPart.TEXT,
            ElementPart.CONTENT,
        }
        return contents and bool(self.elements(path, context))

    def _step(self, step: PathStep, contexts: list[XmlElement]) -> list[XmlElement]:
        reached: dict[int, XmlElement] = {}
        for parent in self._parents(step, contexts):
            children = [child for child in parent.children if self._is(step.name, child)]
            for predicate in step.predicates:
                children = self._chosen(predicate, children)
            # Keyed by offset: with // an element may be reached twice, and sorting restores
            # document order.
            reached.update((child.start, child) for child in children)
        return [reached[start] for start in sorted(reached)]

    @staticmethod
    def _parents(step: PathStep, contexts: list[XmlElement]) -> Iterator[XmlElement]:
        for element in contexts:
            yield element
            if step.anywhere:
                yield from element.below()

    def _is(self, name: PathName, thing: XmlElement | XmlAttribute) -> bool:
        if name.prefix and thing.namespace != self.namespaces[name.prefix]:
            return False
        return name.local in (ANY.local, thing.name)

    def _chosen(self, predicate: PathPredicate, elements: list[XmlElement]) -> list[XmlElement]:
        if predicate.part is ElementPart.POSITION:
            at = int(predicate.value) - 1
            return elements[at : at + 1]
        if predicate.part is ElementPart.ATTRIBUTE:
            name = predicate.attribute
            return [e for e in elements if self._attribute(name, e) == predicate.value]
        if predicate.part is ElementPart.NAME:
            return [e for e in elements if e.name == predicate.value]
        return [e for e in elements if e.text() == predicate.value]

    def _access(
        self, accessor: PathAccessor | None, element: XmlElement, document: XmlDocument
    ) -> str | None:
        if accessor is None:
            return ""
        if accessor.part is ElementPart.ATTRIBUTE:
            return self._attribute(accessor.attribute, element)
        return _PARTS[accessor.part](element, document)

    def _attribute(self, name: PathName, element: XmlElement) -> str | None:
        """Return the value of an XML element's attribute, or None if it does not have it.

        If the path has no prefix, an attribute without a prefix takes precedence.
        """
        candidates: Iterable[XmlAttribute] = (a for a in element.attributes if self._is(name, a))
        # sorted() is stable, and False sorts before True: names without a prefix first.
        first = next(iter(sorted(candidates, key=lambda a: bool(a.prefix))), None)
        return None if first is None else first.value


def _top(element: XmlElement) -> XmlElement:
    while element.parent is not None:
        element = element.parent
    return element


Values = dict[str, str]


@dataclass(slots=True, eq=False)
class RuleMatch:
    """An XML rule and an element that it matched, with the values and the matches of its subrules.

    `empty` are the properties whose paths find elements without content. `again` has a bit for each
    property of `PATHS` whose path finds more than one value.
    """

    rule: XmlRule
    element: XmlElement
    values: Values = field(default_factory=dict)
    empty: list[str] = field(default_factory=list)
    again: int = 0
    below: list[RuleMatch] = field(default_factory=list)

    @property
    def order(self) -> tuple[int, int]:
        """The sort key of matches: document order, then the order of rules."""
        return self.element.start, self.rule.number


def _is_stored_last(path: RulePath) -> bool:
    """Return whether an XML path yields an attribute, or the text or content of an element.

    Only for these paths does the XML scanner mark that there are several values.
    """
    return path.accessor is not None and path.accessor.part not in {
        ElementPart.NAME,
        ElementPart.POSITION,
    }


class RuleMatcher:
    """Applies XML rules to documents (the general engine)."""

    def __init__(self, rules: Sequence[XmlRule], matcher: PathMatcher) -> None:
        self.rules, self.matcher = rules, matcher

    def matches(self, document: XmlDocument) -> list[RuleMatch]:
        """Return the matches of the top-level rules in a document."""
        top_matches = [m for rule in self.rules for m in self._match(rule, document.top, document)]
        return sorted(top_matches, key=lambda match: match.order)

    def _match(
        self, rule: XmlRule, context: XmlElement, document: XmlDocument
    ) -> Iterator[RuleMatch]:
        elements = [context] if rule.match is None else self.matcher.elements(rule.match, context)
        for element in elements:
            match = RuleMatch(rule, element)
            for name, path in rule.values.items():
                if isinstance(path, RulePath):
                    values = self.matcher.values(path, element, document)
                    value = next(values, None)
                    if value is not None:
                        match.values[name] = value
                        if name in PATHS and _is_stored_last(path) and any(True for _ in values):
                            match.again |= 1 << PATHS.index(name)
                    elif self.matcher.finds_empty(path, element):
                        match.empty.append(name)
                elif name.endswith("value"):
                    match.values[name] = path.name
            for subrule in rule.subrules:
                match.below += self._match(subrule, element, document)
            yield match


class MatchCollector:
    """Collects the matches of the general XML engine in the arrays of `RuleMatches`."""

    def __init__(self) -> None:
        self.text = bytearray()
        self.outer, self.operations, self.columns = _Records(), _Records(), _Records()
        self.above: list[int] = []
        self.outer_message: list[int] = []
        self.places: list[tuple[int, int, int, int, int]] = []
        self.operation: list[int] = []

    def add(self, message: int, matches: Sequence[RuleMatch], shift: int = 0) -> None:
        """Append the matches that the general engine found in one XML message to the collected arrays.

        `matches` are those of the top-level rules, and `message` is the message's index. `shift` is
        the number of bytes (a byte order mark) before the tree's text.
        """
        for match in matches:
            if match.rule.type is RuleType.TRANSACTION:
                number = self._outer(match, -1, message)
                for below in sorted(match.below, key=lambda m: m.order):
                    self._operation(below, (message, number, number), shift)
            else:
                self._operation(match, (message, -1, -1), shift)

    def _outer(self, match: RuleMatch, above: int, message: int) -> int:
        self.above.append(above)
        self.outer_message.append(message)
        return self.outer.add(match, self.text)

    def _operation(self, match: RuleMatch, place: tuple[int, int, int], shift: int) -> None:
        """Add an XML operation with its columns and the operations inside it.

        `place` is its message, outer record and transaction.
        """
        message, around, transaction = place
        below = sorted(match.below, key=lambda m: m.order)
        # A rule that only groups others makes no operation itself.
        if not match.rule.groups:
            number = self.operations.add(match, self.text)
            element = match.element
            self.places.append((*place, element.start + shift, element.end + shift))
            for each in below:
                if each.rule.type is RuleType.COLUMN:
                    self.columns.add(each, self.text)
                    self.operation.append(number)
        inner = [each for each in below if each.rule.type is RuleType.OPERATION]
        if inner or match.rule.groups:
            around = self._outer(match, around, message)
        for each in inner:
            self._operation(each, (message, around, transaction), shift)

    def matches(self) -> RuleMatches:
        """Return the collected XML matches as arrays."""
        places = np.array(self.places, np.int64).reshape(len(self.places), 5)
        message, around, transaction, start, end = np.ascontiguousarray(places.T)
        return RuleMatches(
            text=np.frombuffer(bytes(self.text) + bytes(SPARE), np.uint8),
            outer=self.outer.found(),
            above=np.array(self.above, np.int64),
            outer_message=np.array(self.outer_message, np.int64),
            operations=self.operations.found(),
            message=message,
            around=around,
            transaction=transaction,
            start=start,
            end=end,
            columns=self.columns.found(),
            operation=np.array(self.operation, np.int64),
        )


class _Records:
    """The XML match records of one type (outer, operations or columns), while they are gathered."""

    def __init__(self) -> None:
        self.rules: list[int] = []
        self.places: dict[str, list[tuple[int, int, int]]] = {}  # record, start, length

    def add(self, match: RuleMatch, text: bytearray) -> int:
        number = len(self.rules)
        self.rules.append(match.rule.number)
        for name, value in match.values.items():
            data = value.encode()
            self.places.setdefault(name, []).append((number, len(text), len(data)))
            text += data
        for name in match.empty:
            self.places.setdefault(name, []).append((number, 0, EMPTY))
        if match.again:
            self.places.setdefault(AGAIN, []).append((number, 0, ~match.again))
        return number

    def found(self) -> MatchRecords:
        fields = {name: 1 + 2 * number for number, name in enumerate(self.places)}
        # -1 in a length means that no value was found.
        rows = np.full((len(self.rules), 1 + 2 * len(fields)), -1, np.int32)
        rows[:, 0] = self.rules
        for name, places in self.places.items():
            record, start, length = np.array(places, np.int64).T
            rows[record, fields[name]], rows[record, fields[name] + 1] = start, length
        return MatchRecords(rows.reshape(-1), rows.shape[1], fields)
