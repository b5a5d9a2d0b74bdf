"""XML publications to records and images, a batch at a time (event publishing §3)."""

from __future__ import annotations

from trailgate.arrays import Longs
from trailgate.messages.event_publishing.options import UTF_8, EventPublishingOptions
from trailgate.messages.event_publishing.xml.bodies import as_utf8
from trailgate.messages.event_publishing.xml.controls import said
from trailgate.messages.event_publishing.xml.images import PublicationImageReader
from trailgate.messages.event_publishing.xml.reading import PublicationReader
from trailgate.messages.event_publishing.xml.records import XmlPublicationRecords
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.parsing.parser import MessageFormat
from trailgate.messages.parsing.record_groups import MessageErrors
from trailgate.messages.properties.values import Lookup
from trailgate.model.changes import Image
from trailgate.model.tables import Table


class XmlPublications(MessageFormat[XmlPublicationRecords]):
    """Reads XML publications by one set of options."""

    def __init__(self, options: EventPublishingOptions) -> None:
        self._page = page_of(options)
        words = Lookup(
            tuple((letter, word.decode()) for word, letter in options.optype_values.items())
        )
        self._reader = PublicationReader(words, options.definitions)
        self._images = PublicationImageReader()

    def records(self, messages: MessageBatch) -> XmlPublicationRecords:
        """Return the rows of the messages; raises BadMessagesError."""
        return self._reader.records(as_utf8(messages, self._page))

    def images(
        self,
        records: XmlPublicationRecords,
        table: Table,
        kind: int,
        rows: Longs,
        errors: MessageErrors,
    ) -> tuple[Image, Image]:
        """Return before and after of rows of one type; what is wrong is added to the errors."""
        return self._images.images(records, table, kind, rows, errors)

    def said(self, notes: frozenset[str]) -> frozenset[str]:
        """Return what a run notes at its end, from the notes of all its records."""
        return said(notes)


def page_of(options: EventPublishingOptions) -> str | None:
    """Return the code page that is given for all documents, or None: each has its own, which is mostly UTF-8."""
    return None if options.codepage == UTF_8 else options.codepage
