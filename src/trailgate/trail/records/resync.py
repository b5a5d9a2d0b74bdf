"""Find where reading can continue after damage: the next place at which a whole record begins.

``records.resync`` asks only for frames, but for four of them. Here a record must be sound inside as well, and only
one more must follow, so that little between two damaged places is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from trailgate.arrays import Octets
from trailgate.errors import DecodeError
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.record_layout import INDICATOR
from trailgate.trail.format.tokens import FRAME, HEADER, RECORD
from trailgate.trail.records.framing import find_order, length_at
from trailgate.trail.records.record import decode_record

# Bytes from a place on; fewer where the file ends.
Read = Callable[[int, int], Octets]

LONGEST: Final = 64 << 10  # no object of a trail is longer
SEARCHED: Final = 1 << 20  # bytes looked through at once


def find_good(read: Read, place: int, size: int, order: ByteOrder) -> int:
    """Return where, from ``place`` on, the next good record begins; ``size`` if there is none."""
    while place < size:
        data = read(place, SEARCHED + 2 * LONGEST)
        if not len(data):
            break
        found = next_good(data, order, SEARCHED)
        if found >= 0:
            return place + found
        place += SEARCHED
    return size


def next_good(data: Octets, order: ByteOrder, stop: int) -> int:
    """Return the first offset below ``stop`` at which a good record begins; -1 if none does."""
    last = min(stop, len(data) - 2 * FRAME - 1)
    if last <= 0:
        return -1
    seems = data[:last] == RECORD
    seems &= data[FRAME : FRAME + last] == HEADER
    seems &= data[2 * FRAME : 2 * FRAME + last] == INDICATOR
    return next((at for at in np.flatnonzero(seems).tolist() if _is_good(data, at, order)), -1)


def _is_good(data: Octets, place: int, order: ByteOrder) -> bool:
    try:
        length = length_at(data, place, order)
        if length is None:
            return False
        decode_record(data[place : place + length], order=order)
        if place + length < len(data):
            length_at(data, place + length, order)  # raises where no record can follow
    except DecodeError:
        return False
    return True


def guess_order(read: Read, begin: int, size: int) -> ByteOrder:
    """Return the records' byte order, from the first good record where the first of all is bad."""
    try:
        found = find_order(read(begin, LONGEST), 0)
    except DecodeError:
        found = None
    if found is not None:
        return found
    places = {order: find_good(read, begin, size, order) for order in ByteOrder}
    return min(places, key=places.__getitem__)
