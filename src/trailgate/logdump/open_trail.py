"""Read one trail file for a Logdump session: records in chunks, forward and backward from any offset.

A chunk is a few megabytes of records with headers, names, tokens and transactions as columns. All
its records have valid framing and a readable fixed header; it ends before the first other record.
Columns are decoded on first use. Only the tables defined by metadata records are stored between
chunks.

The transaction of each record follows from TransInd alone: 0 opens a transaction, 1 and 2 continue
the open one, and 3 is a transaction of one record. Metadata, DDL and comment records may be inside
a transaction and neither end nor open it (trail format §8 and §12). Logdump numbers these too, each
as a separate transaction, so they get a number here, unlike in the readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from re import IGNORECASE
from re import compile as compile_pattern
from typing import Final

import numpy as np
from pyarrow import fs

from trailgate.arrays import CHUNK, Longs, Mask, Octets, Structs
from trailgate.columnar.gather import gather
from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.logdump.table_history import TableHistory
from trailgate.model.kernels import CONTINUES_NOTHING
from trailgate.model.transactions import BEFORE, follow
from trailgate.storage.files.addresses import is_stored, locate, name_of
from trailgate.storage.files.trail_files import find_single_file
from trailgate.storage.files.trail_names import NUMBERED
from trailgate.storage.reading.trail_file import LONGEST, TrailFileReader
from trailgate.storage.reading.trail_file_checks import describe_wrong_size
from trailgate.trail.format.file_header import decode_header
from trailgate.trail.format.record_types import IO_METADATA
from trailgate.trail.format.tokens import FRAME, LOGCSN, RECORD, TRAILER, TRANID, ByteOrder
from trailgate.trail.reading.tokens import find_token
from trailgate.trail.record_checks import describe_damage
from trailgate.trail.records.damage import describe_unreadable, detect_record_order
from trailgate.trail.records.framing import (
    RecordSpans,
    Spans,
    TrailBytes,
    find_records_of_type,
    find_records_until_damage,
    read_record_length,
    resync,
    wrap_trail_bytes,
)
from trailgate.trail.records.record import TrailRecord, decode_record
from trailgate.trail.records.record_problems import (
    HEADER_LENGTH,
    NO_HEADER,
    UNREADABLE,
    first_problem,
)
from trailgate.trail.records.record_view import RecordColumns, find_names, view_records
from trailgate.trail.records.transactions import ONLY_RECORD, indicator_marks, is_separate

NONE: Final = -1
UNKNOWN: Final = (b"", b"")
FORWARD: Final = "SCANFORHEADER finds the next good record"
BACKWARD: Final = "SCANFORHEADER PREV finds the good record before it"
SMALL: Final = 64 << 10  # the first chunk of a command that may end at its first record
# Bytes of a trail that are searched at a time.
SEARCH: Final = 4 << 20
OVERLAP: Final = 4 * LONGEST  # bytes after an offset that resync needs to accept a record there


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
    """Return a function that tests whether a table or file name matches a pattern with ``*`` and ``?``.

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


def number_transactions(indicator: Octets, separate: Mask) -> TransactionNumbers:
    """Assign each of consecutive records the number of its transaction, as Logdump counts.

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


def opening_row(numbers: TransactionNumbers) -> int | None:
    """Return the row of the record that began the transaction that is open after the last record.

    Returns ``NONE`` (a number) if no transaction is open, or if the open one has no beginning
    (orphan). Returns None if the transaction began before these records.
    """
    if numbers.open == BEFORE:
        return None
    at = numbers.open - 1
    return NONE if numbers.open == NONE or numbers.orphan[at] else int(numbers.firsts[at])


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


def token_payloads(source: TrailBytes, areas: Spans, code: int) -> list[bytes]:
    """Return the payload of each record's first token with the id ``code``, or b"" if it has none.

    ``areas`` are the spans of the records' tokens.
    """
    spans = find_token(source, areas, code).spans
    present = spans.starts >= 0
    # an area without the token gets the empty span 0:0
    starts, ends = np.where(present, spans.starts, 0), np.where(present, spans.ends, 0)
    values: list[bytes] = gather(source.buffer, starts, ends).to_pylist()
    return values


@dataclass(frozen=True)
class LogdumpChunk:
    """Consecutive records of an open trail, in bytes that start at the file's offset ``source.base``.

    ``view`` has the header fields and spans of the records, and ``trail`` is the open trail.
    """

    source: TrailBytes
    view: RecordColumns
    trail: OpenTrail

    def __len__(self) -> int:
        return len(self.view)

    @property
    def end(self) -> int:
        """The offset in the file after the chunk's last record."""
        return self.source.base + (self.view.span_of(-1)[1] if len(self) else 0)

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
        return describe_damage(self.source, self.view)

    def damage_at(self, row: int) -> str:
        """Return the first problem of one record in the chunk, or "" if it has none."""
        one = self.view.take(slice(row, row + 1))
        return describe_damage(self.source, one).get(0, "")

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
        tokens = (token_payloads(self.source, areas, code) for code in (TRANID, LOGCSN))
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
    """Return the records of a chunk before the first unreadable header, and the error of that header.

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


class OpenTrail:
    """The trail file that a Logdump session has open."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._reader = TrailFileReader(find_single_file(path))
        self._tables = TableHistory()
        self._tables_until = 0
        self._open_transaction = (-1, UNKNOWN)

    def close(self) -> None:
        """Close the trail file that the Logdump session has open."""
        self._reader.close()

    @property
    def size(self) -> int:
        """The size of the file when it was last opened or checked by ``refresh_size``."""
        return self._reader.file.size

    @property
    def wrong_size(self) -> list[str]:
        """A list with one sentence if the file is empty or its size is not the one that its header states, otherwise an empty list."""
        return describe_wrong_size(self._reader)

    def refresh_size(self) -> bool:
        """Check the open trail file's size again. Returns True if it has grown since it was last checked."""
        now = find_single_file(self.path)
        if now.size <= self.size:
            return False
        self._reader.close()
        self._reader = TrailFileReader(now)
        return True

    def read(self, offset: int, size: int) -> Octets:
        """Return up to ``size`` bytes of the open trail file from an offset."""
        return self._reader.read(offset, size)

    @cached_property
    def release(self) -> int:
        """The major release that wrote the file, from its header, or 0 if it is not known."""
        raw = self.read(0, self.header_length).tobytes()
        try:
            return decode_header(raw)[0].producer.major_version if raw else 0
        except TrailgateError:
            return 0

    @property
    def header_length(self) -> int:
        """The size of the trail file's header, or 0 if it is missing or unreadable."""
        return self._layout[0]

    @property
    def order(self) -> ByteOrder:
        """The byte order of the trail file's records."""
        return self._layout[1]

    @cached_property
    def _layout(self) -> tuple[int, ByteOrder]:
        try:
            return self._reader.begin, self._reader.order
        except DecodeError:
            # The beginning of the file is damaged: use the order in which records can be found.
            order = detect_record_order(self.read, 0, self.size)
            try:
                return self._reader.begin, order
            except DecodeError:
                return 0, order

    def forward(self, offset: int, size: int = CHUNK) -> Iterator[LogdumpChunk]:
        """Yield the records of the open trail from an offset on, in chunks.

        The first chunk has about ``size`` bytes. Raises DecodeError at the first bad record.
        """
        while offset < self.size:
            data = self.read(offset, size)
            chunk, problem = self._sound(data, offset)
            if len(chunk):
                yield chunk
                # The cached property exists only if something used it. Then the next chunk need not
                # search backward for its open transaction.
                if "transactions" in chunk.__dict__:
                    self._open_transaction = (chunk.end, chunk.transactions.last)
            if problem is not None:
                raise problem.with_place(source=self.path)
            if not len(chunk):
                self._check_unfinished(offset)
                return
            # Only the first chunk has the caller's size: a command that shows one record reads
            # little.
            offset, size = chunk.end, CHUNK

    def _check_unfinished(self, offset: int) -> None:
        """Raise DecodeError if the incomplete record at an offset of the open trail is damaged.

        If good records follow, it is not still being written: its length is wrong.
        """
        unreadable = describe_unreadable(self.read, offset, self.size, self.order)
        if unreadable.is_followed:
            where = Where(source=self.path, offset=offset)
            raise DecodeError(unreadable.sentence, where=where, hint=FORWARD)

    def backward(self, offset: int, size: int = CHUNK) -> Iterator[LogdumpChunk]:
        """Yield the records of the open trail before an offset: the last chunk first, each in ascending order.

        The first chunk has about ``size`` bytes. Raises DecodeError at the first bad record, after
        yielding the good ones that follow it.
        """
        while offset > self.header_length:
            # At least one complete record must fit before ``place``.
            base = max(self.header_length, offset - max(size, 2 * LONGEST))
            data = self.read(base, offset - base)
            places, problem = self._chain_back(data, base)
            if places:
                offsets = np.array(places[::-1], np.int64)
                lengths = np.diff(np.append(offsets, len(data)))
                spans = RecordSpans(offsets, lengths, len(data))
                source = wrap_trail_bytes(data, base, self.order)
                view, bad = readable_records(source, view_records(source, spans), back=True)
                if len(view):
                    yield LogdumpChunk(source, view, self)
                if bad is not None:
                    raise bad.with_place(source=self.path)
                offset, size = base + places[-1], CHUNK
            if problem is not None:
                raise problem.with_place(source=self.path)

    def record(self, chunk: LogdumpChunk, row: int) -> TrailRecord:
        """Decode one complete record of a Logdump chunk."""
        offset = int(chunk.view.offsets[row])
        try:
            return decode_record(
                chunk.source.data, offset, order=self.order, base=chunk.source.base
            )
        except TrailgateError as error:
            raise error.with_place(source=self.path) from None

    def good_record_from(self, place: int) -> int | None:
        """Return the offset of the open trail's first readable record at or after ``place``.

        Returns None if there is none.
        """
        offset = self._framed_from(place)
        while offset is not None and not self._readable(offset):
            offset = self._framed_from(offset + 1)
        return offset

    def _framed_from(self, offset: int) -> int | None:
        for start in range(offset, self.size, SEARCH):
            # The pieces overlap, because resync must see some bytes after a record to accept it. A
            # record that starts in the overlap is found in the next piece.
            data = self.read(start, SEARCH + OVERLAP)
            found = resync(data, 0, self.order)
            if 0 <= found < SEARCH:
                return start + found
        return None

    def record_before(self, offset: int) -> int | None:
        """Return the offset of the open trail's last readable record before an offset.

        Returns None if there is none.
        """
        stop = min(offset, self.size)
        while stop > self.header_length:
            base = max(self.header_length, stop - SEARCH)
            # Read past ``stop``, so that a record that starts just before it is complete.
            data = self.read(base, stop - base + LONGEST)
            searched = data[: stop - base].tobytes()
            at = len(searched)
            while (at := searched.rfind(RECORD, 0, at)) >= 0:
                if self._whole(data, at) and self._readable(base + at):
                    return base + at
            stop = base
        return None

    def tables(self, until: int) -> TableHistory:
        """Return the tables that metadata records before an offset of the open trail define.

        If the session has read further before, the history has later definitions too.
        """
        until = min(until, self.size)
        for data, offset, base in self._metadata(self._tables_until, until):
            try:
                record = decode_record(data, offset, order=self.order, base=base)
            except DecodeError:
                continue
            self._tables.add(record)
        self._tables_until = max(self._tables_until, until)
        return self._tables

    def metadata_records(self, until: int) -> Iterator[bytes]:
        """Yield the bytes of the open trail's metadata records before an offset."""
        for data, offset, _ in self._metadata(0, until):
            length = read_record_length(data, offset, self.order) or 0
            yield data[offset : offset + length].tobytes()

    def _metadata(self, start: int, until: int) -> Iterator[tuple[Octets, int, int]]:
        """Find the open trail's metadata records between two offsets.

        Yields for each a buffer, the record's offset in it, and the buffer's offset in the file.
        """
        until = min(until, self.size)
        for place in range(max(start, self.header_length), until, CHUNK):
            # a record belongs to the piece in which it starts; the overlap completes it
            data = self.read(place, CHUNK + LONGEST)
            stop = min(CHUNK, until - place)
            for offset in find_records_of_type(data, self.order, IO_METADATA).tolist():
                if offset < stop:
                    yield data, offset, place

    def transaction_before(self, offset: int) -> tuple[bytes, bytes]:
        """Return TRANID and LOGCSN of the transaction that is open at an offset of the trail.

        Both are b"" if no transaction is open or its first record cannot be read.
        """
        known, ids = self._open_transaction
        if known == offset:
            return ids
        try:
            for chunk in self.backward(offset, SMALL):
                opened = opening_row(chunk.numbers)
                if opened == NONE:
                    return UNKNOWN
                if opened is not None:
                    record = self.record(chunk, opened)
                    return record.token(TRANID) or b"", record.token(LOGCSN) or b""
        except DecodeError:
            pass
        return UNKNOWN

    def _sound(self, data: Octets, offset: int) -> tuple[LogdumpChunk, DecodeError | None]:
        """Return the valid records at the start of some bytes of the open trail, as a chunk.

        Also returns the error at which they end, or None. ``offset`` is that of the bytes in the
        file.
        """
        places, error = find_records_until_damage(data, self.order)
        source = wrap_trail_bytes(data, offset, self.order)
        view, problem = readable_records(source, view_records(source, places))
        if problem is None and error is not None:
            bad = error.where.offset or 0
            problem = source.error(error.problem, (bad, bad + LONGEST), hint=FORWARD)
        return LogdumpChunk(source, view, self), problem

    def _chain_back(self, data: Octets, base: int) -> tuple[list[int], DecodeError | None]:
        """Find the records at the end of some bytes of the open trail, by following trailers backward.

        Each record ends with a trailer that contains its length. Returns the records' offsets in
        the bytes, last record first, and the error that ended the chain, or None. Unless the data
        begin at the file header, the chain may stop up to LONGEST bytes after their start, because
        the record there may begin earlier.
        """
        raw = data.tobytes()
        places: list[int] = []
        end = len(raw)
        while end > (LONGEST if base > self.header_length else 0):
            # A trailer is 5A, one more byte, and the record's length in two bytes: 5A 01 00 9C
            # before offset 500 means that the record begins at 500 - 0x9C = 344.
            start = end - self.order.number(raw[end - 2 : end])
            framed = end >= FRAME and raw[end - FRAME] == TRAILER and 0 <= start <= end - FRAME
            if not framed or not self._whole(data, start):
                where = Where(offset=base + end, raw=raw[max(0, end - FRAME) : end])
                return places, DecodeError("no record ends here", where=where, hint=BACKWARD)
            places.append(start)
            end = start
        return places, None

    def _whole(self, data: Octets, offset: int) -> bool:
        try:
            return read_record_length(data, offset, self.order) is not None
        except DecodeError:
            return False

    def _readable(self, offset: int) -> bool:
        try:
            decode_record(self.read(offset, LONGEST), order=self.order)
        except DecodeError:
            return False
        return True


def next_path(path: str) -> str | None:
    """Return the path of a trail's next file, or None if the name does not end with a number."""
    matched = NUMBERED.fullmatch(name_of(path))
    if matched is None:
        return None
    digits = matched["number"]
    head, mark, parameters = path.partition("?") if is_stored(path) else (path, "", "")
    return f"{head[: -len(digits)]}{int(digits) + 1:0{len(digits)}}{mark}{parameters}"


def file_exists(path: str) -> bool:
    """Return whether a file exists at a trail file's path, local or in a store."""
    store, place = locate(path)
    return bool(store.get_file_info(place).type == fs.FileType.File)
