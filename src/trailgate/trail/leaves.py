"""How the leaves of a file header hold their values: one codec row each, both directions.

Integers are big-endian; a string is a u16 length and its bytes (format notes 4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from trailgate.errors import DecodeError, EncodeError
from trailgate.trail.times import julian_from_unix, unix_from_julian
from trailgate.trail.tokens import FRAME, MAX_LENGTH, token

CSN_BYTES: Final = 129  # u8 text length, the text, zeros up to 128 (format notes 4.1)


class LeafCodec(NamedTuple):
    """Both directions of one kind of leaf, and its bytes while the value is not known yet."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    unset: bytes = b""


def _integer(width: int, *, signed: bool = False) -> LeafCodec:
    def encode(value: int) -> bytes:
        try:
            return value.to_bytes(width, "big", signed=signed)
        except OverflowError:
            raise EncodeError(f"{value} does not fit in {width} bytes") from None

    def decode(payload: bytes) -> int:
        _expect(payload, width)
        return int.from_bytes(payload, "big", signed=signed)

    return LeafCodec(encode, decode, bytes(width))


def _expect(payload: bytes, width: int) -> None:
    if len(payload) != width:
        raise DecodeError(f"{width} bytes expected, {len(payload)} found")


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise DecodeError("text is not UTF-8") from None


def _encode_string(value: str) -> bytes:
    raw = value.encode()
    if len(raw) > MAX_LENGTH - 2:
        raise EncodeError(f"a text of {len(raw)} bytes is too long for the file header")
    return len(raw).to_bytes(2, "big") + raw


def _decode_string(payload: bytes) -> str:
    if len(payload) < 2 or int.from_bytes(payload[:2], "big") != len(payload) - 2:
        raise DecodeError(f"a string's length does not agree with its token of {len(payload)}")
    return _text(payload[2:])


def _encode_time(value: int) -> bytes:
    return _LONG.encode(julian_from_unix(value))


def _decode_time(payload: bytes) -> int:
    return unix_from_julian(_LONG.decode(payload))


def _encode_csn(value: str) -> bytes:
    raw = value.encode()
    if len(raw) >= CSN_BYTES:
        raise EncodeError(f"a CSN of {len(raw)} bytes is too long for the file header")
    return (bytes((len(raw),)) + raw).ljust(CSN_BYTES, b"\0")


def _decode_csn(payload: bytes) -> str:
    _expect(payload, CSN_BYTES)
    length = payload[0]
    if length >= CSN_BYTES or any(payload[1 + length :]):
        raise DecodeError("a CSN's length does not agree with its text")
    return _text(payload[1 : 1 + length])


# Format notes 4.1: URIHistory nests tokens of its own id, each a string.
HISTORY_ID: Final = 0x35


def _encode_history(value: tuple[str, ...]) -> bytes:
    return b"".join(token(HISTORY_ID, _encode_string(uri)) for uri in value)


def _decode_history(payload: bytes) -> tuple[str, ...]:
    uris = []
    place = 0
    while place < len(payload):
        length = int.from_bytes(payload[place + 2 : place + FRAME], "big")
        end = place + FRAME + length
        if end > len(payload) or payload[place] != HISTORY_ID:
            raise DecodeError("the URI history does not fill its token")
        uris.append(_decode_string(payload[place + FRAME : end]))
        place = end
    return tuple(uris)


def _encode_counted(value: bytes) -> bytes:
    return len(value).to_bytes(4, "big") + value


def _decode_counted(payload: bytes) -> bytes:
    if len(payload) < 4 or int.from_bytes(payload[:4], "big") != len(payload) - 4:
        raise DecodeError("a byte string's length does not agree with its token")
    return payload[4:]


_LONG: Final = _integer(8, signed=True)
U8, U16, U32, U64, I32 = (
    _integer(1),
    _integer(2),
    _integer(4),
    _integer(8),
    _integer(4, signed=True),
)
STRING: Final = LeafCodec(_encode_string, _decode_string)
TIME: Final = LeafCodec(_encode_time, _decode_time, bytes(8))
CSN: Final = LeafCodec(_encode_csn, _decode_csn, bytes(CSN_BYTES))
HISTORY: Final = LeafCodec(_encode_history, _decode_history)
COUNTED: Final = LeafCodec(_encode_counted, _decode_counted)
RAW: Final = LeafCodec(bytes, bytes)
