"""XML messages to records and images, a batch at a time (capture properties §7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trailgate.arrays import Longs
from trailgate.errors import DecodeError, TrailgateError
from trailgate.messages.parsing.bad_messages import BadMessagesError
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.parsing.record_groups import MessageErrors
from trailgate.messages.xml.coverage import MOST_NAMES, Coverage
from trailgate.messages.xml.documents import names_in, parse_document
from trailgate.messages.xml.findings import Findings
from trailgate.messages.xml.images import XmlImageReader
from trailgate.messages.xml.matching import Matcher
from trailgate.messages.xml.options import XmlOptions
from trailgate.messages.xml.records import XmlRecords
from trailgate.messages.xml.rule_matching import Collector, RuleMatcher
from trailgate.model.changes import Image
from trailgate.model.tables import Table


class XmlFormat:
    """Reads operations by one set of options; what these decide is made once and kept."""

    def __init__(self, options: XmlOptions) -> None:
        self.options = options
        self._matcher = RuleMatcher(options.rules, Matcher(options.namespaces))
        self._images = XmlImageReader(options)
        self._coverage = Coverage(options.rules)

    def records(self, messages: MessageBatch) -> XmlRecords:
        """Return the operations that the rules find; raises BadMessagesError."""
        findings, names = self._findings(messages)
        seen = self._coverage.seen(messages, findings, names)
        return XmlRecords(messages, findings.message, findings.start, self.options, findings, seen)

    def said(self, notes: frozenset[str]) -> frozenset[str]:
        """Return what a run notes at its end: the rules without a match, and messages without operations."""
        return self._coverage.said(notes)

    def _findings(self, messages: MessageBatch) -> tuple[Findings, set[str]]:
        """Return what the rules find, and names that occur in the documents."""
        collector, names = Collector(), set[str]()
        errors: dict[int, TrailgateError] = {}
        whole = memoryview(messages.data)
        bounds = zip(messages.starts.tolist(), messages.ends.tolist(), strict=True)
        for number, (begin, end) in enumerate(bounds):
            try:
                document = parse_document(bytes(whole[begin:end]), self.options.limits)
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
