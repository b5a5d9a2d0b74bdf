"""Delimiters as tokens of bytes: the dialect, and where its tokens stand, quoted or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Mask, Octets

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


class Found(NamedTuple):
    """Delimiters outside quotes, in order; which end a line; places of (maybe) escaped quotes."""

    positions: Longs
    is_line: Mask
    quotes: bool = False
    escapes: Longs | None = None

    def where(self, kept: Mask, *, escapes: Longs | None = None) -> Found:
        """Return the delimiters kept of text that has quotes."""
        positions, is_line = self.positions.compress(kept), self.is_line.compress(kept)
        return Found(positions, is_line, quotes=True, escapes=escapes)


def all_delimiters(data: Octets, dialect: Dialect) -> Found:
    """Return all delimiters, quoted or not."""
    if len(dialect.field) == len(dialect.line) == 1:
        positions = np.flatnonzero(any_of(data, dialect.field[0], dialect.line[0]))
        return placed(data, positions, dialect)
    lines, fields = find_all(data, dialect.line), find_all(data, dialect.field)
    if dialect.field in dialect.line:
        fields = _not_within(fields, lines, len(dialect.line))
    elif dialect.line in dialect.field:
        lines = _not_within(lines, fields, len(dialect.field))
    positions = np.concatenate([fields, lines])
    order = np.argsort(positions, kind="stable")
    return Found(positions[order], order >= len(fields))


def placed(data: Octets, positions: Longs, dialect: Dialect) -> Found:
    """Return delimiters of one byte at these positions, told apart by their bytes."""
    return Found(positions, data.take(positions) == dialect.line[0])


def any_of(data: Octets, *values: int) -> Mask:
    """Return which bytes are one of the values, in blocks that stay in cache."""
    found = np.empty(len(data), bool)
    other = np.empty(min(len(data), BLOCK), bool)
    for begin in range(0, len(data), BLOCK):
        part, mark = data[begin : begin + BLOCK], found[begin : begin + BLOCK]
        np.equal(part, values[0], out=mark)
        for value in values[1:]:
            mark |= np.equal(part, value, out=other[: len(part)])
    return found


def _not_within(shorter: Longs, longer: Longs, size: int) -> Longs:
    """Return the delimiters that are no part of the longer one ("|" beside "||")."""
    if not len(longer):
        return shorter
    before = np.searchsorted(longer, shorter, "right") - 1
    inside = (before >= 0) & (shorter < longer[before] + size)
    return shorter[~inside]


def without_escaped(data: Octets, found: Found, escape: bytes) -> Found:
    """Return the delimiters that are no part of an escape."""
    escapes = find_all(data, escape)
    if not len(escapes):
        return found
    before = np.searchsorted(escapes, found.positions, "right") - 1
    kept = (before < 0) | (found.positions >= escapes[before] + len(escape))
    positions, is_line = found.positions.compress(kept), found.is_line.compress(kept)
    return found._replace(positions=positions, is_line=is_line)


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
