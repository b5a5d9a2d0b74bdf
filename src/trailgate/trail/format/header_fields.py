"""How the fields of a file header hold their values: one codec row each, both directions.

A string is a u16 length and its bytes (trail format §4). Numbers are big-endian in every printed
header; in a little-endian trail they are assumed to be little-endian, as the lengths are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from trailgate.errors import DecodeError, EncodeError
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.times import julian_from_unix, unix_from_julian
from trailgate.trail.format.tokens import FRAME, MAX_LENGTH, token

CSN_BYTES: Final = 129  # u8 text length, the text, zeros up to 128 (trail format §4.1)


class FieldCodec(NamedTuple):
    """Both directions of one kind of field, and its bytes while the value is not known yet."""

    encode: Callable[[Any, ByteOrder], bytes]
    decode: Callable[[bytes, ByteOrder], Any]
    unset: bytes = b""


def _integer(width: int, *, signed: bool = False) -> FieldCodec:
    def encode(value: int, order: ByteOrder) -> bytes:
        try:
            return value.to_bytes(width, order.label, signed=signed)
        except OverflowError:
            raise EncodeError(f"{value} does not fit in {width} bytes") from None

    def decode(payload: bytes, order: ByteOrder) -> int:
        if len(payload) != width:
            raise DecodeError(f"{width} bytes expected, {len(payload)} found")
        return int.from_bytes(payload, order.label, signed=signed)

    return FieldCodec(encode, decode, bytes(width))


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise DecodeError("text is not UTF-8") from None


def _encode_string(value: str, order: ByteOrder) -> bytes:
    raw = value.encode()
    if len(raw) > MAX_LENGTH - 2:
        raise EncodeError(f"a text of {len(raw)} bytes is too long for the file header")
    return order.raw(len(raw), 2) + raw


def _decode_string(payload: bytes, order: ByteOrder) -> str:
    if len(payload) < 2 or order.number(payload[:2]) != len(payload) - 2:
        raise DecodeError(f"a string's length does not agree with its token of {len(payload)}")
    return _text(payload[2:])


def _encode_time(value: int, order: ByteOrder) -> bytes:
    return _LONG.encode(julian_from_unix(value), order)


def _decode_time(payload: bytes, order: ByteOrder) -> int:
    return unix_from_julian(_LONG.decode(payload, order))


def _encode_csn(value: str, _: ByteOrder) -> bytes:
    raw = value.encode()
    if len(raw) >= CSN_BYTES:
        raise EncodeError(f"a CSN of {len(raw)} bytes is too long for the file header")
    return (bytes((len(raw),)) + raw).ljust(CSN_BYTES, b"\0")


def _decode_csn(payload: bytes, _: ByteOrder) -> str:
    if len(payload) != CSN_BYTES:
        raise DecodeError(f"{CSN_BYTES} bytes expected, {len(payload)} found")
    length = payload[0]
    if length >= CSN_BYTES or any(payload[1 + length :]):
        raise DecodeError("a CSN's length does not agree with its text")
    return _text(payload[1 : 1 + length])


# trail format §4.1: URIHistory nests tokens of its own id, each a string.
HISTORY_ID: Final = 0x35


def _encode_history(value: tuple[str, ...], order: ByteOrder) -> bytes:
    parts = (token(HISTORY_ID, _encode_string(uri, order), order=order) for uri in value)
    return b"".join(parts)


def _decode_history(payload: bytes, order: ByteOrder) -> tuple[str, ...]:
    uris = []
    place = 0
    while place < len(payload):
        length = order.number(payload[place + 2 : place + FRAME])
        end = place + FRAME + length
        if end > len(payload) or payload[place] != HISTORY_ID:
            raise DecodeError("the URI history does not fill its token")
        uris.append(_decode_string(payload[place + FRAME : end], order))
        place = end
    return tuple(uris)


def _encode_counted(value: bytes, order: ByteOrder) -> bytes:
    return order.raw(len(value), 4) + value


def _decode_counted(payload: bytes, order: ByteOrder) -> bytes:
    if len(payload) < 4 or order.number(payload[:4]) != len(payload) - 4:
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
STRING: Final = FieldCodec(_encode_string, _decode_string)
TIME: Final = FieldCodec(_encode_time, _decode_time, bytes(8))
CSN: Final = FieldCodec(_encode_csn, _decode_csn, bytes(CSN_BYTES))
HISTORY: Final = FieldCodec(_encode_history, _decode_history)
COUNTED: Final = FieldCodec(_encode_counted, _decode_counted)
RAW: Final = FieldCodec(lambda value, _: bytes(value), lambda payload, _: payload)
