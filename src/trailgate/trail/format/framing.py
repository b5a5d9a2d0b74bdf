"""Find where the records of a trail lie; nothing inside them is looked at.

A record is G (47 01), a u16 length of the whole object, ..., and the trailer Z (5A 01) that
repeats info and length (trail format §2). All of that is checked in columns; where the guess does
not chain without a gap, a length-by-length loop decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from trailgate.arrays import Longs, Octets
from trailgate.errors import DecodeError, TruncatedError, Where
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.tokens import FRAME, HEADER, RECORD, RECORD_INFOS, TRAILER

STRIDE: Final = 1 << 20  # bytes searched at once: the integer arrays stay in cache
MIN_RECORD: Final = 4 * FRAME  # G, H, T or D, Z: less cannot be a record
INDICATOR_AT, IO_TYPE_AT = 8, 14  # in a record (trail format §5)
INDICATOR: Final = ord("E")
FOLLOWERS: Final = 3  # records that must follow before a place counts as a record's begin


@dataclass(frozen=True, slots=True)
class Records:
    """Complete records: byte offsets and lengths, and the offset at which they end."""

    offsets: Longs
    lengths: Longs
    end: int


def find_records(
    data: Octets, start: int = 0, *, order: ByteOrder = ByteOrder.BIG, finish: bool = False
) -> Records:
    """Return the complete records from ``start`` on; an unfinished last one is not there yet.

    With ``finish`` an unfinished record raises TruncatedError. Bad framing raises DecodeError.
    """
    found: list[tuple[Longs, Longs]] = []
    place = start
    while place < len(data):
        offsets, lengths = _chained(data, place, order)
        if not len(offsets):
            break
        found.append((offsets, lengths))
        place = int(offsets[-1] + lengths[-1])
    if finish and place < len(data):
        raise TruncatedError(
            "the input ends inside a record",
            where=Where(offset=place, raw=data[place : place + 64].tobytes()),
        )
    if not found:
        return Records(np.zeros(0, np.int64), np.zeros(0, np.int64), place)
    return Records(
        np.concatenate([offsets for offsets, _ in found]),
        np.concatenate([lengths for _, lengths in found]),
        place,
    )


def find_order(data: Octets, start: int = 0) -> ByteOrder | None:
    """Return the byte order of the record at ``start``; None while it is not all there.

    trail format §3: the order for which the first record's trailer is right; big-endian is tried
    first. Raises DecodeError where neither fits.
    """
    waiting = False
    first: DecodeError | None = None
    for order in ByteOrder:
        try:
            if length_at(data, start, order) is not None:
                return order
            waiting = True
        except DecodeError as error:
            first = first or error
    if waiting or first is None:
        return None
    raise first


def resync(data: Octets, start: int, order: ByteOrder = ByteOrder.BIG) -> int:
    """Return the first offset from ``start`` on at which a record begins; -1 if there is none.

    A record counts if three more follow it without a gap, or as many as the data hold.
    """
    for place in range(start, len(data), STRIDE):
        stop = min(place + STRIDE, len(data))
        for offset in _candidates(data, place, stop, order)[0].tolist():
            if _followed(data, offset, order):
                return int(offset)
    return -1


def find_typed(data: Octets, order: ByteOrder, io_type: int) -> Longs:
    """Return the offsets of complete records of one type, without a look at the others.

    Only what frames and header repeat is checked: bytes inside a record that look like a whole
    record of that type are found as well.
    """
    if len(data) <= IO_TYPE_AT:
        return np.zeros(0, np.int64)
    # The type is the rarest of the bytes that must be right.
    places = np.flatnonzero(data[IO_TYPE_AT:] == io_type)
    places = places[(data[places] == RECORD) & (data[places + INDICATOR_AT] == INDICATOR)]
    return np.array([p for p in places.tolist() if _whole(data, p, order)], np.int64)


def _whole(data: Octets, place: int, order: ByteOrder) -> bool:
    try:
        return data[place + FRAME] == HEADER and length_at(data, place, order) is not None
    except DecodeError:
        return False


def length_at(data: Octets, place: int, order: ByteOrder) -> int | None:
    """Return the length of the record there; None if it is not all there yet.

    Raises DecodeError where no record can be.
    """
    head = data[place : place + FRAME].tobytes()
    if (head[:1] and head[0] != RECORD) or (head[1:] and head[1] not in RECORD_INFOS):
        raise _bad_frame(data, place, "a record must begin with 47 01")
    if len(head) < FRAME:
        return None
    length = order.number(head[2:])
    if length < MIN_RECORD:
        raise _bad_frame(data, place, f"a record of {length} bytes is too short")
    if place + length > len(data):
        return None
    tail = data[place + length - FRAME : place + length].tobytes()
    expected = bytes((TRAILER,)) + head[1:]
    if tail != expected:
        problem = f"the record's trailer should be {expected.hex(' ')}, not {tail.hex(' ')}"
        raise _bad_frame(data, place, problem)
    return length


def _chained(data: Octets, place: int, order: ByteOrder) -> tuple[Longs, Longs]:
    """Return records that begin at ``place`` and follow each other without a gap."""
    stop = min(place + STRIDE, len(data))
    offsets, lengths = _candidates(data, place, stop, order)
    ends = offsets + lengths
    if len(offsets) > 1:
        # What looks like a record inside another one is data of that record.
        reached = np.maximum.accumulate(ends)
        outer = np.ones(len(offsets), bool)
        outer[1:] = offsets[1:] >= reached[:-1]
        offsets, lengths, ends = offsets[outer], lengths[outer], ends[outer]
    chains = len(offsets) and offsets[0] == place and bool((ends[:-1] == offsets[1:]).all())
    # The last one must reach beyond what was searched, or what follows must be no record.
    if chains and (ends[-1] >= stop or length_at(data, int(ends[-1]), order) is None):
        return offsets, lengths
    return _one_by_one(data, place, stop, order)


def _candidates(data: Octets, place: int, stop: int, order: ByteOrder) -> tuple[Longs, Longs]:
    """Return offsets in [place, stop) at which a whole record seems to lie, and lengths."""
    starts = np.flatnonzero(data[place:stop] == RECORD) + place
    starts = starts[starts <= len(data) - MIN_RECORD]
    frames = order.frames(data)
    heads = frames[starts]
    lengths = order.lengths(heads).astype(np.int64)
    good = _RECORD_INFO[data[starts + 1]]
    good &= (lengths >= MIN_RECORD) & (starts + lengths <= len(data))
    starts, lengths, heads = starts[good], lengths[good], heads[good]
    tails = frames[starts + lengths - FRAME]
    # The trailer differs from the frame in its id alone.
    good = tails ^ heads == order.frame(RECORD ^ TRAILER, 0, 0)
    return starts[good], lengths[good]


def _record_infos() -> npt.NDArray[np.bool_]:
    table = np.zeros(256, bool)
    table[list(RECORD_INFOS)] = True
    table.setflags(write=False)
    return table


_RECORD_INFO: Final = _record_infos()


def _one_by_one(data: Octets, place: int, stop: int, order: ByteOrder) -> tuple[Longs, Longs]:
    offsets, lengths = [], []
    while place < stop:
        length = length_at(data, place, order)
        if length is None:
            break
        offsets.append(place)
        lengths.append(length)
        place += length
    return np.array(offsets, np.int64), np.array(lengths, np.int64)


def _bad_frame(data: Octets, place: int, problem: str) -> DecodeError:
    raw = data[place : place + 64].tobytes()
    hint = "Is the trail damaged, or does reading begin inside a record?"
    return DecodeError(problem, where=Where(offset=place, raw=raw), hint=hint)


def _followed(data: Octets, place: int, order: ByteOrder) -> bool:
    try:
        for _ in range(FOLLOWERS + 1):
            length = length_at(data, place, order) if place < len(data) else None
            if length is None:
                return True
            place += length
    except DecodeError:
        return False
    return True
