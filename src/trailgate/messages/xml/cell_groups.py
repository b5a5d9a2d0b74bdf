"""The cells of operations put into columns: where each value is, and what the columns are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.gather import unfit
from trailgate.columnar.kernels.words import SPARE
from trailgate.errors import DecodeError, TrailgateError
from trailgate.messages.parsing.bad_messages import errors_by_row
from trailgate.messages.parsing.record_groups import RecordGroup
from trailgate.messages.parsing.records import Records
from trailgate.messages.xml.kernels import cells as kernels
from trailgate.model.changes import ABSENT, Image, StateColumn
from trailgate.operations.values import Convert

R = TypeVar("R", bound=Records)


class Placed(NamedTuple):
    """Where the value of each image, column and row is; a length may be NULL or MISSING."""

    starts: Offsets
    lengths: Offsets


class CellConverter(NamedTuple):
    """A column's number, what makes its values of text, and how many bytes text may have that is a value as it is (-1: all text is converted)."""

    column: int
    convert: Convert
    taken: int = -1


class CellGroup(RecordGroup[R]):
    """Operations of one table and type, whose images are made of cells."""

    def check_keys(self, placed: Placed, side: int) -> None:
        """Add an error for each operation without the value of a key in an image."""
        rows, width = len(self.rows), len(self.table.columns)
        for i, column in enumerate(self.table.columns):
            if column.key:
                begin = (side * width + i) * rows
                missing = placed.lengths[begin : begin + rows] == kernels.MISSING
                if missing.any():
                    self.refuse_rows(
                        np.flatnonzero(missing), f"key column {column.name} is missing", column.name
                    )

    def columns(self, placed: Placed, text: Octets, converters: Sequence[CellConverter]) -> Image:
        """Return the columns of images in three states, one image after the other: all are gathered together from one text."""
        rows, count = len(self.rows), len(converters)
        bits = (rows + 7) // 8
        offsets, valid = np.empty(count * (rows + 1), np.int32), np.empty(count * bits, np.uint8)
        missing, totals = np.empty(count * rows, bool), np.empty(count * kernels.TOTALS, np.int64)
        size = kernels.measure_cells(
            len(text), rows, SPARE, *placed, offsets, valid, missing, totals
        )
        if size < 0:
            raise unfit(size, len(text))
        out = np.empty(size, np.uint8)
        kernels.copy_cells(text, rows, *placed, offsets, totals, out)
        buffers = pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(out)
        found = []
        for i, own in enumerate(totals.reshape(count, -1).tolist()):
            length, nulls, gone, begin, longest = own
            if gone == rows:
                found.append(ABSENT)
                continue
            parts = [
                buffers[0].slice(i * bits, bits) if nulls else None,
                buffers[1].slice(4 * i * (rows + 1), 4 * (rows + 1)),
                buffers[2].slice(begin, length),
            ]
            values = pa.Array.from_buffers(pa.string(), rows, parts, nulls)
            mask = missing[i * rows : (i + 1) * rows] if gone else None
            if longest <= converters[i].taken:
                found.append(StateColumn(values, mask))
            else:
                found.append(self._column(values, mask, converters[i]))
        return tuple(found)

    def _column(
        self, text: pa.Array, missing: Mask | None, converter: CellConverter
    ) -> StateColumn:
        try:
            return StateColumn(converter.convert(text), missing)
        except DecodeError as error:
            errors = errors_by_row(converter.convert, text, error)
        for at, found in errors.items():
            self._add(at, found, self.table.columns[converter.column].name)
        return ABSENT

    def _add(self, at: int, error: DecodeError, name: str) -> None:
        row = int(self.rows[at])

        def placed(row: int) -> TrailgateError:
            found = self.records.error(row, error.problem, error.hint)
            found.where = replace(found.where, raw=error.where.raw)
            return found.located(table=self.table.name, field=name)

        self.add(np.array([row]), placed)

    def refuse_rows(self, rows: Longs, problem: str, name: str | None, hint: str = "") -> None:
        """Add errors for rows, by number among those of the group; ``name`` is the column's."""

        def error(row: int) -> TrailgateError:
            return self.records.error(row, problem, hint, table=self.table.name, field=name)

        self.add(self.rows[rows], error)
