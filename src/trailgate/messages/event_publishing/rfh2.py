"""MQRFH2 headers before a message's data (event publishing §1: message format J).

The layout is WebSphere MQ's: ``RFH ``, version, length of the structure, encoding and coded character set of the data that
follow, format, flags, and character set and values of names. Integers are in either byte order.
"""

from __future__ import annotations

import struct
from typing import Final

from trailgate.errors import DecodeError, Where

STRUCTURE_IDS: Final = (b"RFH ", "RFH ".encode("cp037"))
_FIXED: Final = 36  # bytes of a version 2 header before its names and values
_VERSION: Final = 2
_LENGTH_AT, _SET_AT = 8, 16


def without_headers(body: bytes) -> tuple[int, int | None]:
    """Return where a message's data begin, and their coded character set identifier (CCSID) if a header has one.

    Raises DecodeError for a header that is not whole.
    """
    at, character_set = 0, None
    while body[at : at + 4] in STRUCTURE_IDS:
        order = _byte_order(body, at)
        if order is None:
            raise _broken("the version of the MQRFH2 header is not 2", body, at)
        length, own = (
            struct.unpack_from(f"{order}i", body, at + place)[0] for place in (_LENGTH_AT, _SET_AT)
        )
        if length < _FIXED or at + length > len(body):
            raise _broken(f"the MQRFH2 header has a length of {length} bytes", body, at)
        character_set = own if own > 0 else character_set
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
