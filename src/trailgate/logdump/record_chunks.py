"""Chunks of records of a trail file, as Logdump reads them: names, tokens and transactions as columns.

A chunk is a few megabytes of records. All of them have valid framing and a readable fixed header;
the chunk ends before the first other record. Columns are decoded on first use.

The transaction of each record follows from TransInd alone: 0 opens a transaction, 1 and 2 continue
the open one, and 3 is a transaction of one record. Metadata, DDL and comment records may be inside
a transaction and neither end nor open it (trail format §8 and §12). Logdump numbers these too, each
as a separate transaction, so they get a number here, unlike in the readers.
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
from trailgate.errors import DecodeError
from trailgate.logdump.table_history import TableHistory
from trailgate.model.kernels import CONTINUES_NOTHING
from trailgate.model.transactions import BEFORE, follow
from trailgate.trail.format.tokens import LOGCSN, TRANID
from trailgate.trail.reading.tokens import find_token_payloads
from trailgate.trail.record_checks import describe_record_faults
from trailgate.trail.records.framing import TrailBytes
from trailgate.trail.records.record_problems import (
    HEADER_LENGTH,
    NO_HEADER,
    UNREADABLE,
    first_problem,
)
from trailgate.trail.records.record_view import RecordColumns, find_names
from trailgate.trail.records.transactions import ONLY_RECORD, indicator_marks, is_separate

NONE: Final = -1
UNKNOWN: Final = (b"", b"")
FORWARD: Final = "SCANFORHEADER finds the next good record"
BACKWARD: Final = "SCANFORHEADER PREV finds the good record before it"


@dataclass(frozen=True)
class ChunkNames:
    """The table names of a chunk's records: ``strings[codes[i]]`` is the name of record i."""

    codes: Longs
    strings: list[str]

    def like(self, pattern: str) -> Mask:
        """Return a mask of records whose name matches a pattern with ``*`` and ``?``, ignoring case."""
        matches = name_matcher(pattern)
        # match each distinct name once, then spread the answers over the records
        good = np.array([matches(text) for text in self.strings], bool)
        mask: Mask = good[self.codes] if len(good) else np.zeros(0, bool)
        return mask

    @cached_property
    def present_codes(self) -> list[int]:
        """The codes of the table names that occur in the chunk, ascending."""
        return [int(code) for code in np.unique(self.codes)]


def name_matcher(pattern: str, *, fold: bool = True) -> Callable[[str], bool]:
    """Return a function that matches names of tables or files with a pattern of a Logdump command, such as ``HR.*``.

    ``fold`` ignores the case.
    """
    # Square brackets are not wildcards in Logdump.
    compiled = compile_pattern(translate(pattern.replace("[", "[[]")), IGNORECASE if fold else 0)
    return lambda text: compiled.match(text) is not None


@dataclass(frozen=True, slots=True)
class TransactionNumbers:
    """The transaction numbers of a chunk's records: ``number[i]`` is that of record i.

    Number 0 (BEFORE) is the transaction that began before these records. ``open`` is the number of
    the transaction that is open after them, or NONE. ``firsts[n - 1]`` is the first record of
    transaction n, and ``orphan[n - 1]`` states whether the beginning of transaction n is missing.
    """

    number: Longs
    open: int
    firsts: Longs
    orphan: Mask

    @property
    def opening_row(self) -> int | None:
        """The row of the record that began the transaction that is open after these records.

        It is ``NONE`` (a number) if no transaction is open, or if the open one has no beginning
        (orphan), and None if the transaction began before these records.
        """
        if self.open == BEFORE:
            return None
        at = self.open - 1
        return NONE if self.open == NONE or self.orphan[at] else int(self.firsts[at])


def number_transactions(indicator: Octets, separate: Mask) -> TransactionNumbers:
    """Assign the transactions in a chunk numbers as Logdump does, and each record the number of its transaction.

    ``indicator`` are their transaction indicators. ``separate`` marks records such as
    metadata: each counts as a transaction of its own.

    The result does not depend on how records are cut into chunks: a record that continues a
    transaction although none is open is an orphan, wherever it is.
    """
    found = follow(indicator_marks(indicator, separate | (indicator > ONLY_RECORD)), is_open=True)
    begins = found.starts | (separate & (indicator == ONLY_RECORD))
    # ``combined`` counts transactions and records outside of them together, so that the latter get
    # numbers too. ``of_transaction`` translates the numbers of follow(), which counts transactions
    # only.
    combined = np.cumsum(begins)
    of_transaction = np.append(BEFORE, combined[found.starts])
    number = np.where(found.apart, combined, of_transaction[found.number])
    firsts = np.flatnonzero(begins)
    still_open = int(of_transaction[-1]) if found.is_open else NONE
    return TransactionNumbers(number, still_open, firsts, found.faults[firsts] == CONTINUES_NOTHING)


@dataclass(frozen=True, slots=True)
class ChunkTransactions:
    """TRANID and LOGCSN of a chunk's transactions: ``ids[number[i]]`` are those of record i.

    Number 0 is the transaction that began before the records. ``last`` has the ids of the
    transaction that is open after them. Unknown ids are b"".
    """

    number: Longs
    ids: tuple[tuple[bytes, bytes], ...]
    last: tuple[bytes, bytes]

    def which(self, good: Callable[[tuple[bytes, bytes]], bool]) -> Mask:
        """Return a mask of records whose transaction passes a test of its (TRANID, LOGCSN)."""
        chosen = np.array([good(one) for one in self.ids], bool)
        mask: Mask = chosen[self.number]
        return mask


class RecordsBefore(Protocol):
    """What a chunk has to know of the records before it. ``OpenTrail`` reads them if it is asked."""

    def tables(self, until: int) -> TableHistory:
        """Return the tables that are defined before an offset of the file."""
        ...

    def transaction_before(self, offset: int) -> tuple[bytes, bytes]:
        """Return TRANID and LOGCSN of the transaction that is open before an offset of the file."""
        ...


@dataclass(frozen=True)
class LogdumpChunk:
    """Consecutive records of an open trail, in bytes that start at the file's offset ``source.base``.

    ``view`` has the header fields and spans of the records, and ``trail`` is the open trail.
    """

    source: TrailBytes
    view: RecordColumns
    trail: RecordsBefore

    def __len__(self) -> int:
        return len(self.view)

    @property
    def end(self) -> int:
        """The offset in the file after the chunk's last record."""
        return self.source.base + (self.view.span_of(-1)[1] if len(self) else 0)

    def rba(self, row: int) -> int:
        """Return the RBA of a record of the chunk, which is its offset in the trail file."""
        return self.source.base + int(self.view.offsets[row])

    @cached_property
    def heads(self) -> Structs:
        """The fixed headers of the chunk's records, as one structure per record."""
        return self.view.headers(self.source.data, self.source.order)

    @cached_property
    def names(self) -> ChunkNames:
        """The table names of the chunk's records."""
        named = find_names(self.source, self.view)
        by_index = {name: code for code, name in enumerate(named.names) if isinstance(name, int)}
        begin = self.source.base + int(self.view.offsets[0]) if len(self) else 0
        history = self.trail.tables(self.end) if by_index else TableHistory()

        def name_at_begin(index: int) -> str:
            table = history.table_at(index, begin)
            # A table whose definition is not in the file is named by its index.
            return f"(table {index})" if table is None else table.name

        codes = named.codes.copy()
        strings = [text or "" for text in named.strings(name_at_begin)]
        # An index that is defined within the chunk has the table's name from there on.
        for table in history.defined_between(begin, self.end):
            if table.index in by_index:
                after = self.view.offsets > table.offset - self.source.base
                codes[after & (named.codes == by_index[table.index])] = len(strings)
                strings.append(table.name)
        # COUNT counts tables by their codes, so a name has only one.
        code_of = {text: code for code, text in enumerate(dict.fromkeys(strings))}
        renumbered = np.array([code_of[text] for text in strings], np.int64)
        return ChunkNames(renumbered[codes], list(code_of))

    @cached_property
    def damage(self) -> dict[int, str]:
        """The damaged records of the chunk by their row, each with its first problem."""
        return describe_record_faults(self.source, self.view)

    def damage_at(self, row: int) -> str:
        """Return the first problem of one record in the chunk, or "" if it has none."""
        one = self.view.take(slice(row, row + 1))
        return describe_record_faults(self.source, one).get(0, "")

    @cached_property
    def separate(self) -> Mask:
        """A mask of the chunk's separate records, such as metadata, DDL and comments.

        They may be between the records of a transaction, but do not belong to it.
        """
        mask: Mask = is_separate(self.view) & (self.view.indicator == ONLY_RECORD)
        return mask

    @cached_property
    def numbers(self) -> TransactionNumbers:
        """The transaction number of each record in the chunk."""
        return number_transactions(self.view.indicator, self.separate)

    @cached_property
    def transactions(self) -> ChunkTransactions:
        """The ids of the chunk's transactions, and the transaction of each record."""
        numbers = self.numbers
        # Only the first record of a transaction has both tokens (trail format §8).
        areas = self.view.tokens.take(numbers.firsts[~numbers.orphan])
        tokens = (find_token_payloads(self.source, areas, code) for code in (TRANID, LOGCSN))
        # one pair of tokens for each transaction that is not an orphan, in order
        first_tokens = iter(zip(*tokens, strict=True))
        ids = [UNKNOWN if orphan else next(first_tokens) for orphan in numbers.orphan.tolist()]
        before = UNKNOWN
        if numbers.open == BEFORE or (numbers.number == BEFORE).any():
            offset = self.source.base + int(self.view.offsets[0])
            before = self.trail.transaction_before(offset)
        all_ids = (before, *ids)
        last = UNKNOWN if numbers.open == NONE else all_ids[numbers.open]
        return ChunkTransactions(numbers.number, all_ids, last)


def readable_records(
    source: TrailBytes, view: RecordColumns, *, back: bool = False
) -> tuple[RecordColumns, DecodeError | None]:
    """Cut a chunk of records before the first unreadable header. Return its records, and the error of that header.

    With ``back``, return the records after the last unreadable header. The error is None if all are
    readable.
    """
    if view.readable.all():
        return view, None
    # index 0 is the first unreadable record, -1 the last
    bad = int(np.flatnonzero(~view.readable)[-1 if back else 0])
    problem = first_problem(int(view.problems[bad]) & UNREADABLE)
    # A header that does not fit into its record is reported like a missing header.
    text = first_problem(NO_HEADER).text if problem.bit == HEADER_LENGTH else problem.text
    error = source.error(text, view.span_of(bad), hint=BACKWARD if back else FORWARD)
    return view.take(slice(bad + 1, None) if back else slice(bad)), error
