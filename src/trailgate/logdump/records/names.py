"""The table names of many records at once: each name once, and a code a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from re import IGNORECASE
from re import compile as compile_pattern
from typing import Final

import numpy as np
import numpy.typing as npt

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.views import rows_at
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.metadata import TrailTables
from trailgate.trail.format.record_layout import BY_TABLE

FEW: Final = 24  # names of one length that are compared one by one; more are sorted


@dataclass(frozen=True)
class Names:
    """``texts[codes[i]]`` is the name of record i."""

    codes: Longs
    texts: list[str]

    def like(self, pattern: str) -> Mask:
        """Tell which records' names match a pattern with ``*`` and ``?``, in either case."""
        matches = like(pattern)
        good = np.array([matches(text) for text in self.texts], bool)
        found: Mask = good[self.codes] if len(good) else np.zeros(0, bool)
        return found

    @cached_property
    def used(self) -> list[int]:
        """Return the codes that occur."""
        return [int(code) for code in np.unique(self.codes)]


def like(pattern: str, *, fold: bool = True) -> Callable[[str], bool]:
    """Return what tells whether a name matches a pattern with ``*`` and ``?``, in either case."""
    # Square brackets are no wildcards in Logdump.
    compiled = compile_pattern(translate(pattern.replace("[", "[[]")), IGNORECASE if fold else 0)
    return lambda text: compiled.match(text) is not None


def read_names(
    data: Octets,
    places: tuple[Longs, Longs],
    heads: npt.NDArray[np.void],
    order: ByteOrder,
    tables: Callable[[], TrailTables],
) -> Names:
    """Return the names of records whose name areas have these starts and lengths."""
    starts, lengths = places
    codes = np.zeros(len(starts), np.int64)
    texts: list[str] = []
    indexed = heads["partition"] & BY_TABLE != 0
    if indexed.any():
        rows = np.flatnonzero(indexed)
        known = tables().tables
        found, own = np.unique(order.words(data, "u2")[starts[rows]], return_inverse=True)
        codes[rows] = own
        texts = [known[i].name if i in known else index_name(i) for i in found.tolist()]
    for width in np.unique(lengths[~indexed]).tolist():
        rows = np.flatnonzero(~indexed & (lengths == width))
        for same, area in _alike(data, starts, rows, width):
            codes[same] = len(texts)
            texts.append(area.partition(b"\0")[0].decode("utf-8", "backslashreplace"))
    return Names(codes, texts)


def index_name(index: int) -> str:
    """Return what stands for a table whose definition is not in the file."""
    return f"(table {index})"


def _alike(data: Octets, starts: Longs, rows: Longs, width: int) -> list[tuple[Longs, bytes]]:
    """Return the rows of each different name area of one length."""
    found: list[tuple[Longs, bytes]] = []
    areas = rows_at(data, starts[rows], width).view(f"V{width}").reshape(-1)
    while len(rows) and len(found) < FEW:
        same = areas == areas[0]
        found.append((rows[same], areas[0].tobytes()))
        rows, areas = rows[~same], areas[~same]
    if len(rows):
        # Sorting bytes needs a kind that compares: words of a matrix do, void does not.
        matrix = areas.view(np.uint8).reshape(len(rows), width)
        unique, own = np.unique(matrix, axis=0, return_inverse=True)
        sorted_rows = np.argsort(own.reshape(-1), kind="stable")
        borders = np.flatnonzero(np.diff(own.reshape(-1)[sorted_rows])) + 1
        pieces = np.split(rows[sorted_rows], borders)
        found += [(piece, row.tobytes()) for piece, row in zip(pieces, unique, strict=True)]
    return found
