"""Encoded messages of AMQP 1.0: bytes in, the places of their fields, properties and bodies out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets
from trailgate.brokers.amqp.kernels import messages as kernels
from trailgate.brokers.amqp.kernels import values
from trailgate.brokers.amqp.types import KINDS, SECTION_NAMES
from trailgate.columnar.gather import NO_NULLS, column, gather
from trailgate.columnar.rows import byte_view

_NAMES: Final = np.frombuffer("".join(SECTION_NAMES).encode(), np.uint8)
_BOUNDS: Final = np.cumsum([0, *map(len, SECTION_NAMES)]).astype(np.int64)
_CELLS: Final = 24  # of a message; with more, arrays are made larger
_PIECES: Final = 2
MALFORMED: Final = (
    "what the broker sent is not a message as AMQP 1.0 encodes it: {} (byte {} of {})"
)
PROBLEMS: Final = {
    values.CUT: "a value ends after what it is in",
    values.NO_TYPE: "a type that does not exist",
    kernels.NO_SECTION: "a section that does not exist",
    kernels.ORDER: "a section that must not follow the one before it",
    kernels.NOT_LIST: "a section that is not a list",
    kernels.NOT_MAP: "a section that is not a map",
    kernels.COUNT: "the number of values in a list or a map is wrong",
    kernels.NO_NAME: "the name of a property is not a string",
    kernels.NOT_BINARY: "a section of data that is not binary",
}


@dataclass(frozen=True)
class EncodedMessages:
    """Messages: message i is ``data`` from ``places[i]`` to the next. Arrays of kernels/messages.py, a column each in their tables."""

    data: Octets
    places: Longs
    rows: Longs
    pieces: Longs
    cells: Longs

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def kinds(self) -> Longs:
        """Return what each body is, 0 where there is none."""
        return self.rows[:, kernels.BODY]

    @cached_property
    def problems(self) -> dict[int, str]:
        """Return what is wrong with messages that cannot be read."""
        found = np.flatnonzero(self.rows[:, kernels.PROBLEM])
        return {row: self._problem(row) for row in found.tolist()}

    def bodies(self) -> pa.BinaryArray:
        """Return the bodies: text or bytes as they are, other values as they are encoded, of a malformed message all of it."""
        begins, ends = self.pieces[:, kernels.BEGIN], self.pieces[:, kernels.END]
        joined = gather(self.data, begins, ends)
        first = self.rows[:, kernels.FIRST_PIECE]
        bounds, data = byte_view(joined)
        offsets = np.append(bounds[first], bounds[-1]).astype(np.int32)
        return column(offsets, data, NO_NULLS, text=False)

    def _problem(self, row: int) -> str:
        problem, place = self.rows[row, : kernels.BODY].tolist()
        size = int(self.places[row + 1] - self.places[row])
        return MALFORMED.format(PROBLEMS[problem], place, size)


def find_messages(data: Any, places: Longs) -> EncodedMessages:
    """Return what messages have; ``places`` are where each begins in the data, and the end."""
    octets, count = np.frombuffer(data, np.uint8), len(places) - 1
    rows, counts = np.empty(count * kernels.ROW, np.int64), np.zeros(kernels.COUNTS, np.int64)
    room = 1
    while True:
        pieces = np.empty(room * count * _PIECES * kernels.PIECE, np.int64)
        cells = np.empty(room * count * _CELLS * kernels.CELL, np.int64)
        arrays = octets, places, KINDS, _NAMES, _BOUNDS, rows, pieces, cells, counts
        if kernels.find_messages(*arrays) != kernels.FULL:
            break
        room *= 2
    return EncodedMessages(
        octets,
        places,
        rows.reshape(-1, kernels.ROW),
        pieces.reshape(-1, kernels.PIECE)[: counts[kernels.PIECES]],
        cells.reshape(-1, kernels.CELL)[: counts[kernels.CELLS]],
    )
