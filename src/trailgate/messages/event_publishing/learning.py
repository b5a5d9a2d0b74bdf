"""Tables that nothing defines: those that schema messages of XML publications describe, and those of delimited ones.

A table of delimited publications has numbered columns of text, as many as its records have.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.definitions.defgen.record_layout import complete
from trailgate.errors import DefinitionError, Where
from trailgate.messages.event_publishing.delimited.engine_options import HEADER
from trailgate.messages.event_publishing.delimited.reading import PublicationRecords
from trailgate.messages.event_publishing.format import EventPublishingFormat
from trailgate.messages.event_publishing.kinds import looks_delimited
from trailgate.messages.event_publishing.options import EventPublishingOptions
from trailgate.messages.event_publishing.xml.format import page_of
from trailgate.messages.event_publishing.xml.learning import described_tables
from trailgate.messages.parsing.learning import read_of, united
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.model.tables import Column, Definitions, Table

TEXT: Final = 64  # the type code of text of varying length
MOST: Final = 4000  # characters of a value
_HINT: Final = "Columns are numbered where nothing defines them: give event_publishing.sourcedefs"


class LearntTables:
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
                self._described[table.name] = united(self._described, table)
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
                complete(
                    Table(name, tuple(Column(f"COL{i + 1}", TEXT, MOST) for i in range(columns)))
                )
                for name, columns in sorted(self._columns.items())
            )
        )
