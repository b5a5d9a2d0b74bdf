"""Write all whole transactions of a damaged trail to a new one, and list what was left out.

The new trail is made in a staging folder, checked there, and then given its names; nothing is overwritten.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trailgate.definitions.defgen.sourcedefs import write_sourcedefs
from trailgate.errors import StorageError, Where
from trailgate.jobs.checking.file_checks import files_to_check
from trailgate.jobs.checking.report import Report, checked
from trailgate.jobs.salvage.new_trail import NewTrail
from trailgate.model.tables import Definitions
from trailgate.storage.files.addresses import name_of
from trailgate.storage.files.durable import sync_folder
from trailgate.storage.files.found_trail import FoundTrail, look_at
from trailgate.storage.files.listing import files_on_disk
from trailgate.storage.files.lock import locked
from trailgate.storage.files.manifest import Manifest, Published, manifest_path, write_manifest
from trailgate.storage.writing.target import writable_prefix
from trailgate.trail.checking.findings import NOT_READ, SEQNO, SIZE, Finding, Findings, Severity


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


def salvage(
    path: str, out: str, definitions: str | None = None, *, values: bool = False
) -> Salvaged:
    """Return what of a trail is whole, written to a new trail ``out``.

    With ``values`` transactions of which a value cannot be decoded are left out too.

    Raises StorageError where something is there already, and OptionError where ``out`` is not a prefix.
    """
    prefix = writable_prefix(out)
    trail = look_at(path, definitions)
    findings = Findings()
    files = files_to_check(trail, findings)
    with locked(prefix), _staging(prefix) as folder:
        _refuse_existing(prefix)
        work = NewTrail(folder, prefix, files)
        totals = [one for one, _ in checked(trail, files, findings, work.take, values=values)]
        work.selection.finish()
        report = Report(path, tuple(one.report() for one in totals), findings.result())
        return _published(work, trail, report)


def _refuse_existing(prefix: str) -> None:
    beside = [_list_path(prefix), manifest_path(prefix), Path(f"{prefix}.def")]
    there = [path for path in beside if path.exists()]
    there += [Path(file.path) for file in files_on_disk(prefix)]
    if there:
        problem = "something is there already, and is not overwritten"
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


def _published(work: NewTrail, trail: FoundTrail, report: Report) -> Salvaged:
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
        prefix=work.prefix,
        files=tuple(file.name for file in published),
        transactions=work.selection.transactions,
        operations=sum(one.operations for one in totals),
        left_out=work.left_out,
        left_out_bytes=work.left_out_bytes,
        listed=str(_list_path(work.prefix)),
        report=report,
    )


# What is filled in when a trail is published; and whole records that readers refuse are saved.
FILLED_IN: Final = frozenset((SIZE.name, SEQNO.name, NOT_READ.name))


def _stays(found: Finding) -> bool:
    """Return whether a finding is an error that stays when sizes and numbers are filled in."""
    return found.severity is Severity.ERROR and found.kind not in FILLED_IN


def _place(work: NewTrail, definitions: Definitions | None) -> None:
    folder = Path(work.prefix).parent
    if definitions is not None:
        with Path(f"{work.prefix}.def").open("xb") as file:
            file.write(write_sourcedefs(definitions))
    for number in range(len(work.files)):
        (work.folder / work.name(number)).rename(folder / work.name(number))
    (work.folder / "left-out").rename(_list_path(work.prefix))
    sync_folder(folder)
