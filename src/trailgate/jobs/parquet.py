"""Files of records to Parquet: planned once, written in parts by any process, published at the end.

A part is decoded and written in one process, so its rows never leave Arrow. Tasks stage parts, which get their names together
(``storage/publish/protocol.py``). Of several kinds of records each becomes a table in a folder of its own, in one reading of the files.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from dataclasses import field as member
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from trailgate.cobol.records.fields import Tally
from trailgate.errors import StorageError, Where
from trailgate.jobs.record_files import CopybookOptions, read_tables, table_schemas
from trailgate.storage.files.addresses import absolute, is_stored, locate
from trailgate.storage.files.found_files import Addresses
from trailgate.storage.publish.local_disk import LocalDisk
from trailgate.storage.publish.protocol import Backend, Commit, Sidecar, StagedFile
from trailgate.storage.publish.store_folder import STATE, StoreFolder
from trailgate.storage.reading.record_files import RecordSplit
from trailgate.storage.stores.kinds import writable_store

DONE: Final = "_SUCCESS"  # the mark of a complete folder
PART: Final = re.compile(r"part-\d{5,}-[0-9a-f]{12}\.snappy\.parquet")  # the names of parts
NEW: Final = "Name another one: no file is overwritten"
COMPLETED: Final = "A run that was interrupted had decided on all of its files: they are there now"


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """A part that a task wrote, a file for each table with rows; in a store they are uploads that are not completed."""

    rows: int
    files: tuple[StagedFile, ...]
    tally: Tally = member(default_factory=Tally)


@dataclass(frozen=True, slots=True)
class PartFolder:
    """A new folder that one run publishes into. Values can be pickled.

    On a local disk the mark of a complete folder is what decides. In a store any number of runs may upload at the same time: the first one that
    makes the folder's state publishes (decision 0046). From then on no other run can, so all other uploads are deleted, those of killed runs too.
    """

    backend: Backend
    run: str
    sidecars: tuple[Sidecar, ...] = ()
    tables: tuple[str, ...] = ("",)  # the folders that parts are in, below it

    def _is_part(self, name: str) -> bool:
        """Return whether an unfinished upload of a name is of a run into this folder."""
        table, _, part = name.rpartition("/")
        return name in (STATE, DONE) or (table in self.tables and PART.fullmatch(part) is not None)

    def check_new(self) -> None:
        """Raise StorageError where something is in the folder, after applying what an interrupted run had decided."""
        backend, state, completed = self.backend.recover()
        if state is not None:
            backend.sweep(self._is_part)
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

    def part(
        self, number: int, table: str = ""
    ) -> AbstractContextManager[tuple[IO[bytes], list[StagedFile]]]:
        """Give the file of a part, in the folder of a table if that has a name, and a list for what it becomes."""
        name = f"part-{number:05d}-{self.run}.snappy.parquet"
        staged = f"{number:05d}{table and '-'}{table}.parquet"
        return self.backend.file(self.staging, staged, f"{table}/{name}" if table else name)

    def publish(self, parts: Iterable[WrittenPart]) -> None:
        """Give parts their names, and mark the folder as complete."""
        if not self.backend.appends and self._holds_anything():
            self.backend.state()
            raise self._not_empty(NEW)
        files = tuple(file for part in parts for file in part.files)
        commit = Commit(
            files,
            self._state,
            lambda generation, record: self._state(generation, decided={"record": record}),
            self._is_part,
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
            self.staging, is_own=lambda name: self._is_part(name) and self.run in name
        )

    def absolute(self) -> PartFolder:
        """Return the folder as other working folders name it."""
        return replace(self, backend=self.backend.absolute())


def part_folder(target: str, run: str, tables: Iterable[str] = ("",)) -> PartFolder:
    """Return the folder at an address; raises OptionError where the store is not written to."""
    own = tuple(tables)
    if not is_stored(target):
        return PartFolder(LocalDisk(locate(target)[1], DONE, is_folder=True), run, (), own)
    store, key = writable_store(target, "Parquet")
    return PartFolder(StoreFolder.of_folder(store, key), run, (Sidecar(DONE, b""),), own)


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
    folder = part_folder(target, uuid.uuid4().hex[:12], table_schemas(options.decoder()))
    folder.check_new()
    return ParquetJob(tuple(options.splits(path)), options, folder)


def write_part(job: ParquetJob, number: int, part: RecordSplit) -> WrittenPart:
    """Write a part, by its number, where only publishing finds it; memory stays flat.

    Of several tables those without rows have a file in the first part alone, for their schema.
    """
    decoder = job.options.decoder()
    schemas = table_schemas(decoder)
    rows = 0
    staged: list[list[StagedFile]] = []
    writers: dict[str, pq.ParquetWriter] = {}
    with ExitStack() as files:

        def writer(name: str) -> pq.ParquetWriter:
            if name not in writers:
                file, made = files.enter_context(job.folder.part(number, name))
                staged.append(made)
                own = pq.ParquetWriter(file, schemas[name], compression="snappy")
                writers[name] = files.enter_context(own)
            return writers[name]

        for name in schemas if len(schemas) == 1 or not number else ():
            writer(name)
        for name, table in _group(read_tables(part, job.options, decoder), schemas):
            writer(name).write_table(table, row_group_size=max(1, table.num_rows))
            rows += table.num_rows
    return WrittenPart(rows, tuple(file for made in staged for file in made), decoder.tally)


def _group(
    batches: Iterator[tuple[str, pa.RecordBatch]], schemas: Mapping[str, pa.Schema]
) -> Iterator[tuple[str, pa.Table]]:
    """Yield tables of about a row group's size: the largest one once all together have it."""
    held: dict[str, list[pa.RecordBatch]] = {}
    sizes = dict.fromkeys(schemas, 0)
    for name, batch in batches:
        held.setdefault(name, []).append(batch)
        sizes[name] += batch.nbytes
        if sum(sizes.values()) >= ROW_GROUP_BYTES:
            largest = max(sizes, key=sizes.__getitem__)
            yield largest, pa.Table.from_batches(held.pop(largest), schemas[largest])
            sizes[largest] = 0
    for name, own in held.items():
        yield name, pa.Table.from_batches(own, schemas[name])


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


def run_local(job: ParquetJob, tally: Tally | None = None) -> int:
    """Write all parts in this process and publish them; return the number of records.

    What policies decided on is added to ``tally``.
    """
    with publishing(job) as parts:
        parts += [write_part(job, number, part) for number, part in enumerate(job.parts)]
    return count_records(parts, tally)


def count_records(parts: Iterable[WrittenPart], tally: Tally | None) -> int:
    """Return the number of records of parts, and add their counts to the tally."""
    rows = 0
    for part in parts:
        rows += part.rows
        if tally is not None:
            tally.update(part.tally)
    return rows
