"""Files of records to Parquet: planned once, written in parts by any process, published at the end.

A part is decoded and written in one process, so its rows never leave Arrow.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from trailgate.errors import OptionError, StorageError, Where
from trailgate.jobs.record_files.options import CopybookOptions
from trailgate.jobs.record_files.reading import read_copybook_split
from trailgate.storage.files.addresses import URI, absolute, locate
from trailgate.storage.files.durable import remove_folder, writing
from trailgate.storage.files.found_files import Addresses
from trailgate.storage.reading.record_files import (
    RecordSplit,
    find_record_files,
    plan_record_splits,
)

ROW_GROUP_BYTES: Final = 64 << 20  # of Arrow columns, before they are encoded
DONE: Final = "_SUCCESS"  # the mark of a complete folder


@dataclass(frozen=True, slots=True)
class ParquetJob:
    """What a worker needs to write any of the parts; it can be pickled."""

    parts: tuple[RecordSplit, ...]
    options: CopybookOptions
    target: str
    run: str

    @property
    def staging(self) -> Path:
        """Return the folder of parts that are not published."""
        return Path(self.target) / f".staging-{self.run}"

    def anywhere(self) -> ParquetJob:
        """Return the job with absolute paths: its parts are written in other working folders."""
        parts = tuple(
            replace(part, file=replace(part.file, path=absolute(part.file.path)))
            for part in self.parts
        )
        return replace(self, parts=parts, target=absolute(self.target))


def prepare_parquet(path: Addresses, target: str, options: CopybookOptions) -> ParquetJob:
    """Return a job that writes the records at ``path`` into a new folder.

    Raises StorageError where the folder is not empty, and OptionError for an address in another store.
    """
    if URI.match(target) and not target.startswith("file:"):
        raise OptionError(f"{target} is not a folder on a local disk")
    target = locate(target)[1]
    folder = Path(target)
    with writing(folder):
        taken = folder.exists() and any(folder.iterdir())
    if taken:
        hint = "Name another one: no file is overwritten"
        raise StorageError("the folder is not empty", where=Where(source=target), hint=hint)
    parts = plan_record_splits(find_record_files(path), options.framing, options.split_bytes)
    return ParquetJob(tuple(parts), options, target, uuid.uuid4().hex[:12])


def write_part(job: ParquetJob, number: int, part: RecordSplit) -> int:
    """Write a part, by its number, into the staging folder; return how many records it has."""
    decoder = job.options.decoder()
    batches = read_copybook_split(part, job.options, decoder)
    rows = 0
    with pq.ParquetWriter(_staged(job, number), decoder.schema, compression="snappy") as writer:
        for table in _grouped(batches, decoder.schema):
            writer.write_table(table, row_group_size=max(1, table.num_rows))
            rows += table.num_rows
    return rows


def _grouped(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
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
def publishing(job: ParquetJob) -> Iterator[None]:
    """Publish the parts that are written in this context; delete them where it raises."""
    with writing(job.staging):
        job.staging.mkdir(parents=True)
    try:
        yield
        for number in range(len(job.parts)):
            name = f"part-{number:05d}-{job.run}.snappy.parquet"
            _staged(job, number).rename(Path(job.target) / name)
    finally:
        remove_folder(job.staging)
    (Path(job.target) / DONE).touch()


def run_local(job: ParquetJob) -> int:
    """Write all parts in this process and publish them; return the number of records."""
    with publishing(job):
        return sum(write_part(job, number, part) for number, part in enumerate(job.parts))


def _staged(job: ParquetJob, number: int) -> Path:
    return job.staging / f"{number:05d}.parquet"
