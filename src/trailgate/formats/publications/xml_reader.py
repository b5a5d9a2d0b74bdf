"""Read XML publications, a batch at a time (event publishing §3).

The built-in rules of `xml_vocabulary.py` run on the rule engine of `formats/xml`. They find
envelopes, rows and columns. This module checks the matches and assembles the records;
`xml_rows.py` reads their images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Octets
from trailgate.errors import DecodeError, TrailgateError, Where, did_you_mean
from trailgate.formats.publications.options import EventPublishingOptions
from trailgate.formats.publications.xml_cell_kernels import booleans
from trailgate.formats.publications.xml_encodings import as_utf8
from trailgate.formats.publications.xml_envelopes import (
    Envelopes,
    RecordValueSpans,
    read_envelopes,
    whole_numbers,
)
from trailgate.formats.publications.xml_large_objects import LargeObjectRows, add_large_objects
from trailgate.formats.publications.xml_rows import (
    RowCells,
    XmlPublicationGroup,
    XmlPublicationRecords,
    read_cells,
)
from trailgate.formats.publications.xml_schemas import ControlMessages
from trailgate.formats.publications.xml_vocabulary import OF_ROWS, OPERATIONS, RULES
from trailgate.formats.xml.faults import XmlLimits
from trailgate.formats.xml.images import SIDES, CellImages
from trailgate.formats.xml.matches import RuleMatches
from trailgate.formats.xml.reader import RuleReader
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.parser import MessageFormat
from trailgate.messages.problems import MessageErrors
from trailgate.messages.property_reader import Lookup
from trailgate.messages.records import BadMessagesError
from trailgate.model.changes import Image
from trailgate.model.tables import Column, Table
from trailgate.model.types import TypeFamily
from trailgate.model.values import Convert, parser_for

# Types whose parsers do not accept surrounding blanks, which XML schemas allow.
_COLLAPSED: Final = (TypeFamily.BYTES, TypeFamily.FLOAT)
_BLANKS: Final = " \t\r\n"


class _Found:
    """Builds the records of XML publications from the matches of the built-in rules."""

    def __init__(
        self,
        messages: MessageBatch,
        matches: RuleMatches,
        envelopes: Envelopes,
        errors: dict[int, TrailgateError],
    ) -> None:
        self.messages, self.matches, self.envelopes = messages, matches, envelopes
        self.errors = errors
        self.numbers, self.letters = self._rows()
        # Elements of other messages are dropped; mostly there are none.
        rows = np.flatnonzero(self.numbers >= 0)
        self.message, self.around = matches.message[rows], matches.around[rows]
        self.start, self.end = matches.start[rows], matches.end[rows]
        whole = len(rows) == len(matches.message)
        self.values = RecordValueSpans(
            matches.operations if whole else matches.operations.take(rows)
        )

    def _rows(self) -> tuple[Longs, Octets]:
        """Find the elements of XML publications that are rows.

        Returns the row number of each matched element, and the operation type of each row. The
        number is -1 for elements in messages of types without rows, and for unknown elements. An
        unknown element in a message with rows is an error.
        """
        matches = self.matches
        of_rows = self.envelopes.mask_types(*OF_ROWS)
        codes, words = RecordValueSpans(matches.operations).words(matches.text, "operation")
        # Unknown row elements get "?", but only count in messages of rows.
        letters = np.array([ord(OPERATIONS.get(word, "?")) for word in words] or [0], np.uint8)
        op_types: Octets = letters[codes]
        rows = of_rows[matches.around] if len(of_rows) else np.zeros(len(op_types), bool)
        unknown = np.flatnonzero(rows & (op_types == ord("?")))
        for at in unknown.tolist():
            word = words[int(codes[at])]
            self._add(
                int(matches.message[at]),
                int(matches.start[at]),
                f"{word} is not a row element",
                did_you_mean(word, OPERATIONS),
            )
        rows = rows & (op_types != ord("?"))
        return np.where(rows, np.cumsum(rows) - 1, -1), op_types[rows]

    def _add(self, message: int, offset: int, problem: str, hint: str = "") -> None:
        if message not in self.errors:
            self.errors[message] = DecodeError(problem, where=Where(offset=offset), hint=hint)

    def records(self, words: Mapping[str, str], notes: frozenset[str]) -> XmlPublicationRecords:
        """Build the records of the XML publications: their rows, with large objects inserted.

        `words` maps the letter of an operation type, such as "I", to its value in the options.
        `notes` are remarks from control messages, which the capture reports.
        """
        self._check_counts()
        for name, written in (("schema", "srcOwner"), ("table", "srcName")):
            for row in np.flatnonzero(self.values[name].lengths < 0).tolist():
                self.refuse(row, f"the row has no attribute {written}")
        text, cells = add_large_objects(
            self.matches.text,
            self.envelopes,
            self._large_rows(),
            self._cells(),
            self.errors,
            self.refuse,
        )
        return XmlPublicationRecords(
            messages=self.messages,
            message=self.message,
            offset=self.start,
            buffer=text,
            envelopes=self.envelopes,
            around=self.around,
            end=self.end,
            letters=self.letters,
            operations=words,
            rows=self.values,
            cells=cells,
            seen=notes,
        )

    def refuse(self, row: int, problem: str, hint: str = "") -> None:
        """Add an error to the XML publication that contains a row."""
        self._add(int(self.message[row]), int(self.start[row]), problem, hint)

    def _check_counts(self) -> None:
        """Add errors to trans and rowOp messages without rows, and rowOp messages with several rows."""
        envelopes = self.envelopes
        # The number of rows in each envelope: `around` is the envelope of each row.
        count = np.bincount(self.around, minlength=len(envelopes.message))
        few = envelopes.mask_types(*OF_ROWS) & (count == 0)
        for message in envelopes.message[few].tolist():
            self._add(message, 0, "the message has no row", "Expected: " + ", ".join(OPERATIONS))
        many = envelopes.mask_types(OF_ROWS[1]) & (count > 1)
        for message in envelopes.message[many].tolist():
            self._add(message, 0, f"a {OF_ROWS[1]} message has more than one row")

    def _cells(self) -> RowCells:
        found, operation = self.matches.columns, self.matches.operation
        if len(self.message) < len(self.numbers):
            # Cells refer to elements: renumber them to rows, and drop those of other elements.
            operation = self.numbers[operation]
            kept = np.flatnonzero(operation >= 0)
            found, operation = found.take(kept), operation[kept]

        def refuse(cells: Longs, problem: Callable[[int], tuple[str, str]]) -> None:
            for cell in cells.tolist():
                self.refuse(int(operation[cell]), *problem(cell))

        return read_cells(self.matches.text, found, operation, self.letters, refuse)

    def _large_rows(self) -> LargeObjectRows:
        text, large = self.matches.text, np.zeros(len(self.message), bool)
        places = self.values["large"]
        starts, lengths = places.starts.copy(), places.lengths.copy()
        while (bad := booleans(text, starts, lengths, large)) >= 0:
            self.refuse(bad, "hasLOBCols is not 0, 1, true or false")
            lengths[bad] = -1
        numbers, which = np.zeros(len(large), np.int64), np.zeros(0, np.int64)
        tables: list[tuple[str, str]] = []
        if large.any():
            numbers = whole_numbers(
                text, self.values["row"], self.message, "rowNum", self.errors, least=1
            )
            tables, which = self._tables()
        removed = self.messages.removed
        return LargeObjectRows(
            message=self.message,
            around=self.around,
            number=numbers,
            table=tables,
            which=which,
            large=large,
            letters=self.letters,
            removed=removed,
        )

    def _tables(self) -> tuple[list[tuple[str, str]], Longs]:
        text = self.matches.text
        (a, owners), (b, names) = (self.values.words(text, n) for n in ("schema", "table"))
        # Every combination of owner and name; the appended "" stands for a missing attribute.
        pairs = [(owner.strip(), name.strip()) for owner in (*owners, "") for name in (*names, "")]
        return pairs, np.where(a < 0, len(owners), a) * (len(names) + 1) + np.where(
            b < 0, len(names), b
        )


class XmlPublications(MessageFormat[XmlPublicationRecords]):
    """Reads XML publications with one set of options.

    Schema messages are compared with the definitions.
    """

    def __init__(self, options: EventPublishingOptions) -> None:
        limits = XmlLimits(settable=False)
        self._page = options.xml_page
        self._words = Lookup(
            tuple((letter, word.decode()) for word, letter in options.optype_values.items())
        )
        self._rules = RuleReader(RULES, limits)
        self._controls = ControlMessages(limits, options.definitions)
        self._images = CellImages(cell_converter)

    def records(self, messages: MessageBatch) -> XmlPublicationRecords:
        """Read the rows of XML publications. Raises BadMessagesError."""
        messages = as_utf8(messages, self._page)
        # Two levels of matches: the element below the root, then its rows and their columns.
        matches, _ = self._rules.matches(messages)
        errors: dict[int, TrailgateError] = {}
        envelopes = read_envelopes(messages, matches, errors)
        notes = self._controls.notes(messages, envelopes, errors)
        publication_records = _Found(messages, matches, envelopes, errors).records(
            self._words, notes
        )
        if errors:
            raise BadMessagesError(errors)
        return publication_records

    def images(
        self,
        records: XmlPublicationRecords,
        table: Table,
        kind: int,
        rows: Longs,
        errors: MessageErrors,
    ) -> tuple[Image, Image]:
        """Read the before and after images of XML publication rows of one table and type.

        Errors are added to `errors`.
        """
        group = XmlPublicationGroup(records, table, rows, errors)
        placed = group.place_values(SIDES.get(kind, (0, 2)))
        return self._images.images(group, placed, records.buffer, kind)

    def warnings(self, notes: frozenset[str]) -> frozenset[str]:
        """Combine the notes of all XML publications into the warnings that a run prints at its end."""
        return self._controls.warnings(notes)


def cell_converter(column: Column) -> Convert:
    """Return the function that converts the strings of an XML publication's column to values.

    Event publishing §3 defines their lexical forms.
    """
    parse = parser_for(column)
    if column.family not in _COLLAPSED:
        return parse

    def collapse(values: pa.Array) -> pa.Array:
        return parse(pc.utf8_trim(values, _BLANKS))

    return collapse
