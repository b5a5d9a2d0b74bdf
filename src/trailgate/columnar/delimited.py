r"""Find the fields of delimited text: scan for delimiters, quotes and record ends, and return offsets in arrays.

For the body ``1,"a,b"\n2,\n`` with the usual dialect, the fields are the spans of ``1``, ``"a,b"``,
``2`` and the empty text, in two records of two fields each. Usual dialects (single bytes, doubled
or escaped quotes) are scanned 64 bytes at a time by ``kernels.regular_fields``. Other dialects, and
text with errors in its quotes, are scanned by the slower ``kernels.delimited``, which also finds
the position of each error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets, Offsets, octets
from trailgate.columnar import delimited_kernels as kernels
from trailgate.columnar import regular_fields_kernels as regular_fields
from trailgate.columnar.gather import gather
from trailgate.columnar.gather_kernels import MAX_INT32
from trailgate.errors import DecodeError, Where

SHOWN: Final = 24  # bytes of context in an error
# Guesses that size the arrays, which are doubled if they are too short. Larger guesses would cost time: the
# system clears memory in pages of 2 MB when they are first touched.
BYTES_A_FIELD, BYTES_A_RECORD = 6, 64

# The problems of quotes, each with its hint.
PROBLEMS: Final[Mapping[int, tuple[str, str]]] = MappingProxyType(
    {
        kernels.UNCLOSED: (
            "a quoted value is not closed",
            "Is the message truncated, or are the quote or its escaped form configured wrongly?",
        ),
        kernels.TRAILING: (
            "text follows a closing quote",
            "A quote inside a quoted value is doubled, or written in its escaped form",
        ),
    }
)


class UnbalancedQuotesError(DecodeError):
    """Raised if bodies of delimited text have wrong quotes. The message describes the first such body.

    The arrays have one item per such body: its index among all bodies, the offset of the fault from
    its start, the bytes there, and the type of problem (an index into ``PROBLEMS``).
    """

    bodies: Longs
    offsets: Longs
    raw: pa.BinaryArray
    kinds: Octets


@dataclass(frozen=True, slots=True)
class DelimitedDialect:
    """A dialect of delimited text: its field and line delimiters, quotes and escapes, each of one or more bytes.

    ``quote_escaped`` is the escaped form of a quote within quotes; None means a doubled quote.
    ``escaped_delimiters`` are the escaped forms of delimiters, for example a backslash and a comma:
    the delimiter in them is data. With ``returns``, a carriage return before the line feed that
    ends a record is not data.
    """

    field: bytes
    line: bytes
    quote: bytes | None = None
    quote_escaped: bytes | None = None
    escaped_delimiters: tuple[bytes, ...] = ()
    returns: bool = False

    @property
    def escaped_quote(self) -> bytes:
        """Return the form of a quote within quotes: doubled unless configured otherwise."""
        return self.quote_escaped or (self.quote or b"") * 2


@dataclass(frozen=True)
class DelimitedFields:
    """The fields of all records of delimited text: field i is data[starts[i]:ends[i]], including its quotes.

    Record r has the fields bounds[r] to bounds[r + 1] - 1 and belongs to body ``body[r]``.
    ``flags`` states for each field whether it is quoted and contains escaped quotes
    (``kernels.QUOTED``, ``kernels.ESCAPES``). ``returned`` is the number of records after which a
    carriage return was dropped. ``is_ascii`` is set if all bytes of the bodies are known to be ASCII.
    """

    starts: Offsets
    ends: Offsets
    flags: Octets
    bounds: Longs
    body: Longs
    returned: int = 0
    is_ascii: bool = False

    @property
    def first(self) -> Longs:
        """The index of the first field of each record of delimited text."""
        return self.bounds[:-1]

    @cached_property
    def count(self) -> Longs:
        """The number of fields in each record of delimited text."""
        return np.diff(self.bounds)


def index_fields(
    data: Octets, starts: Longs, ends: Longs, dialect: DelimitedDialect
) -> DelimitedFields:
    """Find the fields of delimited text in the bodies data[starts[i]:ends[i]], which are ascending and do not overlap.

    The end of a body ends its last record, with or without a line delimiter; an empty body has no
    records. Raises UnbalancedQuotesError if quotes are not closed or are followed by text.
    """
    if len(data) > MAX_INT32:
        raise DecodeError("more than 2 GiB of text at once", hint="read fewer messages at a time")
    window, regular = _window(data), _regular(dialect)
    least = len(starts) + 2 * kernels.WINDOW
    # Room for a usual number of fields and records. If a kernel fills it, it is doubled and the scan repeated.
    room, records_room = len(data) // BYTES_A_FIELD + least, len(data) // BYTES_A_RECORD + least
    broken = np.empty((2, len(starts)), np.int64)
    problems = np.empty(len(starts), np.uint8)
    which = kernels.DelimitedBodies(window, len(data), starts, ends)
    while True:
        spans, flags = np.empty((2, room), np.int32), np.empty(room, np.uint8)
        records = np.empty((2, records_room), np.int64)
        written = kernels.FieldArrays(spans[0], spans[1], flags, records[0], records[1])
        count, wrong, high = regular_fields.IRREGULAR, 0, 1
        # The fast kernel gives up at the first byte that needs the general one, such as a quote within a field.
        # The general one then reads everything again.
        if regular is not None:
            count, record_count, high = regular_fields.scan_regular(which, regular, written)
        if count == regular_fields.IRREGULAR:
            regular, high = None, 1
            count, record_count, wrong = kernels.scan(
                which,
                _tokens(dialect),
                dialect.returns,
                written,
                kernels.BrokenBodies(broken[0], broken[1], problems),
            )
        if count != kernels.FULL:
            break
        room, records_room = 2 * room, 2 * records_room
    if count == kernels.OUTSIDE:
        raise DecodeError(f"a body is not within its {len(data)} bytes")
    if wrong:
        bodies, offsets = broken[:, :wrong]
        raise _broken(data, bodies, offsets, (starts[bodies], ends[bodies]), problems[:wrong])
    bounds, body = records[0, : record_count + 1], records[1, :record_count]
    fields = spans[0, :count], spans[1, :count], flags[:count], bounds, body
    returned = kernels.drop_returns(data, ends, *fields) if dialect.returns else 0
    return DelimitedFields(*fields, returned, is_ascii=not high)


def _window(data: Octets) -> Octets:
    """Return the data, padded with zeros to the minimum length that the kernels read at once."""
    missing = kernels.WINDOW - len(data)
    return np.concatenate([data, np.zeros(missing, np.uint8)]) if missing > 0 else data


@cache
def _regular(dialect: DelimitedDialect) -> regular_fields.RegularDialect | None:
    """Convert a dialect of delimited text to the form for the fast scanner, or return None if it cannot scan it.

    The slow scanner is needed for longer tokens, for escaped delimiters, and if two tokens have a
    byte in common.
    """
    quote = dialect.quote or b""
    # A byte, and a quote after it.
    escape = dialect.escaped_quote.removesuffix(quote) if quote else b""
    escape_byte = b"" if escape == quote else escape
    every = dialect.field + dialect.line + quote + escape_byte
    if (
        dialect.escaped_delimiters
        or len(dialect.field) != 1
        or len(dialect.line) > 2
        or len(quote) > 1
        or len(escape) != len(quote)
        or len(set(every)) < len(every)
    ):
        return None
    numbers = (ord(token) if token else -1 for token in (dialect.line[1:], quote, escape))
    return regular_fields.RegularDialect(dialect.field[0], dialect.line[0], *numbers)


@cache
def _tokens(dialect: DelimitedDialect) -> kernels.DelimitedTokens:
    quotes = (dialect.quote, dialect.escaped_quote) if dialect.quote else (b"", b"")
    every = (dialect.field, dialect.line, *quotes, *dialect.escaped_delimiters)
    bounds = np.cumsum([0, *map(len, every)])
    return kernels.DelimitedTokens(
        octets(b"".join(every)),
        bounds,
        _kinds(dialect),
        _firsts(dialect.field, dialect.line, *dialect.escaped_delimiters),
        _firsts(*quotes),
    )


def _kinds(dialect: DelimitedDialect) -> Octets:
    """Return for each byte value the type of delimiter that begins with it, or ``NO_DELIMITER``.

    The type is ``SEVERAL`` if more bytes must be compared to know which delimiter or escape it is.
    """
    kinds = np.zeros(256, np.uint8)
    one_byte = {dialect.field: kernels.FIELD_DELIMITER, dialect.line: kernels.LINE_DELIMITER}
    for token in (dialect.field, dialect.line, *dialect.escaped_delimiters):
        known = kinds[token[0]] != kernels.NO_DELIMITER or len(token) > 1
        kinds[token[0]] = kernels.SEVERAL if known else one_byte.get(token, kernels.SEVERAL)
    return kinds


def _firsts(*tokens: bytes) -> Octets:
    return octets(bytes(sorted({token[0] for token in tokens if token})))


def _broken(
    data: Octets, bodies: Longs, offsets: Longs, spans: tuple[Longs, Longs], kinds: Octets
) -> UnbalancedQuotesError:
    starts, ends = spans
    raw = gather(data, offsets, np.minimum(offsets + SHOWN, ends))
    places = offsets - starts
    problem, hint = PROBLEMS[int(kinds[0])]
    where = Where(offset=int(places[0]), raw=raw[0].as_py())
    error = UnbalancedQuotesError(problem, where=where, hint=hint)
    error.bodies, error.offsets, error.raw, error.kinds = bodies, places, raw, kinds
    return error


def find_token_offsets(data: Octets, token: bytes) -> Longs:
    """Return the offsets of a delimiter ``token`` in the data, from left to right without overlaps."""
    room = len(data) // BYTES_A_FIELD + 1
    while True:
        offsets = np.empty(room, np.int64)
        count = kernels.find(_window(data), len(data), octets(token), offsets)
        if count != kernels.FULL:
            return offsets[:count]
        room *= 2
