"""Logdump's commands that move to a position or scan for a record, and show the record.

Scans search by header, transaction, time, type, AuditRBA or metadata.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Final

from trailgate.arrays import Mask
from trailgate.errors import OptionError
from trailgate.logdump import record_tests
from trailgate.logdump.open_trail import SMALL
from trailgate.logdump.reading import (
    chunks,
    find_record,
    report_end,
    selected_rows,
    show_file_header,
    show_record,
)
from trailgate.logdump.record_chunks import LogdumpChunk
from trailgate.logdump.record_tests import RecordTest
from trailgate.logdump.results import DisplayLevel, NoteResult, Result, ShownBytes
from trailgate.logdump.session import LogdumpCommand, LogdumpSession
from trailgate.logdump.syntax import (
    METADATA_KINDS,
    CommandArguments,
    read_choice,
    read_number,
    type_codes,
)
from trailgate.logdump.times import read_time
from trailgate.trail.format.record_types import IO_METADATA
from trailgate.trail.records.transactions import FIRST, LAST, ONLY_RECORD

DUMPED: Final = 256  # bytes that DUMP shows by default
MOST_BYTES: Final = 1 << 20  # bytes that DUMP shows at most


def show_next(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """NEXT: show the next records that pass the filters, at RBA 0 first the file header if it is set."""
    wanted = arguments.number(1)
    if wanted and _at_file_header(session):
        yield show_file_header(session)
        wanted -= 1
    if wanted:
        yield from _records(session, wanted)


def _at_file_header(session: LogdumpSession) -> bool:
    wanted = session.settings.file_header is not DisplayLevel.OFF and session.settings.forward
    return wanted and session.position == 0 and session.trail.header_length > 0


def _records(session: LogdumpSession, count: int) -> Iterator[Result]:
    # at the end of the file, records may have been appended since it was opened
    if session.settings.forward and session.start >= session.trail.size:
        session.trail.refresh_size()
    suppressed = 0
    for chunk in chunks(session, SMALL):
        rows = selected_rows(session, session.filters.mask(chunk))[:count]
        for row in rows:
            yield show_record(session, chunk, row)
        count -= len(rows)
        if not count:
            suppressed += _records_read(session, chunk, rows) - len(rows)
            break
        suppressed += len(chunk) - len(rows)
    if suppressed:
        yield NoteResult(
            f"Filtering suppressed {suppressed:>6} records", {"suppressed": suppressed}
        )
    if count:
        yield from report_end(session)


def _records_read(session: LogdumpSession, chunk: LogdumpChunk, rows: list[int]) -> int:
    """Return the number of a chunk's records that NEXT has read, including the last one shown.

    ``rows`` are the shown rows, of which there is at least one.
    """
    return rows[-1] + 1 if session.settings.forward else len(chunk) - rows[-1]


def skip_records(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """SKIP: skip records. With FILTER, only records that pass the filters are counted."""
    plain = [word.upper() for word in arguments.plain]
    filtered = "FILTER" in plain
    numbers = [word for word in plain if word != "FILTER"]
    wanted = left = read_number(numbers[0]) if numbers else 1
    for chunk in chunks(session, SMALL) if wanted else ():
        # Every record has a length above 0: this mask selects all.
        mask = session.filters.mask(chunk) if filtered else chunk.view.lengths > 0
        rows = selected_rows(session, mask)[:left]
        left -= len(rows)
        if not left:
            # Called for its effect: it moves the session past the record.
            show_record(session, chunk, rows[-1])
            break
    values = {"skipped": wanted - left, "rba": session.position}
    yield NoteResult(f"Skipped {wanted - left} records, RBA {session.position}", values)


def set_position(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """POSITION: set the position or the direction in which Logdump reads."""
    trail = session.trail
    word = arguments.only("").upper()
    if word[:3] in ("FOR", "REV"):
        session.set(forward=word[:3] == "FOR")
    elif word in ("EOF", "LAST"):
        trail.refresh_size()
        last = trail.record_before(trail.size) if word == "LAST" else None
        session.position = trail.size if last is None else last
    elif word == "FIRST":
        session.position = 0
    elif word:
        rba = read_number(word)
        # The file may have grown since it was opened, so look again before refusing.
        if rba > trail.size and (not trail.refresh_size() or rba > trail.size):
            raise OptionError(f"the file ends at RBA {trail.size}")
        session.position = rba
    direction = "forward" if session.settings.forward else "in reverse"
    values = {"rba": session.position, "forward": session.settings.forward}
    yield NoteResult(f"Reading {direction} from RBA {session.position}", values)


def set_direction(word: str) -> Callable[[LogdumpSession, CommandArguments], Iterator[Result]]:
    """Return the function of FORWARD or REVERSE, which is like ``POSITION FORWARD``."""

    def run(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
        if arguments.plain:
            raise OptionError(f"{word} takes no words", hint="POSITION goes to an offset")
        return set_position(session, CommandArguments((word,), word))

    return run


def move_to_time(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """BEGIN: move to the first record of the given time or later."""
    time = read_time(" ".join(arguments.plain), session.settings.time_offset, session.now())
    for chunk in session.trail.forward(session.trail.header_length, SMALL):
        late = chunk.view.io_time >= time
        if late.any():
            # argmax gives the index of the first True
            session.position = chunk.rba(int(late.argmax()))
            values = {"rba": session.position}
            yield NoteResult(f"Reading forward from RBA {session.position}", values)
            return
        session.position = chunk.end
    yield from report_end(session, "no record has this time or a later one")


def show_bytes(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """DUMP: show bytes of the trail file in hex, from the current position on."""
    size = min(arguments.number(DUMPED), MOST_BYTES)
    raw = session.trail.read(session.position, size).tobytes()
    yield ShownBytes(session.position, raw, session.settings)


MOVING_COMMANDS: Final = (
    LogdumpCommand(("NEXT", "N"), "[n]", "Show the next n records.", show_next),
    LogdumpCommand(
        ("SKIP",),
        "[n] [FILTER]",
        "Skip n records; with FILTER, n of those that pass the filters.",
        skip_records,
    ),
    LogdumpCommand(
        ("POSITION", "POS"),
        "[rba | FIRST | LAST | EOF | FORWARD | REVERSE]",
        "Go to an offset in the file, or change the direction of reading.",
        set_position,
    ),
    LogdumpCommand(
        ("FORWARD",), "", "Read forward, like POSITION FORWARD.", set_direction("FORWARD")
    ),
    LogdumpCommand(
        ("REVERSE",), "", "Read in reverse, like POSITION REVERSE.", set_direction("REVERSE")
    ),
    LogdumpCommand(
        ("BEGIN",), "time", "Move to the first record of that time or later.", move_to_time
    ),
    LogdumpCommand(("DUMP",), "[n]", "Show n bytes from the current position.", show_bytes),
)


def scan_for_header(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """SCANFORHEADER: show the next good record, skipping damaged bytes; with PREV the previous one."""
    trail = session.trail
    previous = bool(arguments.plain) and read_choice(arguments.only(), {"PREV": True})
    back = previous or not session.settings.forward
    start = session.start
    if back and session.current is not None and session.settings.forward:
        # PREV means before the record shown last, not before the next one
        start = min(start, session.current)
    offset = trail.record_before(start) if back else trail.good_record_from(start)
    if offset is None:
        yield NoteResult("No further record header was found", {"found": False})
        return
    skipped = 0 if back else offset - start
    if skipped:
        yield NoteResult(
            f"Passed over {skipped} bytes from RBA {start}", {"skipped_bytes": skipped}
        )
    chunk = next(trail.forward(offset, SMALL), None)
    if chunk is not None:
        yield show_record(session, chunk, 0)


def scan_for_transaction_end(
    session: LogdumpSession, _arguments: CommandArguments
) -> Iterator[Result]:
    """SCANFORENDTRANS: find the end of the transaction, and show the first record of the next one."""
    if not session.settings.forward:
        raise OptionError(
            "this search goes forward only", hint="POSITION FORWARD changes the direction"
        )
    for chunk in chunks(session, SMALL):
        rows = selected_rows(session, _is_at_border(chunk, LAST))
        if rows:
            rba = chunk.rba(rows[0])
            # The position is the end of the record, which must not be shown.
            session.position = rba + int(chunk.view.lengths[rows[0]])
            yield NoteResult(f"End of Transaction found at RBA {rba}", {"rba": rba})
            break
    else:
        yield from report_end(session, "no end of a transaction was found")
        return
    following = next(chunks(session, SMALL), None)
    if following is None:
        yield from report_end(session)
    else:
        yield show_record(session, following, 0)


def scan_for_transaction_begin(
    session: LogdumpSession, _arguments: CommandArguments
) -> Iterator[Result]:
    """SCANFORNEXTTRANS: show the next record that begins a transaction."""
    return find_record(session, lambda chunk: _is_at_border(chunk, FIRST))


def _is_at_border(chunk: LogdumpChunk, border: int) -> Mask:
    """Return a mask of a chunk's records that are the first, or the last, of their transactions.

    ``border`` is FIRST or LAST.
    """
    indicator = chunk.view.indicator
    # `separate` marks records that neither open nor end a transaction.
    mask: Mask = ((indicator == border) | (indicator == ONLY_RECORD)) & ~chunk.separate
    return mask


def scan_for_time(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """SCANFORTIME: show the next record of the given time or later."""
    typed, *names = arguments.phrases() or [[]]
    time = read_time(" ".join(typed), session.settings.time_offset, session.now())
    patterns = [word for phrase in names for word in phrase]
    return find_record(session, _and_named(record_tests.of_time(operator.ge, time), patterns))


def scan_for_rba(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """SCANFORRBA: show the next record whose AuditRBA is the given number."""
    first, *names = arguments.plain or [""]
    test = record_tests.of_field("audit_rba", operator.eq, read_number(first, 0, 2**32 - 1))
    return find_record(session, _and_named(test, names))


def scan_for_type(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """SCANFORTYPE: show the next record of the given record type."""
    first, *names = arguments.plain or [""]
    return find_record(session, _and_named(record_tests.of_types(type_codes([first])), names))


def scan_for_metadata(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """SCANFORMETADATA: show the next metadata record, optionally of the given type or table."""
    names = arguments.plain
    tests = [record_tests.of_types([IO_METADATA])]
    if names and names[0].upper() in METADATA_KINDS:
        kind = METADATA_KINDS[names.pop(0).upper()]
        tests.append(record_tests.of_field("node", operator.eq, kind))
    return find_record(session, _and_named(record_tests.all_of(tests), names))


def _and_named(test: RecordTest, patterns: list[str]) -> RecordTest:
    """Return a test of records that also compares table names, if patterns are given."""
    return record_tests.all_of([test, record_tests.of_names(patterns)]) if patterns else test


SCANNING_COMMANDS: Final = (
    LogdumpCommand(
        ("SCANFORHEADER", "SFH"),
        "[PREV]",
        "Show the next good record, past damaged bytes; PREV: the previous one.",
        scan_for_header,
    ),
    LogdumpCommand(
        ("SCANFORENDTRANS", "SFET"),
        "",
        "Find the end of the transaction; show the first record of the next.",
        scan_for_transaction_end,
    ),
    LogdumpCommand(
        ("SCANFORNEXTTRANS", "SFNT"),
        "",
        "Show the next record that begins a transaction.",
        scan_for_transaction_begin,
    ),
    LogdumpCommand(
        ("SCANFORTIME", "SFTS"),
        "time [, name]",
        "Show the next record of that time or later, of a table if one is named.",
        scan_for_time,
    ),
    LogdumpCommand(
        ("SCANFORRBA", "SFR"),
        "number [name]",
        "Show the next record whose header has that AuditRBA.",
        scan_for_rba,
    ),
    LogdumpCommand(
        ("SCANFORTYPE", "SFT"),
        "type [, name]",
        "Show the next record of that type, by name or number.",
        scan_for_type,
    ),
    LogdumpCommand(
        ("SCANFORMETADATA", "SFMD"),
        "[DDR | TDR | TDRREF | PNR] [name]",
        "Show the next metadata record, of that kind and table.",
        scan_for_metadata,
    ),
)
