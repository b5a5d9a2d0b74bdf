"""Delimited publications to records and images: the delimited engine, with what differs in a publication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.code_pages.registry import code_page
from trailgate.columnar.code_pages.single_byte import SingleBytePage
from trailgate.columnar.delimited import Fields
from trailgate.columnar.rows import row_error
from trailgate.errors import TrailgateError
from trailgate.messages.delimited.column_pairing import ColumnPairing
from trailgate.messages.delimited.format import DelimitedFormat
from trailgate.messages.delimited.options import DelimitedOptions
from trailgate.messages.delimited.record_images import ImageReader
from trailgate.messages.delimited.records import DelimitedRecords
from trailgate.messages.event_publishing.delimited.engine_options import HEADER, PROGRAM
from trailgate.messages.event_publishing.delimited.page_values import PageValues
from trailgate.messages.event_publishing.options import (
    AUTHORIZATION,
    TRANSACTION,
    EventPublishingOptions,
)
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.parsing.record_groups import MessageErrors
from trailgate.model.changes import ABSENT, INSERT, Image, StateColumn
from trailgate.model.tables import Column, Table
from trailgate.model.types import Family
from trailgate.operations.values import Convert

PLAN_NAME: Final = "plan_name"
IDENTIFIER: Final = "identifier"
_NUMBERS: Final = frozenset({Family.NUMBER_TEXT, Family.INTEGER, Family.UNSIGNED, Family.FLOAT})
_FLAG_HINT: Final = "Classic CDC names the first column whose data are badly formed; event_publishing.takeflagged=true takes such records"


@dataclass(frozen=True, slots=True)
class PublicationRecords(DelimitedRecords):
    """Records of delimited publications."""

    def text(self, name: str) -> pa.Array:
        """Return each record's text of a header field; ``TRANSACTION`` is the commit LSN and the transaction's id."""
        if name == AUTHORIZATION:
            return pa.nulls(len(self.message), pa.string())
        first = self.fields.first
        if name == TRANSACTION:
            places = [HEADER.index("commit_lsn"), HEADER.index("transaction_identifier")]
            parts = self.values.columns(first, places, nullable=False)
            return pc.binary_join_element_wise(*parts, ".")
        if name == PLAN_NAME:
            return self.values.columns(first, [HEADER.index(PLAN_NAME)])[0]
        return DelimitedRecords.text(self, name)


class DelimitedPublications:
    """Reads delimited publications by one set of options."""

    def __init__(self, options: EventPublishingOptions) -> None:
        self.options = options
        self._page = code_page(options.codepage)
        # A page of more than one byte a character: a byte of a delimiter may be part of a character.
        self._converts = self._page.name != "utf-8" and not isinstance(self._page, SingleBytePage)
        images = _PublicationImages(options.delimited, options.decimal_point)
        self._engine = DelimitedFormat(options.delimited, self._values, images)

    def _values(self, data: Octets, fields: Fields, options: DelimitedOptions) -> PageValues:
        page = "utf-8" if self._converts else self.options.codepage
        return PageValues(data, fields, options, page, self.options.undecodable)

    @property
    def has_befores(self) -> bool:
        """Return whether records of updates may have before values."""
        return True

    def records(self, messages: MessageBatch) -> PublicationRecords:
        """Return the records of the messages, each with all header fields; raises BadMessagesError."""
        found = self._engine.records(messages)
        records = PublicationRecords(
            found.messages, found.message, found.offset, found.fields, found.values
        )
        if not self.options.take_flagged:
            _check_flags(records)
        return records

    def layouts(
        self, records: PublicationRecords, tables: Sequence[Table], table_of: Longs
    ) -> Longs:
        """Return how many fields each record has."""
        return self._engine.layouts(records, tables, table_of)

    def images(
        self,
        records: PublicationRecords,
        table: Table,
        kind: int,
        rows: Longs,
        errors: MessageErrors,
    ) -> tuple[Image, Image]:
        """Return before and after of alike records; what is wrong is added to the errors.

        IBM's text: "The before values for LOB columns are always NULL". So such a value is not known: it is missing.
        """
        before, after = self._engine.images(records, table, kind, rows, errors)
        before = _without_lobs(table, before)
        values = records.values
        if isinstance(values, PageValues) and values.undecodable:
            given = int(records.fields.count[rows[0]]) - len(HEADER)
            pairing = ColumnPairing.of(self.options.delimited, given // 2)
            assert pairing.before is not None
            wanted = None if kind == INSERT else pairing.before
            before = tuple(
                column if wanted is None else _unless(column, values.undecodable.get(wanted(i)))
                for i, column in enumerate(before)
            )
            after = tuple(
                _unless(column, values.undecodable.get(pairing.after(i)))
                for i, column in enumerate(after)
            )
        return before, after

    def said(self, notes: frozenset[str]) -> frozenset[str]:
        """Return what a run notes at its end."""
        return self._engine.said(notes)


class _PublicationImages(ImageReader):
    """Reads images whose numbers have another decimal point."""

    def __init__(self, options: DelimitedOptions, point: bytes) -> None:
        super().__init__(options)
        self._point = point

    def converter(self, table: Table, column: Column) -> Convert:
        """Return the function that makes a column's values of their texts."""
        convert, point = super().converter(table, column), self._point.decode()
        if point == "." or column.family not in _NUMBERS:
            return convert

        def pointed(values: pa.Array) -> pa.Array:
            other = pc.match_substring(values, ".")
            if pc.any(other).as_py():
                problem = f"not a number whose decimal point is {point}"
                raise row_error(problem, values, pc.index(other, True).as_py())
            return convert(pc.replace_substring(values, point, "."))

        return pointed


def _check_flags(records: PublicationRecords) -> None:
    """Raise BadMessagesError for the records that are flagged as bad (IBM, format of delimited messages: PUBBDCOMPAT)."""
    codes, found = records.codes(IDENTIFIER)
    flagged = [text.encode() != PROGRAM for text in found]
    if not any(flagged):
        return

    def error(row: int) -> TrailgateError:
        flag = found[int(codes[row])]
        problem = f"the record has the error flag {flag!r} instead of {PROGRAM.decode()}"
        return records.error(row, problem, _FLAG_HINT, field=flag or IDENTIFIER)

    records.refuse(np.flatnonzero(np.array(flagged)[codes]), error)


def _without_lobs(table: Table, before: Image) -> Image:
    if not any(column.lob_type for column in table.columns):
        return before
    return tuple(
        _known(values) if column.lob_type else values
        for column, values in zip(table.columns, before, strict=True)
    )


def _known(column: StateColumn) -> StateColumn:
    """Return a column whose null values are missing."""
    if column.values is None or not column.values.null_count:
        return column
    return _unless(column, column.values.is_null().to_numpy(zero_copy_only=False))


def _unless(column: StateColumn, missing: Mask | None) -> StateColumn:
    """Return a column that is missing in these rows too."""
    if missing is None or column.values is None:
        return column
    missing = missing | column.is_missing(len(missing))
    return ABSENT if missing.all() else replace(column, missing=missing)
