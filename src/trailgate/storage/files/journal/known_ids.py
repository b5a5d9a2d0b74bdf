"""The ids of the messages that were stored last: what a broker gives again is recognised by them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np

from trailgate.arrays import Mask


class KnownIds:
    """Remembers so many ids, those that came last."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ids: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def fresh(self, ids: Sequence[str]) -> Mask:
        """Return which messages were not stored, and are not in this window before."""
        known, seen = self._ids, set()
        found = np.ones(len(ids), bool)
        for at, one in enumerate(ids):
            if one in known or one in seen:
                found[at] = False
            seen.add(one)
        return found

    def add(self, ids: Iterable[str]) -> None:
        """Remember ids; the oldest ones are forgotten for them."""
        self._ids.update(dict.fromkeys(ids))
        surplus = len(self._ids) - self._limit
        for one in list(islice(self._ids, max(0, surplus))):
            del self._ids[one]
