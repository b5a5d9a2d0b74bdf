"""The record that a writer that starts again writes after what it finds (trail format §7)."""

from __future__ import annotations

from typing import Final

from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.record_types import IO_RESTART_ABEND, IO_RESTART_OK
from trailgate.trail.records.record import Token, TrailRecord, encode_record

# Assumed: the one token of a restart record is the name of the group. The first record of a printed
# trail has 58 bytes, which leaves one token of three bytes, as "EX1" has.
# Assumed: its id. The name GROUPNAME is public, the byte is not; this one is seen nowhere else.
GROUP_NAME: Final = ord("g")
NO_RECORDS, NO_SYSTEM = 0, 0  # RecCount and OrigNode of restart records


def restart_record(
    group: str, io_time: int, *, abandoned: bool, order: ByteOrder = ByteOrder.BIG
) -> bytes:
    """Return a restart record; ``io_time`` is microseconds since 1970 UTC.

    It is RestartAbend if the transaction before it is ``abandoned``, not finished and written again after it, else
    RestartOK.
    """
    return encode_record(
        TrailRecord(
            # Assumed: 150 is RestartAbend. 151 is printed as RestartOK, 150 remains.
            io_type=IO_RESTART_ABEND if abandoned else IO_RESTART_OK,
            tokens=(Token(GROUP_NAME, group.encode()),),
            node=NO_SYSTEM,
            record_count=NO_RECORDS,
            io_time=io_time,
            order=order,
        )
    )
