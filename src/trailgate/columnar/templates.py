"""Rows of text made of columns: the one writer of JSON, XML and delimited messages.

A row is pieces in turn. Each piece has forms, of which a row has one: a literal, or a literal, the row's value and another literal. What a format adds is its pieces and its
``Escapes``, the bytes that it writes otherwise. Rows are measured first, so that a writer can lay out messages, and then written to any places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.kernels import templates as kernels
from trailgate.columnar.kernels.words import SPARE
from trailgate.columnar.rows import octets
from trailgate.errors import EncodeError, Where

SPECIAL: Final = 5  # bytes that can be special, beside controls


class Form(NamedTuple):
    """How a row may have a piece: the literal before its value and the one after it; where ``after`` is None, the first literal alone."""

    before: bytes = b""
    after: bytes | None = None


class Piece(NamedTuple):
    """A part of each row: text values, and the forms that they have.

    ``states`` is the form of each row, by its number; None: the first one, and the second one where the value is null. ``plain`` values have nothing that is escaped. ``name`` is
    that of the column, for errors.
    """

    values: pa.Array | None
    forms: tuple[Form, ...]
    states: Octets | None = None
    plain: bool = False
    name: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Escapes:
    """The bytes that a format writes otherwise in values, and those that it cannot hold.

    ``special`` are at most five of them beside controls, ``grown`` the size of each byte's replacement, which are ``replacements`` from ``places`` on.
    """

    special: Octets
    grown: Octets
    replacements: Octets
    places: Longs
    problem: str = ""
    hint: str = ""

    @classmethod
    def of(
        cls,
        replaced: Mapping[int, bytes],
        refused: Sequence[int] = (),
        *,
        problem: str = "",
        hint: str = "",
    ) -> Self:
        """Return the escapes of bytes; ``refused`` bytes are an EncodeError, of 0xEF only U+FFFE and U+FFFF."""
        grown, places = np.zeros(256, np.uint8), np.zeros(256, np.int64)
        strings = b""
        for byte, text in replaced.items():
            grown[byte], places[byte] = len(text), len(strings)
            strings += text
        for byte in refused:
            grown[byte] = kernels.PERHAPS if byte == 0xEF else kernels.FORBIDDEN
        special = [byte for byte in np.flatnonzero(grown).tolist() if byte >= 32]
        assert len(special) <= SPECIAL, "as many bytes are looked for at once"
        filled = [*special, *[special[0] if special else 0] * (SPECIAL - len(special))]
        return cls(np.array(filled, np.uint8), grown, octets(strings), places, problem, hint)


AS_IT_IS: Final = Escapes.of({})


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredRows:
    """Rows that are measured: how many bytes each has, and all that writes them."""

    sizes: Longs
    bases: tuple[int, ...]
    _measured: tuple[object, ...]
    _rest: tuple[object, ...]
    _data: Octets

    def write(self, to: Longs, out: Octets) -> None:
        """Write each row's bytes from its place in ``to`` on."""
        own = np.ascontiguousarray(to, np.int64)
        done = kernels.write_rows(*self._measured, *self._rest, self.sizes, own, out)
        assert done == 0, "the rows have other bytes than were measured"

    def fixed(self, piece: int, width: int) -> Octets:
        """Return the bytes of a piece whose values all have that many, a row each, to be changed."""
        base = self.bases[piece]
        return self._data[base : base + len(self.sizes) * width].reshape(-1, width)


def measure(pieces: Sequence[Piece], rows: int, escapes: Escapes = AS_IT_IS) -> MeasuredRows:
    """Return rows of these pieces.

    Raises EncodeError, with the row as its record and the column as its field, for a value that the format cannot hold.
    """
    contents, offsets, states, states_at, escaped, bases = [], [], [], [], [], []
    total = stated = 0
    for piece in pieces:
        begins, content = _content(piece.values, rows)
        offsets.append(begins + (total - int(begins[0])))
        bases.append(total)
        total += len(content)
        contents.append(content)
        own = _states(piece)
        states_at.append(-1 if own is None else stated)
        if own is not None:
            states.append(own)
            stated += rows
    data = np.concatenate([*contents, np.zeros(SPARE, np.uint8)])
    for piece, base, content in zip(pieces, bases, contents, strict=True):
        ends = data[base : base + len(content) + SPARE]
        escaped.append(
            not piece.plain
            and bool(kernels.has_special(ends, len(content), escapes.special, escapes.grown))
        )
    forms = [form for piece in pieces for form in piece.forms]
    literals = [text for form in forms for text in (form.before, form.after or b"")]
    counts = [len(piece.forms) for piece in pieces]
    measured = (
        np.cumsum([0, *map(len, literals)]),
        np.array([form.after is not None for form in forms], np.bool_),
        np.cumsum([0, *counts[:-1]]),
        np.concatenate(states) if states else np.zeros(0, np.uint8),
        np.array(states_at, np.int64),
        data,
        np.concatenate(offsets),
        np.array(escaped, np.bool_),
        escapes.special,
        escapes.grown,
    )
    sizes = np.empty(rows, np.int64)
    done = kernels.measure_rows(*measured, sizes)
    if done <= kernels.REFUSED:
        number, row = divmod(kernels.REFUSED - done, rows)
        raise _refusal(pieces[number], row, escapes)
    assert done == 0, "values are within their columns"
    rest = (octets(b"".join(literals) + bytes(SPARE)), escapes.replacements, escapes.places)
    return MeasuredRows(sizes, tuple(bases), measured, rest, data)


def _content(values: pa.Array | None, rows: int) -> tuple[Longs, Octets]:
    """Return where the values of a text column begin, with the end, and their bytes."""
    if values is None or not rows:
        return np.zeros(rows + 1, np.int64), np.zeros(0, np.uint8)
    wide = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    _, bounds, data = values.buffers()
    kind, size = (np.int64, 8) if wide else (np.int32, 4)
    own = np.frombuffer(bounds, kind, rows + 1, size * values.offset).astype(np.int64)
    return own, octets(data or b"")[own[0] : own[-1]]


def _states(piece: Piece) -> Octets | None:
    """Return the number of each row's form, None where all have the first one."""
    if piece.states is not None:
        return piece.states
    if piece.values is None or not piece.values.null_count:
        return None
    nulls: Mask = np.asarray(piece.values.is_null())
    return nulls.astype(np.uint8)


def _refusal(piece: Piece, row: int, escapes: Escapes) -> EncodeError:
    assert piece.values is not None
    raw = piece.values[row].as_buffer().to_pybytes()
    where = Where(record=row, field=piece.name, raw=raw)
    return EncodeError(escapes.problem, where=where, hint=escapes.hint)
