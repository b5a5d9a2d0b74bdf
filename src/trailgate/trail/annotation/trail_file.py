"""Explain a trail file from an offset to its end, one object at a time.

The objects are the file header, records and damage. However damaged the file is, they cover each
byte exactly once, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trailgate.errors import DecodeError, TrailgateError, TruncatedError
from trailgate.trail.annotation.elements import DamagedSpan, ExplainedToken
from trailgate.trail.annotation.file_header import explain_header
from trailgate.trail.annotation.records import explain_record
from trailgate.trail.format.file_header import ORACLE, decode_header, detect_header_order
from trailgate.trail.format.tokens import RECORD, ByteOrder
from trailgate.trail.records.damage import (
    describe_unreadable,
    detect_record_order,
    find_next_record,
)
from trailgate.trail.records.framing import read_record_length
from trailgate.trail.records.record import LONGEST, Read

WINDOW: Final = 1 << 20  # bytes read at once
# Bytes to look back: a record begins in their first third, since none is longer than LONGEST.
NEAR: Final = 3 * LONGEST
AROUND: Final = 32  # bytes shown before damage
SHOWN: Final = 64  # bytes shown of the damage itself
NO_BEGINNING: Final = "the file begins neither with a file header (46) nor with a record (47)"
CUT_HEADER: Final = (
    "the file ends inside its header: it is still being written, or the file was cut"
)


def explain_trail(read: Read, size: int, start: int = 0) -> Iterator[ExplainedToken | DamagedSpan]:
    """Explain a trail file of ``size`` bytes: yield its file header, records and damage.

    With ``start``, begin at the first record at or after this offset, or at the damage that
    contains the offset.
    """
    header = _header(read)
    begin = 0 if header is None else header.length
    order = detect_record_order(read, begin, size)
    offset = start
    if start == 0:
        first = read(0, 1)
        if header is not None:
            yield header
            offset = begin
        elif len(first) and first[0] != RECORD:
            offset = find_next_record(read, 0, size, order)
            yield _damage(read, 0, offset, CUT_HEADER if _is_cut(read) else NO_BEGINNING)
    else:
        offset = begin if start <= begin else _object_at(read, (begin, start, size), order)
    yield from _records(read, offset, size, order)


def _object_at(read: Read, places: tuple[int, int, int], order: ByteOrder) -> int:
    """Return the offset of the record that begins at or after ``start``, or of the damage around ``start``.

    ``places`` are the offset of the file's first record, ``start``, and the size of the file.
    Whether ``start`` is inside damage can only be found by reading the records before it, so the
    walk begins at the first good record in the ``NEAR`` bytes before ``start``.
    """
    begin, start, size = places
    at = begin
    if start - NEAR > begin:
        at = find_next_record(read, start - NEAR, size, order)
    base, data = at, read(at, start - at + LONGEST)
    while at < start:
        try:
            length = read_record_length(data, at - base, order)
        except DecodeError:
            length = None
        if length is None:
            lost = describe_unreadable(read, at, size, order)
            if lost.end > start:
                return at
            length = lost.size
        at += length
    return at


def _header(read: Read) -> ExplainedToken | None:
    head = read(0, LONGEST).tobytes()
    order = detect_header_order(head)
    return None if order is None else explain_header(head, order)


def _is_cut(read: Read) -> bool:
    """Return whether a trail file ends inside its header."""
    try:
        decode_header(read(0, LONGEST).tobytes())
    except TruncatedError:
        return True
    except TrailgateError:
        pass
    return False


def _is_oracle(read: Read) -> bool:
    """Return whether the trail's database is Oracle.

    Returns False if the file header cannot be read.
    """
    try:
        return decode_header(read(0, LONGEST).tobytes())[0].database.vendor == ORACLE
    except TrailgateError:
        return False


def _records(
    read: Read, offset: int, size: int, order: ByteOrder
) -> Iterator[ExplainedToken | DamagedSpan]:
    oracle = _is_oracle(read)
    while offset < size:
        data = read(offset, WINDOW)
        if not len(data):
            return
        at = 0
        while at < len(data):
            try:
                length = read_record_length(data, at, order)
            except DecodeError:
                break
            if length is None:
                break
            raw = data[at : at + length].tobytes()
            yield explain_record(raw, offset + at, order, oracle=oracle)
            at += length
        else:
            offset += at
            continue
        offset += at
        # A record that is not complete within the longest possible record, or within the file, is
        # damage. Otherwise only the window ends here, and the next one begins with this record.
        if len(data) - at >= LONGEST or offset - at + len(data) >= size:
            lost = describe_unreadable(read, offset, size, order)
            yield _damage(read, offset, lost.end, lost.problem)
            offset = lost.end


def _damage(read: Read, start: int, end: int, problem: str) -> DamagedSpan:
    before = max(0, start - AROUND)
    raw = read(start, min(SHOWN, end - start)).tobytes()
    return DamagedSpan(start, end - start, problem, read(before, start - before).tobytes(), raw)
