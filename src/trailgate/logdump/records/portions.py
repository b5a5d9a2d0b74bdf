"""Records in portions of a few megabytes: headers, names and transactions, in columns.

A portion holds sound records only: bytes up to the first record whose framing or fixed header is
wrong. Nothing is decoded that is not asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np

from trailgate.arrays import Mask, Structs
from trailgate.errors import DecodeError
from trailgate.logdump.records.names import Names, names_of
from trailgate.logdump.records.token_columns import Transactions, read_transactions
from trailgate.logdump.records.transaction_numbers import Numbers, number_transactions
from trailgate.trail.records.metadata import TrailTables
from trailgate.trail.records.record_problems import (
    HEADER_LENGTH,
    NO_HEADER,
    UNREADABLE,
    first_problem,
)
from trailgate.trail.records.record_view import RecordView, find_names
from trailgate.trail.records.trail_bytes import TrailBytes
from trailgate.trail.records.transactions import ONLY, stands_apart

FORWARD: Final = "SCANFORHEADER finds the next good record"
BACKWARD: Final = "SCANFORHEADER PREV finds the good record before it"


class Surroundings(Protocol):
    """What a portion asks the file around it for."""

    def tables(self, until: int) -> TrailTables:
        """Return the tables known before a place."""

    def transaction_before(self, place: int) -> tuple[bytes, bytes]:
        """Return TRANID and LOGCSN of the transaction that is open before a place."""


@dataclass(frozen=True)
class Portion:
    """Records of a file, ascending, in bytes that begin at ``source.base`` of the file."""

    source: TrailBytes
    view: RecordView
    around: Surroundings

    def __len__(self) -> int:
        return len(self.view)

    @property
    def end(self) -> int:
        """Return the offset in the file after the last record."""
        return self.source.base + (self.view.spans(-1)[1] if len(self) else 0)

    @cached_property
    def heads(self) -> Structs:
        """Return the fixed headers, one structure a record."""
        return self.view.headers(self.source.data, self.source.order)

    @cached_property
    def names(self) -> Names:
        """Return the table names, each once, and which of them each record has."""
        return names_of(find_names(self.source, self.view), lambda: self.around.tables(self.end))

    @cached_property
    def apart(self) -> Mask:
        """Return which records neither open nor end a transaction."""
        found: Mask = stands_apart(self.view) & (self.view.indicator == ONLY)
        return found

    @cached_property
    def numbers(self) -> Numbers:
        """Return which transaction each record belongs to."""
        return number_transactions(self.view.indicator, self.apart)

    @cached_property
    def transactions(self) -> Transactions:
        """Return the transactions and which of them each record belongs to."""
        place = self.source.base + int(self.view.offsets[0])
        return read_transactions(
            self.source,
            self.view.tokens,
            self.numbers,
            lambda: self.around.transaction_before(place),
        )


def sound_records(source: TrailBytes, view: RecordView) -> tuple[RecordView, DecodeError | None]:
    """Return the records up to the first without a header that can be read, and what is wrong with that one."""
    if view.readable.all():
        return view, None
    bad = int(np.argmin(view.readable))
    return view.take(slice(bad)), unsound(source, view.spans(bad), _problem(view, bad))


def last_sound_records(
    source: TrailBytes, view: RecordView
) -> tuple[RecordView, DecodeError | None]:
    """Return the records after the last one without a header that can be read, and what is wrong with that one."""
    if view.readable.all():
        return view, None
    bad = int(np.flatnonzero(~view.readable)[-1])
    error = unsound(source, view.spans(bad), _problem(view, bad))
    error.hint = BACKWARD
    return view.take(slice(bad + 1, None)), error


def _problem(view: RecordView, bad: int) -> str:
    problem = first_problem(int(view.problems[bad]) & UNREADABLE)
    # That the header does not fit its record is said with the same words as that it is not there.
    return first_problem(NO_HEADER).text if problem.bit == HEADER_LENGTH else problem.text


def unsound(source: TrailBytes, span: tuple[int, int], problem: str) -> DecodeError:
    """Return the error about a record that cannot be read."""
    return source.error(problem, span, hint=FORWARD)
