"""The header of a record: the frames of G and H, and the 34 bytes of GHDR (trail format §5).

Readers and writers share one numpy dtype per byte order. For example, a record begins with ``47 01
00 9C 48 00 00 3A 45 04 00 41 ...``: G and its length, H and its length, then GHDR with the
indicator ``45``, the partition byte ``04``, the undo byte and the image ``41`` ("A").
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from trailgate.trail.format.tokens import FRAME, ByteOrder

# Name and numpy type, without the prefix for the byte order.
_ROWS: Final = (
    ("g_id", "u1"),
    ("g_info", "u1"),
    ("g_length", "u2"),
    ("h_id", "u1"),
    ("h_info", "u1"),
    ("h_length", "u2"),
    ("indicator", "u1"),
    ("partition", "u1"),
    ("undo", "u1"),
    ("image", "u1"),
    ("data_length", "u2"),
    ("io_type", "u1"),
    ("node", "u1"),
    ("io_time", "i8"),
    ("audit_pos", "u8"),
    ("audit_rba", "u4"),
    ("trans_ind", "u1"),
    ("format", "u1"),
    ("syskey_length", "u1"),
    ("incomplete", "u1"),
    ("continued", "u1"),
    ("record_count", "u1"),
)
RECORD_HEADS: Final[Mapping[ByteOrder, np.dtype[np.void]]] = MappingProxyType(
    {order: np.dtype([(name, order.value + kind) for name, kind in _ROWS]) for order in ByteOrder}
)
NAME_AT: Final = RECORD_HEADS[ByteOrder.BIG].itemsize  # the name area follows
H_FIXED: Final = 34  # bytes of GHDR before the name area
# Each field's offset in GHDR.
HEAD_PLACES: Final[Mapping[str, int]] = MappingProxyType(
    {
        name: offset - (NAME_AT - H_FIXED)
        for name, (_, offset, *_) in (RECORD_HEADS[ByteOrder.BIG].fields or {}).items()
    }
)
INDICATOR: Final = ord("E")
BEFORE_IMAGE, AFTER_IMAGE = ord("B"), ord("A")
FROM_LOG, FETCHED = ord("R"), ord("F")
SHORTEST: Final = NAME_AT + 1 + FRAME  # an empty name, no data, no tokens

# Bits of the partition byte (trail format §5.1).
FIELD_COMP: Final = 0x04  # the data are index, length, value
BY_TABLE: Final = 0x08  # the name area holds a table index, not a name
BY_PARTITION: Final = 0x80  # a partition name index follows the table index
UNIFIED: Final = 0x40  # seen on a unified key update; its meaning is not public

COLUMN_HEAD: Final = 4  # index and length before a column's bytes
PIECE_HEAD: Final = 20  # five words before a large object's piece (trail format §11)

ONLY: Final = 3  # the greatest TransInd
REDO_BLOCK: Final = 512  # bytes of a block of Oracle's redo log
# One release has TransInd here, and AuditRBA after it (trail format §5).
MOVED_AT: Final = NAME_AT - 10


def format_redo_address(audit_rba: int, audit_pos: int) -> str:
    """Format AuditRBA and AuditPos of a record header as an address in Oracle's redo log: sequence, block and offset in hex (trail format §5.2).

    For example ``0x00002a.00000001.0010`` for sequence 42, position 528.
    """
    block, offset = divmod(audit_pos, REDO_BLOCK)
    return f"0x{audit_rba:06x}.{block:08x}.{offset:04x}"
