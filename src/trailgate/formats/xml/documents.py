"""XML documents as trees of elements, with the place of each; what is not well-formed or not safe is refused.

Nothing outside a document is ever read, and no entity is expanded but the five of XML: a document type
(DOCTYPE) is refused before anything in it has an effect.

The encoding of a document is that of its mark, else the one that is given for all, else the declared one. A message that is sent as text is converted to UTF-8, and may
still declare what it was before. Where bytes are UTF-8 and another encoding is declared, it is not known which one is right; that is an error.

Documents that are too long for memory are read in chunks, for their encoding, and for what is wrong with them.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple
from xml.parsers import expat

from trailgate.errors import DecodeError, Where

DECLARED: Final = "auto"  # instead of an encoding that is given for all
UTF8: Final = frozenset({"utf-8", "utf8", "utf-8-sig"})
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # it begins as that of UTF-16 does
    (codecs.BOM_UTF32_BE, "utf-32"),
    ("<?".encode("utf-32-le"), "utf-32-le"),
    ("<?".encode("utf-32-be"), "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    ("<?".encode("utf-16-le"), "utf-16-le"),
    ("<?".encode("utf-16-be"), "utf-16-be"),
)
_DECLARATION: Final = re.compile(
    rb"<\?xml\s[^>]*?encoding\s*=\s*(?:\"([A-Za-z][\w.\-]*)\"|'([A-Za-z][\w.\-]*)')"
)
# Codecs of Python that documents may not have: in some of them a backslash is not a character, and in UTF-7 plain ASCII may be tags.
_REFUSED: Final = frozenset(
    {"charmap", "idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}
)
HEAD: Final = 1024  # bytes that a declaration is within
_ALL_MARKS: Final = tuple(mark for mark, _ in _MARKS)
_BEGIN: Final = "<?xml"
_ASCII: Final = 0x7F
_HINT: Final = (
    "Was it converted, and its declaration not? xml.encoding is the encoding whatever is declared; "
    "of publications event_publishing.codepage is"
)


def encoding_of(head: bytes, given: str = DECLARED) -> str:
    """Return the encoding of a document that begins so; ``given`` is the one of all that have no mark."""
    encoding = next((name for mark, name in _MARKS if head.startswith(mark)), None)
    if encoding is not None:
        return encoding
    return (declared_in(head) or "utf-8") if given == DECLARED else given


def declared_in(head: bytes) -> str | None:
    """Return the encoding that a document declares, None where it declares none."""
    found = _DECLARATION.match(head)
    return None if found is None else (found[1] or found[2]).decode()


@lru_cache(64)
def is_known(encoding: str) -> bool:
    """Return whether documents may have an encoding."""
    try:
        " ".encode(encoding).decode(encoding)
        name = codecs.lookup(encoding).name
    except (LookupError, UnicodeError):
        return False
    return name.replace("_", "-") not in _REFUSED


class Doubt:
    """Whether a document that declares another encoding is UTF-8 all the same: chunk by chunk."""

    def __init__(self, encoding: str, head: bytes, given: str = DECLARED) -> None:
        self.encoding, self.first = encoding, b""
        self.decoder = None
        if given != DECLARED or head.startswith(_ALL_MARKS) or encoding.lower() in UTF8:
            return
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        if not _has_ascii(encoding):
            raise self._error()

    def add(self, chunk: bytes, *, last: bool) -> None:
        """Look at the next chunk; raises DecodeError where the whole document can be both."""
        if self.decoder is None:
            return
        if not self.first and not chunk.isascii():
            at = next(at for at, byte in enumerate(chunk) if byte > _ASCII)
            self.first = chunk[max(0, at - 8) : at + 8]
        try:
            self.decoder.decode(chunk, last)
        except UnicodeDecodeError:
            self.decoder = None
            return
        if last and self.first:
            raise self._error()

    def _error(self) -> DecodeError:
        problem = f"the message declares {self.encoding}, and its bytes are UTF-8 text"
        return DecodeError(problem, where=Where(raw=self.first or None), hint=_HINT)


@lru_cache(64)
def _has_ascii(encoding: str) -> bool:
    """Return whether a declaration that is read as ASCII can be of an encoding."""
    try:
        return _BEGIN.encode(encoding) == _BEGIN.encode()
    except UnicodeError:
        return False


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

    ``position`` counts the elements of its parent from 1. ``pieces`` are its own strings, with whether each
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
        strings = [text for text, _ in self.pieces]
        while first <= last and not self.pieces[first][1]:
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
    builder = _Builder(limits or Limits())
    builder.check(utf8_of([body], encoding))
    return Document(builder.window.data, builder.top, builder.shift)


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


_KEPT: Final = 1 << 16  # bytes before a chunk, for the text around a fault


class _Window(NamedTuple):
    """Bytes of a document, and where they begin in it."""

    data: bytes
    start: int


class _Checker:
    """Gives a document to expat, and keeps what is open and the last bytes."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.parser = expat.ParserCreate("utf-8", BETWEEN)
        self.parser.ordered_attributes = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._refuse_type
        self.depth = 0
        self.window = _Window(b"", 0)
        self.shift = 0  # bytes of a mark, which expat does not get

    def check(self, chunks: Iterable[bytes]) -> None:
        """Raise DecodeError for what is wrong."""
        for chunk, last in with_last(chunks):
            data, start = self.window
            added = chunk
            if not data and chunk.startswith(codecs.BOM_UTF8):
                self.shift = len(codecs.BOM_UTF8)
                added = chunk[self.shift :]
            kept = data[-_KEPT:]
            self.window = _Window(kept + added, start + len(data) - len(kept))
            try:
                self.parser.Parse(added, last)
            except expat.ExpatError as error:
                text = expat.ErrorString(error.code)
                place = error.lineno, error.offset, self.parser.ErrorByteIndex
                raise self._fault(text, place) from None

    def _start(self, _: str, attributes: list[str]) -> None:
        self.depth += 1
        if self.depth > self.limits.depth:
            raise self._here(*too_deep(self.limits))
        if len(attributes) > 2 * self.limits.attributes:
            raise self._here(*too_many_attributes(self.limits))

    def _end(self, _: str) -> None:
        self.depth -= 1

    def _refuse_type(self, *_: object) -> None:
        raise self._here(*with_document_type())

    def _here(self, problem: str, hint: str) -> DecodeError:
        at = self.parser
        place = at.CurrentLineNumber, at.CurrentColumnNumber, at.CurrentByteIndex
        return self._fault(problem, place, hint)

    def _fault(self, problem: str, place: tuple[int, int, int], hint: str = "") -> DecodeError:
        data, start = self.window
        return fault(problem, data, place, hint, start=start, shift=self.shift)


class _Builder(_Checker):
    """Builds the tree of a document from expat's events."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.parser.namespace_prefixes = True
        self.parser.buffer_text = True
        self.parser.CharacterDataHandler = self._text
        self.parser.StartCdataSectionHandler = self._open_section
        self.parser.EndCdataSectionHandler = self._close_section
        self.top = self.here = Element("")
        self.in_section = False

    def _start(self, name: str, attributes: list[str]) -> None:
        super()._start(name, attributes)
        namespace, local, _ = _names(name)
        parent, data = self.here, self.window.data
        position = len(parent.children) + 1
        at = self.parser.CurrentByteIndex
        tag = _TAG.match(data, at)
        inner = at if tag is None else tag.end()
        element = Element(local, namespace, parent, position, start=at, inner=inner)
        for at in range(0, len(attributes), 2):
            space, own, prefix = _names(attributes[at])
            element.attributes.append(Attribute(own, space, prefix, attributes[at + 1]))
        parent.children.append(element)
        self.here = element

    def _end(self, name: str) -> None:
        super()._end(name)
        element, data = self.here, self.window.data
        # Where the end tag begins, or an empty element ends.
        element.end = self.parser.CurrentByteIndex
        if element.end > element.inner or not data.endswith(b"/>", 0, element.inner):
            element.end = data.find(b">", element.end) + 1
        assert element.parent is not None
        self.here = element.parent

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


def _names(name: str) -> tuple[str, str, str]:
    """Return the namespace, local name and prefix of a name as expat gives it."""
    namespace, _, rest = name.partition(BETWEEN)
    if not rest:
        return "", namespace, ""
    local, _, prefix = rest.partition(BETWEEN)
    return namespace, local, prefix


def utf8_of(chunks: Iterable[bytes], given: str = DECLARED) -> Iterator[bytes]:
    """Yield a document as UTF-8, in chunks of whole characters; raises DecodeError for bytes that are not of its encoding.

    ``given`` is the encoding of all documents that have no mark.

    A mark of UTF-8 is kept, those of other encodings are not.
    """
    head, rest = b"", iter(chunks)
    for chunk in rest:
        head += chunk
        if len(head) >= HEAD:
            break
    encoding = encoding_of(head, given)
    if not is_known(encoding):
        raise DecodeError(f"the encoding {encoding} is not known")
    if encoding == "utf-8-sig":
        encoding = "utf-8"
    decoder, doubt = codecs.getincrementaldecoder(encoding)(), Doubt(encoding, head, given)
    done, place = 0, (1, 1)
    for chunk, last in with_last(chain([head], rest)):
        pending = len(decoder.getstate()[0])
        try:
            text = decoder.decode(chunk, last)
        except UnicodeDecodeError as error:
            raw = error.object[max(0, error.start - 8) : error.end + 8]
            where = Where(offset=done - pending + error.start, raw=raw)
            found = DecodeError(f"the message is not {encoding} text", where=where)
            good = error.object[: error.start].decode(encoding, "replace")
            line, column = _after(place, good)
            raise found.with_place(line=line, column=column) from None
        doubt.add(chunk, last=last)
        done, place = done + len(chunk), _after(place, text)
        if text:  # none where a chunk ends inside a character
            yield text.encode()


def _after(place: tuple[int, int], text: str) -> tuple[int, int]:
    """Return the line and column after a text that begins at a place; a mark has none."""
    line, column = place
    if place == (1, 1):
        text = text.removeprefix("\ufeff")
    lines = text.split("\n")
    return line + len(lines) - 1, len(lines[-1]) + (column if len(lines) == 1 else 1)


def with_last(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield chunks and whether they are the last; at least one."""
    before = b""
    first = True
    for chunk in chunks:
        if not first:
            yield before, False
        before, first = chunk, False
    yield before, True


def check_document(chunks: Iterable[bytes], limits: Limits, encoding: str = DECLARED) -> None:
    """Raise the DecodeError that ``parse_document`` would for a whole document; only some of it is held in memory."""
    _Checker(limits).check(utf8_of(chunks, encoding))
