"""Infer table definitions from messages, for formats whose messages describe their tables.

A `TableInference` reads all messages once before the capture. The formats Debezium and event
publishing have one. `merge_descriptions` merges the descriptions of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Protocol, TypeVar

import numpy as np

from trailgate.definitions.defgen_layout import complete_table
from trailgate.errors import DefinitionError, Where
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.records import BadMessagesError
from trailgate.model.tables import Definitions, Table, describe_column_type

T = TypeVar("T")
_HINT: Final = (
    "Give definitions, or capture the messages before and after the change into separate trails"
)


class TableInference(Protocol):
    """The interface of table inference: reads all messages before they are captured, and returns the tables that they describe."""

    def add(self, messages: MessageBatch) -> None:
        """Read the tables that a batch of messages describes.

        Unreadable messages are ignored; the capture reports them. Raises DefinitionError.
        """
        ...

    def definitions(self) -> Definitions:
        """Return the tables inferred from all messages."""
        ...


def read_good_messages(messages: MessageBatch, read: Callable[[MessageBatch], T]) -> T | None:
    """Call `read` with the readable messages of a batch, for table inference.

    `read` is first called with all messages. Whenever it raises BadMessagesError, it is called
    again without these messages. Returns its result, or None if no message is left.
    """
    left = np.arange(len(messages))
    while len(left):
        try:
            return read(messages.only(left))
        except BadMessagesError as bad:
            left = np.delete(left, bad.messages)
    return None


def merge_descriptions(known: Mapping[str, Table], table: Table) -> Table:
    """Merge two inferred definitions of a table: the known columns stay in their order, and new columns follow.

    Raises DefinitionError if a column's type differs.
    """
    before = known.get(table.name)
    if before is None:
        return table
    columns_by_name = {column.name.casefold(): column for column in before.columns}
    for column in table.columns:
        earlier = columns_by_name.setdefault(column.name.casefold(), column)
        if replace(earlier, fetch_offset=0) != replace(column, fetch_offset=0):
            was, now = describe_column_type(earlier), describe_column_type(column)
            problem = f"column {column.name} of {table.name} is described in two ways by messages: as {was} and as {now}"
            where = Where(table=table.name, field=column.name)
            raise DefinitionError(problem, where=where, hint=_HINT)
    columns = tuple(replace(column, fetch_offset=0) for column in columns_by_name.values())
    return complete_table(Table(table.name, columns))
