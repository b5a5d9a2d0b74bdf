"""Read files of copybook records as Arrow batches (docs/copybook.md).

Files are read in splits: a split yields the bytes of records, and the decoder of the
``CopybookOptions`` turns these into batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, Unpack

import numpy as np
import pyarrow as pa

from trailgate.arrays import CHUNK
from trailgate.cobol.copybook.segment_layouts import find_layout_or_segment
from trailgate.cobol.records.added_columns import FILE_COLUMN
from trailgate.cobol.records.kinds_decoding import (
    KindsDecoder,
)
from trailgate.cobol.records.policy_counts import PolicyCounts
from trailgate.cobol.records.record_bytes import RecordBytes, records_at
from trailgate.cobol.records.record_options import (
    ColumnShape,
)
from trailgate.errors import OptionError, TrailgateError, shown_source
from trailgate.mainframe.files.record_files import (
    WHOLE_FILE,
    RecordSplit,
    read_record_split,
)
from trailgate.mainframe.framing_options import skip_named_ends
from trailgate.mainframe.jobs.copybook_options import (
    CopybookOptions,
    Decoder,
    dialect_of_options,
    parse_layouts,
)
from trailgate.mainframe.jobs.options import OPTIONS, RecordKeywords
from trailgate.options import list_names
from trailgate.storage.files.addresses import Addresses

# Each column of a batch has a fixed cost. A batch of long records with the usual number of bytes would
# have few rows but many columns, so that the cost of a value would grow with the record's length.
# Batches of long records are therefore larger.
_ROWS_OF_BATCH: Final = 512
# Limits the memory for long records; a chunk of short records has many rows anyway.
_MOST_CHUNK: Final = 32 << 20


@list_names(RecordKeywords, OPTIONS)
def read_records(
    path: Addresses,
    copybook: Addresses | None = None,
    *,
    counts: PolicyCounts | None = None,
    **options: Unpack[RecordKeywords],
) -> pa.RecordBatchReader:
    """Read records from a file, a folder, a pattern, or several of these, as Arrow batches.

    The options are those of the Spark format ``copybook`` (docs/copybook.md). Raises OptionError,
    DefinitionError and StorageError at once. While the batches are read, a field with an invalid
    value raises DecodeError with file, record, byte offset, field and raw bytes.

    ``counts`` is a ``collections.Counter``. It counts the values that options changed or accepted
    while records are read, by option, record and field: ``("padding=left", "ACCOUNT", "AMOUNT")``.
    """
    if counts is not None and not isinstance(counts, Counter):
        raise OptionError(f"counts must be a collections.Counter, not {type(counts).__name__}")
    chosen = CopybookOptions.of({"copybook": copybook, **options})
    return read_all_records(path, chosen, tally=counts)


def read_all_records(
    path: Addresses, options: CopybookOptions, first: int = 0, tally: PolicyCounts | None = None
) -> pa.RecordBatchReader:
    """Read the records of several files as Arrow batches, one file after the other.

    At least ``first`` rows are yielded before later records are decoded, so that an error in a
    later record does not hide them. ``tally`` counts the values that policies changed or accepted.
    """
    decoder = options.decoder(tally)
    # Each file is one split, so no record boundary needs to be searched, and errors can state record
    # numbers.
    batches = read_copybook_splits(options.splits(path, WHOLE_FILE), options, decoder, first)
    return pa.RecordBatchReader.from_batches(decoder.schema, batches)


def read_copybook_splits(
    splits: Iterable[RecordSplit], options: CopybookOptions, decoder: Decoder, first: int = 0
) -> Iterator[pa.RecordBatch]:
    """Read several splits of record files, decode their records, and yield them as Arrow batches, one split after the other.

    At least ``first`` rows are yielded before later records are decoded.
    """
    for split in splits:
        for batch in read_copybook_split(split, options, decoder, first):
            first = max(0, first - batch.num_rows)
            yield batch


def read_copybook_split(
    split: RecordSplit, options: CopybookOptions, decoder: Decoder, first: int = 0
) -> Iterator[pa.RecordBatch]:
    """Read one split of a record file, decode its records, and yield them as Arrow batches.

    At least ``first`` rows are yielded before later records are decoded.
    """
    decoder = decoder.of_file(split.file.path)
    try:
        for records in decoder.independent_pieces(
            read_undecoded_records(split, options, decoder.tally)
        ):
            for batch in _batches(decoder, records, first):
                first = max(0, first - batch.num_rows)
                yield batch
    except TrailgateError as error:
        raise error.with_place(source=split.file.path) from None


def read_tables(
    split: RecordSplit, options: CopybookOptions, decoder: Decoder
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the records of one split as Arrow batches, each with the name of its table.

    Each kind of record has a table. If the files have one kind, or one kind is read (``segment``),
    the name is "".
    """
    if not isinstance(decoder, KindsDecoder):
        yield from (("", batch) for batch in read_copybook_split(split, options, decoder))
        return
    decoder = decoder.of_file(split.file.path)
    try:
        for records in decoder.independent_pieces(
            read_undecoded_records(split, options, decoder.tally)
        ):
            yield from decoder.tables(records)
    except TrailgateError as error:
        raise error.with_place(source=split.file.path) from None


def schemas_of_tables(decoder: Decoder) -> dict[str, pa.Schema]:
    """Return the schemas of the tables that ``read_tables`` reads from record files, by name."""
    if not isinstance(decoder, KindsDecoder):
        return {"": decoder.schema}
    return {name: decoder.table_schema(name) for name in decoder.names}


def record_schemas(
    named: Mapping[str, Any], *, shape: ColumnShape = ColumnShape.TREE
) -> dict[str, pa.Schema]:
    """Return the schemas of the tables that copybook records form, by name.

    There is one for each kind. Without ``kinds``, there is one for the option ``record``, or for each
    record of the copybook. Raises the same errors as ``CopybookOptions.of``.
    """
    given = OPTIONS.read(named)
    # The copybooks are parsed once, so that each of their warnings is logged once.
    parsed = tuple(parse_layouts(given, dialect_of_options(given)))
    layouts = skip_named_ends(given, parsed)[1]
    chosen = len(layouts) == 1 or given["record"] is not None or given["kinds"] is not None
    schemas = {}
    for record in [given["record"]] if chosen else [layout.name for layout in layouts]:
        options = CopybookOptions.of_values(
            {**given, "record": record}, shape=shape, layouts=parsed
        )
        for name, schema in schemas_of_tables(options.decoder()).items():
            table = (
                name
                or options.segment
                or find_layout_or_segment(options.layouts, options.record).name
            )
            schemas[table] = schema
    return schemas


def _chunk_bytes(length: int) -> int:
    """Return the number of bytes to decode at once: ``CHUNK``, or more if records are thousands of bytes long."""
    return max(CHUNK, min(_ROWS_OF_BATCH * length, _MOST_CHUNK))


def read_undecoded_records(
    split: RecordSplit, options: CopybookOptions, tally: PolicyCounts
) -> Iterator[RecordBytes]:
    """Read the records of one split for a job, as ``RecordBytes`` of a chunk at a time, without decoding their fields.

    ``tally`` counts records that were skipped because of their length.
    """
    framing = options.framing
    texts = {FILE_COLUMN: shown_source(split.file.path), **dict(split.file.partitions)}
    for chunk in read_record_split(split, framing, _chunk_bytes(framing.length)):
        records = records_at(
            chunk.data, chunk.starts, chunk.ends, first=chunk.first, base=chunk.base
        )
        records = replace(records, texts=texts, places=chunk.places)
        wrong = framing.find_wrong_lengths(records.starts, records.ends) if framing.skips else None
        if wrong is not None and wrong.any():
            tally["otherLengths=skip", "skipped", ""] += int(np.count_nonzero(wrong))
            records = records.without(wrong)
        yield records


def _batches(decoder: Decoder, records: RecordBytes, first: int) -> Iterator[pa.RecordBatch]:
    """Decode records to batches. The ``first`` rows are yielded before later records are decoded.

    Pieces start with ``first`` records and double while they contain no rows. If a larger piece has
    an error, it is decoded again in smaller ones.
    """
    # Example: first = 10 and records of skipped kinds at the front: pieces of 10, 20, 40 records until
    # rows come, then a piece of 10 again, and the rest as one piece.
    at, step, some = 0, first, bool(first)
    while first and at < len(records):
        before = decoder.tally.copy()
        end = decoder.piece_end(records, at + step)
        try:
            batches = list(decoder.batches(records.part(at, end)))
        except TrailgateError:
            if step == first:
                raise
            decoder.tally.clear()  # the piece is decoded again, so nothing must be counted twice
            decoder.tally.update(before)
            step = first  # a smaller piece: the error may come after the first rows
            continue
        rows = sum(batch.num_rows for batch in batches)
        yield from batches
        at, first = end, max(0, first - rows)
        step = first if rows else 2 * step  # no rows: all its records were of skipped kinds
    if some and at < len(records):
        end = decoder.piece_end(records, at + 1)
        yield from decoder.batches(records.part(at, end))
        at = end
    # Without records the decoder is called once too, since it may yield an empty batch.
    if at < len(records) or not len(records):
        yield from decoder.batches(records.part(at, len(records)))
