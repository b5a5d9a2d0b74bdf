"""Event publications of either kind: the first byte of a message shows which."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from trailgate.arrays import Longs
from trailgate.messages.event_publishing.delimited.reading import DelimitedPublications
from trailgate.messages.event_publishing.kinds import DELIMITED, XML, kind_of, looks_delimited
from trailgate.messages.event_publishing.options import EventPublishingOptions
from trailgate.messages.event_publishing.xml.bodies import as_utf8
from trailgate.messages.event_publishing.xml.format import XmlPublications, page_of
from trailgate.messages.event_publishing.xml.holding import complete, continues, transactions_of
from trailgate.messages.parsing.bad_messages import BadMessagesError
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.parsing.parser import MessageFormat
from trailgate.messages.parsing.record_groups import MessageErrors
from trailgate.messages.parsing.records import Records
from trailgate.messages.parsing.waiting import Complete
from trailgate.model.changes import Image
from trailgate.model.tables import Table

# What reads each kind of messages.
READERS: Final[Mapping[str, Callable[[EventPublishingOptions], MessageFormat[Any]]]] = (
    MappingProxyType({DELIMITED: DelimitedPublications, XML: XmlPublications})
)


class EventPublishingFormat(MessageFormat[Records]):
    """Reads publications by one set of options; the messages of a run are of one kind."""

    def __init__(self, options: EventPublishingOptions) -> None:
        self.options = options
        self._readers: dict[str, MessageFormat[Any]] = {}
        self._reader = self._of(DELIMITED)

    def records(self, messages: MessageBatch) -> Records:
        """Return the records of the messages; raises BadMessagesError.

        Where all are delimited, their reader finds that by itself: each message is looked at only where it finds something else.
        """
        if looks_delimited(messages):
            self._reader = self._of(DELIMITED)
            with suppress(BadMessagesError):
                good: Records = self._reader.records(messages)
                return good
        data, kind = kind_of(messages)
        self._reader = self._of(kind)
        # Headers before XML documents name their code page.
        found: Records = self._reader.records(messages if kind == XML else data)
        return found

    def _of(self, kind: str) -> MessageFormat[Any]:
        if kind not in self._readers:
            self._readers[kind] = READERS[kind](self.options)
        return self._readers[kind]

    def layouts(self, records: Records, tables: Sequence[Table], table_of: Longs) -> Longs:
        """Return a number for each record; those of one table that have the same lie alike."""
        return self._reader.layouts(records, tables, table_of)

    def images(
        self, records: Records, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Return before and after of alike records; what is wrong is added to the errors."""
        return self._reader.images(records, table, kind, rows, errors)

    def complete(self, messages: MessageBatch) -> Complete:
        """Return which of the messages wait for later ones."""
        documents = self._documents(messages)
        return Complete(len(messages)) if documents is None else complete(documents)

    def continues(self, messages: MessageBatch) -> bool:
        """Return whether these messages only bring parts of rows before them."""
        documents = self._documents(messages)
        return documents is not None and continues(documents)

    def transactions_of(self, message: MessageBatch) -> tuple[str, ...] | None:
        """Return the transaction of one bad XML message: a row without its large object, a part of one, a control message."""
        documents = self._documents(message)
        return None if documents is None else transactions_of(documents, 0)

    def _documents(self, messages: MessageBatch) -> MessageBatch | None:
        """Return XML messages in UTF-8, those that cannot be decoded empty; None where they are not XML."""
        while not looks_delimited(messages):
            try:
                _, kind = kind_of(messages)
                return as_utf8(messages, page_of(self.options)) if kind == XML else None
            except BadMessagesError as bad:  # the parser has it too
                ends = messages.ends.copy()
                ends[list(bad.errors)] = messages.starts[list(bad.errors)]
                messages = replace(messages, ends=ends)
        return None

    def said(self, notes: frozenset[str]) -> frozenset[str]:
        """Return what a run notes at its end, from the notes of all its records."""
        for kind in READERS:
            notes = self._of(kind).said(notes)
        return notes
