"""The tables and partitions that a trail file's metadata records define, at every record of the file.

A metadata record may give an index that is in use to another table, or to a table whose columns
have changed. A Logdump session also goes back, so the earlier definitions are kept: what an index
stands for depends only on the offset of the record that contains it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from trailgate.trail.records.record import TrailRecord
from trailgate.trail.records.table_metadata import MetadataType, TrailTable, TrailTables

_OFFSET: Final = attrgetter("offset")


class _Partition(NamedTuple):
    """The name of a partition, and the offset of the record that defines it."""

    offset: int
    name: str


class TableHistory:
    """The definitions in metadata records, which are added in the order of the file."""

    def __init__(self) -> None:
        self._current = TrailTables()
        self._all: list[TrailTable] = []
        self._tables: dict[int, list[TrailTable]] = {}
        self._partitions: dict[tuple[int, int], list[_Partition]] = {}

    def add(self, record: TrailRecord) -> None:
        """Add the definition in the next metadata record of the file, if it has one."""
        self._current = self._current.with_record(record)
        table = self._current.defined_by(record)
        if table is not None:
            self._all.append(table)
            self._tables.setdefault(table.index, []).append(table)
        elif record.node == MetadataType.PARTITION:
            indexes = record.metadata_indexes
            partition = _Partition(record.offset, self._current.partitions[indexes])
            self._partitions.setdefault(indexes, []).append(partition)

    @property
    def table_names(self) -> frozenset[str]:
        """The names of all tables that the added records define, at any offset."""
        return frozenset(table.name for table in self._all)

    def table_at(self, index: int, offset: int) -> TrailTable | None:
        """Return the table that a table index stands for in a record at an offset of the file."""
        tables = self._tables.get(index, ())
        # The last definition at or before the offset. A metadata record itself already counts.
        at = bisect_right(tables, offset, key=_OFFSET)
        return tables[at - 1] if at else None

    def partition_at(self, indexes: tuple[int, int], offset: int) -> str | None:
        """Return the name of a partition in a record at an offset of the file.

        ``indexes`` are the indexes of the table and of the partition.
        """
        partitions = self._partitions.get(indexes, ())
        at = bisect_right(partitions, offset, key=_OFFSET)
        return partitions[at - 1].name if at else None

    def defined_between(self, begin: int, end: int) -> Sequence[TrailTable]:
        """Return the tables that records from one offset of the file to another define, in their order."""
        first = bisect_left(self._all, begin, key=_OFFSET)
        return self._all[first : bisect_left(self._all, end, key=_OFFSET)]

    def defined_at(self, offset: int) -> TrailTable | None:
        """Return the table that the record at an offset of the file defines, or None if it defines none."""
        return next(iter(self.defined_between(offset, offset + 1)), None)
