"""Bytes put together behind the data they come from, and the way back to their places in the file.

What is split over records (fragments, large objects) is copied behind the data of its chunk, so that
everything else reads it like any other bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trailgate.arrays import Longs


@dataclass(frozen=True, slots=True)
class Joined:
    """Where the copied runs begin, ascending, and which offset of the data each comes from."""

    starts: Longs
    origins: Longs

    def origin(self, place: int) -> int:
        """Return the offset that a place in the extended data stands for."""
        run = int(np.searchsorted(self.starts, place, "right")) - 1
        if run < 0:
            return place
        return int(self.origins[run]) + place - int(self.starts[run])

    def and_then(self, other: Joined) -> Joined:
        """Return these runs and, behind them, others."""
        return Joined(
            np.concatenate([self.starts, other.starts]),
            np.concatenate([self.origins, other.origins]),
        )


NOT_JOINED = Joined(np.zeros(0, np.int64), np.zeros(0, np.int64))
