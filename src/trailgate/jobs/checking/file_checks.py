"""Check the files of a trail: names, numbers and sizes, manifest, and headers against records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from trailgate.jobs.checking.file_totals import Facts, FileTotals
from trailgate.jobs.checking.file_walk import SHOWN, FileBegun
from trailgate.storage.files.addresses import name_of
from trailgate.storage.files.found_trail import FoundTrail
from trailgate.storage.files.listing import number_digits
from trailgate.storage.files.trail_files import TrailFile
from trailgate.storage.reading.trail.notices import is_newer
from trailgate.trail.annotation.file_header import iso_time
from trailgate.trail.checking import findings as kinds
from trailgate.trail.checking.findings import Finding, Findings
from trailgate.trail.format.file_header import FileHeader


def files_to_check(trail: FoundTrail, findings: Findings) -> tuple[TrailFile, ...]:
    """Return the files that belong to a trail, and tell what is wrong with their names and sizes."""
    for fault in trail.faults:
        kind = kinds.MANIFEST if fault.startswith("the manifest") else kinds.DEFINITIONS
        findings.add(Finding(kind.name, detail=fault))
    files = [file for file in map(_sized(trail, findings), trail.files) if file is not None]
    there = {name_of(file.path) for file in trail.files}
    for name in trail.manifest or ():
        if not trail.alone and name not in there:
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
            detail = f"{entry.size} bytes there, {file.size} here"
            findings.add(Finding(kinds.MANIFEST.name, name, detail=detail))
        return replace(file, size=min(entry.size, file.size))

    return sized


def _check_numbers(files: list[TrailFile], findings: Findings) -> None:
    if len({number_digits(file.path) for file in files}) > 1:
        findings.add(Finding(kinds.DIGITS.name))
    for one, two in pairwise(files):
        name = name_of(two.path)
        if one.number == two.number:
            findings.add(Finding(kinds.TWICE.name, name, detail=f"number {two.number}"))
        elif one.number + 1 != two.number:
            detail = f"numbers {one.number + 1} to {two.number - 1}"
            findings.add(Finding(kinds.GAP.name, name, detail=detail))


def check_header(begun: FileBegun, totals: FileTotals, findings: Findings) -> None:
    """Report where a file header contradicts its file."""
    file, header = begun.file, begun.header
    name = name_of(file.path)
    if begun.problem:
        kind, raw = kinds.HEADER.name, begun.raw[:SHOWN]
        findings.add(Finding(kind, name, 0, begun.problem, len(begun.raw), raw=raw))
    if header is None:
        return
    trail = header.trail
    if is_newer(header):
        findings.add(Finding(kinds.NEWER.name, name, detail=f"level {trail.compatibility}"))
    if trail.file_size not in (None, file.size):
        detail = f"{trail.file_size} bytes there, {file.size} here"
        findings.add(Finding(kinds.SIZE.name, name, detail=detail))
    if number_digits(file.path) and trail.seqno != file.number:
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


def check_count(trail: FoundTrail, totals: FileTotals, findings: Findings) -> None:
    """Report where the manifest has another number of operations than the file."""
    name = name_of(totals.file.path)
    entry = (trail.manifest or {}).get(name)
    if entry is not None and entry.operations not in (None, totals.operations):
        detail = f"{entry.operations} there, {totals.operations} here"
        findings.add(Finding(kinds.COUNT.name, name, detail=detail))
