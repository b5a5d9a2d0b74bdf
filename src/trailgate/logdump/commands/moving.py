"""Commands that move through a file and show its records."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Final

from trailgate.arrays import Mask
from trailgate.errors import OptionError
from trailgate.logdump.filters import criteria
from trailgate.logdump.filters.options import type_codes
from trailgate.logdump.records.open_trail import SMALL
from trailgate.logdump.records.portions import Portion
from trailgate.logdump.records.transaction_numbers import FIRST, LAST, ONLY
from trailgate.logdump.session.file_header import read_file_header
from trailgate.logdump.session.reading import at_end, begin_of, chosen, find, portions
from trailgate.logdump.session.results import Note, Result, ShownBytes
from trailgate.logdump.session.session import Command, Session
from trailgate.logdump.terms.settings import Shown
from trailgate.logdump.terms.times import read_time
from trailgate.logdump.terms.words import Words, one_of, read_number
from trailgate.trail.format.metadata import MetadataKind
from trailgate.trail.format.record_types import IO_METADATA

DUMPED: Final = 256  # unless told otherwise
MOST_BYTES: Final = 1 << 20  # that DUMP shows at once
METADATA_KINDS: Final = {
    "DDR": MetadataKind.DATABASE,
    "TDR": MetadataKind.TABLE,
    "TDRREF": MetadataKind.TABLE_REFERENCE,
    "PNR": MetadataKind.PARTITION,
}


def show_next(session: Session, words: Words) -> Iterator[Result]:
    """Show the next records that the filters let through."""
    wanted = words.number(1)
    if wanted and _stands_at_header(session):
        yield read_file_header(session.trail, session.settings)
        session.place = session.trail.header_length
        wanted -= 1
    if wanted:
        yield from _records(session, wanted)


def _stands_at_header(session: Session) -> bool:
    asked = session.settings.file_header is not Shown.OFF and session.settings.forward
    return asked and session.place == 0 and session.trail.header_length > 0


def _records(session: Session, wanted: int) -> Iterator[Result]:
    if session.settings.forward and begin_of(session) >= session.trail.size:
        session.trail.grown()
    suppressed = 0
    for portion in portions(session, SMALL):
        rows = chosen(session, session.filters.mask(portion))[:wanted]
        for row in rows:
            yield session.shown(portion, row)
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
    return rows[-1] + 1 if session.settings.forward else len(portion) - rows[-1]


def skip(session: Session, words: Words) -> Iterator[Result]:
    """Pass over records; with FILTER only those that the filters let through count."""
    plain = [word.upper() for word in words.plain]
    filtered = "FILTER" in plain
    numbers = [word for word in plain if word != "FILTER"]
    wanted = left = read_number(numbers[0]) if numbers else 1
    for portion in portions(session, SMALL):
        mask = session.filters.mask(portion) if filtered else portion.view.lengths > 0
        rows = chosen(session, mask)[:left]
        left -= len(rows)
        if not left and rows:
            session.shown(portion, rows[-1])
            break
    values = {"skipped": wanted - left, "rba": session.place}
    yield Note(f"Skipped {wanted - left} records, RBA {session.place}", values)


def position(session: Session, words: Words) -> Iterator[Result]:
    """Say where to read from, or in which direction."""
    trail = session.trail
    word = words.only("").upper()
    if word[:3] in ("FOR", "REV"):
        session.set(forward=word[:3] == "FOR")
    elif word in ("EOF", "LAST"):
        trail.grown()
        before = trail.record_before(trail.size) if word == "LAST" else None
        session.place = trail.size if before is None else before
    elif word == "FIRST":
        session.place = 0
    elif word:
        place = read_number(word)
        if place > trail.size and (not trail.grown() or place > trail.size):
            raise OptionError(f"the file ends at RBA {trail.size}")
        session.place = place
    way = "forward" if session.settings.forward else "in reverse"
    values = {"rba": session.place, "forward": session.settings.forward}
    yield Note(f"Reading {way} from RBA {session.place}", values)


def begin(session: Session, words: Words) -> Iterator[Result]:
    """Stand at the first record of a time or later."""
    time = read_time(" ".join(words.plain), session.settings.offset, session.now())
    for portion in session.trail.forward(session.trail.header_length, SMALL):
        rows = portion.view.io_time >= time
        if rows.any():
            session.place = portion.source.base + int(portion.view.offsets[rows.argmax()])
            yield Note(f"Reading forward from RBA {session.place}", {"rba": session.place})
            return
        session.place = portion.end
    yield from at_end(session, "no record is so late")


def scan_for_header(session: Session, words: Words) -> Iterator[Result]:
    """Show the next good record, whatever stands in between; with PREV the one in front."""
    trail = session.trail
    asked = bool(words.plain) and one_of(words.only(), {"PREV": True})
    back = asked or not session.settings.forward
    start = begin_of(session)
    if back and session.current is not None and session.settings.forward:
        start = min(start, session.current)
    found = trail.record_before(start) if back else trail.good_record_from(start)
    if found is None:
        yield Note("No further record header was found", {"found": False})
        return
    skipped = 0 if back else found - start
    if skipped:
        yield Note(f"Passed over {skipped} bytes from RBA {start}", {"skipped_bytes": skipped})
    for portion in trail.forward(found, SMALL):
        yield session.shown(portion, 0)
        return


def scan_for_end(session: Session, words: Words) -> Iterator[Result]:
    """Find the end of the transaction and show the first record of the next one."""
    del words
    _forward_only(session)
    for portion in portions(session, SMALL):
        indicator = portion.view.indicator
        ends = (indicator == LAST) | (indicator == ONLY)
        rows = chosen(session, ends & ~portion.aside)
        if rows:
            place = portion.source.base + int(portion.view.offsets[rows[0]])
            session.place = place + int(portion.view.lengths[rows[0]])
            yield Note(f"End of Transaction found at RBA {place}", {"rba": place})
            break
    else:
        yield from at_end(session, "no end of a transaction was found")
        return
    for portion in portions(session, SMALL):
        yield session.shown(portion, 0)
        return
    yield from at_end(session)


def scan_for_next(session: Session, words: Words) -> Iterator[Result]:
    """Show the next record that begins a transaction."""
    del words

    def begins(portion: Portion) -> Mask:
        indicator = portion.view.indicator
        found: Mask = ((indicator == FIRST) | (indicator == ONLY)) & ~portion.aside
        return found

    return find(session, begins)


def scan_for_time(session: Session, words: Words) -> Iterator[Result]:
    """Show the next record of a time or later."""
    phrases = words.phrases() or [[]]
    time = read_time(" ".join(phrases[0]), session.settings.offset, session.now())
    return find(session, _with_names(criteria.of_time(operator.ge, time), phrases[1:]))


def scan_for_rba(session: Session, words: Words) -> Iterator[Result]:
    """Show the next record with that AuditRBA."""
    first, *names = words.plain or [""]
    test = criteria.of_field("audit_rba", operator.eq, read_number(first, 0, 2**32 - 1))
    return find(session, _with_names(test, [names]))


def scan_for_type(session: Session, words: Words) -> Iterator[Result]:
    """Show the next record of a type."""
    first, *names = words.plain or [""]
    return find(session, _with_names(criteria.of_types(type_codes([first])), [names]))


def scan_for_metadata(session: Session, words: Words) -> Iterator[Result]:
    """Show the next metadata record, of a kind and of a table if they are named."""
    plain = words.plain
    test = criteria.of_types([IO_METADATA])
    if plain and plain[0].upper() in METADATA_KINDS:
        kind = METADATA_KINDS[plain.pop(0).upper()]
        of_kind = criteria.of_field("node", operator.eq, kind)
        of_type = test
        return find(
            session,
            _with_names(lambda portion: of_type(portion) & of_kind(portion), [plain]),
        )
    return find(session, _with_names(test, [plain]))


def _with_names(test: criteria.Test, phrases: list[list[str]]) -> criteria.Test:
    patterns = [word for phrase in phrases for word in phrase]
    if not patterns:
        return test
    named = criteria.of_names(patterns)
    return lambda portion: test(portion) & named(portion)


def _forward_only(session: Session) -> None:
    if not session.settings.forward:
        raise OptionError("this search goes forward only", hint="POSITION FORWARD turns round")


def show_bytes(session: Session, words: Words) -> Iterator[Result]:
    """Show bytes as they stand in the file."""
    size = min(words.number(DUMPED), MOST_BYTES)
    raw = session.trail.read(session.place, size).tobytes()
    yield ShownBytes(session.place, raw, session.settings)


ROWS: Final = (
    Command(("NEXT", "N"), "NEXT [n]", "Show the next n records.", show_next),
    Command(
        ("SKIP",),
        "SKIP [n] [FILTER]",
        "Pass over n records; FILTER counts what filters let through.",
        skip,
        ("FILTER",),
    ),
    Command(
        ("POSITION", "POS"),
        "POSITION [rba | FIRST | LAST | EOF | FORWARD | REVERSE]",
        "Stand at an offset in the file, or turn the direction of reading.",
        position,
        ("FIRST", "LAST", "EOF", "FORWARD", "REVERSE"),
    ),
    Command(("BEGIN",), "BEGIN time", "Stand at the first record of that time or later.", begin),
    Command(
        ("SCANFORHEADER", "SFH"),
        "SCANFORHEADER [PREV]",
        "Show the next good record, past damaged bytes; PREV: the one in front.",
        scan_for_header,
        ("PREV",),
    ),
    Command(
        ("SCANFORENDTRANS", "SFET"),
        "SCANFORENDTRANS",
        "Find the end of the transaction; show the first record of the next.",
        scan_for_end,
    ),
    Command(
        ("SCANFORNEXTTRANS", "SFNT"),
        "SCANFORNEXTTRANS",
        "Show the next record that begins a transaction.",
        scan_for_next,
    ),
    Command(
        ("SCANFORTIME", "SFTS"),
        "SCANFORTIME time [, name]",
        "Show the next record of that time or later, of a table if one is named.",
        scan_for_time,
    ),
    Command(
        ("SCANFORRBA", "SFR"),
        "SCANFORRBA number [name]",
        "Show the next record whose header has that AuditRBA.",
        scan_for_rba,
    ),
    Command(
        ("SCANFORTYPE", "SFT"),
        "SCANFORTYPE type [, name]",
        "Show the next record of that type, by name or number.",
        scan_for_type,
    ),
    Command(
        ("SCANFORMETADATA", "SFMD"),
        "SCANFORMETADATA [DDR | TDR | TDRREF | PNR] [name]",
        "Show the next metadata record, of that kind and table.",
        scan_for_metadata,
        tuple(METADATA_KINDS),
    ),
    Command(("DUMP",), "DUMP [n]", "Show n bytes from where reading stands.", show_bytes),
)
