"""The last captured operation of an open transaction, until it is known whether another one follows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from trailgate.model.changes import BEGIN, END, MIDDLE, WHOLE, ChangeBlock


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A block of one operation; ``first``: it is the first captured one of its transaction."""

    block: ChangeBlock
    first: bool

    def released(self, *, last: bool) -> ChangeBlock:
        """Return the operation with its indicator, as the first one of a batch."""
        letter = {
            (True, True): WHOLE,
            (True, False): BEGIN,
            (False, True): END,
            (False, False): MIDDLE,
        }[self.first, last]
        return replace(
            self.block,
            order=np.zeros(1, np.int64),
            tx_ind=np.full(1, letter, np.uint8),
        )
