"""Small record batches as larger ones: what a batch costs, whatever it holds, is paid less often."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

ROWS: Final = 8192
SIZE: Final = 8 << 20  # bytes of buffers, about


def gathered(
    batches: Iterable[pa.RecordBatch], rows: int = ROWS, size: int = SIZE
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches in their order, joined up to so many rows and bytes; a larger batch stays as it is."""
    held: list[pa.RecordBatch] = []
    count = total = 0
    for batch in batches:
        count, total = count + len(batch), total + batch.get_total_buffer_size()
        if held and (count > rows or total > size or batch.schema != held[0].schema):
            yield _joined(held)
            held, count, total = [], len(batch), batch.get_total_buffer_size()
        held.append(batch)
    if held:
        yield _joined(held)


def _joined(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    return held[0] if len(held) == 1 else pa.concat_batches(held)
