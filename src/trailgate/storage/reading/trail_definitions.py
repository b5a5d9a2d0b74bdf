"""Find the tables that a trail defines: in metadata records of its files, or in its definitions file.

A trail may define a table more than once: each file defines its tables before their first operation
in it, and again if a table changes. The definition of an operation is the last one before it in its
own file (``TrailDefinitions``). ``EarlierTables`` finds the tables before the offset at which reading a
file starts, and ``find_first_ddl_record`` the statements that change tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Octets
from trailgate.columnar.numbers_kernels import DIGITS
from trailgate.errors import DefinitionError, OptionError, Where
from trailgate.model.positions import parse_position
from trailgate.model.table_names import normalize_table_name
from trailgate.model.tables import Table
from trailgate.storage.files.trail_files import TrailFile, TrailFiles, TrailPosition, find_trail
from trailgate.storage.reading.trail_file import LONGEST, SCAN, TrailFileReader, has_complete_header
from trailgate.trail.format.record_header import BY_TABLE, NAME_AT
from trailgate.trail.format.record_types import IO_DDL, IO_METADATA
from trailgate.trail.records.record import decode_record
from trailgate.trail.records.record_data import read_ddl_statement
from trailgate.trail.records.record_view import RecordColumns
from trailgate.trail.records.table_metadata import (
    METADATA_LEVEL,
    NO_TABLES,
    TrailTable,
    TrailTables,
)

LOOK_BACK: Final = 1 << 30  # the most bytes to search before a position
GONE_HINT: Final = "Name a file with the table's definition with the option definitions"


@dataclass(slots=True)
class _FileTables:
    """The table definitions in the first ``searched`` bytes of a trail file.

    ``by_name`` contains for each table the offsets of its definitions, and the definitions, in
    order. A definition is None if it cannot be decoded.
    """

    searched: int = 0
    tables: TrailTables = NO_TABLES
    by_name: dict[str, tuple[list[int], list[Table | None]]] = field(default_factory=dict)


class TrailDefinitions:
    """Finds the definition of a table that is valid at a position of a trail.

    A file is read only up to that position.
    """

    def __init__(self, trail: TrailFiles) -> None:
        self._trail = trail
        self._files: dict[int, _FileTables] = {}

    def definitions_of(self, name: str, positions: pa.Array) -> Iterator[tuple[Table, Longs]]:
        """Yield each definition that applies to operations on a table, with the rows of these operations.

        Raises DefinitionError if a definition is unknown; its record number is the row.
        """
        # Without a position it is unknown which definition in the trail was the last one before an
        # operation. That is fine as long as the table has only one.
        missing = np.flatnonzero(np.asarray(positions.is_null()))
        if len(missing):
            yield self._only(name, int(missing[0])), missing
        rows = np.flatnonzero(np.asarray(positions.is_valid()))
        numbers, offsets = _places(positions.drop_null(), rows)
        for number in np.unique(numbers).tolist():
            in_file = numbers == number
            yield from self._in_file(name, number, rows[in_file], offsets[in_file])

    def before(self, name: str, position: str) -> Table | None:
        """Return the last definition of a table before a position.

        If the last ``LOOK_BACK`` bytes before the position do not define it, returns the definition
        in the definitions file, or None.
        """
        number, offset = parse_position(position)
        first = self._trail.files[0].number if self._trail.files else number + 1
        read = 0
        for file_number in range(number, first - 1, -1):
            file = self._file(file_number, offset if file_number == number else 0)
            if file is None or read > LOOK_BACK:
                break
            until = offset if file_number == number else file.size
            read += until
            offsets, tables = self._tables_in(file, until).by_name.get(_key(name), ([], []))
            at = int(np.searchsorted(offsets, until)) - 1
            if at >= 0:
                return tables[at] or self._trail.definitions.get(name)
        return self._trail.definitions.get(name)

    def _in_file(
        self, name: str, number: int, rows: Longs, offsets: Longs
    ) -> Iterator[tuple[Table, Longs]]:
        file = self._file(number, int(offsets.max()))
        known = None if file is None else self._tables_in(file, int(offsets.max()) + 1)
        defined_at, tables = ([], []) if known is None else known.by_name.get(_key(name), ([], []))
        # For each operation, the index of the last definition before its offset; -1 if there is
        # none.
        at = np.searchsorted(defined_at, offsets, side="right") - 1
        for index in np.unique(at).tolist():
            chosen = at == index
            table = tables[index] if index >= 0 else None
            table = table or self._trail.definitions.get(name)
            if table is None:
                place = f"{number}:{offsets[chosen][0]}"
                raise self._unknown_error(name, place, int(rows[chosen][0]), is_gone=file is None)
            yield table, rows[chosen]

    def _unknown_error(self, name: str, source: str, row: int, *, is_gone: bool) -> DefinitionError:
        problem = f"the trail does not define the table before position {source}"
        if is_gone:
            problem = f"the trail has no file with position {source}, which defined the table"
        where = Where(source=self._trail.prefix, table=name, record=row)
        return DefinitionError(problem, where=where, hint=GONE_HINT)

    def _only(self, name: str, row: int) -> Table:
        """Return the only definition of a table, for an operation without a position.

        Raises DefinitionError if the trail defines the table in several ways.
        """
        every: dict[Table, None] = {}
        for file in self._trail.files_from(self._trail.begin.number if self._trail.files else 0):
            _, tables = self._tables_in(file, file.size).by_name.get(_key(name), ([], []))
            every |= dict.fromkeys(table for table in tables if table is not None)
        if not every:
            return self._trail.definitions.table(name)
        if len(every) > 1:
            problem = f"the trail has {len(every)} definitions of the table, but the operation has no position"
            raise DefinitionError(problem, where=Where(table=name, record=row))
        return next(iter(every))

    def _file(self, number: int, offset: int) -> TrailFile | None:
        """Return a trail file by its number, or None if it does not exist.

        The trail is listed again if ``offset`` is at or after its known end, because it may have
        grown.
        """
        files = self._trail.files
        if files and (number, offset) >= (files[-1].number, files[-1].size):
            self._trail = find_trail(self._trail.prefix, self._trail.definitions)
            files = self._trail.files
        at = number - files[0].number if files else -1
        return files[at] if 0 <= at < len(files) else None

    def _tables_in(self, file: TrailFile, until: int) -> _FileTables:
        """Return the table definitions in a trail file up to an offset, or further if already known."""
        known = self._files.setdefault(file.number, _FileTables())
        if known.searched >= until:
            return known
        with TrailFileReader(file) as reader:
            if not may_define_tables(self._trail, reader):
                known.searched = min(until, file.size)
                return known
            start = max(known.searched, reader.begin)
            for record in reader.metadata(until, start):
                known.tables = known.tables.with_record(record)
                table_found = known.tables.defined_by(record)
                if table_found is None:
                    continue
                offsets, definitions = known.by_name.setdefault(_key(table_found.name), ([], []))
                offsets.append(table_found.offset)
                definitions.append(table_found.table)
            known.searched = until
        return known


def _key(name: str) -> str:
    return normalize_table_name(name).casefold()


def _places(positions: pa.Array, rows: Longs) -> tuple[Longs, Longs]:
    """Split positions into file numbers and offsets. Raises DefinitionError if a position is invalid.

    ``rows`` are the rows of the positions, for the error.
    """
    try:
        parts = (
            pc.utf8_slice_codeunits(positions, 0, DIGITS),
            pc.utf8_slice_codeunits(positions, DIGITS),
        )
        numbers, offsets = (pc.cast(part, pa.int64()).to_numpy() for part in parts)
    # Not all positions have 20 digits, so parse each one.
    except pa.ArrowInvalid:
        pairs = []
        for row, text in zip(rows.tolist(), positions.to_pylist(), strict=True):
            try:
                pairs.append(parse_position(text))
            except OptionError as error:
                raise DefinitionError(
                    error.problem, where=Where(record=row), hint=error.hint
                ) from None
        numbers, offsets = np.array(pairs, np.int64).T
    return numbers, offsets


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


def list_latest_tables(
    trail: TrailFiles, enough: Callable[[set[str]], bool], most: int
) -> tuple[set[str], bool]:
    """Return the names of the tables that the definitions file and the newest trail files define.

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


def find_first_ddl_record(
    trail: TrailFiles, start: TrailPosition, end: TrailPosition
) -> tuple[TrailPosition, str] | None:
    """Search a range of a stored trail for its first DDL record. Returns the position and the statement, or None."""
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
