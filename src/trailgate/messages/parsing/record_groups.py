"""Alike records that are read together, and the errors of their messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from trailgate.arrays import Longs
from trailgate.errors import TrailgateError
from trailgate.messages.parsing.records import Records
from trailgate.model.tables import Table

MessageErrors = dict[int, TrailgateError]
R = TypeVar("R", bound=Records)


class RecordGroup(Generic[R]):
    """Records of one table, and where their errors are gathered; a message's first one counts."""

    def __init__(self, records: R, table: Table, rows: Longs, errors: MessageErrors) -> None:
        self.records, self.table, self.rows, self.errors = records, table, rows, errors

    def refuse(self, problem: str, hint: str = "", field: str | None = None) -> None:
        """Add a fault that all the records have."""

        def error(row: int) -> TrailgateError:
            return self.records.error(row, problem, hint, table=self.table.name, field=field)

        self.add(self.rows, error)

    def add(self, rows: Longs, error: Callable[[int], TrailgateError]) -> None:
        """Add the errors of some rows, made of a row's number."""
        for row, message in zip(rows.tolist(), self.records.message[rows].tolist(), strict=True):
            if message not in self.errors:
                self.errors[message] = error(row)
