"""Tokens, the building blocks of a trail: their frame, their ids, and the byte order of their numbers.

A token is id u8, info u8, length u16 and payload (trail format §2): ``44 00 00 02 41 42`` is a
token D with the payload "AB". The length of an outer object (F or G) counts the complete object
with its trailer Z; the length of an inner token counts the payload only. Lengths, indexes and
header integers are in the trail's byte order, which is detected once per file. Binary column values
are always big-endian (trail format §3).

User tokens, the payload of U, are the names and values that TOKENS in a TABLE clause adds to
records. Assumed: name, NUL, value, NUL, repeated; only the limits are public (trail format §9). A
payload that does not fit this layout is shown in hex.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

import numpy.typing as npt

from trailgate.arrays import BIG_ENDIAN, LITTLE_ENDIAN, Octets
from trailgate.columnar.gather import sliding_words
from trailgate.errors import DecodeError, EncodeError, Where
from trailgate.options import NamedValues

FRAME: Final = 4  # bytes before a payload
MAX_LENGTH: Final = 0xFFFF  # a length is u16

FILE_HEADER, RECORD, TRAILER = b"FGZ"
HEADER, DATA, GGS_TOKENS, USER_TOKENS = b"HDTU"
LOGCSN, TRANID, ORAROWID, ORATAG, DDL = b"L6RtD"

NORMAL: Final = 0x00  # info of inner tokens and of the file header
RECORD_INFO: Final = 0x01  # info of G and its Z (trail format §2)
# 00: in a sample from before release 10. 03: marks a repaired record, according to one decoder.
RECORD_INFOS: Final = frozenset((0x00, RECORD_INFO, 0x03))
UNSET: Final = 0xFF  # info of a file header field whose value is not known yet

MAX_BYTES: Final = 2000  # of all user tokens of a record (OGG-01397)
MAX_NAME: Final = 256
TX_OWNER: Final = "TX_OWNER"  # tokens that fill the columns tx_owner and tx_name (decision 0021)
TX_NAME: Final = "TX_NAME"
UNREAD: Final = "USER"  # the name shown for a payload that does not fit the assumed layout


class ByteOrder(NamedValues):
    """The byte order of a trail's numbers.

    It is big-endian before 19c; little-endian was seen in some later trails.
    """

    BIG = BIG_ENDIAN
    LITTLE = LITTLE_ENDIAN

    @property
    def label(self) -> Literal["big", "little"]:
        """The byte order as "big" or "little", as printed and as ``int.to_bytes`` expects it."""
        return "big" if self is ByteOrder.BIG else "little"

    def words(self, data: Octets, kind: str) -> npt.NDArray[Any]:
        """Return one word of type ``kind`` per byte offset, in the trail's byte order (see ``trailgate.arrays.sliding_words``).

        With "u2" and big-endian bytes 01 02 03, word 0 is 0x0102 and word 1 is 0x0203.
        """
        return sliding_words(data, kind, self.value)

    def pair(self, first: int, second: npt.NDArray[Any] | int) -> npt.NDArray[Any] | int:
        """Combine two u16 numbers, or arrays of them, into the u32 that ``words`` reads if they follow each other in the trail."""
        return (first << 16) + second if self is ByteOrder.BIG else (second << 16) + first

    def number(self, raw: bytes) -> int:
        """Return the unsigned number in ``raw``, which may have any width, in the trail's byte order."""
        return int.from_bytes(raw, "big" if self is ByteOrder.BIG else "little")

    def raw(self, number: int, width: int) -> bytes:
        """Encode an unsigned number in ``width`` bytes, in the trail's byte order."""
        return number.to_bytes(width, self.label)


class GgsTokenRow(NamedTuple):
    """One GGS token, such as LOGCSN: its id in a record's token area, its name in Logdump, and whether it is text.

    If only the first bytes of the payload are text, ``text_bytes`` is their number. Tokens that are
    not text are printed in hex.
    """

    code: int
    name: str
    text_bytes: int | None = None  # None: the whole payload
    is_text: bool = True


# trail format §9. A ROWID has 18 characters and two more bytes (00 01) of unknown meaning.
GGS_TOKEN_ROWS: Final = (
    GgsTokenRow(LOGCSN, "LOGCSN"),
    GgsTokenRow(TRANID, "TRANID"),
    GgsTokenRow(ORAROWID, "ORAROWID", 18),
    GgsTokenRow(ORATAG, "ORATAG", is_text=False),  # inferred: the raw bytes of the redo tag
    GgsTokenRow(DDL, "DDL"),
)
# By the byte that identifies a token.
GGS_TOKENS_BY_ID: Final[Mapping[int, GgsTokenRow]] = MappingProxyType(
    {row.code: row for row in GGS_TOKEN_ROWS}
)


def token_name(code: int) -> str:
    """Return the name of a GGS token, or "x" and its id in hex (such as "x42") if the id is not documented."""
    row = GGS_TOKENS_BY_ID.get(code)
    return row.name if row else f"x{code:02x}"


def token(code: int, payload: bytes, info: int = NORMAL, order: ByteOrder = ByteOrder.BIG) -> bytes:
    """Encode an inner token of a trail. Its length counts the payload only."""
    return bytes((code, info)) + order.raw(len(payload), 2) + payload


def encode_outer_object(
    code: int, inner: bytes, info: int, order: ByteOrder = ByteOrder.BIG
) -> bytes:
    """Encode a trail's F or G object around its inner tokens. Its length counts the complete object."""
    length = order.raw(len(inner) + 2 * FRAME, 2)
    return bytes((code, info)) + length + inner + bytes((TRAILER, info)) + length


def decode_user_tokens(payload: bytes) -> list[tuple[str, str]] | None:
    """Decode the names and values of user tokens in order, or return None if the assumed layout does not fit."""
    # b"K\x0042\x00" splits into K, 42 and an empty last part, so the number of parts is odd.
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


def encode_user_tokens(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Encode the names and values of user tokens as the payload of a U token: the reverse of `decode_user_tokens`.

    Raises EncodeError if a name or value does not fit.
    """
    payload = b""
    for name, value in pairs:
        where = Where(field=name)
        if "\0" in name + value:
            raise EncodeError("a user token cannot hold a NUL", where=where)
        if not 0 < len(name.encode()) <= MAX_NAME:
            raise EncodeError(f"a user token's name must have 1 to {MAX_NAME} bytes", where=where)
        payload += name.encode() + b"\0" + value.encode() + b"\0"
    if len(payload) > MAX_BYTES:
        problem = f"user tokens of {len(payload)} bytes: a record may have at most {MAX_BYTES}"
        raise EncodeError(problem)
    return payload


class TokenSpan(NamedTuple):
    """A token of a trail in a byte string: its id, its info byte, and the span of its payload."""

    code: int
    info: int
    start: int
    end: int


def find_tokens(raw: bytes, order: ByteOrder) -> tuple[list[TokenSpan], str]:
    """Find the tokens (id, info, length, payload) that fill ``raw``, a part of a trail.

    Returns them, and the problem at which the search stopped or "".

    For example ``48 00 00 01 45`` is a token 48 whose payload is byte 4.
    """
    tokens: list[TokenSpan] = []
    offset = 0
    while offset < len(raw):
        start = offset + FRAME
        if start > len(raw):
            return tokens, "a token does not fit into the one around it"
        end = start + order.number(raw[offset + 2 : start])
        if end > len(raw):
            problem = f"a token of {end - start} bytes is longer than the one around it"
            return tokens, problem
        tokens.append(TokenSpan(raw[offset], raw[offset + 1], start, end))
        offset = end
    return tokens, ""


@dataclass(frozen=True, slots=True)
class RecordToken:
    """One token of a trail: its id, its info byte and its payload."""

    code: int
    payload: bytes
    info: int = NORMAL


def read_tokens_between(
    raw: Octets, span: tuple[int, int], order: ByteOrder, base: int = 0
) -> list[tuple[RecordToken, int]]:
    """Return the trail tokens that fill the bytes [start, end) of ``raw``, each with the offset of its payload.

    Raises DecodeError if they do not fill them exactly; ``base`` is the offset of ``raw`` in the
    file.
    """
    begin, stop = span
    tokens, problem = find_tokens(raw[begin:stop].tobytes(), order)
    if problem:
        start = begin + (tokens[-1].end if tokens else 0)
        where = Where(offset=base + start, raw=raw[start:stop].tobytes())
        raise DecodeError(problem, where=where)
    return [
        (
            RecordToken(one.code, raw[begin + one.start : begin + one.end].tobytes(), one.info),
            begin + one.start,
        )
        for one in tokens
    ]
