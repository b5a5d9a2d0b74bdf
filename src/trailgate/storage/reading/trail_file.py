"""Read one trail file: its header, byte order, records from an offset on, and table metadata.

Reads no more of the file than necessary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Final, Self

from trailgate.arrays import Octets, octets
from trailgate.errors import (
    DecodeError,
    OptionError,
    StorageError,
    TrailgateError,
    TruncatedError,
    Where,
)
from trailgate.model.tables import Definitions
from trailgate.storage.files.opened_file import OpenedFile
from trailgate.storage.files.trail_files import TrailFile, TrailFiles
from trailgate.trail.format.file_header import (
    MISNUMBERED,
    FileHeader,
    decode_header,
    find_other_number,
)
from trailgate.trail.format.record_types import IO_METADATA
from trailgate.trail.format.tokens import RECORD, ByteOrder
from trailgate.trail.records.damage import describe_unreadable, detect_record_order
from trailgate.trail.records.framing import (
    find_order,
    find_records,
    find_records_of_type,
    resync,
    wrap_trail_bytes,
)
from trailgate.trail.records.record import TrailRecord, decode_record
from trailgate.trail.records.record_view import RecordColumns, view_records
from trailgate.trail.records.table_metadata import (
    NO_TABLES,
    TrailTables,
)
from trailgate.trail.values.charsets import UTF_8, find_charset

LONGEST: Final = 64 << 10  # the maximum length of a record or header
# The bytes near a file's end that are checked. As a record has at most LONGEST bytes, one starts in
# the first third of them, and an unfinished record starts in the last third. Reading on from the first
# third therefore reaches the unfinished record.
NEAR_END: Final = 3 * LONGEST
SEARCH: Final = 256 << 10  # contains at least four records, which resync needs to be sure
SCAN: Final = 4 << 20  # bytes to read at once when searching for rare records
# Assumed: this number in the header means UTF-8. Other numbers are not public.
UTF_8_NUMBER: Final = 0x20000000
SHORTER: Final = "the file has {:,} bytes, {:,} fewer than its header states. The header does not show where bytes are missing"
LONGER: Final = (
    "the file has {:,} bytes, {:,} more than its header states. Some records may be repeated"
)


class TrailFileReader:
    """Reads bytes and records of one trail file.

    Errors raised inside its context get the file's name.

    Level 0 files have no header (trail format §4.6): ``header`` is then None, and records start at
    0.
    """

    def __init__(self, file: TrailFile) -> None:
        self.file = file
        self._opened = OpenedFile(file.path, file.size, "trail file")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()
        if isinstance(error, TrailgateError):
            error.with_place(source=self.file.path)

    def close(self) -> None:
        """Close the trail file."""
        self._opened.close()

    def size_now(self) -> int:
        """Return the trail file's current size; ``file.size`` is its size when it was listed."""
        return self._opened.size_now()

    def read(self, offset: int, size: int) -> Octets:
        """Return up to ``size`` bytes of the trail file from an offset, but none after the listed size."""
        return octets(self._opened.read(offset, size))

    def read_into(self, buffer: Octets, offset: int) -> Octets:
        """Fill a buffer with bytes of the trail file from an offset, and return the filled part."""
        return self._opened.read_into(buffer, offset)

    @cached_property
    def _head(self) -> Octets:
        return self.read(0, LONGEST)

    @cached_property
    def _begin(self) -> tuple[FileHeader | None, int]:
        head = self._head
        if len(head) and head[0] == RECORD:
            return None, 0
        return decode_header(head)

    @property
    def header(self) -> FileHeader | None:
        """The trail file's header, or None for level 0. Raises TruncatedError while it is incomplete."""
        return self._begin[0]

    @property
    def begin(self) -> int:
        """The offset of the trail file's first record."""
        return self._begin[1]

    @cached_property
    def order(self) -> ByteOrder:
        """The byte order of the trail file's records, or big-endian while it has no record."""
        order_found = find_order(self._head, self.begin)
        if order_found is None:
            order_found = find_order(self.read(self.begin, LONGEST))
        # If the first record is incomplete or damaged, later records decide.
        return order_found or detect_record_order(self.read, self.begin, self.file.size)

    def check_number(self) -> None:
        """Raise StorageError if the header has a different file number than the name.

        The file's records would otherwise be read in the wrong order, or twice.
        """
        try:
            other = find_other_number(self.header, self.file.number)
        except TruncatedError:
            return  # the header is still being written
        if other is not None:
            raise StorageError(
                MISNUMBERED.format(other, self.file.number),
                where=Where(source=self.file.path),
                hint=f"Put file number {self.file.number} back; trailgate check lists all files with wrong numbers",
            )

    def records(self, offset: int, size: int = SEARCH) -> tuple[Octets, RecordColumns]:
        """Read bytes of the trail file from the start of a record, and find the records in them."""
        data = self.read(offset, size)
        return data, self.view(data, offset)

    def view(self, data: Octets, offset: int, *, finish: bool = False) -> RecordColumns:
        """Find the records in bytes that were read at an offset of the trail file.

        With ``finish``, the bytes must end with a complete record, otherwise DecodeError is raised.
        """
        try:
            found = find_records(data, order=self.order, finish=finish)
        except DecodeError as error:
            error.where = replace(error.where, offset=offset + (error.where.offset or 0))
            raise
        return view_records(wrap_trail_bytes(data, offset, self.order), found)

    def resync(self, offset: int) -> int | None:
        """Return the offset of the trail file's next good record from ``offset`` on, or None if none follows.

        Raises DecodeError if no record starts in the next ``SEARCH`` bytes.
        """
        data = self.read(offset, SEARCH)
        next_record = resync(data, 0, self.order)
        if next_record >= 0:
            return offset + next_record
        # The file ends before another record.
        if offset + len(data) >= self.file.size:
            return None
        raise DecodeError("no record starts in the bytes from here", where=Where(offset=offset))

    def incomplete_bytes(self, end: int) -> int:
        """Return the size of the incomplete record at the end of this file.

        ``end`` is the end of the last complete record. Raises DecodeError if there is a valid
        record after the bytes that seem incomplete: then they are a record with a damaged length.
        """
        size = self.file.size
        if end >= size:
            return 0
        unreadable = describe_unreadable(self.read, end, size, self.order)
        if unreadable.is_followed:
            raise DecodeError(unreadable.sentence, where=Where(source=self.file.path, offset=end))
        return size - end

    def end_of_records(self) -> int:
        """Return the end of the last complete record, or 0 while the header is incomplete.

        Raises DecodeError if bytes near the end are damaged.
        """
        try:
            begin = self.begin
        except TruncatedError:
            return 0
        start = self.file.size - NEAR_END
        if start > begin:
            next_record = self.resync(start)
            start = self.file.size if next_record is None else next_record
        start = max(start, begin)
        _, view = self.records(start, NEAR_END)
        end = start + view.end
        self.incomplete_bytes(end)
        return end

    def tables(
        self, until: int, start: int | None = None, tables: TrailTables = NO_TABLES
    ) -> TrailTables:
        """Return the tables that the trail file's metadata records before ``until`` define.

        ``tables`` are those defined before ``start``. Only metadata records are decoded.
        """
        for record in self.metadata(until, start):
            tables = tables.with_record(record)
        return tables

    def metadata(self, until: int, start: int | None = None) -> Iterator[TrailRecord]:
        """Yield the trail file's metadata records that start in a range. No other records are decoded."""
        begin = self.begin if start is None else start
        for data, base, offset in self._find_typed(begin, until, IO_METADATA):
            yield decode_record(data, offset, order=self.order, base=base)

    def offsets_of_type(self, begin: int, until: int, io_type: int) -> Iterator[int]:
        """Yield the offsets of the trail file's records of a type that start in a range."""
        for _, base, offset in self._find_typed(begin, until, io_type):
            yield base + offset

    def _find_typed(
        self, begin: int, until: int, io_type: int
    ) -> Iterator[tuple[Octets, int, int]]:
        """Yield the records of a type that start in a range.

        Yields the bytes read, their offset in the file, and the record's offset in the bytes.
        """
        for base in range(begin, min(until, self.file.size), SCAN):
            # LONGEST more bytes complete a record that starts at the end of this part.
            data = self.read(base, SCAN + LONGEST)
            stop = min(SCAN, until - base)
            for offset in find_records_of_type(data, self.order, io_type).tolist():
                if offset < stop:
                    yield data, base, offset


def charset_of_trail_file(header: FileHeader | None, definitions: Definitions) -> str:
    """Return the character set of a trail file's values by its header and the definitions, if no option names it.

    That is UTF-8 if the file's header states UTF-8. Otherwise it is the character set that the
    definitions name, or UTF-8 if they name none. Raises OptionError if the name is unknown.
    """
    named = definitions.database.character_set
    if (header is not None and header.database.charset == UTF_8_NUMBER) or not named:
        return UTF_8
    try:
        return find_charset(named)
    except OptionError as error:
        error.hint = f"The definitions name it; the option charset overrides them. {error.hint}"
        raise


def has_complete_header(trail: TrailFiles, reader: TrailFileReader) -> bool:
    """Return whether the header of a trail file is complete. Raises TruncatedError if it is not, and the file no longer grows."""
    try:
        _ = reader.header
    except TruncatedError:
        if not trail.may_grow(reader.file):
            raise
        return False
    return True


def describe_size(reader: TrailFileReader) -> str:
    """Return a sentence if the size of a trail file differs from the size in its header, or "".

    A file without a stated size is still being written; for it, the result is "".
    """
    file, header = reader.file, reader.header
    stated = 0 if header is None else header.trail.file_size or 0
    # If the header was written after the file was listed, it states the file's new size.
    if stated > file.size and stated > (size := reader.size_now()):
        return SHORTER.format(size, stated - size)
    if 0 < stated < file.size:
        return LONGER.format(file.size, file.size - stated)
    return ""
