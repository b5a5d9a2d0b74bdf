"""XML documents as trees of elements, with the place of each; what is not well-formed or not safe is refused.

Nothing outside a document is ever read, and no entity is expanded but the five of XML: a document type
(DOCTYPE) is refused before anything in it has an effect.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NoReturn
from xml.parsers import expat

from trailgate.errors import DecodeError, Where
from trailgate.messages.xml.tree.document_encodings import DECLARED, decoded

BETWEEN: Final = " "  # what expat puts between namespace, name and prefix; it is in none of them
_TAG: Final = re.compile(rb"(?:[^>\"']|\"[^\"]*\"|'[^']*')*>")
_SHOWN: Final = 30  # characters of a line on either side of a fault
BLANKS: Final = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a part of a document may be; ``depth`` in elements, ``attributes`` of one element.

    ``settable`` states that properties set them, which errors name then.
    """

    depth: int = 256
    attributes: int = 10_000
    settable: bool = True

    def hint(self, name: str) -> str:
        """Return which property sets a limit, empty where none does."""
        return f"xml.{name} sets the limit" if self.settable else ""


@dataclass(slots=True, eq=False)
class Attribute:
    """An attribute; ``name`` is without prefix."""

    name: str
    namespace: str
    prefix: str
    value: str


@dataclass(slots=True, eq=False)
class Element:
    """An element; ``start`` and ``end`` are its bytes in the document as UTF-8.

    ``position`` counts the elements of its parent from 1. ``pieces`` are its own texts, with whether each
    is of a CDATA section. The document itself is an element without a name.
    """

    name: str
    namespace: str = ""
    parent: Element | None = None
    position: int = 0
    start: int = 0
    inner: int = 0
    end: int = 0
    attributes: list[Attribute] = field(default_factory=list)
    children: list[Element] = field(default_factory=list)
    pieces: list[tuple[str, bool]] = field(default_factory=list)

    def below(self) -> Iterator[Element]:
        """Yield all elements below this one, in the document's order."""
        left = self.children[::-1]  # of any depth: xml.maxdepth may be high
        while left:
            element = left.pop()
            yield element
            left += element.children[::-1]

    def exact_text(self) -> str:
        """Return the element's own text as it is."""
        return "".join(text for text, _ in self.pieces)

    def text(self) -> str | None:
        """Return the element's own text without blanks around it, or None where it has none.

        Blanks of a CDATA section are part of the text.
        """
        if not self.pieces:
            return None
        first, last = 0, len(self.pieces) - 1
        texts = [text for text, _ in self.pieces]
        while first <= last and not self.pieces[first][1]:
            texts[first] = texts[first].lstrip(BLANKS)
            if texts[first]:
                break
            first += 1
        while last >= first and not self.pieces[last][1]:
            texts[last] = texts[last].rstrip(BLANKS)
            if texts[last]:
                break
            last -= 1
        return "".join(texts)


@dataclass(frozen=True, slots=True)
class Document:
    """A document: its bytes as UTF-8, its tree, and how many bytes of a mark were before it."""

    data: bytes
    top: Element
    shift: int = 0

    def content(self, element: Element) -> str | None:
        """Return what is between an element's tags, as it is written; None in an empty element."""
        end = self.data.rfind(b"</", element.inner, element.end)
        return self.data[element.inner : end].decode() if element.inner < end else None


def names_in(top: Element) -> set[str]:
    """Return the names of all elements and attributes below an element."""
    names = set()
    for element in top.below():
        names.add(element.name)
        names.update(attribute.name for attribute in element.attributes)
    return names


def parse_document(body: bytes, limits: Limits | None = None, encoding: str = DECLARED) -> Document:
    """Return a message's document; ``encoding`` is the one of all that have no mark.

    Raises DecodeError, with line, column and the text around, for one that is not well-formed, has a document
    type, or is beyond the limits.
    """
    data = _as_utf8(body, encoding)
    shift = len(codecs.BOM_UTF8) if body.startswith(codecs.BOM_UTF8) else 0
    return Document(data, _Builder(data, limits or Limits(), shift).build(), shift)


def _as_utf8(body: bytes, encoding: str) -> bytes:
    """Return a document as UTF-8, from the encoding of its mark, the one that is given, or that of its declaration."""
    found, text = decoded(body, encoding)
    return body if found == "utf-8" else text.encode()


def too_deep(limits: Limits) -> tuple[str, str]:
    """Return the problem of elements that are nested too deep, and a hint."""
    return f"elements are nested deeper than {limits.depth}", limits.hint("maxdepth")


def too_many_attributes(limits: Limits) -> tuple[str, str]:
    """Return the problem of an element with too many attributes, and a hint."""
    problem = f"an element has more than {limits.attributes} attributes"
    return problem, limits.hint("maxattributes")


def with_document_type() -> tuple[str, str]:
    """Return the problem of a message with a document type, and a hint."""
    hint = "Documents with a document type are not read: it can define entities and name files"
    return "the message has a document type (DOCTYPE)", hint


def fault(
    problem: str,
    data: bytes,
    place: tuple[int, int, int],
    hint: str = "",
    *,
    start: int = 0,
    shift: int = 0,
) -> DecodeError:
    """Return the error of a place, with the text around: a line from 1, characters of it from 0, and a byte.

    ``data`` is of the document from the byte ``start`` on; ``shift`` bytes of a mark were before the document.
    """
    line, column, at = place
    at = max(at, 0)  # expat has no place in an empty document
    here = at - start
    begin = max(data.rfind(b"\n", 0, here), data.rfind(b"\r", 0, here)) + 1
    before = data[max(begin, here - 4 * _SHOWN) : here].decode(errors="ignore")
    rest = data[here : here + 4 * _SHOWN].split(b"\n", 1)[0].decode(errors="ignore")
    around = (before[-_SHOWN:] + rest[:_SHOWN]).strip()
    text = f"{problem}, at {around!r}" if around else problem
    return DecodeError(
        text, where=Where(line=line, column=column + 1, offset=at + shift), hint=hint
    )


class _Builder:
    """Builds the tree of a document from expat's events."""

    def __init__(self, data: bytes, limits: Limits, shift: int) -> None:
        self.data, self.limits, self.shift = data, limits, shift
        self.parser = expat.ParserCreate("utf-8", BETWEEN)
        self.parser.namespace_prefixes = True
        self.parser.ordered_attributes = True
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartCdataSectionHandler = self._open_section
        self.parser.EndCdataSectionHandler = self._close_section
        self.parser.StartDoctypeDeclHandler = self._refuse_type
        self.top = self.here = Element("")
        self.depth = 0
        self.in_section = False

    def build(self) -> Element:
        """Return the document, an element without a name above the root."""
        try:
            self.parser.Parse(self.data, True)
        except expat.ExpatError as error:
            text = expat.ErrorString(error.code)
            place = error.lineno, error.offset, self.parser.ErrorByteIndex
            raise fault(text, self.data, place, shift=self.shift) from None
        return self.top

    def _start(self, name: str, attributes: list[str]) -> None:
        self.depth += 1
        if self.depth > self.limits.depth:
            self._refuse_here(*too_deep(self.limits))
        if len(attributes) > 2 * self.limits.attributes:
            self._refuse_here(*too_many_attributes(self.limits))
        namespace, local, _ = _names(name)
        parent = self.here
        position = len(parent.children) + 1
        at = self.parser.CurrentByteIndex
        tag = _TAG.match(self.data, at)
        inner = at if tag is None else tag.end()
        element = Element(local, namespace, parent, position, start=at, inner=inner)
        for at in range(0, len(attributes), 2):
            space, own, prefix = _names(attributes[at])
            element.attributes.append(Attribute(own, space, prefix, attributes[at + 1]))
        parent.children.append(element)
        self.here = element

    def _end(self, _: str) -> None:
        element = self.here
        element.end = (
            self.parser.CurrentByteIndex
        )  # where the end tag begins, or an empty element ends
        if element.end > element.inner or not self.data.endswith(b"/>", 0, element.inner):
            element.end = self.data.find(b">", element.end) + 1
        assert element.parent is not None
        self.here = element.parent
        self.depth -= 1

    def _text(self, text: str) -> None:
        if self.in_section:
            self.here.pieces[-1] = (self.here.pieces[-1][0] + text, True)
        else:
            self.here.pieces.append((text, False))

    def _open_section(self) -> None:
        self.here.pieces.append(("", True))
        self.in_section = True

    def _close_section(self) -> None:
        self.in_section = False

    def _refuse_type(self, *_: object) -> None:
        self._refuse_here(*with_document_type())

    def _refuse_here(self, problem: str, hint: str = "") -> NoReturn:
        at = self.parser
        place = at.CurrentLineNumber, at.CurrentColumnNumber, at.CurrentByteIndex
        raise fault(problem, self.data, place, hint, shift=self.shift)


def _names(name: str) -> tuple[str, str, str]:
    """Return the namespace, local name and prefix of a name as expat gives it."""
    namespace, _, rest = name.partition(BETWEEN)
    if not rest:
        return "", namespace, ""
    local, _, prefix = rest.partition(BETWEEN)
    return namespace, local, prefix
