"""Changes as columns: blocks of one table's operations, which the packages exchange.

In each row, a column is in one of three states: a value, NULL (an Arrow null that is not in
``missing``), or missing (not logged). A batch has one or more blocks per table, and ``order`` is
the number of each row in the batch. Outside of the packages, changes are rows of the operations
table (``OPERATIONS_SCHEMA``), in which an image is a map from column names to values. Every
producer returns this schema, and every consumer accepts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.gather import take_text
from trailgate.errors import OptionError
from trailgate.model.tables import Table
from trailgate.options import check_arguments

# Operation types and transaction indicators are the ASCII codes of their letters.
INSERT, UPDATE, KEY_UPDATE, DELETE, TRUNCATE = (ord(c) for c in "IUKDT")
BEGIN, MIDDLE, END, WHOLE = (ord(c) for c in "BMEW")
OP_TYPES: Final = frozenset("IUKDT")
TX_INDICATORS: Final = frozenset("BMEW")
# The value of a user token that is replaced by the length of its record's data when the record is written.
# Values in a trail end at their first NUL, so no other token has this value.
RECORD_LENGTH: Final = "\0RECORDLENGTH"

_TEXT: Final = pa.string()
_MAP: Final = pa.map_(pa.string(), pa.string())
# Spark's TIMESTAMP is exactly this type; the zone must be spelt UTC.
COMMIT_TIME: Final = pa.timestamp("us", "UTC")
YEAR_1, YEAR_10000 = -62_135_596_800_000_000, 253_402_300_800_000_000  # the range of datetime

# Everything is nullable, since a null in a NOT NULL column would fail a Spark job at run time.
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

# The fields after the table's columns in its typed shape.
TYPED_FIELDS: Final = (
    pa.field("_op_type", _TEXT),
    pa.field("_op_ts", COMMIT_TIME),
    pa.field("_tx_id", _TEXT),
    pa.field("_csn", _TEXT),
    pa.field("_position", _TEXT),
    pa.field("_missing", pa.list_(pa.string())),
)
TYPED_COLUMNS: Final = tuple(field.name for field in TYPED_FIELDS)


@dataclass(frozen=True, slots=True)
class StateColumn:
    """A column of an image whose values are present, NULL or missing, one element per row.

    ``values`` has the column's block type (``Column.arrow_type``) and is null if the value is NULL
    or missing. If ``values`` is None, the column is missing in every row. ``missing`` is a mask of
    the rows in which the column is missing, or None if there are none. A lenient reader stores the
    reason why a value could not be decoded in ``problems``, as text; ``values`` is null in this
    row. Otherwise ``problems`` is None.
    """

    values: pa.Array | None
    missing: Mask | None = None
    problems: pa.Array | None = None

    def is_missing(self, rows: int) -> Mask:
        """Return a mask, of length ``rows``, of the rows in which the column is missing."""
        if self.values is None:
            return np.ones(rows, bool)
        return np.zeros(rows, bool) if self.missing is None else self.missing


ABSENT: Final = StateColumn(None)
Image = tuple[StateColumn, ...]


def has_any_column(image: Image) -> bool:
    """Return whether an image of a block has any column that is not missing in every row."""
    return any(state.values is not None for state in image)


def select_images(before: StateColumn, after: StateColumn, deletes: Mask) -> StateColumn:
    """Combine the before and after image of a column of a block: the values before for deletes, those after for other operations."""
    if not deletes.any():
        return after
    if deletes.all():
        return before
    if before.values is None and after.values is None:
        return after
    known = after if before.values is None else before
    assert known.values is not None  # one of them is not, as seen above
    empty = pa.nulls(len(deletes), known.values.type)
    values = pc.if_else(
        pa.array(deletes),
        empty if before.values is None else before.values,
        empty if after.values is None else after.values,
    )
    rows = len(deletes)
    return StateColumn(values, np.where(deletes, before.is_missing(rows), after.is_missing(rows)))


@dataclass(frozen=True, slots=True)
class ChangeBlock:
    """Operations of one table, as arrays with one element per operation.

    ``order`` is each operation's number in the block's batch. ``op_type`` and ``tx_ind`` are ASCII
    codes of letters (``OP_TYPES``, ``TX_INDICATORS``), and ``op_ts`` is microseconds since 1970
    UTC. ``before`` and ``after`` are tuples with one item per table column. The other columns are
    strings and maps as in the operations table; None means that all values are NULL.
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

    def with_columns(self, **columns: Any) -> ChangeBlock:
        """Return the change block with some columns replaced.

        This takes a third of the time of ``dataclasses.replace``, which is noticeable in small
        batches.
        """
        values = list(_COLUMNS_OF(self))
        for name, column in columns.items():
            values[_NUMBERS[name]] = column
        return ChangeBlock(*values)

    def take(self, rows: Longs) -> ChangeBlock:
        """Return the operations of the change block at these row indexes, in the given order.

        If they are the first rows of the block in order (0, 1, 2, ...), Arrow columns are not
        copied. An array that several columns share is copied only once.
        """
        # Rows 0, 1, 2 of a larger block are a slice of it.
        first = bool((rows == np.arange(len(rows))).all())
        if first and len(rows) == len(self):
            return self
        known: dict[int, pa.Array] = {}  # by identity: members often share one array

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


# Columns of a block that ``in_order`` returns.
STRING_COLUMNS: Final = ("tx_id", "csn", "seq_id", "position", "tx_owner", "tx_name")
_NAMES: Final = tuple(one.name for one in fields(ChangeBlock))
_NUMBERS: Final = {name: number for number, name in enumerate(_NAMES)}
_COLUMNS_OF: Final = attrgetter(*_NAMES)


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """A batch of operations on several tables, as blocks of one table each.

    Their ``order`` arrays together are the numbers 0 to ``rows`` - 1, each once. If only some
    tables of a trail were read, ``transactions`` has the number of each operation's transaction, in
    order. It counts all transactions of the trail since reading began, so that two operations are
    known to be of different transactions even if the operations between them were not read.
    Otherwise ``transactions`` is None.
    """

    blocks: Sequence[ChangeBlock]
    rows: int
    transactions: Longs | None = None

    def tx_indicators(self) -> Octets:
        """Return the transaction indicators of all operations of the batch, in order."""
        indicators = np.zeros(self.rows, np.uint8)
        for block in self.blocks:
            indicators[block.order] = block.tx_ind
        return indicators

    def table_numbers(self) -> Longs:
        """Return for each operation of the batch, in order, the index of its table's block in ``blocks``."""
        numbers = np.empty(self.rows, np.int64)
        for number, block in enumerate(self.blocks):
            numbers[block.order] = number
        return numbers

    @check_arguments
    def in_order(self, name: str) -> pa.Array:
        """Join one string column of all change blocks, in the order of the operations.

        ``name`` is the column's attribute in `ChangeBlock`, such as "csn".
        """
        if name not in STRING_COLUMNS:
            problem = f"operations have no string column {name!r}"
            raise OptionError(problem, hint=f"Known: {', '.join(STRING_COLUMNS)}")
        parts = [
            pa.nulls(len(block), pa.string()) if values is None else values
            for block, values in ((block, getattr(block, name)) for block in self.blocks)
        ]
        if len(parts) < 2:
            return parts[0] if parts else pa.array([], pa.string())
        # Invert the orders: rows[i] is the row of operation i in the concatenated blocks.
        rows = np.empty(self.rows, np.int64)
        rows[np.concatenate([block.order for block in self.blocks])] = np.arange(self.rows)
        return take_text(pa.concat_arrays(parts), rows)

    @check_arguments
    def find(self, order: int) -> tuple[ChangeBlock, int]:
        """Return the block of the operation with this ``order``, and its row in the block.

        Raises OptionError if the batch has no such operation.
        """
        for block in self.blocks:
            matches = np.flatnonzero(block.order == order)
            if len(matches):
                return block, int(matches[0])
        raise OptionError(
            f"there is no operation {order}: the batch has {self.rows}, numbered from 0"
        )

    @check_arguments
    def where(self, keep: Mask) -> ChangeBatch:
        """Return the operations of the batch that are marked in ``keep``, which is indexed by order."""
        if keep.dtype != bool or keep.shape != (self.rows,):
            raise OptionError(f"keep must be a mask of {self.rows} operations")
        if keep.all():
            return self
        # The new order: keep 1 0 1 1 becomes 0 0 1 2, which is right for all kept operations.
        new_order = np.cumsum(keep) - 1
        blocks = []
        for block in self.blocks:
            # ``keep`` is by order; indexed with a block's orders it is by the block's rows.
            rows = np.flatnonzero(keep[block.order])
            if len(rows):
                selected = block.take(rows)
                blocks.append(replace(selected, order=new_order[selected.order].astype(np.int64)))
        numbers = None if self.transactions is None else self.transactions[keep]
        return ChangeBatch(blocks, int(keep.sum()), numbers)
