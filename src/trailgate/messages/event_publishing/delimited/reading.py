"""Delimited publications to records and images: the delimited engine, with what differs in a publication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.messages.delimited.format import DelimitedFormat
from trailgate.messages.delimited.records import DelimitedRecords
from trailgate.messages.event_publishing.options import EventPublishingOptions
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.parsing.record_groups import MessageErrors
from trailgate.model.changes import ABSENT, Image, StateColumn
from trailgate.model.tables import Table

TRANSACTION: Final = "transaction"  # what is one for all records of a transaction


@dataclass(frozen=True, slots=True)
class PublicationRecords(DelimitedRecords):
    """Records of delimited publications."""

    def text(self, name: str) -> pa.Array:
        """Return each record's text of a header field; ``TRANSACTION`` is the commit LSN and the transaction's id."""
        if name != TRANSACTION:
            return DelimitedRecords.text(self, name)
        lsn, own = self.text("commit_lsn"), self.text("transaction_identifier")
        return pc.binary_join_element_wise(lsn, own, ".")


class DelimitedPublications:
    """Reads delimited publications by one set of options."""

    def __init__(self, options: EventPublishingOptions) -> None:
        self.options = options
        self._engine = DelimitedFormat(options.delimited)

    @property
    def has_befores(self) -> bool:
        """Return whether records of updates may have before values."""
        return True

    def records(self, messages: MessageBatch) -> PublicationRecords:
        """Return the records of the messages, each with all header fields."""
        found = self._engine.records(messages)
        return PublicationRecords(
            found.messages, found.message, found.offset, found.fields, found.values
        )

    def layouts(
        self, records: PublicationRecords, tables: Sequence[Table], table_of: Longs
    ) -> Longs:
        """Return how many fields each record has."""
        return self._engine.layouts(records, tables, table_of)

    def images(
        self,
        records: PublicationRecords,
        table: Table,
        kind: int,
        rows: Longs,
        errors: MessageErrors,
    ) -> tuple[Image, Image]:
        """Return before and after of alike records; what is wrong is added to the errors.

        IBM's text: "The before values for LOB columns are always NULL". So such a value is not known: it is missing.
        """
        before, after = self._engine.images(records, table, kind, rows, errors)
        return _without_lobs(table, before), after

    def said(self, notes: frozenset[str]) -> frozenset[str]:
        """Return what a run notes at its end."""
        return self._engine.said(notes)


def _without_lobs(table: Table, before: Image) -> Image:
    if not any(column.lob_type for column in table.columns):
        return before
    return tuple(
        _known(values) if column.lob_type else values
        for column, values in zip(table.columns, before, strict=True)
    )


def _known(column: StateColumn) -> StateColumn:
    """Return a column whose null values are missing."""
    if column.values is None or not column.values.null_count:
        return column
    nulls = column.values.is_null().to_numpy(zero_copy_only=False)
    return ABSENT if nulls.all() else StateColumn(column.values, nulls)
