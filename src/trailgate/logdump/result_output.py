"""Results as text, in Logdump's form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from trailgate.errors import TrailgateError
from trailgate.logdump.counting import Tally
from trailgate.logdump.images import header_groups
from trailgate.logdump.record_output import RULE, dump, record_lines, token_head
from trailgate.logdump.results import (
    Counts,
    Display,
    Edit,
    Failure,
    Goodbye,
    Lines,
    Listing,
    Note,
    Result,
    ShownBytes,
    ShownHeader,
    ShownRecord,
)
from trailgate.logdump.syntax import TimeOffset, time_text
from trailgate.trail.format.file_header import GROUPS
from trailgate.trail.format.tokens import FILE_HEADER, FRAME, TRAILER

GROUP_NAMES: Final = {
    0x30: "TrailInfo",
    0x31: "MachineInfo",
    0x32: "DatabaseInfo",
    0x33: "ProducerInfo",
    0x34: "ContinunityInfo",  # Logdump's spelling
}
FIELD_NAMES: Final = {
    (group.code, field.code): field.name.replace("_", " ").title().replace(" ", "")
    for group in GROUPS
    for field in group.fields
}


def text_lines(result: Result) -> Iterator[str]:
    """Yield the lines of a result, with control characters escaped."""
    for line in FORMS[type(result)](result):
        yield line if line.isprintable() else "".join(map(_escape, line))


def _escape(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()


def _listing(listing: Listing) -> Iterator[str]:
    if listing.title:
        yield listing.title
    width = max((len(name) for name, _ in listing.rows), default=0)
    for name, value in listing.rows:
        yield f"{name:<{width}}{listing.colon} {value}".rstrip()


def _bytes(shown: ShownBytes) -> Iterator[str]:
    yield f"Dump {len(shown.raw):>5}  Bytes at RBA {shown.offset}"
    yield from dump(shown.raw, shown.settings.dump_charset)


def _header(shown: ShownHeader) -> Iterator[str]:
    settings = shown.settings
    created = 0 if shown.header is None else shown.header.trail.creation_time
    inner = shown.raw[FRAME:-FRAME]
    yield RULE
    yield f"{time_text(created, settings.time_offset)} FileHeader           Len {len(inner):>5} RBA 0"
    yield "Name: *FileHeader*"
    yield from dump(inner, settings.dump_charset, settings.reclen)
    if settings.file_header is Display.DETAIL:
        yield ""
        yield from _header_tokens(shown)
    yield ""


def _header_tokens(shown: ShownHeader) -> Iterator[str]:
    length = len(shown.raw)
    yield token_head(FILE_HEADER, "File Header", shown.raw[1], length)
    try:
        found = list(header_groups(shown.raw, shown.order))
    except TrailgateError as error:
        yield f"error: {error}"
        return
    for group, fields, _ in found:
        name = GROUP_NAMES.get(group.code, "unknown")
        head = token_head(group.code, name, group.info, len(group.payload))
        yield head.replace("TokenID", "GroupID", 1)
        for field in fields:
            name = FIELD_NAMES.get((group.code, field.code), "unknown")
            yield f" {token_head(field.code, name, field.info, len(field.payload))}"
            yield from dump(field.payload, shown.settings.dump_charset)
    yield token_head(TRAILER, "File Trailer", shown.raw[1], length)


def _counts(counts: Counts) -> Iterator[str]:
    offset = counts.settings.time_offset
    for interval in counts.intervals:
        yield from _interval(interval, offset)
    yield f"LogTrail {counts.path} has {counts.total.records} records from RBA {counts.start}"
    yield from _tally(counts.total)
    if counts.suppressed:
        yield f"Filtering suppressed {counts.suppressed:>6} records"
    yield ""
    if counts.transactions:
        yield from _average(counts)
    for table in counts.tables:
        yield ""
        yield table.name or "(no name)"
        yield from _tally(table)
    if counts.settings.trans_history:
        yield from _large(counts)


def _interval(tally: Tally, offset: TimeOffset) -> Iterator[str]:
    begin, end = time_text(tally.begin or 0, offset), time_text(tally.end or 0, offset)
    yield f"Interval from {begin} to {end}"
    yield f"{'Recs':<24} {tally.records:>10}"
    yield from _tally(tally)
    yield ""


def _tally(tally: Tally) -> Iterator[str]:
    average = tally.data_bytes // tally.records if tally.records else 0
    rows = [
        ("Total Data Bytes", tally.data_bytes),
        ("  Avg Bytes/Record", average),
        *tally.types.items(),
        *(
            (name, n)
            for name, n in (("Before Images", tally.befores), ("After Images", tally.afters))
            if n
        ),
    ]
    for name, number in rows:
        yield f"{name:<24} {number:>10}"


def _average(counts: Counts) -> Iterator[str]:
    number = counts.transactions
    yield f"Average of {number} Transactions"
    yield f"    Bytes/Trans .....   {counts.total.data_bytes // number:>10}"
    yield f"    Records/Trans ...   {round(counts.total.records / number):>10}"
    yield f"    Files/Trans .....   {round(counts.files_in_transactions / number):>10}"


def _large(counts: Counts) -> Iterator[str]:
    settings = counts.settings
    yield ""
    limits = f"{settings.trans_records} records or {settings.trans_bytes} bytes"
    yield f"Transactions of at least {limits}"
    for one in counts.large:
        time = time_text(one.time, settings.time_offset)
        sizes = f"{one.records:>10} records {one.data_bytes:>12} bytes"
        yield f"{time} RBA {one.offset:>12} {sizes}"


FORMS: Final[Mapping[type, Callable[[Any], Iterable[str]]]] = MappingProxyType(
    {
        Note: lambda note: (note.text,),
        Failure: lambda failure: (f"error: {failure.error}",),
        ShownRecord: record_lines,
        ShownHeader: _header,
        ShownBytes: _bytes,
        Counts: _counts,
        Listing: _listing,
        Lines: lambda lines: (lines.title, *lines.lines),
        Edit: lambda edit: (edit.line,),
        Goodbye: lambda _: (),
    }
)
