"""The encodings of XML documents: detect them, and convert documents to UTF-8.

The encoding of a document is determined by its byte order mark. Without one, it is the encoding set
for all documents, or else the declared one. A message sent as text is converted to UTF-8 in transit
and may still declare its old encoding. If the bytes are UTF-8 and another encoding is declared, it
is unclear which one is right, and that is an error (`EncodingCheck`).

`utf8_of` converts one document, chunk by chunk. `convert_to_utf8` converts the messages of a batch
before the compiled scanner reads them.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, octets
from trailgate.columnar.gather import gather
from trailgate.errors import DecodeError, Where
from trailgate.messages.message_batch import MessageBatch

DECLARED: Final = "auto"  # each document's own encoding, rather than one for all
UTF8: Final = frozenset({"utf-8", "utf8", "utf-8-sig"})
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is its first two bytes
    (codecs.BOM_UTF32_BE, "utf-32"),
    ("<?".encode("utf-32-le"), "utf-32-le"),
    ("<?".encode("utf-32-be"), "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    ("<?".encode("utf-16-le"), "utf-16-le"),
    ("<?".encode("utf-16-be"), "utf-16-be"),
)
# <?xml version="1.0" encoding="UTF-8"
_DECLARATION: Final = re.compile(
    rb"<\?xml\s[^>]*?encoding\s*=\s*(?:\"([A-Za-z][\w.\-]*)\"|'([A-Za-z][\w.\-]*)')"
)
# <?xml version="1.0" encoding="UTF-8" standalone="yes"?>: the form of XML 1.0, 2.8,
# with no other attributes
DECLARATION: Final = re.compile(
    rb"<\?xml\s+version\s*=\s*(?:\"[\w.\-]+\"|'[\w.\-]+')"
    rb"(?:\s+encoding\s*=\s*(?:\"([A-Za-z][\w.\-]*)\"|'([A-Za-z][\w.\-]*)'))?"
    rb"(?:\s+standalone\s*=\s*(?:\"(?:yes|no)\"|'(?:yes|no)'))?\s*\?>"
)
_ENCODINGS: Final = {b"utf-8", b"utf8"}
# Python codecs that documents must not use: some treat a backslash as an escape, and in UTF-7 plain
# ASCII may encode tags.
_REFUSED: Final = frozenset(
    {"charmap", "idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}
)
HEAD: Final = 1024  # bytes in which the declaration must be
_ALL_MARKS: Final = tuple(mark for mark, _ in _MARKS)
_BEGIN: Final = "<?xml"
_ASCII: Final = 0x7F
_HINT: Final = (
    "Was it converted, but its declaration not? xml.encoding overrides the declared encoding; "
    "for publications, event_publishing.codepage does"
)
_END: Final = b"?>"


def encoding_of(head: bytes, stated: str = DECLARED) -> str:
    """Detect the encoding of an XML document from its first bytes.

    `stated` is the encoding of all documents without a byte order mark, or `DECLARED` if each may
    declare its own.
    """
    encoding = next((name for mark, name in _MARKS if head.startswith(mark)), None)
    if encoding is not None:
        return encoding
    return (declared_in(head) or "utf-8") if stated == DECLARED else stated


def declared_in(head: bytes) -> str | None:
    """Return the encoding that an XML document declares, or None."""
    declaration = _DECLARATION.match(head)
    return None if declaration is None else (declaration[1] or declaration[2]).decode()


def is_utf8_declaration(text: bytes) -> bool:
    """Return whether an XML declaration is valid and declares UTF-8, or no encoding."""
    declaration = DECLARATION.fullmatch(text)
    if declaration is None:
        return False
    encoding = declaration[1] or declaration[2]
    return encoding is None or encoding.lower() in _ENCODINGS


@lru_cache(64)
def is_known(encoding: str) -> bool:
    """Return whether XML documents may use an encoding."""
    try:
        " ".encode(encoding).decode(encoding)
        name = codecs.lookup(encoding).name
    except (LookupError, UnicodeError):
        return False
    return name.replace("_", "-") not in _REFUSED


class EncodingCheck:
    """Detects, by chunks, whether an XML document that declares another encoding is really UTF-8."""

    def __init__(self, encoding: str, head: bytes, given: str = DECLARED) -> None:
        self.encoding, self.first = encoding, b""
        self.decoder = None
        # No doubt: the encoding is set for all, is shown by a mark, or is UTF-8.
        if given != DECLARED or head.startswith(_ALL_MARKS) or encoding.lower() in UTF8:
            return
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        # The declaration itself was readable as ASCII, so an encoding such as UTF-16 or EBCDIC must
        # be wrong.
        if not _has_ascii(encoding):
            raise self._error()

    def add(self, chunk: bytes, *, last: bool) -> None:
        """Check the encoding of an XML document's next chunk.

        Raises DecodeError after the last chunk if the document may be in either encoding.
        """
        if self.decoder is None:
            return
        # Pure ASCII is the same in both encodings. Remember the first other bytes for the error.
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
        problem = f"the message declares {self.encoding}, but its bytes are UTF-8 text"
        return DecodeError(problem, where=Where(raw=self.first or None), hint=_HINT)


@lru_cache(64)
def _has_ascii(encoding: str) -> bool:
    """Return whether text in this encoding consists of ASCII bytes, at least in an XML declaration."""
    try:
        return _BEGIN.encode(encoding) == _BEGIN.encode()
    except UnicodeError:
        return False


def utf8_of(chunks: Iterable[bytes], stated: str = DECLARED) -> Iterator[bytes]:
    """Yield an XML document as UTF-8, in chunks of complete characters.

    Raises DecodeError if bytes do not fit its encoding.

    `stated` is the encoding of all documents without a byte order mark. A mark of UTF-8 is kept,
    others are removed.
    """
    head, rest = b"", iter(chunks)
    for chunk in rest:
        head += chunk
        if len(head) >= HEAD:
            break
    encoding = encoding_of(head, stated)
    if not is_known(encoding):
        raise DecodeError(f"the encoding {encoding} is unknown")
    # The codec utf-8-sig would remove the mark, and so shift all offsets.
    if encoding == "utf-8-sig":
        encoding = "utf-8"
    decoder, doubt = codecs.getincrementaldecoder(encoding)(), EncodingCheck(encoding, head, stated)
    done, place = 0, (1, 1)
    for chunk, last in with_last(chain([head], rest)):
        # Bytes of an incomplete character at the end of the last chunk.
        pending = len(decoder.getstate()[0])
        try:
            text = decoder.decode(chunk, last)
        except UnicodeDecodeError as error:
            raw = error.object[max(0, error.start - 8) : error.end + 8]
            where = Where(offset=done - pending + error.start, raw=raw)
            hint = (
                'The document may declare another encoding: <?xml version="1.0" encoding="NAME"?>'
            )
            error_in_text = DecodeError(
                f"the message is not {encoding} text", where=where, hint=hint
            )
            good = error.object[: error.start].decode(encoding, "replace")
            line, column = _after(place, good)
            raise error_in_text.with_place(line=line, column=column) from None
        doubt.add(chunk, last=last)
        done, place = done + len(chunk), _after(place, text)
        if text:  # empty if the chunk is only a part of a character
            yield text.encode()


def _after(place: tuple[int, int], text: str) -> tuple[int, int]:
    """Return the line and column after a text of an XML document that starts at `place`.

    A byte order mark is not counted.
    """
    line, column = place
    if place == (1, 1):
        text = text.removeprefix("\ufeff")
    lines = text.split("\n")
    return line + len(lines) - 1, len(lines[-1]) + (column if len(lines) == 1 else 1)


def with_last(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield the chunks of an XML document (at least one), with a flag that is true for the last."""
    before = b""
    first = True
    for chunk in chunks:
        if not first:
            yield before, False
        before, first = chunk, False
    yield before, True


def convert_to_utf8(
    messages: MessageBatch, numbers: Iterable[int], given: str = DECLARED
) -> tuple[list[int], list[bytes]]:
    """Convert the XML messages of a batch that have or declare another encoding.

    Returns their numbers and their text in UTF-8. `given` is the encoding of all documents without
    a byte order mark. XML declarations are replaced by blanks, so that offsets do not change.
    Messages that cannot be decoded, or whose declaration is unusual, are skipped.
    """
    data = memoryview(messages.data)
    converted, bodies = [], []
    for number in numbers:
        body = bytes(data[messages.starts[number] : messages.ends[number]])
        head = body[:HEAD]
        named = encoding_of(head, given), declared_in(head) or "utf-8"
        if UTF8.issuperset(name.lower() for name in named):
            continue
        try:
            text = b"".join(utf8_of([body], given)).removeprefix(codecs.BOM_UTF8)
        except DecodeError:
            continue
        end = 0
        if text.startswith(b"<?xml"):
            end = text.find(_END, 0, HEAD) + len(_END)
            if DECLARATION.fullmatch(text[:end]) is None:
                continue
        converted.append(number)
        # Blanks instead of the declaration keep all offsets.
        bodies.append(b" " * end + text[end:])
    return converted, bodies


def perhaps_not_utf8(messages: MessageBatch, numbers: Longs, given: str = DECLARED) -> Longs:
    """Return the numbers of the XML messages that may have or declare an encoding other than UTF-8."""
    if given.lower() not in {DECLARED, *UTF8}:
        return numbers
    data = octets(messages.data)
    numbers = numbers[messages.ends[numbers] - messages.starts[numbers] > 1]
    begins = messages.starts[numbers]
    first, second = data[begins], data[begins + 1]
    # A byte order mark, UTF-16 or UTF-32 without one, or a declaration.
    marked = (first >= 0x80) | (first == 0) | (second == 0)
    declared = np.flatnonzero((first == ord("<")) & (second == ord("?")))
    if len(declared):
        # Most declarations are like the first one: of these only the others have to be read.
        begin = int(begins[declared[0]])
        head = data[begin : min(begin + HEAD, int(messages.ends[numbers[declared[0]]]))].tobytes()
        known = head[: head.find(_END) + len(_END)]
        other = np.ones(len(declared), bool)
        if is_utf8_declaration(known):
            heads = gather(
                data, begins[declared], np.minimum(begins[declared] + len(known), len(data))
            )
            other = ~np.asarray(pc.equal(heads, known))
        marked[declared] = other
    chosen: Longs = numbers[marked]
    return chosen


def replace_bodies(messages: MessageBatch, numbers: list[int], bodies: list[bytes]) -> MessageBatch:
    """Return a batch of only the XML messages `numbers`, with `bodies` in place of their own bodies."""
    sizes = np.array([len(body) for body in bodies], np.int64)
    ends: Longs = np.cumsum(sizes)
    which = np.array(numbers, np.int64)
    headers = messages.headers
    return replace(
        messages,
        data=pa.py_buffer(b"".join(bodies)),
        starts=ends - sizes,
        ends=ends,
        files=messages.files[which],
        offsets=messages.offsets[which],
        headers=None if headers is None else tuple(headers[number] for number in numbers),
    )
