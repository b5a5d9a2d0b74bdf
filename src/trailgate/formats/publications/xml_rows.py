"""The rows of XML publications as records, and their before and after images.

A row's columns are called *cells*. `RowCells` contains for each cell the row, the column name, the
type, and the spans of the before and after value, in one array each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets, octets
from trailgate.columnar.gather import take_text
from trailgate.errors import did_you_mean
from trailgate.formats.publications import xml_cell_kernels as kernels
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
from trailgate.formats.publications.xml_cell_kernels import ImageSpans, place_in_columns
from trailgate.formats.publications.xml_envelopes import Envelopes, RecordValueSpans
from trailgate.formats.publications.xml_vocabulary import (
    AFTER,
    BEFORE,
    CELL_VALUES,
    COLUMN,
    TYPE_OF,
    TYPES,
)
from trailgate.formats.xml.images import CellGroup, PlacedCells
from trailgate.formats.xml.kernels.cells import MISSING
from trailgate.formats.xml.matches import MatchRecords, cell_bounds
from trailgate.formats.xml.records import element_bytes
from trailgate.messages.records import MessageRecords

_TYPE_NAMES: Final = tuple(row.name for row in TYPES)
_WORD: Final = octets(COLUMN.encode())
_FLAG_HINT: Final = "Correct the source's data, or the code page of the publishing queue map; see ON CODEPAGE ERROR of CREATE PUBQMAP"
# By the code that the kernel writes: the problem and the hint.
_PROBLEMS: Final[Mapping[int, tuple[str, str]]] = MappingProxyType(
    {
        kernels.NOT_COLUMN: (f"found {{1}} in a row, expected {COLUMN}", ""),
        kernels.NO_NAME: ("a column has no name", ""),
        kernels.NO_TYPE: ("column {} has no value: it must contain an element of its type", ""),
        kernels.SEVERAL: ("column {} has more than one value", ""),
        kernels.NESTED: (f"column {{}} has {BEFORE} or {AFTER}, which belong in an updateRow", ""),
        kernels.NO_AFTER: (f"column {{}} has a {BEFORE}, but no {AFTER}", ""),
        kernels.REPEATED: (f"column {{}} has more than one {BEFORE} or {AFTER}", ""),
        kernels.MIXED: (f"column {{}} has text beside {BEFORE} or {AFTER}", ""),
        kernels.NIL_WITH_VALUE: ("column {} is nil, but has a value", ""),
        kernels.BAD_MARK: (
            "nil, invalidData or rawData of column {} is not 0, 1, true or false",
            "",
        ),
        # Q Capture marks values that it could not convert to the code page of the message.
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


_OF_ROWS: Final = MappingProxyType({OWNER: "schema", NAME_OF_TABLE: "table"})
_OF_ENVELOPES: Final = MappingProxyType(
    {TRANSACTION: "commit", IDENTIFIER: "commit", TIME: "time", AUTHORIZATION: "owner"}
)


@dataclass(frozen=True)
class RowCells:
    """The column values ("cells") of XML publication rows, as arrays with one element per cell.

    `operation` is the row of each cell, ascending. `names` are indexes into `words`, and `types`
    indexes into `TYPES`, or -1 if unknown. `rows` is the number of rows.
    """

    operation: Longs
    names: Longs
    words: Sequence[str]
    types: Longs
    before: ImageSpans
    after: ImageSpans
    rows: int

    def name(self, cell: int) -> str:
        """Return the column name of an XML cell, for errors: "?" if it has none."""
        return self.words[int(self.names[cell])] if self.names[cell] >= 0 else "?"

    @cached_property
    def bounds(self) -> Longs:
        """The index of each XML row's first cell, followed by the end of the last row's cells."""
        return cell_bounds(self.operation, self.rows)


def read_cells(
    text: Octets, records: MatchRecords, operation: Longs, letters: Octets, refuse: Refuse
) -> RowCells:
    """Read the cells of XML publication rows.

    `operation` is the row of each cell, and `letters` is the operation type of each row. For bad
    cells `refuse` is called with two arguments: their numbers, and a function that returns the
    problem and the hint for one of these numbers.
    """
    count = len(operation)
    values = RecordValueSpans(records)
    # Names and types are coded: few distinct strings for many cells.
    names, words = values.words(text, "name")
    types, elements = values.words(text, "type")
    fields = np.array([records.fields.get(name, -1) for name in CELL_VALUES], np.int64)
    before, after = ImageSpans.empty(count), ImageSpans.empty(count)
    problems = np.zeros(count, np.uint8)
    bad = kernels.place_images(
        text, records.records, records.width, fields, operation, letters, _WORD, before, after,
        problems,
    )  # fmt: skip
    numbers = [_TYPE_NAMES.index(word) if word in TYPE_OF else -1 for word in elements]
    type_numbers = np.array([*numbers, -1], np.int64)[types]
    stripped = [word.strip() for word in words]
    cells = RowCells(
        operation=operation,
        names=names,
        words=stripped,
        types=type_numbers,
        before=before,
        after=after,
        rows=len(letters),
    )
    if bad:

        def problem(cell: int) -> tuple[str, str]:
            problem, hint = _PROBLEMS[int(problems[cell])]
            return problem.format(cells.name(cell), _word(text, records, cell)), hint

        refuse(np.flatnonzero(problems), problem)
    if -1 in numbers:
        refuse(
            np.flatnonzero((type_numbers < 0) & (problems == 0)),
            lambda cell: (
                f"{elements[int(types[cell])]} of column {cells.name(cell)} is not a type",
                did_you_mean(elements[int(types[cell])], _TYPE_NAMES),
            ),
        )
    return cells


def _word(text: Octets, records: MatchRecords, cell: int) -> str:
    """Return the name of an XML cell's element, which should be `col`."""
    field = records.fields["element"]
    start, size = records.rows[cell, field : field + 2].tolist()
    return text[start : start + size].tobytes().decode()


@dataclass(frozen=True, slots=True)
class XmlPublicationRecords(MessageRecords):
    """Rows of XML publications as records. `buffer` contains the text of all values.

    `around` is the envelope of each row, and `end` the end of its element. `letters` are the
    operation types (such as "I"), which `operations` maps to their values in the options. `rows`
    are the spans of the attributes of row elements, `cells` the column values, and `seen` the notes
    on control messages. `words` caches coded attributes.
    """

    buffer: Octets
    envelopes: Envelopes
    around: Longs
    end: Longs
    letters: Octets
    operations: Mapping[str, str]
    rows: RecordValueSpans
    cells: RowCells
    seen: frozenset[str] = frozenset()
    words: dict[str, tuple[Longs, list[str]]] = field(default_factory=dict)

    @property
    def notes(self) -> frozenset[str]:
        """Notes on the control messages among XML publications, for the warnings of a run."""
        return self.seen

    def messages_without(self) -> Longs:
        """Return no messages: XML publications without rows are bad or change no row (heartbeats)."""
        return np.zeros(0, np.int64)

    def text(self, name: str) -> pa.Array:
        """Return a header field of XML publication rows as text, null if it is missing."""
        if name == OPERATION or name in _OF_ROWS:
            codes, words = self.codes(name)
            return pa.array(words, pa.string()).take(pa.array(codes))
        if name == PLAN:
            # The plan name, or else the correlation id.
            given = self.envelopes.strings("plan"), self.envelopes.strings("correlation")
            return take_text(pc.coalesce(*given), self.around)
        values = self.envelopes.strings(_OF_ENVELOPES[name])
        if name == TIME:  # commit times are GMT (event publishing §3.1)
            values = pc.utf8_rtrim(values, "Z")
        return take_text(values, self.around)

    def codes(self, name: str) -> tuple[Longs, list[str]]:
        """Return a header field of XML publication rows as codes: for each row an index into the list of distinct strings."""
        if name == OPERATION:
            table = np.zeros(256, np.int64)
            table[[ord(letter) for letter in self.operations]] = range(len(self.operations))
            return table[self.letters], list(self.operations.values())
        if name in _OF_ROWS:
            if name not in self.words:
                codes, words = self.rows.words(self.buffer, _OF_ROWS[name])
                self.words[name] = codes, [word.strip() for word in words]
            return self.words[name]
        return MessageRecords.codes(self, name)

    def segments(self) -> Longs:
        """Return the segment number of each row's XML publication, or 0 for a rowOp message."""
        return self.envelopes.segment[self.around]

    def transaction_ends(self) -> Mask:
        """Return a mask of XML publication rows that end their transaction: the last rows of messages marked isLast."""
        last = np.ones(len(self.message), bool)
        last[:-1] = self.message[1:] != self.message[:-1]
        return last & self.envelopes.last[self.around]

    def raws(self, rows: Longs) -> pa.BinaryArray:
        """Return the first bytes of several publication rows' XML elements, for errors."""
        start, end = self.offset[rows], self.end[rows]
        return element_bytes(self.messages, self.message[rows], start, end)


class XmlPublicationGroup(CellGroup[XmlPublicationRecords]):
    """XML publication rows of one table and type."""

    def place_values(self, sides: tuple[int, int]) -> PlacedCells:
        """Return the byte spans of XML publication values, column by column, image by image.

        `sides` are the images: (0, 1) the before image, (1, 2) the after image, (0, 2) both.

        Errors are added for unknown and repeated columns.
        """
        cells, size = self.records.cells, len(self.rows) * len(self.table.columns)
        total = (sides[1] - sides[0]) * size
        spans = PlacedCells(np.zeros(total, np.int32), np.full(total, MISSING, np.int32))
        known = self.table.column_indexes()
        columns = np.array([known.get(word.casefold(), -1) for word in cells.words], np.int64)
        refused = 0
        # Each image fills its own part of the arrays, `size` elements long.
        for number, side in enumerate((cells.before, cells.after)[slice(*sides)]):
            refused += place_in_columns(
                self.rows, cells.bounds, cells.names, columns, *side, number * size, size, *spans
            )
        if refused:
            self._refuse(cells, columns)
        return spans

    def _refuse(self, cells: RowCells, columns: Longs) -> None:
        """Add an error for each XML cell whose column is not in the table or occurs twice in the row."""
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
