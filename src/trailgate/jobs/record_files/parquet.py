"""Files of records to Parquet: planned once, written in parts by any process, published at the end.

A part is decoded and written in one process, so its rows never leave Arrow.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from trailgate.errors import StorageError
from trailgate.jobs.record_files.options import CopybookOptions
from trailgate.jobs.record_files.part_folders import PartFolder, WrittenPart, part_folder
from trailgate.jobs.record_files.reading import read_copybook_split
from trailgate.storage.files.addresses import absolute
from trailgate.storage.files.found_files import Addresses
from trailgate.storage.reading.record_files import (
    RecordSplit,
    find_record_files,
    plan_record_splits,
)

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
        for table in _grouped(batches, decoder.schema):
            writer.write_table(table, row_group_size=max(1, table.num_rows))
            rows += table.num_rows
    return WrittenPart(number, rows, uploads[0] if uploads else None)


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
