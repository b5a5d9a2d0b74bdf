"""Rules applied to the trees of documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from trailgate.messages.properties.xml_rules import RuleType
from trailgate.messages.xml.findings import Findings, Found
from trailgate.messages.xml.kernels.layout import EMPTY, SPARE
from trailgate.messages.xml.paths import Path
from trailgate.messages.xml.rules import Rule
from trailgate.messages.xml.tree.documents import Document, Element
from trailgate.messages.xml.tree.matching import Matcher

Values = dict[str, str]


@dataclass(slots=True, eq=False)
class Match:
    """A rule and an element that it matched, with the values found and the matches of its subrules.

    ``empty`` are the properties whose paths find elements without content.
    """

    rule: Rule
    element: Element
    values: Values = field(default_factory=dict)
    empty: list[str] = field(default_factory=list)
    below: list[Match] = field(default_factory=list)

    @property
    def order(self) -> tuple[int, int]:
        """Return what sorts matches as their elements come in the document, then as rules are listed."""
        return self.element.start, self.rule.number


class RuleMatcher:
    """Applies rules to documents."""

    def __init__(self, rules: Sequence[Rule], matcher: Matcher) -> None:
        self.rules, self.matcher = rules, matcher

    def matches(self, document: Document) -> list[Match]:
        """Return the matches of the top rules in a document."""
        found = [m for rule in self.rules for m in self._matched(rule, document.top, document)]
        return sorted(found, key=lambda match: match.order)

    def _matched(self, rule: Rule, here: Element, document: Document) -> Iterator[Match]:
        elements = [here] if rule.match is None else self.matcher.elements(rule.match, here)
        for element in elements:
            match = Match(rule, element)
            for name, path in rule.values.items():
                if isinstance(path, Path):
                    value = self.matcher.value(path, element, document)
                    if value is not None:
                        match.values[name] = value
                    elif self.matcher.finds_empty(path, element):
                        match.empty.append(name)
                elif name.endswith("value"):
                    match.values[name] = path.name
            for subrule in rule.subrules:
                match.below += self._matched(subrule, element, document)
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
        return number

    def found(self) -> Found:
        fields = {name: 1 + 2 * number for number, name in enumerate(self.places)}
        rows = np.full((len(self.rules), 1 + 2 * len(fields)), -1, np.int32)
        rows[:, 0] = self.rules
        for name, places in self.places.items():
            record, start, length = np.array(places, np.int64).T
            rows[record, fields[name]], rows[record, fields[name] + 1] = start, length
        return Found(rows.reshape(-1), rows.shape[1], fields)
