"""Files of records as Arrow batches, by a copybook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from trailgate.cobol.records.decoding import RecordDecoder
from trailgate.cobol.records.record_bytes import records_at
from trailgate.cobol.records.record_kinds import KindsDecoder
from trailgate.errors import TrailgateError
from trailgate.jobs.record_files.options import CopybookOptions
from trailgate.storage.files.addresses import Address
from trailgate.storage.reading.record_files import (
    RecordSplit,
    find_record_files,
    plan_record_splits,
    read_record_split,
)


def read_records(path: Address, copybook: Address, **options: Any) -> Iterator[pa.RecordBatch]:
    """Yield the records of a file, or of a folder's files by name, as columns.

    ``options`` are those of the Spark format ``copybook``, in Python's spelling, as text or as values. Raises
    DecodeError with file, record, byte offset, field and raw bytes where a field is not a value.
    """
    texts = {name: str(value) for name, value in options.items()}
    yield from read_all_records(path, CopybookOptions.of({"copybook": str(copybook), **texts}))


def read_all_records(path: Address, options: CopybookOptions) -> Iterator[pa.RecordBatch]:
    """Yield the records of a file or folder by parsed options."""
    yield from read_splits(
        plan_record_splits(find_record_files(path), options.framing, options.split_bytes), options
    )


def read_splits(
    splits: Iterable[RecordSplit], options: CopybookOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the records of splits, one after the other."""
    decoder = options.decoder()
    for split in splits:
        yield from read_copybook_split(split, options, decoder)


def read_copybook_split(
    split: RecordSplit, options: CopybookOptions, decoder: RecordDecoder | KindsDecoder
) -> Iterator[pa.RecordBatch]:
    """Yield the records of one split as columns."""
    count = 0
    for portion in read_record_split(split, options.framing):
        records = records_at(
            portion.data, portion.starts, portion.ends, first=count, base=portion.base
        )
        count += len(portion.starts)
        try:
            yield from decoder.batches(records)
        except TrailgateError as error:
            raise error.located(source=portion.path) from None
