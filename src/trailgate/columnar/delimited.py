"""Where the fields of delimited text are: delimiters, quotes and record ends, as integer arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.kernels import delimited as kernels
from trailgate.columnar.kernels import regular_fields
from trailgate.columnar.kernels.gather import MAX_INT32
from trailgate.columnar.rows import octets
from trailgate.errors import DecodeError, Where

SHOWN: Final = 24  # bytes of context in an error
# Guesses; arrays double where there are more. Memory that is not used is not free: the system clears it in pages of 2 MB.
BYTES_A_FIELD, BYTES_A_RECORD = 6, 64

# What is wrong with a body's quotes, and the hint.
PROBLEMS: Final[Mapping[int, tuple[str, str]]] = MappingProxyType(
    {
        kernels.UNCLOSED: (
            "a quoted value is not closed",
            "Is the message cut off, or is the quote, or its escaped form, another one?",
        ),
        kernels.TRAILING: (
            "text follows a closing quote",
            "A quote inside a quoted value is doubled, or written in its escaped form",
        ),
    }
)


class BrokenQuotesError(DecodeError):
    """The first error of several bodies; ``bodies`` has the error of each broken one."""

    bodies: dict[int, DecodeError]


@dataclass(frozen=True, slots=True)
class Dialect:
    """The delimiters, each one or more bytes.

    ``quote_escaped`` is a quote inside quotes; ``others_escaped`` are the forms in which other delimiters
    are written in data: a delimiter within one of them is data. With ``returns``, a carriage return before the line
    feed that ends a record is not data.
    """

    field: bytes
    line: bytes
    quote: bytes | None = None
    quote_escaped: bytes | None = None
    others_escaped: tuple[bytes, ...] = ()
    returns: bool = False

    @property
    def escaped(self) -> bytes:
        """Return a quote as it is written inside quotes: doubled unless configured otherwise."""
        return self.quote_escaped or (self.quote or b"") * 2


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of all records: field i is data[starts[i]:ends[i]], quotes included.

    Record r has the fields bounds[r] to bounds[r + 1] - 1 and is part of body ``body[r]``. ``flags`` say of each
    field whether it is quoted and has escaped quotes (``kernels.QUOTED``, ``kernels.ESCAPES``). After ``returned`` records a
    carriage return was dropped.
    """

    starts: Offsets
    ends: Offsets
    flags: Octets
    bounds: Longs
    body: Longs
    returned: int = 0

    @property
    def first(self) -> Longs:
        """Return the first field of each record."""
        return self.bounds[:-1]

    @property
    def count(self) -> Longs:
        """Return how many fields each record has."""
        return np.diff(self.bounds)


def index_fields(data: Octets, starts: Longs, ends: Longs, dialect: Dialect) -> Fields:
    """Return the fields of the bodies data[starts[i]:ends[i]]: ascending and apart.

    A body's end ends its record, with a line delimiter or without; an empty body has no record. Raises
    BrokenQuotesError where quotes are not closed or are followed by text.
    """
    if len(data) > MAX_INT32:
        raise DecodeError("more than 2 GiB of text at once", hint="read fewer messages at a time")
    window, regular = _window(data), _regular(dialect)
    least = len(starts) + 2 * kernels.WINDOW
    room, records_room = len(data) // BYTES_A_FIELD + least, len(data) // BYTES_A_RECORD + least
    broken = np.empty((2, len(starts)), np.int64)
    problems = np.empty(len(starts), np.uint8)
    while True:
        places, flags = np.empty((2, room), np.int32), np.empty(room, np.uint8)
        records = np.empty((2, records_room), np.int64)
        which, written = (window, len(data), starts, ends), (*places, flags, *records)
        count, wrong = regular_fields.IRREGULAR, 0
        if regular is not None:
            count, found = regular_fields.scan_regular(*which, *regular, *written)
        if count == regular_fields.IRREGULAR:
            regular = None
            count, found, wrong = kernels.scan(
                *which, *_tokens(dialect), dialect.returns, *written, *broken, problems
            )
        if count != kernels.FULL:
            break
        room, records_room = 2 * room, 2 * records_room
    if count == kernels.OUTSIDE:
        raise DecodeError(f"a body is not within its {len(data)} bytes")
    if wrong:
        where = zip(*broken[:, :wrong].tolist(), problems[:wrong].tolist(), strict=True)
        raise _broken(
            {
                body: _error(data, place, (starts[body], ends[body]), kind)
                for body, place, kind in where
            }
        )
    bounds, body = records[0, : found + 1], records[1, :found]
    fields = places[0, :count], places[1, :count], flags[:count], bounds, body
    returned = kernels.drop_returns(data, ends, *fields) if dialect.returns else 0
    return Fields(*fields, returned)


def _window(data: Octets) -> Octets:
    """Return the bytes, with zeros after them where they are fewer than the kernels look at together."""
    missing = kernels.WINDOW - len(data)
    return np.concatenate([data, np.zeros(missing, np.uint8)]) if missing > 0 else data


class _Tokens(NamedTuple):
    """A dialect as the scanner takes it."""

    tokens: Octets
    bounds: Longs
    kinds: Octets
    delimiter_bytes: Octets
    quote_bytes: Octets


class _Regular(NamedTuple):
    """A dialect of bytes as the scanner of regular text takes it; -1: there is none."""

    field: int
    line: int
    line_end: int
    quote: int
    escape: int


@cache
def _regular(dialect: Dialect) -> _Regular | None:
    """Return a usual dialect; None for one with longer tokens, escaped delimiters, or a byte of two meanings."""
    quote = dialect.quote or b""
    escape = dialect.escaped.removesuffix(quote) if quote else b""  # a byte, and a quote after it
    own = b"" if escape == quote else escape
    every = dialect.field + dialect.line + quote + own
    if (
        dialect.others_escaped
        or len(dialect.field) != 1
        or len(dialect.line) > 2
        or len(quote) > 1
        or len(escape) != len(quote)
        or len(set(every)) < len(every)
    ):
        return None
    numbers = (ord(token) if token else -1 for token in (dialect.line[1:], quote, escape))
    return _Regular(dialect.field[0], dialect.line[0], *numbers)


@cache
def _tokens(dialect: Dialect) -> _Tokens:
    quotes = (dialect.quote, dialect.escaped) if dialect.quote else (b"", b"")
    every = (dialect.field, dialect.line, *quotes, *dialect.others_escaped)
    bounds = np.cumsum([0, *map(len, every)])
    return _Tokens(
        octets(b"".join(every)),
        bounds,
        _kinds(dialect),
        _firsts(dialect.field, dialect.line, *dialect.others_escaped),
        _firsts(*quotes),
    )


def _kinds(dialect: Dialect) -> Octets:
    """Return what begins with each byte value: a delimiter of one byte is known by it alone."""
    kinds = np.zeros(256, np.uint8)
    one_byte = {dialect.field: kernels.FIELD_DELIMITER, dialect.line: kernels.LINE_DELIMITER}
    for token in (dialect.field, dialect.line, *dialect.others_escaped):
        known = kinds[token[0]] != kernels.NO_DELIMITER or len(token) > 1
        kinds[token[0]] = kernels.SEVERAL if known else one_byte.get(token, kernels.SEVERAL)
    return kinds


def _firsts(*tokens: bytes) -> Octets:
    return octets(bytes(sorted({token[0] for token in tokens if token})))


def _error(data: Octets, place: int, body: tuple[Any, Any], kind: int) -> DecodeError:
    raw = data[place : min(place + SHOWN, int(body[1]))].tobytes()
    problem, hint = PROBLEMS[kind]
    return DecodeError(problem, where=Where(offset=place - int(body[0]), raw=raw), hint=hint)


def _broken(errors: dict[int, DecodeError]) -> BrokenQuotesError:
    first = next(iter(errors.values()))
    found = BrokenQuotesError(first.problem, where=first.where, hint=first.hint)
    found.bodies = errors
    return found


def find_all(data: Octets, token: bytes) -> Longs:
    """Return where ``token`` occurs, from left to right without overlaps."""
    room = len(data) // BYTES_A_FIELD + 1
    while True:
        places = np.empty(room, np.int64)
        count = kernels.find(_window(data), len(data), octets(token), places)
        if count != kernels.FULL:
            return places[:count]
        room *= 2
