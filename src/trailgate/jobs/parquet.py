"""Files of records to Parquet: planned once, written in parts by any process, published at the end.

A part is decoded and written in one process, so its rows never leave Arrow. Tasks stage parts, which get their names together
(``storage/publish/protocol.py``).
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from trailgate.errors import StorageError, Where
from trailgate.jobs.record_files import CopybookOptions, read_copybook_split
from trailgate.storage.files.addresses import absolute, is_stored, locate
from trailgate.storage.files.found_files import Addresses
from trailgate.storage.publish.local_disk import LocalDisk
from trailgate.storage.publish.protocol import Backend, Commit, Sidecar, StagedFile
from trailgate.storage.publish.store_folder import STATE, StoreFolder
from trailgate.storage.reading.record_files import (
    RecordSplit,
    find_record_files,
    plan_record_splits,
)
from trailgate.storage.stores.kinds import writable_store

DONE: Final = "_SUCCESS"  # the mark of a complete folder
PART: Final = re.compile(r"part-\d{5,}-[0-9a-f]{12}\.snappy\.parquet")  # the names of parts
NEW: Final = "Name another one: no file is overwritten"
COMPLETED: Final = "A run that was interrupted had decided on all of its files: they are there now"


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """A part that a task wrote; in a store it is an upload that is not completed."""

    rows: int
    file: StagedFile


@dataclass(frozen=True, slots=True)
class PartFolder:
    """A new folder that one run publishes into. Values can be pickled.

    On a local disk the mark of a complete folder is what decides. In a store any number of runs may upload at the same time: the first one that
    makes the folder's state publishes (decision 0046). From then on no other run can, so all other uploads are deleted, those of killed runs too.
    """

    backend: Backend
    run: str
    sidecars: tuple[Sidecar, ...] = ()

    def check_new(self) -> None:
        """Raise StorageError where something is in the folder, after applying what an interrupted run had decided."""
        backend, state, completed = self.backend.recover()
        if state is not None:
            backend.sweep(_is_part)
        if state is not None or self._holds_anything():
            raise self._not_empty(COMPLETED if completed else NEW)

    def _holds_anything(self) -> bool:
        return next(self.backend.names(), None) is not None

    def _not_empty(self, hint: str) -> StorageError:
        where = Where(source=self.backend.name)
        return StorageError("the folder is not empty", where=where, hint=hint)

    @property
    def staging(self) -> Path:
        """Return the hidden folder of the run."""
        return self.backend.staging(f"staging-{self.run}")

    def begin(self) -> None:
        """Make what parts are staged in; raises StorageError where a store cannot decide between two runs."""
        self.backend.check()
        self.backend.make(self.staging)

    def part(self, number: int) -> AbstractContextManager[tuple[IO[bytes], list[StagedFile]]]:
        """Give the file of a part, and a list for what it becomes."""
        name = f"part-{number:05d}-{self.run}.snappy.parquet"
        return self.backend.file(self.staging, f"{number:05d}.parquet", name)

    def publish(self, parts: Iterable[WrittenPart]) -> None:
        """Give parts their names, and mark the folder as complete."""
        if not self.backend.appends and self._holds_anything():
            self.backend.state()
            raise self._not_empty(NEW)
        files = tuple(part.file for part in parts)
        commit = Commit(
            files,
            self._state,
            lambda generation, record: self._state(generation, decided={"record": record}),
            _is_part,
            self.sidecars,
        )
        self.backend.commit(commit, self.staging)

    def _state(self, generation: int, **more: Any) -> bytes:
        if not generation:
            return b""
        return json.dumps({"edition": generation, "run": self.run, **more}).encode()

    def discard(self) -> None:
        """Delete what was staged and is not published."""
        self.backend.discard(
            self.staging, is_own=lambda name: PART.fullmatch(name) is not None and self.run in name
        )

    def absolute(self) -> PartFolder:
        """Return the folder as other working folders name it."""
        return replace(self, backend=self.backend.absolute())


def _is_part(name: str) -> bool:
    """Return whether an unfinished upload of a name is of a run into this folder."""
    return name in (STATE, DONE) or PART.fullmatch(name) is not None


def part_folder(target: str, run: str) -> PartFolder:
    """Return the folder at an address; raises OptionError where the store is not written to."""
    if not is_stored(target):
        return PartFolder(LocalDisk(locate(target)[1], DONE, is_folder=True), run)
    store, key = writable_store(target, "Parquet")
    return PartFolder(StoreFolder.of_folder(store, key), run, (Sidecar(DONE, b""),))


ROW_GROUP_BYTES: Final = 64 << 20  # of Arrow columns, before they are encoded


@dataclass(frozen=True, slots=True)
class ParquetJob:
    """What a worker needs to write any of the parts; it can be pickled."""

    parts: tuple[RecordSplit, ...]
    options: CopybookOptions
    folder: PartFolder

    def anywhere(self) -> ParquetJob:
        """Return the job with absolute paths: its parts are written in other working folders."""
        parts = tuple(
            replace(part, file=replace(part.file, path=absolute(part.file.path)))
            for part in self.parts
        )
        return replace(self, parts=parts, folder=self.folder.absolute())


def prepare_parquet(path: Addresses, target: str, options: CopybookOptions) -> ParquetJob:
    """Return a job that writes the records at ``path`` into a new folder.

    Raises StorageError where the folder is not empty, and OptionError for an address in a store that is not written to.
    """
    folder = part_folder(target, uuid.uuid4().hex[:12])
    folder.check_new()
    parts = plan_record_splits(find_record_files(path), options.framing, options.split_bytes)
    return ParquetJob(tuple(parts), options, folder)


def write_part(job: ParquetJob, number: int, part: RecordSplit) -> WrittenPart:
    """Write a part, by its number, where only publishing finds it; memory stays flat."""
    decoder = job.options.decoder()
    batches = read_copybook_split(part, job.options, decoder)
    rows = 0
    with (
        job.folder.part(number) as (file, staged),
        pq.ParquetWriter(file, decoder.schema, compression="snappy") as writer,
    ):
        for table in _group(batches, decoder.schema):
            writer.write_table(table, row_group_size=max(1, table.num_rows))
            rows += table.num_rows
    return WrittenPart(rows, staged[0])


def _group(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield tables of about a row group's size."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(held, schema)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held, schema)


@contextmanager
def publishing(job: ParquetJob) -> Iterator[list[WrittenPart]]:
    """Publish the parts that are added to the list in this context; delete them where it raises."""
    job.folder.begin()
    parts: list[WrittenPart] = []
    try:
        yield parts
        job.folder.publish(parts)
    except BaseException:
        with suppress(StorageError):  # what failed first is the error
            job.folder.discard()
        raise


def run_local(job: ParquetJob) -> int:
    """Write all parts in this process and publish them; return the number of records."""
    with publishing(job) as parts:
        parts += [write_part(job, number, part) for number, part in enumerate(job.parts)]
    return sum(part.rows for part in parts)
