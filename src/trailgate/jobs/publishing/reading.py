"""The operations of a trail as they are published: whole blocks, in the order of the trail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow.compute as pc

from trailgate.arrays import Mask
from trailgate.messages.publishing.choosing import ChosenOperations
from trailgate.model.changes import ChangeBatch
from trailgate.model.table_patterns import TablePatterns
from trailgate.storage.files.trail_files import TrailFiles
from trailgate.storage.reading.trail.options import ReadOptions
from trailgate.storage.reading.trail.splits import SplitReader, TrailSplit
from trailgate.storage.reading.trail.trails import plan_reading


def plan(trail: TrailFiles, after: str | None, split_bytes: int) -> list[TrailSplit]:
    """Return the splits that hold what comes after a position, each its own transactions."""
    return plan_reading(trail, ReadOptions(after=after), split_bytes)


def read_changes(
    trail: TrailFiles,
    splits: Sequence[TrailSplit],
    after: str | None = None,
    tables: TablePatterns | None = None,
) -> Iterator[ChangeBatch]:
    """Yield the operations after a position, of these tables; indicators fit what is left of each transaction."""

    def wanted(batch: ChangeBatch) -> Mask:
        keep = np.zeros(batch.rows, bool)
        for block in batch.blocks:
            if tables is None or tables.fits(block.table.name):
                keep[block.order] = True
                if after:
                    later = pc.greater(block.position, after).to_numpy(zero_copy_only=False)
                    keep[block.order] = later
        return keep

    chosen = None if tables is None and not after else ChosenOperations(wanted)
    for split in splits:
        for batch in SplitReader(trail, split).batches():
            yield batch if chosen is None else chosen.take(batch)
