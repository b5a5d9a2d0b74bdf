"""The records of fixed-width messages: their units, header fields by name, errors at fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.columnar.code_pages.page_text import page_text
from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.messages.fixed_width.units import MessageUnits
from trailgate.messages.fixed_width.values import FieldReader
from trailgate.messages.parsing.bad_messages import BadMessagesError, errors_by_row
from trailgate.messages.parsing.records import RETURNS, Records

_RETURN: Final = ord("\r")
Refuse = Callable[[Longs, Callable[[int], TrailgateError]], object]


@dataclass(frozen=True, slots=True, eq=False)
class FixedWidthRecords(Records):
    """Records in bytes or characters; each has its whole header."""

    units: MessageUnits
    starts: Longs
    ends: Longs
    header: Mapping[str, FieldReader]
    returns: bool = False  # a carriage return may follow a record

    @property
    def notes(self) -> frozenset[str]:
        """Return what a run notes once about such records."""
        units = self.units.units
        inside = self.ends[self.ends < len(units)] if self.returns else self.ends[:0]
        return frozenset({RETURNS} if (units[inside] == _RETURN).any() else ())

    @property
    def lengths(self) -> Longs:
        """Return how many units each record has."""
        return self.ends - self.starts

    def text(self, name: str) -> pa.Array:
        """Return each record's text of a header field, without blanks around it."""
        errors: dict[int, TrailgateError] = {}

        def refuse(rows: Longs, error: Callable[[int], TrailgateError]) -> None:
            for row in rows.tolist():
                errors.setdefault(int(self.message[row]), error(row))

        values = self.column(self.header[name], np.arange(len(self.starts)), refuse)
        if errors:
            raise BadMessagesError(errors)
        return pc.utf8_trim(values, " ")

    def column(self, reader: FieldReader, rows: Longs, refuse: Refuse) -> pa.Array | None:
        """Return the values of a field of some records; None where a conversion fails.

        ``refuse`` gets the rows that are not values, and what makes the error of one.
        """
        slot = reader.slot
        values, bad = reader.decode(
            self.units.rows(self.starts[rows] + slot.offset, slot.field.size)
        )
        if bad is not None:
            refuse(rows[bad], lambda row: self._unreadable(row, reader))
        try:
            return reader.convert(values)
        except DecodeError as error:
            errors = errors_by_row(reader.convert, values, error)
        by_row = {int(rows[at]): errors[at] for at in errors}
        wrong = rows[np.fromiter(errors, np.int64, len(errors))]
        refuse(
            wrong,
            lambda row: self._at_field(row, reader, by_row[row].problem, by_row[row].hint),
        )
        return None

    def _unreadable(self, row: int, reader: FieldReader) -> DecodeError:
        begin, end = self._bytes(row, reader.slot.offset, reader.slot.end)
        problem, hint = reader.explain(self.units.data[begin:end].tobytes())
        return self._at_field(row, reader, problem, hint)

    def _at_field(self, row: int, reader: FieldReader, problem: str, hint: str) -> DecodeError:
        slot = reader.slot
        begin, end = self._bytes(row, slot.offset, slot.end)
        raw = self.units.data[begin:end].tobytes()
        offset = begin - int(self.messages.starts[self.message[row]])
        where = Where(
            record=self.number(row),
            offset=offset,
            field=slot.column.name,
            raw=raw,
            text=page_text(raw, reader.page),
        )
        return DecodeError(problem, where=where, hint=hint)

    def raw(self, row: int) -> bytes:
        """Return a record's bytes."""
        begin, end = self._bytes(row, 0, int(self.ends[row] - self.starts[row]))
        return self.units.data[begin:end].tobytes()

    def _bytes(self, row: int, begin: int, end: int) -> tuple[int, int]:
        """Return where units of a record, counted from its begin, lie in the data."""
        places = self.units.byte(self.starts[row] + np.array([begin, end]))
        return int(places[0]), int(places[1])
