"""Records in chunks of a few megabytes: headers, names, tokens and transactions, in columns.

A chunk holds sound records only: bytes up to the first record whose framing or fixed header is wrong. Nothing is decoded that is not asked for.

Which transaction each record belongs to follows from TransInd alone: 0 opens a transaction, 1 and 2 continue the one that is open, 3 is one of its own. Metadata, DDL
and notes are apart: they may lie inside a transaction and neither end nor open it (trail format §8 and §12). Unlike readers, Logdump numbers
these too, each as a transaction of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from re import IGNORECASE
from re import compile as compile_pattern
from typing import Final, Protocol

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Structs
from trailgate.columnar.gather import gather
from trailgate.errors import DecodeError
from trailgate.model.kernels import CONTINUES_NOTHING
from trailgate.model.transactions import BEFORE, follow
from trailgate.trail.format.tokens import LOGCSN, TRANID
from trailgate.trail.reading.tokens import find_token
from trailgate.trail.records.framing import Spans, TrailBytes
from trailgate.trail.records.metadata import TrailTables
from trailgate.trail.records.record_problems import (
    HEADER_LENGTH,
    NO_HEADER,
    UNREADABLE,
    first_problem,
)
from trailgate.trail.records.record_view import RecordNames, RecordView, find_names
from trailgate.trail.records.transactions import ONLY_RECORD, indicator_marks, is_apart


@dataclass(frozen=True)
class Names:
    """``strings[codes[i]]`` is the name of record i."""

    codes: Longs
    strings: list[str]

    def like(self, pattern: str) -> Mask:
        """Return which records' names match a pattern with ``*`` and ``?``, in either case."""
        matches = like(pattern)
        good = np.array([matches(text) for text in self.strings], bool)
        found: Mask = good[self.codes] if len(good) else np.zeros(0, bool)
        return found

    @cached_property
    def used(self) -> list[int]:
        """Return the codes that occur."""
        return [int(code) for code in np.unique(self.codes)]


def like(pattern: str, *, fold: bool = True) -> Callable[[str], bool]:
    """Return a test of whether a name matches a pattern with ``*`` and ``?``, in either case."""
    # Square brackets are not wildcards in Logdump.
    compiled = compile_pattern(translate(pattern.replace("[", "[[]")), IGNORECASE if fold else 0)
    return lambda text: compiled.match(text) is not None


def names_of(found: RecordNames, tables: Callable[[], TrailTables]) -> Names:
    """Return the names of records; ``tables`` is asked where records name their table by an index."""
    by_index = any(isinstance(name, int) for name in found.names)
    known = tables().tables if by_index else {}
    strings = found.strings(lambda i: known[i].name if i in known else index_name(i))
    return Names(found.codes, [text or "" for text in strings])


def index_name(index: int) -> str:
    """Return what stands for a table whose definition is not in the file."""
    return f"(table {index})"


NONE: Final = -1


@dataclass(frozen=True, slots=True)
class Numbers:
    """The number of each record's transaction, and of the one that is open after them, or NONE.

    ``firsts`` are the first records of transactions 1, 2, ...; an ``orphan`` is one whose begin is missing.
    """

    number: Longs
    open: int
    firsts: Longs
    orphan: Mask


def number_transactions(indicator: Octets, apart: Mask) -> Numbers:
    """Return the transactions of records that follow each other.

    How records are cut into chunks changes nothing: a record that continues though nothing is open is an
    orphan, at the first record of a chunk as anywhere.
    """
    found = follow(indicator_marks(indicator, apart | (indicator > ONLY_RECORD)), is_open=True)
    begins = found.starts | (apart & (indicator == ONLY_RECORD))
    own = np.cumsum(begins)
    of_transaction = np.append(BEFORE, own[found.starts])
    number = np.where(found.apart, own, of_transaction[found.number])
    firsts = np.flatnonzero(begins)
    still_open = int(of_transaction[-1]) if found.is_open else NONE
    return Numbers(number, still_open, firsts, found.faults[firsts] == CONTINUES_NOTHING)


def open_at(numbers: Numbers) -> int | None:
    """Return the record that opened what is open after some records, NONE for nothing, None for earlier."""
    if numbers.open == BEFORE:
        return None
    at = numbers.open - 1
    return NONE if numbers.open == NONE or numbers.orphan[at] else int(numbers.firsts[at])


UNKNOWN: Final = (b"", b"")


@dataclass(frozen=True, slots=True)
class Transactions:
    """TRANID and LOGCSN of the transactions; ``number[i]`` is that of record i.

    Number 0 is the transaction that began before the records; ``last`` is the one that is open
    after them.
    """

    number: Longs
    ids: tuple[tuple[bytes, bytes], ...]
    last: tuple[bytes, bytes]

    def which(self, good: Callable[[tuple[bytes, bytes]], bool]) -> Mask:
        """Return which records belong to a transaction that is good."""
        chosen = np.array([good(one) for one in self.ids], bool)
        found: Mask = chosen[self.number]
        return found


def read_transactions(
    source: TrailBytes, tokens: Spans, numbers: Numbers, before: Callable[[], tuple[bytes, bytes]]
) -> Transactions:
    """Return the transactions of records; ``before`` returns the one open before them.

    trail format §8: only the first record of a transaction carries both tokens.
    """
    areas = tokens.take(numbers.firsts[~numbers.orphan])
    found = iter(zip(*(payloads(source, areas, code) for code in (TRANID, LOGCSN)), strict=True))
    ids = [UNKNOWN if orphan else next(found) for orphan in numbers.orphan.tolist()]
    asked = numbers.open == BEFORE or bool((numbers.number == BEFORE).any())
    whole = (before() if asked else UNKNOWN, *ids)
    last = UNKNOWN if numbers.open == NONE else whole[numbers.open]
    return Transactions(numbers.number, whole, last)


def payloads(source: TrailBytes, areas: Spans, code: int) -> list[bytes]:
    """Return the payload of each area's first token of an id; empty where there is none."""
    spans = find_token(source, areas, code).spans
    there = spans.starts >= 0
    starts, ends = np.where(there, spans.starts, 0), np.where(there, spans.ends, 0)
    values: list[bytes] = gather(source.buffer, starts, ends).to_pylist()
    return values


FORWARD: Final = "SCANFORHEADER finds the next good record"
BACKWARD: Final = "SCANFORHEADER PREV finds the good record before it"


class Environment(Protocol):
    """What a chunk asks the file around it for."""

    def tables(self, until: int) -> TrailTables:
        """Return the tables known before a place."""

    def transaction_before(self, place: int) -> tuple[bytes, bytes]:
        """Return TRANID and LOGCSN of the transaction that is open before a place."""


@dataclass(frozen=True)
class Chunk:
    """Records of a file, ascending, in bytes that begin at ``source.base`` of the file."""

    source: TrailBytes
    view: RecordView
    around: Environment

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
        found: Mask = is_apart(self.view) & (self.view.indicator == ONLY_RECORD)
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
