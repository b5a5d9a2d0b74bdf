"""Records in portions of a few megabytes: headers, areas, names and transactions, in columns.

A portion holds sound records only: bytes up to the first record whose framing or fixed header is
wrong. Nothing is decoded that is not asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Structs
from trailgate.columnar.views import rows_at
from trailgate.errors import DecodeError, Where
from trailgate.logdump.records.names import Names, read_names
from trailgate.logdump.records.token_columns import Transactions, read_transactions
from trailgate.logdump.records.transaction_numbers import (
    Numbers,
    asides,
    indicators,
    number_transactions,
)
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.metadata import TrailTables
from trailgate.trail.format.record_layout import (
    BEFORE_IMAGE,
    H_FIXED,
    INDICATOR,
    NAME_AT,
    RECORD_HEADS,
    SHORTEST,
)
from trailgate.trail.format.times import JULIAN_EPOCH
from trailgate.trail.format.tokens import DATA, FRAME, GGS_TOKENS, HEADER, USER_TOKENS


class Surroundings(Protocol):
    """What a portion asks the file around it for."""

    def tables(self, until: int) -> TrailTables:
        """Return the tables known in front of a place."""

    def transaction_before(self, place: int) -> tuple[bytes, bytes]:
        """Return TRANID and LOGCSN of the transaction that is open in front of a place."""


@dataclass(frozen=True, slots=True)
class Areas:
    """Where the parts of each record lie in the data; what is not there is empty."""

    data: tuple[Longs, Longs]
    tokens: tuple[Longs, Longs]
    user: tuple[Longs, Longs]


@dataclass(frozen=True)
class Portion:
    """Records of a file, ascending; ``base`` is the offset of ``data`` in it."""

    data: Octets
    base: int
    offsets: Longs
    lengths: Longs
    order: ByteOrder
    around: Surroundings

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def end(self) -> int:
        """Return the offset in the file behind the last record."""
        return self.base + int(self.offsets[-1] + self.lengths[-1]) if len(self) else self.base

    @cached_property
    def heads(self) -> Structs:
        """Return the fixed headers, one structure a record."""
        return heads_at(self.data, self.offsets, self.order)

    @cached_property
    def io_time(self) -> Longs:
        """Return the times, microseconds since 1970 UTC."""
        return self.heads["io_time"].astype(np.int64) - JULIAN_EPOCH

    @cached_property
    def is_before(self) -> Mask:
        """Tell which records are before images."""
        return np.asarray(self.heads["image"] == BEFORE_IMAGE)

    @cached_property
    def data_length(self) -> Longs:
        """Return the bytes of data as the headers have them."""
        return self.heads["data_length"].astype(np.int64)

    @cached_property
    def areas(self) -> Areas:
        """Return where data, tokens and user tokens lie."""
        return Areas(*areas_of(self.data, self.offsets, self.lengths, self.heads, self.order))

    @cached_property
    def names(self) -> Names:
        """Return the table names, each once, and which of them each record has."""
        places = (self.offsets + NAME_AT, self.heads["h_length"].astype(np.int64) - H_FIXED)
        return read_names(
            self.data, places, self.heads, self.order, lambda: self.around.tables(self.end)
        )

    @cached_property
    def indicators(self) -> Octets:
        """Return TransInd of each record."""
        return indicators(self.heads, self.order)

    @cached_property
    def aside(self) -> Mask:
        """Tell which records neither open nor end a transaction."""
        return asides(self.heads, self.indicators)

    @cached_property
    def numbers(self) -> Numbers:
        """Return which transaction each record belongs to."""
        return number_transactions(self.indicators, self.aside)

    @cached_property
    def transactions(self) -> Transactions:
        """Return the transactions and which of them each record belongs to."""
        return read_transactions(
            self.data,
            self.numbers,
            self.areas.tokens,
            self.order,
            lambda: self.around.transaction_before(self.base + int(self.offsets[0])),
        )


def heads_at(data: Octets, offsets: Longs, order: ByteOrder) -> Structs:
    """Return the fixed headers of the records at some places."""
    found: Structs = rows_at(data, offsets, NAME_AT).view(RECORD_HEADS[order]).reshape(-1)
    return found


def areas_of(
    data: Octets, offsets: Longs, lengths: Longs, heads: Structs, order: ByteOrder
) -> tuple[tuple[Longs, Longs], ...]:
    """Return the spans of D, T and U; one that is not there is empty, and begins where it would."""
    frames = order.frames(data)
    end = offsets + 2 * FRAME + heads["h_length"].astype(np.int64)
    found = []
    for code in (DATA, GGS_TOKENS, USER_TOKENS):
        frame = frames[end]
        there = order.codes(frame) == code
        start = np.where(there, end + FRAME, end)
        # A part that runs over the record's end is cut there: the record itself tells it whole.
        stops = start + np.where(there, order.lengths(frame).astype(np.int64), 0)
        end = np.minimum(stops, offsets + lengths - FRAME)
        found.append((start, end))
    return tuple(found)


NO_HEADER: Final = "a record must begin with its header (48)"
NO_INDICATOR: Final = "a record header must begin with 45"
SHORT: Final = "a record is too short for its header"


def first_unsound(
    data: Octets, offsets: Longs, lengths: Longs, order: ByteOrder
) -> tuple[int, str]:
    """Return the first record without a header that can be read, and why; -1 if there is none."""
    short = lengths < SHORTEST
    count = int(np.argmax(short)) if short.any() else len(offsets)
    heads = heads_at(data, offsets[:count], order)
    wide = heads["h_length"]
    fits = (wide > H_FIXED) & (wide.astype(np.int64) <= lengths[:count] - 3 * FRAME)
    header = (heads["h_id"] == HEADER) & fits
    good = header & (heads["indicator"] == INDICATOR)
    if not good.all():
        bad = int(np.argmin(good))
        return bad, NO_INDICATOR if header[bad] else NO_HEADER
    return (-1, "") if count == len(offsets) else (count, SHORT)


def unsound(data: Octets, span: tuple[int, int], base: int, problem: str) -> DecodeError:
    """Return the error about a record that cannot be read."""
    start, end = span
    where = Where(offset=base + start, raw=data[start:end].tobytes())
    return DecodeError(problem, where=where, hint="SCANFORHEADER finds the next good record")
