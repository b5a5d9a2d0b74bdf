"""Files of records as Arrow batches, by a copybook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import pyarrow as pa

from trailgate.cobol.records.decoding import RecordDecoder
from trailgate.cobol.records.record_bytes import records_at
from trailgate.cobol.records.record_kinds import KindsDecoder
from trailgate.errors import TrailgateError
from trailgate.jobs.record_files.options import OPTIONS, CopybookOptions
from trailgate.storage.files.addresses import Address
from trailgate.storage.reading.record_files import (
    SPLIT_BYTES,
    RecordSplit,
    find_record_files,
    plan_record_splits,
    read_record_split,
)


def read_records(  # noqa: PLR0913  one parameter an option
    path: Address,
    copybook: Address | None = None,
    *,
    copybook_text: str | None = None,
    copy_path: str | Iterable[Address] = (),
    record: str | None = None,
    kinds: str | None = None,
    columns: str | Iterable[str] | None = None,
    shape: Literal["tree", "flat"] = "tree",
    depending: Literal["real", "most"] = "real",
    errors: Literal["stop", "column"] = "stop",
    raw: bool = False,
    trim: bool = True,
    blank: Literal["error", "null"] = "error",
    code_page: str = "cp037",
    code_pages: str | Mapping[str, str] | None = None,
    integers: Literal["int64", "decimal", "text"] = "int64",
    binary: Literal["big", "little"] = "big",
    native: Literal["big", "little"] = "big",
    binary_sizes: Literal["ibm", "smallest"] = "ibm",
    floats: Literal["ibm", "ieee"] = "ibm",
    signs: Literal["strict", "lenient"] = "lenient",
    source_format: Literal["fixed", "free", "auto"] = "auto",
    record_format: Literal["fixed", "line", "rdw", "bdw", "length-field"] = "fixed",
    record_length: int | None = None,
    delimiter: str | bytes = b"\n",
    little_endian: bool = False,
    adjustment: int = 0,
    length_offset: int = 0,
    length_width: Literal[1, 2, 4, 8] = 4,
    skip_first: int = 0,
    skip_last: int = 0,
    split_bytes: int = SPLIT_BYTES,
) -> pa.RecordBatchReader:
    """Return a reader of the records of a file, or of a folder's files by name, as columns.

    The options are those of the Spark format ``copybook`` (docs/copybook.md). Raises OptionError, DefinitionError and
    StorageError at once; the reader raises DecodeError with file, record, byte offset, field and raw bytes where a
    field does not hold a value.
    """
    named = locals()
    options = CopybookOptions.of({row.name: named[row.name] for row in OPTIONS})
    return read_all_records(path, options)


def read_all_records(path: Address, options: CopybookOptions) -> pa.RecordBatchReader:
    """Return a reader of the records of a file or folder."""
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
