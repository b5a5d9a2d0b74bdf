"""The command COUNT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyarrow import fs

from trailgate.arrays import Mask
from trailgate.errors import OptionError, StorageError, TrailgateError, Where
from trailgate.logdump.records.names import like
from trailgate.logdump.records.open_trail import OpenTrail
from trailgate.logdump.records.portions import Portion
from trailgate.logdump.session.reading import begin_of, progress
from trailgate.logdump.session.results import Counts, Failure, Result
from trailgate.logdump.session.session import Command, Session
from trailgate.logdump.statistics.counting import Counting
from trailgate.logdump.statistics.large_transactions import LargeTransactions
from trailgate.logdump.terms.settings import Detail
from trailgate.logdump.terms.times import read_time
from trailgate.logdump.terms.words import Words, read_number
from trailgate.storage.files.listing import name_of
from trailgate.storage.files.trail_files import locate

MOST_MINUTES: Final = 100 * 366 * 24 * 60


@dataclass(frozen=True, slots=True)
class CountOptions:
    """What COUNT was asked for."""

    detail: bool
    start: int | None = None
    end: int | None = None
    minutes: int | None = None
    table: str | None = None
    files: str | None = None

    def mask(self, portion: Portion, mask: Mask) -> Mask:
        """Tell which of the records that a mask leaves are counted."""
        if self.start is not None:
            mask = mask & (portion.view.io_time >= self.start)
        if self.end is not None:
            mask = mask & (portion.view.io_time <= self.end)
        if self.table is not None:
            mask = mask & portion.names.like(self.table)
        return mask


# Each word and the begins that are enough for it.
OPTIONS: Final = (
    "DETAIL",
    "START",
    "STARTTIME",
    "END",
    "ENDTIME",
    "INTERVAL",
    "FILE",
    "LOG",
    "LOGTRAIL",
)
TIMES: Final = {"STARTTIME": "start", "ENDTIME": "end"}


def count(session: Session, words: Words) -> Iterator[Result]:
    """Count records from where the session stands, or those of other files."""
    options = _options(session, words)
    if options.files is None:
        yield from _count(session, session.trail, begin_of(session), options)
        return
    paths = _paths(session.path(options.files))
    for path in paths:
        trail = OpenTrail(path)
        try:
            yield from _count(session, trail, trail.header_length, options)
        finally:
            trail.close()


def _count(
    session: Session, trail: OpenTrail, start: int, options: CountOptions
) -> Iterator[Result]:
    settings = session.settings
    large = None
    if settings.trans_history:
        limits = (settings.trans_history, settings.trans_records, settings.trans_bytes)
        large = LargeTransactions(*limits)
    counting = Counting(tables=options.detail, minutes=options.minutes, large=large)
    end, scanned = start, 0
    problem: TrailgateError | None = None
    try:
        for portion in trail.forward(start):
            counting.add(portion, options.mask(portion, session.filters.mask(portion)))
            end, scanned = portion.end, scanned + len(portion)
            yield from progress(session, portion, scanned)
    except TrailgateError as error:
        problem = error
    yield Counts(
        trail.path,
        start,
        end,
        counting.total(),
        counting.transactions,
        counting.files,
        settings,
        counting.tables(),
        counting.intervals(),
        () if large is None else large.found(),
        counting.suppressed,
    )
    if problem is not None:
        yield Failure(problem)


def _options(session: Session, words: Words) -> CountOptions:
    values: dict[str, Any] = {"detail": session.settings.detail is not Detail.OFF}
    for phrase in _phrases(words):
        word, rest = phrase[0], " ".join(phrase[1:])
        if word == "DETAIL":
            values["detail"] = True
        elif not rest:
            raise OptionError(f"something is missing behind {word}")
        elif word in TIMES:
            values[TIMES[word]] = read_time(rest, session.settings.offset, session.now())
        elif word == "INTERVAL":
            values["minutes"] = read_number(rest, 1, MOST_MINUTES)
        else:
            values["table" if word == "FILE" else "files"] = rest
    return CountOptions(**values)


def _phrases(words: Words) -> list[list[str]]:
    """Return each option with what follows it; commas between options may be left out."""
    found: list[list[str]] = []
    for word in words.plain:
        name = _option(word)
        if name is not None and not (found and found[-1] in (["FILE"], ["LOGTRAIL"])):
            found.append([name])
        elif found:
            found[-1].append(word)
        else:
            raise OptionError(f"{word[:40]!r} is no option of COUNT", hint="HELP COUNT lists them")
    return found


def _option(word: str) -> str | None:
    asked = word.upper()
    full = {
        "START": "STARTTIME",
        "END": "ENDTIME",
        "LOG": "LOGTRAIL",
        "INT": "INTERVAL",
        "DET": "DETAIL",
    }
    asked = full.get(asked, asked)
    return asked if asked in OPTIONS else None


def _paths(pattern: str) -> Sequence[str]:
    """Return the files that a pattern with ``*`` and ``?`` in its name matches, by name."""
    folder, _, name = pattern.rpartition("/")
    store, place = locate(folder or ("/" if pattern.startswith("/") else "."))
    try:
        entries = store.get_file_info(fs.FileSelector(place))
    except OSError as error:
        raise StorageError("the folder cannot be read", where=Where(source=folder)) from error
    matches = like(name, fold=False)
    prefix = f"{folder}/" if "/" in pattern else ""
    found = sorted(
        prefix + name_of(entry.path)
        for entry in entries
        if entry.type == fs.FileType.File and matches(entry.base_name)
    )
    if not found:
        raise StorageError("no files are named so", where=Where(source=pattern))
    return found


ROWS: Final = (
    Command(
        ("COUNT",),
        "COUNT [DETAIL] [, START time] [, END time] [, INTERVAL minutes] [, FILE name] [, LOG files]",
        "Count the records from here on that the filters let through: bytes, types, transactions;"
        " DETAIL of each table, INTERVAL by time, LOG in each file of that name.",
        count,
        OPTIONS,
    ),
)
