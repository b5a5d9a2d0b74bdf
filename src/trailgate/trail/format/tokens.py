"""Tokens: the four-byte frame of everything in a trail, and the tables of their ids.

A token is id u8, info u8, length u16, payload (trail format §2). The length of F and G counts
the whole object with its trailer Z; that of every inner token counts the payload only.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.trail.format.byte_order import ByteOrder

FRAME: Final = 4  # bytes before a payload
MAX_LENGTH: Final = 0xFFFF  # a length is u16

FILE_HEADER, RECORD, TRAILER = b"FGZ"
HEADER, DATA, GGS_TOKENS, USER_TOKENS = b"HDTU"
LOGCSN, TRANID, ORAROWID, ORATAG, DDL = b"L6RtD"

NORMAL: Final = 0x00  # info of inner tokens and of the file header
RECORD_INFO: Final = 0x01  # info of G and its Z (trail format §2)
# 00 in a sample from before release 10; 03 marks a repaired record, as one decoder has it.
RECORD_INFOS: Final = frozenset((0x00, RECORD_INFO, 0x03))
UNSET: Final = 0xFF  # info of a file header field whose value is not known yet


class TokenRow(NamedTuple):
    """One GGS token: its id in T, its name in Logdump, how many payload bytes are its text.

    A token that is not text is shown in hex.
    """

    code: int
    name: str
    text_bytes: int | None = None  # None: the whole payload
    is_text: bool = True


# trail format §9. A ROWID has 18 characters and two more bytes (00 01) of unknown meaning.
GGS_TOKEN_ROWS: Final = (
    TokenRow(LOGCSN, "LOGCSN"),
    TokenRow(TRANID, "TRANID"),
    TokenRow(ORAROWID, "ORAROWID", 18),
    TokenRow(ORATAG, "ORATAG", is_text=False),  # inferred: the raw bytes of the redo tag
    TokenRow(DDL, "DDL"),
)
GGS_TOKENS_BY_ID: Final[Mapping[int, TokenRow]] = MappingProxyType(
    {row.code: row for row in GGS_TOKEN_ROWS}
)


def token_name(code: int) -> str:
    """Return the name of a GGS token; "x" and its id in hex where the id is not public."""
    row = GGS_TOKENS_BY_ID.get(code)
    return row.name if row else f"x{code:02x}"


def token(code: int, payload: bytes, info: int = NORMAL, order: ByteOrder = ByteOrder.BIG) -> bytes:
    """Return an inner token; its length counts the payload only."""
    return bytes((code, info)) + order.raw(len(payload), 2) + payload


def outer_object(code: int, inner: bytes, info: int, order: ByteOrder = ByteOrder.BIG) -> bytes:
    """Return an F or G object around its inner tokens; its length counts all of it."""
    length = order.raw(len(inner) + 2 * FRAME, 2)
    return bytes((code, info)) + length + inner + bytes((TRAILER, info)) + length
