"""The tables of metadata records before a place, searched no further than needed."""

from __future__ import annotations

from collections.abc import Iterator

from trailgate.arrays import Octets
from trailgate.model.table_patterns import table_name
from trailgate.model.tables import Table
from trailgate.storage.files.trail_files import TrailFiles
from trailgate.storage.reading.trail.trail_file import SCAN, TrailFileReader
from trailgate.trail.format.record_layout import BY_TABLE, NAME_AT
from trailgate.trail.format.record_types import IO_METADATA
from trailgate.trail.records.metadata import METADATA_LEVEL, NO_TABLES, TrailTable, TrailTables
from trailgate.trail.records.record_view import RecordView


class EarlierTables:
    """The tables of metadata records before the place at which the reading of a file begins.

    Indexes count up in the order in which tables appear in a file (trail format §12), so from its
    begin only as much is searched as holds the highest index that is used. Where metadata come
    while reading, all those before them must be known: references take the next index.
    """

    def __init__(self, reader: TrailFileReader, place: int) -> None:
        self._reader = reader
        self._searched = reader.begin
        self._until = place
        self._tables = NO_TABLES

    @property
    def complete(self) -> bool:
        """Return whether all tables before the place are known."""
        return self._searched >= self._until

    def needed_by(self, data: Octets, view: RecordView, place: int) -> TrailTables:
        """Return the tables that these records, which begin at ``place``, need to be known."""
        if self.complete or not len(view):
            return self._tables
        if (view.io_type == IO_METADATA).any():
            self._until = place
            self._search(None)
        by_index = view.offsets[view.partition & BY_TABLE != 0]
        if len(by_index):
            highest = int(self._reader.order.words(data, "u2")[by_index + NAME_AT].max())
            self._search(highest)
        return self._tables

    def _search(self, index: int | None) -> None:
        """Search on until an index is known, or without one to the end."""
        while not self.complete and (index is None or index not in self._tables.tables):
            stop = min(self._searched + SCAN, self._until)
            self._tables = self._reader.tables(stop, self._searched, self._tables)
            self._searched = stop


def find_table(trail: TrailFiles, name: str, number: int | None = None) -> Table:
    """Return a table's definition: the trail's own, else the one given; raises DefinitionError.

    It is the first one that the trail has from the file of a number on; files of levels without
    metadata are not searched.
    """
    for file in trail.following(trail.begin.number if number is None else number):
        with TrailFileReader(file) as reader:
            header = reader.header if file.size else None
            if header is None or header.trail.compatibility < METADATA_LEVEL:
                break
            found = _defined_in(reader, table_name(name).casefold())
            if found is not None:
                return found
    return trail.definitions.table(name)


def defined_tables(trail: TrailFiles) -> list[str]:
    """Return the names of all tables that a trail defines, in its files or by its definitions file, sorted."""
    names = {table.name for table in trail.definitions}
    for file in trail.files:
        with TrailFileReader(file) as reader:
            header = reader.header if file.size else None
            if header is None or header.trail.compatibility < METADATA_LEVEL:
                break
            names |= {known.name for known in _tables(reader)}
    return sorted(names)


def _defined_in(reader: TrailFileReader, name: str) -> Table | None:
    for known in _tables(reader):
        if known.table is not None and known.name.casefold() == name:
            return known.table
    return None


def _tables(reader: TrailFileReader) -> Iterator[TrailTable]:
    """Yield the tables of a file's metadata records, as far as it is searched; some more than once."""
    tables = NO_TABLES
    for place in range(reader.begin, reader.file.size, SCAN):
        tables = reader.tables(min(place + SCAN, reader.file.size), place, tables)
        yield from tables.tables.values()
