"""The cells of published rows: the column and type of each, and where its before and after value is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.views import octets
from trailgate.errors import did_you_mean
from trailgate.messages.event_publishing.xml.kernels import cells as kernels
from trailgate.messages.event_publishing.xml.vocabulary import (
    AFTER,
    BEFORE,
    CELL_VALUES,
    COLUMN,
    TYPE_OF,
    TYPES,
)
from trailgate.messages.xml.findings import Found
from trailgate.messages.xml.kernels.cells import MISSING, cell_bounds
from trailgate.messages.xml.names import numbered_words

_TYPE_NAMES: Final = tuple(row.name for row in TYPES)
_WORD: Final = octets(COLUMN.encode())
_FLAG_HINT: Final = "Correct the source's data, or the code page of the publishing queue map; see ON CODEPAGE ERROR of CREATE PUBQMAP"
_PROBLEMS: Final[Mapping[int, tuple[str, str]]] = MappingProxyType(
    {
        kernels.NOT_COLUMN: (f"{{1}} is in a row, where {COLUMN} is expected", ""),
        kernels.NO_NAME: ("a column has no name", ""),
        kernels.NO_TYPE: ("column {} has no value: an element of its type is expected in it", ""),
        kernels.SEVERAL: ("column {} has more than one value", ""),
        kernels.NESTED: (f"column {{}} has {BEFORE} or {AFTER}, which belong in an updateRow", ""),
        kernels.NO_AFTER: (f"column {{}} has a {BEFORE}, and no {AFTER}", ""),
        kernels.REPEATED: (f"column {{}} has more than one {BEFORE} or {AFTER}", ""),
        kernels.MIXED: (f"column {{}} has text beside {BEFORE} or {AFTER}", ""),
        kernels.NIL_WITH_VALUE: ("column {} is nil, and has a value", ""),
        kernels.BAD_MARK: (
            "nil, invalidData or rawData of column {} is not 0, 1, true or false",
            "",
        ),
        # Marks of Q Capture on values that it could not convert to the code page of the message.
        kernels.UNCONVERTED: (
            "column {} is marked invalidData: its value could not be converted when it was published",
            _FLAG_HINT,
        ),
        kernels.UNCONVERTED_RAW: (
            "column {} is marked rawData: its value has the bytes of the source's code page",
            _FLAG_HINT,
        ),
    }
)
Refuse = Callable[[Longs, Callable[[int], tuple[str, str]]], None]


class Side(NamedTuple):
    """Where the values of one image are, a cell each; a length may be NULL or MISSING."""

    starts: Offsets
    lengths: Offsets

    @classmethod
    def empty(cls, cells: int) -> Side:
        """Return places of no values."""
        return cls(np.zeros(cells, np.int32), np.full(cells, MISSING, np.int32))


@dataclass(frozen=True)
class Cells:
    """The cells of rows, each with its row, which ascend; its column's name, and its type's number among ``TYPES``, -1 for one not known."""

    operation: Longs
    names: Longs
    words: Sequence[str]
    types: Longs
    before: Side
    after: Side
    rows: int

    def name(self, cell: int) -> str:
        """Return the name of a cell's column, for errors."""
        return self.words[int(self.names[cell])] if self.names[cell] >= 0 else "?"

    @cached_property
    def bounds(self) -> Longs:
        """Return where the cells of each row begin, and the end."""
        found = np.empty(self.rows + 1, np.int64)
        cell_bounds(self.operation, found)
        return found


def cells_of(
    text: Octets, found: Found, operation: Longs, letters: Octets, refuse: Refuse
) -> Cells:
    """Return the cells of rows; ``letters`` is the operation type of each row.

    ``refuse`` takes cells and a function from a cell to its problem and a hint.
    """
    count = len(operation)
    names, words = _words(text, found, "name")
    types, elements = _words(text, found, "type")
    fields = np.array([found.fields.get(name, -1) for name in CELL_VALUES], np.int64)
    before, after = Side.empty(count), Side.empty(count)
    problems = np.zeros(count, np.uint8)
    bad = kernels.place_images(
        text, found.records, found.width, fields, operation, letters, _WORD, *before, *after,
        problems,
    )  # fmt: skip
    numbers = [_TYPE_NAMES.index(word) if word in TYPE_OF else -1 for word in elements]
    own = np.array([*numbers, -1], np.int64)[types]
    stripped = [word.strip() for word in words]
    cells = Cells(operation, names, stripped, own, before, after, len(letters))
    if bad:

        def problem(cell: int) -> tuple[str, str]:
            said, hint = _PROBLEMS[int(problems[cell])]
            return said.format(cells.name(cell), _word(text, found, cell)), hint

        refuse(np.flatnonzero(problems), problem)
    if -1 in numbers:
        refuse(
            np.flatnonzero((own < 0) & (problems == 0)),
            lambda cell: (
                f"{elements[int(types[cell])]} of column {cells.name(cell)} is not a type",
                did_you_mean(elements[int(types[cell])], _TYPE_NAMES),
            ),
        )
    return cells


def _words(text: Octets, found: Found, name: str) -> tuple[Longs, list[str]]:
    field = found.fields.get(name)
    if field is None:
        return np.full(len(found), -1), []
    codes, words = numbered_words(text, found, field)
    return codes.astype(np.int64, copy=False), words


def _word(text: Octets, found: Found, cell: int) -> str:
    """Return the name of a cell's element."""
    field = found.fields["element"]
    start, size = found.rows[cell, field : field + 2].tolist()
    return text[start : start + size].tobytes().decode()
