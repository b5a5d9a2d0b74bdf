"""Parse the groups and fields of a file header as raw bytes, to print and to copy them (trail format §4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from trailgate.columnar.rows import octets
from trailgate.trail.annotation.file_header import detect_header_order
from trailgate.trail.format.tokens import FRAME, NORMAL, ByteOrder
from trailgate.trail.records.record import RecordToken, read_tokens_between

TRAIL_INFO: Final = 0x30  # a group (trail format §4.1)
FILE_SIZE: Final = 0x39  # a field of that group


class HeaderGroup(NamedTuple):
    """A group of a file header: its own token, its fields, and the offset of each field's payload."""

    token: RecordToken
    fields: tuple[RecordToken, ...]
    starts: tuple[int, ...]


def header_groups(raw: bytes, order: ByteOrder) -> Iterator[HeaderGroup]:
    """Yield the groups of a file header. Raises DecodeError."""
    data = octets(raw)
    for group, start in read_tokens_between(data, (FRAME, len(raw) - FRAME), order):
        fields = read_tokens_between(data, (start, start + len(group.payload)), order)
        yield HeaderGroup(group, tuple(field for field, _ in fields), tuple(at for _, at in fields))


def with_size(raw: bytes, size: int) -> bytes:
    """Return the file header with another file size, or unchanged if it does not contain a size."""
    order = detect_header_order(raw) or ByteOrder.BIG
    for group in header_groups(raw, order):
        for field, at in zip(group.fields, group.starts, strict=True):
            if (
                group.token.code == TRAIL_INFO
                and field.code == FILE_SIZE
                and len(field.payload) == 8
            ):
                # The field becomes a normal value of 8 bytes, with its id and its length unchanged.
                frame = raw[at - FRAME : at - FRAME + 1] + bytes((NORMAL,)) + raw[at - 2 : at]
                return raw[: at - FRAME] + frame + order.raw(size, 8) + raw[at + 8 :]
    return raw
