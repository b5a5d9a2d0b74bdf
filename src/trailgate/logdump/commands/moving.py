"""Commands that move to a position in the file and show what is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trailgate.errors import OptionError
from trailgate.logdump.records.open_trail import SMALL
from trailgate.logdump.records.portions import Portion
from trailgate.logdump.session.reading import at_end, chosen, portions, rba_of
from trailgate.logdump.session.results import Note, Result, ShownBytes
from trailgate.logdump.session.session import Command, Session
from trailgate.logdump.session.settings import Display
from trailgate.logdump.session.showing import show_file_header, show_record
from trailgate.logdump.syntax.arguments import Arguments
from trailgate.logdump.syntax.times import read_time
from trailgate.logdump.syntax.values import read_number

DUMPED: Final = 256  # bytes, by default
MOST_BYTES: Final = 1 << 20  # that DUMP shows at once


def show_next(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Show the next records that pass the filters."""
    wanted = arguments.number(1)
    if wanted and _at_file_header(session):
        yield show_file_header(session)
        wanted -= 1
    if wanted:
        yield from _records(session, wanted)


def _at_file_header(session: Session) -> bool:
    asked = session.settings.file_header is not Display.OFF and session.settings.forward
    return asked and session.position == 0 and session.trail.header_length > 0


def _records(session: Session, wanted: int) -> Iterator[Result]:
    if session.settings.forward and session.start >= session.trail.size:
        session.trail.grown()
    suppressed = 0
    for portion in portions(session, SMALL):
        rows = chosen(session, session.filters.mask(portion))[:wanted]
        for row in rows:
            yield show_record(session, portion, row)
        wanted -= len(rows)
        if not wanted:
            suppressed += _passed(session, portion, rows) - len(rows)
            break
        suppressed += len(portion) - len(rows)
    if suppressed:
        yield Note(f"Filtering suppressed {suppressed:>6} records", {"suppressed": suppressed})
    if wanted:
        yield from at_end(session)


def _passed(session: Session, portion: Portion, rows: list[int]) -> int:
    """Return how many records of a portion were read until the last one shown."""
    return rows[-1] + 1 if session.settings.forward else len(portion) - rows[-1]


def skip(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Skip records; with FILTER only those that pass the filters count."""
    plain = [word.upper() for word in arguments.plain]
    filtered = "FILTER" in plain
    numbers = [word for word in plain if word != "FILTER"]
    wanted = left = read_number(numbers[0]) if numbers else 1
    for portion in portions(session, SMALL):
        mask = session.filters.mask(portion) if filtered else portion.view.lengths > 0
        rows = chosen(session, mask)[:left]
        left -= len(rows)
        if not left and rows:
            show_record(session, portion, rows[-1])
            break
    values = {"skipped": wanted - left, "rba": session.position}
    yield Note(f"Skipped {wanted - left} records, RBA {session.position}", values)


def position(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Set where to read from, or in which direction."""
    trail = session.trail
    word = arguments.only("").upper()
    if word[:3] in ("FOR", "REV"):
        session.set(forward=word[:3] == "FOR")
    elif word in ("EOF", "LAST"):
        trail.grown()
        last = trail.record_before(trail.size) if word == "LAST" else None
        session.position = trail.size if last is None else last
    elif word == "FIRST":
        session.position = 0
    elif word:
        rba = read_number(word)
        if rba > trail.size and (not trail.grown() or rba > trail.size):
            raise OptionError(f"the file ends at RBA {trail.size}")
        session.position = rba
    direction = "forward" if session.settings.forward else "in reverse"
    values = {"rba": session.position, "forward": session.settings.forward}
    yield Note(f"Reading {direction} from RBA {session.position}", values)


def begin(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Move to the first record of a time or later."""
    time = read_time(" ".join(arguments.plain), session.settings.time_offset, session.now())
    for portion in session.trail.forward(session.trail.header_length, SMALL):
        late = portion.view.io_time >= time
        if late.any():
            session.position = rba_of(portion, int(late.argmax()))
            values = {"rba": session.position}
            yield Note(f"Reading forward from RBA {session.position}", values)
            return
        session.position = portion.end
    yield from at_end(session, "no record is so late")


def show_bytes(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Show bytes as they are stored in the file."""
    size = min(arguments.number(DUMPED), MOST_BYTES)
    raw = session.trail.read(session.position, size).tobytes()
    yield ShownBytes(session.position, raw, session.settings)


ROWS: Final = (
    Command(("NEXT", "N"), "[n]", "Show the next n records.", show_next),
    Command(
        ("SKIP",),
        "[n] [FILTER]",
        "Skip n records; with FILTER, n of those that pass the filters.",
        skip,
    ),
    Command(
        ("POSITION", "POS"),
        "[rba | FIRST | LAST | EOF | FORWARD | REVERSE]",
        "Go to an offset in the file, or change the direction of reading.",
        position,
    ),
    Command(("BEGIN",), "time", "Move to the first record of that time or later.", begin),
    Command(("DUMP",), "[n]", "Show n bytes from the current position.", show_bytes),
)
