"""Convert operations to records, in groups: a group consists of records of one table with the same images.

An update with before values becomes two records: the before images are one group, the after images
another. ``order`` puts the records of all groups back into the order of the operations. With
UPDATERECORDFORMAT COMPACT the before image of an update has the key and the changed columns, the
after image only the changed columns (trail format §10.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets, byte_table
from trailgate.errors import EncodeError, Where
from trailgate.model.changes import (
    BEGIN,
    DELETE,
    END,
    INSERT,
    KEY_UPDATE,
    TRUNCATE,
    UPDATE,
    WHOLE,
    ChangeBlock,
    StateColumn,
)
from trailgate.model.tables import Definitions, Table
from trailgate.trail.format.record_header import (
    AFTER_IMAGE,
    BEFORE_IMAGE,
    BY_TABLE,
    FIELD_COMP,
    UNIFIED,
)
from trailgate.trail.format.record_types import (
    IO_DELETE,
    IO_INSERT,
    IO_KEY_UPDATE,
    IO_TRUNCATE,
    IO_UNIFIED_KEY_UPDATE,
    IO_UNIFIED_UPDATE,
    IO_UPDATE,
)
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.records.table_metadata import FIRST_INDEX
from trailgate.trail.writing.token_maps import OperationTokens
from trailgate.trail.writing.trail_format import TrailFormat

FIRST, MIDDLE, LAST, ONLY = range(4)  # TransInd

_INDICATORS: Final = byte_table({BEGIN: FIRST, END: LAST, WHOLE: ONLY}, MIDDLE)
_BEFORE_OTHERS: Final = byte_table({FIRST: FIRST, ONLY: FIRST}, MIDDLE)
_AFTER_OTHERS: Final = byte_table({LAST: LAST, ONLY: LAST}, MIDDLE)
_IO_TYPES: Final = byte_table(
    {
        INSERT: IO_INSERT,
        UPDATE: IO_UPDATE,
        KEY_UPDATE: IO_KEY_UPDATE,
        DELETE: IO_DELETE,
        TRUNCATE: IO_TRUNCATE,
    }
)
_UNIFIED_TYPES: Final = byte_table({UPDATE: IO_UNIFIED_UPDATE, KEY_UPDATE: IO_UNIFIED_KEY_UPDATE})


def compact_updates(block: ChangeBlock) -> ChangeBlock:
    """Reduce the updates of a block to the images that records in the form UPDATERECORDFORMAT COMPACT have: unchanged columns become missing, except keys in the before image."""
    updates: Mask = (block.op_type == UPDATE) | (block.op_type == KEY_UPDATE)
    keys = set(block.table.keys)
    befores, afters = list(block.before), list(block.after)
    for index, (before, after) in enumerate(zip(befores, afters, strict=True)):
        same = updates & _same(before, after)
        if same.any():
            afters[index] = _without(after, same)
            if index not in keys:
                befores[index] = _without(before, same)
    return replace(block, before=tuple(befores), after=tuple(afters))


def _same(before: StateColumn, after: StateColumn) -> Mask:
    """Return a mask of the operations in which a column has the same value, or NULL, in both images."""
    if before.values is None or after.values is None:
        return np.zeros(1, bool)  # one item, which numpy broadcasts to all rows
    equal = pc.equal(before.values, after.values).fill_null(False)
    null = pc.and_(before.values.is_null(), after.values.is_null())
    same: Mask = pc.or_(equal, null).to_numpy(zero_copy_only=False)
    for column in (before, after):
        if column.missing is not None:
            same = same & ~column.missing
    return same


def _without(column: StateColumn, rows: Mask) -> StateColumn:
    """Return an image's column with its value missing in the rows of a mask."""
    missing = rows if column.missing is None else column.missing | rows
    values = column.values
    assert values is not None
    return StateColumn(pc.if_else(pa.array(rows), pa.scalar(None, values.type), values), missing)


@dataclass(frozen=True, slots=True)
class TableReference:
    """How written records name their table: by text, or by its index in the metadata records."""

    table: str
    index: int | None
    order: ByteOrder

    @property
    def area(self) -> bytes:
        """The name area in the header of the records to write."""
        if self.index is None:
            return self.table.encode() + b"\0"
        return self.order.raw(self.index, 2)

    @property
    def partition(self) -> int:
        """The partition byte in the header of the records to write, which states how they name their table."""
        return FIELD_COMP if self.index is None else FIELD_COMP | BY_TABLE


def make_table_reference(
    table: Table, trail_format: TrailFormat, definitions: Definitions
) -> TableReference:
    """Build the reference by which the records of a group name their table.

    Raises EncodeError if the format needs a table index but the table has none.
    """
    if not trail_format.by_index:
        return TableReference(table.name, None, trail_format.order)
    for position, known in enumerate(definitions):
        if known.name == table.name and (known is table or known == table):
            return TableReference(table.name, position + FIRST_INDEX, trail_format.order)
    problem = "the table has no index: it is not among the definitions that the file begins with"
    raise EncodeError(problem, where=Where(table=table.name))


class RecordImages(Enum):
    """The images that a written trail record has: before, after, both or none."""

    BEFORE = auto()
    AFTER = auto()
    KEY_AND_AFTER = auto()  # a key update: the before image with the key, then the after image
    BOTH = auto()  # a unified record: the before image, then the after image
    NONE = auto()


@dataclass(frozen=True, slots=True)
class TrailRecordGroup:
    """Records of one table to write, all with the same kind of image, for example BEFORE.

    The arrays have one element per record.
    """

    images: RecordImages
    block: ChangeBlock
    tokens: OperationTokens | None  # of the block's maps
    reference: TableReference
    rows: Longs  # of the block, ascending
    order: Longs  # twice the operation's order, plus one for its second record
    io_type: Octets
    trans_ind: Octets
    first: Mask  # the record is the first of its transaction

    def take(self, records: Longs) -> TrailRecordGroup:
        """Select some of the group's records to write."""
        return replace(
            self,
            rows=self.rows[records],
            order=self.order[records],
            io_type=self.io_type[records],
            trans_ind=self.trans_ind[records],
            first=self.first[records],
        )

    @property
    def image_letter(self) -> int:
        """The BeforeAfter byte of the records to write: "B" if they have only a before image."""
        return BEFORE_IMAGE if self.images is RecordImages.BEFORE else AFTER_IMAGE

    @property
    def partition(self) -> int:
        """The partition byte of the group's records.

        Assumed: all unified records have the bit that one printed unified record has (trail format
        §5.1).
        """
        return self.reference.partition | (UNIFIED if self.images is RecordImages.BOTH else 0)


def group_records(
    block: ChangeBlock, reference: TableReference, unified_types: Sequence[int], separate: Mask
) -> Iterator[TrailRecordGroup]:
    """Convert the operations of a block to groups of trail records to write.

    An operation with before values becomes one unified record, with both images, if its type is in
    ``unified_types``. An update in a row of the mask ``separate`` never does. Other updates with
    before values become two records. All other operations become one record.
    """
    op_type = block.op_type
    _check_types(block)
    has_before, updates = _has_before(block), op_type == UPDATE
    unified = np.zeros(len(block), bool)
    if unified_types:
        unified = has_before & np.isin(op_type, unified_types) & ~(separate & updates)
    paired = has_before & updates & ~unified
    indicators = _INDICATORS[block.tx_ind]
    tokens = None if block.tokens is None else OperationTokens(block, reference.order)
    for images, chosen, second in (
        (RecordImages.BEFORE, paired | (op_type == DELETE), False),
        (RecordImages.AFTER, (op_type == INSERT) | (updates & ~unified), True),
        (RecordImages.KEY_AND_AFTER, (op_type == KEY_UPDATE) & ~unified, False),
        (RecordImages.BOTH, unified, False),
        (RecordImages.NONE, op_type == TRUNCATE, False),
    ):
        if not chosen.any():
            continue
        types = _UNIFIED_TYPES if images is RecordImages.BOTH else _IO_TYPES
        # A pair shares one indicator: ONLY becomes FIRST and LAST, FIRST becomes FIRST and MIDDLE.
        split = (indicators_without_begin if second else indicators_without_end)(indicators)
        group = TrailRecordGroup(
            images=images,
            block=block,
            tokens=tokens,
            reference=reference,
            rows=np.arange(len(block)),
            # Twice the order leaves room for a second record: a pair of operation 3 has the orders
            # 6 and 7.
            order=2 * block.order + (paired if second else 0),
            io_type=types[op_type],
            trans_ind=np.where(paired, split, indicators),
            # Of a pair, only the first record can begin the transaction.
            first=((indicators == FIRST) | (indicators == ONLY)) & ~(paired & second),
        )
        yield group if chosen.all() else group.take(np.flatnonzero(chosen))


def indicators_without_end(trans_ind: Octets) -> Octets:
    """Return the indicators (TransInd) of the records that are written for an operation, all but its last one.

    ``trans_ind`` are the operations' indicators: ONLY becomes FIRST, and LAST becomes MIDDLE.
    """
    return _BEFORE_OTHERS[trans_ind]


def indicators_without_begin(trans_ind: Octets) -> Octets:
    """Return the indicators (TransInd) of the records that are written for an operation, all but its first one.

    ``trans_ind`` are the operations' indicators: ONLY becomes LAST, and FIRST becomes MIDDLE.
    """
    return _AFTER_OTHERS[trans_ind]


def _check_types(block: ChangeBlock) -> None:
    known = _IO_TYPES[block.op_type] != 0
    if not known.all():
        bad = chr(int(block.op_type[int(np.argmin(known))]))
        raise EncodeError(f"unknown operation type {bad!r}", where=Where(table=block.table.name))


def _has_before(block: ChangeBlock) -> Mask:
    """Return a mask of the block's operations that have a before image: at least one column is not missing."""
    has_before = np.zeros(len(block), bool)
    for column in block.before:
        if column.values is not None:
            if column.missing is None:
                return np.ones(len(block), bool)
            has_before |= ~column.missing
    return has_before
