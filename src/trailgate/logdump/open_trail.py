"""Read one trail file for a Logdump session: records in chunks, forward and backward from any offset.

``OpenTrail`` reads chunks of records (``record_chunks``). Only the tables defined by metadata
records are stored between chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

import numpy as np
from pyarrow import fs

from trailgate.arrays import CHUNK, Octets
from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.logdump.record_chunks import (
    BACKWARD,
    FORWARD,
    NONE,
    UNKNOWN,
    LogdumpChunk,
    readable_records,
)
from trailgate.logdump.table_history import TableHistory
from trailgate.storage.files.addresses import is_stored, locate, name_of
from trailgate.storage.files.trail_files import find_single_file
from trailgate.storage.files.trail_names import NUMBERED
from trailgate.storage.reading.trail_file import LONGEST, TrailFileReader
from trailgate.storage.reading.trail_file_checks import describe_wrong_size
from trailgate.trail.format.file_header import decode_header
from trailgate.trail.format.record_types import IO_METADATA
from trailgate.trail.format.tokens import FRAME, LOGCSN, RECORD, TRAILER, TRANID, ByteOrder
from trailgate.trail.records.damage import describe_unreadable, detect_record_order
from trailgate.trail.records.framing import (
    RecordSpans,
    find_records_of_type,
    find_records_until_damage,
    read_record_length,
    resync,
    wrap_trail_bytes,
)
from trailgate.trail.records.record import TrailRecord, decode_record
from trailgate.trail.records.record_view import view_records

SMALL: Final = 64 << 10  # the first chunk of a command that may end at its first record
# Bytes of a trail that are searched at a time.
SEARCH: Final = 4 << 20
OVERLAP: Final = 4 * LONGEST  # bytes after an offset that resync needs to accept a record there


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

    @property
    def next_path(self) -> str | None:
        """The path of the trail file after this one, or None if its name does not end with a number."""
        matched = NUMBERED.fullmatch(name_of(self.path))
        if matched is None:
            return None
        digits = matched["number"]
        stored = is_stored(self.path)
        head, mark, parameters = self.path.partition("?") if stored else (self.path, "", "")
        return f"{head[: -len(digits)]}{int(digits) + 1:0{len(digits)}}{mark}{parameters}"

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
                opened = chunk.numbers.opening_row
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


def trail_file_exists(path: str) -> bool:
    """Return whether Logdump can open a file at this path, local or in a store: whether it exists."""
    store, place = locate(path)
    return bool(store.get_file_info(place).type == fs.FileType.File)
