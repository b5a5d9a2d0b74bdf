"""Groups of records that are laid out alike -> binary columns, one record a slot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.errors import DefinitionError, EncodeError, Where
from trailgate.model.changes import ChangeBlock, Image, StateColumn
from trailgate.model.tables import Definitions, Table
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.metadata import FIRST_INDEX
from trailgate.trail.format.record import NO_NODE
from trailgate.trail.format.record_layout import (
    AFTER_IMAGE,
    BEFORE_IMAGE,
    BY_TABLE,
    FIELD_COMP,
    FROM_LOG,
    H_FIXED,
    INDICATOR,
    RECORD_HEADS,
    UNIFIED,
)
from trailgate.trail.format.record_types import Prefix
from trailgate.trail.format.times import JULIAN_EPOCH
from trailgate.trail.format.tokens import DATA, FRAME, HEADER, RECORD, RECORD_INFO, TRAILER
from trailgate.trail.format.trail_format import TrailFormat
from trailgate.trail.values.codec import Target
from trailgate.trail.values.codecs import codec_of, unreadable
from trailgate.trail.writing.record_builder import Pieces, frames
from trailgate.trail.writing.token_areas import token_areas

# Assumed: a source without a redo log has AuditPos 0 and AuditRBA 0, as DDL records of MySQL
# have (trail format §5.2).
AUDIT_POS: Final = 0
AUDIT_RBA: Final = 0
SHORT_PREFIX: Final = int(Prefix.SHORT)


@dataclass(frozen=True, slots=True)
class Naming:
    """How records name their table: by text, or by the index that metadata records give it."""

    table: str
    index: int | None
    order: ByteOrder

    @property
    def area(self) -> bytes:
        """Return the name area of the record header."""
        if self.index is None:
            return self.table.encode() + b"\0"
        return self.order.raw(self.index, 2)

    @property
    def partition(self) -> int:
        """Return the partition byte."""
        return FIELD_COMP if self.index is None else FIELD_COMP | BY_TABLE


def naming_of(table: Table, trail_format: TrailFormat, definitions: Definitions) -> Naming:
    """Return how records name a table; raises EncodeError for one without an index."""
    if not trail_format.by_index:
        return Naming(table.name, None, trail_format.order)
    for place, known in enumerate(definitions):
        if known.name == table.name and (known is table or known == table):
            return Naming(table.name, place + FIRST_INDEX, trail_format.order)
    problem = "the table has no index: it is not among the definitions that the file begins with"
    raise EncodeError(problem, where=Where(table=table.name))


@dataclass(frozen=True, slots=True)
class Group:
    """Records of one table that hold the same images (a key of ``FRONTS``)."""

    image: str
    block: ChangeBlock
    naming: Naming
    order: Longs  # of the record: twice its operation's, plus one for a second record
    io_type: npt.NDArray[np.uint8]
    trans_ind: npt.NDArray[np.uint8]
    first: Mask  # the record is the first of its transaction

    def take(self, rows: Longs) -> Group:
        """Return the rows named."""
        return Group(
            self.image,
            self.block.take(rows),
            self.naming,
            self.order[rows],
            self.io_type[rows],
            self.trans_ind[rows],
            self.first[rows],
        )

    @property
    def letter(self) -> int:
        """Return what the records' BeforeAfter is."""
        return BEFORE_IMAGE if self.image == "before" else AFTER_IMAGE

    @property
    def partition(self) -> int:
        """Return the records' partition byte.

        Assumed: the bit that one printed unified record has marks them all (trail format §5.1).
        """
        return self.naming.partition | (UNIFIED if self.image == "unified" else 0)


# Which before columns stand in front of the after image of the same record, by kind of group.
FRONTS: Final[Mapping[str, str]] = MappingProxyType(
    {"before": "", "after": "", "key": "keys", "unified": "all", "none": ""}
)


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A group's records in pieces, and how long each will be."""

    group: Group
    data: Pieces
    tokens: pa.Array
    lengths: Longs

    def joined(self) -> pa.Array:
        """Return the records; none may be longer than a length can say."""
        order = self.group.naming.order
        data_sizes = self.data.total()
        has_data = data_sizes > 0
        pieces = Pieces(len(self.lengths))
        pieces.fixed(_heads(self.group, self.lengths, data_sizes))
        if has_data.all():
            pieces.fixed(frames(order, DATA, data_sizes))
        elif has_data.any():
            pieces.where(has_data, frames(order, DATA, data_sizes))
        pieces.extend(self.data)
        pieces.variable(self.tokens)
        pieces.fixed(frames(order, TRAILER, self.lengths, RECORD_INFO))
        return pieces.joined()


def lay_out(group: Group) -> LaidOut:
    """Return the group's records in pieces; raises EncodeError for a value that has no place."""
    front, data = image_pieces(group)
    if front is not None:
        whole = Pieces(len(group.order))
        order = group.naming.order
        # What is too long for the prefix is too long for the record as well.
        sizes = front.total().astype(order.value + "u2")
        whole.fixed(sizes.view(np.uint8).reshape(-1, SHORT_PREFIX))
        whole.extend(front)
        whole.extend(data)
        data = whole
    data_sizes = data.total()
    tokens = token_areas(group.block, group.first, group.naming.order)
    lengths = RECORD_HEADS[group.naming.order].itemsize + len(group.naming.area) + 2 * FRAME
    found = lengths + data_sizes - FRAME * (data_sizes == 0)
    found += pc.binary_length(tokens).to_numpy()
    return LaidOut(group, data, tokens, found)


def image_pieces(group: Group) -> tuple[Pieces | None, Pieces]:
    """Return the image that stands in front of another one in the records, and the other one."""
    block, table = group.block, group.block.table
    every = range(len(table.columns))
    columns = {"": (), "keys": table.keys, "all": every}[FRONTS[group.image]]
    front = _cells(group, block.before, columns) if FRONTS[group.image] else None
    if group.image == "none":
        return front, Pieces(len(group.order))
    return front, _cells(group, block.before if group.image == "before" else block.after, every)


def _cells(group: Group, image: Image, columns: Iterable[int]) -> Pieces:
    table, pieces = group.block.table, Pieces(len(group.order))
    for index in columns:
        state = image[index]
        if state.values is not None:
            target = Target(table.name, table.columns[index], index, group.naming.order)
            _add_cell(pieces, target, state)
    return pieces


def _add_cell(pieces: Pieces, target: Target, state: StateColumn) -> None:
    """Add one column's cells; a missing one takes no bytes."""
    try:
        codec = codec_of(target.column)
    except DefinitionError:
        codec = None
    if codec is None:
        raise target.error(unreadable(target.column))
    written = codec.encode(target, state.values)
    if state.missing is None or not state.missing.any():
        pieces.fixed(written.fixed)
    else:
        pieces.where(~state.missing, written.fixed)
    if written.tail is not None:
        pieces.variable(written.tail)


def _heads(group: Group, lengths: Longs, data_sizes: Longs) -> Octets:
    """Return the frames of G and H, GHDR and the name area (trail format §5)."""
    layout, area = RECORD_HEADS[group.naming.order], group.naming.area
    model = np.zeros(1, layout)
    for field, value in (
        ("g_id", RECORD),
        ("g_info", RECORD_INFO),
        ("h_id", HEADER),
        ("h_length", H_FIXED + len(area)),
        ("indicator", INDICATOR),
        ("partition", group.partition),
        ("image", group.letter),
        ("node", NO_NODE),
        ("audit_pos", AUDIT_POS),
        ("audit_rba", AUDIT_RBA),
        ("format", FROM_LOG),
        ("record_count", 1),
    ):
        model[field] = value
    row = np.concatenate([model.view(np.uint8), np.frombuffer(area, np.uint8)])
    matrix = np.tile(row, (len(lengths), 1))
    # The same bytes, without the name.
    head = np.ndarray((len(lengths),), layout, matrix, strides=(len(row),))
    head["g_length"] = lengths
    head["data_length"] = data_sizes
    head["io_type"] = group.io_type
    head["io_time"] = group.block.op_ts + JULIAN_EPOCH
    head["trans_ind"] = group.trans_ind
    return matrix
