"""Batches of a streaming query into a trail: each is there once and whole, its manifest entry last.

A batch is known by its query and its number, which the manifest has: a batch that is committed again is passed over. Small
batches are added to the last file of the trail, after the bytes that the manifest states; readers see them with the manifest.
What a commit that was interrupted left is overwritten by the next one.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from trailgate.definitions.defgen.sourcedefs import write_sourcedefs
from trailgate.errors import StorageError
from trailgate.storage.files.definitions_file import trail_definitions
from trailgate.storage.files.durable import writing
from trailgate.storage.files.lock import locked
from trailgate.storage.files.manifest import (
    Growing,
    Manifest,
    Published,
    encode_manifest,
    manifest_path,
    read_manifest,
)
from trailgate.storage.live.batch import Batch, BatchPart, left_unfinished, moved_positions
from trailgate.storage.live.disk import Disk
from trailgate.storage.live.file_commit import commit_files
from trailgate.storage.writing.growing_header import (
    beginning_patches,
    finishing_patches,
    opening_patches,
)
from trailgate.storage.writing.segments import Segment
from trailgate.storage.writing.target import Target, check_trail

GATHERED: Final = (
    8 << 20
)  # bytes of a staged file that are copied after others; a longer one becomes a file


def is_committed(prefix: str, batch: Batch) -> bool:
    """Return whether a trail has a batch."""
    manifest = read_manifest(prefix)
    return manifest is not None and manifest.queries.get(batch.query, -1) >= batch.number


def commit_batch(
    target: Target, batch: Batch, parts: Sequence[BatchPart], disk: Disk | None = None
) -> bool:
    """Add a batch to a trail, parts in their order; return False where the trail has it already.

    Where files cannot be added to, each staged file becomes one of the trail.

    Raises TransactionError where the batch does not continue the transaction that is open, and StorageError where another
    query's is. Then nothing is added.
    """
    if not target.place.appends:
        return commit_files(target, batch, parts)
    with locked(target.prefix):
        if is_committed(target.prefix, batch):
            return False
        manifest = read_manifest(target.prefix)
        check_trail(target.place, manifest, target.options)
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
        queries = {**manifest.queries, batch.query: batch.number}
        done = replace(
            manifest,
            files=tuple(commit.files),
            last_run=f"{batch.query}-{batch.number}",
            queries=queries,
            positions=moved_positions(manifest, batch, commit.files, parts),
            unfinished=unfinished,
            growing=commit.growing,
        )
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
        path = Path(f"{self.target.prefix}.def")
        known = trail_definitions(self.target.prefix)
        wanted = self.target.definitions
        merged = wanted if known is None else known.merged(wanted)
        data = write_sourcedefs(merged)
        if known is None or path.read_bytes() != data:
            self.disk.replace(path, data)

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
        if number >= 10**digits:
            raise StorageError(f"file number {number} has more than {digits} digits")
        final = Path(f"{self.target.prefix}{number:0{digits}}")
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
