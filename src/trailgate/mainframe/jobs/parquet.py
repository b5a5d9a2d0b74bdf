"""Convert files of records to Parquet: plan once, write parts in any process, publish at the end.

A task decodes and writes one part, so rows stay in Arrow's format. Parts are staged, and all get
their names when the folder is published (``storage.publish.protocol``). If there are several kinds
of records, each becomes a table in a separate subfolder, but the files are read only once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from trailgate.cobol.records.policy_counts import PolicyCounts
from trailgate.mainframe.files.record_files import RecordSplit
from trailgate.mainframe.jobs.copybook_options import CopybookOptions
from trailgate.mainframe.jobs.part_folder import PartFolder, WrittenPart, part_folder, publishing
from trailgate.mainframe.jobs.reading import read_tables, schemas_of_tables
from trailgate.storage.files.addresses import Addresses
from trailgate.storage.publish.protocol import StagedFile

ROW_GROUP_BYTES: Final = 64 << 20  # bytes of Arrow columns, before Parquet's encoding


@dataclass(frozen=True, slots=True)
class ParquetJob:
    """A conversion of record files to Parquet.

    It can be pickled: a worker needs nothing else to write a part.
    """

    parts: tuple[RecordSplit, ...]
    options: CopybookOptions
    folder: PartFolder

    def anywhere(self) -> ParquetJob:
        """Return the conversion job with absolute paths, because workers have different working directories."""
        parts = tuple(part.anywhere() for part in self.parts)
        return replace(self, parts=parts, folder=self.folder.absolute())


def prepare_parquet(path: Addresses, target: str, options: CopybookOptions) -> ParquetJob:
    """Plan a job that converts the record files at ``path`` to Parquet in a new folder.

    Raises StorageError if the folder is not empty, and OptionError if the store cannot be written.
    """
    folder = part_folder(target, tables=schemas_of_tables(options.decoder()))
    folder.check_new()
    return ParquetJob(tuple(options.splits(path)), options, folder)


def write_part(job: ParquetJob, number: int, part: RecordSplit) -> WrittenPart:
    """Write one Parquet part of a conversion under a temporary name, in constant memory.

    If there are several tables, those without rows get a file only in the first part, so that their
    schema is known.
    """
    decoder = job.options.decoder()
    schemas = schemas_of_tables(decoder)
    rows = 0
    staged: list[list[StagedFile]] = []
    writers: dict[str, pq.ParquetWriter] = {}
    with ExitStack() as files:

        def writer(name: str) -> pq.ParquetWriter:
            if name not in writers:
                file, staged_files = files.enter_context(job.folder.part(number, name))
                staged.append(staged_files)
                table_writer = pq.ParquetWriter(file, schemas[name], compression="snappy")
                writers[name] = files.enter_context(table_writer)
            return writers[name]

        # A single table always gets a file, several ones only in the first part.
        for name in schemas if len(schemas) == 1 or not number else ():
            writer(name)
        for name, table in _group(read_tables(part, job.options, decoder), schemas):
            writer(name).write_table(table, row_group_size=max(1, table.num_rows))
            rows += table.num_rows
            if name:
                decoder.tally["written", name, ""] += table.num_rows
    return WrittenPart(
        rows, tuple(file for staged_files in staged for file in staged_files), decoder.tally
    )


def _group(
    batches: Iterator[tuple[str, pa.RecordBatch]], schemas: Mapping[str, pa.Schema]
) -> Iterator[tuple[str, pa.Table]]:
    """Combine batches of records into Parquet row groups, each with the name of its table.

    Batches are collected per table. Whenever all collected batches reach ``ROW_GROUP_BYTES``, the
    largest table is yielded.
    """
    pending: dict[str, list[pa.RecordBatch]] = {}
    sizes = dict.fromkeys(schemas, 0)
    for name, batch in batches:
        pending.setdefault(name, []).append(batch)
        sizes[name] += batch.nbytes
        if sum(sizes.values()) >= ROW_GROUP_BYTES:
            largest = max(sizes, key=sizes.__getitem__)
            yield largest, pa.Table.from_batches(pending.pop(largest), schemas[largest])
            sizes[largest] = 0
    for name, batches_of_table in pending.items():
        yield name, pa.Table.from_batches(batches_of_table, schemas[name])


def run_local(job: ParquetJob, tally: PolicyCounts | None = None) -> int:
    """Convert record files to Parquet in this process: write and publish all parts.

    Returns the number of records. ``tally`` counts the values that policies changed or accepted.
    """
    with publishing(job.folder) as parts:
        parts += [write_part(job, number, part) for number, part in enumerate(job.parts)]
    return count_written_records(parts, tally)


def count_written_records(parts: Iterable[WrittenPart], tally: PolicyCounts | None) -> int:
    """Return the number of records in the Parquet parts of a conversion, and add their policy counts to the tally."""
    rows = 0
    for part in parts:
        rows += part.rows
        if tally is not None:
            tally.update(part.tally)
    return rows
