"""Where the fields of delimited text lie: delimiters, quotes and record ends, as integer arrays.

No value is touched. A quote opens a quoted value only at the start of a field; elsewhere it is
data. Inside a quoted value delimiters are data, and the escaped quote does not close it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from trailgate.columnar import bits
from trailgate.columnar.views import Octets
from trailgate.errors import DecodeError, Where

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
SHOWN: Final = 24  # bytes of context in an error
BLOCK: Final = 1 << 18  # bytes looked at at once, so that masks stay in cache


@dataclass(frozen=True, slots=True)
class Dialect:
    """The delimiters, each one or more bytes.

    ``quote_escaped`` is a quote inside quotes; ``others_escaped`` are how the other delimiters
    stand in data: a delimiter within one of them is data.
    """

    field: bytes
    line: bytes
    quote: bytes | None = None
    quote_escaped: bytes | None = None
    others_escaped: tuple[bytes, ...] = ()

    @property
    def escaped(self) -> bytes:
        """Return how a quote stands inside quotes; doubled where nothing else is said."""
        return self.quote_escaped or (self.quote or b"") * 2


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
    end is none. Raises DecodeError at a quote that is not closed or is followed by text.
    """
    if not len(starts):
        none = np.zeros(0, np.int64)
        return Fields(none, none, none, none, none, quotes=False, escapes=None)
    low, high = int(starts[0]), int(ends[-1])
    found = _outside_quotes(data[low:high], starts - low, ends - low, dialect)
    for escape in dialect.others_escaped:
        if dialect.field in escape or dialect.line in escape:
            found = _without_escaped(data[low:high], found, escape)
    placed = found._replace(
        positions=found.positions + low,
        escapes=None if found.escapes is None else found.escapes + low,
    )
    return _fields(data, placed, (starts, ends), dialect)


class _Found(NamedTuple):
    """Delimiters outside quotes, in order; which end a line; places of (maybe) escaped quotes."""

    positions: Longs
    is_line: Mask
    quotes: bool = False
    escapes: Longs | None = None

    def where(self, kept: Mask, *, escapes: Longs | None = None) -> _Found:
        """Return the delimiters kept of text that has quotes."""
        positions, is_line = self.positions.compress(kept), self.is_line.compress(kept)
        return _Found(positions, is_line, quotes=True, escapes=escapes)


def find_all(data: Octets, token: bytes) -> Longs:
    """Return where ``token`` occurs, from left to right without overlaps."""
    size = len(token)
    if size == 1:
        return np.flatnonzero(data == token[0])
    if len(data) < size:
        return np.zeros(0, np.int64)
    found = data[: len(data) - size + 1] == token[0]
    for i in range(1, size):
        found &= data[i : len(data) - size + 1 + i] == token[i]
    positions = np.flatnonzero(found)
    if len(positions) > 1 and int(np.diff(positions).min()) < size:
        return _without_overlaps(positions, size)
    return positions


def _without_overlaps(positions: Longs, size: int) -> Longs:
    kept, free = [], -1
    for position in positions.tolist():
        if position >= free:
            kept.append(position)
            free = position + size
    return np.array(kept, np.int64)


def _delimiters(data: Octets, dialect: Dialect) -> _Found:
    """Return all delimiters, quoted or not."""
    if len(dialect.field) == len(dialect.line) == 1:
        positions = np.flatnonzero(_any_of(data, dialect.field[0], dialect.line[0]))
        return _placed(data, positions, dialect)
    lines, fields = find_all(data, dialect.line), find_all(data, dialect.field)
    if dialect.field in dialect.line:
        fields = _not_within(fields, lines, len(dialect.line))
    elif dialect.line in dialect.field:
        lines = _not_within(lines, fields, len(dialect.field))
    positions = np.concatenate([fields, lines])
    order = np.argsort(positions, kind="stable")
    return _Found(positions[order], order >= len(fields))


def _without_escaped(data: Octets, found: _Found, escape: bytes) -> _Found:
    """Return the delimiters that are no part of an escape."""
    escapes = find_all(data, escape)
    if not len(escapes):
        return found
    before = np.searchsorted(escapes, found.positions, "right") - 1
    kept = (before < 0) | (found.positions >= escapes[before] + len(escape))
    positions, is_line = found.positions.compress(kept), found.is_line.compress(kept)
    return found._replace(positions=positions, is_line=is_line)


def _not_within(shorter: Longs, longer: Longs, size: int) -> Longs:
    """Return the delimiters that are no part of the longer one ("|" beside "||")."""
    if not len(longer):
        return shorter
    before = np.searchsorted(longer, shorter, "right") - 1
    inside = (before >= 0) & (shorter < longer[before] + size)
    return shorter[~inside]


def _outside_quotes(data: Octets, starts: Longs, ends: Longs, dialect: Dialect) -> _Found:
    if not dialect.quote:
        return _delimiters(data, dialect)
    if len(dialect.field) == len(dialect.line) == len(dialect.quote) == 1:
        return _single_bytes(data, starts, ends, dialect)
    quotes = find_all(data, dialect.quote)
    return _general(data, quotes, _delimiters(data, dialect), (starts, ends), dialect)


def _single_bytes(data: Octets, starts: Longs, ends: Longs, dialect: Dialect) -> _Found:
    """Return the delimiters outside quotes where all three are single bytes: marks as bits."""
    quotes = bits.packed(data == (dialect.quote or b"")[0])
    if not quotes.any():
        return _delimiters(data, dialect)
    delimiters = bits.packed(_any_of(data, dialect.field[0], dialect.line[0]))
    inside = bits.running_xor(quotes)  # from an opening quote up to before the closing one
    opening, closing = quotes & inside, quotes & ~inside
    regular = dialect.escaped == (dialect.quote or b"") * 2 and not bits.any_at(
        inside, np.append(starts[1:] - 1, len(data) - 1)
    )
    if regular:
        begins = bits.up(delimiters | closing) | bits.packed(_marked(len(data), starts))
        finishes = bits.down(delimiters | opening) | bits.packed(_marked(len(data), ends - 1))
        regular = not (opening & ~begins).any() and not (closing & ~finishes).any()
    if not regular:
        every = _placed(data, bits.places(delimiters, len(data)), dialect)
        return _general(data, bits.places(quotes, len(data)), every, (starts, ends), dialect)
    found = _placed(data, bits.places(delimiters & ~inside, len(data)), dialect)
    doubled = opening & bits.up(closing)
    escapes = bits.places(doubled, len(data)) if doubled.any() else None
    return found._replace(quotes=True, escapes=escapes)


def _placed(data: Octets, positions: Longs, dialect: Dialect) -> _Found:
    return _Found(positions, data.take(positions) == dialect.line[0])


def _marked(count: int, positions: Longs) -> Mask:
    marks = np.zeros(count, bool)
    marks[positions] = True
    return marks


def _any_of(data: Octets, *values: int) -> Mask:
    """Return which bytes are one of the values, in blocks that stay in cache."""
    found = np.empty(len(data), bool)
    other = np.empty(min(len(data), BLOCK), bool)
    for begin in range(0, len(data), BLOCK):
        part, mark = data[begin : begin + BLOCK], found[begin : begin + BLOCK]
        np.equal(part, values[0], out=mark)
        for value in values[1:]:
            mark |= np.equal(part, value, out=other[: len(part)])
    return found


def _general(
    data: Octets, quotes: Longs, every: _Found, bodies: tuple[Longs, Longs], dialect: Dialect
) -> _Found:
    """Return the delimiters outside quotes, found quote by quote."""
    if not len(quotes):
        return every
    opens, closes = _quoted_spans(data, quotes, every, bodies, dialect)
    span = np.searchsorted(opens, every.positions, "right") - 1
    outside = span < 0
    if len(opens):
        outside |= every.positions >= closes[span]
    return every.where(outside, escapes=quotes)


def token_at(data: Octets, positions: Longs, token: bytes) -> Mask:
    """Return at which positions (any number, also outside the data) ``token`` stands."""
    if not len(data):
        return np.zeros(len(positions), bool)
    found: Mask = data.take(positions, mode="clip") == token[0]
    for i, byte in enumerate(token[1:], 1):
        found &= data.take(positions + i, mode="clip") == byte
    if len(positions) and (
        int(positions.min()) < 0 or int(positions.max()) + len(token) > len(data)
    ):
        found &= (positions >= 0) & (positions + len(token) <= len(data))
    return found


def _ends_field(data: Octets, after: Longs, ends: Longs, dialect: Dialect) -> Mask:
    """Return after which places a delimiter follows that lies within the body, whose end is given."""
    found = np.zeros(len(after), bool)
    for token in (dialect.field, dialect.line):
        found |= token_at(data, after, token) & (after + len(token) <= ends)
    return found


def _quoted_spans(
    data: Octets, quotes: Longs, every: _Found, bodies: tuple[Longs, Longs], dialect: Dialect
) -> tuple[Longs, Longs]:
    """Return where quoted values begin and end (after the closing quote), quote by quote."""
    (starts, ends), quote, escaped = bodies, dialect.quote or b"", dialect.escaped
    lead = escaped.find(quote)
    body = np.searchsorted(starts, quotes, "right") - 1
    sizes = np.where(every.is_line, len(dialect.line), len(dialect.field))
    opens_field = np.isin(quotes, every.positions + sizes)
    opens_field |= starts[body] == quotes
    is_escape = token_at(data, quotes - lead, escaped)
    after = quotes + len(quote)
    closes_field = _ends_field(data, after, ends[body], dialect)
    closes_field |= ends[body] == after
    opens: list[int] = []
    closes: list[int] = []
    free, opened, owner = -1, -1, -1
    rows = zip(
        quotes.tolist(),
        body.tolist(),
        opens_field.tolist(),
        is_escape.tolist(),
        closes_field.tolist(),
        strict=True,
    )
    for place, message, begins, escape, finishes in rows:
        if opened >= 0 and message != owner:
            raise _unclosed(data, opened)
        if place < free:
            continue
        if opened < 0:
            if begins:
                opened, owner, free = place, message, place + len(quote)
        elif escape and place - lead >= opened + len(quote):
            free = place - lead + len(escaped)
        elif finishes:
            opens.append(opened)
            closes.append(place + len(quote))
            opened = -1
        else:
            raise _trailing(data, place)
    if opened >= 0:
        raise _unclosed(data, opened)
    return np.array(opens, np.int64), np.array(closes, np.int64)


def _unclosed(data: Octets, place: int) -> DecodeError:
    return DecodeError(
        "a quoted value is not closed",
        where=Where(offset=place, raw=data[place : place + SHOWN].tobytes()),
        hint="Is the message cut off, or is delim.quote or delim.quote.escaped another one?",
    )


def _trailing(data: Octets, place: int) -> DecodeError:
    return DecodeError(
        "text follows a closing quote",
        where=Where(offset=place, raw=data[place : place + SHOWN].tobytes()),
        hint="A quote inside a quoted value must be written as delim.quote.escaped says",
    )


def _fields(data: Octets, found: _Found, bodies: tuple[Longs, Longs], dialect: Dialect) -> Fields:
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
    found: _Found, bodies: tuple[Longs, Longs], dialect: Dialect
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
