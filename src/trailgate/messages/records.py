"""The records of a batch of messages, and errors placed at them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trailgate.columnar.delimiters import Fields
from trailgate.errors import DecodeError, Where
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

    def number(self, row: int) -> int:
        """Return a record's number in its message, from 1."""
        return int(row - np.searchsorted(self.message, self.message[row])) + 1
