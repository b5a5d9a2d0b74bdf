"""The file header: the printed one byte for byte, and what is changed when a file is closed."""

from __future__ import annotations

import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from trailgate.errors import DecodeError, EncodeError, TrailgateError, TruncatedError
from trailgate.trail.format.file_header import (
    GROUPS,
    FileHeader,
    TrailInfo,
    UnknownHeaderField,
    decode_header,
    encode_header,
)
from trailgate.trail.writing.file_headers import encode_header_patches

CASE = tomllib.loads((Path(__file__).parents[1] / "cases/headers/oracle-11-2.toml").read_text())


def field_bytes(field: dict[str, Any]) -> bytes:
    payload = bytes.fromhex(field.get("hex", "")) + bytes(field.get("zeros", 0))
    if "text" in field:
        payload = len(field["text"]).to_bytes(2, "big") + field["text"].encode()
    return bytes((field["id"], field.get("info", 0))) + len(payload).to_bytes(2, "big") + payload


def case_bytes() -> bytes:
    inner = b""
    for group in CASE["group"]:
        payload = b"".join(field_bytes(field) for field in group["fields"])
        assert len(payload) == group["length"], group["id"]
        inner += bytes((group["id"], 0)) + len(payload).to_bytes(2, "big") + payload
    frame = b"\0" + (len(inner) + 8).to_bytes(2, "big")
    return b"F" + frame + inner + b"Z" + frame


def test_the_printed_header_is_read_and_written_byte_for_byte() -> None:
    data = case_bytes()
    assert len(data) == CASE["length"]
    assert data.startswith(bytes.fromhex(CASE["begins"]))

    header, length = decode_header(data + b"more")

    assert length == CASE["length"]
    assert encode_header(header) == data
    for group, expected in CASE["expect"].items():
        values = getattr(header, group)
        assert {name: getattr(values, name) for name in expected} == expected
    trail = header.trail
    assert (trail.file_size, trail.last_csn, trail.last_io_time) == (None, None, None)


def test_every_field_has_a_field() -> None:
    for group in GROUPS:
        assert [field.name for field in group.fields] == [row.name for row in fields(group.kind)]


def test_a_file_is_closed_in_place() -> None:
    opened, _ = decode_header(case_bytes())
    closed = replace(
        opened,
        trail=replace(
            opened.trail,
            filename="/home/oracle/goldengate/dirdat/ex000017",
            seqno=17,
            file_size=99_998_618,
            last_csn="1145099",
            last_io_time=1362655718000000,
        ),
    )
    data = bytearray(encode_header(opened))

    for offset, patch in encode_header_patches(closed):
        data[offset : offset + len(patch)] = patch

    assert bytes(data) == encode_header(closed)
    # trail format §4.1: the FileSize field of a closed file.
    assert bytes.fromhex("39 00 00 08 00 00 00 00 05 F5 DB 9A") in data


def test_what_the_tables_do_not_name_is_kept() -> None:
    unknown = (
        UnknownHeaderField(0x30, 0x3F, 0, b"\1\2"),
        UnknownHeaderField(0x34, 0x31, 0, b""),
        UnknownHeaderField(0x35, None, 1, b"\0"),
    )
    header = FileHeader(TrailInfo(uri_history=("uri:a", "uri:b")), unknown=unknown)

    assert decode_header(encode_header(header))[0] == header


@pytest.mark.parametrize("length", [0, 1, 3, 100, 1065])
def test_an_unfinished_header_is_truncated(length: int) -> None:
    with pytest.raises(TruncatedError):
        decode_header(case_bytes()[:length])


def test_a_file_that_is_no_trail_is_named_with_its_bytes() -> None:
    with pytest.raises(DecodeError, match=r"begin with 46 .*byte 0, text 'PAR1'"):
        decode_header(b"PAR1")


def test_a_value_that_does_not_fit_is_named() -> None:
    with pytest.raises(EncodeError, match="field seqno"):
        encode_header(FileHeader(TrailInfo(seqno=2**32)))


def test_a_changed_byte_gives_a_header_with_values_of_their_types_or_our_error() -> None:
    data, accepted = case_bytes(), 0
    for at in range(len(data)):
        for value in {0x00, 0x01, 0x7F, 0xFF, data[at] ^ 1, data[at] ^ 0x80} - {data[at]}:
            changed = bytearray(data)
            changed[at] = value
            try:
                header, _ = decode_header(bytes(changed))
            except TrailgateError:
                continue
            accepted += 1
            for group in GROUPS:
                values = getattr(header, group.name)
                for field in fields(group.kind):
                    if field.default is not None and field.name != "seqno":  # may be None
                        assert type(getattr(values, field.name)) is type(field.default), (at, value)
    assert accepted > len(data)  # such as other times, names and sizes
