"""Write a transaction as a message for the workbench: JSON, as by ``trailgate publish --format json``."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow.compute as pc

from trailgate.browse.filters import OperationFilters
from trailgate.browse.index import TrailIndex
from trailgate.browse.operation_search import OperationSearch
from trailgate.browse.pages import Query, parse_place
from trailgate.browse.spans import UnreadOperations, read_span
from trailgate.browse.transaction_extent import measure_transaction
from trailgate.capture.formats import publish_options, writer_for
from trailgate.errors import OptionError, TrailgateError
from trailgate.jobs.proposals import propose
from trailgate.model.changes import ChangeBatch
from trailgate.model.positions import long_position
from trailgate.storage.files.trail_files import TrailPosition
from trailgate.trail.reading.images import ReadSelection

OPERATIONS: Final = 100  # the most operations of a message
# What a proposal omits, because not all messages have it.
TRANSACTIONS: Final = """
# The transaction of an operation, and whether it begins or ends it.
json.txid=xid
json.txind=tx_ind
"""
BYTES: Final = 900_000  # the most bytes of a message: the workbench takes 1 MB


def transaction_message(index: TrailIndex, query: Query) -> dict[str, str]:
    """Return the first operations of the transaction that begins at a position, as a message with properties for it.

    ``rows`` in the query limits the number of operations. Raises OptionError without a position,
    and EncodeError if JSON cannot express a value.
    """
    most = 1 if query.get("rows") == "1" else OPERATIONS
    at = parse_place(query.get("at", ""))
    if at is None:
        raise OptionError("the address has no at=POSITION of a transaction")
    index.readable_file(at.number)
    stop = measure_transaction(index, at).stop
    writer = writer_for("json", publish_options("json", {"transactions": True}))
    lines: list[bytes] = []
    for span in OperationSearch(index, OperationFilters(), at).spans():
        if len(lines) >= most or (stop is not None and span.begin >= stop):
            break
        for part in read_span(index, span, ReadSelection(lenient=True), at):
            if not isinstance(part, UnreadOperations):
                own = _between(part, at, stop, most - len(lines))
                lines += writer.write(own).bodies.to_pylist()
    sizes = np.cumsum([len(line) + 1 for line in lines])
    body = b"\n".join(lines[: int(np.searchsorted(sizes, BYTES, "right"))])
    try:
        # An operation alone is a transaction of its own.
        more = TRANSACTIONS if most > 1 else ""
        return {"message": body.decode(), "properties": propose([body]).text + more}
    except TrailgateError:
        return {"message": body.decode()}


def _between(
    batch: ChangeBatch, begin: TrailPosition, stop: TrailPosition | None, most: int
) -> ChangeBatch:
    """Return the first ``most`` operations of a batch from ``begin`` up to ``stop``, or without a limit if that is None."""
    keep = np.zeros(batch.rows, bool)
    for block in batch.blocks:
        mask = pc.greater_equal(block.position, long_position(*begin))
        if stop is not None:
            mask = pc.and_(mask, pc.less(block.position, long_position(*stop)))
        keep[block.order] = mask
    # ``flatnonzero`` gives the marked operations in order: unmark all after the first ``most``.
    keep[np.flatnonzero(keep)[most:]] = False
    return batch.where(keep)
