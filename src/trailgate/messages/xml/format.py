"""XML messages to records and images, a batch at a time (capture properties §7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trailgate.arrays import Longs
from trailgate.errors import DecodeError, TrailgateError
from trailgate.messages.parsing.bad_messages import BadMessagesError
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.parsing.record_groups import MessageErrors
from trailgate.messages.xml.documents import parse_document
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

    def records(self, messages: MessageBatch) -> XmlRecords:
        """Return the operations that the rules find; raises BadMessagesError."""
        findings = self._findings(messages)
        return XmlRecords(messages, findings.message, findings.start, self.options, findings)

    def _findings(self, messages: MessageBatch) -> Findings:
        collector = Collector()
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
        if errors:
            raise BadMessagesError(errors)
        return collector.findings()

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
