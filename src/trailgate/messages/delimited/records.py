"""The records of delimited messages: their fields, and errors placed at these."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.columnar.delimited import Fields
from trailgate.errors import DecodeError
from trailgate.messages.delimited.field_values import FieldValues
from trailgate.messages.parsing.records import RETURNS, Records


@dataclass(frozen=True, slots=True)
class DelimitedRecords(Records):
    """Records of fields, of which the first ones are the header's."""

    fields: Fields
    values: FieldValues

    def text(self, name: str) -> pa.Array:
        """Return each record's text of a header field."""
        place = self.values.options.header.index(name)
        return self.values.text(self.fields.first, place)

    def codes(self, name: str) -> tuple[Longs, list[str]]:
        """Return each record's number among the different texts of a header field, and those texts."""
        place = self.values.options.header.index(name)
        return self.values.codes(self.fields.first, place)

    @property
    def notes(self) -> frozenset[str]:
        """Return what a run notes once about such records."""
        return frozenset({RETURNS} if self.fields.returned else ())

    def raw(self, row: int) -> bytes:
        """Return a record's bytes."""
        begin = int(self.fields.starts[self.fields.first[row]])
        last = int(self.fields.bounds[row + 1]) - 1
        return self.values.data[begin : int(self.fields.ends[last])].tobytes()

    def field_error(self, row: int, place: int, error: DecodeError) -> DecodeError:
        """Return the error of a value, placed at the field so far from its record's first one."""
        field = int(self.fields.first[row]) + place
        begin = int(self.fields.starts[field] - self.messages.starts[self.message[row]])
        where = replace(error.where, record=self.number(row), column=None, offset=begin)
        return DecodeError(error.problem, where=where, hint=error.hint)
