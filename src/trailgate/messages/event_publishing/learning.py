"""Tables of delimited publications that nothing defines: numbered columns of text, as many as their records have."""

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
from trailgate.messages.parsing.bad_messages import BadMessagesError
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.model.tables import Column, Definitions, Table

TEXT: Final = 64  # the type code of text of varying length
MOST: Final = 4000  # characters of a value
_HINT: Final = "Columns are numbered where nothing defines them: give event_publishing.sourcedefs"


class LearntTables:
    """The tables that messages have, and how many columns each."""

    def __init__(self, options: EventPublishingOptions) -> None:
        self._format = EventPublishingFormat(options)
        self._columns: dict[str, int] = {}

    def add(self, messages: MessageBatch) -> None:
        """Learn from messages; those that cannot be read are for the capture to report.

        Raises DefinitionError for a table whose records have different numbers of columns.
        """
        left = np.arange(len(messages) if looks_delimited(messages) else 0)
        while len(left):
            try:
                records = self._format.records(messages.only(left))
            except BadMessagesError as bad:
                left = np.delete(left, list(bad.errors))
            else:
                if isinstance(records, PublicationRecords):
                    self._learn(records)
                return

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
        """Return the tables, COL1 to COLn, in the order of their names."""
        return Definitions(
            tuple(
                complete(
                    Table(name, tuple(Column(f"COL{i + 1}", TEXT, MOST) for i in range(columns)))
                )
                for name, columns in sorted(self._columns.items())
            )
        )
