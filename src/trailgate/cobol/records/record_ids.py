"""Ids of the records of a file, and of their parent records.

A record's id is the offset of its first byte in the file, so it does not depend on how the file is
split or read. A record's parent is the last record of the parent kind before it. The columns are
``_record_id``, and ``_id_0``, ``_id_1`` and so on for the levels of the hierarchy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.cobol.records.added_columns import FILE_COLUMN
from trailgate.errors import OptionError, did_you_mean

ID_COLUMN = "_record_id"
_NONE: Final = -1


def level_column(level: int) -> str:
    """Return the name of the id column of a level of records.

    Level 0 has the record kinds without a parent.
    """
    return f"_id_{level}"


def is_level_column(name: str) -> bool:
    """Return True if a column contains the ids of a level. Its name is then ``_id_1``, for example."""
    return name.startswith("_id_") and name[4:].isdecimal()


def ancestors_of_kinds(kinds: Sequence[str], parents: Mapping[str, str]) -> list[list[int]]:
    """Return the kinds that give a record of each kind its id columns: the indexes of its ancestors, from the outermost down to itself.

    Raises OptionError if a kind is unknown, or is its own ancestor.
    """
    numbers = {name.upper(): number for number, name in enumerate(kinds)}
    above = {}
    for child, parent in parents.items():
        for name in (child, parent):
            if name.upper() not in numbers:
                hint = f"{did_you_mean(name, kinds)} Known: {', '.join(kinds)}".lstrip()
                problem = f"parents: {child}={parent}: {name} is not a kind of record"
                raise OptionError(problem, hint=hint)
        above[numbers[child.upper()]] = numbers[parent.upper()]
    chains = []
    for number in range(len(kinds)):
        chain = [number]
        while chain[0] in above:
            if above[chain[0]] in chain:
                raise OptionError(f"parents: {kinds[number]} is below itself")
            chain.insert(0, above[chain[0]])
        chains.append(chain)
    return chains


class RecordIds:
    """Computes the id columns of the records of one file, in order."""

    def __init__(self, path: str, chains: Sequence[Sequence[int]]) -> None:
        self._path, self._chains = path, chains
        self._last: Longs = np.full(len(chains), _NONE, np.int64)

    @staticmethod
    def fields(chains: Sequence[Sequence[int]]) -> list[pa.Field]:
        """Return the Arrow fields of the id columns: ``_file``, ``_record_id``, ``_id_0``, ..."""
        levels = [level_column(level) for level in range(max(map(len, chains)))]
        return [
            pa.field(FILE_COLUMN, pa.string()),
            *(pa.field(name, pa.int64()) for name in (ID_COLUMN, *levels)),
        ]

    def columns(self, kinds: Longs, offsets: Longs) -> tuple[list[pa.Array], Longs]:
        """Return the id columns of records, from their kinds and offsets, and the state after them.

        The state is the offset of the last record of each kind. Pass it to ``advance`` once the
        records are used. A level's id is NULL if the level is below the record's own, or if the
        record has no ancestor at that level.
        """
        rows = len(kinds)
        seen = np.empty((len(self._chains), rows), np.int64)
        for number, last in enumerate(self._last):
            mine = np.where(kinds == number, offsets, _NONE)
            # The last offset of this kind at or before each record. Example: offsets 10 20 30,
            # where only the records at 10 and 30 are of the kind, give 10 10 30.
            seen[number] = np.maximum(np.maximum.accumulate(mine), last) if rows else mine
        levels = np.full((max(map(len, self._chains)), rows), _NONE, np.int64)
        for number, chain in enumerate(self._chains):
            mine = kinds == number
            outer = np.full(int(mine.sum()), _NONE, np.int64)
            for level, above in enumerate(chain):
                ids_at_level = seen[above][mine]
                # A record that precedes the current record of the level above belongs to an earlier
                # one, so it is not an ancestor.
                levels[level, mine] = np.where(ids_at_level >= outer, ids_at_level, _NONE)
                outer = np.maximum(outer, ids_at_level)
        ids = [pa.array(offsets)]
        ids += [pa.array(ids_at_level, mask=ids_at_level == _NONE) for ids_at_level in levels]
        after = seen[:, -1] if rows else self._last
        return [pa.repeat(self._path, rows), *ids], after

    def advance(self, state: Longs) -> None:
        """Set the state that ``columns`` has returned, so that the next call continues after its records."""
        self._last = state
