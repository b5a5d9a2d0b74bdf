"""XML messages to records and images, a batch at a time (capture properties §7)."""

from __future__ import annotations

import logging
from typing import Final

from trailgate.arrays import Longs
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.parsing.parser import MessageFormat
from trailgate.messages.parsing.record_groups import MessageErrors
from trailgate.messages.xml.images import XmlImageReader
from trailgate.messages.xml.matches.coverage import Coverage
from trailgate.messages.xml.options import XmlOptions
from trailgate.messages.xml.reading import RuleReader
from trailgate.messages.xml.records import RuleValues, XmlRecords
from trailgate.model.changes import Image
from trailgate.model.tables import Table

_LOG: Final = logging.getLogger(__name__)


class XmlFormat(MessageFormat[XmlRecords]):
    """Reads operations by one set of options; what these decide is made once and kept."""

    def __init__(self, options: XmlOptions) -> None:
        self.options = options
        self.reader = RuleReader(
            options.rules, options.limits, options.namespaces, options.encoding
        )
        self._values = RuleValues.of(options.all_rules())
        self._images = XmlImageReader(options)
        self._coverage = Coverage(options.rules)

    def records(self, messages: MessageBatch) -> XmlRecords:
        """Return the operations that the rules find; raises BadMessagesError."""
        findings, names = self.reader.findings(messages)
        seen = self._coverage.seen(messages, findings, names)
        return XmlRecords.of(messages, self.options, findings, self._values, seen)

    def said(self, notes: frozenset[str]) -> frozenset[str]:
        """Return what a run notes at its end: the rules without a match, and messages without operations."""
        return self._coverage.said(notes)

    def images(
        self, records: XmlRecords, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Return before and after of alike operations; what is wrong is added to the errors."""
        return self._images.images(records, table, kind, rows, errors)
