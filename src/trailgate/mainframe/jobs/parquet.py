"""Files of records to Parquet: planned once, written in parts by any process, published at the end.

A part is decoded and written in one process, so its rows never leave Arrow. Tasks stage parts, which get their names together
(``storage/publish/protocol.py``). Of several kinds of records each becomes a table in a folder of its own, in one reading of the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from trailgate.cobol.records.fields import PolicyCounts
from trailgate.mainframe.files.record_files import RecordSplit
from trailgate.mainframe.jobs.part_folder import PartFolder, WrittenPart, part_folder, publishing
from trailgate.mainframe.jobs.reading import CopybookOptions, read_tables, table_schemas
from trailgate.storage.files.found_files import Addresses
from trailgate.storage.publish.protocol import StagedFile

ROW_GROUP_BYTES: Final = 64 << 20  # of Arrow columns, before they are encoded


@dataclass(frozen=True, slots=True)
class ParquetJob:
    """What a worker needs to write any of the parts; it can be pickled."""

    parts: tuple[RecordSplit, ...]
    options: CopybookOptions
    folder: PartFolder

    def anywhere(self) -> ParquetJob:
        """Return the job with absolute paths: its parts are written in other working folders."""
        parts = tuple(part.anywhere() for part in self.parts)
        return replace(self, parts=parts, folder=self.folder.absolute())


def prepare_parquet(path: Addresses, target: str, options: CopybookOptions) -> ParquetJob:
    """Return a job that writes the records at ``path`` into a new folder.

    Raises StorageError where the folder is not empty, and OptionError for an address in a store that is not written to.
    """
    folder = part_folder(target, tables=table_schemas(options.decoder()))
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
            if name:
                decoder.tally["written", name, ""] += table.num_rows
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


def run_local(job: ParquetJob, tally: PolicyCounts | None = None) -> int:
    """Write all parts in this process and publish them; return the number of records.

    What policies decided on is added to ``tally``.
    """
    with publishing(job.folder) as parts:
        parts += [write_part(job, number, part) for number, part in enumerate(job.parts)]
    return count_records(parts, tally)


def count_records(parts: Iterable[WrittenPart], tally: PolicyCounts | None) -> int:
    """Return the number of records of parts, and add their counts to the tally."""
    rows = 0
    for part in parts:
        rows += part.rows
        if tally is not None:
            tally.update(part.tally)
    return rows
