"""Print the results of ``trailgate apply``: counts per table, discarded operations, or all as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from trailgate.apply.jobs.metrics import ApplyStatistics, measure_apply_lag
from trailgate.apply.jobs.options import ApplyOptions
from trailgate.apply.jobs.reports import ApplyReport, count_discarded, report_to_json
from trailgate.errors import count_noun
from trailgate.model.positions import short_position
from trailgate.terminal.durations import format_age
from trailgate.terminal.layout import print_rows
from trailgate.terminal.output import print_line, quiet_pipe, say

COLUMNS: Final = (
    "operations",
    "inserted",
    "updated",
    "replaced",
    "deleted",
    "ignored",
    "discarded",
)
RANKED: Final = 10  # the most reasons shown
SELDOM: Final = ("ignored", "discarded")  # columns that are shown only if one is not 0


def print_batch(report: ApplyReport, faults: Mapping[str, int], *, as_json: bool) -> None:
    """Print the result of a batch of ``trailgate apply --follow`` as a line of text or JSON, and its notices.

    The line has the age of the batch's last operation.
    """
    if as_json:
        line = {
            **report_to_json(report, faults),
            "lag_seconds": measure_apply_lag(report.position),
        }
        print_line(json.dumps(line, ensure_ascii=False))
    else:
        with quiet_pipe():
            print_notices(report.notices)
            if report.batches:
                say(_sentence(report))


def _sentence(report: ApplyReport) -> str:
    rows = ", ".join(f"{name} {one.operations:,}" for name, one in report.tables.items())
    at = "" if report.position is None else short_position(report.position.position)
    lag, discards = measure_apply_lag(report.position), count_discarded(report)
    old = "" if lag is None else f", {format_age(lag)} old"
    more = f"; {discards:,} discarded" if discards else ""
    return f"{count_noun(report.operations, 'operation')} up to {at}{old}: {rows}{more}"


def print_total(report: ApplyReport, faults: Mapping[str, int], target: str) -> None:
    """Print the totals of ``trailgate apply --follow`` as one line of text."""
    _print_faults(faults)
    if report.position is None:
        say(f"nothing was applied to {target}")
        return
    at, discards = short_position(report.position.position), count_discarded(report)
    more = f"; {discards:,} discarded" if discards else ""
    batches = count_noun(report.batches, "batch", "batches")
    say(
        f"{count_noun(report.operations, 'operation')} in {batches} applied up to position {at}: {target}{more}"
    )


def print_report(
    report: ApplyReport,
    options: ApplyOptions,
    faults: Mapping[str, int],
    target: str,
) -> None:
    """Print the result of an apply run: tables, notices, discarded operations and the position."""
    print_tables(report)
    print_notices(report.notices)
    _print_faults(faults)
    if report.position is None:
        chosen = f" in the mappings of {options.params}" if options.params else ""
        say(f"nothing new{chosen} for {target}")
        return
    if discards := count_discarded(report):
        file = options.discards or f"{options.group}.discards.jsonl"
        where = "ignored" if options.on_error == "ignore" else file
        say(f"{count_noun(discards, 'operation')} could not be applied: {where}")
        ranked = sorted(report.reasons.items(), key=lambda one: (-one[1], one[0]))
        for reason, count in ranked[:RANKED]:
            say(f"  {count:,}: {reason}")
    at = short_position(report.position.position)
    verb = "would be applied" if options.dry_run else "applied"
    say(f"{count_noun(report.operations, 'operation')} {verb} up to position {at}: {target}")


def print_tables(report: ApplyReport) -> None:
    """Print the counts of each target table after ``trailgate apply``."""
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
    """Print the notices of ``trailgate apply``, such as operations that were not applied."""
    for notice in notices:
        say(f"note: {notice}")


def _print_faults(faults: Mapping[str, int]) -> None:
    if faults:
        by_reason = ", ".join(f"{count:,} {reason}" for reason, count in sorted(faults.items()))
        say(
            f"note: {count_noun(sum(faults.values()), 'fault')} of the target, retried: {by_reason}"
        )


def print_followed(statistics: ApplyStatistics, target: str, *, as_json: bool) -> None:
    """Print the totals of ``trailgate apply --follow`` when it ends, as JSON or as text."""
    if as_json:
        total = report_to_json(statistics.done, statistics.faults)
        print_line(json.dumps({"total": total}, ensure_ascii=False))
    else:
        with quiet_pipe():
            print_total(statistics.done, statistics.faults, target)
