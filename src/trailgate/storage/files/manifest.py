"""A trail that is written to: its manifest and lock, the staging folder, and publishing.

Publishing is done in steps that can all be done again; the manifest comes last.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from trailgate.definitions.defgen.sourcedefs import read_sourcedefs, write_sourcedefs
from trailgate.errors import OptionError, StorageError, Where
from trailgate.messages.capture import Capture
from trailgate.model.tables import Definitions
from trailgate.storage.files.checkpoint import checkpoint_path
from trailgate.storage.files.quarantine import append_lines
from trailgate.storage.files.trail_files import NUMBERED, URI
from trailgate.storage.reading.message_files import SPLIT_BYTES, MessageSource
from trailgate.storage.writing.segments import MAX_BYTES, Encoding, Segment, SegmentWriter
from trailgate.trail.format.file_header import (
    FileHeader,
    MachineInfo,
    ProducerInfo,
    TrailInfo,
    header_patches,
)
from trailgate.trail.format.trail_format import LEVEL_3, TrailFormat
from trailgate.trail.writing.file_beginning import file_begin, header_of
from trailgate.trail.writing.writer import encode

PRODUCER: Final = "TRAILGATE"


@dataclass(frozen=True, slots=True)
class Published:
    """One file of a trail; only what a manifest lists is part of the trail."""

    name: str
    number: int
    size: int
    operations: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is published: files in order, bytes of the quarantine, and the last run.

    ``sources`` counts the message files of all runs: the next run's are numbered from there, so
    that generated ids ascend through the whole trail.
    """

    files: tuple[Published, ...] = ()
    quarantine: int = 0
    last_run: str = ""
    summary: dict[str, Any] = field(default_factory=dict)
    sources: int = 0

    @property
    def next_number(self) -> int:
        """Return the number of the file that comes next."""
        return self.files[-1].number + 1 if self.files else 0


def manifest_path(prefix: str) -> Path:
    """Return where the manifest of a trail lies."""
    return Path(f"{prefix}.manifest.json")


def read_manifest(prefix: str) -> Manifest | None:
    """Return the manifest of a trail; None where there is none. Raises StorageError."""
    path = manifest_path(prefix)
    try:
        fields = json.loads(path.read_bytes())
        files = tuple(Published(**entry) for entry in fields.pop("files"))
        return Manifest(files, **fields)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"the manifest cannot be understood: {error!r}"
        raise StorageError(problem, where=Where(source=str(path))) from error


def write_manifest(prefix: str, manifest: Manifest) -> None:
    """Replace the manifest of a trail, whole or not at all."""
    write_whole(manifest_path(prefix), json.dumps(asdict(manifest), indent=1).encode() + b"\n")


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there with all its bytes, or as it was before."""
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder last."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(prefix: str) -> Iterator[None]:
    """Hold a trail for one run; raises StorageError where another run holds it.

    The system frees the lock when the process ends, however it ends.
    """
    target = Path(prefix)
    target.parent.mkdir(parents=True, exist_ok=True)
    path = target.parent / f".{target.name}.lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            problem = "another run is writing this trail"
            raise StorageError(problem, where=Where(source=prefix)) from None
        yield
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """How a capture runs; ``on_error`` is stop or quarantine, ``seq_digits`` 9 or 6."""

    on_error: str = "stop"
    max_bytes: int = MAX_BYTES
    seq_digits: int = 9
    dry_run: bool = False
    split_bytes: int = SPLIT_BYTES
    message_per_line: bool = False
    trail_format: TrailFormat = LEVEL_3

    def __post_init__(self) -> None:
        if self.on_error not in ("stop", "quarantine"):
            raise OptionError(f"on-error is {self.on_error}, expected stop or quarantine")
        if self.seq_digits not in (6, 9):
            raise OptionError(f"{self.seq_digits} digits: a trail file's name ends in 9 or 6")


@dataclass(frozen=True, slots=True)
class CaptureSummary:
    """What a capture did: operations by table and kind, and the files it published."""

    target: str
    counts: dict[str, dict[str, int]]
    messages: int = 0
    transactions: int = 0
    operations: int = 0
    quarantined: int = 0
    files: tuple[str, ...] = ()
    quarantine: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """The trail of a run and its staging folder; ``done`` is set if all was published before.

    ``first_source`` is the number of the run's first message file, ``sources`` how many it has.
    """

    prefix: str
    staging: Path
    run: str
    header: FileHeader
    definitions: Definitions
    done: CaptureSummary | None = None
    first_source: int = 0
    sources: int = 0

    def writer(self, stem: str, options: CaptureOptions) -> SegmentWriter:
        """Return a writer of trail files into the staging folder."""
        begin = file_begin(self.header, options.trail_format, self.definitions)
        return SegmentWriter(self.staging, stem, begin, options.max_bytes)

    def encoding(self, options: CaptureOptions) -> Encoding:
        """Return what makes records of operations."""
        return partial(encode, trail_format=options.trail_format, definitions=self.definitions)

    def discard(self) -> None:
        """Remove the staging folder."""
        shutil.rmtree(self.staging, ignore_errors=True)


def prepare_target(
    capture: Capture, source: MessageSource, prefix: str, options: CaptureOptions
) -> tuple[Target, int]:
    """Return where a run writes, and its time; raises StorageError where it must not."""
    if URI.match(prefix) or not Path(prefix).name:
        raise OptionError(f"{prefix!r} is no trail", hint="Name a prefix as dirdat/ot")
    manifest = read_manifest(prefix)
    check_trail(prefix, manifest, options)
    definitions = _merged(prefix, capture)
    check_tables(definitions, options)
    staging = Path(prefix).absolute().with_name(f".{Path(prefix).name}.staging")
    asked = (replace(capture, now=0), source, prefix, options)
    fingerprint = hashlib.sha256(repr(asked).encode()).hexdigest()
    now, run = time.time_ns() // 1000, ""
    done = None
    if not options.dry_run:
        now = _staged(staging, fingerprint, now)
        run = f"{fingerprint}-{now}"
        if manifest is not None and manifest.last_run == run:
            done = CaptureSummary(**{**manifest.summary, "files": tuple(manifest.summary["files"])})
        elif manifest is None:
            write_manifest(prefix, Manifest())
    header = file_header(prefix, options.seq_digits, now)
    first = 0 if manifest is None else manifest.sources
    sources = len(source.files)
    return Target(prefix, staging, run, header, definitions, done, first, sources), now


def check_tables(definitions: Definitions, options: CaptureOptions) -> None:
    """Raise EncodeError where a file of that format cannot say what its tables are."""
    file_begin(FileHeader(), options.trail_format, definitions)


def check_trail(prefix: str, manifest: Manifest | None, options: CaptureOptions) -> None:
    """Raise StorageError or OptionError where a trail cannot be added to."""
    target = Path(prefix)
    if manifest is None:
        if numbered_files(prefix) or checkpoint_path(prefix).exists():
            problem = "there is a trail without a manifest here"
            hint = "Capture into a new trail: only our own are added to"
            raise StorageError(problem, where=Where(source=prefix), hint=hint)
    elif manifest.files:
        digits = len(manifest.files[-1].name) - len(target.name)
        if digits != options.seq_digits:
            raise OptionError(
                f"the trail's file names end in {digits} digits: --seq-digits {digits}"
            )


def numbered_files(prefix: str) -> list[Path]:
    """Return the files that are named like those of a trail."""
    target = Path(prefix)
    found = []
    for path in target.parent.glob(f"{glob.escape(target.name)}*"):
        matched = NUMBERED.fullmatch(path.name)
        if matched and matched["prefix"] == target.name:
            found.append(path)
    return found


def _merged(prefix: str, capture: Capture) -> Definitions:
    """Return the trail's definitions with those of the tables that are captured."""
    wanted = [table for table in capture.definitions if capture.rules.wants(table.name)]
    path = Path(f"{prefix}.def")
    if not path.exists():
        return Definitions(tuple(wanted), capture.definitions.database)
    return read_sourcedefs(path.read_bytes(), source=str(path)).merged(wanted)


def _staged(staging: Path, fingerprint: str, now: int) -> int:
    """Begin a staging folder; return the time of an unfinished run of the same input, or now."""
    record = staging / "run.json"
    try:
        earlier = json.loads(record.read_bytes())
        if earlier["fingerprint"] == fingerprint:
            now = int(earlier["now"])
    except (OSError, ValueError, KeyError):
        pass
    if not staging.exists():
        staging.mkdir(parents=True)
    write_whole(record, json.dumps({"fingerprint": fingerprint, "now": now}).encode())
    for path in staging.iterdir():
        if path != record:
            path.unlink()
    return now


def file_header(prefix: str, digits: int, now: int) -> FileHeader:
    """Return the header of all files of a run, but for what publishing fills in."""
    machine = MachineInfo(*os.uname())
    name = f"{prefix}{0:0{digits}}"
    trail = TrailInfo(creation_time=now, uri=f"uri:{machine.nodename}:{prefix}", filename=name)
    return FileHeader(trail, machine, producer=ProducerInfo(name=PRODUCER))


def publish_target(
    target: Target,
    options: CaptureOptions,
    summary: CaptureSummary,
    segments: Sequence[Segment],
    aside: Sequence[str],
) -> CaptureSummary:
    """Make staged files part of the trail; each step can be done again after a crash."""
    if options.dry_run:
        return summary
    if target.done is not None:
        target.discard()
        return target.done
    before = read_manifest(target.prefix) or Manifest()
    write_whole(Path(f"{target.prefix}.def"), write_sourcedefs(target.definitions))
    published = []
    for number, segment in enumerate(segments, before.next_number):
        published.append(_place_file(target, segment, number, options))
    sync_folder(Path(target.prefix).parent)
    held = before.quarantine
    quarantine = Path(f"{target.prefix}.quarantine.jsonl")
    if aside:
        held = append_lines(quarantine, held, [target.staging / name for name in aside])
    summary = replace(
        summary,
        files=tuple(file.name for file in published),
        quarantine=str(quarantine) if aside else None,
    )
    files = (*before.files, *published)
    sources = max(before.sources, target.first_source + target.sources)
    write_manifest(target.prefix, Manifest(files, held, target.run, asdict(summary), sources))
    target.discard()
    return summary


def _place_file(
    target: Target, segment: Segment, number: int, options: CaptureOptions
) -> Published:
    """Fill in a file's header and give it its name."""
    digits = options.seq_digits
    name = f"{target.prefix}{number:0{digits}}"
    if number >= 10**digits:
        raise StorageError(f"file number {number} has more than {digits} digits")
    trail = replace(
        target.header.trail,
        filename=name,
        seqno=number,
        file_size=segment.size,
        first_csn=segment.first_csn,
        last_csn=segment.last_csn,
        first_io_time=segment.first_time,
        last_io_time=segment.last_time,
    )
    staged = target.staging / segment.name
    header = header_of(replace(target.header, trail=trail), options.trail_format)
    patches = header_patches(header) if options.trail_format.has_header else []
    with staged.open("r+b") as file:
        for offset, data in patches:
            file.seek(offset)
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    staged.replace(name)
    return Published(Path(name).name, number, segment.size, segment.operations)
