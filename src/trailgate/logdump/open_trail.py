"""One trail file as a session sees it: records in chunks of a few megabytes, forward and backward from any place.

A chunk has headers, names, tokens and transactions in columns, of sound records only: bytes up to the first record whose framing or
fixed header is wrong. Nothing is decoded that is not asked for, and nothing of a file is kept but what its metadata records define.

Which transaction each record belongs to follows from TransInd alone: 0 opens a transaction, 1 and 2 continue the one that is open, 3 is one of its own. Metadata, DDL
and notes are apart: they may lie inside a transaction and neither end nor open it (trail format §8 and §12). Unlike readers, Logdump numbers
these too, each as a transaction of its own.
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
from trailgate.model.kernels import CONTINUES_NOTHING
from trailgate.model.transactions import BEFORE, follow
from trailgate.storage.files.addresses import is_stored, locate, name_of
from trailgate.storage.files.listing import NUMBERED, stored_file
from trailgate.storage.reading.trail_file import LONGEST, TrailFileReader
from trailgate.trail.format.file_header import decode_header
from trailgate.trail.format.record_types import IO_METADATA
from trailgate.trail.format.tokens import FRAME, LOGCSN, RECORD, TRAILER, TRANID, ByteOrder
from trailgate.trail.reading.tokens import find_token
from trailgate.trail.records.framing import (
    RecordPlaces,
    Spans,
    TrailBytes,
    find_sound,
    find_typed,
    length_at,
    resync,
    trail_bytes,
)
from trailgate.trail.records.metadata import TrailTables
from trailgate.trail.records.record import TrailRecord, decode_record, guess_order
from trailgate.trail.records.record_problems import (
    HEADER_LENGTH,
    NO_HEADER,
    UNREADABLE,
    first_problem,
)
from trailgate.trail.records.record_view import RecordView, find_names, view_records
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
    def present_codes(self) -> list[int]:
        """Return the codes that occur."""
        return [int(code) for code in np.unique(self.codes)]


def like(pattern: str, *, fold: bool = True) -> Callable[[str], bool]:
    """Return a test of whether a name matches a pattern with ``*`` and ``?``, in either case."""
    # Square brackets are not wildcards in Logdump.
    compiled = compile_pattern(translate(pattern.replace("[", "[[]")), IGNORECASE if fold else 0)
    return lambda text: compiled.match(text) is not None


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


def payloads(source: TrailBytes, areas: Spans, code: int) -> list[bytes]:
    """Return the payload of each area's first token of an id; empty where there is none."""
    spans = find_token(source, areas, code).spans
    there = spans.starts >= 0
    starts, ends = np.where(there, spans.starts, 0), np.where(there, spans.ends, 0)
    values: list[bytes] = gather(source.buffer, starts, ends).to_pylist()
    return values


FORWARD: Final = "SCANFORHEADER finds the next good record"
BACKWARD: Final = "SCANFORHEADER PREV finds the good record before it"


@dataclass(frozen=True)
class Chunk:
    """Records of a file, ascending, in bytes that begin at ``source.base`` of the file."""

    source: TrailBytes
    view: RecordView
    around: OpenTrail

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
        found = find_names(self.source, self.view)
        by_index = any(isinstance(name, int) for name in found.names)
        known = self.around.tables(self.end).tables if by_index else {}
        # A table whose definition is not in the file has its index for a name.
        strings = found.strings(lambda i: known[i].name if i in known else f"(table {i})")
        return Names(found.codes, [text or "" for text in strings])

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
        numbers = self.numbers
        # Only the first record of a transaction carries both tokens (trail format §8).
        areas = self.view.tokens.take(numbers.firsts[~numbers.orphan])
        tokens = (payloads(self.source, areas, code) for code in (TRANID, LOGCSN))
        found = iter(zip(*tokens, strict=True))
        ids = [UNKNOWN if orphan else next(found) for orphan in numbers.orphan.tolist()]
        before = UNKNOWN
        if numbers.open == BEFORE or (numbers.number == BEFORE).any():
            place = self.source.base + int(self.view.offsets[0])
            before = self.around.transaction_before(place)
        whole = (before, *ids)
        last = UNKNOWN if numbers.open == NONE else whole[numbers.open]
        return Transactions(numbers.number, whole, last)


def sound_records(
    source: TrailBytes, view: RecordView, *, back: bool = False
) -> tuple[RecordView, DecodeError | None]:
    """Return the records up to the first without a header that can be read, and what is wrong with that one.

    With ``back``, those after the last such record.
    """
    if view.readable.all():
        return view, None
    bad = int(np.flatnonzero(~view.readable)[-1 if back else 0])
    problem = first_problem(int(view.problems[bad]) & UNREADABLE)
    # That the header does not fit its record is said with the same words as that it is not there.
    text = first_problem(NO_HEADER).text if problem.bit == HEADER_LENGTH else problem.text
    error = source.error(text, view.spans(bad), hint=BACKWARD if back else FORWARD)
    return view.take(slice(bad + 1, None) if back else slice(bad)), error


SMALL: Final = 64 << 10  # the first chunk of a command that may end at its first record
SEARCH: Final = 4 << 20
OVERLAP: Final = 4 * LONGEST  # what a search needs after a place to judge it


class OpenTrail:
    """An open file; nothing of it is kept but what its metadata records define."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._reader = TrailFileReader(stored_file(path))
        self._tables = TrailTables()
        self._tables_until = 0
        self._open_transaction = (-1, UNKNOWN)

    def close(self) -> None:
        """Close the file."""
        self._reader.close()

    @property
    def size(self) -> int:
        """Return the file's bytes as they were when it was last looked at."""
        return self._reader.file.size

    def grown(self) -> bool:
        """Look at the file again and tell whether it has more bytes than before."""
        now = stored_file(self.path)
        if now.size <= self.size:
            return False
        self._reader.close()
        self._reader = TrailFileReader(now)
        return True

    def read(self, place: int, size: int) -> Octets:
        """Return the bytes from a place on, as far as there are any."""
        return self._reader.read(place, size)

    @cached_property
    def release(self) -> int:
        """Return the major release that wrote the file, as its header has it; 0 where that is not known."""
        raw = self.read(0, self.header_length).tobytes()
        try:
            return decode_header(raw)[0].producer.major_version if raw else 0
        except TrailgateError:
            return 0

    @property
    def header_length(self) -> int:
        """Return the bytes of the file header; 0 where there is none, or none that can be read."""
        return self._layout[0]

    @property
    def order(self) -> ByteOrder:
        """Return the byte order of the records."""
        return self._layout[1]

    @cached_property
    def _layout(self) -> tuple[int, ByteOrder]:
        try:
            return self._reader.begin, self._reader.order
        except DecodeError:
            # A damaged begin does not have it: the order is that in which records are found.
            order = guess_order(self.read, 0, self.size)
            try:
                return self._reader.begin, order
            except DecodeError:
                return 0, order

    def forward(self, place: int, size: int = CHUNK) -> Iterator[Chunk]:
        """Yield the records from a place on; raises DecodeError at the first bad one."""
        while place < self.size:
            data = self.read(place, size)
            chunk, problem = self._sound(data, place)
            if len(chunk):
                yield chunk
                if "transactions" in chunk.__dict__:
                    self._open_transaction = (chunk.end, chunk.transactions.last)
            if problem is not None:
                raise problem.with_place(source=self.path)
            if not len(chunk):
                return
            place, size = chunk.end, CHUNK

    def backward(self, place: int, size: int = CHUNK) -> Iterator[Chunk]:
        """Yield the records before a place, the last chunk first, each ascending."""
        while place > self.header_length:
            base = max(self.header_length, place - max(size, 2 * LONGEST))
            data = self.read(base, place - base)
            places, problem = self._chain_back(data, base)
            if places:
                offsets = np.array(places[::-1], np.int64)
                lengths = np.diff(np.append(offsets, len(data)))
                found = RecordPlaces(offsets, lengths, len(data))
                source = trail_bytes(data, base, self.order)
                view, bad = sound_records(source, view_records(source, found), back=True)
                if len(view):
                    yield Chunk(source, view, self)
                if bad is not None:
                    raise bad.with_place(source=self.path)
                place, size = base + places[-1], CHUNK
            if problem is not None:
                raise problem.with_place(source=self.path)

    def record(self, chunk: Chunk, row: int) -> TrailRecord:
        """Return one record of a chunk as a value."""
        offset = int(chunk.view.offsets[row])
        try:
            return decode_record(
                chunk.source.data, offset, order=self.order, base=chunk.source.base
            )
        except TrailgateError as error:
            raise error.with_place(source=self.path) from None

    def good_record_from(self, place: int) -> int | None:
        """Return where the next record that can be read begins; None where there is none."""
        found = self._framed_from(place)
        while found is not None and not self._readable(found):
            found = self._framed_from(found + 1)
        return found

    def _framed_from(self, place: int) -> int | None:
        for start in range(place, self.size, SEARCH):
            data = self.read(start, SEARCH + OVERLAP)
            found = resync(data, 0, self.order)
            if 0 <= found < SEARCH:
                return start + found
        return None

    def record_before(self, place: int) -> int | None:
        """Return where the nearest good record before a place begins; None if there is none."""
        stop = min(place, self.size)
        while stop > self.header_length:
            base = max(self.header_length, stop - SEARCH)
            data = self.read(base, stop - base + LONGEST)
            bytes_ = data[: stop - base].tobytes()
            at = len(bytes_)
            while (at := bytes_.rfind(RECORD, 0, at)) >= 0:
                if self._whole(data, at) and self._readable(base + at):
                    return base + at
            stop = base
        return None

    def tables(self, until: int) -> TrailTables:
        """Return the tables of the metadata records before a place."""
        until = min(until, self.size)
        for data, offset, base in self._metadata(self._tables_until, until):
            try:
                record = decode_record(data, offset, order=self.order, base=base)
            except DecodeError:
                continue
            self._tables = self._tables.with_record(record)
        self._tables_until = max(self._tables_until, until)
        return self._tables

    def metadata_records(self, until: int) -> Iterator[bytes]:
        """Yield the metadata records before a place, as their bytes."""
        for data, offset, _ in self._metadata(0, until):
            length = length_at(data, offset, self.order) or 0
            yield data[offset : offset + length].tobytes()

    def _metadata(self, start: int, until: int) -> Iterator[tuple[Octets, int, int]]:
        """Yield the bytes that each metadata record is in, its offset in them, and where they are in the file."""
        until = min(until, self.size)
        for place in range(max(start, self.header_length), until, CHUNK):
            data = self.read(place, CHUNK + LONGEST)
            stop = min(CHUNK, until - place)
            for offset in find_typed(data, self.order, IO_METADATA).tolist():
                if offset < stop:
                    yield data, offset, place

    def transaction_before(self, place: int) -> tuple[bytes, bytes]:
        """Return TRANID and LOGCSN of the transaction that is open before a place."""
        known, found = self._open_transaction
        if known == place:
            return found
        try:
            for chunk in self.backward(place, SMALL):
                opened = open_at(chunk.numbers)
                if opened == NONE:
                    return UNKNOWN
                if opened is not None:
                    record = self.record(chunk, opened)
                    return record.token(TRANID) or b"", record.token(LOGCSN) or b""
        except DecodeError:
            pass
        return UNKNOWN

    def _sound(self, data: Octets, place: int) -> tuple[Chunk, DecodeError | None]:
        """Return the sound records that begin the data, and what is wrong after them."""
        places, error = find_sound(data, self.order)
        source = trail_bytes(data, place, self.order)
        view, problem = sound_records(source, view_records(source, places))
        if problem is None and error is not None:
            bad = error.where.offset or 0
            problem = source.error(error.problem, (bad, bad + LONGEST), hint=FORWARD)
        return Chunk(source, view, self), problem

    def _chain_back(self, data: Octets, base: int) -> tuple[list[int], DecodeError | None]:
        """Return the begins of records that end the data, last first, as their trailers tell."""
        raw = data.tobytes()
        places: list[int] = []
        end = len(raw)
        while end > (LONGEST if base > self.header_length else 0):
            start = end - self.order.number(raw[end - 2 : end])
            framed = end >= FRAME and raw[end - FRAME] == TRAILER and 0 <= start <= end - FRAME
            if not framed or not self._whole(data, start):
                where = Where(offset=base + end, raw=raw[max(0, end - FRAME) : end])
                return places, DecodeError("no record ends here", where=where, hint=BACKWARD)
            places.append(start)
            end = start
        return places, None

    def _whole(self, data: Octets, place: int) -> bool:
        try:
            return length_at(data, place, self.order) is not None
        except DecodeError:
            return False

    def _readable(self, place: int) -> bool:
        try:
            decode_record(self.read(place, LONGEST), order=self.order)
        except DecodeError:
            return False
        return True


def next_path(path: str) -> str | None:
    """Return the path of a trail's next file; None where the name has no number."""
    matched = NUMBERED.fullmatch(name_of(path))
    if matched is None:
        return None
    digits = matched["number"]
    head, mark, parameters = path.partition("?") if is_stored(path) else (path, "", "")
    return f"{head[: -len(digits)]}{int(digits) + 1:0{len(digits)}}{mark}{parameters}"


def exists(path: str) -> bool:
    """Return whether there is such a file."""
    store, place = locate(path)
    return bool(store.get_file_info(place).type == fs.FileType.File)
