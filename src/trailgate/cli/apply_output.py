"""What ``trailgate apply`` prints of what it did: rows by table, what it did not apply and why, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from trailgate.columnar.digits import short_position
from trailgate.jobs.apply_metrics import age_of
from trailgate.jobs.apply_options import ApplyOptions
from trailgate.jobs.apply_tables import ApplyReport
from trailgate.terminal.counts import age_text, many
from trailgate.terminal.layout import print_rows
from trailgate.terminal.output import quiet_pipe, say

COLUMNS: Final = (
    "operations",
    "inserted",
    "updated",
    "replaced",
    "deleted",
    "ignored",
    "discarded",
)
RANKED: Final = 10  # reasons that are shown
SELDOM: Final = ("ignored", "discarded")  # shown if there are any


def discarded(report: ApplyReport) -> int:
    """Return the number of operations that could not be applied."""
    return sum(one.discarded for one in report.tables.values())


def as_values(report: ApplyReport, faults: Mapping[str, int]) -> dict[str, Any]:
    """Return a report as JSON has it; ``faults`` are those of the target, by reason."""
    return {
        "operations": report.operations,
        "batches": report.batches,
        "discarded": discarded(report),
        "tables": {name: asdict(one) for name, one in report.tables.items()},
        "position": None if report.position is None else report.position.position,
        "csn": None if report.position is None else report.position.csn,
        "reasons": dict(report.reasons),
        "notices": list(report.notices),
        "faults": dict(faults),
    }


def print_batch(report: ApplyReport, faults: Mapping[str, int], *, as_json: bool) -> None:
    """Print what a batch did as a line, with the age of its last operation."""
    with quiet_pipe():
        if as_json:
            line = {**as_values(report, faults), "lag_seconds": age_of(report.position)}
            print(json.dumps(line, ensure_ascii=False), flush=True)
        else:
            print_notices(report.notices)
            if report.batches:
                say(_sentence(report))


def _sentence(report: ApplyReport) -> str:
    rows = ", ".join(f"{name} {one.operations:,}" for name, one in report.tables.items())
    at = "" if report.position is None else short_position(report.position.position)
    lag, gone = age_of(report.position), discarded(report)
    old = "" if lag is None else f", {age_text(lag)} old"
    more = f"; {gone:,} discarded" if gone else ""
    return f"{many(report.operations, 'operation')} up to {at}{old}: {rows}{more}"


def print_total(report: ApplyReport, faults: Mapping[str, int], target: str) -> None:
    """Print what a run that followed a trail did."""
    _print_faults(faults)
    if report.position is None:
        say(f"nothing was applied to {target}")
        return
    at, gone = short_position(report.position.position), discarded(report)
    more = f"; {gone:,} discarded" if gone else ""
    batches = many(report.batches, "batch", "batches")
    say(
        f"{many(report.operations, 'operation')} in {batches} applied up to position {at}: {target}{more}"
    )


def print_report(
    report: ApplyReport,
    options: ApplyOptions,
    faults: Mapping[str, int],
    target: str,
) -> None:
    """Print what a run did."""
    print_tables(report)
    print_notices(report.notices)
    _print_faults(faults)
    if report.position is None:
        chosen = f" of what {options.params} maps" if options.params else ""
        say(f"nothing new{chosen} for {target}")
        return
    if gone := discarded(report):
        file = options.discards or f"{options.group}.discards.jsonl"
        where = "ignored" if options.on_error == "ignore" else file
        say(f"{many(gone, 'operation')} could not be applied: {where}")
        ranked = sorted(report.reasons.items(), key=lambda one: (-one[1], one[0]))
        for reason, count in ranked[:RANKED]:
            say(f"  {count:,}: {reason}")
    at = short_position(report.position.position)
    verb = "would be applied" if options.dry_run else "applied"
    say(f"{many(report.operations, 'operation')} {verb} up to position {at}: {target}")


def print_tables(report: ApplyReport) -> None:
    """Print what was done to each table."""
    shown = [
        name
        for name in COLUMNS
        if name not in SELDOM or any(getattr(one, name) for one in report.tables.values())
    ]
    if report.tables:
        rows = report.tables.items()
        numbers = [(name, *(getattr(one, column) for column in shown)) for name, one in rows]
        print_rows(("table", *shown), numbers)


def print_notices(notices: Sequence[str]) -> None:
    """Print what was not applied."""
    for notice in notices:
        say(f"note: {notice}")


def _print_faults(faults: Mapping[str, int]) -> None:
    if faults:
        by_reason = ", ".join(f"{count:,} {reason}" for reason, count in sorted(faults.items()))
        say(f"note: {many(sum(faults.values()), 'fault')} of the target, tried again: {by_reason}")
