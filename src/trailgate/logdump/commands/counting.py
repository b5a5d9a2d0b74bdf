"""Logdump's command COUNT: its options, the files to count, and the result.

``logdump/counting.py`` counts the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyarrow import fs

from trailgate.arrays import Mask
from trailgate.errors import OptionError, StorageError, TrailgateError, Where, mask_logins
from trailgate.logdump.commands.files import folder_entries
from trailgate.logdump.counting import LargeTransactions, RecordCounter
from trailgate.logdump.open_trail import OpenTrail
from trailgate.logdump.reading import report_progress, report_size
from trailgate.logdump.record_chunks import LogdumpChunk, name_matcher
from trailgate.logdump.results import CountResult, DetailLevel, FailureResult, NoteResult, Result
from trailgate.logdump.session import LogdumpCommand, LogdumpSession
from trailgate.logdump.syntax import CommandArguments, read_number
from trailgate.logdump.times import read_time
from trailgate.storage.files.addresses import name_of
from trailgate.storage.files.trail_names import number_digits

# A century.
MOST_MINUTES: Final = 100 * 366 * 24 * 60
# The fields of CountOptions whose value is a name, which may look like an option.
NAMES: Final = ("table", "files")
# The options of COUNT, with the field of CountOptions that each sets.
OPTIONS: Final = {
    **dict.fromkeys(("DETAIL", "DET"), "detail"),
    **dict.fromkeys(("START", "STARTTIME"), "start"),
    **dict.fromkeys(("END", "ENDTIME"), "end"),
    **dict.fromkeys(("INTERVAL", "INT"), "minutes"),
    "FILE": "table",
    **dict.fromkeys(("LOG", "LOGTRAIL"), "files"),
}


@dataclass(frozen=True, slots=True)
class CountOptions:
    """The options of Logdump's COUNT. None means that an option is not set.

    ``start`` and ``end`` are times in microseconds since 1970 UTC, and ``minutes`` is the length of
    the intervals. ``table`` and ``files`` are patterns of names.
    """

    detail: bool
    start: int | None = None
    end: int | None = None
    minutes: int | None = None
    table: str | None = None
    files: str | None = None

    def mask(self, chunk: LogdumpChunk, mask: Mask) -> Mask:
        """Return a mask of the records that COUNT counts, among the selected records in ``mask``."""
        if self.start is not None:
            mask = mask & (chunk.view.io_time >= self.start)
        if self.end is not None:
            mask = mask & (chunk.view.io_time <= self.end)
        if self.table is not None:
            mask = mask & chunk.names.like(self.table)
        return mask


def count_command(session: LogdumpSession, arguments: CommandArguments) -> Iterator[Result]:
    """COUNT: count the records from the current position on, or the records of other files."""
    options = _options(session, arguments)
    if options.files is None:
        yield from _count(session, session.trail, session.start, options)
        return
    paths, others = _paths(session.path(options.files))
    if others:
        names = ", ".join(map(name_of, others))
        problem = f"Not counted, since their names do not end with a number: {names}"
        yield NoteResult(problem, {"skipped": len(others)})
    for path in paths:
        trail = OpenTrail(path)
        try:
            yield from _count(session, trail, trail.header_length, options)
        finally:
            trail.close()


def _count(
    session: LogdumpSession, trail: OpenTrail, start: int, options: CountOptions
) -> Iterator[Result]:
    settings = session.settings
    large = None
    if settings.trans_history:
        large = LargeTransactions(
            settings.trans_history, settings.trans_records, settings.trans_bytes
        )
    counting = RecordCounter(tables=options.detail, minutes=options.minutes, large=large)
    end, scanned = start, 0
    problem: TrailgateError | None = None
    damaged, first_damaged = 0, None
    try:
        for chunk in trail.forward(start):
            mask = options.mask(chunk, session.filters.mask(chunk))
            counting.add(chunk, mask)
            rows = [row for row in sorted(chunk.damage) if mask[row]]
            if rows and first_damaged is None:
                first_damaged = chunk.rba(rows[0])
            damaged += len(rows)
            end, scanned = chunk.end, scanned + len(chunk)
            yield from report_progress(session, chunk, scanned)
    except TrailgateError as error:
        problem = error
    # A damaged file ends the count, but the sums up to the damage are shown before the error.
    yield CountResult(
        path=mask_logins(trail.path),
        start=start,
        end=end,
        total=counting.total(),
        transactions=counting.transactions,
        files_in_transactions=counting.files,
        settings=settings,
        tables=counting.tables(),
        intervals=counting.intervals(),
        large=() if large is None else large.found(),
        suppressed=counting.suppressed,
        damaged=damaged,
        first_damaged=first_damaged,
    )
    left = trail.size - end
    if problem is None and left > 0:
        text = f"{left} bytes of an unfinished record at RBA {end} are not counted"
        yield NoteResult(text, {"rba": end, "unfinished_bytes": left})
    yield from report_size(trail)
    if problem is not None:
        yield FailureResult(problem)


def _options(session: LogdumpSession, arguments: CommandArguments) -> CountOptions:
    values: dict[str, Any] = {"detail": session.settings.detail is not DetailLevel.OFF}
    for option, *words in _phrases(arguments):
        field, value = OPTIONS[option], " ".join(words)
        if field == "detail":
            values[field] = True
        elif not value:
            raise OptionError(f"a value is missing after {option}")
        elif field == "minutes":
            values[field] = read_number(value, 1, MOST_MINUTES)
        elif field in ("start", "end"):
            values[field] = read_time(value, session.settings.time_offset, session.now())
        else:
            values[field] = value
    return CountOptions(**values)


def _phrases(arguments: CommandArguments) -> list[list[str]]:
    """Split the arguments of COUNT into options, each with the words after it.

    Commas between them are optional: ``DETAIL START 12:00`` is ``[["DETAIL"], ["START",
    "12:00"]]``. Raises OptionError if the first word is not an option.
    """
    phrases: list[list[str]] = []
    for word in arguments.plain:
        # A word after FILE or LOG is its value, even if it is the name of an option.
        value_follows = phrases and len(phrases[-1]) == 1 and OPTIONS[phrases[-1][0]] in NAMES
        if word.upper() in OPTIONS and not value_follows:
            phrases.append([word.upper()])
        elif phrases:
            phrases[-1].append(word)
        else:
            raise OptionError(
                f"{word[:40]!r} is not an option of COUNT", hint="HELP COUNT lists them"
            )
    return phrases


def _paths(pattern: str) -> tuple[Sequence[str], Sequence[str]]:
    """Return the files that COUNT LOG counts: the trail files whose names match a pattern, in name order.

    Also returns the other matching files. ``*`` and ``?`` are wildcards. The names of trail files
    end with a number; other files beside them are definitions, manifests and quarantined messages.
    If no name ends with a number, all files count as trail files.
    """
    folder, _, name = pattern.rpartition("/")
    entries = folder_entries(folder or ("/" if pattern.startswith("/") else "."))
    matches = name_matcher(name, fold=False)
    prefix = f"{folder}/" if "/" in pattern else ""
    matched = sorted(
        prefix + name_of(entry.path)
        for entry in entries
        if entry.type == fs.FileType.File and matches(entry.base_name)
    )
    if not matched:
        raise StorageError("no files match this name", where=Where(source=pattern))
    trails = [path for path in matched if number_digits(path)]
    return (trails, [path for path in matched if path not in trails]) if trails else (matched, [])


COUNT_COMMANDS: Final = (
    LogdumpCommand(
        ("COUNT",),
        "[DETAIL] [, START time] [, END time] [, INTERVAL minutes] [, FILE name] [, LOG files]",
        "Count the records from here on that pass the filters: bytes, types, transactions;"
        " DETAIL of each table, INTERVAL by time, LOG in each file of that name.",
        count_command,
        tuple(OPTIONS),
    ),
)
