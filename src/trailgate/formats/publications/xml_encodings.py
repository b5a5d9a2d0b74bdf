"""Convert the documents of XML publications to UTF-8.

The code page is that of the properties, or of the MQRFH2 header before the document, or the one
that an EBCDIC document declares. Other documents keep their encoding, which the engine of
`formats/xml` detects.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, octets
from trailgate.columnar.code_pages import CodePage, code_page
from trailgate.errors import DecodeError, OptionError, TrailgateError, Where
from trailgate.formats.publications.mq_headers import measure_headers
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.records import BadMessagesError

_CCSID_UTF_8: Final = 1208
# CCSIDs of UTF-16 and UCS-2, and their encodings.
_UNICODE: Final = {1200: "utf-16-be", 13488: "utf-16-be", 1202: "utf-16-le"}
_DECLARATION: Final = re.compile(r"<\?xml\s[^>]*?\?>")
_DECLARED: Final = re.compile(r"<\?xml\s[^>]*?encoding\s*=\s*[\"']([A-Za-z][\w.\-]*)[\"']")
_LESS: Final = 0x3C
_EBCDIC_LESS: Final = 0x4C
_EBCDIC_BLANKS: Final = b"\x40\x15\x25\x0d\x05"
_HINT: Final = "Set event_publishing.codepage to the CCSID of the messages"
_AROUND: Final = " \t\r\n\x85"  # XML white space, and NEL, the line end of EBCDIC


def as_utf8(messages: MessageBatch, page: str | None = None) -> MessageBatch:
    """Convert the documents of XML publications to UTF-8.

    `page` is a code page for all messages. If it is None, the MQRFH2 header of each message states
    it, or the declaration of an EBCDIC document; otherwise the document is not changed.

    Raises BadMessagesError if messages cannot be decoded.
    """
    if page is None and _plain(messages):
        return messages
    data_view = memoryview(messages.data)
    bodies: list[bytes] = []
    errors: dict[int, TrailgateError] = {}
    bounds = zip(messages.starts.tolist(), messages.ends.tolist(), strict=True)
    for number, (start, end) in enumerate(bounds):
        body = bytes(data_view[start:end])
        try:
            bodies.append(_document(body, page))
        except (DecodeError, OptionError) as error:
            errors[number] = error
    if errors:
        raise BadMessagesError(errors)
    lengths = np.array([len(body) for body in bodies], np.int64)
    # Bodies are joined by line feeds, so each end is one before the next start.
    ends: Longs = np.cumsum(lengths + 1) - 1
    data = pa.py_buffer(b"\n".join(bodies))
    return replace(messages, data=data, starts=ends - lengths, ends=ends)


def _plain(messages: MessageBatch) -> bool:
    """Return whether all XML publications begin with an ASCII `<`, so that nothing has to be decoded."""
    if not len(messages) or (messages.starts >= messages.ends).any():
        return not len(messages)
    data = octets(messages.data)
    return bool((data[messages.starts] == _LESS).all())


def _document(body: bytes, page: str | None) -> bytes:
    at, character_set = measure_headers(body)
    document = body[at:]
    # An MQRFH2 header names another character set than UTF-8.
    if page is None and character_set not in (None, _CCSID_UTF_8):
        page = _UNICODE.get(character_set, str(character_set))
    if page is None and document.lstrip(_EBCDIC_BLANKS)[:1] == bytes([_EBCDIC_LESS]):
        page = _declared_ebcdic(document)
    if page is None:
        return document
    return _without_declaration(_decode(document, code_page(page), at)).encode()


def _declared_ebcdic(body: bytes) -> str:
    """Return the code page that an XML publication in EBCDIC declares.

    The letters of a declaration are the same in all EBCDIC pages. Raises DecodeError if the
    document declares no encoding.
    """
    declared = _DECLARED.search(body[:400].decode("cp037"))
    if declared is None:
        where = Where(offset=0, raw=body[:32])
        raise DecodeError("the message is EBCDIC of an unknown code page", where=where, hint=_HINT)
    return declared[1]


def _decode(body: bytes, page: CodePage, at: int) -> str:
    decoded = page.decode(np.frombuffer(body, np.uint8).reshape(1, -1)) if body else None
    if decoded is None or decoded.values[0].as_py() is None:
        where = Where(offset=at, raw=body[:32])
        raise DecodeError(
            f"the message is not text of code page {page.name}", where=where, hint=_HINT
        )
    text: str = decoded.values[0].as_py()
    return text


def _without_declaration(text: str) -> str:
    """Remove an XML publication's declaration, byte order mark, and white space around the document."""
    text = text.strip(_AROUND + "\ufeff")
    return _DECLARATION.sub("", text, count=1).lstrip(_AROUND) if text.startswith("<?xml") else text
