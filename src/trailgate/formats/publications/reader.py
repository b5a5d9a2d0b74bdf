"""Read event publications, delimited or XML. The first byte of a message shows its format.

`PublicationTableInference` infers tables that are not defined. Schema messages of XML publications
describe their tables. The columns of delimited publications have no names or types: their tables
get the text columns COL1 to COLn, where n is the number of columns in the table's records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from trailgate.arrays import Longs
from trailgate.definitions.defgen_layout import complete_table as complete_definitions
from trailgate.errors import DefinitionError, Where
from trailgate.formats.publications.delimited_reader import (
    DelimitedPublicationRecords,
    DelimitedPublications,
)
from trailgate.formats.publications.detection import (
    DELIMITED,
    XML,
    detect_format,
    looks_delimited,
    mask_delimited,
)
from trailgate.formats.publications.options import HEADER, EventPublishingOptions
from trailgate.formats.publications.xml_encodings import as_utf8
from trailgate.formats.publications.xml_large_objects import (
    count_complete,
    keeps_waiting,
    transaction_of_bad,
)
from trailgate.formats.publications.xml_reader import XmlPublications
from trailgate.formats.publications.xml_schemas import described_tables
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.inference import merge_descriptions, read_good_messages
from trailgate.messages.message_batch import CompleteMessages, MessageBatch
from trailgate.messages.parser import MessageFormat
from trailgate.messages.problems import BadMessageIds, MessageErrors
from trailgate.messages.records import BadMessagesError, MessageRecords
from trailgate.model.changes import Image
from trailgate.model.table_names import join_owner
from trailgate.model.tables import Column, Definitions, Table

# The reader of each format.
READERS: Final[Mapping[str, Callable[[EventPublishingOptions], MessageFormat[Any]]]] = (
    MappingProxyType({DELIMITED: DelimitedPublications, XML: XmlPublications})
)


TEXT: Final = 64  # the type code of text of varying length
MOST: Final = 4000  # the length of an inferred column
_EMPTY: Final = "A publication has a record or an XML document. Was its body lost on the way?"
_HINT: Final = "Without definitions, columns are numbered: set event_publishing.sourcedefs"


class EventPublishingFormat(MessageFormat[MessageRecords]):
    """Reads event publications, delimited or XML, with one set of options.

    All messages of a run have the same format.
    """

    def __init__(self, options: EventPublishingOptions) -> None:
        self.options = options
        self._readers: dict[str, MessageFormat[Any]] = {}
        self._reader = self._of(DELIMITED)

    def records(self, messages: MessageBatch) -> MessageRecords:
        """Read publications as records, delimited or XML. Raises BadMessagesError.

        A batch that looks delimited is passed to the delimited reader first. Only if that finds bad
        messages is the format of each message examined.
        """
        refuse_empty(messages)
        if looks_delimited(messages):
            self._reader = self._of(DELIMITED)
            with suppress(BadMessagesError):
                good: MessageRecords = self._reader.records(messages)
                return good
        data, kind = detect_format(messages)
        refuse_empty(data)  # of nothing but MQ headers
        self._reader = self._of(kind)
        # XML documents keep their MQ headers, which name the code page.
        read_records: MessageRecords = self._reader.records(messages if kind == XML else data)
        return read_records

    def _of(self, kind: str) -> MessageFormat[Any]:
        if kind not in self._readers:
            self._readers[kind] = READERS[kind](self.options)
        return self._readers[kind]

    def layouts(self, records: MessageRecords, tables: Sequence[Table], table_of: Longs) -> Longs:
        """Return a layout number for each publication record.

        Records of one table with the same number have their columns at the same positions.
        """
        return self._reader.layouts(records, tables, table_of)

    def images(
        self, records: MessageRecords, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Read the before and after images of publication records of one table, type and layout.

        Errors are added to `errors`.
        """
        return self._reader.images(records, table, kind, rows, errors)

    def complete(self, messages: MessageBatch) -> CompleteMessages:
        """Count the publications at the beginning of the batch that can be read without later messages."""
        documents = self._documents(messages)
        return CompleteMessages(len(messages)) if documents is None else count_complete(documents)

    def continues(self, messages: MessageBatch) -> bool:
        """Return whether these publications are XML without rows, such as parts of large objects.

        Messages that already wait for their large objects must then keep waiting.
        """
        documents = self._documents(messages)
        return documents is not None and keeps_waiting(documents)

    def reads_alone(self, messages: MessageBatch) -> bool:
        """Return whether each publication can be read without the messages before it.

        In XML, a message may be a large object that belongs to a row of an earlier message.
        """
        if looks_delimited(messages):
            return True
        return b"lob" not in bytes(messages.data).lower() and not mask_delimited(messages).any()

    def transactions_of(self, messages: MessageBatch) -> BadMessageIds:
        """Return the transaction ids of publications whose records cannot be read.

        Such a message is, for example, a row whose large object is missing. The ids of delimited
        messages are unknown.
        """
        others = np.flatnonzero(~mask_delimited(messages))
        documents = self._documents(messages.only(others)) if len(others) else None
        if documents is not None:
            ids = [transaction_of_bad(documents, at) for at in range(len(others))]
        else:  # some may be delimited after blanks: each is examined alone
            ids = [self._transaction_of(messages.slice(at, at + 1)) for at in others.tolist()]
        return BadMessageIds.unknown(len(messages)).put(others, BadMessageIds.of(ids))

    def _transaction_of(self, message: MessageBatch) -> tuple[str, ...] | None:
        documents = self._documents(message)
        return None if documents is None else transaction_of_bad(documents, 0)

    def _documents(self, messages: MessageBatch) -> MessageBatch | None:
        """Return publications as XML documents in UTF-8, or None if they are not XML.

        Undecodable messages become empty.
        """
        # Repeat without the bad messages until all remaining ones can be decoded.
        while not looks_delimited(messages):
            try:
                _, kind = detect_format(messages)
                return as_utf8(messages, self.options.xml_page) if kind == XML else None
            except BadMessagesError as bad:  # the parser reports these
                ends = messages.ends.copy()
                ends[bad.messages] = messages.starts[bad.messages]
                messages = replace(messages, ends=ends)
        return None

    def warnings(self, notes: frozenset[str]) -> frozenset[str]:
        """Combine the notes of all publications into the warnings that a run prints at its end."""
        for kind in READERS:
            notes = self._of(kind).warnings(notes)
        return notes


class PublicationTableInference:
    """Infers the tables of event publications that no definitions describe.

    XML publications describe their tables in schema messages. For delimited publications, only the
    number of columns in the records is known.
    """

    def __init__(self, options: EventPublishingOptions) -> None:
        self._format = EventPublishingFormat(options)
        self._page = options.xml_page
        self._columns: dict[str, int] = {}
        self._described: dict[str, Table] = {}

    def add(self, messages: MessageBatch) -> None:
        """Read the tables of a batch of publications.

        Unreadable messages are ignored; the capture reports them.

        Raises DefinitionError if records of one table have different numbers of columns, or a
        column is described in two ways.
        """
        if len(messages) and not looks_delimited(messages):
            for table in described_tables(messages, self._page):
                self._described[table.name] = merge_descriptions(self._described, table)
            return
        records = read_good_messages(messages, self._format.records)
        if isinstance(records, DelimitedPublicationRecords):
            self._learn(records)

    def _learn(self, records: DelimitedPublicationRecords) -> None:
        owners, owner_names = records.codes("table_owner")
        names, table_names = records.codes("table_name")
        counts = records.fields.count
        combinations = np.unique(np.stack([owners, names, counts]), axis=1)
        for owner, name, count in combinations.T.tolist():
            columns, odd = divmod(count - len(HEADER), 2)
            if odd or not columns:
                continue  # the capture reports this record
            table = join_owner(owner_names[owner], table_names[name])
            known = self._columns.setdefault(table, columns)
            if known != columns:
                problem = f"some records of {table} have {known} columns, and others {columns}"
                raise DefinitionError(problem, where=Where(table=table), hint=_HINT)

    def definitions(self) -> Definitions:
        """Return the definitions of all tables in the publications read so far.

        Tables that publications describe come first. Then follow the others, sorted by name, whose
        columns are called COL1 to COLn.
        """
        return Definitions(
            tuple(self._described.values())
            + tuple(
                complete_definitions(
                    Table(name, tuple(Column(f"COL{i + 1}", TEXT, MOST) for i in range(columns)))
                )
                for name, columns in sorted(self._columns.items())
            )
        )


def refuse_empty(messages: MessageBatch) -> None:
    """Raise BadMessagesError for empty publications, which no publisher sends (decision 0149)."""
    marked = messages.without_marks()
    empty = np.flatnonzero(marked.starts == marked.ends)
    if len(empty):
        errors = MessageErrors()
        errors.add(empty, ErrorColumns.of(len(empty), "the message is empty", _EMPTY, offset=0))
        raise BadMessagesError(errors)
