"""Where the fields of delimited text lie: delimiters, quotes and record ends, as integer arrays.

No value is touched. A quote opens a quoted value only at the start of a field; elsewhere it is
data. Inside a quoted value delimiters are data, and the escaped quote does not close it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.delimiter_tokens import Dialect, Found, without_escaped
from trailgate.columnar.quotes import BrokenQuotesError, outside_quotes

__all__ = ["BrokenQuotesError", "Dialect", "Fields", "index_fields"]


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of all records: field i is data[starts[i]:ends[i]], quotes included.

    Record r has the fields first[r] to first[r] + count[r] - 1 and lies in body ``body[r]``.
    ``quotes`` says whether any quote occurs; ``escapes`` marks the fields in which an escaped
    quote may occur, None where there are none.
    """

    starts: Longs
    ends: Longs
    first: Longs
    count: Longs
    body: Longs
    quotes: bool
    escapes: Mask | None


def index_fields(data: Octets, starts: Longs, ends: Longs, dialect: Dialect) -> Fields:
    """Return the fields of the bodies data[starts[i]:ends[i]]: ascending, apart, none empty.

    A body's end ends its record, with a line delimiter or without; an empty record at a body's
    end is none. Raises BrokenQuotesError where quotes are not closed or are followed by text.
    """
    if not len(starts):
        none = np.zeros(0, np.int64)
        return Fields(none, none, none, none, none, quotes=False, escapes=None)
    low, high = int(starts[0]), int(ends[-1])
    found = outside_quotes(data[low:high], starts - low, ends - low, dialect)
    for escape in dialect.others_escaped:
        if dialect.field in escape or dialect.line in escape:
            found = without_escaped(data[low:high], found, escape)
    moved = found._replace(
        positions=found.positions + low,
        escapes=None if found.escapes is None else found.escapes + low,
    )
    return _fields(data, moved, (starts, ends), dialect)


def _fields(data: Octets, found: Found, bodies: tuple[Longs, Longs], dialect: Dialect) -> Fields:
    """Return the fields between the delimiters found, with the ends of bodies as record ends."""
    (positions, is_line, quotes, escapes), (starts, ends) = found, bodies
    gaps = starts[1:] - ends[:-1]
    if _lines_between(data, ends, gaps, dialect):
        positions = np.append(positions, ends[-1])
        is_line = np.append(is_line, True)
        ends_at = None
    else:
        positions, is_line, ends_at = _with_body_ends(found, bodies, dialect)
    field_starts = np.empty(len(positions), np.int64)
    field_starts[0] = starts[0]
    np.add(positions[:-1], len(dialect.field), out=field_starts[1:])
    if len(dialect.line) != len(dialect.field):
        field_starts[1:] += is_line[:-1] * (len(dialect.line) - len(dialect.field))
    if ends_at is not None:
        field_starts[ends_at[:-1] + 1] = starts[1:]
    last = np.flatnonzero(is_line)
    first = np.empty(len(last), np.int64)
    first[0] = 0
    first[1:] = last[:-1] + 1
    count = last - first + 1
    marked = None
    if escapes is not None:
        marked = np.zeros(len(positions), bool)
        marked[np.searchsorted(field_starts, escapes, "right") - 1] = True
    return _without_empty(
        Fields(field_starts, positions, first, count, last, quotes, marked), starts, ends
    )


def _lines_between(data: Octets, ends: Longs, gaps: Longs, dialect: Dialect) -> bool:
    """Return whether bodies lie one line delimiter apart, as lines of a file do."""
    if len(dialect.line) != 1 or not bool((gaps == 1).all()):
        return False
    return bool((data[ends[:-1]] == dialect.line[0]).all())


def _with_body_ends(
    found: Found, bodies: tuple[Longs, Longs], dialect: Dialect
) -> tuple[Longs, Mask, Longs]:
    """Return the delimiters inside bodies with the bodies' ends among them, and where those are."""
    positions, is_line, (starts, ends) = found.positions, found.is_line, bodies
    body = np.searchsorted(starts, positions, "right") - 1
    sizes = np.where(is_line, len(dialect.line), len(dialect.field))
    inside = positions + sizes <= ends[np.maximum(body, 0)]
    inside &= body >= 0
    positions, is_line = positions[inside], is_line[inside]
    slots = np.searchsorted(positions, ends)
    merged = np.insert(positions, slots, ends)
    lines = np.insert(is_line, slots, True)
    return merged, lines, slots + np.arange(len(ends))


def _without_empty(fields: Fields, starts: Longs, ends: Longs) -> Fields:
    """Return the records without the empty ones at bodies' ends, each with its body."""
    begin, finish = fields.starts[fields.first], fields.ends[fields.body]
    if len(begin) == len(starts) and bool((begin == starts).all()):
        body = np.arange(len(starts))
    else:
        body = np.searchsorted(starts, begin, "right") - 1
    empty = (begin == finish) & (finish == ends[body])
    kept = slice(None) if not empty.any() else ~empty
    return Fields(
        fields.starts,
        fields.ends,
        fields.first[kept],
        fields.count[kept],
        body[kept],
        fields.quotes,
        fields.escapes,
    )
