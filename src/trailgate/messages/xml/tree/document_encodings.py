"""The encoding of a document: that of its mark, else the one that is given for all, else the declared one.

A message that is sent as text is converted to UTF-8, and may still declare what it was before. Where bytes are UTF-8 and another encoding
is declared, it is not known which one is right; that is an error.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache
from typing import Final

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


def decoded(body: bytes, given: str = DECLARED) -> tuple[str, str]:
    """Return a document's encoding and text; raises DecodeError."""
    encoding = known_encoding(body, given)
    doubt = Doubt(encoding, body, given)
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        raw = body[max(0, error.start - 8) : error.end + 8]
        found = not_text(encoding, error.start, raw)
        lines = body[: error.start].decode(encoding, "replace").split("\n")
        raise found.located(line=len(lines), column=len(lines[-1]) + 1) from None
    doubt.add(body, last=True)
    return encoding, text


def known_encoding(head: bytes, given: str = DECLARED) -> str:
    """Return the encoding of a document that begins so; raises DecodeError for one that is not known."""
    encoding = encoding_of(head, given)
    if not is_known(encoding):
        raise DecodeError(f"the encoding {encoding} is not known")
    return encoding


def not_text(encoding: str, offset: int, raw: bytes) -> DecodeError:
    """Return the error of bytes that are not of a document's encoding."""
    where = Where(offset=offset, raw=raw)
    return DecodeError(f"the message is not {encoding} text", where=where)


class Doubt:
    """Whether a document that declares another encoding is UTF-8 all the same: portion by portion."""

    def __init__(self, encoding: str, head: bytes, given: str = DECLARED) -> None:
        self.encoding, self.first = encoding, b""
        self.decoder = None
        if given != DECLARED or head.startswith(_ALL_MARKS) or encoding.lower() in UTF8:
            return
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        if not _has_ascii(encoding):
            raise self._error()

    def add(self, portion: bytes, *, last: bool) -> None:
        """Look at the next portion; raises DecodeError where the whole document can be both."""
        if self.decoder is None:
            return
        if not self.first and not portion.isascii():
            at = next(at for at, byte in enumerate(portion) if byte > _ASCII)
            self.first = portion[max(0, at - 8) : at + 8]
        try:
            self.decoder.decode(portion, last)
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
