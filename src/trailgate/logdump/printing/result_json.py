"""Results as values for machines, ready for JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from trailgate.errors import TrailgateError
from trailgate.logdump.printing.record_json import Values, record_values
from trailgate.logdump.records.file_header import header_groups
from trailgate.logdump.session.results import (
    Counts,
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
from trailgate.logdump.statistics.tallies import Tally
from trailgate.logdump.syntax.times import iso_time
from trailgate.trail.format.byte_order import ByteOrder


def json_values(result: Result) -> Values:
    """Return a result as a dictionary of plain values, the kind of result first."""
    name, values = FORMS[type(result)]
    return {"result": name, **values(result)}


def _failure(failure: Failure) -> Values:
    error = failure.error
    where = {name: value for name, value in asdict(error.where).items() if value is not None}
    hint = {"hint": error.hint} if error.hint else {}
    return {"error": error.problem, "kind": type(error).__name__, "where": _plain(where), **hint}


def _header(shown: ShownHeader) -> Values:
    values: Values = {"length": len(shown.raw), "byte_order": shown.order.label}
    try:
        found = list(header_groups(shown.raw, shown.order))
    except TrailgateError as error:
        return {**values, "error": str(error)}
    values["tokens"] = [
        {"group": group.code, "id": field.code, "info": field.info, "hex": field.payload.hex()}
        for group, fields, _ in found
        for field in fields
    ]
    if shown.header is not None:
        fields = asdict(shown.header)
        fields.pop("unknown")
        values["header"] = _plain(fields)
    return values


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: bytes in hex, a byte order by its name."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, ByteOrder):
        return value.label
    return value.value if isinstance(value, Enum) else value


def _tally(tally: Tally) -> Values:
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


def _counts(counts: Counts) -> Values:
    values: Values = {
        "path": counts.path,
        "start": counts.start,
        "end": counts.end,
        **_tally(counts.total),
        "transactions": counts.transactions,
        "files_in_transactions": counts.files_in_transactions,
        "suppressed": counts.suppressed,
    }
    if counts.tables:
        values["tables"] = {tally.name: _tally(tally) for tally in counts.tables}
    if counts.intervals:
        values["intervals"] = [_tally(tally) for tally in counts.intervals]
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


def _listing(listing: Listing) -> Values:
    return {"title": listing.title, "rows": [[n.strip(), v] for n, v in listing.rows]}


FORMS: Final[Mapping[type, tuple[str, Callable[[Any], Values]]]] = MappingProxyType(
    {
        Note: ("note", lambda note: {"text": note.text, **_plain(note.values or {})}),
        Failure: ("error", _failure),
        ShownRecord: ("record", record_values),
        ShownHeader: ("file_header", _header),
        ShownBytes: ("bytes", lambda shown: {"rba": shown.offset, "hex": shown.raw.hex()}),
        Counts: ("counts", _counts),
        Listing: ("listing", _listing),
        Lines: ("lines", lambda lines: {"title": lines.title, "lines": list(lines.lines)}),
        Edit: ("edit", lambda edit: {"line": edit.line}),
        Goodbye: ("goodbye", lambda _: {}),
    }
)
