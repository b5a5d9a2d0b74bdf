"""Changes in bulk: column blocks by table, which packages pass to one another.

A block holds operations of one table as columns. The three states of a column stay apart everywhere: a value,
NULL (an Arrow null that is not in ``missing``), and missing (not logged). Maps are made only at the edge: the operations table is the one
schema that every producer yields and every consumer takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.gather import take_text
from trailgate.model.tables import Table

# Operation types and transaction indicators are held as the ASCII code of their letter.
INSERT, UPDATE, KEY_UPDATE, DELETE, TRUNCATE = (ord(c) for c in "IUKDT")
# The value of a user token that becomes the length of its record's data as the record is written. A value in
# a trail ends at its first NUL, so no token has this text.
RECORD_LENGTH: Final = "\0RECORDLENGTH"
BEGIN, MIDDLE, END, WHOLE = (ord(c) for c in "BMEW")
OP_TYPES: Final = frozenset("IUKDT")
TX_INDICATORS: Final = frozenset("BMEW")
LETTERS: Final = np.array(
    [MIDDLE, END, BEGIN, WHOLE], np.uint8
)  # of operations in the middle, last, first, alone
LETTERS.setflags(write=False)


@dataclass(frozen=True, slots=True)
class StateColumn:
    """A column in three states, one slot a row.

    ``values`` has the column's block type (``Column.arrow_type``), null where the value is NULL
    or missing; None means that it is missing in every row. ``missing`` marks the missing rows;
    None means that no row misses it (or, where ``values`` is None, that all do).
    ``problems`` has strings: the problem of each value that cannot be decoded, which is null in ``values``. None means that
    there is none. Only readers that were asked to be lenient set it.
    """

    values: pa.Array | None
    missing: Mask | None = None
    problems: pa.Array | None = None

    def is_missing(self, rows: int) -> Mask:
        """Return the missing rows as a mask of that length."""
        if self.values is None:
            return np.ones(rows, bool)
        return np.zeros(rows, bool) if self.missing is None else self.missing


ABSENT: Final = StateColumn(None)
Image = tuple[StateColumn, ...]


@dataclass(frozen=True, slots=True)
class ChangeBlock:
    """Operations of one table. All members have one slot a row.

    ``order`` is each row's place in the batch that the block belongs to; ``op_ts`` is
    microseconds since 1970 UTC. ``before`` and ``after`` have one entry a table column.
    """

    table: Table
    order: Longs
    op_type: Octets
    op_ts: Longs
    tx_ind: Octets
    tx_id: pa.Array
    csn: pa.Array
    seq_id: pa.Array | None
    position: pa.Array
    before: Image
    after: Image
    tx_owner: pa.Array | None = None
    tx_name: pa.Array | None = None
    tokens: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.order)

    def take(self, rows: Longs) -> ChangeBlock:
        """Return the rows named, in that order; a column that is several members of the block is copied once, and the first rows are not."""
        first = bool((rows == np.arange(len(rows))).all())
        if first and len(rows) == len(self):
            return self
        known: dict[int, pa.Array] = {}

        def pick(values: pa.Array | None) -> pa.Array | None:
            if values is None:
                return None
            if id(values) not in known:
                known[id(values)] = values[: len(rows)] if first else take_text(values, rows)
            return known[id(values)]

        def image(columns: Image) -> Image:
            return tuple(
                StateColumn(
                    pick(one.values),
                    None if one.missing is None else one.missing[rows],
                    pick(one.problems),
                )
                for one in columns
            )

        return ChangeBlock(
            table=self.table,
            order=self.order[rows],
            op_type=self.op_type[rows],
            op_ts=self.op_ts[rows],
            tx_ind=self.tx_ind[rows],
            tx_id=pick(self.tx_id),
            csn=pick(self.csn),
            seq_id=pick(self.seq_id),
            position=pick(self.position),
            before=image(self.before),
            after=image(self.after),
            tx_owner=pick(self.tx_owner),
            tx_name=pick(self.tx_name),
            tokens=pick(self.tokens),
        )


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Blocks whose ``order`` members together count 0 to ``rows`` - 1, each once."""

    blocks: Sequence[ChangeBlock]
    rows: int

    def tx_indicators(self) -> Octets:
        """Return the transaction indicators of all operations in their order."""
        found = np.zeros(self.rows, np.uint8)
        for block in self.blocks:
            found[block.order] = block.tx_ind
        return found

    def in_order(self, name: str) -> pa.Array:
        """Return a column of strings of all operations in their order; ``name`` is that of a member of the blocks."""
        parts = [
            pa.nulls(len(block), pa.string()) if values is None else values
            for block, values in ((block, getattr(block, name)) for block in self.blocks)
        ]
        if len(parts) < 2:
            return parts[0] if parts else pa.array([], pa.string())
        rows = np.empty(self.rows, np.int64)
        rows[np.concatenate([block.order for block in self.blocks])] = np.arange(self.rows)
        return take_text(pa.concat_arrays(parts), rows)

    def find(self, order: int) -> tuple[ChangeBlock, int]:
        """Return the block and the row in it that hold an operation."""
        for block in self.blocks:
            found = np.flatnonzero(block.order == order)
            if len(found):
                return block, int(found[0])
        raise IndexError(f"operation {order} of {self.rows}")

    def where(self, keep: Mask) -> ChangeBatch:
        """Return the operations whose slot in ``keep`` (by order) is set."""
        if keep.all():
            return self
        place = np.cumsum(keep) - 1
        blocks = []
        for block in self.blocks:
            rows = np.flatnonzero(keep[block.order])
            if len(rows):
                taken = block.take(rows)
                blocks.append(replace(taken, order=place[taken.order].astype(np.int64)))
        return ChangeBatch(blocks, int(keep.sum()))


def indicators(first: Mask, last: Mask) -> Octets:
    """Return the indicators of operations that are the first or the last of their transactions."""
    return LETTERS[first.astype(np.uint8) * 2 + last]


_TEXT: Final = pa.string()
_MAP: Final = pa.map_(pa.string(), pa.string())
# Spark's TIMESTAMP is exactly this type; the zone must be spelt UTC.
COMMIT_TIME: Final = pa.timestamp("us", "UTC")
YEAR_1, YEAR_10000 = -62_135_596_800_000_000, 253_402_300_800_000_000  # what date times can be

# Everything is nullable: a null in a NOT NULL column fails a Spark job at run time.
OPERATIONS_SCHEMA: Final = pa.schema(
    [
        ("table", _TEXT),
        ("op_type", _TEXT),
        ("op_ts", COMMIT_TIME),
        ("tx_id", _TEXT),
        ("tx_ind", _TEXT),
        ("csn", _TEXT),
        ("seq_id", _TEXT),
        ("position", _TEXT),
        ("tx_owner", _TEXT),
        ("tx_name", _TEXT),
        ("before", _MAP),
        ("after", _MAP),
        ("tokens", _MAP),
    ]
)

# What follows a table's own columns in its typed shape.
TYPED_FIELDS: Final = (
    pa.field("_op_type", _TEXT),
    pa.field("_op_ts", COMMIT_TIME),
    pa.field("_tx_id", _TEXT),
    pa.field("_csn", _TEXT),
    pa.field("_position", _TEXT),
    pa.field("_missing", pa.list_(pa.string())),
)
TYPED_COLUMNS: Final = tuple(field.name for field in TYPED_FIELDS)


def undatable(micros: Longs) -> Mask:
    """Return which microseconds since 1970 are outside of the years 1 to 9999; their commit times are null."""
    found: Mask = (micros < YEAR_1) | (micros >= YEAR_10000)
    return found
