"""Check a trail: its files, headers, records, transactions, definitions and manifest.

The files are read once, in steps (``check_steps.py``). The findings of each step are collected, and the
totals of each file are compared with its header and with the manifest.

``check_trail`` returns a report. Salvage and the browser's index use the same functions for the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from trailgate.errors import mask_logins
from trailgate.jobs.check_steps import (
    AROUND,
    SHOWN,
    CheckedChunk,
    CountedChunk,
    FileBeginning,
    FileEnd,
    Step,
    UnreadableGap,
    check_steps,
    last_transaction_id,
)
from trailgate.model.kernels import BEGINS
from trailgate.storage.files.addresses import name_of
from trailgate.storage.files.trail_files import (
    StoredTrail,
    TrailFile,
    find_stored_trail,
    missing_files,
)
from trailgate.storage.files.trail_names import number_digits
from trailgate.trail import findings as kinds
from trailgate.trail.clean_records import CleanRecordCounts
from trailgate.trail.findings import Finding, FindingCollector, FindingType, Severity
from trailgate.trail.format.file_header import (
    FileHeader,
    find_other_number,
)
from trailgate.trail.format.header_fields import format_iso_time
from trailgate.trail.format.record_types import IO_UPDATE, RecordRole, type_name
from trailgate.trail.records.damage import (
    UNFINISHED,
)
from trailgate.trail.writing.trail_format import is_newer_level


@dataclass(frozen=True, slots=True)
class FileReport:
    """What a check has counted in a trail file. ``by_type`` has Logdump's names of record types."""

    name: str
    bytes: int
    records: int = 0
    transactions: int = 0
    operations: int = 0
    by_type: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """Facts about a trail file's records that its header states too.

    Times are microseconds since 1970.
    """

    first_csn: str | None = None
    last_csn: str | None = None
    first_time: int | None = None
    last_time: int | None = None


@dataclass(slots=True)
class FileTotals:
    """The counts and facts of a trail file, which are updated while the file is checked.

    ``csn`` is the last CSN so far; the totals of the next file begin with it. ``types`` counts the
    records by the code of their type.
    """

    file: TrailFile
    csn: str | None = None
    facts: RecordFacts = RecordFacts()
    records: int = 0
    transactions: int = 0
    operations: int = 0
    types: Any = field(default_factory=lambda: np.zeros(256, np.int64))

    def add(self, step: CheckedChunk | CountedChunk) -> None:
        """Add the records, transactions and operations of a chunk to the totals of the file."""
        if isinstance(step, CountedChunk):
            self._add_counts(step.counts)
            return
        found, followed = step.found, step.followed
        view = found.view
        change = view.role == RecordRole.CHANGE
        self.records += len(found)
        # An update of two records is one operation: its before image does not count.
        self.operations += int((change & ~(view.is_before & (view.io_type == IO_UPDATE))).sum())
        self.transactions += int(((followed.marks & BEGINS != 0) & view.readable).sum())
        self.types += np.bincount(view.io_type[view.readable], minlength=256)
        self._add_facts(step, change)

    def _add_counts(self, counts: CleanRecordCounts) -> None:
        facts = self.facts
        self.records += counts.records
        self.operations += counts.operations
        self.transactions += counts.transactions
        self.types += counts.types
        if facts.first_time is None:
            csn = self.csn if counts.first_csn is None else counts.first_csn
            facts = replace(facts, first_csn=csn, first_time=counts.first_time)
        self.csn = counts.state.csn
        self.facts = replace(facts, last_csn=self.csn, last_time=counts.last_time)

    def _add_facts(self, step: CheckedChunk, change: Any) -> None:
        found, facts = step.found, self.facts
        # Usually only the first record of each transaction contains a CSN.
        at = np.flatnonzero(change)
        if len(at):
            first, last = int(at[0]), int(at[-1])
            if facts.first_time is None:
                csn = found.csn.at(first, self.csn)
                facts = replace(facts, first_csn=csn, first_time=int(found.view.io_time[first]))
            csn = found.csn.at(last, self.csn)
            facts = replace(facts, last_csn=csn, last_time=int(found.view.io_time[last]))
        self.csn = found.csn.at(len(found), self.csn)
        self.facts = facts

    def report(self) -> FileReport:
        """Return the counts as the report about the file."""
        counts = {
            type_name(code): int(self.types[code]) for code in np.flatnonzero(self.types).tolist()
        }
        return FileReport(
            name=name_of(self.file.path),
            bytes=self.file.size,
            records=self.records,
            transactions=self.transactions,
            operations=self.operations,
            by_type=counts,
        )


def files_to_check(trail: StoredTrail, findings: FindingCollector) -> tuple[TrailFile, ...]:
    """Return the files that belong to a trail, and add findings about their names and sizes."""
    for fault in trail.faults:
        kind = kinds.MANIFEST if fault.startswith("the manifest") else kinds.DEFINITIONS
        findings.add(Finding(kind.name, detail=fault))
    files = [file for file in map(_size(trail, findings), trail.files) if file is not None]
    stated = () if trail.alone or trail.manifest is None else trail.manifest.values()
    first = trail.files[0].number if trail.files else 0
    for missing in missing_files(stated, trail.files):
        if missing.number >= first:  # earlier files may have been purged
            findings.add(Finding(kinds.MANIFEST.name, missing.name, detail="the file is missing"))
    if files and files[0].number and not trail.alone:
        findings.add(Finding(kinds.FIRST.name, name_of(files[0].path)))
    _check_numbers(files, findings)
    return tuple(files)


def _size(
    trail: StoredTrail, findings: FindingCollector
) -> Callable[[TrailFile], TrailFile | None]:
    def check_size(file: TrailFile) -> TrailFile | None:
        name = name_of(file.path)
        if trail.manifest is None:
            return file
        entry = trail.manifest.get(name)
        if entry is None:
            findings.add(Finding(kinds.UNLISTED.name, name))
            return file if trail.alone else None
        if entry.size != file.size:
            detail = f"{entry.size} bytes in the manifest, {file.size} in the file"
            findings.add(Finding(kinds.MANIFEST.name, name, detail=detail))
        return replace(file, size=min(entry.size, file.size))

    return check_size


def _check_numbers(files: list[TrailFile], findings: FindingCollector) -> None:
    if len({number_digits(file.path) for file in files}) > 1:
        findings.add(Finding(kinds.DIGITS.name))
    for one, two in pairwise(files):
        name = name_of(two.path)
        if one.number == two.number:
            findings.add(Finding(kinds.TWICE.name, name, detail=f"number {two.number}"))
        elif one.number + 1 != two.number:
            detail = f"numbers {one.number + 1} to {two.number - 1}"
            findings.add(Finding(kinds.GAP.name, name, detail=detail))


def check_header(begun: FileBeginning, totals: FileTotals, findings: FindingCollector) -> None:
    """Add findings if a file header is damaged, has an unknown level, or contradicts its file."""
    file, header = begun.file, begun.header
    name = name_of(file.path)
    if begun.problem:
        kind, raw = kinds.HEADER.name, begun.raw[:SHOWN]
        findings.add(Finding(kind, name, 0, begun.problem, len(begun.raw), raw=raw))
    if header is None:
        return
    trail = header.trail
    if is_newer_level(header.trail.compatibility):
        findings.add(Finding(kinds.NEWER.name, name, detail=f"level {trail.compatibility}"))
    if trail.file_size not in (None, file.size):
        detail = f"{trail.file_size} bytes in the header, {file.size} in the file"
        findings.add(Finding(kinds.SIZE.name, name, detail=detail))
    other = find_other_number(header, file.number) if number_digits(file.path) else None
    if other is not None:
        detail = f"{other} in the header, {file.number} in the name"
        findings.add(Finding(kinds.SEQNO.name, name, detail=detail))
    for what, stated, actual in _facts(header, totals.facts):
        if stated is not None and actual is not None and stated != actual:
            detail = f"{what} is {stated} in the header, {actual} in the records"
            findings.add(Finding(kinds.FACT.name, name, detail=detail))


def _facts(
    header: FileHeader, facts: RecordFacts
) -> tuple[tuple[str, str | None, str | None], ...]:
    trail = header.trail
    return (
        ("the first CSN", trail.first_csn, facts.first_csn),
        ("the last CSN", trail.last_csn, facts.last_csn),
        ("the first IO time", _time(trail.first_io_time), _time(facts.first_time)),
        ("the last IO time", _time(trail.last_io_time), _time(facts.last_time)),
    )


def _time(microseconds: int | None) -> str | None:
    return None if microseconds is None else format_iso_time(microseconds)


def check_count(trail: StoredTrail, totals: FileTotals, findings: FindingCollector) -> None:
    """Add a finding if the manifest states a different number of operations for a file than the check counted."""
    name = name_of(totals.file.path)
    entry = (trail.manifest or {}).get(name)
    if entry is not None and entry.operations not in (None, totals.operations):
        detail = f"{entry.operations} in the manifest, {totals.operations} in the file"
        findings.add(Finding(kinds.COUNT.name, name, detail=detail))


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of checking a trail: the counts of each file, and the findings."""

    path: str
    files: tuple[FileReport, ...]
    findings: tuple[Finding, ...]

    @property
    def whole(self) -> bool:
        """Whether the check of the trail has found no error. There may be warnings."""
        return all(found.severity is not Severity.ERROR for found in self.findings)


def check_trail(path: str, definitions: str | None = None, *, values: bool = False) -> CheckReport:
    """Check a trail, and return a report. Raises StorageError if the trail does not exist.

    With ``values`` all values are decoded as well, in the way readers decode them.
    """
    trail = find_stored_trail(path, definitions)
    findings = FindingCollector()
    files = files_to_check(trail, findings)
    reports: list[FileReport] = []
    for totals, _ in check_files(trail, files, findings, values=values):
        reports.append(totals.report())
    return CheckReport(mask_logins(path), tuple(reports), findings.result())


def check_files(
    trail: StoredTrail,
    files: tuple[TrailFile, ...],
    findings: FindingCollector,
    watch: Callable[[Step], None] | None = None,
    *,
    values: bool = False,
) -> Iterator[tuple[FileTotals, FileBeginning]]:
    """Check trail files, and yield the totals and the header of each file after its last record.

    Findings are added to ``findings`` during the check. ``watch`` is called with each step before
    its findings are added.
    """
    totals: FileTotals | None = None
    begun: FileBeginning | None = None
    listed_tables = trail.definitions is not None
    is_open = False
    for step in check_steps(trail, files, values=values, counts=watch is None):
        if watch is not None:
            watch(step)
        if isinstance(step, FileBeginning):
            totals = FileTotals(step.file, totals.csn if totals else None)
            begun = step
        elif isinstance(step, FileEnd):
            assert totals is not None
            assert begun is not None
            listed_tables |= bool(step.tables.tables)
            check_header(begun, totals, findings)
            check_count(trail, totals, findings)
            yield totals, begun
        else:
            assert totals is not None
            # after the last step this is whether the trail ends inside a transaction
            is_open = False
            if isinstance(step, CheckedChunk):
                totals.add(step)
                is_open = step.followed.is_open
            elif isinstance(step, CountedChunk):
                totals.add(step)
                is_open = step.counts.state.is_open
            add_step_findings(step, totals.file, findings)
    if is_open and totals is not None:
        findings.add(Finding(kinds.OPEN.name, name_of(totals.file.path), totals.file.size))
    if not files:
        findings.add(Finding(kinds.NO_FILES.name))
    elif not listed_tables:
        findings.add(Finding(kinds.NO_DEFINITIONS.name))


def add_step_findings(step: Step, file: TrailFile, findings: FindingCollector) -> None:
    """Add the findings of a trail's checked chunk or unreadable gap to a collector."""
    name = name_of(file.path)
    if isinstance(step, UnreadableGap) and step.start == step.end:
        return  # the wrong size of the file is a finding already
    if isinstance(step, UnreadableGap):
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
    elif isinstance(step, CheckedChunk):
        for kind, rows in step.found.faults:
            shown = rows[: findings.remaining(name, kind.name)]
            for row in shown.tolist():
                findings.add(_finding(step, name, kind, row))
            findings.count_unlisted(name, kind.name, len(rows) - len(shown))
        for detail in step.fine:
            findings.add(Finding(kinds.FINE_TIMES.name, name, detail=detail))


def _finding(step: CheckedChunk, name: str, finding_type: FindingType, row: int) -> Finding:
    found = step.found
    detail = found.details.get(row, "") if finding_type is kinds.READING else ""
    at, length = int(found.view.offsets[row]), int(found.view.lengths[row])
    code = int(found.name[row])
    table = found.names[code] if code >= 0 else ""
    type_ = type_name(int(found.view.io_type[row])) if found.view.readable[row] else ""
    before = step.data[max(0, at - AROUND) : at].tobytes()
    return Finding(
        kind=finding_type.name,
        file=name,
        offset=step.base + at,
        detail=": ".join(filter(None, (f"{type_} {table}".strip(), detail))),
        length=length,
        before=before,
        raw=step.data[at : at + min(SHOWN, length)].tobytes(),
        next=step.base + at + length,
        transaction=last_transaction_id(step, row),
    )
