"""Find records from where a session stands: the next ones, and the next that a test takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from trailgate.arrays import Mask
from trailgate.logdump.records.following import exists, next_path
from trailgate.logdump.records.open_trail import PORTION, SMALL
from trailgate.logdump.records.portions import Portion
from trailgate.logdump.session.results import Note, Result
from trailgate.logdump.session.session import Session
from trailgate.logdump.terms.times import time_text
from trailgate.storage.files.listing import name_of

Test = Callable[[Portion], Mask]


def begin_of(session: Session) -> int:
    """Return where records are read from: behind the file header, if the session stands at it."""
    return session.place or session.trail.header_length


def portions(session: Session, size: int = PORTION) -> Iterator[Portion]:
    """Yield the records from where the session stands, in its direction; it stands behind them then."""
    place = begin_of(session)
    if session.settings.forward:
        session.place = place
        for portion in session.trail.forward(place, size):
            yield portion
            session.place = portion.end
    else:
        for portion in session.trail.backward(place, size):
            yield portion
            session.place = portion.source.base + int(portion.view.offsets[0])


def chosen(session: Session, mask: Mask) -> list[int]:
    """Return the rows of a mask in the session's direction."""
    rows: list[int] = np.flatnonzero(mask).tolist()
    return rows if session.settings.forward else rows[::-1]


def find(session: Session, test: Test) -> Iterator[Result]:
    """Yield the next record that a test and the filters take, and stand behind it."""
    scanned = 0
    for portion in portions(session, SMALL):
        rows = chosen(session, test(portion) & session.filters.mask(portion))
        if rows:
            yield session.shown(portion, rows[0])
            return
        scanned += len(portion)
        yield from progress(session, portion, scanned)
    yield from at_end(session, f"not found in {scanned} records")


def progress(session: Session, portion: Portion, scanned: int) -> Iterator[Result]:
    """Yield how far a scan has come, if NOTIFY asked for it."""
    every = session.settings.notify
    if every and scanned // every > (scanned - len(portion)) // every:
        place = portion.source.base + int(portion.view.offsets[-1])
        time = time_text(int(portion.view.io_time[-1]), session.settings.offset)
        values = {"scanned": scanned, "rba": place}
        yield Note(f"Scanned {scanned:>10} records, RBA {place}, {time}", values)


def at_end(session: Session, what: str = "") -> Iterator[Result]:
    """Yield that there is no further record, and what stands there instead."""
    behind = session.place
    said = f"{what}; " if what else ""
    if not session.settings.forward:
        yield Note(_sentence(f"{said}begin of the file"), {"end": "begin", "rba": behind})
        return
    left = session.trail.size - behind
    more = f", {left} bytes of an unfinished record" if left else ""
    following = next_path(session.trail.path)
    if following is not None and exists(following):
        more += f"; NEXTTRAIL opens {name_of(following)}"
    yield Note(
        _sentence(f"{said}end of the file at RBA {behind}{more}"),
        {"end": "end", "rba": behind, "unfinished_bytes": left},
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
