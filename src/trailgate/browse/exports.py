"""Write the operations that pass filters to a file to download: CSV, Parquet or JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.browse.answers import RowsFile, write_rows
from trailgate.browse.filters import OperationFilters, filters_of
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
    """Yield the matching operations in order."""
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
