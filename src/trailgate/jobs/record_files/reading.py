"""Files of records as Arrow batches, by a copybook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Unpack

import pyarrow as pa

from trailgate.cobol.records.decoding import RecordDecoder
from trailgate.cobol.records.record_bytes import RecordBytes, records_at
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

Decoder = RecordDecoder | KindsDecoder


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


def read_all_records(
    path: Addresses, options: CopybookOptions, first: int = 0
) -> pa.RecordBatchReader:
    """Return a reader of the records of files; it yields so many ``first`` rows before it decodes what is after them."""
    splits = plan_record_splits(find_record_files(path), options.framing, options.split_bytes)
    decoder = options.decoder()
    batches = read_splits(splits, options, decoder, first)
    return pa.RecordBatchReader.from_batches(decoder.schema, batches)


def read_splits(
    splits: Iterable[RecordSplit], options: CopybookOptions, decoder: Decoder, first: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield the records of splits, one after the other."""
    for split in splits:
        for batch in read_copybook_split(split, options, decoder, first):
            first = max(0, first - batch.num_rows)
            yield batch


def read_copybook_split(
    split: RecordSplit, options: CopybookOptions, decoder: Decoder, first: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield the records of one split as columns."""
    for portion in read_record_split(split, options.framing):
        records = records_at(
            portion.data, portion.starts, portion.ends, first=portion.first, base=portion.base
        )
        try:
            for batch in _batches(decoder, records, first):
                first = max(0, first - batch.num_rows)
                yield batch
        except TrailgateError as error:
            raise error.located(source=portion.path) from None


def _batches(decoder: Decoder, records: RecordBytes, first: int) -> Iterator[pa.RecordBatch]:
    """Yield the columns of records, after each piece that may hold the ``first`` rows before the next one is decoded."""
    at, step = 0, first
    while first and at < len(records):
        try:
            found = list(decoder.batches(records.part(at, at + step)))
        except TrailgateError:
            if step == first:
                raise
            step = first  # the error may be after the first rows
            continue
        rows = sum(batch.num_rows for batch in found)
        yield from found
        at, first = at + step, max(0, first - rows)
        step = first if rows else 2 * step  # where records of other kinds are left out
    if at < len(records) or not len(records):
        yield from decoder.batches(records.part(at, len(records)))
