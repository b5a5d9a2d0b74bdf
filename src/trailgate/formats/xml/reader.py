"""Read XML messages, a batch at a time (capture properties §7).

Two engines apply the rules. The compiled scanner reads a batch in one pass. It rejects messages
with anything unusual, for example a DTD or a fault. The general engine (`matching.py`) then parses
each of these messages into a tree, and either finds the same values or reports the fault. Both
return `RuleMatches`; the rest of the reader does not distinguish between them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from trailgate.arrays import Longs
from trailgate.columnar.compiling import INTERPRETED
from trailgate.errors import DecodeError, TrailgateError
from trailgate.formats.xml.automaton import NotForScannerError, compile_rules
from trailgate.formats.xml.coverage import MOST_NAMES, RuleCoverage
from trailgate.formats.xml.documents import parse_document
from trailgate.formats.xml.encodings import (
    DECLARED,
    convert_to_utf8,
    perhaps_not_utf8,
    replace_bodies,
)
from trailgate.formats.xml.faults import XmlLimits, syntax_errors
from trailgate.formats.xml.images import XmlImageReader
from trailgate.formats.xml.matches import RuleMatches, merge_matches
from trailgate.formats.xml.matching import MatchCollector, PathMatcher, RuleMatcher
from trailgate.formats.xml.name_table import MOST_GROWN
from trailgate.formats.xml.options import XmlOptions
from trailgate.formats.xml.records import RuleSources, XmlRecords
from trailgate.formats.xml.rules import XmlRule
from trailgate.formats.xml.scanner import ScanResult, XmlScanner
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.parser import MessageFormat
from trailgate.messages.problems import MessageErrors
from trailgate.messages.records import BadMessagesError
from trailgate.model.changes import Image
from trailgate.model.tables import Table

_LOG: Final = logging.getLogger(__name__)


class RuleReader:
    """Applies one set of XML rules to messages. Rules are compiled once.

    The general engine reads the first few bytes of a run, because compiling the scanner would take
    longer.
    """

    def __init__(
        self,
        rules: Sequence[XmlRule],
        limits: XmlLimits,
        namespaces: Mapping[str, str] | None = None,
        encoding: str = DECLARED,
    ) -> None:
        self.limits, self.encoding = limits, encoding
        self._matcher = RuleMatcher(rules, PathMatcher(namespaces or {}))
        self._scanner = _scanner(rules, limits, namespaces or {})
        self._read = 0  # bytes read so far

    def matches(self, messages: MessageBatch) -> tuple[RuleMatches, Iterable[str]]:
        """Match the XML rules in a batch of messages.

        Returns the matches, and the names of elements and attributes in the documents.
        Raises BadMessagesError.
        """
        self._read += int((messages.ends - messages.starts).sum())
        if self._scanner is None or self._read <= INTERPRETED:
            return self.apply_general_engine(messages, np.arange(len(messages)))
        scanned = _scan(self._scanner, messages, self.encoding)
        if not len(scanned.refused) and not scanned.too_many_names:
            return scanned.matches, scanned.names
        matches, names = self.apply_general_engine(
            messages, scanned.refused, scanned.too_many_names
        )
        return merge_matches(scanned.matches, matches), {*scanned.names, *names}

    def apply_general_engine(
        self, messages: MessageBatch, numbers: Longs, too_many_names: Iterable[int] = ()
    ) -> tuple[RuleMatches, set[str]]:
        """Match the XML rules in the messages that the compiled scanner does not read, with the general engine (`matching.py`).

        Returns the matches, and the names of elements and attributes in the documents.
        Raises BadMessagesError, also for the messages in `too_many_names`, which have too many
        different names.
        """
        collector, names = MatchCollector(), set[str]()
        errors: dict[int, TrailgateError] = {
            number: DecodeError(
                f"the message has more than {MOST_GROWN:,} different names, or very long ones"
            )
            for number in too_many_names
        }
        data = memoryview(messages.data)
        faulty, faults = syntax_errors(messages, numbers, self.limits, self.encoding)
        for number in np.setdiff1d(numbers, faulty, assume_unique=True).tolist():
            body = bytes(data[messages.starts[number] : messages.ends[number]])
            try:
                document = parse_document(body, self.limits, self.encoding)
            except DecodeError as error:
                errors[number] = error
            else:
                collector.add(number, self._matcher.matches(document), document.shift)
                if len(names) < MOST_NAMES:
                    names |= document.top.names()
        if errors or len(faulty):
            bad = MessageErrors(errors)
            bad.add(faulty, faults)
            raise BadMessagesError(bad)
        return collector.matches(), names


def _scan(scanner: XmlScanner, messages: MessageBatch, encoding: str) -> ScanResult:
    """Scan XML messages of any encoding. The result lists the messages that the scanner rejects."""
    every = range(len(messages))
    numbers, bodies = convert_to_utf8(messages, every[:1], encoding)
    if numbers:  # mostly all messages have the same encoding
        numbers, bodies = convert_to_utf8(messages, every, encoding)
        if len(numbers) == len(messages):
            return scanner.scan(replace_bodies(messages, numbers, bodies))
    # Scan the original bytes. Messages that are refused may be in another encoding: convert only
    # these.
    first = scanner.scan(messages)
    perhaps = perhaps_not_utf8(messages, first.refused, encoding)
    numbers, bodies = convert_to_utf8(messages, perhaps.tolist(), encoding)
    if not numbers:
        return first
    second = scanner.scan(replace_bodies(messages, numbers, bodies))
    matches = merge_matches(first.matches, second.matches.renumber(np.array(numbers, np.int64)))
    own = np.array(numbers, np.int64)
    left = np.union1d(np.setdiff1d(first.refused, own), own[second.refused])
    too_many_names = [*first.too_many_names, *(numbers[at] for at in second.too_many_names)]
    return ScanResult(matches, left, too_many_names, {*first.names, *second.names})


def _scanner(
    rules: Sequence[XmlRule], limits: XmlLimits, namespaces: Mapping[str, str]
) -> XmlScanner | None:
    """Create the compiled scanner for XML rules.

    Returns None if the rules use something that only the general engine supports.
    """
    try:
        return XmlScanner(compile_rules(rules, namespaces), limits)
    except NotForScannerError as reason:
        _LOG.info("XML messages are read by the general engine, because the rules have %s", reason)
        return None


class XmlFormat(MessageFormat[XmlRecords]):
    """Reads operations from XML messages with one set of options."""

    def __init__(self, options: XmlOptions) -> None:
        self.options = options
        self.reader = RuleReader(
            options.rules, options.limits, options.namespaces, options.encoding
        )
        self._values = RuleSources.of(options.all_rules())
        self._images = XmlImageReader(options)
        self._coverage = RuleCoverage(options.rules)

    def records(self, messages: MessageBatch) -> XmlRecords:
        """Find the operations in XML messages that match the rules. Raises BadMessagesError."""
        matches, names = self.reader.matches(messages)
        seen = self._coverage.seen(matches, names)
        return XmlRecords.of(messages, self.options, matches, self._values, seen)

    def warnings(self, notes: frozenset[str]) -> frozenset[str]:
        """Replace notes about XML rules by warnings: rules that never matched, paths without values."""
        return self._coverage.warnings(notes)

    def warnings_of_part(self, notes: frozenset[str]) -> frozenset[str]:
        """Return the notes of one part of a run, without those about XML rules.

        A rule that does not match in this part may match in another one.
        """
        return self._coverage.other_notes(notes)

    def images(
        self, records: XmlRecords, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Read the before and after images of XML operations of one table and type.

        Errors are added to `errors`.
        """
        return self._images.images(records, table, kind, rows, errors)
