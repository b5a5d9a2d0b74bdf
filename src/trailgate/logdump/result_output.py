"""Format the results of Logdump commands as text in Logdump's form, and as JSON values.

``FORMS`` has one row for each type of result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from trailgate.errors import TrailgateError
from trailgate.logdump.counting import RecordTally
from trailgate.logdump.record_output import (
    RULE,
    Values,
    dump,
    record_lines,
    record_values,
    token_head,
)
from trailgate.logdump.results import (
    CountResult,
    DisplayLevel,
    EditResult,
    FailureResult,
    ListingResult,
    NoteResult,
    Result,
    SessionEnd,
    ShownBytes,
    ShownHeader,
    ShownRecord,
    TextResult,
)
from trailgate.logdump.times import TimeOffset, iso_time, time_text
from trailgate.trail.format.file_header import GROUPS, header_groups
from trailgate.trail.format.tokens import FILE_HEADER, FRAME, TRAILER, ByteOrder

# Logdump's titles of the groups of a file header, by their codes.
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
    """Yield the lines of a Logdump command's result, with control characters escaped."""
    _, form, _ = FORMS[type(result)]
    # bytes of a damaged trail must not reach the terminal as control codes
    for line in form(result):
        yield line if line.isprintable() else "".join(map(_escape, line))


def _escape(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()


def _listing(listing: ListingResult) -> Iterator[str]:
    if listing.title:
        yield listing.title
    width = max((len(name) for name, _ in listing.rows), default=0)
    for name, value in listing.rows:
        yield f"{name:<{width}}{listing.colon} {value}".rstrip()


def _bytes(piece: ShownBytes) -> Iterator[str]:
    yield f"Dump {len(piece.raw):>5}  Bytes at RBA {piece.offset}"
    yield from dump(piece.raw, piece.settings.dump_charset)


def _header(header: ShownHeader) -> Iterator[str]:
    settings = header.settings
    created = 0 if header.header is None else header.header.trail.creation_time
    # Without the frame around the payload.
    inner = header.raw[FRAME:-FRAME]
    yield RULE
    yield f"{time_text(created, settings.time_offset)} FileHeader           Len {len(inner):>5} RBA 0"
    yield "Name: *FileHeader*"
    yield from dump(inner, settings.dump_charset, settings.reclen)
    if settings.file_header is DisplayLevel.DETAIL:
        yield ""
        yield from _header_tokens(header)
    yield ""


def _header_tokens(header: ShownHeader) -> Iterator[str]:
    length = len(header.raw)
    yield token_head(FILE_HEADER, "File Header", header.raw[1], length)
    try:
        groups = list(header_groups(header.raw, header.order))
    except TrailgateError as error:
        yield f"error: {error}"
        return
    for group, fields, _ in groups:
        name = GROUP_NAMES.get(group.code, "unknown")
        # Logdump titles groups "GroupID", and formats them like tokens.
        head = token_head(group.code, name, group.info, len(group.payload))
        yield head.replace("TokenID", "GroupID", 1)
        for field in fields:
            name = FIELD_NAMES.get((group.code, field.code), "unknown")
            yield f" {token_head(field.code, name, field.info, len(field.payload))}"
            yield from dump(field.payload, header.settings.dump_charset)
    yield token_head(TRAILER, "File Trailer", header.raw[1], length)


def _counts(counts: CountResult) -> Iterator[str]:
    offset = counts.settings.time_offset
    for interval in counts.intervals:
        yield from _interval(interval, offset)
    yield f"LogTrail {counts.path} has {counts.total.records} records from RBA {counts.start}"
    yield from _tally(counts.total)
    if counts.suppressed:
        yield f"Filtering suppressed {counts.suppressed:>6} records"
    if counts.damaged:
        yield f"{'Damaged Records':<24} {counts.damaged:>10}  first at RBA {counts.first_damaged}"
    yield ""
    if counts.transactions:
        yield from _average(counts)
    for table in counts.tables:
        yield ""
        yield table.name or "(no name)"
        yield from _tally(table)
    if counts.settings.trans_history:
        yield from _large(counts)


def _interval(tally: RecordTally, offset: TimeOffset) -> Iterator[str]:
    begin, end = time_text(tally.begin or 0, offset), time_text(tally.end or 0, offset)
    yield f"Interval from {begin} to {end}"
    yield f"{'Recs':<24} {tally.records:>10}"
    yield from _tally(tally)
    yield ""


def _tally(tally: RecordTally) -> Iterator[str]:
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


def _average(counts: CountResult) -> Iterator[str]:
    number = counts.transactions
    yield f"Average of {number} Transactions"
    yield f"    Bytes/Trans .....   {counts.total.data_bytes // number:>10}"
    yield f"    Records/Trans ...   {round(counts.total.records / number):>10}"
    yield f"    Files/Trans .....   {round(counts.files_in_transactions / number):>10}"


def _large(counts: CountResult) -> Iterator[str]:
    settings = counts.settings
    yield ""
    limits = f"{settings.trans_records} records or {settings.trans_bytes} bytes"
    yield f"Transactions of at least {limits}"
    for one in counts.large:
        time = time_text(one.time, settings.time_offset)
        sizes = f"{one.records:>10} records {one.data_bytes:>12} bytes"
        yield f"{time} RBA {one.offset:>12} {sizes}"


def json_values(result: Result) -> Values:
    """Convert a Logdump command's result to a dictionary of plain values for JSON.

    Its first entry, ``result``, is the name of the result's type.
    """
    name, _, values = FORMS[type(result)]
    return {"result": name, **values(result)}


def _failure_values(failure: FailureResult) -> Values:
    error = failure.error
    where = {name: value for name, value in asdict(error.where).items() if value is not None}
    hint = {"hint": error.hint} if error.hint else {}
    return {"error": error.problem, "kind": type(error).__name__, "where": _plain(where), **hint}


def _header_values(header: ShownHeader) -> Values:
    values: Values = {"length": len(header.raw), "byte_order": header.order.label}
    try:
        groups = list(header_groups(header.raw, header.order))
    except TrailgateError as error:
        return {**values, "error": str(error)}
    values["tokens"] = [
        {"group": group.code, "id": field.code, "info": field.info, "hex": field.payload.hex()}
        for group, fields, _ in groups
        for field in fields
    ]
    if header.header is not None:
        fields = asdict(header.header)
        # The unknown fields are among the tokens above.
        fields.pop("unknown")
        values["header"] = _plain(fields)
    return values


def _plain(value: Any) -> Any:
    """Convert a value of a Logdump result for JSON: bytes to hex, a byte order to its name."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, ByteOrder):
        return value.label
    return value.value if isinstance(value, Enum) else value


def _tally_values(tally: RecordTally) -> Values:
    values: Values = {
        "records": tally.records,
        "data_bytes": tally.data_bytes,
        "types": dict(tally.types),
        "before_images": tally.befores,
        "after_images": tally.afters,
    }
    if tally.begin is not None and tally.end is not None:
        values |= {"begin": iso_time(tally.begin), "end": iso_time(tally.end)}
    return values


def _count_values(counts: CountResult) -> Values:
    values: Values = {
        "path": counts.path,
        "start": counts.start,
        "end": counts.end,
        **_tally_values(counts.total),
        "transactions": counts.transactions,
        "files_in_transactions": counts.files_in_transactions,
        "suppressed": counts.suppressed,
    }
    if counts.damaged:
        values |= {"damaged": counts.damaged, "first_damaged_rba": counts.first_damaged}
    if counts.tables:
        values["tables"] = {tally.name: _tally_values(tally) for tally in counts.tables}
    if counts.intervals:
        values["intervals"] = [_tally_values(tally) for tally in counts.intervals]
    if counts.settings.trans_history:
        values["large_transactions"] = [
            {
                "rba": one.offset,
                "time": iso_time(one.time),
                "records": one.records,
                "data_bytes": one.data_bytes,
            }
            for one in counts.large
        ]
    return values


def _listing_values(listing: ListingResult) -> Values:
    return {"title": listing.title, "rows": [[n.strip(), v] for n, v in listing.rows]}


# For each type of result: its name in JSON, a function for its lines, and one for its values.
FORMS: Final[Mapping[type, tuple[str, Callable[[Any], Iterable[str]], Callable[[Any], Values]]]] = (
    MappingProxyType(
        {
            NoteResult: (
                "note",
                lambda note: (note.text,),
                lambda note: {"text": note.text, **_plain(note.values or {})},
            ),
            FailureResult: ("error", lambda failure: (f"error: {failure.error}",), _failure_values),
            ShownRecord: ("record", record_lines, record_values),
            ShownHeader: ("file_header", _header, _header_values),
            ShownBytes: (
                "bytes",
                _bytes,
                lambda shown: {"rba": shown.offset, "hex": shown.raw.hex()},
            ),
            CountResult: ("counts", _counts, _count_values),
            ListingResult: ("listing", _listing, _listing_values),
            TextResult: (
                "lines",
                lambda lines: (lines.title, *lines.lines),
                lambda lines: {"title": lines.title, "lines": list(lines.lines)},
            ),
            EditResult: ("edit", lambda edit: (edit.line,), lambda edit: {"line": edit.line}),
            SessionEnd: ("goodbye", lambda _: (), lambda _: {}),
        }
    )
)
