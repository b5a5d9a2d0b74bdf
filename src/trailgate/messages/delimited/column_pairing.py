"""The order of fields in a delimited record: names, befores and afters, in turn or in blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trailgate.messages.delimited.options import DelimitedOptions

FieldNumber = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class ColumnPairing:
    """The fields of column i's name, before and after value, counted from a record's first field."""

    columns: int
    name: FieldNumber | None
    before: FieldNumber | None
    after: FieldNumber

    @staticmethod
    def of(options: DelimitedOptions, columns: int) -> ColumnPairing:
        """Return the pairing of records with that many columns."""
        parts = ["name"] if options.hasnames else []
        values = ["before", "after"] if options.hasbefores else ["after"]
        parts += values[::-1] if options.afterfirst else values
        header = len(options.header)

        def place(part: str) -> FieldNumber:
            at = parts.index(part)
            if options.isgrouped:
                return lambda i: header + at * columns + i
            return lambda i: header + i * len(parts) + at

        return ColumnPairing(
            columns,
            place("name") if options.hasnames else None,
            place("before") if options.hasbefores else None,
            place("after"),
        )

    def column_of(self, place: int) -> int:
        """Return the column whose before or after is at a place."""
        places = [place for place in (self.before, self.after) if place]
        return next(i for i in range(self.columns) for of in places if of(i) == place)
