"""XML messages to records and images, a batch at a time (capture properties §7)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from trailgate.arrays import Longs
from trailgate.columnar.kernels.compiled import INTERPRETED
from trailgate.errors import DecodeError, TrailgateError
from trailgate.messages.parsing.bad_messages import BadMessagesError
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.parsing.record_groups import MessageErrors
from trailgate.messages.xml.automaton import NotForScannerError, compile_rules
from trailgate.messages.xml.coverage import MOST_NAMES, Coverage
from trailgate.messages.xml.findings import Findings, joined
from trailgate.messages.xml.images import XmlImageReader
from trailgate.messages.xml.options import XmlOptions
from trailgate.messages.xml.records import RuleValues, XmlRecords
from trailgate.messages.xml.scanner import Scanner
from trailgate.messages.xml.tree.documents import names_in, parse_document
from trailgate.messages.xml.tree.matching import Matcher
from trailgate.messages.xml.tree.rule_matching import Collector, RuleMatcher
from trailgate.model.changes import Image
from trailgate.model.tables import Table

_LOG: Final = logging.getLogger(__name__)


class XmlFormat:
    """Reads operations by one set of options; what these decide is made once and kept.

    The first few bytes are read by the general way: compiling the scanner takes longer than that.
    """

    def __init__(self, options: XmlOptions) -> None:
        self.options = options
        self._matcher = RuleMatcher(options.rules, Matcher(options.namespaces))
        self._scanner = _scanner(options)
        self._values = RuleValues.of(options.all_rules())
        self._images = XmlImageReader(options)
        self._coverage = Coverage(options.rules)
        self._read = 0  # bytes

    @property
    def has_befores(self) -> bool:
        """Return whether records of updates may have before values."""
        return True

    def records(self, messages: MessageBatch) -> XmlRecords:
        """Return the operations that the rules find; raises BadMessagesError."""
        findings, names = self._findings(messages)
        seen = self._coverage.seen(messages, findings, names)
        return XmlRecords.of(messages, self.options, findings, self._values, seen)

    def said(self, notes: frozenset[str]) -> frozenset[str]:
        """Return what a run notes at its end: the rules without a match, and messages without operations."""
        return self._coverage.said(notes)

    def _findings(self, messages: MessageBatch) -> tuple[Findings, Iterable[str]]:
        """Return what the rules find, and names that occur in the documents."""
        self._read += int((messages.ends - messages.starts).sum())
        if self._scanner is None or self._read <= INTERPRETED:
            return self.general(messages, range(len(messages)))
        scanned = self._scanner.scan(messages)
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
                document = parse_document(body, self.options.limits)
            except DecodeError as error:
                errors[number] = error
            else:
                collector.add(number, self._matcher.matches(document), document.shift)
                if len(names) < MOST_NAMES:
                    names |= names_in(document.top)
        if errors:
            raise BadMessagesError(errors)
        return collector.findings(), names

    def layouts(
        self,
        records: XmlRecords,  # noqa: ARG002  columns are found by name
        tables: Sequence[Table],  # noqa: ARG002
        table_of: Longs,
    ) -> Longs:
        """Return the same number for all operations: each has the columns that are found."""
        return np.zeros(len(table_of), np.int64)

    def images(
        self, records: XmlRecords, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Return before and after of alike operations; what is wrong is added to the errors."""
        return self._images.images(records, table, kind, rows, errors)


def _scanner(options: XmlOptions) -> Scanner | None:
    """Return the scanner of the rules, or None where they have what only the general way does."""
    try:
        return Scanner(compile_rules(options.rules), options.limits)
    except NotForScannerError as reason:
        _LOG.info("XML messages are read by the general way, for the rules have %s", reason)
        return None
