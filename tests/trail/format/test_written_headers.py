"""File headers in either byte order, and every field that is printed somewhere."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trailgate.errors import DecodeError, TruncatedError
from trailgate.trail.format.file_header import (
    GROUPS,
    FileHeader,
    TrailInfo,
    UnknownHeaderField,
    decode_header,
    encode_header,
)
from trailgate.trail.format.tokens import FILE_HEADER, ByteOrder, encode_outer_object, token
from trailgate.trail.writing.file_headers import encode_header_patches

FIELDS = tomllib.loads((Path(__file__).parents[1] / "cases/headers/fields.toml").read_text())[
    "field"
]
BIG, LITTLE = ByteOrder.BIG, ByteOrder.LITTLE
LEVEL_5 = FileHeader(TrailInfo(compatibility=5, uri="uri:a", filename="aa000000000"))


def marked(field: dict[str, Any]) -> Any:
    marks = [pytest.mark.assumed] if field.get("assumed") else []
    return pytest.param(field, id=field["why"], marks=marks)


@pytest.mark.parametrize("field", [marked(field) for field in FIELDS])
def test_a_printed_field_reads_and_writes_as_its_case(field: dict[str, Any]) -> None:
    raw = bytes.fromhex(field["bytes"]) + bytes(field.get("zeros", 0))
    group = next(group for group in GROUPS if group.name == field["group"])
    value = bytes.fromhex(field["hex"]) if "hex" in field else field.get("value")
    value = tuple(field["list"]) if "list" in field else value

    header, _ = decode_header(encode_outer_object(FILE_HEADER, token(group.code, raw), 0))

    assert getattr(getattr(header, group.name), field["field"]) == value
    assert raw in encode_header(header)


def test_a_little_endian_header_turns_every_number() -> None:
    data = encode_header(replace(LEVEL_5, order=LITTLE))

    length = len(data).to_bytes(2, "little")
    assert data.startswith(b"F\0" + length + b"0\0")
    assert data.endswith(b"Z\0" + length)
    # The signature stands at offset 12, as in any header (trail format §4.7).
    assert data[8:20] == bytes.fromhex("30 00 08 00 47 47 0D 0A 54 4C 0A 0D")
    assert bytes.fromhex("31 00 02 00 05 00 32 00 04 00 00 00 00 20") in data
    assert b"4\0\7\0\5\0uri:a" in data
    assert decode_header(data) == (replace(LEVEL_5, order=LITTLE), len(data))


@pytest.mark.parametrize("order", ByteOrder)
def test_unknown_fields_and_groups_are_kept_in_either_order(order: ByteOrder) -> None:
    unknown = (
        UnknownHeaderField(0x30, 0x3F, 0, b"\1\2"),
        UnknownHeaderField(0x32, 0x3D, 0, b"\0\1Z"),
    )
    header = replace(
        LEVEL_5, order=order, unknown=(*unknown, UnknownHeaderField(0x35, None, 1, b"\0"))
    )

    assert decode_header(encode_header(header))[0] == header


@pytest.mark.parametrize(("level", "size"), [(1, 0), (3, 0), (4, 133), (7, 133)])
def test_a_header_of_level_4_has_a_place_for_logbsn(level: int, size: int) -> None:
    def length(level: int) -> int:
        return len(encode_header(FileHeader(TrailInfo(compatibility=level))))

    assert length(level) - length(3) == size


@pytest.mark.parametrize("order", ByteOrder)
def test_a_file_of_level_5_is_closed_in_place(order: ByteOrder) -> None:
    opened = replace(LEVEL_5, order=order)
    trail = replace(opened.trail, seqno=3, file_size=900, last_csn="77", log_bsn="70")
    closed = replace(opened, trail=trail)
    data = bytearray(encode_header(opened))

    for offset, patch in encode_header_patches(closed):
        data[offset : offset + len(patch)] = patch

    assert bytes(data) == encode_header(closed)


@pytest.mark.parametrize("order", ByteOrder)
@pytest.mark.parametrize("length", [1, 3, 4, 7, 100])
def test_an_unfinished_header_of_either_order_is_truncated(order: ByteOrder, length: int) -> None:
    with pytest.raises(TruncatedError):
        decode_header(encode_header(replace(LEVEL_5, order=order))[:length])


def test_a_damaged_length_is_reported_even_in_a_short_file() -> None:
    data = bytearray(encode_header(LEVEL_5))
    data[3] += 1

    with pytest.raises(DecodeError, match="does not repeat its length") as caught:
        decode_header(bytes(data) + bytes(2))

    assert not isinstance(caught.value, TruncatedError)
