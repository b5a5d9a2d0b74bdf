"""Batches of a streaming query into a trail: each is there once and whole, its manifest entry last.

A batch is known by its query and its number, which the manifest has: a batch that is committed again is passed over. In a store its files become
files of the trail, as those of any run (``commit_files``). On a local disk small batches are added to the last file of the trail, after the bytes that
the manifest states; readers see them with the manifest (decision 0072). What a commit that was interrupted left is overwritten by the next one.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from trailgate.definitions.defgen import write_sourcedefs
from trailgate.errors import StorageError, Where
from trailgate.storage.files.durable import lock, writing
from trailgate.storage.files.manifest import (
    Growing,
    Manifest,
    Published,
    QueryPosition,
    encode_manifest,
    manifest_path,
    read_manifest,
)
from trailgate.storage.live.growing_file import Disk
from trailgate.storage.publish.protocol import OvertakenError
from trailgate.storage.writing.growing_header import (
    beginning_patches,
    finishing_patches,
    opening_patches,
)
from trailgate.storage.writing.segments import Segment
from trailgate.storage.writing.target import Target, check_trail
from trailgate.storage.writing.trail_location import number_text, numbered_files
from trailgate.storage.writing.transaction_chain import Ends, follow_chain


@dataclass(frozen=True, slots=True)
class BatchPart:
    """What one task has staged: files, how many bytes each begins with before its first operation, and its transactions."""

    segments: tuple[Segment, ...] = ()
    begin: int = 0
    ends: Ends | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a query, and how old a file becomes before another is begun, in seconds; None: any age."""

    query: str
    number: int
    max_age: int | None = None


def left_unfinished(
    prefix: str, manifest: Manifest, batch: Batch, parts: Sequence[BatchPart]
) -> dict[str, str]:
    """Return the transaction that the trail ends inside of after a batch."""
    held = manifest.unfinished
    if held and held["query"] != batch.query:
        problem = f"the trail ends inside the transaction {held['transaction']} of another query"
        hint = "One trail takes one query at a time"
        raise StorageError(problem, where=Where(source=prefix), hint=hint)
    ends = [part.ends for part in parts if part.ends is not None]
    left = follow_chain(held.get("transaction"), ends)
    return {} if left is None else {"query": batch.query, "transaction": left}


def manifest_after(
    before: Manifest,
    batch: Batch,
    parts: Sequence[BatchPart],
    files: Sequence[Published],
    unfinished: dict[str, str],
) -> Manifest:
    """Return the manifest with a batch; one without operations leaves its query at the position where it was."""
    positions = before.positions
    ids = [part.ends.seq_id for part in parts if part.ends is not None]
    if ids:
        position = QueryPosition(ids[-1], files[-1].number, files[-1].size)
        positions = {**positions, batch.query: position}
    return replace(
        before,
        files=tuple(files),
        last_run=f"{batch.query}-{batch.number}",
        queries={**before.queries, batch.query: batch.number},
        positions=positions,
        unfinished=unfinished,
        growing=None,
    )


def is_committed(manifest: Manifest | None, batch: Batch) -> bool:
    """Return whether a trail has a batch."""
    return manifest is not None and manifest.queries.get(batch.query, -1) >= batch.number


TRIED: Final = 10  # times, where others publish to the trail too


def commit_files(target: Target, batch: Batch, parts: Sequence[BatchPart]) -> bool:
    """Add a batch's staged files to a trail; return False where the trail has the batch already.

    It is committed over whatever others have published. Raises TransactionError and StorageError as ``commit_batch``.
    """
    for _ in range(TRIED):
        location, manifest = target.location.recover()
        check_trail(location, manifest, target.options)
        if is_committed(manifest, batch):
            return False
        before = manifest or Manifest()
        unfinished = left_unfinished(target.prefix, before, batch, parts)
        segments = [segment for part in parts for segment in part.segments]
        placed, published = numbered_files(target, segments, before)
        after = manifest_after(before, batch, parts, (*before.files, *published), unfinished)
        try:
            own = replace(
                target, location=location, definitions=location.merged(target.definitions)
            )
            location.publish(own, before, after, placed)
        except OvertakenError:
            continue
        return True
    problem = "others publish to this trail all the time"
    raise StorageError(problem, where=Where(source=target.prefix))


GATHERED: Final = (
    8 << 20
)  # bytes of a staged file that are copied after others; a longer one becomes a file


def commit_batch(
    target: Target, batch: Batch, parts: Sequence[BatchPart], disk: Disk | None = None
) -> bool:
    """Add a batch to a trail, parts in their order; return False where the trail has it already.

    Where files cannot be added to, each staged file becomes one of the trail.

    Raises TransactionError where the batch does not continue the transaction that is open, and StorageError where another
    query's is. Then nothing is added.
    """
    if not target.location.backend.appends:
        return commit_files(target, batch, parts)
    with lock(target.prefix):
        manifest = read_manifest(target.prefix)
        if is_committed(manifest, batch):
            return False
        check_trail(target.location, manifest, target.options)
        disk = disk or Disk()
        if manifest is None:
            # From here on, files that are not published yet are not taken for the trail's.
            manifest = Manifest()
            disk.replace(manifest_path(target.prefix), encode_manifest(manifest))
        unfinished = left_unfinished(target.prefix, manifest, batch, parts)
        commit = _Commit(target, batch, disk, list(manifest.files), manifest.growing)
        commit.write_definitions()
        for part in parts:
            for segment in part.segments:
                commit.add(segment, part.begin)
        after = manifest_after(manifest, batch, parts, commit.files, unfinished)
        done = replace(after, growing=commit.growing)
        disk.replace(manifest_path(target.prefix), encode_manifest(done))
        return True


@dataclass(slots=True)
class _Commit:
    """The files of the trail while a batch is added."""

    target: Target
    batch: Batch
    disk: Disk
    files: list[Published]
    growing: Growing | None
    now: int = field(default_factory=lambda: time.time_ns() // 1000)

    def write_definitions(self) -> None:
        """Write the definitions of all tables beside the trail, where they are not there yet."""
        location = self.target.location
        data = write_sourcedefs(location.merged(self.target.definitions))
        if location.backend.read(".def") != data:
            self.disk.replace(Path(f"{location.prefix}.def"), data)

    def add(self, segment: Segment, begin: int) -> None:
        """Add a staged file: to the last file if it fits, else as the next one."""
        if self._fits(segment, begin):
            self._append(segment, begin)
        else:
            self._finish()
            self._place(segment)

    def _fits(self, segment: Segment, begin: int) -> bool:
        growing, body = self.growing, segment.size - begin
        if growing is None or body > GATHERED or growing.form != self._form():
            return False
        age = self.batch.max_age
        if age is not None and self.now - growing.begun >= age * 1_000_000:
            return False
        return self.files[-1].size + body <= self.target.options.max_bytes

    def _form(self) -> str:
        """Return the digest of what records are encoded by; tables by index mean those of their file."""
        form = self.target.options.trail_format
        tables = self.target.definitions if form.by_index else None
        return hashlib.sha256(repr((form, tables)).encode()).hexdigest()[:16]

    def _path(self, name: str) -> Path:
        return Path(self.target.prefix).with_name(name)

    def _append(self, segment: Segment, begin: int) -> None:
        last = self.files[-1]
        path, staged = self._path(last.name), self.target.staging / segment.name
        with writing(staged):
            body = staged.read_bytes()[begin:]
        patches = opening_patches(path)
        self._change(path, last.size, [*patches, (last.size, body)])
        size, count = last.size + len(body), (last.operations or 0) + segment.operations
        self.files[-1] = replace(last, size=size, operations=count)
        self._note(segment)

    def _place(self, segment: Segment) -> None:
        number = self.files[-1].number + 1 if self.files else 0
        digits = self.target.options.seq_digits
        final = Path(f"{self.target.prefix}{number_text(number, digits)}")
        staged = self.target.staging / segment.name
        first = (segment.first_csn, segment.first_time)
        patches = beginning_patches(staged, str(final), number, first)
        self._change(staged, segment.size, patches)
        self.disk.rename(staged, final)
        self.files.append(Published(final.name, number, segment.size, segment.operations))
        self.growing = Growing(self.now, self._form())
        self._note(segment)

    def _note(self, segment: Segment) -> None:
        assert self.growing is not None
        self.growing = replace(self.growing, last_csn=segment.last_csn, last_time=segment.last_time)

    def _finish(self) -> None:
        """Finish the last file, if it was added to: another one follows."""
        if self.growing is None:
            return
        last = self.files[-1]
        path = self._path(last.name)
        patches = finishing_patches(path, last.size, self.growing)
        self._change(path, last.size, patches)
        self.growing = None

    def _change(self, path: Path, size: int, patches: list[tuple[int, bytes]]) -> None:
        """Cut a file to a size, which removes what an interrupted commit left, and write bytes at places."""
        file = self.disk.open(path)
        try:
            file.truncate(size)
            for offset, data in patches:
                file.write(offset, data)
            file.sync()
        finally:
            file.close()
