"""The errors of XML messages: their texts and hints, and the errors of many malformed messages at once.

A compiled loop finds the fault that expat would report (`syntax_errors`). Messages for which the
loop cannot determine it are parsed one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from xml.parsers import expat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets, octets
from trailgate.columnar.gather import gather
from trailgate.columnar.templates import PieceForm, RowPiece, templates_to_strings
from trailgate.errors import DecodeError, Where
from trailgate.formats.xml.encodings import DECLARED, HEAD, is_utf8_declaration
from trailgate.formats.xml.kernels import expat_faults as kernels
from trailgate.messages.encoding_checks import are_utf8
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.message_batch import MessageBatch

_AS_ASCII: Final = frozenset({DECLARED, "utf-8"})
_ATTRIBUTES: Final = 256  # attributes of a tag; in messages with more, expat finds the fault
_PREFIXES: Final = 32  # declared prefixes, as above
_TEXTS: Final[Mapping[int, str]] = {
    code: expat.ErrorString(code) for code in range(1, kernels.BAD_REFERENCE + 1)
}
SHOWN_AROUND: Final = 30  # characters shown on either side of a fault
_CUT_SHORT: Final = "Is the message cut short?"
# What to try about a syntax fault, by expat's name for it.
SYNTAX_HINTS: Final[Mapping[int, str]] = MappingProxyType(
    {
        expat.errors.codes[text]: hint
        for text, hint in (
            (expat.errors.XML_ERROR_NO_ELEMENTS, "Is the message empty or cut short?"),
            (expat.errors.XML_ERROR_UNCLOSED_TOKEN, _CUT_SHORT),
            (expat.errors.XML_ERROR_PARTIAL_CHAR, _CUT_SHORT),
            (
                expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT,
                "A message is one element; is it several messages, one per line (--message-per line)?",
            ),
            (
                expat.errors.XML_ERROR_INVALID_TOKEN,
                "In text & is written &amp; and < is &lt;, values of attributes are quoted, and control characters are not allowed",
            ),
            (
                expat.errors.XML_ERROR_TAG_MISMATCH,
                "The innermost open element has another name than this end tag",
            ),
            (
                expat.errors.XML_ERROR_UNDEFINED_ENTITY,
                "Defined are &lt; &gt; &amp; &quot; &apos; and numbers such as &#233;",
            ),
            (
                expat.errors.XML_ERROR_UNBOUND_PREFIX,
                "The element or one around it has to declare the prefix: xmlns:PREFIX",
            ),
        )
    }
)


@dataclass(frozen=True, slots=True)
class XmlLimits:
    """Limits on XML documents: the depth of elements, and the attributes of one element.

    `settable` is set if properties can change them; errors then name the property.
    """

    depth: int = 256
    attributes: int = 10_000
    settable: bool = True

    def hint(self, name: str) -> str:
        """Return a hint that names the property `xml.*` of a limit, or ""."""
        return f"xml.{name} sets the limit" if self.settable else ""


def depth_problem(limits: XmlLimits) -> tuple[str, str]:
    """Return the problem and hint for XML elements that are nested too deeply."""
    return f"elements are nested deeper than {limits.depth}", limits.hint("maxdepth")


def attributes_problem(limits: XmlLimits) -> tuple[str, str]:
    """Return the problem and hint for an XML element with too many attributes."""
    problem = f"an element has more than {limits.attributes} attributes"
    return problem, limits.hint("maxattributes")


def document_type_problem() -> tuple[str, str]:
    """Return the problem and hint for an XML message with a document type."""
    hint = "Documents with a document type are not read: it can define entities and name files"
    return "the message has a document type (DOCTYPE)", hint


def document_error(
    problem: str,
    data: bytes,
    place: tuple[int, int, int],
    hint: str = "",
    *,
    start: int = 0,
    shift: int = 0,
) -> DecodeError:
    """Create an error of an XML document at `place` (line from 1, column from 0, byte), which shows the surrounding text.

    `data` is the document from the byte `start` on. `shift` is the size of the byte order mark
    before the document.
    """
    line, column, at = place
    at = max(at, 0)  # expat reports -1 in an empty document
    return DecodeError(
        with_surroundings(problem, data, at - start),
        where=Where(line=line, column=column + 1, offset=at + shift),
        hint=hint,
    )


def with_surroundings(problem: str, data: bytes, here: int) -> str:
    """Append the text around the byte `here` of an XML document to a problem: `..., at '<a><b>'`."""
    # The start of the fault's line.
    begin = max(data.rfind(b"\n", 0, here), data.rfind(b"\r", 0, here)) + 1
    before = data[max(begin, here - 4 * SHOWN_AROUND) : here].decode(errors="ignore")
    rest = data[here : here + 4 * SHOWN_AROUND].split(b"\n", 1)[0].decode(errors="ignore")
    around = (before[-SHOWN_AROUND:] + rest[:SHOWN_AROUND]).strip()
    return f"{problem}, at {around!r}" if around else problem


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
