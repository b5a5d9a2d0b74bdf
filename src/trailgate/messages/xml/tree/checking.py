"""Documents that are too long for memory, read in portions: their encoding, and what is wrong with them."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from xml.parsers import expat

from trailgate.errors import DecodeError
from trailgate.messages.xml.tree.document_encodings import (
    DECLARED,
    Doubt,
    known_encoding,
    not_text,
)
from trailgate.messages.xml.tree.documents import (
    BETWEEN,
    Limits,
    fault,
    too_deep,
    too_many_attributes,
    with_document_type,
)

_HEAD: Final = 1024  # bytes that an encoding is known from
_KEPT: Final = 1 << 16  # bytes before a portion, for the text around a fault


class _Window(NamedTuple):
    """Bytes of a document, and where they begin in it."""

    data: bytes
    start: int


def utf8_of(chunks: Iterable[bytes], given: str = DECLARED) -> Iterator[bytes]:
    """Yield a document as UTF-8, in portions of whole characters; raises DecodeError for bytes that are not of its encoding.

    ``given`` is the encoding of all documents that have no mark.

    A mark of UTF-8 is kept, those of other encodings are not.
    """
    head, rest = b"", iter(chunks)
    for chunk in rest:
        head += chunk
        if len(head) >= _HEAD:
            break
    encoding = known_encoding(head, given)
    if encoding == "utf-8-sig":
        encoding = "utf-8"
    decoder, doubt = codecs.getincrementaldecoder(encoding)(), Doubt(encoding, head, given)
    done, place = 0, (1, 1)
    for chunk, last in with_last(_chained(head, rest)):
        pending = len(decoder.getstate()[0])
        try:
            text = decoder.decode(chunk, last)
        except UnicodeDecodeError as error:
            raw = error.object[max(0, error.start - 8) : error.end + 8]
            found = not_text(encoding, done - pending + error.start, raw)
            good = error.object[: error.start].decode(encoding, "replace")
            line, column = _after(place, good)
            raise found.located(line=line, column=column) from None
        doubt.add(chunk, last=last)
        done, place = done + len(chunk), _after(place, text)
        if text:  # none where a portion ends inside a character
            yield text.encode()


def _after(place: tuple[int, int], text: str) -> tuple[int, int]:
    """Return the line and column after a text that begins at a place; a mark has none."""
    line, column = place
    if place == (1, 1):
        text = text.removeprefix("\ufeff")
    lines = text.split("\n")
    return line + len(lines) - 1, len(lines[-1]) + (column if len(lines) == 1 else 1)


def _chained(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from rest


def with_last(portions: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield portions and whether they are the last; at least one."""
    before = b""
    first = True
    for portion in portions:
        if not first:
            yield before, False
        before, first = portion, False
    yield before, True


def check_document(chunks: Iterable[bytes], limits: Limits, encoding: str = DECLARED) -> None:
    """Raise the DecodeError that ``parse_document`` would for a whole document; only some of it is held in memory."""
    _Checker(limits).check(utf8_of(chunks, encoding))


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

    def check(self, portions: Iterable[bytes]) -> None:
        """Raise DecodeError for what is wrong."""
        for portion, last in with_last(portions):
            data, start = self.window
            added = portion
            if not data and portion.startswith(codecs.BOM_UTF8):
                self.shift = len(codecs.BOM_UTF8)
                added = portion[self.shift :]
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
