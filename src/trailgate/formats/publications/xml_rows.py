"""The rows of a batch of XML publications as records, and their before and after images.

Each row's cells have a column, a type, and the places of the values before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.gather import take_text
from trailgate.columnar.rows import octets
from trailgate.errors import did_you_mean
from trailgate.formats.publications import xml_kernels as kernels
from trailgate.formats.publications.options import (
    AUTHORIZATION,
    IDENTIFIER,
    NAME_OF_TABLE,
    OPERATION,
    OWNER,
    PLAN,
    TIME,
    TRANSACTION,
)
from trailgate.formats.publications.xml_envelopes import Envelopes, Values
from trailgate.formats.publications.xml_kernels import scatter
from trailgate.formats.publications.xml_vocabulary import (
    AFTER,
    BEFORE,
    CELL_VALUES,
    COLUMN,
    TYPE_OF,
    TYPES,
)
from trailgate.formats.xml.findings import Found, cell_bounds
from trailgate.formats.xml.images import CellGroup, Placed, columns_by_name
from trailgate.formats.xml.kernels.cells import MISSING
from trailgate.formats.xml.records import element_bytes
from trailgate.messages.records import Records
from trailgate.model.tables import Column
from trailgate.model.types import Family
from trailgate.model.values import Convert, parser_for

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
        return cell_bounds(self.operation, self.rows)


def cells_of(
    text: Octets, found: Found, operation: Longs, letters: Octets, refuse: Refuse
) -> Cells:
    """Return the cells of rows; ``letters`` is the operation type of each row.

    ``refuse`` takes cells and a function from a cell to its problem and a hint.
    """
    count = len(operation)
    values = Values(found)
    names, words = values.words(text, "name")
    types, elements = values.words(text, "type")
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
            problem, hint = _PROBLEMS[int(problems[cell])]
            return problem.format(cells.name(cell), _word(text, found, cell)), hint

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


def _word(text: Octets, found: Found, cell: int) -> str:
    """Return the name of a cell's element."""
    field = found.fields["element"]
    start, size = found.rows[cell, field : field + 2].tolist()
    return text[start : start + size].tobytes().decode()


_OF_ROWS: Final = MappingProxyType({OWNER: "schema", NAME_OF_TABLE: "table"})
_OF_ENVELOPES: Final = MappingProxyType(
    {TRANSACTION: "commit", IDENTIFIER: "commit", TIME: "time", AUTHORIZATION: "owner"}
)


@dataclass(frozen=True, slots=True)
class XmlPublicationRecords(Records):
    """Rows as records, each with its envelope; ``text`` has the values of all.

    ``letters`` are operation types, which the options call ``operations``; ``rows`` is where the attributes of rows are.
    """

    buffer: Octets
    envelopes: Envelopes
    around: Longs
    end: Longs
    letters: Octets
    operations: Mapping[str, str]
    rows: Values
    cells: Cells
    seen: frozenset[str] = frozenset()
    words: dict[str, tuple[Longs, list[str]]] = field(default_factory=dict)

    @property
    def notes(self) -> frozenset[str]:
        """Return what control messages report."""
        return self.seen

    def text(self, name: str) -> pa.Array:
        """Return each row's text of a header field, null where it has none."""
        if name == OPERATION or name in _OF_ROWS:
            codes, words = self.codes(name)
            return pa.array(words, pa.string()).take(pa.array(codes))
        if name == PLAN:
            given = self.envelopes.strings("plan"), self.envelopes.strings("correlation")
            return take_text(pc.coalesce(*given), self.around)
        found = self.envelopes.strings(_OF_ENVELOPES[name])
        if name == TIME:  # commit times are GMT (event publishing §3.1)
            found = pc.utf8_rtrim(found, "Z")
        return take_text(found, self.around)

    def codes(self, name: str) -> tuple[Longs, list[str]]:
        """Return each row's number among the different strings of a header field, and those strings."""
        if name == OPERATION:
            table = np.zeros(256, np.int64)
            table[[ord(letter) for letter in self.operations]] = range(len(self.operations))
            return table[self.letters], list(self.operations.values())
        if name in _OF_ROWS:
            if name not in self.words:
                codes, words = self.rows.words(self.buffer, _OF_ROWS[name])
                self.words[name] = codes, [word.strip() for word in words]
            return self.words[name]
        return Records.codes(self, name)

    def segments(self) -> Longs:
        """Return the segment of each row's message, 0 for a message of one row."""
        return self.envelopes.segment[self.around]

    def transaction_ends(self) -> Mask:
        """Return which rows end their transaction: the last ones of messages that do."""
        last = np.ones(len(self.message), bool)
        last[:-1] = self.message[1:] != self.message[:-1]
        return last & self.envelopes.last[self.around]

    def raw(self, row: int) -> bytes:
        """Return the beginning of a row's element."""
        return element_bytes(self.messages, self.message[row], self.offset[row], self.end[row])


_BLANKS: Final = " \t\r\n"
_COLLAPSED: Final = (
    Family.BYTES,
    Family.FLOAT,
)  # blanks around them do not count; others see to that


class PublicationGroup(CellGroup[XmlPublicationRecords]):
    """Rows of one table and type."""

    def placed(self, sides: tuple[int, int]) -> Placed:
        """Return the places of the cells of some images; add errors for those that have none."""
        cells, size = self.records.cells, len(self.rows) * len(self.table.columns)
        whole = (sides[1] - sides[0]) * size
        found = Placed(np.zeros(whole, np.int32), np.full(whole, MISSING, np.int32))
        known = columns_by_name(self.table)
        columns = np.array([known.get(word.casefold(), -1) for word in cells.words], np.int64)
        refused = 0
        for number, own in enumerate((cells.before, cells.after)[slice(*sides)]):
            refused += scatter(
                self.rows, cells.bounds, cells.names, columns, *own, number * size, size, *found
            )
        if refused:
            self._refuse(cells, columns)
        return found

    def _refuse(self, cells: Cells, columns: Longs) -> None:
        """Add the errors of cells whose column the table does not have, or the row has twice."""
        for at, row in enumerate(self.rows.tolist()):
            seen: set[int] = set()
            for cell in range(int(cells.bounds[row]), int(cells.bounds[row + 1])):
                column, name = int(columns[cells.names[cell]]), cells.name(cell)
                if column < 0:
                    hint = did_you_mean(name, [each.name for each in self.table.columns])
                    self.refuse_rows(
                        np.array([at]), f"the table has no column {name!r}", None, hint
                    )
                elif column in seen:
                    self.refuse_rows(np.array([at]), f"column {name} is found twice", None)
                if cells.before.lengths[cell] != MISSING or cells.after.lengths[cell] != MISSING:
                    seen.add(column)


def converter(column: Column) -> Convert:
    """Return what makes a column's values of their strings (event publishing §3: lexical forms)."""
    parse = parser_for(column)
    if column.family not in _COLLAPSED:
        return parse

    def collapse(values: pa.Array) -> pa.Array:
        return parse(pc.utf8_trim(values, _BLANKS))

    return collapse
