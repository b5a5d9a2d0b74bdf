"""Tokens: the four-byte frame of everything in a trail, the tables of their ids, and the byte order of a trail.

A token is id u8, info u8, length u16, payload (trail format §2). The length of F and G counts
the whole object with its trailer Z; that of every inner token counts the payload only. Lengths, indexes and header integers are in the trail's order, which is chosen
once a file; binary column values are always big-endian (trail format §3).

User tokens, the payload of U, are names and values that a TABLE clause's TOKENS adds to records. Assumed: name, NUL, value, NUL, repeated; only the limits are
public (trail format §9). What does not fit is kept in hex.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

import numpy.typing as npt

from trailgate.arrays import Octets
from trailgate.columnar.rows import BIG_ENDIAN, LITTLE_ENDIAN, words
from trailgate.errors import EncodeError, Where


class ByteOrder(Enum):
    """Big-endian trails are the default before 19c, little-endian ones observed from there on."""

    BIG = BIG_ENDIAN
    LITTLE = LITTLE_ENDIAN

    @property
    def label(self) -> Literal["big", "little"]:
        """Return the name for people and for ``int.to_bytes``."""
        return "big" if self is ByteOrder.BIG else "little"

    def words(self, data: Octets, kind: str) -> npt.NDArray[Any]:
        """Return one word of this order for every byte offset (see ``columnar.views.words``)."""
        return words(data, kind, self.value)

    def pair(self, first: int, second: npt.NDArray[Any] | int) -> npt.NDArray[Any] | int:
        """Return four bytes that hold two u16 numbers, to be compared with ``words`` of four bytes."""
        return (first << 16) + second if self is ByteOrder.BIG else (second << 16) + first

    def number(self, raw: bytes) -> int:
        """Return an unsigned number of any width."""
        return int.from_bytes(raw, "big" if self is ByteOrder.BIG else "little")

    def raw(self, number: int, width: int) -> bytes:
        """Return an unsigned number as bytes."""
        return number.to_bytes(width, self.label)


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


MAX_BYTES: Final = 2000  # of all of a record (OGG-01397)
MAX_NAME: Final = 256
TX_OWNER: Final = "TX_OWNER"  # tokens that fill the columns tx_owner and tx_name (decision 0021)
TX_NAME: Final = "TX_NAME"
UNREAD: Final = "USER"  # what tokens are called that do not fit the assumed layout


def read_user_tokens(payload: bytes) -> list[tuple[str, str]] | None:
    """Return names and values in order; None where the payload does not fit the assumed layout."""
    parts = payload.split(b"\0")
    if len(payload) > MAX_BYTES or len(parts) % 2 == 0 or parts.pop():
        return None
    names, values = parts[0::2], parts[1::2]
    if not all(0 < len(name) <= MAX_NAME for name in names):
        return None
    try:
        return [(n.decode(), v.decode()) for n, v in zip(names, values, strict=True)]
    except UnicodeDecodeError:
        return None


def user_token_bytes(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Return the payload of U; raises EncodeError for what does not fit it."""
    payload = b""
    for name, value in pairs:
        where = Where(field=name)
        if "\0" in name + value:
            raise EncodeError("a user token cannot hold a NUL", where=where)
        if not 0 < len(name.encode()) <= MAX_NAME:
            raise EncodeError(f"a user token's name has 1 to {MAX_NAME} bytes", where=where)
        payload += name.encode() + b"\0" + value.encode() + b"\0"
    if len(payload) > MAX_BYTES:
        problem = f"user tokens of {len(payload)} bytes: a record has at most {MAX_BYTES}"
        raise EncodeError(problem)
    return payload


class TokenPlace(NamedTuple):
    """A token in bytes: its id, its info byte, and where its payload starts and ends."""

    code: int
    info: int
    start: int
    end: int


def find_tokens(raw: bytes, order: ByteOrder) -> tuple[list[TokenPlace], str]:
    """Return the tokens that fill bytes, one after another, and what is wrong with those after the last one; empty where nothing is.

    As an example, 48 00 00 01 45 is a token 48 whose payload is byte 4.
    """
    found: list[TokenPlace] = []
    place = 0
    while place < len(raw):
        start = place + FRAME
        if start > len(raw):
            return found, "a token does not fit into the one around it"
        end = start + order.number(raw[place + 2 : start])
        if end > len(raw):
            problem = f"a token of {end - start} bytes is longer than the one around it"
            return found, problem
        found.append(TokenPlace(raw[place], raw[place + 1], start, end))
        place = end
    return found, ""
