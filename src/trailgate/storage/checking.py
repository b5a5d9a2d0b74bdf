"""Tell whether a trail is whole: its files, headers, records, transactions, definitions and manifest.

Structure is looked at, column values are not decoded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from trailgate.storage.check_steps import (
    AROUND,
    SHOWN,
    FileBegun,
    FileEnded,
    Gap,
    Portion,
    Step,
    steps,
)
from trailgate.storage.checked_files import FoundTrail, look_at, name_of
from trailgate.storage.trail_files import NUMBERED, TrailFile
from trailgate.trail.analysis.file_header import iso_time
from trailgate.trail.checking import findings as kinds
from trailgate.trail.checking.findings import Finding, Kind, Severity
from trailgate.trail.checking.transactions import BEGINS
from trailgate.trail.header import FileHeader
from trailgate.trail.record_types import IO_UPDATE, Role, type_name

TOLD: Final = 5  # findings of one kind in one file that are told one by one


@dataclass(frozen=True, slots=True)
class FileReport:
    """What one file holds; ``by_type`` counts records by Logdump's names."""

    name: str
    bytes: int
    records: int = 0
    transactions: int = 0
    operations: int = 0
    by_type: Mapping[str, int] = field(default_factory=dict)


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


@dataclass(frozen=True, slots=True)
class Facts:
    """What the records of a file say that its header says too. Times are microseconds since 1970."""

    first_csn: str | None = None
    last_csn: str | None = None
    first_time: int | None = None
    last_time: int | None = None


@dataclass(slots=True)
class FileTotals:
    """Counts of one file, as they grow; ``csn`` is carried over from earlier files."""

    file: TrailFile
    csn: str | None = None
    facts: Facts = Facts()
    records: int = 0
    transactions: int = 0
    operations: int = 0
    types: Any = field(default_factory=lambda: np.zeros(256, np.int64))

    def add(self, step: Portion) -> None:
        """Count the records of a portion."""
        found, followed = step.found, step.followed
        change = found.role == Role.CHANGE
        self.records += len(found)
        self.operations += int((change & ~(found.is_before & (found.io_type == IO_UPDATE))).sum())
        readable = found.readable[followed.rows]
        begins = np.isin(found.trans_ind[followed.rows], BEGINS) & readable
        begins &= found.role[followed.rows] != Role.ABEND
        self.transactions += int(begins.sum())
        self.types += np.bincount(found.io_type[found.readable], minlength=256)
        self._add_facts(step, change)

    def _add_facts(self, step: Portion, change: Any) -> None:
        found, facts = step.found, self.facts
        rows, texts = found.csn
        at = np.flatnonzero(change)
        if len(at):
            first, last = int(at[0]), int(at[-1])
            if facts.first_time is None:
                own = [text for row, text in zip(rows.tolist(), texts, strict=True) if row <= first]
                csn = own[-1] if own else self.csn
                facts = replace(facts, first_csn=csn, first_time=int(found.io_time[first]))
            here = int(np.searchsorted(rows, last, "right"))
            csn = texts[here - 1] if here else self.csn
            facts = replace(facts, last_csn=csn, last_time=int(found.io_time[last]))
        self.csn = texts[-1] if texts else self.csn
        self.facts = facts

    def report(self) -> FileReport:
        """Return the counts as a value."""
        counts = {
            type_name(code): int(self.types[code]) for code in np.flatnonzero(self.types).tolist()
        }
        return FileReport(
            name_of(self.file.path),
            self.file.size,
            self.records,
            self.transactions,
            self.operations,
            counts,
        )


class Findings:
    """Findings as they come; of many alike in a file only the first are kept, the others counted."""

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, finding: Finding, count: int = 1) -> None:
        """Take a finding; ``count`` is how many of its kind it stands for."""
        key = (finding.file, finding.kind)
        if self._counts[key] < TOLD:
            self._kept.append(finding)
        self._counts[key] += count

    def room(self, file: str, kind: str) -> int:
        """Return how many more of a kind would be kept."""
        return max(0, TOLD - self._counts[file, kind])

    def skip(self, file: str, kind: str, count: int) -> None:
        """Count findings that are not told one by one."""
        self._counts[file, kind] += count

    def result(self) -> tuple[Finding, ...]:
        """Return what was kept, the last of a kind with how many more there are."""
        told = Counter((finding.file, finding.kind) for finding in self._kept)
        seen: Counter[tuple[str, str]] = Counter()
        found = []
        for finding in self._kept:
            key = (finding.file, finding.kind)
            seen[key] += 1
            more = self._counts[key] - told[key] if seen[key] == told[key] else 0
            found.append(replace(finding, more=more))
        return tuple(found)


def check_trail(path: str, definitions: str | None = None) -> Report:
    """Return what is right and wrong with a trail; raises StorageError where there is none."""
    trail = look_at(path, definitions)
    findings = Findings()
    files = files_to_check(trail, findings)
    reports: list[FileReport] = []
    for totals, _ in checked(trail, files, findings):
        reports.append(totals.report())
    return Report(path, tuple(reports), findings.result())


def files_to_check(trail: FoundTrail, findings: Findings) -> tuple[TrailFile, ...]:
    """Return the files that belong to a trail, and tell what is wrong with their names and sizes."""
    for fault in trail.faults:
        kind = kinds.MANIFEST if fault.startswith("the manifest") else kinds.DEFINITIONS
        findings.add(Finding(kind.name, detail=fault))
    files = [file for file in map(_sized(trail, findings), trail.files) if file is not None]
    for name in trail.manifest or ():
        if not trail.alone and name not in {name_of(file.path) for file in trail.files}:
            findings.add(Finding(kinds.MANIFEST.name, name, detail="the file is not there"))
    _check_numbers(files, findings)
    return tuple(files)


def _sized(trail: FoundTrail, findings: Findings) -> Callable[[TrailFile], TrailFile | None]:
    def sized(file: TrailFile) -> TrailFile | None:
        name = name_of(file.path)
        if trail.manifest is None:
            return file
        entry = trail.manifest.get(name)
        if entry is None:
            findings.add(Finding(kinds.UNLISTED.name, name))
            return file if trail.alone else None
        if entry.size != file.size:
            detail = f"it says {entry.size} bytes, the file has {file.size}"
            findings.add(Finding(kinds.MANIFEST.name, name, detail=detail))
        return replace(file, size=min(entry.size, file.size))

    return sized


def _check_numbers(files: list[TrailFile], findings: Findings) -> None:
    if len({len(_digits(file)) for file in files}) > 1:
        findings.add(Finding(kinds.DIGITS.name))
    for one, two in pairwise(files):
        name = name_of(two.path)
        if one.number == two.number:
            findings.add(Finding(kinds.TWICE.name, name, detail=f"number {two.number}"))
        elif one.number + 1 != two.number:
            detail = f"numbers {one.number + 1} to {two.number - 1}"
            findings.add(Finding(kinds.GAP.name, name, detail=detail))


def _digits(file: TrailFile) -> str:
    matched = NUMBERED.fullmatch(name_of(file.path))
    return matched["number"] if matched else ""


def checked(
    trail: FoundTrail,
    files: tuple[TrailFile, ...],
    findings: Findings,
    watch: Callable[[Step], None] | None = None,
) -> Iterator[tuple[FileTotals, FileBegun]]:
    """Yield each file's counts when it is done; findings are added on the way.

    ``watch`` sees every step, complete with its faults.
    """
    totals: FileTotals | None = None
    begun: FileBegun | None = None
    told_tables = trail.definitions is not None
    is_open = False
    for step in steps(trail, files):
        if watch is not None:
            watch(step)
        if isinstance(step, FileBegun):
            totals = FileTotals(step.file, totals.csn if totals else None)
            begun = step
        elif isinstance(step, FileEnded):
            assert totals is not None
            assert begun is not None
            told_tables |= bool(step.tables.tables)
            _check_header(begun, totals, findings)
            _check_count(trail, totals, findings)
            yield totals, begun
        else:
            assert totals is not None
            if isinstance(step, Portion):
                totals.add(step)
                is_open = step.followed.bounds.is_open
            else:
                is_open = False
            tell(step, totals.file, findings)
    if is_open and totals is not None:
        findings.add(Finding(kinds.OPEN.name, name_of(totals.file.path), totals.file.size))
    if not told_tables:
        findings.add(Finding(kinds.NO_DEFINITIONS.name))


def tell(step: Step, file: TrailFile, findings: Findings) -> None:
    """Add the findings of a portion or a gap."""
    name = name_of(file.path)
    if isinstance(step, Gap):
        kind = kinds.CUT if step.end >= file.size else kinds.FRAMING
        following = None if step.end >= file.size else step.end
        findings.add(
            Finding(
                kind.name,
                name,
                step.start,
                step.problem,
                step.end - step.start,
                step.before,
                step.raw,
                following,
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
    at, length = int(found.offsets[row]), int(found.lengths[row])
    code = int(found.name[row])
    table = found.names[code] if code >= 0 else ""
    type_ = type_name(int(found.io_type[row])) if found.readable[row] else ""
    before = step.data[max(0, at - AROUND) : at].tobytes()
    return Finding(
        kind.name,
        name,
        step.base + at,
        f"{type_} {table}".strip(),
        length,
        before,
        step.data[at : at + min(SHOWN, length)].tobytes(),
        step.base + at + length,
        transaction_at(step, row),
    )


def transaction_at(step: Portion, row: int) -> str | None:
    """Return the id of the transaction that a record belongs to, if it is told in this portion."""
    rows, texts = step.found.tx
    at = int(np.searchsorted(rows, row, "right"))
    return texts[at - 1] if at else None


def _check_header(begun: FileBegun, totals: FileTotals, findings: Findings) -> None:
    file, header = begun.file, begun.header
    name = name_of(file.path)
    if begun.problem:
        kind, raw = kinds.HEADER.name, begun.raw[:SHOWN]
        findings.add(Finding(kind, name, 0, begun.problem, len(begun.raw), raw=raw))
    if header is None:
        return
    trail = header.trail
    if trail.file_size not in (None, file.size):
        detail = f"{trail.file_size} bytes there, {file.size} here"
        findings.add(Finding(kinds.SIZE.name, name, detail=detail))
    if _digits(file) and trail.seqno != file.number:
        detail = f"{trail.seqno} there, {file.number} in the name"
        findings.add(Finding(kinds.SEQNO.name, name, detail=detail))
    for what, said, found in _facts(header, totals.facts):
        if said is not None and found is not None and said != found:
            detail = f"{what} is {said} there, {found} here"
            findings.add(Finding(kinds.FACT.name, name, detail=detail))


def _facts(header: FileHeader, facts: Facts) -> tuple[tuple[str, str | None, str | None], ...]:
    trail = header.trail
    return (
        ("the first CSN", trail.first_csn, facts.first_csn),
        ("the last CSN", trail.last_csn, facts.last_csn),
        ("the first IO time", _time(trail.first_io_time), _time(facts.first_time)),
        ("the last IO time", _time(trail.last_io_time), _time(facts.last_time)),
    )


def _time(microseconds: int | None) -> str | None:
    return None if microseconds is None else iso_time(microseconds)


def _check_count(trail: FoundTrail, totals: FileTotals, findings: Findings) -> None:
    name = name_of(totals.file.path)
    entry = (trail.manifest or {}).get(name)
    if entry is not None and entry.operations not in (None, totals.operations):
        detail = f"{entry.operations} there, {totals.operations} here"
        findings.add(Finding(kinds.COUNT.name, name, detail=detail))
