"""What rules find in batches of messages, by the compiled scanner or by the general way."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from trailgate.columnar.kernels.compiled import INTERPRETED
from trailgate.errors import DecodeError, TrailgateError
from trailgate.messages.parsing.bad_messages import BadMessagesError
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.xml.automaton import NotForScannerError, compile_rules
from trailgate.messages.xml.encodings import batch_of, utf8_numbers
from trailgate.messages.xml.findings import Findings, joined
from trailgate.messages.xml.matches.coverage import MOST_NAMES
from trailgate.messages.xml.rules import Rule
from trailgate.messages.xml.scanner import Scanned, Scanner
from trailgate.messages.xml.tree.document_encodings import DECLARED
from trailgate.messages.xml.tree.documents import Limits, names_in, parse_document
from trailgate.messages.xml.tree.matching import Matcher
from trailgate.messages.xml.tree.rule_matching import Collector, RuleMatcher

_LOG: Final = logging.getLogger(__name__)


class RuleReader:
    """Applies one set of rules; what these decide is made once and kept.

    The first few bytes are read by the general way: compiling the scanner takes longer than that.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        limits: Limits,
        namespaces: Mapping[str, str] | None = None,
        encoding: str = DECLARED,
    ) -> None:
        self.limits, self.encoding = limits, encoding
        self._matcher = RuleMatcher(rules, Matcher(namespaces or {}))
        self._scanner = _scanner(rules, limits)
        self._read = 0  # bytes

    def findings(self, messages: MessageBatch) -> tuple[Findings, Iterable[str]]:
        """Return what the rules find, and names that occur in the documents; raises BadMessagesError."""
        self._read += int((messages.ends - messages.starts).sum())
        if self._scanner is None or self._read <= INTERPRETED:
            return self.general(messages, range(len(messages)))
        scanned = _scanned(self._scanner, messages, self.encoding)
        if not scanned.refused:
            return scanned.findings, scanned.names
        findings, names = self.general(messages, scanned.refused)
        return joined(scanned.findings, findings), {*scanned.names, *names}

    def general(self, messages: MessageBatch, numbers: Iterable[int]) -> tuple[Findings, set[str]]:
        """Return what the rules find in some of the messages, by their trees, and names there; raises BadMessagesError."""
        collector, names = Collector(), set[str]()
        errors: dict[int, TrailgateError] = {}
        whole = memoryview(messages.data)
        for number in numbers:
            body = bytes(whole[messages.starts[number] : messages.ends[number]])
            try:
                document = parse_document(body, self.limits, self.encoding)
            except DecodeError as error:
                errors[number] = error
            else:
                collector.add(number, self._matcher.matches(document), document.shift)
                if len(names) < MOST_NAMES:
                    names |= names_in(document.top)
        if errors:
            raise BadMessagesError(errors)
        return collector.findings(), names


def _scanned(scanner: Scanner, messages: MessageBatch, encoding: str) -> Scanned:
    """Return what the scanner finds in messages of any encoding, and those that it does not take."""
    every = range(len(messages))
    numbers, bodies = utf8_numbers(messages, every[:1], encoding)
    if numbers:  # mostly all are of one encoding
        numbers, bodies = utf8_numbers(messages, every, encoding)
        if len(numbers) == len(messages):
            return scanner.scan(batch_of(messages, numbers, bodies))
    first = scanner.scan(messages)
    numbers, bodies = utf8_numbers(messages, first.refused, encoding)
    if not numbers:
        return first
    second = scanner.scan(batch_of(messages, numbers, bodies))
    findings = joined(first.findings, second.findings.of(np.array(numbers, np.int64)))
    left = set(first.refused).difference(numbers).union(numbers[at] for at in second.refused)
    return Scanned(findings, sorted(left), {*first.names, *second.names})


def _scanner(rules: Sequence[Rule], limits: Limits) -> Scanner | None:
    """Return the scanner of the rules, or None where they have what only the general way does."""
    try:
        return Scanner(compile_rules(rules), limits)
    except NotForScannerError as reason:
        _LOG.info("XML messages are read by the general way, for the rules have %s", reason)
        return None
