"""Read records from the position of a session: the next ones, or the next that pass a test."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trailgate.arrays import PORTION, Mask
from trailgate.logdump.filters.record_tests import RecordTest
from trailgate.logdump.records.following import exists, next_path
from trailgate.logdump.records.open_trail import SMALL
from trailgate.logdump.records.portions import Portion
from trailgate.logdump.session.results import Note, Result
from trailgate.logdump.session.session import Session
from trailgate.logdump.session.showing import show_record
from trailgate.logdump.syntax.times import time_text
from trailgate.storage.files.addresses import name_of


def portions(session: Session, size: int = PORTION) -> Iterator[Portion]:
    """Yield the records from the session's position in its direction, and move the session."""
    session.position = session.start
    if session.settings.forward:
        for portion in session.trail.forward(session.position, size):
            yield portion
            session.position = portion.end
    else:
        for portion in session.trail.backward(session.position, size):
            yield portion
            session.position = rba_of(portion, 0)


def rba_of(portion: Portion, row: int) -> int:
    """Return the offset in the file of a record of a portion."""
    return portion.source.base + int(portion.view.offsets[row])


def chosen(session: Session, mask: Mask) -> list[int]:
    """Return the rows of a mask in the session's direction."""
    rows: list[int] = np.flatnonzero(mask).tolist()
    return rows if session.settings.forward else rows[::-1]


def find(session: Session, test: RecordTest) -> Iterator[Result]:
    """Yield the next record that passes a test and the filters, and move the session after it."""
    scanned = 0
    for portion in portions(session, SMALL):
        rows = chosen(session, test(portion) & session.filters.mask(portion))
        if rows:
            yield show_record(session, portion, rows[0])
            return
        scanned += len(portion)
        yield from progress(session, portion, scanned)
    yield from at_end(session, f"not found in {scanned} records")


def progress(session: Session, portion: Portion, scanned: int) -> Iterator[Result]:
    """Yield how many records a scan has read, if NOTIFY is set."""
    every = session.settings.notify
    if every and scanned // every > (scanned - len(portion)) // every:
        rba = rba_of(portion, -1)
        time = time_text(int(portion.view.io_time[-1]), session.settings.time_offset)
        values = {"scanned": scanned, "rba": rba}
        yield Note(f"Scanned {scanned:>10} records, RBA {rba}, {time}", values)


def at_end(session: Session, problem: str = "") -> Iterator[Result]:
    """Yield that there are no more records, and what follows the last one."""
    rba = session.position
    said = f"{problem}; " if problem else ""
    if not session.settings.forward:
        yield Note(_sentence(f"{said}beginning of the file"), {"end": "begin", "rba": rba})
        return
    left = session.trail.size - rba
    more = f", {left} bytes of an unfinished record" if left else ""
    following = next_path(session.trail.path)
    if following is not None and exists(following):
        more += f"; NEXTTRAIL opens {name_of(following)}"
    yield Note(
        _sentence(f"{said}end of the file at RBA {rba}{more}"),
        {"end": "end", "rba": rba, "unfinished_bytes": left},
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
