"""The records of a batch of messages, and errors placed at them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.columnar.datetime_formats import DateFormat
from trailgate.columnar.rows import distinct
from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.messages.parsing.bad_messages import BadMessagesError
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.transactions.borders import Borders

RETURNS: Final = (
    "the carriage return before a line feed that ends a record is not part of the record"
)


@dataclass(frozen=True, slots=True)
class Records(ABC):
    """The records of a batch: the message and byte each begins at; a format knows what is in them."""

    messages: MessageBatch
    message: Longs
    offset: Longs  # of the record in its message's body

    @abstractmethod
    def text(self, name: str) -> pa.Array:
        """Return each record's text of a header field."""

    def codes(self, name: str) -> tuple[Longs, list[str]]:
        """Return each record's number among the different texts of a header field, and those texts."""
        return distinct(self.text(name))

    def lacking(self, name: str, what: str) -> tuple[str, str]:
        """Return the problem of a record whose header field is blank, where ``what`` is needed, and a hint."""
        return f"the field {name} is blank, where {what} is needed", ""

    def shared(self, name: str) -> tuple[pa.Array, Longs] | None:
        """Return the values of a header field that records share, and the number of each record's; None where they do not."""
        del name
        return None

    def time_formats(self) -> list[tuple[Longs, DateFormat | None]] | None:
        """Return the records of each format of timestamps, or None where all have that of the options."""
        return None

    def generated(self, name: str) -> Mask | None:
        """Return the records whose value of a header field is generated, as the field's source states for each; None where it is for none."""
        del name
        return None

    def segments(self) -> Longs | None:
        """Return the number, from 1 on, of each record's message in its transaction, 0 for none; None where the format has no such numbers."""
        return None

    def transaction_ends(self) -> Mask | None:
        """Return which records end their transaction, where the format states that and it is known by its id."""
        return None

    def tokens(self) -> pa.Array | None:
        """Return each record's user tokens as a map of names to texts, or None where there are none."""
        return None

    def times(self) -> Longs | None:
        """Return each record's commit time in microseconds since 1970 UTC, or None where it is a header field's text."""
        return None

    def borders(self, ids: pa.Array) -> Borders | None:  # noqa: ARG002  for formats whose messages are numbered
        """Return what is known of messages that a transaction continues in; ``ids`` are the transactions' sequence ids."""
        return None

    @property
    def notes(self) -> frozenset[str]:
        """Return what a run notes once about such records."""
        return frozenset()

    @abstractmethod
    def raw(self, row: int) -> bytes:
        """Return a record's bytes."""

    def error(self, row: int, problem: str, hint: str = "", **place: object) -> DecodeError:
        """Return an error placed at a record."""
        where = Where(record=self.number(row), offset=int(self.offset[row]), raw=self.raw(row))
        return DecodeError(problem, where=where, hint=hint).located(**place)

    def refuse(self, rows: Longs, error: Callable[[int], TrailgateError]) -> NoReturn:
        """Raise the errors of the messages of these bad records; a message's first one counts."""
        messages, first = np.unique(self.message[rows], return_index=True)
        pairs = zip(messages.tolist(), rows[first].tolist(), strict=True)
        raise BadMessagesError({message: error(row) for message, row in pairs})

    def number(self, row: int) -> int:
        """Return a record's number in its message, from 1."""
        return int(row - np.searchsorted(self.message, self.message[row])) + 1
