"""Event publications of either kind: the first byte of a message shows which.

``InferredTables`` finds tables that nothing defines: those that schema messages of XML publications describe, and those of delimited ones, which have numbered columns
of text, as many as their records have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from trailgate.arrays import Longs
from trailgate.definitions.defgen import complete as complete_definitions
from trailgate.errors import DefinitionError, Where
from trailgate.formats.publications.delimited_reader import (
    DelimitedPublications,
    PublicationRecords,
)
from trailgate.formats.publications.kinds import DELIMITED, XML, kind_of, looks_delimited
from trailgate.formats.publications.options import HEADER, EventPublishingOptions
from trailgate.formats.publications.xml_envelopes import as_utf8
from trailgate.formats.publications.xml_large_objects import complete, continues, transactions_of
from trailgate.formats.publications.xml_reader import XmlPublications, page_of
from trailgate.formats.publications.xml_schemas import described_tables
from trailgate.messages.inference import read_of, unite
from trailgate.messages.messages import Complete, MessageBatch
from trailgate.messages.parser import MessageFormat
from trailgate.messages.records import BadMessagesError, MessageErrors, Records
from trailgate.model.changes import Image
from trailgate.model.tables import Column, Definitions, Table

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

    def reads_alone(self, messages: MessageBatch) -> bool:
        """Return whether they are delimited: an XML message may be a part of the row before it."""
        return looks_delimited(messages)

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

    def warnings(self, notes: frozenset[str]) -> frozenset[str]:
        """Return what a run notes at its end, from the notes of all its records."""
        for kind in READERS:
            notes = self._of(kind).warnings(notes)
        return notes


TEXT: Final = 64  # the type code of text of varying length
MOST: Final = 4000  # characters of a value
_HINT: Final = "Columns are numbered where nothing defines them: give event_publishing.sourcedefs"


class InferredTables:
    """The tables that messages have, and how many columns each."""

    def __init__(self, options: EventPublishingOptions) -> None:
        self._format = EventPublishingFormat(options)
        self._page = page_of(options)
        self._columns: dict[str, int] = {}
        self._described: dict[str, Table] = {}

    def add(self, messages: MessageBatch) -> None:
        """Learn from messages; those that cannot be read are for the capture to report.

        Raises DefinitionError for a table whose records have different numbers of columns, or that is described in two ways.
        """
        if len(messages) and not looks_delimited(messages):
            for table in described_tables(messages, self._page):
                self._described[table.name] = unite(self._described, table)
            return
        records = read_of(messages, self._format.records)
        if isinstance(records, PublicationRecords):
            self._learn(records)

    def _learn(self, records: PublicationRecords) -> None:
        owners, owner_names = records.codes("table_owner")
        names, table_names = records.codes("table_name")
        counts = records.fields.count
        found = np.unique(np.stack([owners, names, counts]), axis=1)
        for owner, name, count in found.T.tolist():
            columns, odd = divmod(count - len(HEADER), 2)
            if odd or not columns:
                continue  # an error of the record
            table = f"{owner_names[owner]}.{table_names[name]}"
            known = self._columns.setdefault(table, columns)
            if known != columns:
                problem = f"records of {table} have {known} columns, and others {columns}"
                raise DefinitionError(problem, where=Where(table=table), hint=_HINT)

    def definitions(self) -> Definitions:
        """Return the tables that are described, then the others, COL1 to COLn, in the order of their names."""
        return Definitions(
            tuple(self._described.values())
            + tuple(
                complete_definitions(
                    Table(name, tuple(Column(f"COL{i + 1}", TEXT, MOST) for i in range(columns)))
                )
                for name, columns in sorted(self._columns.items())
            )
        )
