"""Detect whether event publications are delimited or XML.

The first byte decides, in ASCII and in EBCDIC: a digit begins a delimited record, `<` an XML
document. MQ's header before a message is skipped (`mq_headers.py`).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, byte_table, octets
from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.formats.publications.mq_headers import skip_headers
from trailgate.messages.encoding_checks import encoding_error
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.records import BadMessagesError

DELIMITED: Final = "delimited"
XML: Final = "xml"
_BLANKS: Final = b" \t\r\n\x25\x40"  # those of EBCDIC too
# A delimited record begins with a digit, an XML message with "<" or a byte order mark; in ASCII or EBCDIC.
_FIRST: Final = {
    DELIMITED: b"0123456789\xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9",
    XML: b"<\x4c\xfe\xff",
}
_KINDS: Final = tuple(_FIRST)
# By the first byte of a message: the index of its format in `_KINDS`, or `len(_KINDS)` if no format begins so.
_CODES: Final = byte_table(
    {first: code for code, kind in enumerate(_KINDS) for first in _FIRST[kind]}, len(_KINDS)
)
_MARKS: Final = (0xFE, 0xFF)  # first bytes of the byte order marks of UTF-16
_WIDE: Final = "<".encode("utf-16-be")  # UTF-16 without a byte order mark
# Bytes of a message that an error shows: enough for the beginning of an element or of a record.
_SHOWN: Final = 24
_HINT: Final = "Publications are delimited (MESSAGE_FORMAT D) or XML (X, J); compact messages (C) are only for Q Apply"


def detect_format(messages: MessageBatch) -> tuple[MessageBatch, str]:
    """Return publications without MQRFH2 headers, and their format, which the first message determines.

    Raises BadMessagesError for messages in a different format.
    """
    data = octets(messages.data)
    messages = skip_headers(messages, data).without_marks()
    filled = np.flatnonzero(messages.ends > messages.starts)
    codes = _codes(data, messages, filled)
    known = codes[codes < len(_KINDS)]
    # The first message that is recognized decides for all.
    kind = int(known[0]) if len(known) else 0
    wrong = np.flatnonzero(codes != kind)
    if len(wrong):
        raise BadMessagesError(
            {
                int(filled[at]): _error(data, messages, int(filled[at]), int(codes[at]), kind)
                for at in wrong.tolist()
            }
        )
    return messages, _KINDS[kind]


def looks_delimited(messages: MessageBatch) -> bool:
    """Return whether the first message begins like a delimited publication.

    Returns False if it is empty.
    """
    return bool(mask_delimited(messages.slice(0, 1)).any())


def mask_delimited(messages: MessageBatch) -> Mask:
    """Return a mask of the messages that begin like delimited publications."""
    messages = messages.without_marks()
    filled = messages.ends > messages.starts
    look = np.zeros(len(messages), bool)
    look[filled] = np.isin(octets(messages.data)[messages.starts[filled]], list(_FIRST[DELIMITED]))
    return look


def _codes(data: Octets, messages: MessageBatch, rows: Longs) -> Octets:
    """Return the format of the publications `rows`, which are not empty, as indexes into `_KINDS`.

    The first byte that is not a blank decides. If it is unknown, the result is `len(_KINDS)`.
    """
    codes: Octets = _CODES[data[messages.starts[rows]]]
    # Few messages get here: usually the first byte decides.
    for at in np.flatnonzero(codes == len(_KINDS)).tolist():
        body = data[messages.starts[rows[at]] : messages.ends[rows[at]]].tobytes()
        first = body.lstrip(_BLANKS)[:1]
        # UTF-16 without a mark begins with a zero byte.
        if body[:2] == _WIDE:
            first = _WIDE[1:]
        if first:
            codes[at] = _CODES[first[0]]
    for at in np.flatnonzero(np.isin(data[messages.starts[rows]], _MARKS)).tolist():
        body = data[messages.starts[rows[at]] : messages.ends[rows[at]]][:_SHOWN].tobytes()
        if not body.decode("utf-16", "replace").lstrip().startswith("<"):
            codes[at] = len(_KINDS)  # a byte order mark, but not XML
    return codes


def _error(
    data: Octets, messages: MessageBatch, message: int, code: int, kind: int
) -> TrailgateError:
    begin = int(messages.starts[message])
    raw = data[begin : min(begin + _SHOWN, int(messages.ends[message]))].tobytes()
    where = Where(offset=0, raw=raw)
    if code < len(_KINDS):
        problem = f"{_article(_KINDS[code])} message among {_KINDS[kind]} ones"
        return DecodeError(
            problem, where=where, hint="Capture the messages of each format separately"
        )
    not_publication = DecodeError("the message is not a publication", where=where, hint=_HINT)
    return encoding_error(raw, where) or not_publication


def _article(kind: str) -> str:
    return f"an {kind.upper()}" if kind == XML else f"a {kind}"
