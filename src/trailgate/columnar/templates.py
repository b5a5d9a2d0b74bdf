"""Write rows of text from columns: the common writer of JSON, XML and delimited messages.

A row is a sequence of pieces. Each piece has several forms, of which a row uses one: a literal
alone, or a literal, the row's value and another literal. For example a JSON field is the piece
``"A":"`` value ``"`` with the second form ``"A":null``. A format provides its pieces and its
`EscapeTable`, the bytes that it writes differently in values. Rows are measured first, so that the
caller can determine the layout of messages, and are then written at any offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets, octets
from trailgate.columnar import templates_kernels as kernels
from trailgate.columnar.gather_kernels import MAX_INT32
from trailgate.columnar.word_kernels import SPARE
from trailgate.errors import EncodeError, Where

SPECIAL: Final = 5  # special bytes in addition to controls: the kernel compares five at once

# The controls and signs that JSON escapes in two characters; other controls become \u00XX.
_SHORT: Final = {8: b"\\b", 9: b"\\t", 10: b"\\n", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}


class PieceForm(NamedTuple):
    """A form in which a template piece is written: the literals before and after the value.

    If ``after`` is None, only ``before`` is written, without a value.
    """

    before: bytes = b""
    after: bytes | None = None


class RowPiece(NamedTuple):
    """A piece of a row template: one text value per row, and the forms in which it can be written.

    ``states[r]`` is the index in ``forms`` of the form for row r. If ``states`` is None, rows use
    the first form, or the second one if the value is null. With ``plain``, the values contain
    nothing to escape. ``name`` is the column's name for errors.
    """

    values: pa.Array | None
    forms: tuple[PieceForm, ...]
    states: Octets | None = None
    plain: bool = False
    name: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class EscapeTable:
    """The bytes that a written format escapes in values, and the bytes that it cannot contain.

    ``special`` are the bytes to search for, at most five in addition to control characters. The
    replacement of byte b is ``replacements[places[b] : places[b] + grown[b]]``. ``grown[b]`` is 0
    for a byte that is copied unchanged, and ``FORBIDDEN`` for a byte that is an error. It is
    ``PERHAPS`` for the byte 0xEF if it is an error in the characters U+FFFE and U+FFFF only.
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
        """Build an escape table from the replacement of each byte.

        Bytes in ``refused`` raise EncodeError.

        If 0xEF is among them, only the characters U+FFFE and U+FFFF are errors, not other
        characters that begin with this byte.
        """
        # Example: < as "&lt;" and > as "&gt;" are the bytes "&lt;&gt;", with the offsets 0 and 4 and the
        # sizes 4 and 4.
        grown, offsets = np.zeros(256, np.uint8), np.zeros(256, np.int64)
        strings = b""
        for byte, text in replaced.items():
            grown[byte], offsets[byte] = len(text), len(strings)
            strings += text
        for byte in refused:
            grown[byte] = kernels.PERHAPS if byte == 0xEF else kernels.FORBIDDEN
        special = [byte for byte in np.flatnonzero(grown).tolist() if byte >= 32]
        assert len(special) <= SPECIAL, "as many bytes are looked for at once"
        # The kernel compares with exactly five bytes. A byte may be repeated, so the first one fills
        # the rest. Without any, 0 does, which is a control and looked for anyway.
        filled = [*special, *[special[0] if special else 0] * (SPECIAL - len(special))]
        return cls(np.array(filled, np.uint8), grown, octets(strings), offsets, problem, hint)


AS_IT_IS: Final = EscapeTable.of({})
JSON_ESCAPES: Final = EscapeTable.of({**{byte: b"\\u%04x" % byte for byte in range(32)}, **_SHORT})


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredRows:
    """Template rows that are measured but not written yet: the size of each row, and the arrays from which ``write`` writes them."""

    sizes: Longs
    bases: tuple[int, ...]
    _forms: kernels.FormArrays
    _values: kernels.ValueArrays
    _written: kernels.WrittenBytes

    def write(self, to: Longs, out: Octets) -> None:
        """Write each template row at its offset in ``to``."""
        offsets = np.ascontiguousarray(to, np.int64)
        done = kernels.write_rows(
            self._forms, self._values, self._written, self.sizes, offsets, out
        )
        assert done == 0, "the rows have other bytes than were measured"

    def piece_matrix(self, piece: int, width: int) -> Octets:
        """Return the values of a piece as a matrix, whose elements may be modified.

        All values must have ``width`` bytes.
        """
        base = self.bases[piece]
        return self._values.data[base : base + len(self.sizes) * width].reshape(-1, width)


def measure_templates(
    pieces: Sequence[RowPiece], rows: int, escapes: EscapeTable = AS_IT_IS
) -> MeasuredRows:
    """Compute the length of each row of text that consists of these template pieces, before the rows are written.

    Raises EncodeError, with the row in ``where.record`` and the column in ``where.field``, for a
    value that the format cannot contain.
    """
    contents, offsets, states, states_at, escaped, bases = [], [], [], [], [], []
    total = stated = 0
    # Concatenate the bytes of all pieces, and shift the offsets of each by the bytes before it.
    for piece in pieces:
        begins, content = _content(piece.values, rows)
        offsets.append(begins + (total - int(begins[0])))
        bases.append(total)
        total += len(content)
        contents.append(content)
        row_states = _states(piece)
        states_at.append(-1 if row_states is None else stated)
        if row_states is not None:
            states.append(row_states)
            stated += rows
    data = np.concatenate([*contents, np.zeros(SPARE, np.uint8)])
    # A piece is only escaped if any of its bytes needs it, which is rarely the case.
    for piece, base, content in zip(pieces, bases, contents, strict=True):
        ends = data[base : base + len(content) + SPARE]
        escaped.append(
            not piece.plain
            and bool(kernels.has_special(ends, len(content), escapes.special, escapes.grown))
        )
    forms = [form for piece in pieces for form in piece.forms]
    literals = [text for form in forms for text in (form.before, form.after or b"")]
    counts = [len(piece.forms) for piece in pieces]
    form_arrays = kernels.FormArrays(
        literals=np.cumsum([0, *map(len, literals)]),
        has_value=np.array([form.after is not None for form in forms], np.bool_),
        first_form=np.cumsum([0, *counts[:-1]]),
        states=np.concatenate(states) if states else np.zeros(0, np.uint8),
        states_at=np.array(states_at, np.int64),
    )
    values = kernels.ValueArrays(
        data=data,
        offsets=np.concatenate(offsets),
        escaped=np.array(escaped, np.bool_),
        special=escapes.special,
        grown=escapes.grown,
    )
    sizes = np.empty(rows, np.int64)
    done = kernels.measure_rows(form_arrays, values, sizes)
    # The kernel returns REFUSED - (piece * rows + row) for a value that must not be written.
    if done <= kernels.REFUSED:
        number, row = divmod(kernels.REFUSED - done, rows)
        raise _refusal(pieces[number], row, escapes)
    assert done == 0, "values are within their columns"
    written = kernels.WrittenBytes(
        octets(b"".join(literals) + bytes(SPARE)), escapes.replacements, escapes.places
    )
    return MeasuredRows(sizes, tuple(bases), form_arrays, values, written)


def templates_to_strings(pieces: Sequence[RowPiece], rows: int) -> pa.StringArray:
    """Build a string column of the rows that template pieces describe. Nothing is escaped."""
    measured = measure_templates(pieces, rows)
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(measured.sizes, out=offsets[1:])
    size = int(offsets[-1])
    assert size <= MAX_INT32, "the texts have more than 2 GiB"
    out = np.empty(size + SPARE, np.uint8)
    measured.write(offsets[:-1], out)
    buffers = pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(out[:size])
    return pa.StringArray.from_buffers(rows, *buffers)


def _content(values: pa.Array | None, rows: int) -> tuple[Longs, Octets]:
    """Return the offsets of a template piece's values, which start from 0, and their bytes."""
    if values is None or not rows:
        return np.zeros(rows + 1, np.int64), np.zeros(0, np.uint8)
    wide = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    _, bounds, data = values.buffers()
    kind, size = (np.int64, 8) if wide else (np.int32, 4)
    # Offsets are of the complete column's bytes, also in a slice. Template kernels expect them from
    # 0 on.
    begins = np.frombuffer(bounds, kind, rows + 1, size * values.offset).astype(np.int64)
    return begins, octets(data or b"")[begins[0] : begins[-1]]


def _states(piece: RowPiece) -> Octets | None:
    """Return the index of the form of a template piece in each row, or None if all rows use the first one."""
    if piece.states is not None:
        return piece.states
    if piece.values is None or not piece.values.null_count:
        return None
    nulls: Mask = np.asarray(piece.values.is_null())
    return nulls.astype(np.uint8)


def _refusal(piece: RowPiece, row: int, escapes: EscapeTable) -> EncodeError:
    assert piece.values is not None
    raw = piece.values[row].as_buffer().to_pybytes()
    where = Where(record=row, field=piece.name, raw=raw)
    return EncodeError(escapes.problem, where=where, hint=escapes.hint)
