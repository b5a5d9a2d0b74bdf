"""Values of fields and properties as JMS has them as strings, whole columns of a kind at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.brokers.amqp.encoded import EncodedMessages
from trailgate.brokers.amqp.kernels import messages as kernels
from trailgate.brokers.amqp.kernels import values
from trailgate.brokers.header_texts import header_texts
from trailgate.columnar.gather import gather
from trailgate.columnar.hexadecimal import LOWER, to_hex

_UUID: Final = r"\1-\2-\3-\4-\5"
_UUID_PARTS: Final = "^(.{8})(.{4})(.{4})(.{4})(.{12})$"
_LAST_CHARACTER: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


class Cells:
    """Values of the fields and properties of messages; a row is one value."""

    def __init__(self, found: EncodedMessages) -> None:
        self.data = found.data
        columns = np.ascontiguousarray(found.cells.T)
        self.message, self.field, self.kind = columns[: kernels.NAME]
        self.number = columns[kernels.NUMBER]
        self._names, self._name_ends, self._starts, self._ends = columns[
            kernels.NAME : kernels.NUMBER
        ]

    def of(self, field: int) -> Longs:
        """Return the rows of a field."""
        return np.flatnonzero(self.field == field)

    def names(self, rows: Longs) -> tuple[pa.Array, Mask]:
        """Return names of properties, and which of them are not UTF-8."""
        return header_texts(self.data, self._names[rows], self._name_ends[rows])

    def contents(self, rows: Longs) -> pa.BinaryArray:
        """Return the bytes of values."""
        return gather(self.data, self._starts[rows], self._ends[rows])

    def texts(self, rows: Longs) -> tuple[pa.Array, Mask]:
        """Return values as texts, and which of them cannot be read."""
        kinds = self.kind[rows]
        distinct = np.flatnonzero(np.bincount(kinds)).tolist() if len(rows) else [values.STRING]
        if len(distinct) == 1:
            return _TEXTS.get(distinct[0], _unreadable)(self, rows)
        parts = [np.flatnonzero(kinds == kind) for kind in distinct]
        found = [
            _TEXTS.get(kind, _unreadable)(self, rows[part])
            for kind, part in zip(distinct, parts, strict=True)
        ]
        order = np.argsort(np.concatenate(parts))
        texts = pa.concat_arrays([text for text, _ in found]).take(pa.array(order))
        return texts, np.concatenate([wrong for _, wrong in found])[order]


def _strings(cells: Cells, rows: Longs) -> tuple[pa.Array, Mask]:
    return header_texts(cells.data, cells._starts[rows], cells._ends[rows])  # noqa: SLF001  its own


def _sure(
    convert: Callable[[Cells, Longs], pa.Array],
) -> Callable[[Cells, Longs], tuple[pa.Array, Mask]]:
    """Return a conversion that never fails as one that reports which values it fails for."""
    return lambda cells, rows: (convert(cells, rows), np.zeros(len(rows), bool))


def _booleans(cells: Cells, rows: Longs) -> pa.Array:
    return pa.array(cells.number[rows] != 0).cast(pa.string())


def _signed(cells: Cells, rows: Longs) -> pa.Array:
    return pa.array(cells.number[rows]).cast(pa.string())


def _unsigned(cells: Cells, rows: Longs) -> pa.Array:
    return pa.array(cells.number[rows].view(np.uint64)).cast(pa.string())


def _floats(cells: Cells, rows: Longs) -> pa.Array:
    bits = cells.number[rows].astype(np.uint32)
    return pa.array(bits.view(np.float32).astype(str), pa.string())


def _doubles(cells: Cells, rows: Longs) -> pa.Array:
    return pa.array(cells.number[rows].view(np.float64).astype(str), pa.string())


def _uuids(cells: Cells, rows: Longs) -> pa.Array:
    digits = to_hex(cells.contents(rows), LOWER)
    return pc.replace_substring_regex(digits, _UUID_PARTS, _UUID)


def _binaries(cells: Cells, rows: Longs) -> pa.Array:
    return to_hex(cells.contents(rows))


def _characters(cells: Cells, rows: Longs) -> tuple[pa.Array, Mask]:
    points = cells.number[rows]
    half = (points >= _SURROGATES.start) & (points < _SURROGATES.stop)
    wrong = (points > _LAST_CHARACTER) | half
    texts = [chr(point) for point in np.where(wrong, ord("?"), points).tolist()]
    return pa.array(texts, pa.string()), wrong


def _unreadable(_: Cells, rows: Longs) -> tuple[pa.Array, Mask]:
    """Return empty texts: decimals, lists, maps and arrays are none, and JMS does not have them as properties."""
    return pa.repeat("", len(rows)), np.ones(len(rows), bool)


_TEXTS: Final[Mapping[int, Callable[[Cells, Longs], tuple[pa.Array, Mask]]]] = MappingProxyType(
    {
        values.BOOLEAN: _sure(_booleans),
        values.UNSIGNED: _sure(_unsigned),
        values.SIGNED: _sure(_signed),
        values.TIMESTAMP: _sure(_signed),
        values.FLOAT: _sure(_floats),
        values.DOUBLE: _sure(_doubles),
        values.CHAR: _characters,
        values.UUID: _sure(_uuids),
        values.BINARY: _sure(_binaries),
        values.STRING: _strings,
        values.SYMBOL: _strings,
    }
)
