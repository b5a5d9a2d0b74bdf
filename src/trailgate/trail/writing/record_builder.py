"""Lay records out from pieces: fixed bytes as matrices, values that vary as binary columns.

``Pieces`` collects them from left to right and joins them row by row in one call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.gather import fixed_rows
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.tokens import FRAME, NORMAL


def frames(
    order: ByteOrder, code: int, lengths: npt.NDArray[np.integer[Any]], info: int = NORMAL
) -> Octets:
    """Return token frames, one a row."""
    words = order.frame(code, info, lengths).astype(order.value + "u4", copy=False)
    return words.view(np.uint8).reshape(-1, FRAME)


class Pieces:
    """The pieces of ``count`` records, and how many bytes each record has so far."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.fixed_size = 0  # bytes that every record has
        self.sizes: Longs | None = None  # bytes beside those, by record
        self._open: list[Octets] = []
        self._closed: list[pa.Array] = []

    def fixed(self, matrix: Octets) -> None:
        """Add the same number of bytes to every record."""
        self._open.append(matrix)
        self.fixed_size += matrix.shape[1]

    def variable(self, values: pa.Array) -> None:
        """Add a binary column without nulls."""
        self._close()
        self._closed.append(values)
        sizes = pc.binary_length(values).to_numpy()
        if self.sizes is None:
            self.sizes = sizes.astype(np.int64)
        else:
            self.sizes += sizes

    def where(self, present: Mask, matrix: Octets) -> None:
        """Add fixed bytes to the records that are ``present``, nothing to the others."""
        width = matrix.shape[1]
        offsets = np.zeros(self.count + 1, np.int32)
        np.cumsum(present * width, out=offsets[1:])
        data = np.ascontiguousarray(matrix[present]).reshape(-1)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        self.variable(pa.Array.from_buffers(pa.binary(), self.count, buffers, 0))

    def total(self) -> Longs:
        """Return the bytes of every record so far."""
        base = np.full(self.count, self.fixed_size, np.int64)
        return base if self.sizes is None else base + self.sizes

    def joined(self) -> pa.Array:
        """Return the records as one binary column."""
        self._close()
        if not self._closed:
            return pa.array([b""] * self.count, pa.binary())
        if len(self._closed) == 1:
            return self._closed[0]
        separator: Any = pa.scalar(b"", pa.binary())
        return pc.binary_join_element_wise(*self._closed, separator)

    def extend(self, other: Pieces) -> None:
        """Add another row of pieces of the same records behind these."""
        other._close()
        self._close()
        self._closed += other._closed
        self.fixed_size += other.fixed_size
        if other.sizes is not None:
            self.sizes = other.sizes if self.sizes is None else self.sizes + other.sizes

    def _close(self) -> None:
        if not self._open:
            return
        matrix = self._open[0] if len(self._open) == 1 else np.concatenate(self._open, axis=1)
        self._closed.append(fixed_rows(matrix))
        self._open = []
