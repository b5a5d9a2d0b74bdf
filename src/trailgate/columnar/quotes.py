"""Delimiters outside quotes: all at once where quotes are regular, else quote by quote."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar import bits
from trailgate.columnar.delimiter_tokens import (
    Dialect,
    Found,
    all_delimiters,
    any_of,
    find_all,
    placed,
    token_at,
)
from trailgate.errors import DecodeError, Where

SHOWN: Final = 24  # bytes of context in an error


class BrokenQuotesError(DecodeError):
    """The first error of several bodies; ``bodies`` has the error of each broken one."""

    bodies: dict[int, DecodeError]


def outside_quotes(data: Octets, starts: Longs, ends: Longs, dialect: Dialect) -> Found:
    """Return the delimiters outside quotes of bodies; raises BrokenQuotesError."""
    if not dialect.quote:
        return all_delimiters(data, dialect)
    if len(dialect.field) == len(dialect.line) == len(dialect.quote) == 1:
        return _single_bytes(data, starts, ends, dialect)
    quotes = find_all(data, dialect.quote)
    return _general(data, quotes, all_delimiters(data, dialect), (starts, ends), dialect)


def _single_bytes(data: Octets, starts: Longs, ends: Longs, dialect: Dialect) -> Found:
    """Return the delimiters outside quotes where all three are single bytes: marks as bits."""
    quotes = bits.packed(data == (dialect.quote or b"")[0])
    if not quotes.any():
        return all_delimiters(data, dialect)
    delimiters = bits.packed(any_of(data, dialect.field[0], dialect.line[0]))
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
        every = placed(data, bits.places(delimiters, len(data)), dialect)
        return _general(data, bits.places(quotes, len(data)), every, (starts, ends), dialect)
    found = placed(data, bits.places(delimiters & ~inside, len(data)), dialect)
    doubled = opening & bits.up(closing)
    escapes = bits.places(doubled, len(data)) if doubled.any() else None
    return found._replace(quotes=True, escapes=escapes)


def _marked(count: int, positions: Longs) -> Mask:
    marks = np.zeros(count, bool)
    marks[positions] = True
    return marks


def _general(
    data: Octets, quotes: Longs, every: Found, bodies: tuple[Longs, Longs], dialect: Dialect
) -> Found:
    """Return the delimiters outside quotes, found quote by quote."""
    starts, ends = bodies
    body = np.searchsorted(starts, quotes, "right") - 1
    # What lies between bodies may have quotes too.
    quotes = quotes[(body >= 0) & (quotes + len(dialect.quote or b"") <= ends[body])]
    if not len(quotes):
        return every
    opens, closes = _quoted_spans(data, quotes, every, bodies, dialect)
    span = np.searchsorted(opens, every.positions, "right") - 1
    outside = span < 0
    if len(opens):
        outside |= every.positions >= closes[span]
    return every.where(outside, escapes=quotes)


def _ends_field(data: Octets, after: Longs, ends: Longs, dialect: Dialect) -> Mask:
    """Return after which places a delimiter follows that lies within the body, whose end is given."""
    found = np.zeros(len(after), bool)
    for token in (dialect.field, dialect.line):
        found |= token_at(data, after, token) & (after + len(token) <= ends)
    return found


def _quoted_spans(
    data: Octets, quotes: Longs, every: Found, bodies: tuple[Longs, Longs], dialect: Dialect
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
    rows = zip(
        quotes.tolist(),
        body.tolist(),
        opens_field.tolist(),
        is_escape.tolist(),
        closes_field.tolist(),
        strict=True,
    )
    opens: list[int] = []
    closes: list[int] = []
    broken: dict[int, tuple[int, str]] = {}
    free, opened, owner = -1, -1, -1
    for place, message, begins, escape, finishes in rows:
        if opened >= 0 and message != owner:
            broken[owner] = opened, "unclosed"
            opened = -1
        if place < free or message in broken:
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
            broken[message] = place, "trailing"
            opened = -1
    if opened >= 0:
        broken[owner] = opened, "unclosed"
    if broken:
        raise _broken(data, broken, bodies)
    return np.array(opens, np.int64), np.array(closes, np.int64)


# What went wrong with a quote, and the hint.
PROBLEMS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "unclosed": (
            "a quoted value is not closed",
            "Is the message cut off, or is delim.quote or delim.quote.escaped another one?",
        ),
        "trailing": (
            "text follows a closing quote",
            "A quote inside a quoted value must be written as delim.quote.escaped says",
        ),
    }
)


def _broken(
    data: Octets, broken: dict[int, tuple[int, str]], bodies: tuple[Longs, Longs]
) -> BrokenQuotesError:
    """Return the errors of these bodies: each body's first, with its place in the body."""
    errors = {}
    for body, (place, kind) in sorted(broken.items()):
        start, end = int(bodies[0][body]), int(bodies[1][body])
        raw = data[place : min(place + SHOWN, end)].tobytes()
        problem, hint = PROBLEMS[kind]
        errors[body] = DecodeError(problem, where=Where(offset=place - start, raw=raw), hint=hint)
    first = next(iter(errors.values()))
    found = BrokenQuotesError(first.problem, where=first.where, hint=first.hint)
    found.bodies = errors
    return found
