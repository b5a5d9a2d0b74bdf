"""Column values in trail form and back, whole columns at once; one codec row a kind.

Every value begins with a null indicator: 00 00, or FF FF for NULL (trail format §10.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.errors import DecodeError, EncodeError, Where
from trailgate.model.tables import Column
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.trail_bytes import TrailBytes

NULL: Final = 0xFFFF
INDICATOR_BYTES: Final = 2
CELL_HEAD: Final = 4  # column index and length, before each value
MAX_CELL: Final = 0xFFFF  # a value's length is u16


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


class Written(NamedTuple):
    """Values in trail form: the same number of bytes in every row, then some that vary."""

    fixed: Octets  # a matrix, one row a value
    tail: pa.Array | None = None  # binary, without nulls


@dataclass(frozen=True, slots=True)
class Target:
    """The column that is written: for errors, its index in the record, and the trail's byte order."""

    table: str
    column: Column
    index: int
    order: ByteOrder = ByteOrder.BIG

    def error(self, problem: str, value: str | bytes = b"") -> EncodeError:
        """Return an error about one value."""
        raw = value.encode() if isinstance(value, str) else value
        where = Where(table=self.table, field=self.column.name, raw=raw or None)
        return EncodeError(problem, where=where)


class ValueCodec(NamedTuple):
    """Both directions of one kind of value."""

    decode: Callable[[Cells], pa.Array]
    encode: Callable[[Target, pa.Array], Written]


def heads(target: Target, lengths: Longs | int, nulls: Mask | None, count: int) -> Octets:
    """Return column index, value length and null indicator of ``count`` values (6 bytes each)."""
    if isinstance(lengths, int) and lengths > MAX_CELL:
        raise target.error(f"a value of {lengths} bytes does not fit in a record")
    words = np.zeros((count, 3), target.order.value + "u2")
    words[:, 0] = target.index
    words[:, 1] = lengths
    if nulls is not None:
        words[nulls, 2] = NULL
    return words.view(np.uint8)


def null_mask(values: pa.Array) -> Mask | None:
    """Return which values are null; None if none is."""
    if not values.null_count:
        return None
    mask: Mask = values.is_null().to_numpy(zero_copy_only=False)
    return mask
