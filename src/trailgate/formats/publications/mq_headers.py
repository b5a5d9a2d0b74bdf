"""Skip MQ's header before event publications.

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

from trailgate.arrays import Octets
from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.records import BadMessagesError

STRUCTURE_IDS: Final = (b"RFH ", "RFH ".encode("cp037"))
_FIXED: Final = 36  # bytes of a version 2 header before its names and values
_VERSION: Final = 2
_LENGTH_AT = 8
_SET_AT = 16


def measure_headers(body: bytes) -> tuple[int, int | None]:
    """Return the size of the MQRFH2 headers before an event publication, and the character set that they state.

    The size is the offset of the message's data. The character set (CCSID) is None if no header
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


def skip_headers(messages: MessageBatch, data: Octets) -> MessageBatch:
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
            yield at, measure_headers(data[begin:end].tobytes())[0]
        except DecodeError as error:
            yield at, error
