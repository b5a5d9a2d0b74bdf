"""Rules applied to the tree of a document: the general way, for what the scanner does not follow, and for ``explain``.

A path is followed step by step, each from all elements that the one before leads to. A rule matches where its path leads to, and its subrules begin there; the
matches of many messages are gathered as the same findings that the scanner gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np

from trailgate.formats.xml.documents import Attribute, Document, Element
from trailgate.formats.xml.findings import AGAIN, PATHS, Findings, Found
from trailgate.formats.xml.kernels.names import EMPTY, SPARE
from trailgate.formats.xml.rules import (
    ANY,
    Accessor,
    Name,
    Part,
    Path,
    Predicate,
    Rule,
    RuleType,
    Step,
)


class Matcher:
    """Follows paths; ``namespaces`` are those of the prefixes that paths may have.

    A name without a prefix matches elements and attributes of any namespace.
    """

    def __init__(self, namespaces: Mapping[str, str]) -> None:
        self.namespaces = namespaces

    def elements(self, path: Path, here: Element) -> list[Element]:
        """Return the elements that a path leads to from an element, in the document's order."""
        found: list[Element] = [here]
        if path.absolute:
            found = [_top(here)]
        for _ in range(path.up):
            found = [element.parent for element in found if element.parent is not None]
        for step in path.steps:
            found = self._step(step, found)
        return found

    def values(self, path: Path, here: Element, document: Document) -> Iterator[str]:
        """Yield the values that a path leads to.

        A path without an accessor gives an empty text where it leads to an element.
        """
        for element in self.elements(path, here):
            value = self._access(path.accessor, element, document)
            if value is not None:
                yield value

    def finds_empty(self, path: Path, here: Element) -> bool:
        """Return whether a path without a value leads to an element, which then has no content."""
        contents = path.accessor is not None and path.accessor.part in {Part.TEXT, Part.CONTENT}
        return contents and bool(self.elements(path, here))

    def _step(self, step: Step, found: list[Element]) -> list[Element]:
        reached: dict[int, Element] = {}
        for parent in self._parents(step, found):
            here = [child for child in parent.children if self._is(step.name, child)]
            for predicate in step.predicates:
                here = self._chosen(predicate, here)
            reached.update((child.start, child) for child in here)
        return [reached[start] for start in sorted(reached)]

    @staticmethod
    def _parents(step: Step, found: list[Element]) -> Iterator[Element]:
        for element in found:
            yield element
            if step.anywhere:
                yield from element.below()

    def _is(self, name: Name, thing: Element | Attribute) -> bool:
        if name.prefix and thing.namespace != self.namespaces[name.prefix]:
            return False
        return name.local in (ANY.local, thing.name)

    def _chosen(self, predicate: Predicate, here: list[Element]) -> list[Element]:
        if predicate.part is Part.POSITION:
            at = int(predicate.value) - 1
            return here[at : at + 1]
        if predicate.part is Part.ATTRIBUTE:
            name = predicate.attribute
            return [e for e in here if self._attribute(name, e) == predicate.value]
        if predicate.part is Part.NAME:
            return [e for e in here if e.name == predicate.value]
        return [e for e in here if e.text() == predicate.value]

    def _access(
        self, accessor: Accessor | None, element: Element, document: Document
    ) -> str | None:
        if accessor is None:
            return ""
        if accessor.part is Part.ATTRIBUTE:
            return self._attribute(accessor.attribute, element)
        return _PARTS[accessor.part](element, document)

    def _attribute(self, name: Name, element: Element) -> str | None:
        """Return an attribute's value; without a prefix in the path, one that has none comes first."""
        found: Iterable[Attribute] = (a for a in element.attributes if self._is(name, a))
        first = next(iter(sorted(found, key=lambda a: bool(a.prefix))), None)
        return None if first is None else first.value


def _top(element: Element) -> Element:
    while element.parent is not None:
        element = element.parent
    return element


_PARTS: Final[Mapping[Part, Callable[[Element, Document], str | None]]] = MappingProxyType(
    {
        Part.TEXT: lambda element, _: element.text(),
        Part.EXACT_TEXT: lambda element, _: element.exact_text(),
        Part.CONTENT: lambda element, document: document.content(element),
        Part.NAME: lambda element, _: element.name,
        Part.POSITION: lambda element, _: str(element.position),
    }
)


Values = dict[str, str]


@dataclass(slots=True, eq=False)
class Match:
    """A rule and an element that it matched, with the values found and the matches of its subrules.

    ``empty`` are the properties whose paths find elements without content, ``again`` has a bit for each of ``PATHS`` that finds further
    values.
    """

    rule: Rule
    element: Element
    values: Values = field(default_factory=dict)
    empty: list[str] = field(default_factory=list)
    again: int = 0
    below: list[Match] = field(default_factory=list)

    @property
    def order(self) -> tuple[int, int]:
        """Return what sorts matches as their elements come in the document, then as rules are listed."""
        return self.element.start, self.rule.number


def _is_stored_last(path: Path) -> bool:
    """Return whether an element's value is more than that it is there, its name or its number."""
    return path.accessor is not None and path.accessor.part not in {Part.NAME, Part.POSITION}


class RuleMatcher:
    """Applies rules to documents."""

    def __init__(self, rules: Sequence[Rule], matcher: Matcher) -> None:
        self.rules, self.matcher = rules, matcher

    def matches(self, document: Document) -> list[Match]:
        """Return the matches of the top rules in a document."""
        found = [m for rule in self.rules for m in self._match(rule, document.top, document)]
        return sorted(found, key=lambda match: match.order)

    def _match(self, rule: Rule, here: Element, document: Document) -> Iterator[Match]:
        elements = [here] if rule.match is None else self.matcher.elements(rule.match, here)
        for element in elements:
            match = Match(rule, element)
            for name, path in rule.values.items():
                if isinstance(path, Path):
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


class Collector:
    """Gathers the matches of messages as findings."""

    def __init__(self) -> None:
        self.text = bytearray()
        self.outer, self.operations, self.columns = _Records(), _Records(), _Records()
        self.above: list[int] = []
        self.outer_message: list[int] = []
        self.places: list[tuple[int, int, int, int, int]] = []
        self.operation: list[int] = []

    def add(self, message: int, matches: Sequence[Match], shift: int = 0) -> None:
        """Add a message's matches; ``shift`` is how many of its bytes are not in the tree's text."""
        for match in matches:
            if match.rule.type is RuleType.TRANSACTION:
                number = self._outer(match, -1, message)
                for below in sorted(match.below, key=lambda m: m.order):
                    self._operation(below, (message, number, number), shift)
            else:
                self._operation(match, (message, -1, -1), shift)

    def _outer(self, match: Match, above: int, message: int) -> int:
        self.above.append(above)
        self.outer_message.append(message)
        return self.outer.add(match, self.text)

    def _operation(self, match: Match, place: tuple[int, int, int], shift: int) -> None:
        """Add an operation of a message, outer record and transaction, with all below it."""
        message, around, transaction = place
        below = sorted(match.below, key=lambda m: m.order)
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

    def findings(self) -> Findings:
        """Return what was found."""
        places = np.array(self.places, np.int64).reshape(len(self.places), 5)
        message, around, transaction, start, end = np.ascontiguousarray(places.T)
        return Findings(
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
    """Records of one type of rules, while they are gathered."""

    def __init__(self) -> None:
        self.rules: list[int] = []
        self.places: dict[str, list[tuple[int, int, int]]] = {}  # record, start, length

    def add(self, match: Match, text: bytearray) -> int:
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

    def found(self) -> Found:
        fields = {name: 1 + 2 * number for number, name in enumerate(self.places)}
        rows = np.full((len(self.rules), 1 + 2 * len(fields)), -1, np.int32)
        rows[:, 0] = self.rules
        for name, places in self.places.items():
            record, start, length = np.array(places, np.int64).T
            rows[record, fields[name]], rows[record, fields[name] + 1] = start, length
        return Found(rows.reshape(-1), rows.shape[1], fields)
