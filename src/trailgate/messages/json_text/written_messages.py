"""Messages of JSON, an operation each: measured by table and type, and written in the order of the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.columnar.grouping import grouped
from trailgate.messages.json_text.images_text import check_sizes
from trailgate.messages.json_text.objects import MeasuredObjects
from trailgate.messages.publishing.bodies import bodies_of
from trailgate.model.changes import ChangeBatch, ChangeBlock


def measured_alike(
    batch: ChangeBatch, measured: Callable[[ChangeBlock], MeasuredObjects], most: int
) -> Iterator[tuple[ChangeBlock, MeasuredObjects]]:
    """Yield the operations of each table and type, and their messages; raises EncodeError for one of more than ``most`` bytes."""
    for block in batch.blocks:
        for _, rows in grouped(block.op_type.astype(np.int64)):
            alike = block if len(rows) == len(block) else block.take(rows)
            objects = measured(alike)
            check_sizes(alike, objects.sizes, most)
            yield alike, objects


def written(parts: Iterable[tuple[Longs, MeasuredObjects]], count: int) -> pa.LargeBinaryArray:
    """Return ``count`` texts, each part's at its own slots; null where no part has one."""
    parts, sizes = tuple(parts), np.zeros(count, np.int64)
    for slots, objects in parts:
        sizes[slots] = objects.sizes
    places = np.concatenate([[0], np.cumsum(sizes)])
    out = np.empty(int(places[-1]), np.uint8)
    for slots, objects in parts:
        objects.write(places[slots], out)
    texts = bodies_of(out, places)
    if sizes.all():
        return texts
    return pc.if_else(pa.array(sizes > 0), texts, pa.scalar(None, texts.type))


def table_numbers(batch: ChangeBatch) -> Longs:
    """Return which of the batch's blocks each operation is in."""
    numbers = np.empty(batch.rows, np.int64)
    for number, block in enumerate(batch.blocks):
        numbers[block.order] = number
    return numbers
