"""Files of records as Arrow batches, by a copybook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Unpack

import pyarrow as pa

from trailgate.cobol.records.decoding import RecordDecoder
from trailgate.cobol.records.record_bytes import records_at
from trailgate.cobol.records.record_kinds import KindsDecoder
from trailgate.errors import TrailgateError
from trailgate.jobs.record_files.keywords import RecordKeywords
from trailgate.jobs.record_files.options import OPTIONS, CopybookOptions
from trailgate.options import listed
from trailgate.storage.files.addresses import Address
from trailgate.storage.files.found_files import Addresses
from trailgate.storage.reading.record_files import (
    RecordSplit,
    find_record_files,
    plan_record_splits,
    read_record_split,
)


@listed(RecordKeywords, OPTIONS)
def read_records(
    path: Addresses, copybook: Address | None = None, **options: Unpack[RecordKeywords]
) -> pa.RecordBatchReader:
    """Return a reader of the records of a file, of a folder's files by name, of a pattern's, or of several of these, as columns.

    The options are those of the Spark format ``copybook`` (docs/copybook.md). Raises OptionError, DefinitionError and
    StorageError at once; the reader raises DecodeError with file, record, byte offset, field and raw bytes where a
    field does not hold a value.
    """
    return read_all_records(path, CopybookOptions.of({"copybook": copybook, **options}))


def read_all_records(path: Addresses, options: CopybookOptions) -> pa.RecordBatchReader:
    """Return a reader of the records of files."""
    splits = plan_record_splits(find_record_files(path), options.framing, options.split_bytes)
    decoder = options.decoder()
    return pa.RecordBatchReader.from_batches(decoder.schema, read_splits(splits, options, decoder))


def read_splits(
    splits: Iterable[RecordSplit], options: CopybookOptions, decoder: RecordDecoder | KindsDecoder
) -> Iterator[pa.RecordBatch]:
    """Yield the records of splits, one after the other."""
    for split in splits:
        yield from read_copybook_split(split, options, decoder)


def read_copybook_split(
    split: RecordSplit, options: CopybookOptions, decoder: RecordDecoder | KindsDecoder
) -> Iterator[pa.RecordBatch]:
    """Yield the records of one split as columns."""
    for portion in read_record_split(split, options.framing):
        records = records_at(
            portion.data, portion.starts, portion.ends, first=portion.first, base=portion.base
        )
        try:
            yield from decoder.batches(records)
        except TrailgateError as error:
            raise error.located(source=portion.path) from None
