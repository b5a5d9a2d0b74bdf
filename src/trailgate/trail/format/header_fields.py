"""The codecs of the fields of a file header (integers, strings, times, CSNs and the history of URIs, trail format §4.1), and the time stamps in all headers (§6).

A string is a u16 length and its bytes. A CSN has a fixed size: the length of its text in one byte,
then text and zeros. ``file_header`` names the codec of each field in its tables. Time stamps, in
the file header and in record headers, are microseconds since Julian Date 0.0, UTC. For example,
2024-01-01 00:00 UTC is Julian Date 2460310.5, which is 212570827200000000 microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from trailgate.errors import DecodeError, EncodeError
from trailgate.trail.format.tokens import FRAME, MAX_LENGTH, ByteOrder, token

# trail format §6: unix_microseconds = value - 210866760000000000 (JD 2440587.5 * 86400 * 10^6)
JULIAN_EPOCH: Final = 210_866_760_000_000_000
CSN_BYTES: Final = 129  # u8 length of the text, then 128 bytes: text and zeros (trail format §4.1)
# trail format §4.1: URIHistory nests tokens with the same id as itself, each a string.
HISTORY_ID: Final = 0x35


def julian_from_unix(microseconds: int) -> int:
    """Convert microseconds since 1970 UTC to the time stamp of a record or file header (microseconds since Julian Date 0.0)."""
    return microseconds + JULIAN_EPOCH


def unix_from_julian(microseconds: int) -> int:
    """Convert the time stamp of a record or file header (microseconds since Julian Date 0.0) to microseconds since 1970 UTC."""
    return microseconds - JULIAN_EPOCH


def format_iso_time(microseconds: int) -> str:
    """Format the time of a record or file header (microseconds since 1970 UTC) in ISO form, or as a number if it is out of range."""
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    except OverflowError:
        return f"{microseconds} microseconds since 1970"
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


class HeaderFieldCodec(NamedTuple):
    """The encoder and decoder of one type of file header field.

    ``unset`` is the payload if the value is unknown; if it is empty, such a field is omitted.
    """

    encode: Callable[[Any, ByteOrder], bytes]
    decode: Callable[[bytes, ByteOrder], Any]
    unset: bytes = b""


def _integer(width: int, *, signed: bool = False) -> HeaderFieldCodec:
    def encode(value: int, order: ByteOrder) -> bytes:
        try:
            return value.to_bytes(width, order.label, signed=signed)
        except OverflowError:
            raise EncodeError(f"{value} does not fit in {width} bytes") from None

    def decode(payload: bytes, order: ByteOrder) -> int:
        if len(payload) != width:
            raise DecodeError(f"{width} bytes expected, {len(payload)} found")
        return int.from_bytes(payload, order.label, signed=signed)

    return HeaderFieldCodec(encode, decode, bytes(width))


_LONG: Final = _integer(8, signed=True)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise DecodeError("a string of the file header is not UTF-8") from None


def _encode_string(value: str, order: ByteOrder) -> bytes:
    raw = value.encode()
    if len(raw) > MAX_LENGTH - 2:
        raise EncodeError(f"a text of {len(raw)} bytes is too long for the file header")
    return order.raw(len(raw), 2) + raw


def _decode_string(payload: bytes, order: ByteOrder) -> str:
    if len(payload) < 2 or order.number(payload[:2]) != len(payload) - 2:
        raise DecodeError(
            f"a string's length does not agree with its token of {len(payload)} bytes"
        )
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


def _encode_history(value: tuple[str, ...], order: ByteOrder) -> bytes:
    parts = (token(HISTORY_ID, _encode_string(uri, order), order=order) for uri in value)
    return b"".join(parts)


def _decode_history(payload: bytes, order: ByteOrder) -> tuple[str, ...]:
    uris = []
    offset = 0
    while offset < len(payload):
        length = order.number(payload[offset + 2 : offset + FRAME])
        end = offset + FRAME + length
        if end > len(payload) or payload[offset] != HISTORY_ID:
            raise DecodeError("the URI history does not fill its token")
        uris.append(_decode_string(payload[offset + FRAME : end], order))
        offset = end
    return tuple(uris)


def _encode_counted(value: bytes, order: ByteOrder) -> bytes:
    return order.raw(len(value), 4) + value


def _decode_counted(payload: bytes, order: ByteOrder) -> bytes:
    if len(payload) < 4 or order.number(payload[:4]) != len(payload) - 4:
        raise DecodeError("a byte string's length does not agree with its token")
    return payload[4:]


U8, U16, U32, U64, I32 = (
    _integer(1),
    _integer(2),
    _integer(4),
    _integer(8),
    _integer(4, signed=True),
)
STRING: Final = HeaderFieldCodec(_encode_string, _decode_string)
TIME: Final = HeaderFieldCodec(_encode_time, _decode_time, bytes(8))
CSN: Final = HeaderFieldCodec(_encode_csn, _decode_csn, bytes(CSN_BYTES))
HISTORY: Final = HeaderFieldCodec(_encode_history, _decode_history)
COUNTED: Final = HeaderFieldCodec(_encode_counted, _decode_counted)
RAW: Final = HeaderFieldCodec(lambda value, _: bytes(value), lambda payload, _: payload)
