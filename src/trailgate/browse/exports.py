"""The operations that pass filters, as a file to download: CSV, Parquet or JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from tempfile import TemporaryFile
from time import monotonic
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa

from trailgate.browse.answers import FILE_TYPES, WRITERS
from trailgate.browse.filters import OperationFilters
from trailgate.browse.index import TrailIndex
from trailgate.browse.operation_pages import LABELS
from trailgate.browse.operations import OperationSearch
from trailgate.browse.pages import Query, link_to, place_text
from trailgate.browse.spans import UnreadOperations, read_span
from trailgate.browse.statements import FILE_SECONDS
from trailgate.errors import OptionError, StorageError
from trailgate.model.changes import OPERATIONS_SCHEMA, ChangeBatch
from trailgate.model.operations_table import to_operations
from trailgate.sql.job import QueryCancellation

SKIP: Final = "skip"  # the value of ``unread`` with which unreadable parts are left out


def export_file(
    index: TrailIndex, query: Query, cancellation: QueryCancellation
) -> tuple[BinaryIO, str]:
    """Return the matching operations as an unnamed temporary file, and its media type.

    The rows are those of ``trailgate.read_trail``. Raises OptionError for an unknown format, or if
    it takes too long, and StorageError if a part of the trail cannot be read.
    """
    kind = query.get("to", "")
    if kind not in WRITERS:
        raise OptionError(f"to={kind!r} is not one of {', '.join(WRITERS)}")
    filters = OperationFilters.of(query)
    file = TemporaryFile()  # noqa: SIM115  the response closes it after sending
    try:
        batches = _matching(index, filters, query, cancellation)
        WRITERS[kind](file, pa.RecordBatchReader.from_batches(OPERATIONS_SCHEMA, batches))
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file, FILE_TYPES[kind]


def _matching(
    index: TrailIndex, filters: OperationFilters, query: Query, cancellation: QueryCancellation
) -> Iterator[pa.RecordBatch]:
    """Yield the matching operations in order."""
    until = monotonic() + FILE_SECONDS
    for span in OperationSearch(index, filters).spans():
        cancellation.check()
        if monotonic() > until:
            raise OptionError(f"the file took more than {FILE_SECONDS:g} s", hint="Add a filter")
        # A value that cannot be read would be NULL in the file, so it is an error here.
        for part in read_span(index, span, replace(filters.selection, lenient=False)):
            if not isinstance(part, UnreadOperations):
                yield to_operations(_passed(part, filters))
            elif query.get("unread") != SKIP:
                given = {name: query[name] for name in (*LABELS, "to") if name in query}
                rest = link_to("export", **given, unread=SKIP)
                raise StorageError(
                    f"the operations at {place_text(part.place)} cannot be read: {part.problem}",
                    hint=f"The address {rest} leaves them out",
                )


def _passed(batch: ChangeBatch, filters: OperationFilters) -> ChangeBatch:
    keep = np.zeros(batch.rows, bool)
    for block in batch.blocks:
        keep[block.order] = filters.matching(block)
    return batch.where(keep)
