"""Column values in trail form and back, whole columns at once; one codec row a kind.

Every value begins with a null indicator: 00 00, or FF FF for NULL (trail format §10.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.views import octets
from trailgate.errors import DecodeError, EncodeError, Where
from trailgate.model.tables import Column
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.records.trail_bytes import TrailBytes

NULL: Final = 0xFFFF
INDICATOR_BYTES: Final = 2
CELL_HEAD: Final = 4  # column index and length, before each value
MAX_CELL: Final = 0xFFFF  # a value's length is u16
VARIABLE_HEAD: Final = 4  # null indicator and u16 length, before a value of varying length


@dataclass(frozen=True, slots=True)
class Cells:
    """Where the values of one column lie: the offset of each null indicator, and its length."""

    source: TrailBytes
    table: str
    column: Column
    starts: Longs
    lengths: Longs

    def require(self, good: Mask, problem: str) -> None:
        """Raise DecodeError about the first value that is not good."""
        if not good.all():
            raise self.error(problem, int(np.argmin(good)))

    def error(self, problem: str, row: int) -> DecodeError:
        """Return an error about one value."""
        start = int(self.starts[row])
        span = (start, start + int(self.lengths[row]))
        error = self.source.error(problem, span, table=self.table)
        return error.located(field=self.column.name)


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """The column that cells are written for: its index in the records, and the trail's byte order."""

    table: str
    column: Column
    index: int
    order: ByteOrder = ByteOrder.BIG

    def error(self, problem: str, value: str | bytes = b"") -> EncodeError:
        """Return an error about one value."""
        raw = value.encode() if isinstance(value, str) else value
        where = Where(table=self.table, field=self.column.name, raw=raw or None)
        return EncodeError(problem, where=where)

    def head(self, length: int) -> Octets:
        """Return column index and length of cells that are all as long; raises EncodeError."""
        if length > MAX_CELL:
            raise self.error(f"a value of {length} bytes does not fit in a record")
        return octets(self.order.raw(self.index, 2) + self.order.raw(length, 2))


@dataclass(frozen=True, slots=True)
class RecordValues:
    """The values of a column, and which of them each record holds.

    ``missing`` marks values that no record holds: such a record has no cell of the column.
    """

    values: pa.Array
    rows: Longs  # of the values, one a record
    missing: Mask | None = None  # one item a value

    def held(self) -> RecordValues:
        """Return the values that records hold alone, in the order of the records."""
        if len(self.rows) == len(self.values):
            return self
        missing = None if self.missing is None else self.missing[self.rows]
        rows = np.arange(len(self.rows))
        return RecordValues(self.values.take(pa.array(self.rows)), rows, missing)

    def first(self, bad: Mask) -> int | None:
        """Return the row of the first record whose value is marked; None where there is none."""
        found = bad[self.rows]
        return int(self.rows[int(np.argmax(found))]) if found.any() else None


class CellWriter(Protocol):
    """Writes the cells of one column: into many records, each at its place."""

    least: int
    """How many bytes of each record are its cell at least."""

    def measure(self, sizes: Longs) -> None:
        """Add the bytes of each record's cell; raises EncodeError for a value that is too long."""

    def write(self, body: Octets, places: Longs, following: int) -> None:
        """Write the cells; each place becomes the end of its cell.

        At least the ``following`` bytes after each cell are its record's, and are written later.
        """


class ValueCodec(NamedTuple):
    """Both directions of one kind of value, and a check of indicators and lengths alone, which raises what ``decode`` would."""

    decode: Callable[[Cells], pa.Array]
    encode: Callable[[TargetColumn, RecordValues], CellWriter]
    check: Callable[[Cells], object]
