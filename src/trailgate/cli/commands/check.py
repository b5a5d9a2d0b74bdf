"""``trailgate check``: check whether a trail is complete and undamaged.

``--salvage`` copies the good part.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trailgate.errors import count_noun
from trailgate.options import Flag
from trailgate.terminal.flags import AsJson, DefinitionsFile, TrailPath, takes
from trailgate.terminal.layout import print_rows
from trailgate.terminal.output import printable, quiet_pipe, say
from trailgate.trail.findings import KINDS, OPEN, Finding, Severity

if TYPE_CHECKING:
    from trailgate.jobs.salvage import SalvageResult
    from trailgate.jobs.trail_check import CheckReport

SHOWN: Final = 20  # the most files and findings printed
TOTALS: Final = ("bytes", "records", "transactions", "operations")
EXAMPLES: Final = (
    "trailgate check dirdat/ot",
    "trailgate check dirdat/ot --salvage repaired/ot",
)
STYLES: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


@takes
def command(
    path: TrailPath,
    *,
    definitions: DefinitionsFile = None,
    values: Annotated[bool, "Also decode all values."] = False,
    salvage_to: Annotated[
        str | None, Flag("OUT", "--salvage"), "Write all complete transactions to this new trail."
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a trail. The exit code is 1 if it is damaged."""
    from trailgate.jobs.salvage import salvage
    from trailgate.jobs.trail_check import check_trail

    if salvage_to is not None:
        salvaged = salvage(path, salvage_to, definitions, values=values)
        report = salvaged.report
    else:
        salvaged, report = None, check_trail(path, definitions, values=values)
    with quiet_pipe():
        if as_json:
            print(json.dumps(_values(report, salvaged), ensure_ascii=False))
        else:
            _print(report, salvaged)
    if not report.whole:
        raise typer.Exit(1)


def _values(report: CheckReport, salvaged: SalvageResult | None) -> dict[str, Any]:
    values: dict[str, Any] = {
        "path": report.path,
        "whole": report.whole,
        "open_transactions": sum(found.kind == OPEN.name for found in report.findings),
        "files": [
            {name: getattr(file, name) for name in file.__slots__} | {"by_type": dict(file.by_type)}
            for file in report.files
        ],
        "findings": [_finding_values(found) for found in report.findings],
    }
    if salvaged is not None:
        values["salvaged"] = {
            "prefix": salvaged.prefix,
            "files": list(salvaged.files),
            "transactions": salvaged.transactions,
            "operations": salvaged.operations,
            "skipped_parts": salvaged.skipped_parts,
            "skipped_bytes": salvaged.skipped_bytes,
            "list": salvaged.listed,
        }
    return values


def _finding_values(finding: Finding) -> dict[str, Any]:
    values = {name: getattr(finding, name) for name in finding.__slots__}
    values |= {"before": finding.before.hex(), "raw": finding.raw.hex()}
    # Fields that do not apply to a finding have one of these values.
    known = {name: value for name, value in values.items() if value not in (None, "", 0)}
    statement = KINDS[finding.kind].statement
    return {"severity": finding.severity.value, "statement": statement, **known}


def _print(report: CheckReport, salvaged: SalvageResult | None) -> None:
    shown, rest = report.files[:SHOWN], report.files[SHOWN:]
    lines: list[tuple[str, list[int], list[str]]] = []
    for file in shown:
        kinds = [f"{name} {count:,}" for name, count in file.by_type.items()]
        lines.append((file.name, [getattr(file, name) for name in TOTALS], kinds))
    if rest:
        sums = [sum(getattr(file, name) for file in rest) for name in TOTALS]
        lines.append((f"{len(rest)} more", sums, []))
    rows: list[tuple[Any, ...]] = []
    for name, totals, kinds in lines:
        rows.append((name, *totals, [f"{kind}," for kind in kinds[:-1]] + kinds[-1:]))
    print_rows(("file", *TOTALS, "records by type"), rows)
    _print_findings(report)
    if salvaged is not None:
        say(
            f"salvaged {count_noun(salvaged.transactions, 'transaction')} of "
            f"{count_noun(salvaged.operations, 'operation')} to {salvaged.prefix}; "
            f"{count_noun(salvaged.skipped_parts, 'part')} of "
            f"{count_noun(salvaged.skipped_bytes, 'byte')} skipped, listed in {salvaged.listed}"
        )


def _print_findings(report: CheckReport) -> None:
    ranked = sorted(report.findings, key=lambda found: list(Severity).index(found.severity))
    for found in ranked[:SHOWN]:
        more = f" (and {found.more:,} more)" if found.more else ""
        text = f"{found.severity.value}: {found}{more}"
        say(printable(text), STYLES[found.severity])
        if found.raw and found.severity is Severity.ERROR:
            around = f"{found.before[-8:].hex(' ')} | {found.raw[:24].hex(' ')}"
            following = "" if found.next is None else f"   next good record: {found.next}"
            say(f"    {around}{following}", indent="    ")
    hidden = len(ranked) - SHOWN
    if hidden > 0:
        say(f"... and {hidden} more findings: --json shows them", "dim")
    say("whole" if report.whole else "DAMAGED", "green" if report.whole else "red")
