"""The interface of the codecs of trail values, which decode and encode complete columns.

A codec converts the values of one type between trail bytes and an Arrow array, a complete column at
a time. `TrailCells` is its input for decoding: the offset and length of each value. `RecordValues` and
`CellTarget` are its input for encoding, which returns a `CellWriter`. Every value begins with a
null indicator: 00 00, or FF FF for NULL (trail format §10.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets, octets
from trailgate.errors import DecodeError, EncodeError, Where
from trailgate.model.tables import Column
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.records.framing import TrailBytes

NULL: Final = 0xFFFF
INDICATOR_BYTES: Final = 2
CELL_HEAD: Final = 4  # column index and length, before each value
MAX_CELL: Final = 0xFFFF  # a value's length is u16
VARIABLE_HEAD: Final = 4  # null indicator and u16 length, before a value of varying length


@dataclass(frozen=True, slots=True)
class TrailCells:
    """The encoded values of one column of a trail: the offset of each null indicator, and the length of each value.

    The length includes the null indicator.
    """

    source: TrailBytes
    table: str
    column: Column
    starts: Longs
    lengths: Longs

    def require(self, good: Mask, problem: str) -> None:
        """Raise DecodeError for the first encoded value that is not in the mask ``good``."""
        if not good.all():
            raise self.error(problem, int(np.argmin(good)))

    def error(self, problem: str, row: int) -> DecodeError:
        """Build a DecodeError about one encoded trail value."""
        start = int(self.starts[row])
        span = (start, start + int(self.lengths[row]))
        error = self.source.error(problem, span, table=self.table)
        return error.with_place(field=self.column.name)


@dataclass(frozen=True, slots=True)
class CellTarget:
    """The column that trail cells are written for, its index in the records, and the trail's byte order."""

    table: str
    column: Column
    index: int
    order: ByteOrder = ByteOrder.BIG

    def error(self, problem: str, value: str | bytes = b"") -> EncodeError:
        """Build an EncodeError about one value that a trail cell cannot contain."""
        raw = value.encode() if isinstance(value, str) else value
        where = Where(table=self.table, field=self.column.name, raw=raw or None)
        return EncodeError(problem, where=where)

    def head(self, length: int) -> Octets:
        """Return the head (column index and length) of cells that all have one length.

        Raises EncodeError if it is too long.
        """
        if length > MAX_CELL:
            raise self.error(f"a value of {length} bytes does not fit in a record")
        return octets(self.order.raw(self.index, 2) + self.order.raw(length, 2))


@dataclass(frozen=True, slots=True)
class RecordValues:
    """The values of a column to write: record i has the value ``values[rows[i]]``.

    ``missing`` marks values that were not logged: a record with such a value gets no cell for the
    column.
    """

    values: pa.Array
    rows: Longs  # one per record
    missing: Mask | None = None  # one per value

    def for_records(self) -> RecordValues:
        """Return these values with one value per record, in the order of the records."""
        # Rows ascend and are not repeated, so as many rows as values are all values in order.
        if len(self.rows) == len(self.values):
            return self
        missing = None if self.missing is None else self.missing[self.rows]
        rows = np.arange(len(self.rows))
        return RecordValues(self.values.take(pa.array(self.rows)), rows, missing)

    def first_bad_row(self, bad: Mask) -> int | None:
        """Return the row of the first record whose value is marked in ``bad``, or None."""
        bad_records = bad[self.rows]
        return int(self.rows[int(np.argmax(bad_records))]) if bad_records.any() else None


class CellWriter(Protocol):
    """The interface of cell writers: each writes the cells of one column into many records."""

    least: int
    """The minimum size of a cell, or 0 if some records have none."""

    def measure(self, sizes: Longs) -> None:
        """Add the size of the column's cell in each record to ``sizes``. Raises EncodeError if a value is too long."""

    def write(self, body: Octets, places: Longs, following: int) -> None:
        """Write the cells of the column into the records that are being built in ``body``.

        ``places`` are the offsets of the cells; they are advanced to the ends of the cells.

        At least ``following`` bytes after each cell belong to the same record and are written
        later, so a cell may overwrite them.
        """


class TrailValueCodec(NamedTuple):
    """The decoder and encoder of one type of trail value.

    ``check`` checks only null indicators and lengths, and raises the errors that ``decode`` would
    raise for these. ``width`` returns the number of bytes of a column's values after their null
    indicators, or ``VARYING`` if each value states its own. It is None if only ``check`` can tell
    which lengths are right.
    """

    decode: Callable[[TrailCells], pa.Array]
    encode: Callable[[CellTarget, RecordValues], CellWriter]
    check: Callable[[TrailCells], object]
    width: Callable[[Column], int] | None = None
