"""Folders that Parquet files are written into: parts are staged by tasks, and get their names together at the end.

Files of records to Parquet: planned once, written in parts by any process, published at the end.

A part is decoded and written in one process, so its rows never leave Arrow.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from trailgate.errors import StorageError, Where
from trailgate.jobs.record_files import CopybookOptions, read_copybook_split
from trailgate.storage.files.addresses import absolute, is_stored, locate
from trailgate.storage.files.durable import remove_folder, writing
from trailgate.storage.files.found_files import Addresses
from trailgate.storage.reading.record_files import (
    RecordSplit,
    find_record_files,
    plan_record_splits,
)
from trailgate.storage.stores.kinds import writable_store
from trailgate.storage.stores.object_store import ObjectStore, Pending
from trailgate.storage.writing.deciding import Beside, Decided, StagingFolders, edition_in

DONE: Final = "_SUCCESS"  # the mark of a complete folder
PUBLISHED: Final = 2  # the edition of a state after the one that decides; there is none before
PART: Final = re.compile(r"part-\d{5,}-[0-9a-f]{12}\.snappy\.parquet")  # the names of parts
NEW: Final = "Name another one: no file is overwritten"
COMPLETED: Final = "A run that was interrupted had decided on all of its files: they are there now"


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """A part that a task wrote; in a store it is an upload that is not completed."""

    number: int
    rows: int
    upload: Pending | None = None


class PartFolder(Protocol):
    """A new folder. Values can be pickled."""

    def check_new(self) -> None:
        """Raise StorageError where something is in the folder."""

    def begin(self) -> None:
        """Make what parts are staged in; raises StorageError where a store cannot decide between two runs."""

    def part(self, number: int) -> AbstractContextManager[tuple[IO[bytes], list[Pending]]]:
        """Give the file of a part, and a list for the upload that it becomes."""

    def publish(self, parts: Iterable[WrittenPart]) -> None:
        """Give parts their names, and mark the folder as complete."""

    def discard(self) -> None:
        """Delete what was staged and is not published."""

    def anywhere(self) -> PartFolder:
        """Return the folder as other working folders name it."""


def part_folder(target: str, run: str) -> PartFolder:
    """Return the folder at an address; raises OptionError where the store is not written to."""
    if not is_stored(target):
        return LocalFolder(locate(target)[1], run)
    store, key = writable_store(target, "Parquet")
    return StoreFolder(store, key.rstrip("/"), run)


def _not_empty(shown: str, hint: str) -> StorageError:
    return StorageError("the folder is not empty", where=Where(source=shown), hint=hint)


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder on a local disk: parts are renamed out of a hidden folder in it."""

    target: str
    run: str

    @property
    def _staging(self) -> Path:
        return Path(self.target) / f".staging-{self.run}"

    def check_new(self) -> None:
        """Look into the folder."""
        folder = Path(self.target)
        with writing(folder):
            taken = folder.exists() and any(folder.iterdir())
        if taken:
            raise _not_empty(self.target, NEW)

    def begin(self) -> None:
        """Make the hidden folder."""
        with writing(self._staging):
            self._staging.mkdir(parents=True)

    @contextmanager
    def part(self, number: int) -> Iterator[tuple[IO[bytes], list[Pending]]]:
        """Give a file of the hidden folder."""
        path = self._staged(number)
        with writing(path), path.open("wb") as file:
            yield file, []

    def publish(self, parts: Iterable[WrittenPart]) -> None:
        """Rename the parts, and write an empty file."""
        for part in parts:
            self._staged(part.number).rename(Path(self.target) / _name(part.number, self.run))
        self.discard()
        (Path(self.target) / DONE).touch()

    def discard(self) -> None:
        """Remove the hidden folder."""
        remove_folder(self._staging)

    def anywhere(self) -> LocalFolder:
        """Return the folder by its absolute path."""
        return LocalFolder(absolute(self.target), self.run)

    def _staged(self, number: int) -> Path:
        return self._staging / f"{number:05d}.parquet"


@dataclass(frozen=True, slots=True)
class StoreFolder:
    """What looks like a folder of a store: parts are uploaded under their names, and completed when the run has decided on them.

    Nobody sees an upload that is not completed. Where a task runs twice there are two uploads, of which one is completed. Any number of runs may
    upload at the same time: the first one that makes the folder's state publishes, and whoever finds that it was interrupted then does the rest (decision
    0046). From then on no other run can publish, so all other uploads are deleted, those of killed runs too.
    """

    store: ObjectStore
    key: str
    run: str

    def check_new(self) -> None:
        """Look for keys below the folder, after completing what an interrupted run had decided."""
        found, completed = self._runs.deciding.recover()
        if found is not None:
            self._sweep(edition_in(found.data))
        if found is not None or self._holds_anything():
            raise _not_empty(self.store.shown(self.key), COMPLETED if completed else NEW)

    def _holds_anything(self) -> bool:
        """Return whether there are objects below the folder, other than what runs have staged."""
        keys = (key for key, _ in self.store.list_keys(f"{self.key}/"))
        return any(not key.startswith(self._runs.above) for key in keys)

    def begin(self) -> None:
        """Check that the store obeys conditions."""
        self._runs.check_conditions(0, self.run)

    @contextmanager
    def part(self, number: int) -> Iterator[tuple[IO[bytes], list[Pending]]]:
        """Give an upload."""
        upload = self.store.begin(f"{self.key}/{_name(number, self.run)}", later=True)
        made: list[Pending] = []
        try:
            with self._runs.staging(None):
                yield upload.file, made
                made.append(upload.leave())
        finally:
            upload.abort()

    def publish(self, parts: Iterable[WrittenPart]) -> None:
        """Decide on the uploads, and complete them."""
        deciding = self._runs.deciding
        if self._holds_anything():
            deciding.check(None)
            raise _not_empty(self.store.shown(self.key), NEW)
        uploads = tuple(part.upload for part in parts if part.upload is not None)
        own = Decided(
            self._staged,
            f"{self.key}/",
            files=(),
            beside=(Beside(f"{self.key}/{DONE}", None, b""),),
            quarantine="",
            parts=(),
            after=self._state(PUBLISHED),
            uploads=uploads,
        )
        deciding.decide(own, lambda record: self._state(1, decided={"record": record}), None)
        self._sweep(PUBLISHED)

    def _state(self, edition: int, **more: Any) -> bytes:
        return json.dumps({"edition": edition, "run": self.run, **more}).encode()

    def _sweep(self, edition: int) -> None:
        """Delete what runs left, of which none can publish where there is a state of any edition."""
        with suppress(StorageError):  # whoever looks into the folder next deletes what is left
            self._runs.sweep(edition)
            own = (self._runs.deciding.key, f"{self.key}/{DONE}")
            self.store.abandon(f"{self.key}/", lambda key: self._is_part(key) or key in own)

    def _is_part(self, key: str) -> bool:
        return PART.fullmatch(key[len(self.key) + 1 :]) is not None

    def discard(self) -> None:
        """Delete uploads that are not decided on."""
        if self._runs.discard(self._staged):
            self.store.abandon(f"{self.key}/", lambda key: self._is_part(key) and self.run in key)

    def anywhere(self) -> StoreFolder:
        """Return the folder: its address is absolute."""
        return self

    @property
    def _staged(self) -> str:
        return self._runs.folder(0, self.run)

    @property
    def _runs(self) -> StagingFolders:
        return StagingFolders.of_folder(self.store, self.key)


def _name(number: int, run: str) -> str:
    return f"part-{number:05d}-{run}.snappy.parquet"


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
        return replace(self, parts=parts, folder=self.folder.anywhere())


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
        job.folder.part(number) as (file, uploads),
        pq.ParquetWriter(file, decoder.schema, compression="snappy") as writer,
    ):
        for table in _group(batches, decoder.schema):
            writer.write_table(table, row_group_size=max(1, table.num_rows))
            rows += table.num_rows
    return WrittenPart(number, rows, uploads[0] if uploads else None)


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
