"""Commit batches of a streaming query to a trail, each exactly once.

The manifest is written last. It contains the last batch number of each query, so a batch that is
committed again is skipped. In an object store the batch's files become files of the trail, as in
any other run (``commit_files``). On a local disk, small batches are appended to the trail's last
file, after the bytes that the manifest states; readers see them once the manifest is written
(decision 0072). Bytes that an interrupted commit has left there are overwritten by the next commit.
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
from trailgate.storage.files.durable import convert_write_errors
from trailgate.storage.files.locks import lock
from trailgate.storage.files.manifest import (
    GrowingFileState,
    Manifest,
    ManifestFile,
    QueryPosition,
    encode_manifest,
    manifest_path,
    read_manifest,
)
from trailgate.storage.files.trail_names import format_file_number
from trailgate.storage.live.growing_file import Disk
from trailgate.storage.publish.protocol import OvertakenError
from trailgate.storage.writing.file_headers import (
    patches_to_begin,
    patches_to_finish,
    patches_to_reopen,
)
from trailgate.storage.writing.run_preparation import check_appendable
from trailgate.storage.writing.segments import Segment
from trailgate.storage.writing.trail_location import TrailTarget, number_files
from trailgate.storage.writing.transaction_chain import PartEnds, follow_chain

TRIED: Final = 10  # the maximum attempts if other runs publish to the trail at the same time

# A staged file of at most this many bytes is appended to the last file. A longer one becomes a file.
GATHERED: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class BatchPart:
    """The part of a streaming query's batch that one Spark task staged as trail files.

    ``begin`` is the offset of the first operation in each file, after its header and metadata.
    ``ends`` are the part's first and last operation, or None if it has no operations.
    """

    segments: tuple[Segment, ...] = ()
    begin: int = 0
    ends: PartEnds | None = None


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """A batch of the streaming query ``query``; Spark numbers the batches from 0.

    ``max_age`` is the age in seconds at which a new trail file is begun (None: never).
    """

    query: str
    number: int
    max_age: int | None = None


def find_unfinished(
    prefix: str, manifest: Manifest, batch: QueryBatch, parts: Sequence[BatchPart]
) -> dict[str, str]:
    """Return the query and transaction that would be open at the trail's end after a batch, or {}.

    The result has the form of ``Manifest.unfinished``. Raises StorageError if a transaction of
    another query is open before the batch, and TransactionError if the batch does not continue the
    open transaction.
    """
    unfinished = manifest.unfinished
    if unfinished and unfinished["query"] != batch.query:
        problem = (
            f"the trail ends inside the transaction {unfinished['transaction']} of another query"
        )
        hint = "Only one query at a time can write to a trail"
        raise StorageError(problem, where=Where(source=prefix), hint=hint)
    ends = [part.ends for part in parts if part.ends is not None]
    open_transaction = follow_chain(unfinished.get("transaction"), ends)
    return (
        {} if open_transaction is None else {"query": batch.query, "transaction": open_transaction}
    )


def manifest_after(
    before: Manifest,
    batch: QueryBatch,
    parts: Sequence[BatchPart],
    files: Sequence[ManifestFile],
    unfinished: dict[str, str],
) -> Manifest:
    """Return the trail's manifest after a batch of a streaming query.

    A batch without operations keeps the position of its query. ``growing`` is None in the result.
    """
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


def is_committed(manifest: Manifest | None, batch: QueryBatch) -> bool:
    """Return True if the trail already has the streaming query's batch."""
    return manifest is not None and manifest.queries.get(batch.query, -1) >= batch.number


def commit_files(target: TrailTarget, batch: QueryBatch, parts: Sequence[BatchPart]) -> bool:
    """Add the staged files of a query's batch to a trail in an object store, as new trail files.

    Returns False if the trail already contains the batch. If another run publishes at the same
    time, the commit is retried. Raises the same errors as ``commit_batch``.
    """
    for _ in range(TRIED):
        location, manifest = target.location.recover()
        check_appendable(location, manifest, target.options)
        target.log_notes(manifest)
        if is_committed(manifest, batch):
            return False
        before = manifest or Manifest()
        unfinished = find_unfinished(target.prefix, before, batch, parts)
        segments = [segment for part in parts for segment in part.segments]
        placed, published = number_files(target, segments, before)
        after = manifest_after(before, batch, parts, (*before.files, *published), unfinished)
        try:
            target_now = replace(
                target,
                location=location,
                definitions=location.merge_definitions(target.definitions),
            )
            location.publish(target_now, before, after, placed)
        # Another run has published: read the manifest again and retry.
        except OvertakenError:
            continue
        return True
    problem = f"other runs published to this trail during all {TRIED} attempts"
    raise StorageError(problem, where=Where(source=target.prefix))


def commit_batch(
    target: TrailTarget, batch: QueryBatch, parts: Sequence[BatchPart], disk: Disk | None = None
) -> bool:
    """Add the staged parts of a streaming query's batch to a trail, in order.

    Returns False if the trail already has the batch.

    In an object store each staged file becomes a file of the trail; on a local disk, small ones are
    appended to its last file. Raises TransactionError if the batch does not continue the open
    transaction, and StorageError if that transaction belongs to another query. Nothing is added
    then.
    """
    if not target.location.backend.appends:
        return commit_files(target, batch, parts)
    with lock(target.prefix):
        manifest = read_manifest(target.prefix)
        if is_committed(manifest, batch):
            return False
        check_appendable(target.location, manifest, target.options)
        target.log_notes(manifest)
        disk = disk or Disk()
        if manifest is None:
            # From here on, files that are not in the manifest are not mistaken for the trail's.
            manifest = Manifest()
            disk.replace(manifest_path(target.prefix), encode_manifest(manifest))
        unfinished = find_unfinished(target.prefix, manifest, batch, parts)
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
    """Adds the staged files of one batch to the trail, and keeps the list of the trail's files up to date."""

    target: TrailTarget
    batch: QueryBatch
    disk: Disk
    files: list[ManifestFile]
    growing: GrowingFileState | None
    now: int = field(default_factory=lambda: time.time_ns() // 1000)

    def write_definitions(self) -> None:
        """Write the definitions of all tables beside the trail, if they changed."""
        location = self.target.location
        data = write_sourcedefs(location.merge_definitions(self.target.definitions))
        if location.backend.read(".def") != data:
            self.disk.replace(Path(f"{location.prefix}.def"), data)

    def add(self, segment: Segment, begin: int) -> None:
        """Append the operations of a staged file, from byte ``begin`` on, to the trail's last file if they fit.

        Otherwise the staged file becomes a new file of the trail.
        """
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
        """Return a digest of the trail's format and, if records name tables by index, of its tables.

        Records can only be appended to a file with the same digest.
        """
        form = self.target.options.trail_format
        tables = self.target.definitions if form.by_index else None
        return hashlib.sha256(repr((form, tables)).encode()).hexdigest()[:16]

    def _path(self, name: str) -> Path:
        return Path(self.target.prefix).with_name(name)

    def _append(self, segment: Segment, begin: int) -> None:
        last = self.files[-1]
        path, staged = self._path(last.name), self.target.staging / segment.name
        with convert_write_errors(staged):
            body = staged.read_bytes()[begin:]
        # The header must not state a final size while the file grows.
        patches = patches_to_reopen(path)
        self._change(path, last.size, [*patches, (last.size, body)])
        size, count = last.size + len(body), (last.operations or 0) + segment.operations
        self.files[-1] = replace(last, size=size, operations=count)
        self._record_change(segment)

    def _place(self, segment: Segment) -> None:
        number = self.files[-1].number + 1 if self.files else 0
        digits = self.target.options.seq_digits
        final = Path(f"{self.target.prefix}{format_file_number(number, digits)}")
        staged = self.target.staging / segment.name
        first = (segment.first_csn, segment.first_time)
        patches = patches_to_begin(staged, str(final), number, first)
        self._change(staged, segment.size, patches)
        self.disk.rename(staged, final)
        self.files.append(ManifestFile(final.name, number, segment.size, segment.operations))
        self.growing = GrowingFileState(self.now, self._form())
        self._record_change(segment)

    def _record_change(self, segment: Segment) -> None:
        assert self.growing is not None
        self.growing = replace(self.growing, last_csn=segment.last_csn, last_time=segment.last_time)

    def _finish(self) -> None:
        """Finish the trail's last file if it was appended to, because another file follows."""
        if self.growing is None:
            return
        last = self.files[-1]
        path = self._path(last.name)
        patches = patches_to_finish(path, last.size, self.growing)
        self._change(path, last.size, patches)
        self.growing = None

    def _change(self, path: Path, size: int, patches: list[tuple[int, bytes]]) -> None:
        """Truncate a trail file, which removes the remains of an interrupted commit, and patch it."""
        file = self.disk.open(path)
        try:
            file.truncate(size)
            for offset, data in patches:
                file.write(offset, data)
            file.sync()
        finally:
            file.close()
