"""Rows of XML made of columns: each piece of a row is a value with what is around it, a word for NULL, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets
from trailgate.columnar.kernels.words import SPARE
from trailgate.columnar.rows import octets
from trailgate.errors import EncodeError, Where
from trailgate.formats.publications import xml_kernels as kernels

NOTHING, NULL, VALUE, OTHER = kernels.NOTHING, kernels.NULL_ELEMENT, kernels.VALUE, kernels.OTHER


class ElementPiece(NamedTuple):
    """One piece of rows: text values, the state of each row, and the literals of the states.

    ``literals`` are those before a value, after it, instead of NULL, and of the state ``OTHER``. Without ``states`` nulls are
    ``NULL`` and others values. ``name`` is the column's, for errors.
    """

    values: pa.Array | None
    literals: tuple[bytes, bytes, bytes, bytes]
    states: Octets | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredElements:
    """Rows that are measured: how many bytes each has, and all that writes them."""

    sizes: Longs
    _parts: tuple[Longs, Longs, Octets, Octets, Longs, Octets]

    def write(self, to: Longs, out: Octets) -> None:
        """Write each row's bytes from its place in ``to`` on."""
        done = kernels.write_elements(
            *self._parts, self.sizes, np.ascontiguousarray(to, np.int64), out
        )
        assert done == 0, "the rows have other bytes than were measured"


def measure(pieces: Sequence[ElementPiece], last: bytes, rows: int) -> MeasuredElements:
    """Return rows of these pieces and a last literal.

    Raises EncodeError, with the row as its record and the column as its field, for a value with characters that XML does not have.
    """
    contents, offsets, states, kinds = [], [], [], []
    total = 0
    for piece in pieces:
        begins, content = _content(piece.values, rows)
        offsets.append(begins + (total - int(begins[0])))
        total += len(content)
        contents.append(content)
        kinds.append(int(kernels.has_marks(content, 0, len(content))))
        states.append(piece.states if piece.states is not None else _states(piece.values, rows))
    literals = [*(literal for piece in pieces for literal in piece.literals), last]
    strings, bounds = octets(b"".join(literals)), np.cumsum([0, *map(len, literals)])
    data = np.concatenate([*contents, np.zeros(SPARE, np.uint8)])
    values = data, np.concatenate(offsets), np.concatenate(states)
    sizes = np.empty(rows, np.int64)
    own = np.array(kinds, np.int64)
    done = kernels.measure_elements(own, bounds, *values, sizes)
    if done <= kernels.FORBIDDEN:
        piece, row = divmod(kernels.FORBIDDEN - done, rows)
        raise _forbidden(pieces[piece], row)
    assert done == 0, "values are within their columns"
    return MeasuredElements(sizes, (own, bounds, strings, *values))


def escape(text: str) -> bytes:
    """Return a text as it is in an attribute."""
    references = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
    return "".join(
        references.get(each, each) if each >= " " else f"&#{ord(each)};" for each in text
    ).encode()


def _content(values: pa.Array | None, rows: int) -> tuple[Longs, Octets]:
    """Return where the values of a text column begin, with the end, and their bytes."""
    if values is None or not rows:
        return np.zeros(rows + 1, np.int64), np.zeros(0, np.uint8)
    wide = pa.types.is_large_string(values.type)
    _, bounds, data = values.buffers()
    kind, size = (np.int64, 8) if wide else (np.int32, 4)
    own = np.frombuffer(bounds, kind, rows + 1, size * values.offset).astype(np.int64)
    return own, octets(data or b"")[own[0] : own[-1]]


def _states(values: pa.Array | None, rows: int) -> Octets:
    if values is None:
        return np.full(rows, NOTHING, np.uint8)
    if not values.null_count:
        return np.full(rows, VALUE, np.uint8)
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return np.where(valid, VALUE, NULL).astype(np.uint8)


def _forbidden(piece: ElementPiece, row: int) -> EncodeError:
    assert piece.values is not None
    value = piece.values[row].as_py()
    where = Where(record=row, field=piece.name, raw=value.encode())
    problem = "the value has a control character, which XML cannot hold"
    return EncodeError(problem, where=where, hint="Publish in another format, as json")
