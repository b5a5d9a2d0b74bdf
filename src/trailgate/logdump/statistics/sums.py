"""Sums over records: of all, and of groups of them such as tables and intervals of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from trailgate.arrays import Longs, Mask
from trailgate.errors import OptionError
from trailgate.logdump.statistics.tallies import Tally
from trailgate.trail.format.record_types import type_name

Key = TypeVar("Key", int, str)
TYPES: Final = 256


class Counted(NamedTuple):
    """What is counted of some records, in columns."""

    types: npt.NDArray[np.uint8]
    data: Longs
    before: Mask


@dataclass(slots=True)
class Sums:
    """Sums that grow."""

    data_bytes: int = 0
    befores: int = 0
    types: Counter[int] = field(default_factory=Counter)

    def tally(self, name: str, begin: int | None = None, end: int | None = None) -> Tally:
        """Return the sums as a value."""
        records = self.types.total()
        named = {_label(code): count for code, count in sorted(self.types.items())}
        afters = records - self.befores
        return Tally(
            name=name,
            records=records,
            data_bytes=self.data_bytes,
            types=named,
            befores=self.befores,
            afters=afters,
            begin=begin,
            end=end,
        )


class Groups(Generic[Key]):
    """Sums of each group; ``most`` groups there may be, or the records are damaged."""

    def __init__(self, most: int, what: str) -> None:
        self._most, self._what = most, what
        self.sums: dict[Key, Sums] = {}

    def add(self, groups: Longs, keys: Sequence[Key], counted: Counted) -> None:
        """Add records; ``keys[groups[i]]`` is the group of record i."""
        size = len(keys)
        data = np.bincount(groups, counted.data, minlength=size)
        before = np.bincount(groups, counted.before, minlength=size)
        pairs, counts = np.unique(groups * TYPES + counted.types, return_counts=True)
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            group, code = divmod(pair, TYPES)
            self._of(keys[group]).types[code] += count
        for group in np.unique(pairs // TYPES).tolist():
            sums = self._of(keys[group])
            sums.data_bytes += int(data[group])
            sums.befores += int(before[group])

    def _of(self, key: Key) -> Sums:
        sums = self.sums.get(key)
        if sums is None:
            if len(self.sums) == self._most:
                raise OptionError(f"there are more than {self._most} {self._what}")
            sums = self.sums[key] = Sums()
        return sums


def _label(code: int) -> str:
    name = type_name(code)
    return f"{name} {code}" if name == "unknown" else name
