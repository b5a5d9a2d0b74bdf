"""Go through a trail file from a place on and explain all of it, one object at a time.

However damaged the file is, what comes out covers its bytes from there to the end, in order, each once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trailgate.errors import DecodeError
from trailgate.trail.annotation.elements import Damage, Element
from trailgate.trail.annotation.file_header import explain_header, header_order
from trailgate.trail.annotation.records import explain_record
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.framing import length_at
from trailgate.trail.format.resync import LONGEST, Read, find_good, guess_order
from trailgate.trail.format.tokens import RECORD

WINDOW: Final = 1 << 20  # bytes read at once
AROUND: Final = 32  # bytes shown in front of damage
SHOWN: Final = 64  # bytes shown of the damage itself


def analyze(read: Read, size: int, start: int = 0) -> Iterator[Element | Damage]:
    """Yield the file header, the records and the damage of a file of ``size`` bytes.

    With ``start`` it begins at the first good record from there on.
    """
    header = _header(read)
    begin = 0 if header is None else header.length
    order = guess_order(read, begin, size)
    place = start
    if start == 0:
        first = read(0, 1)
        if header is not None:
            yield header
            place = begin
        elif len(first) and first[0] != RECORD:
            problem = "no file header (46) and no record (47) stands at the begin"
            place = find_good(read, 0, size, order)
            yield _damage(read, (0, place), problem)
    else:
        place = begin if start <= begin else find_good(read, start, size, order)
        if place >= size > start:
            yield _damage(read, (start, size), "no good record begins from here on")
    yield from _records(read, (place, size), order)


def _header(read: Read) -> Element | None:
    head = read(0, LONGEST).tobytes()
    order = header_order(head)
    return None if order is None else explain_header(head, order)


def _records(read: Read, span: tuple[int, int], order: ByteOrder) -> Iterator[Element | Damage]:
    place, size = span
    while place < size:
        data = read(place, WINDOW)
        if not len(data):
            return
        at = 0
        while at < len(data):
            try:
                length = length_at(data, at, order)
            except DecodeError as error:
                problem = error.problem
                break
            if length is None:
                problem = "the file ends inside a record"
                break
            yield explain_record(data[at : at + length].tobytes(), place + at, order)
            at += length
        else:
            place += at
            continue
        place += at
        if len(data) - at >= LONGEST or place - at + len(data) >= size:
            end = find_good(read, place + 1, size, order)
            yield _damage(read, (place, end), problem)
            place = end


def _damage(read: Read, span: tuple[int, int], problem: str) -> Damage:
    start, end = span
    before = max(0, start - AROUND)
    raw = read(start, min(SHOWN, end - start)).tobytes()
    return Damage(start, end - start, problem, read(before, start - before).tobytes(), raw)
