"""Read one trail file: its header, byte order, records from an offset on, and table metadata.

Also finds the tables that metadata records define before an offset (``EarlierTables``), and reads
no more of the file than necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Final, Self

from trailgate.arrays import Octets
from trailgate.columnar.rows import octets
from trailgate.errors import (
    DecodeError,
    OptionError,
    StorageError,
    TrailgateError,
    TruncatedError,
    Where,
)
from trailgate.model.table_patterns import normalize_table_name
from trailgate.model.tables import Definitions, Table
from trailgate.storage.files.opened_file import OpenedFile
from trailgate.storage.files.trail_files import TrailFile, TrailFiles, TrailPosition
from trailgate.trail.format.file_header import (
    MISNUMBERED,
    FileHeader,
    decode_header,
    find_other_number,
)
from trailgate.trail.format.record_layout import BY_TABLE, NAME_AT
from trailgate.trail.format.record_types import IO_DDL, IO_METADATA, read_ddl_statement
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
    METADATA_LEVEL,
    NO_TABLES,
    TrailTable,
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


def usual_charset(header: FileHeader | None, definitions: Definitions) -> str:
    """Return the character set of a trail file's text, by its header and the definitions, if no option names it.

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


class EarlierTables:
    """The tables of metadata records before the offset at which reading a file starts.

    Operations name their table by an index, and indexes ascend in the order in which tables appear
    in a file (trail format §12). So the file is searched from its beginning, but only until the
    highest used index is found. If the records to read contain metadata records, all earlier ones
    must be known, because a reference to a table gets the next free index.
    """

    def __init__(self, reader: TrailFileReader, position: int) -> None:
        self._reader = reader
        self._searched = reader.begin
        self._until = position
        self._tables = NO_TABLES

    @property
    def complete(self) -> bool:
        """True if all tables before the offset are known."""
        return self._searched >= self._until

    def needed_by(self, data: Octets, view: RecordColumns, start: int) -> TrailTables:
        """Return the tables that the records of ``view`` refer to by index.

        ``data`` are the bytes of the records, and ``start`` is their offset in the file. Reads more
        of the file if necessary.
        """
        if self.complete or not len(view):
            return self._tables
        if (view.io_type == IO_METADATA).any():
            self._until = start
            self._search(None)
        # Records that name their table by an index into the metadata.
        by_index = view.offsets[view.partition & BY_TABLE != 0]
        if len(by_index):
            highest = int(self._reader.order.words(data, "u2")[by_index + NAME_AT].max())
            self._search(highest)
        return self._tables

    def _search(self, index: int | None) -> None:
        """Continue the search until the table with an index is found, or to the end (None)."""
        while not self.complete and (index is None or index not in self._tables.tables):
            stop = min(self._searched + SCAN, self._until)
            self._tables = self._reader.tables(stop, self._searched, self._tables)
            self._searched = stop


def has_complete_header(trail: TrailFiles, reader: TrailFileReader) -> bool:
    """Return whether the header of a trail file is complete. Raises TruncatedError if it is not, and the file no longer grows."""
    try:
        _ = reader.header
    except TruncatedError:
        if not trail.may_grow(reader.file):
            raise
        return False
    return True


def may_define_tables(trail: TrailFiles, reader: TrailFileReader) -> bool:
    """Return whether a file of the trail may contain metadata records.

    Files of older levels have none, and the last file has none yet while its header is incomplete.
    Raises TruncatedError if the header of another file is incomplete.
    """
    if not (reader.file.size and has_complete_header(trail, reader)):
        return False
    return reader.header is not None and reader.header.trail.compatibility >= METADATA_LEVEL


def find_table(trail: TrailFiles, name: str, number: int | None = None) -> Table:
    """Find a table's definition in the trail or in its definitions file.

    The first definition in the file ``number`` or a later one is used. Files of levels without
    metadata are not searched. Raises DefinitionError if the table is not defined.
    """
    for file in trail.files_from(trail.begin.number if number is None else number):
        with TrailFileReader(file) as reader:
            # A file of an older level has no metadata, and later files are not searched.
            if not may_define_tables(trail, reader):
                break
            table = _defined_in(reader, normalize_table_name(name).casefold())
            if table is not None:
                return table
    return trail.definitions.table(name)


def list_defined_tables(trail: TrailFiles) -> list[str]:
    """Return the sorted names of all tables that the trail, or its definitions file, defines."""
    names = {table.name for table in trail.definitions}
    for file in trail.files:
        with TrailFileReader(file) as reader:
            if not may_define_tables(trail, reader):
                break
            names |= {known.name for known in _tables(reader)}
    return sorted(names)


def latest_tables(
    trail: TrailFiles, enough: Callable[[set[str]], bool], most: int
) -> tuple[set[str], bool]:
    """Return the names of tables that the definitions and the newest trail files define.

    Returns also True if all files were read. Reading stops once ``enough`` returns True for the
    names, or after ``most`` bytes.
    """
    names = {table.name for table in trail.definitions}
    read = 0
    for file in reversed(trail.files):
        if read > most or enough(names):
            return names, False
        read += file.size
        with TrailFileReader(file) as reader:
            if not may_define_tables(trail, reader):
                continue
            for known in _tables(reader):
                if known.name not in names:
                    names.add(known.name)
                    if enough(names):
                        return names, False
    return names, True


def first_ddl(
    trail: TrailFiles, start: TrailPosition, end: TrailPosition
) -> tuple[TrailPosition, str] | None:
    """Find the first DDL record in a range of a trail. Returns its position and statement, or None."""
    for file in trail.files_from(start.number):
        if (file.number, 0) >= end:
            break
        with TrailFileReader(file) as reader:
            start_offset = start.offset if file.number == start.number else 0
            until = min(file.size, end.offset) if file.number == end.number else file.size
            if not has_complete_header(trail, reader):
                break
            for offset in reader.offsets_of_type(max(start_offset, reader.begin), until, IO_DDL):
                record = decode_record(
                    reader.read(offset, LONGEST), 0, order=reader.order, base=offset
                )
                return TrailPosition(file.number, offset), read_ddl_statement(record.data or b"")
    return None


def _defined_in(reader: TrailFileReader, name: str) -> Table | None:
    for known in _tables(reader):
        if known.table is not None and known.name.casefold() == name:
            return known.table
    return None


def _tables(reader: TrailFileReader) -> Iterator[TrailTable]:
    """Search a trail file for metadata records, and yield its tables, some of them more than once."""
    tables = NO_TABLES
    for offset in range(reader.begin, reader.file.size, SCAN):
        tables = reader.tables(min(offset + SCAN, reader.file.size), offset, tables)
        yield from tables.tables.values()
