"""XML messages to records and images, a batch at a time (capture properties §7)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import numpy as np

from trailgate.arrays import Longs
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.parsing.record_groups import MessageErrors
from trailgate.messages.xml.images import XmlImageReader
from trailgate.messages.xml.matches.coverage import Coverage
from trailgate.messages.xml.options import XmlOptions
from trailgate.messages.xml.reading import RuleReader
from trailgate.messages.xml.records import RuleValues, XmlRecords
from trailgate.model.changes import Image
from trailgate.model.tables import Table

_LOG: Final = logging.getLogger(__name__)


class XmlFormat:
    """Reads operations by one set of options; what these decide is made once and kept."""

    def __init__(self, options: XmlOptions) -> None:
        self.options = options
        self.reader = RuleReader(
            options.rules, options.limits, options.namespaces, options.encoding
        )
        self._values = RuleValues.of(options.all_rules())
        self._images = XmlImageReader(options)
        self._coverage = Coverage(options.rules)

    @property
    def has_befores(self) -> bool:
        """Return whether records of updates may have before values."""
        return True

    def records(self, messages: MessageBatch) -> XmlRecords:
        """Return the operations that the rules find; raises BadMessagesError."""
        findings, names = self.reader.findings(messages)
        seen = self._coverage.seen(messages, findings, names)
        return XmlRecords.of(messages, self.options, findings, self._values, seen)

    def said(self, notes: frozenset[str]) -> frozenset[str]:
        """Return what a run notes at its end: the rules without a match, and messages without operations."""
        return self._coverage.said(notes)

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
