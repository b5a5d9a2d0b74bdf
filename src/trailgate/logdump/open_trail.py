"""One trail file as a session sees it: records in chunks, forward and backward from any place.

The file after a file: a trail's files differ in their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

import numpy as np
from pyarrow import fs

from trailgate.arrays import CHUNK, Octets
from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.logdump.chunks import (
    BACKWARD,
    NONE,
    UNKNOWN,
    Chunk,
    last_sound_records,
    open_at,
    sound_records,
    unsound,
)
from trailgate.storage.files.addresses import is_stored, locate, name_of
from trailgate.storage.files.listing import NUMBERED, stored_file
from trailgate.storage.reading.trail_file import LONGEST, TrailFileReader
from trailgate.trail.format.file_header import decode_header
from trailgate.trail.format.record_types import IO_METADATA
from trailgate.trail.format.tokens import FRAME, LOGCSN, RECORD, TRAILER, TRANID, ByteOrder
from trailgate.trail.records.framing import (
    RecordPlaces,
    find_sound,
    find_typed,
    length_at,
    resync,
    trail_bytes,
)
from trailgate.trail.records.metadata import TrailTables
from trailgate.trail.records.record import TrailRecord, decode_record
from trailgate.trail.records.record_view import view_records

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
            head = self.read(0, SEARCH)
            places = {order: resync(head, 0, order) for order in ByteOrder}
            found = {order: place for order, place in places.items() if place >= 0}
            order = min(found, key=lambda one: found[one], default=ByteOrder.BIG)
            return self._length_of_header(), order

    def _length_of_header(self) -> int:
        try:
            return self._reader.begin
        except DecodeError:
            return 0

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
                view, bad = last_sound_records(source, view_records(source, found))
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
        start = max(self._tables_until, self.header_length)
        until = min(until, self.size)
        for place in range(start, until, CHUNK):
            data = self.read(place, CHUNK + LONGEST)
            stop = min(CHUNK, until - place)
            for offset in find_typed(data, self.order, IO_METADATA).tolist():
                if offset < stop:
                    self._learn(data, offset, place)
        self._tables_until = max(self._tables_until, until)
        return self._tables

    def metadata_records(self, until: int) -> Iterator[bytes]:
        """Yield the metadata records before a place, as their bytes."""
        for place in range(self.header_length, min(until, self.size), CHUNK):
            data = self.read(place, CHUNK + LONGEST)
            stop = min(CHUNK, until - place)
            for offset in find_typed(data, self.order, IO_METADATA).tolist():
                length = length_at(data, offset, self.order) or 0
                if offset < stop:
                    yield data[offset : offset + length].tobytes()

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
        chunk, problem = self._chunk(data, place, places)
        if problem is None and error is not None:
            bad = error.where.offset or 0
            problem = unsound(chunk.source, (bad, bad + LONGEST), error.problem)
        return chunk, problem

    def _chunk(
        self, data: Octets, place: int, places: RecordPlaces
    ) -> tuple[Chunk, DecodeError | None]:
        source = trail_bytes(data, place, self.order)
        view, problem = sound_records(source, view_records(source, places))
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

    def _learn(self, data: Octets, offset: int, base: int) -> None:
        try:
            record = decode_record(data, offset, order=self.order, base=base)
        except DecodeError:
            return
        self._tables = self._tables.with_record(record)


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
