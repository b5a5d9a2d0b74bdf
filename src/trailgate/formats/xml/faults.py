"""Find the errors of many malformed XML messages at once.

A compiled loop finds the fault that expat would report. Messages for which the loop cannot
determine it are parsed one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from xml.parsers import expat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets, octets
from trailgate.columnar.gather import gather
from trailgate.columnar.templates import PieceForm, RowPiece, templates_to_strings
from trailgate.formats.xml.documents import (
    SHOWN_AROUND,
    SYNTAX_HINTS,
    XmlLimits,
    with_surroundings,
)
from trailgate.formats.xml.encodings import DECLARED, HEAD, is_utf8_declaration
from trailgate.formats.xml.kernels import expat_faults as kernels
from trailgate.messages.encoding_checks import are_utf8
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.messages import MessageBatch

_AS_ASCII: Final = frozenset({DECLARED, "utf-8"})
_ATTRIBUTES: Final = 256  # attributes of a tag; in messages with more, expat finds the fault
_PREFIXES: Final = 32  # declared prefixes, as above
_TEXTS: Final[Mapping[int, str]] = {
    code: expat.ErrorString(code) for code in range(1, kernels.BAD_REFERENCE + 1)
}


def syntax_errors(
    messages: MessageBatch, numbers: Longs, limits: XmlLimits, encoding: str = DECLARED
) -> tuple[Longs, ErrorColumns]:
    """Return the numbers of XML messages that are not well-formed, and their errors.

    These are the errors that `parse_document` raises for them. Only the messages in `numbers` are
    checked. Some of the bad ones may be missing from the result.
    """
    if encoding not in _AS_ASCII or not len(numbers):
        return numbers[:0], ErrorColumns.of_errors(())
    text = octets(messages.data)
    starts, ends = messages.starts[numbers], messages.ends[numbers]
    longest = int((ends - starts).max())
    faults = np.empty(len(numbers) * kernels.FAULT, np.int64)
    kernels.find_faults(
        text,
        starts,
        ends,
        octets(_known_declaration(text, starts, ends)),
        kernels.FaultLimits(limits.depth, limits.attributes, SHOWN_AROUND),
        kernels.FaultRoom(
            np.empty(2 * min(limits.depth, longest // 3 + 1), np.int64),
            np.empty(_ATTRIBUTES * kernels.ATTRIBUTE, np.int64),
            np.empty(_PREFIXES * kernels.PREFIX, np.int64),
        ),
        faults,
    )
    rows = faults.reshape(-1, kernels.FAULT)
    known = rows[:, 0] > kernels.FINE
    if known.any() and not are_utf8(messages):
        known &= _are_ascii(text, starts, ends)
    found = np.flatnonzero(known)
    return numbers[found], _errors(text, starts[found], ends[found], rows[found])


def _known_declaration(text: Octets, starts: Longs, ends: Longs) -> bytes:
    """Return the XML declaration of the first message that has one, if it declares UTF-8; otherwise b""."""
    if not len(text):  # all messages are empty
        return b""
    first = np.flatnonzero(
        (text[np.minimum(starts + 1, len(text) - 1)] == ord("?")) & (ends > starts + 1)
    )
    if not len(first):
        return b""
    begin = int(starts[first[0]])
    head = text[begin : min(int(ends[first[0]]), begin + HEAD)].tobytes()
    declaration = head[: head.find(b"?>") + 2]
    return declaration if is_utf8_declaration(declaration) else b""


def _are_ascii(text: Octets, starts: Longs, ends: Longs) -> Mask:
    # `before[i]` counts the bytes before offset i that are not ASCII.
    before = np.append(0, np.cumsum(text >= kernels.HIGH))
    ascii_only: Mask = before[ends] == before[starts]
    return ascii_only


def _errors(text: Octets, starts: Longs, ends: Longs, rows: Longs) -> ErrorColumns:
    codes, which = np.unique(rows[:, 0], return_inverse=True)
    problem, hint = (
        pa.array([texts.get(code, "") for code in codes.tolist()], pa.string()).take(
            pa.array(which)
        )
        for texts in (_TEXTS, SYNTAX_HINTS)
    )
    low, high = rows[:, kernels.SHOWN_START], rows[:, kernels.SHOWN_END]
    shown = gather(text, low, high)
    forms = (PieceForm(b", at '", b"'"), PieceForm())
    # State 1 is the form without "at", for faults around which there is nothing to show.
    states = (low == high).astype(np.uint8)
    pieces = [
        RowPiece(problem, (PieceForm(b"", b""),), plain=True),
        RowPiece(shown, forms, states, plain=True),
    ]
    texts = templates_to_strings(pieces, len(rows))
    # The text above is right for printable ASCII only. For other surroundings, which must be
    # decoded and escaped, each row's text is made separately.
    odd = rows[:, kernels.PRINTABLE] == 0
    if odd.any():
        own = [
            with_surroundings(
                problem[row].as_py(),
                text[starts[row] : ends[row]].tobytes(),
                int(rows[row, kernels.OFFSET]),
            )
            for row in np.flatnonzero(odd).tolist()
        ]
        texts = pc.replace_with_mask(texts, pa.array(odd), pa.array(own, pa.string()))
    return ErrorColumns.of(
        len(rows),
        texts,
        hint,
        line=rows[:, kernels.FAULT_LINE],
        column=rows[:, kernels.FAULT_COLUMN],
        offset=rows[:, kernels.OFFSET],
    )
