"""The records of a batch of messages, and errors placed at them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from trailgate.columnar.delimiters import Fields
from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.messages.faults import BadMessagesError
from trailgate.messages.field_values import FieldValues
from trailgate.messages.message import MessageBatch

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a batch: their fields, and the message and byte each begins at."""

    messages: MessageBatch
    fields: Fields
    values: FieldValues
    message: Longs
    offset: Longs  # of the record in its message's body

    def error(self, row: int, problem: str, hint: str = "", **place: object) -> DecodeError:
        """Return an error placed at a record."""
        begin = int(self.fields.starts[self.fields.first[row]])
        last = int(self.fields.first[row] + self.fields.count[row] - 1)
        raw = self.values.data[begin : int(self.fields.ends[last])].tobytes()
        where = Where(record=self.number(row), offset=int(self.offset[row]), raw=raw)
        return DecodeError(problem, where=where, hint=hint).located(**place)

    def field_error(self, row: int, place: int, error: DecodeError) -> DecodeError:
        """Return the error of a value, placed at the field so far from its record's first one."""
        field = int(self.fields.first[row]) + place
        begin = int(self.fields.starts[field] - self.messages.starts[self.message[row]])
        where = replace(error.where, record=self.number(row), offset=begin)
        return DecodeError(error.problem, where=where, hint=error.hint)

    def refuse(self, rows: Longs, error: Callable[[int], TrailgateError]) -> NoReturn:
        """Raise the errors of the messages of these bad records; a message's first one counts."""
        messages, first = np.unique(self.message[rows], return_index=True)
        pairs = zip(messages.tolist(), rows[first].tolist(), strict=True)
        raise BadMessagesError({message: error(row) for message, row in pairs})

    def number(self, row: int) -> int:
        """Return a record's number in its message, from 1."""
        return int(row - np.searchsorted(self.message, self.message[row])) + 1
