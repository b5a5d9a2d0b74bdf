"""The file header's bytes, as they are shown and as they are copied."""

from __future__ import annotations

from trailgate.arrays import Octets
from trailgate.columnar.views import octets
from trailgate.errors import OptionError, TrailgateError
from trailgate.logdump.records.open_trail import OpenTrail
from trailgate.logdump.session.results import ShownHeader
from trailgate.logdump.terms.settings import Settings
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.file_header import decode_header
from trailgate.trail.format.record import Token, tokens_between
from trailgate.trail.format.tokens import FRAME, NORMAL

TRAIL_INFO, FILE_SIZE = 0x30, 0x39  # group and leaf (trail format §4.1)


def read_file_header(trail: OpenTrail, settings: Settings) -> ShownHeader:
    """Return the file header of a trail; raises OptionError where there is none to be read."""
    if not trail.header_length:
        raise OptionError("this file has no header that can be read")
    raw = trail.read(0, trail.header_length).tobytes()
    try:
        header = decode_header(raw)[0]
    except TrailgateError:
        header = None
    return ShownHeader(raw, header, header_order(raw), settings)


def header_order(raw: bytes) -> ByteOrder:
    """Return the byte order that the header's own length is written in."""
    fits = (order for order in ByteOrder if order.number(raw[2:FRAME]) == len(raw))
    return next(fits, ByteOrder.BIG)


def groups(raw: bytes, order: ByteOrder) -> list[tuple[Token, list[Token]]]:
    """Return the header's groups with their leaves; raises DecodeError."""
    data = octets(raw)
    found = tokens_between(data, (FRAME, len(raw) - FRAME), order)
    return [
        (group, [leaf for leaf, _ in _leaves(data, start, group, order)]) for group, start in found
    ]


def with_size(raw: bytes, size: int) -> bytes:
    """Return the header with another file size in it, where it has one."""
    order = header_order(raw)
    data = octets(raw)
    for group, start in tokens_between(data, (FRAME, len(raw) - FRAME), order):
        for leaf, at in _leaves(data, start, group, order):
            if group.code == TRAIL_INFO and leaf.code == FILE_SIZE and len(leaf.payload) == 8:
                head = raw[: at - FRAME + 1] + bytes((NORMAL,)) + raw[at - FRAME + 2 : at]
                return head + order.raw(size, 8) + raw[at + 8 :]
    return raw


def _leaves(
    data: Octets,
    start: int,
    group: Token,
    order: ByteOrder,
) -> list[tuple[Token, int]]:
    return tokens_between(data, (start, start + len(group.payload)), order)
