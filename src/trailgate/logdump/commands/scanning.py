"""Commands that scan the file for a record: by header, transaction, time, type or AuditRBA."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Final

from trailgate.arrays import Mask
from trailgate.errors import OptionError
from trailgate.logdump.filters import record_tests
from trailgate.logdump.filters.record_tests import RecordTest
from trailgate.logdump.records.open_trail import SMALL
from trailgate.logdump.records.portions import Portion
from trailgate.logdump.session.reading import at_end, chosen, find, portions, rba_of
from trailgate.logdump.session.results import Note, Result
from trailgate.logdump.session.session import Command, Session
from trailgate.logdump.session.showing import show_record
from trailgate.logdump.syntax.arguments import Arguments
from trailgate.logdump.syntax.codes import METADATA_KINDS, type_codes
from trailgate.logdump.syntax.times import read_time
from trailgate.logdump.syntax.values import one_of, read_number
from trailgate.trail.format.record_types import IO_METADATA
from trailgate.trail.records.transactions import FIRST, LAST, ONLY


def for_header(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Show the next good record, whatever bytes come before it; with PREV the previous one."""
    trail = session.trail
    asked = bool(arguments.plain) and one_of(arguments.only(), {"PREV": True})
    back = asked or not session.settings.forward
    start = session.start
    if back and session.current is not None and session.settings.forward:
        start = min(start, session.current)
    found = trail.record_before(start) if back else trail.good_record_from(start)
    if found is None:
        yield Note("No further record header was found", {"found": False})
        return
    skipped = 0 if back else found - start
    if skipped:
        yield Note(f"Passed over {skipped} bytes from RBA {start}", {"skipped_bytes": skipped})
    portion = next(trail.forward(found, SMALL), None)
    if portion is not None:
        yield show_record(session, portion, 0)


def for_transaction_end(session: Session, _arguments: Arguments) -> Iterator[Result]:
    """Find the end of the transaction and show the first record of the next one."""
    if not session.settings.forward:
        raise OptionError("this search goes forward only", hint="POSITION FORWARD turns round")
    for portion in portions(session, SMALL):
        rows = chosen(session, _is_at_border(portion, LAST))
        if rows:
            rba = rba_of(portion, rows[0])
            session.position = rba + int(portion.view.lengths[rows[0]])
            yield Note(f"End of Transaction found at RBA {rba}", {"rba": rba})
            break
    else:
        yield from at_end(session, "no end of a transaction was found")
        return
    following = next(portions(session, SMALL), None)
    if following is None:
        yield from at_end(session)
    else:
        yield show_record(session, following, 0)


def for_transaction_begin(session: Session, _arguments: Arguments) -> Iterator[Result]:
    """Show the next record that begins a transaction."""
    return find(session, lambda portion: _is_at_border(portion, FIRST))


def _is_at_border(portion: Portion, border: int) -> Mask:
    """Return which records are the first, or the last, of their transactions."""
    indicator = portion.view.indicator
    found: Mask = ((indicator == border) | (indicator == ONLY)) & ~portion.apart
    return found


def for_time(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Show the next record of a time or later."""
    typed, *names = arguments.phrases() or [[]]
    time = read_time(" ".join(typed), session.settings.time_offset, session.now())
    patterns = [word for phrase in names for word in phrase]
    return find(session, _and_named(record_tests.of_time(operator.ge, time), patterns))


def for_rba(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Show the next record with that AuditRBA."""
    first, *names = arguments.plain or [""]
    test = record_tests.of_field("audit_rba", operator.eq, read_number(first, 0, 2**32 - 1))
    return find(session, _and_named(test, names))


def for_type(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Show the next record of a type."""
    first, *names = arguments.plain or [""]
    return find(session, _and_named(record_tests.of_types(type_codes([first])), names))


def for_metadata(session: Session, arguments: Arguments) -> Iterator[Result]:
    """Show the next metadata record, if given of a kind and of a table."""
    names = arguments.plain
    tests = [record_tests.of_types([IO_METADATA])]
    if names and names[0].upper() in METADATA_KINDS:
        kind = METADATA_KINDS[names.pop(0).upper()]
        tests.append(record_tests.of_field("node", operator.eq, kind))
    return find(session, _and_named(record_tests.all_of(tests), names))


def _and_named(test: RecordTest, patterns: list[str]) -> RecordTest:
    """Return a test that also compares table names, if there are any to compare with."""
    return record_tests.all_of([test, record_tests.of_names(patterns)]) if patterns else test


ROWS: Final = (
    Command(
        ("SCANFORHEADER", "SFH"),
        "[PREV]",
        "Show the next good record, past damaged bytes; PREV: the previous one.",
        for_header,
    ),
    Command(
        ("SCANFORENDTRANS", "SFET"),
        "",
        "Find the end of the transaction; show the first record of the next.",
        for_transaction_end,
    ),
    Command(
        ("SCANFORNEXTTRANS", "SFNT"),
        "",
        "Show the next record that begins a transaction.",
        for_transaction_begin,
    ),
    Command(
        ("SCANFORTIME", "SFTS"),
        "time [, name]",
        "Show the next record of that time or later, of a table if one is named.",
        for_time,
    ),
    Command(
        ("SCANFORRBA", "SFR"),
        "number [name]",
        "Show the next record whose header has that AuditRBA.",
        for_rba,
    ),
    Command(
        ("SCANFORTYPE", "SFT"),
        "type [, name]",
        "Show the next record of that type, by name or number.",
        for_type,
    ),
    Command(
        ("SCANFORMETADATA", "SFMD"),
        "[DDR | TDR | TDRREF | PNR] [name]",
        "Show the next metadata record, of that kind and table.",
        for_metadata,
    ),
)
