"""The documents of XML publications as UTF-8: headers before them removed, native encodings decoded (event publishing §3.1).

What a document declares as its encoding is that of the program which wrote it; queues and bridges convert messages and leave the
declaration. So bytes are decoded by the code page that is given, that of an MQRFH2 header, or, of EBCDIC, the declared one; then the
declaration is removed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.columnar.code_pages.page_text import CodePage
from trailgate.columnar.code_pages.registry import code_page
from trailgate.columnar.views import octets
from trailgate.errors import DecodeError, OptionError, TrailgateError, Where
from trailgate.messages.event_publishing.rfh2 import without_headers
from trailgate.messages.parsing.bad_messages import BadMessagesError
from trailgate.messages.parsing.messages import MessageBatch

_CCSID_UTF_8: Final = 1208
_UNICODE: Final = {1200: "utf-16-be", 13488: "utf-16-be", 1202: "utf-16-le"}
_DECLARATION: Final = re.compile(r"<\?xml\s[^>]*?\?>")
_DECLARED: Final = re.compile(r"<\?xml\s[^>]*?encoding\s*=\s*[\"']([A-Za-z][\w.\-]*)[\"']")
_LESS: Final = 0x3C
_EBCDIC_LESS: Final = 0x4C
_EBCDIC_BLANKS: Final = b"\x40\x15\x25\x0d\x05"
_HINT: Final = "Set event_publishing.codepage to the CCSID of the messages"
_AROUND: Final = " \t\r\n\x85"  # a new line of EBCDIC (NEL) is not white space of XML


def as_utf8(messages: MessageBatch, page: str | None = None) -> MessageBatch:
    """Return the messages with their documents in UTF-8; ``page`` is the CCSID given for all.

    Raises BadMessagesError for those that cannot be decoded.
    """
    if page is None and _plain(messages):
        return messages
    whole = memoryview(messages.data)
    bodies: list[bytes] = []
    errors: dict[int, TrailgateError] = {}
    bounds = zip(messages.starts.tolist(), messages.ends.tolist(), strict=True)
    for number, (start, end) in enumerate(bounds):
        body = bytes(whole[start:end])
        try:
            bodies.append(_document(body, page))
        except (DecodeError, OptionError) as error:
            errors[number] = error
    if errors:
        raise BadMessagesError(errors)
    lengths = np.array([len(body) for body in bodies], np.int64)
    ends: Longs = np.cumsum(lengths + 1) - 1
    data = pa.py_buffer(b"\n".join(bodies))
    return replace(messages, data=data, starts=ends - lengths, ends=ends)


def _plain(messages: MessageBatch) -> bool:
    """Return whether all messages begin as documents in a superset of ASCII do."""
    if not len(messages) or (messages.starts >= messages.ends).any():
        return not len(messages)
    data = octets(messages.data)
    return bool((data[messages.starts] == _LESS).all())


def _document(body: bytes, page: str | None) -> bytes:
    at, character_set = without_headers(body)
    own = body[at:]
    if page is None and character_set not in (None, _CCSID_UTF_8):
        page = _UNICODE.get(character_set, str(character_set))
    if page is None and own.lstrip(_EBCDIC_BLANKS)[:1] == bytes([_EBCDIC_LESS]):
        page = _declared_ebcdic(own)
    if page is None:
        return own
    return _undeclared(_decoded(own, code_page(page), at)).encode()


def _declared_ebcdic(body: bytes) -> str:
    """Return the code page that an EBCDIC document declares: the letters of a declaration are alike in all pages."""
    found = _DECLARED.search(body[:400].decode("cp037"))
    if found is None:
        where = Where(offset=0, raw=body[:32])
        raise DecodeError(
            "the message is EBCDIC, of which page is unknown", where=where, hint=_HINT
        )
    return found[1]


def _decoded(body: bytes, page: CodePage, at: int) -> str:
    found = page.decode(np.frombuffer(body, np.uint8).reshape(1, -1)) if body else None
    if found is None or found.values[0].as_py() is None:
        where = Where(offset=at, raw=body[:32])
        raise DecodeError(
            f"the message is not text of code page {page.name}", where=where, hint=_HINT
        )
    text: str = found.values[0].as_py()
    return text


def _undeclared(text: str) -> str:
    """Return a document without its declaration, and without what is not white space of XML around it."""
    text = text.strip(_AROUND + "\ufeff")
    return _DECLARATION.sub("", text, count=1).lstrip(_AROUND) if text.startswith("<?xml") else text
