"""Detect whether event publications are delimited or XML, and skip MQ's header before a message.

The first byte decides, in ASCII and in EBCDIC: a digit begins a delimited record, `<` an XML
document.

The header is an MQRFH2 (event publishing §1: message format J). Its layout is defined by WebSphere
MQ: `RFH `, version, length of the structure, encoding and coded character set of the following
data, format, flags, and the character set of names and values. Integers may be in either byte
order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, byte_table, octets
from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.messages.encoding_checks import encoding_error
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.messages import MessageBatch
from trailgate.messages.problems import MessageErrors
from trailgate.messages.records import BadMessagesError

STRUCTURE_IDS: Final = (b"RFH ", "RFH ".encode("cp037"))
_FIXED: Final = 36  # bytes of a version 2 header before its names and values
_VERSION: Final = 2
_LENGTH_AT, _SET_AT = 8, 16


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
_EMPTY: Final = "A publication has a record or an XML document. Was its body lost on the way?"
_HINT: Final = "Publications are delimited (MESSAGE_FORMAT D) or XML (X, J); compact messages (C) are only for Q Apply"


def without_headers(body: bytes) -> tuple[int, int | None]:
    """Skip the MQRFH2 headers before an event publication.

    Return the offset of the message's data, and their character set (CCSID) or None if no header
    states it.

    Raises DecodeError if a header is incomplete.
    """
    at, character_set = 0, None
    # Headers may be chained; the last valid character set counts.
    while body[at : at + 4] in STRUCTURE_IDS:
        order = _byte_order(body, at)
        if order is None:
            raise _broken("the version of the MQRFH2 header is not 2", body, at)
        length, own_set = (
            struct.unpack_from(f"{order}i", body, at + place)[0] for place in (_LENGTH_AT, _SET_AT)
        )
        if length < _FIXED or at + length > len(body):
            raise _broken(f"the MQRFH2 header has a length of {length} bytes", body, at)
        character_set = own_set if own_set > 0 else character_set
        at += length
    return at, character_set


def _byte_order(body: bytes, at: int) -> str | None:
    if at + _FIXED > len(body):
        return None
    for order in ">", "<":
        if struct.unpack_from(f"{order}i", body, at + 4)[0] == _VERSION:
            return order
    return None


def _broken(problem: str, body: bytes, at: int) -> DecodeError:
    where = Where(offset=at, raw=body[at : at + _FIXED])
    return DecodeError(problem, where=where, hint="Is the message cut off?")


def detect_format(messages: MessageBatch) -> tuple[MessageBatch, str]:
    """Return publications without MQRFH2 headers, and their format, which the first message determines.

    Raises BadMessagesError for messages in a different format.
    """
    data = octets(messages.data)
    messages = _without_rfh(messages, data).without_marks()
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


def refuse_empty(messages: MessageBatch) -> None:
    """Raise BadMessagesError for empty publications, which no publisher sends (decision 0149)."""
    marked = messages.without_marks()
    empty = np.flatnonzero(marked.starts == marked.ends)
    if len(empty):
        errors = MessageErrors()
        errors.add(empty, ErrorColumns.of(len(empty), "the message is empty", _EMPTY, offset=0))
        raise BadMessagesError(errors)


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


def _without_rfh(messages: MessageBatch, data: Octets) -> MessageBatch:
    """Skip the MQRFH2 headers of publications in format J (IBMQREP_SENDQUEUES, MESSAGE_FORMAT)."""
    first = data[messages.starts[messages.ends > messages.starts]]
    if not np.isin(first, [name[0] for name in STRUCTURE_IDS]).any():
        return messages
    starts, errors = messages.starts.copy(), dict(_headers(messages, data))
    bad = {at: length for at, length in errors.items() if isinstance(length, TrailgateError)}
    if bad:
        raise BadMessagesError(bad)
    for at, length in errors.items():
        assert isinstance(length, int)
        starts[at] += length
    return replace(messages, starts=starts)


def _headers(messages: MessageBatch, data: Octets) -> Iterator[tuple[int, int | TrailgateError]]:
    """Yield the number of each publication with MQRFH2 headers, and their total length or an error."""
    bounds = zip(messages.starts.tolist(), messages.ends.tolist(), strict=True)
    for at, (begin, end) in enumerate(bounds):
        if data[begin : begin + 4].tobytes() not in STRUCTURE_IDS:
            continue
        try:
            yield at, without_headers(data[begin:end].tobytes())[0]
        except DecodeError as error:
            yield at, error
