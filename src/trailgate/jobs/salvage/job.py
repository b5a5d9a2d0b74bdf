"""Write all whole transactions of a damaged trail to a new one, and list what was left out.

The new trail is made in a staging folder, checked there, and then given its names; nothing is written over.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import time_ns
from typing import Final

from trailgate.definitions.defgen.sourcedefs import write_sourcedefs
from trailgate.errors import OptionError, StorageError, Where
from trailgate.jobs.checking.file_checks import files_to_check
from trailgate.jobs.checking.file_totals import FileTotals
from trailgate.jobs.checking.file_walk import FileBegun, FileEnded, Step
from trailgate.jobs.checking.report import Report, checked
from trailgate.jobs.salvage.selection import LeftOut, Part, Rescue
from trailgate.model.tables import Definitions, Table
from trailgate.storage.files.addresses import URI, name_of
from trailgate.storage.files.durable import sync_folder
from trailgate.storage.files.found_trail import FoundTrail, look_at
from trailgate.storage.files.listing import files_on_disk, number_digits
from trailgate.storage.files.lock import locked
from trailgate.storage.files.manifest import Manifest, Published, manifest_path, write_manifest
from trailgate.storage.files.trail_files import TrailFile
from trailgate.storage.reading.trail_file import TrailFileReader
from trailgate.storage.writing.target import file_header
from trailgate.trail.checking.findings import SEQNO, SIZE, Finding, Findings, Severity
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.file_header import decode_header, encode_header
from trailgate.trail.writing.header_patching import HeaderFacts, patched_header

COPIED: Final = 4 << 20  # bytes copied at once


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What was written, how much was left out, and the report about the damaged trail."""

    prefix: str
    files: tuple[str, ...]
    transactions: int
    operations: int
    left_out: int
    left_out_bytes: int
    listed: str
    report: Report


def salvage(path: str, out: str, definitions: str | None = None) -> Salvaged:
    """Return what of a trail is whole, written to a new trail ``out``.

    Raises StorageError where something lies there already, and OptionError where ``out`` is no prefix.
    """
    prefix = _prefix(out)
    trail = look_at(path, definitions)
    findings = Findings()
    files = files_to_check(trail, findings)
    with locked(prefix), _staging(prefix) as folder:
        _refuse_existing(prefix)
        work = _Work(folder, prefix, files)
        totals = [one for one, _ in checked(trail, files, findings, work.take)]
        work.rescue.finish()
        report = Report(path, tuple(one.report() for one in totals), findings.result())
        return _published(work, trail, report)


def _prefix(out: str) -> str:
    if URI.match(out) or not Path(out).name:
        raise OptionError(f"{out!r} is no prefix of a trail on a local disk", hint="As dirdat/ot")
    return out


def _refuse_existing(prefix: str) -> None:
    beside = [_list_path(prefix), manifest_path(prefix), Path(f"{prefix}.def")]
    there = [path for path in beside if path.exists()]
    there += [Path(file.path) for file in files_on_disk(prefix)]
    if there:
        problem = "something lies there already, and is not written over"
        raise StorageError(problem, where=Where(source=str(there[0])), hint="Name a new prefix")


def _list_path(prefix: str) -> Path:
    return Path(f"{prefix}.left-out.jsonl")


@contextmanager
def _staging(prefix: str) -> Iterator[Path]:
    target = Path(prefix)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.salvage-", dir=target.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Work:
    """The files in the making: bodies are appended as they come, headers are filled in at the end."""

    def __init__(self, folder: Path, prefix: str, files: tuple[TrailFile, ...]) -> None:
        self.digits = (number_digits(files[0].path) if files else 0) or 9
        self.first = files[0].number if files else 0
        self.folder, self.prefix, self.files = folder, prefix, files
        self.now = time_ns() // 1000
        self.headers: list[tuple[bytes, ByteOrder]] = []
        self.tables: dict[str, Table] = {}
        self.left_out = self.left_out_bytes = 0
        self.list = (folder / "left-out").open("w")
        self.rescue = Rescue(self.write, self.copy, self.leave)

    def name(self, number: int) -> str:
        """Return the name of a new file, without its folder."""
        return f"{Path(self.prefix).name}{self.first + number:0{self.digits}}"

    def take(self, step: Step) -> None:
        """Take one step of the check."""
        if isinstance(step, FileBegun):
            self._begin(step)
        elif isinstance(step, FileEnded):
            for told in step.tables.tables.values():
                if told.table is not None:
                    self.tables.setdefault(told.name.casefold(), told.table)
        self.rescue.take(step)

    def _begin(self, step: FileBegun) -> None:
        """Begin a file with its own header, or with one that is made where that is damaged or missing."""
        if step.problem and step.raw:
            self.leave(LeftOut(step.number, 0, len(step.raw), step.problem))
        facts = HeaderFacts("", self.first + step.number)
        if step.header is not None:
            self.headers.append((step.raw, step.header.order))
            patched = self._patched(step.number, facts)
            if decode_header(patched)[0].trail.seqno == facts.seqno:
                (self.folder / self.name(step.number)).write_bytes(patched)
                return
            self.headers.pop()  # it has no place for what a header must say
        made = file_header(self.prefix, self.digits, self.now)
        self.headers.append((encode_header(made), made.order))
        patched = self._patched(step.number, facts)
        (self.folder / self.name(step.number)).write_bytes(patched)

    def _patched(self, number: int, facts: HeaderFacts) -> bytes:
        raw, order = self.headers[number]
        filename = str(Path(self.prefix).with_name(self.name(number)))
        return patched_header(raw, order, replace(facts, filename=filename))

    def write(self, number: int, pieces: Sequence[memoryview]) -> None:
        """Add bytes to a new file."""
        with (self.folder / self.name(number)).open("ab") as file:
            file.writelines(pieces)

    def copy(self, part: Part) -> None:
        """Add a part of a source file to the new file of the same number."""
        with TrailFileReader(self.files[part.number]) as reader:
            for place in range(part.start, part.end, COPIED):
                data = reader.read(place, min(COPIED, part.end - place))
                self.write(part.number, [data.data])

    def leave(self, left: LeftOut) -> None:
        """List what is left out."""
        self.left_out += 1
        self.left_out_bytes += left.length
        line = {
            "file": name_of(self.files[left.number].path),
            "offset": left.offset,
            "length": left.length,
            "reason": left.reason,
            "transaction": left.transaction,
        }
        self.list.write(json.dumps(line, ensure_ascii=False) + "\n")

    def staged(self) -> tuple[TrailFile, ...]:
        """Return the new files as they lie in the staging folder."""
        paths = [self.folder / self.name(number) for number in range(len(self.files))]
        return tuple(
            TrailFile(str(path), self.first + number, path.stat().st_size)
            for number, path in enumerate(paths)
        )

    def fill_in(self, number: int, totals: FileTotals) -> None:
        """Write what a new file's records say into its header."""
        own = totals.facts
        facts = HeaderFacts(
            "",
            self.first + number,
            totals.file.size,
            own.first_csn,
            own.last_csn,
            own.first_time,
            own.last_time,
        )
        with Path(totals.file.path).open("r+b") as file:
            file.write(self._patched(number, facts))
            file.flush()
            os.fsync(file.fileno())


def _published(work: _Work, trail: FoundTrail, report: Report) -> Salvaged:
    """Check the new trail, complete it, and give it its names; the manifest comes last."""
    work.list.close()
    staged = work.staged()
    definitions = trail.definitions
    if definitions is None and work.tables:
        definitions = Definitions(tuple(work.tables.values()))
    made = FoundTrail(work.prefix, staged, definitions=definitions)
    findings = Findings()
    totals = [one for one, _ in checked(made, staged, findings)]
    for number, one in enumerate(totals):
        work.fill_in(number, one)
    worst = next((found for found in findings.result() if _stays(found)), None)
    if worst is not None:
        problem = f"what was saved is not whole, so nothing was written: {worst}"
        raise StorageError(problem, where=Where(source=report.path))
    published = tuple(
        Published(name_of(one.file.path), one.file.number, one.file.size, one.operations)
        for one in totals
    )
    _place(work, definitions)
    write_manifest(work.prefix, Manifest(published))
    return Salvaged(
        work.prefix,
        tuple(file.name for file in published),
        work.rescue.transactions,
        sum(one.operations for one in totals),
        work.left_out,
        work.left_out_bytes,
        str(_list_path(work.prefix)),
        report,
    )


def _stays(found: Finding) -> bool:
    """Tell whether a finding is an error that stays when sizes and numbers are filled in."""
    return found.severity is Severity.ERROR and found.kind not in (SIZE.name, SEQNO.name)


def _place(work: _Work, definitions: Definitions | None) -> None:
    folder = Path(work.prefix).parent
    if definitions is not None:
        with Path(f"{work.prefix}.def").open("xb") as file:
            file.write(write_sourcedefs(definitions))
    for number in range(len(work.files)):
        (work.folder / work.name(number)).rename(folder / work.name(number))
    (work.folder / "left-out").rename(_list_path(work.prefix))
    sync_folder(folder)
