"""Write rows to files to download: CSV, Parquet and JSON lines.

``write_rows`` writes the answer of an SQL statement, and ``export_file`` the operations that pass the
filters of a page.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from functools import partial
from tempfile import TemporaryFile, gettempdir
from time import monotonic
from typing import BinaryIO, Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.browse.filters import OperationFilters, filters_of
from trailgate.browse.index import TrailIndex
from trailgate.browse.operation_pages import LABELS
from trailgate.browse.operation_search import OperationSearch
from trailgate.browse.pages import Query, link_to, place_text
from trailgate.browse.spans import UnreadOperations, read_span
from trailgate.browse.statements import FILE_SECONDS
from trailgate.errors import OptionError, StorageError, Where
from trailgate.model.changes import OPERATIONS_SCHEMA, ChangeBatch
from trailgate.model.operations_table import to_operations
from trailgate.sql.job import QueryCancellation
from trailgate.terminal.json_csv import check_column_names
from trailgate.terminal.plain_values import json_text, row_texts, values_of

SKIP: Final = "skip"  # the value of ``unread`` that skips unreadable parts
FILE_TYPES: Final[Mapping[str, str]] = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "jsonl": "application/jsonl; charset=utf-8",
}


def write_parquet(file: BinaryIO, reader: pa.RecordBatchReader) -> None:
    """Write rows to a Parquet file to download."""
    import pyarrow.parquet as pq  # noqa: PLC0415  50 ms, and nothing else needs it

    with pq.ParquetWriter(file, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)


def write_csv(file: BinaryIO, reader: pa.RecordBatchReader) -> None:
    """Write rows to download as CSV in UTF-8 with a header line. NULL is an empty field."""
    text = io.TextIOWrapper(file, "utf-8", newline="")
    rows = csv.writer(text)
    rows.writerow(reader.schema.names)
    for batch in reader:
        rows.writerows(row_texts(batch))
    text.flush()
    text.detach()


def write_json(file: BinaryIO, reader: pa.RecordBatchReader) -> None:
    """Write rows to download as JSON lines in UTF-8."""
    for batch in reader:
        columns = map(values_of, batch.columns)
        for row in zip(*columns, strict=True):
            text = json_text(dict(zip(reader.schema.names, row, strict=True)))
            file.write(text.encode() + b"\n")


WRITERS: Final = {"csv": write_csv, "parquet": write_parquet, "jsonl": write_json}


class RowsFile(NamedTuple):
    """A file to download: an open temporary file of rows, its media type, and its file extension."""

    file: BinaryIO
    media_type: str
    kind: str


def write_rows(
    kind: str, rows: Callable[[], AbstractContextManager[pa.RecordBatchReader]]
) -> RowsFile:
    """Write rows to download to an unnamed temporary file, which the caller closes.

    ``kind`` is the format, such as "csv". ``rows()`` is a context manager that opens the rows to
    read.

    Raises OptionError for an unknown format or two columns with one name, and StorageError if the disk is full.
    """
    if kind not in WRITERS:
        raise OptionError(f"to={kind!r} is not one of {', '.join(WRITERS)}")
    with ExitStack() as failed:
        try:
            file = TemporaryFile()  # noqa: SIM115  the response closes it after sending
            failed.callback(_close, file)
            with rows() as reader:
                check_column_names(reader.schema.names)
                WRITERS[kind](file, reader)
            file.seek(0)
        except OSError as error:
            raise StorageError(
                f"the file cannot be written: {error.strerror or error}",
                where=Where(source=gettempdir()),
                hint="Free some space, or start trailgate browse with TMPDIR=FOLDER",
            ) from None
        failed.pop_all()
    return RowsFile(file, FILE_TYPES[kind], kind)


def _close(file: BinaryIO) -> None:
    with suppress(OSError):  # writing has failed already, so flushing the rest fails too
        file.close()


def export_file(index: TrailIndex, query: Query, cancellation: QueryCancellation) -> RowsFile:
    """Write the operations that pass the page's filters to a temporary file, to download.

    The rows are those of ``trailgate.read_trail``. Raises the same errors as ``write_rows``,
    OptionError if it takes too long, and StorageError if a part of the trail cannot be read.
    """
    filters = filters_of(index, query)
    batches = _matching(index, filters, query, cancellation)
    rows = partial(pa.RecordBatchReader.from_batches, OPERATIONS_SCHEMA, batches)
    return write_rows(query.get("to", ""), rows)


def _matching(
    index: TrailIndex, filters: OperationFilters, query: Query, cancellation: QueryCancellation
) -> Iterator[pa.RecordBatch]:
    """Yield the operations to download that pass the page's filters, in the order of the trail.

    Raises StorageError for operations that cannot be decoded, unless the query skips them.
    """
    until = monotonic() + FILE_SECONDS
    for span in OperationSearch(index, filters).spans():
        cancellation.check()
        if monotonic() > until:
            raise OptionError(
                f"writing the file took more than {FILE_SECONDS:g} s", hint="Add a filter"
            )
        # A value that cannot be read would be NULL in the file, so it is an error here.
        for part in read_span(index, span, replace(filters.selection, lenient=False)):
            if not isinstance(part, UnreadOperations):
                yield to_operations(_passed(part, filters))
            elif query.get("unread") != SKIP:
                given = {name: query[name] for name in (*LABELS, "to") if name in query}
                rest = link_to("export", **given, unread=SKIP)
                raise StorageError(
                    f"the operations at {place_text(part.place)} cannot be read: {part.problem}",
                    hint=f"The address {rest} skips them",
                )


def _passed(batch: ChangeBatch, filters: OperationFilters) -> ChangeBatch:
    keep = np.zeros(batch.rows, bool)
    for block in batch.blocks:
        keep[block.order] = filters.matching(block)
    return batch.where(keep)
