"""Parse XML documents into trees of elements with byte offsets.

Anything malformed or unsafe is an error.

Nothing outside a document is read, and only XML's five entities are expanded. A document type
(DOCTYPE) is an error before anything in it takes effect.

Documents are converted to UTF-8 first (`encodings.py`). Documents that are too large for memory
are checked in chunks (`check_document`).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from xml.parsers import expat

from trailgate.errors import DecodeError
from trailgate.formats.xml.encodings import DECLARED, utf8_of, with_last
from trailgate.formats.xml.faults import (
    SYNTAX_HINTS,
    XmlLimits,
    attributes_problem,
    depth_problem,
    document_error,
    document_type_problem,
)

# Expat separates namespace, name and prefix by this; none of them can contain it.
BETWEEN: Final = " "
# The rest of a tag up to its end: a > inside quotes does not end it, as in a="x>y">.
_TAG: Final = re.compile(rb"(?:[^>\"']|\"[^\"]*\"|'[^']*')*>")
BLANKS: Final = " \t\r\n"
_KEPT: Final = 1 << 16  # bytes kept before a chunk, to show the text around a fault


@dataclass(slots=True, eq=False)
class XmlAttribute:
    """An attribute of an XML element. `name` is the local name."""

    name: str
    namespace: str
    prefix: str
    value: str


@dataclass(slots=True, eq=False)
class XmlElement:
    """An XML element. `start`, `inner` and `end` are offsets in the document as UTF-8.

    `inner` is the end of the start tag. `position` counts the elements of the parent, from 1.
    `pieces` are the element's own strings, each with a flag for CDATA sections. The document itself
    is an element without a name.
    """

    name: str
    namespace: str = ""
    parent: XmlElement | None = None
    position: int = 0
    start: int = 0
    inner: int = 0
    end: int = 0
    attributes: list[XmlAttribute] = field(default_factory=list)
    children: list[XmlElement] = field(default_factory=list)
    pieces: list[tuple[str, bool]] = field(default_factory=list)

    def below(self) -> Iterator[XmlElement]:
        """Yield all descendants of this XML element, in document order."""
        left = self.children[::-1]  # a stack instead of recursion: xml.maxdepth may be high
        while left:
            element = left.pop()
            yield element
            left += element.children[::-1]

    def names(self) -> set[str]:
        """Return the names of all elements and attributes inside this XML element."""
        names = set()
        for element in self.below():
            names.add(element.name)
            names.update(attribute.name for attribute in element.attributes)
        return names

    def exact_text(self) -> str:
        """Return the XML element's own text with all blanks."""
        return "".join(text for text, _ in self.pieces)

    def text(self) -> str | None:
        """Return the text of an element in a document's tree without surrounding blanks, or None if it has no text.

        Blanks in CDATA sections are kept.
        """
        if not self.pieces:
            return None
        first, last = 0, len(self.pieces) - 1
        strings = [text for text, _ in self.pieces]
        while first <= last and not self.pieces[first][1]:
            # A piece that was only blanks is dropped, and the next one is trimmed instead. A CDATA
            # section ends the trimming, since its blanks count.
            strings[first] = strings[first].lstrip(BLANKS)
            if strings[first]:
                break
            first += 1
        while last >= first and not self.pieces[last][1]:
            strings[last] = strings[last].rstrip(BLANKS)
            if strings[last]:
                break
            last -= 1
        return "".join(strings)


@dataclass(frozen=True, slots=True)
class XmlDocument:
    """An XML document: its bytes as UTF-8, its tree, and the size of the byte order mark before it."""

    data: bytes
    top: XmlElement
    shift: int = 0

    def content(self, element: XmlElement) -> str | None:
        """Return the source text between an XML element's tags, or None if the element is empty."""
        # The last end tag within the element is its own. An empty element `<a/>` has none.
        end = self.data.rfind(b"</", element.inner, element.end)
        return self.data[element.inner : end].decode() if element.inner < end else None


def parse_document(
    body: bytes, limits: XmlLimits | None = None, encoding: str = DECLARED
) -> XmlDocument:
    """Parse a message as an XML document. `encoding` applies to documents without a byte order mark.

    Raises DecodeError, with line, column and surrounding text, if it is malformed, has a document
    type, or exceeds the limits.
    """
    builder = _Builder(limits or XmlLimits())
    builder.check(utf8_of([body], encoding))
    return XmlDocument(builder.window.data, builder.top, builder.shift)


class _Window(NamedTuple):
    """The last bytes of an XML document that expat has read, and their offset in the document."""

    data: bytes
    start: int


class _Checker:
    """Passes an XML document to expat, and keeps the last bytes for error messages."""

    def __init__(self, limits: XmlLimits) -> None:
        self.limits = limits
        self.parser = expat.ParserCreate("utf-8", BETWEEN)
        self.parser.ordered_attributes = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._refuse_type
        self.depth = 0
        self.window = _Window(b"", 0)
        self.shift = 0  # size of the byte order mark, which is not passed to expat

    def check(self, chunks: Iterable[bytes]) -> None:
        """Check an XML document. Raises DecodeError for its first fault."""
        for chunk, last in with_last(chunks):
            data, start = self.window
            added = chunk
            if not data and chunk.startswith(codecs.BOM_UTF8):
                self.shift = len(codecs.BOM_UTF8)
                added = chunk[self.shift :]
            # Keep the end of the previous text, for messages about faults at a chunk's start.
            kept = data[-_KEPT:]
            self.window = _Window(kept + added, start + len(data) - len(kept))
            try:
                self.parser.Parse(added, last)
            except expat.ExpatError as error:
                text = expat.ErrorString(error.code)
                place = error.lineno, error.offset, self.parser.ErrorByteIndex
                raise self._fault(text, place, SYNTAX_HINTS.get(error.code, "")) from None

    def _start(self, _: str, attributes: list[str]) -> None:
        self.depth += 1
        if self.depth > self.limits.depth:
            raise self._here(*depth_problem(self.limits))
        # The list has a name and a value for each attribute.
        if len(attributes) > 2 * self.limits.attributes:
            raise self._here(*attributes_problem(self.limits))

    def _end(self, _: str) -> None:
        self.depth -= 1

    def _refuse_type(self, *_: object) -> None:
        raise self._here(*document_type_problem())

    def _here(self, problem: str, hint: str) -> DecodeError:
        at = self.parser
        place = at.CurrentLineNumber, at.CurrentColumnNumber, at.CurrentByteIndex
        return self._fault(problem, place, hint)

    def _fault(self, problem: str, place: tuple[int, int, int], hint: str = "") -> DecodeError:
        data, start = self.window
        return document_error(problem, data, place, hint, start=start, shift=self.shift)


class _Builder(_Checker):
    """Builds the tree of an XML document from expat's events."""

    def __init__(self, limits: XmlLimits) -> None:
        super().__init__(limits)
        self.parser.namespace_prefixes = True
        # Otherwise expat reports one text in several pieces, for example at each line end.
        self.parser.buffer_text = True
        self.parser.CharacterDataHandler = self._text
        self.parser.StartCdataSectionHandler = self._open_section
        self.parser.EndCdataSectionHandler = self._close_section
        self.top = self.here = XmlElement("")
        self.in_section = False

    def _start(self, name: str, attributes: list[str]) -> None:
        super()._start(name, attributes)
        namespace, local, _ = _names(name)
        parent, data = self.here, self.window.data
        position = len(parent.children) + 1
        at = self.parser.CurrentByteIndex
        # expat reports the start of the tag: find its end, skipping quoted `>`.
        tag = _TAG.match(data, at)
        inner = at if tag is None else tag.end()
        element = XmlElement(local, namespace, parent, position, start=at, inner=inner)
        for at in range(0, len(attributes), 2):
            space, own, prefix = _names(attributes[at])
            element.attributes.append(XmlAttribute(own, space, prefix, attributes[at + 1]))
        parent.children.append(element)
        self.here = element

    def _end(self, name: str) -> None:
        super()._end(name)
        element, data = self.here, self.window.data
        # For an end tag, expat reports its start; for an empty element (<a/>), the offset after it.
        element.end = self.parser.CurrentByteIndex
        # `<a></a>` also ends where its start tag ends, but that does not end with `/>`.
        if element.end > element.inner or not data.endswith(b"/>", 0, element.inner):
            element.end = data.find(b">", element.end) + 1
        assert element.parent is not None
        self.here = element.parent

    def _text(self, text: str) -> None:
        if self.in_section:
            # expat may report the text of a section in several calls.
            self.here.pieces[-1] = (self.here.pieces[-1][0] + text, True)
        else:
            self.here.pieces.append((text, False))

    def _open_section(self) -> None:
        self.here.pieces.append(("", True))
        self.in_section = True

    def _close_section(self) -> None:
        self.in_section = False


def _names(name: str) -> tuple[str, str, str]:
    """Split an XML name from expat into namespace, local name and prefix."""
    namespace, _, rest = name.partition(BETWEEN)
    if not rest:
        return "", namespace, ""
    local, _, prefix = rest.partition(BETWEEN)
    return namespace, local, prefix


def check_document(chunks: Iterable[bytes], limits: XmlLimits, encoding: str = DECLARED) -> None:
    """Check an XML document chunk by chunk, so that it need not fit in memory. Raises the same DecodeError as `parse_document`."""
    _Checker(limits).check(utf8_of(chunks, encoding))
