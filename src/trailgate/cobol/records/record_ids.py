"""Ids of the records of a file, and of the records that they are below.

A record's id is the offset of its first byte in its file, so it is the same however the file is read. A record is below the last one of its parent's kind before it.
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
    """Return the name of the column with the ids of a level; 0 is that of kinds without a parent."""
    return f"_id_{level}"


def is_level_column(name: str) -> bool:
    """Return whether a column can have the ids of a level."""
    return name.startswith("_id_") and name[4:].isdecimal()


def chains_of(kinds: Sequence[str], parents: Mapping[str, str]) -> list[list[int]]:
    """Return for each kind the numbers of the kinds from the outermost one down to it; raises OptionError."""
    numbers = {name.upper(): number for number, name in enumerate(kinds)}
    above = {}
    for child, parent in parents.items():
        for name in (child, parent):
            if name.upper() not in numbers:
                hint = did_you_mean(name, kinds) or f"Known: {', '.join(kinds)}"
                raise OptionError(f"parents: {name} is not a kind of record", hint=hint)
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
    """Gives the ids of the records of one file, in its order."""

    def __init__(self, path: str, chains: Sequence[Sequence[int]]) -> None:
        self._path, self._chains = path, chains
        self._last: Longs = np.full(len(chains), _NONE, np.int64)

    @staticmethod
    def fields(chains: Sequence[Sequence[int]]) -> list[pa.Field]:
        """Return the fields of the columns."""
        levels = [level_column(level) for level in range(max(map(len, chains)))]
        return [
            pa.field(FILE_COLUMN, pa.string()),
            *(pa.field(name, pa.int64()) for name in (ID_COLUMN, *levels)),
        ]

    def columns(self, kind: Longs, offsets: Longs) -> tuple[list[pa.Array], Longs]:
        """Return the columns of records of these kinds at these offsets, and the state after them for ``advance``.

        The id of a level is NULL below the record's own level, and where no record of that level precedes it.
        """
        rows = len(kind)
        seen = np.empty((len(self._chains), rows), np.int64)
        for number, last in enumerate(self._last):
            own = np.where(kind == number, offsets, _NONE)
            seen[number] = np.maximum(np.maximum.accumulate(own), last) if rows else own
        levels = np.full((max(map(len, self._chains)), rows), _NONE, np.int64)
        for number, chain in enumerate(self._chains):
            own = kind == number
            outer = np.full(int(own.sum()), _NONE, np.int64)
            for level, above in enumerate(chain):
                found = seen[above][own]
                # One before a later record of the level above belongs to an earlier one.
                levels[level, own] = np.where(found >= outer, found, _NONE)
                outer = np.maximum(outer, found)
        ids = [pa.array(offsets)]
        ids += [pa.array(found, mask=found == _NONE) for found in levels]
        after = seen[:, -1] if rows else self._last
        return [pa.repeat(self._path, rows), *ids], after

    def advance(self, state: Longs) -> None:
        """Continue after the records whose columns came with this state."""
        self._last = state
