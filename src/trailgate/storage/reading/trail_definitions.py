"""The definition of a table by the position of an operation: a trail may define a table more than once.

A file of a trail defines each of its tables before their first operation in it, and again if a table changes. An operation has the last definition before it in its own file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.columnar.digits import parse_position
from trailgate.columnar.kernels.strings import DIGITS
from trailgate.errors import DefinitionError, OptionError, Where
from trailgate.model.table_patterns import table_name
from trailgate.model.tables import Table
from trailgate.storage.files.listing import TrailFile
from trailgate.storage.files.trail_files import TrailFiles, find_trail
from trailgate.storage.reading.trail_file import TrailFileReader
from trailgate.trail.records.metadata import METADATA_LEVEL, NO_TABLES, TrailTables

LOOK_BACK: Final = 1 << 30
GONE_HINT: Final = "Name a file with the table's definition by the option definitions"


@dataclass(slots=True)
class _FileTables:
    """The definitions in the first ``searched`` bytes of a file: of each table its offsets and definitions, in their order."""

    searched: int = 0
    tables: TrailTables = NO_TABLES
    by_name: dict[str, tuple[list[int], list[Table | None]]] = field(default_factory=dict)


class TrailDefinitions:
    """The definitions of a trail's tables by position. Files are searched up to the last position that was asked for."""

    def __init__(self, trail: TrailFiles) -> None:
        self._trail = trail
        self._files: dict[int, _FileTables] = {}

    def defined(self, name: str, positions: pa.Array) -> Iterator[tuple[Table, Longs]]:
        """Yield the definitions that operations on a table were written with, each with the rows of its operations.

        Raises DefinitionError, with the row as its record, if one is not known.
        """
        missing = np.flatnonzero(np.asarray(positions.is_null()))
        if len(missing):
            yield self._only(name, int(missing[0])), missing
        rows = np.flatnonzero(np.asarray(positions.is_valid()))
        numbers, offsets = _places(positions.drop_null(), rows)
        for number in np.unique(numbers).tolist():
            own = numbers == number
            yield from self._in_file(name, number, rows[own], offsets[own])

    def before(self, name: str, position: str) -> Table | None:
        """Return the last definition of a table before a position; None if it is not in the trail's last ``LOOK_BACK`` bytes before it."""
        number, offset = parse_position(position)
        first = self._trail.files[0].number if self._trail.files else number + 1
        read = 0
        for one in range(number, first - 1, -1):
            file = self._file(one, offset if one == number else 0)
            if file is None or read > LOOK_BACK:
                break
            until = offset if one == number else file.size
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
        found, tables = ([], []) if known is None else known.by_name.get(_key(name), ([], []))
        at = np.searchsorted(found, offsets, side="right") - 1
        for one in np.unique(at).tolist():
            chosen = at == one
            table = tables[one] if one >= 0 else None
            table = table or self._trail.definitions.get(name)
            if table is None:
                place = f"{number}:{offsets[chosen][0]}"
                raise self._unknown(name, place, int(rows[chosen][0]), is_gone=file is None)
            yield table, rows[chosen]

    def _unknown(self, name: str, place: str, row: int, *, is_gone: bool) -> DefinitionError:
        problem = f"the trail does not define the table before position {place}"
        if is_gone:
            problem = f"the trail has no file with position {place}, which defined the table"
        where = Where(source=self._trail.prefix, table=name, record=row)
        return DefinitionError(problem, where=where, hint=GONE_HINT)

    def _only(self, name: str, row: int) -> Table:
        """Return the definition of an operation without a position: the trail must have one alone."""
        every: dict[Table, None] = {}
        for file in self._trail.following(self._trail.begin.number if self._trail.files else 0):
            _, tables = self._tables_in(file, file.size).by_name.get(_key(name), ([], []))
            every |= dict.fromkeys(table for table in tables if table is not None)
        if not every:
            return self._trail.definitions.table(name)
        if len(every) > 1:
            problem = f"the trail has {len(every)} definitions of the table, and the operation has no position"
            raise DefinitionError(problem, where=Where(table=name, record=row))
        return next(iter(every))

    def _file(self, number: int, offset: int) -> TrailFile | None:
        """Return the file of a number, or None if the trail does not have it. The trail is listed again if it has grown."""
        files = self._trail.files
        if files and (number, offset) >= (files[-1].number, files[-1].size):
            self._trail = find_trail(self._trail.prefix, self._trail.definitions)
            files = self._trail.files
        at = number - files[0].number if files else -1
        return files[at] if 0 <= at < len(files) else None

    def _tables_in(self, file: TrailFile, until: int) -> _FileTables:
        """Return the definitions of a file up to an offset."""
        known = self._files.setdefault(file.number, _FileTables())
        if known.searched >= until:
            return known
        with TrailFileReader(file) as reader:
            header = reader.header if file.size else None
            if header is None or header.trail.compatibility < METADATA_LEVEL:
                known.searched = until if file.size else 0
                return known
            start = max(known.searched, reader.begin)
            for record in reader.metadata(until, start):
                known.tables = known.tables.with_record(record)
                one = known.tables.defined_by(record)
                if one is None:
                    continue
                offsets, found = known.by_name.setdefault(_key(one.name), ([], []))
                offsets.append(one.offset)
                found.append(one.table)
            known.searched = until
        return known


def _key(name: str) -> str:
    return table_name(name).casefold()


def _places(positions: pa.Array, rows: Longs) -> tuple[Longs, Longs]:
    """Return the file numbers and the offsets of positions; raises DefinitionError for a text that is none, with its row."""
    try:
        parts = (
            pc.utf8_slice_codeunits(positions, 0, DIGITS),
            pc.utf8_slice_codeunits(positions, DIGITS),
        )
        numbers, offsets = (pc.cast(part, pa.int64()).to_numpy() for part in parts)
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
