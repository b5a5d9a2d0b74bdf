"""Tables that nothing defines, from the messages that are captured: what formats that describe them have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Protocol, TypeVar

import numpy as np

from trailgate.definitions.defgen import complete
from trailgate.errors import DefinitionError, Where
from trailgate.messages.messages import MessageBatch
from trailgate.messages.records import BadMessagesError
from trailgate.model.tables import Definitions, Table, describe_type

T = TypeVar("T")
_HINT: Final = "Give definitions, or capture the messages before the change apart from those after it, into two trails"


class TableInference(Protocol):
    """Takes all messages before they are captured, and knows their tables then."""

    def add(self, messages: MessageBatch) -> None:
        """Learn from messages; those that cannot be read are for the capture to report. Raises DefinitionError."""
        ...

    def definitions(self) -> Definitions:
        """Return the tables."""
        ...


def read_of(messages: MessageBatch, read: Callable[[MessageBatch], T]) -> T | None:
    """Return what is read of the messages without those that are bad; None where all are."""
    left = np.arange(len(messages))
    while len(left):
        try:
            return read(messages.only(left))
        except BadMessagesError as bad:
            left = np.delete(left, list(bad.errors))
    return None


def unite(known: Mapping[str, Table], table: Table) -> Table:
    """Return a table with the columns that it has been described with so far, in their order, and new ones after them.

    Raises DefinitionError where a column differs.
    """
    before = known.get(table.name)
    if before is None:
        return table
    own = {column.name.casefold(): column for column in before.columns}
    for column in table.columns:
        earlier = own.setdefault(column.name.casefold(), column)
        if replace(earlier, fetch_offset=0) != replace(column, fetch_offset=0):
            was, now = describe_type(earlier), describe_type(column)
            problem = f"column {column.name} of {table.name} is described in two ways by messages: as {was}, and as {now}"
            where = Where(table=table.name, field=column.name)
            raise DefinitionError(problem, where=where, hint=_HINT)
    columns = tuple(replace(column, fetch_offset=0) for column in own.values())
    return complete(Table(table.name, columns))
