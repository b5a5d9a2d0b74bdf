"""Check whether a trail is whole: its files, headers, records, transactions, definitions and manifest.

Everything that readers refuse is found; values are decoded only where that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from trailgate.errors import masked
from trailgate.jobs.checking.file_checks import check_count, check_header, files_to_check
from trailgate.jobs.checking.file_totals import FileReport, FileTotals
from trailgate.jobs.checking.file_walk import (
    AROUND,
    SHOWN,
    UNFINISHED,
    FileBegun,
    FileEnded,
    Gap,
    Portion,
    Step,
    steps,
)
from trailgate.storage.files.addresses import name_of
from trailgate.storage.files.found_trail import FoundTrail, look_at
from trailgate.storage.files.trail_files import TrailFile
from trailgate.trail.checking import findings as kinds
from trailgate.trail.checking.findings import Finding, Findings, Kind, Severity
from trailgate.trail.format.record_types import type_name


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found."""

    path: str
    files: tuple[FileReport, ...]
    findings: tuple[Finding, ...]

    @property
    def whole(self) -> bool:
        """Return whether no finding is an error."""
        return all(found.severity is not Severity.ERROR for found in self.findings)


def check_trail(path: str, definitions: str | None = None, *, values: bool = False) -> Report:
    """Return what is right and wrong with a trail; raises StorageError where there is none.

    With ``values`` all values are decoded as well, as readers decode them.
    """
    trail = look_at(path, definitions)
    findings = Findings()
    files = files_to_check(trail, findings)
    reports: list[FileReport] = []
    for totals, _ in checked(trail, files, findings, values=values):
        reports.append(totals.report())
    return Report(masked(path), tuple(reports), findings.result())


def checked(
    trail: FoundTrail,
    files: tuple[TrailFile, ...],
    findings: Findings,
    watch: Callable[[Step], None] | None = None,
    *,
    values: bool = False,
) -> Iterator[tuple[FileTotals, FileBegun]]:
    """Yield each file's counts when it is done; findings are added on the way.

    ``watch`` sees every step, complete with its faults.
    """
    totals: FileTotals | None = None
    begun: FileBegun | None = None
    listed_tables = trail.definitions is not None
    is_open = False
    for step in steps(trail, files, values=values):
        if watch is not None:
            watch(step)
        if isinstance(step, FileBegun):
            totals = FileTotals(step.file, totals.csn if totals else None)
            begun = step
        elif isinstance(step, FileEnded):
            assert totals is not None
            assert begun is not None
            listed_tables |= bool(step.tables.tables)
            check_header(begun, totals, findings)
            check_count(trail, totals, findings)
            yield totals, begun
        else:
            assert totals is not None
            if isinstance(step, Portion):
                totals.add(step)
                is_open = step.followed.state.is_open
            else:
                is_open = False
            tell(step, totals.file, findings)
    if is_open and totals is not None:
        findings.add(Finding(kinds.OPEN.name, name_of(totals.file.path), totals.file.size))
    if not listed_tables:
        findings.add(Finding(kinds.NO_DEFINITIONS.name))


def tell(step: Step, file: TrailFile, findings: Findings) -> None:
    """Add the findings of a portion or a gap."""
    name = name_of(file.path)
    if isinstance(step, Gap) and step.start == step.end:
        return  # reported as a wrong size
    if isinstance(step, Gap):
        kind = kinds.CUT if step.end >= file.size else kinds.FRAMING
        following = None if step.end >= file.size else step.end
        findings.add(
            Finding(
                kind=kind.name,
                file=name,
                offset=step.start,
                detail="" if step.problem == UNFINISHED else step.problem,
                length=step.end - step.start,
                before=step.before,
                raw=step.raw,
                next=following,
            )
        )
    elif isinstance(step, Portion):
        for kind, rows in step.found.faults:
            shown = rows[: findings.room(name, kind.name)]
            for row in shown.tolist():
                findings.add(_finding(step, name, kind, row))
            findings.skip(name, kind.name, len(rows) - len(shown))


def _finding(step: Portion, name: str, kind: Kind, row: int) -> Finding:
    found = step.found
    detail = found.details.get(row, "") if kind is kinds.READING else ""
    at, length = int(found.view.offsets[row]), int(found.view.lengths[row])
    code = int(found.name[row])
    table = found.names[code] if code >= 0 else ""
    type_ = type_name(int(found.view.io_type[row])) if found.view.readable[row] else ""
    before = step.data[max(0, at - AROUND) : at].tobytes()
    return Finding(
        kind=kind.name,
        file=name,
        offset=step.base + at,
        detail=": ".join(filter(None, (f"{type_} {table}".strip(), detail))),
        length=length,
        before=before,
        raw=step.data[at : at + min(SHOWN, length)].tobytes(),
        next=step.base + at + length,
        transaction=transaction_at(step, row),
    )


def transaction_at(step: Portion, row: int) -> str | None:
    """Return the id of the transaction that a record belongs to, if a record of this portion has it."""
    rows, texts = step.found.tx
    at = int(np.searchsorted(rows, row, "right"))
    return texts[at - 1] if at else None
