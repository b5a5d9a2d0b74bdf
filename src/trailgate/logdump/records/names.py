"""The table names of many records at once: each name once, and a code a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from re import IGNORECASE
from re import compile as compile_pattern

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.trail.records.metadata import TrailTables
from trailgate.trail.records.record_view import RecordNames


@dataclass(frozen=True)
class Names:
    """``texts[codes[i]]`` is the name of record i."""

    codes: Longs
    texts: list[str]

    def like(self, pattern: str) -> Mask:
        """Return which records' names match a pattern with ``*`` and ``?``, in either case."""
        matches = like(pattern)
        good = np.array([matches(text) for text in self.texts], bool)
        found: Mask = good[self.codes] if len(good) else np.zeros(0, bool)
        return found

    @cached_property
    def used(self) -> list[int]:
        """Return the codes that occur."""
        return [int(code) for code in np.unique(self.codes)]


def like(pattern: str, *, fold: bool = True) -> Callable[[str], bool]:
    """Return a test of whether a name matches a pattern with ``*`` and ``?``, in either case."""
    # Square brackets are not wildcards in Logdump.
    compiled = compile_pattern(translate(pattern.replace("[", "[[]")), IGNORECASE if fold else 0)
    return lambda text: compiled.match(text) is not None


def names_of(found: RecordNames, tables: Callable[[], TrailTables]) -> Names:
    """Return the names of records; ``tables`` is asked where records name their table by an index."""
    by_index = any(isinstance(name, int) for name in found.names)
    known = tables().tables if by_index else {}
    texts = found.texts(lambda i: known[i].name if i in known else index_name(i))
    return Names(found.codes, [text or "" for text in texts])


def index_name(index: int) -> str:
    """Return what stands for a table whose definition is not in the file."""
    return f"(table {index})"
