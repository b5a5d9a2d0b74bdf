"""What rules found in a batch of messages: places of values in one buffer, one slot a record.

Both ways of reading documents give the same findings: the compiled scanner and the tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets
from trailgate.columnar.gather import gather


@dataclass(frozen=True, slots=True)
class Places:
    """Where values are; a length of -1 is a value that was not found."""

    starts: Longs
    lengths: Longs

    def taken(self, rows: Longs) -> Places:
        """Return the places of these rows."""
        return Places(self.starts[rows], self.lengths[rows])

    def text(self, data: Octets) -> pa.Array:
        """Return the values as text, null where none was found."""
        nothing = self.lengths < 0
        starts = np.where(nothing, 0, self.starts)
        ends = starts + np.maximum(self.lengths, 0)
        return gather(
            data, starts, ends, nulls=nothing if nothing.any() else None, text=True, checked=True
        )


@dataclass(frozen=True, slots=True)
class Found:
    """Records of one type of rules: the rule of each by number, and its values by property."""

    rule: Longs
    values: Mapping[str, Places]

    def __len__(self) -> int:
        return len(self.rule)


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found in the messages of a batch; places are those of ``text``, which is UTF-8.

    ``outer`` are the transactions, and the operations that have others below them; ``above`` is the outer record
    around each, -1 where there is none. Operations are in the order of their messages and transactions.
    ``around`` is the outer record around each operation, ``transaction`` that of its transaction. ``start`` and
    ``end`` are its element's bytes in its message. ``operation`` is the operation of a column.
    """

    text: Octets
    outer: Found
    above: Longs
    operations: Found
    message: Longs
    around: Longs
    transaction: Longs
    start: Longs
    end: Longs
    columns: Found
    operation: Longs
