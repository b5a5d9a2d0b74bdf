"""Groups of records that are laid out alike -> binary columns, one record a slot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.columnar.views import Octets
from trailgate.errors import DefinitionError, EncodeError, Where
from trailgate.model.changes import ChangeBlock, Image, StateColumn
from trailgate.model.tables import Table
from trailgate.trail.byte_order import ByteOrder
from trailgate.trail.codecs import codec_of, unreadable
from trailgate.trail.pieces import Pieces
from trailgate.trail.record_layout import (
    AFTER_IMAGE,
    BEFORE_IMAGE,
    FIELD_COMP,
    H_FIXED,
    INDICATOR,
    RECORD_HEADS,
)
from trailgate.trail.record_types import Prefix
from trailgate.trail.times import JULIAN_EPOCH
from trailgate.trail.tokens import (
    DATA,
    FRAME,
    GGS_TOKENS,
    HEADER,
    LOGCSN,
    MAX_LENGTH,
    RECORD,
    RECORD_INFO,
    TRAILER,
    TRANID,
)
from trailgate.trail.values import Target

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Assumed: a data record without tokens has an empty T group. Every public dump of one has T,
# on later records for the ROWID alone (format notes 9), which messages do not know.
EMPTY_TOKENS: Final = bytes((GGS_TOKENS, 0, 0, 0))
# Assumed: a source without a redo log has AuditPos 0 and AuditRBA 0, as DDL records of MySQL
# have (format notes 5.2).
AUDIT_POS: Final = 0
AUDIT_RBA: Final = 0
FROM_LOG: Final = ord("R")
RECORD_HEAD: Final = RECORD_HEADS[ByteOrder.BIG]
KEY_LENGTH: Final = int(Prefix.SHORT)
NO_NODE: Final = 0xFF  # OrigNode of data records


@dataclass(frozen=True, slots=True)
class Group:
    """Records of one table that hold the same image: "before", "after", "key" or "none"."""

    image: str
    block: ChangeBlock
    order: Longs
    io_type: npt.NDArray[np.uint8]
    trans_ind: npt.NDArray[np.uint8]
    first: Mask  # the record is the first of its transaction

    def take(self, rows: Longs) -> Group:
        """Return the rows named."""
        return Group(
            self.image,
            self.block.take(rows),
            self.order[rows],
            self.io_type[rows],
            self.trans_ind[rows],
            self.first[rows],
        )


def encode_group(group: Group) -> pa.Array:
    """Return the group's records; raises EncodeError where one does not fit."""
    data = _data_pieces(group)
    data_sizes = data.total()
    tokens = _tokens(group)
    name = group.block.table.name.encode() + b"\0"
    has_data = data_sizes > 0
    lengths = RECORD_HEAD.itemsize + len(name) + FRAME * has_data + data_sizes + FRAME
    lengths += pc.binary_length(tokens).to_numpy()
    _check_lengths(group, lengths)
    pieces = Pieces(len(group.order))
    pieces.fixed(_heads(group, name, lengths, data_sizes))
    if has_data.all():
        pieces.fixed(_frames(DATA, 0, data_sizes))
    elif has_data.any():
        pieces.where(has_data, _frames(DATA, 0, data_sizes))
    pieces.extend(data)
    pieces.variable(tokens)
    pieces.fixed(_frames(TRAILER, RECORD_INFO, lengths))
    return pieces.joined()


def _frames(code: int, info: int, lengths: Longs) -> Octets:
    """Return token frames, one a row."""
    words = (code << 24 | info << 16) + lengths
    return words.astype(">u4").view(np.uint8).reshape(-1, FRAME)


def _check_lengths(group: Group, lengths: Longs) -> None:
    if not len(lengths) or lengths.max() <= MAX_LENGTH:
        return
    row = int(np.argmax(lengths))
    raise EncodeError(
        f"a record of {lengths[row]} bytes is longer than {MAX_LENGTH}",
        where=Where(table=group.block.table.name),
        hint="Level 3 records that are continued in a second one are not written by this version",
    )


def _heads(group: Group, name: bytes, lengths: Longs, data_sizes: Longs) -> Octets:
    """Return the frames of G and H, GHDR and the table name (format notes 5)."""
    model = np.zeros(1, RECORD_HEAD)
    for field, value in (
        ("g_id", RECORD),
        ("g_info", RECORD_INFO),
        ("h_id", HEADER),
        ("h_length", H_FIXED + len(name)),
        ("indicator", INDICATOR),
        ("partition", FIELD_COMP),
        ("image", BEFORE_IMAGE if group.image == "before" else AFTER_IMAGE),
        ("node", NO_NODE),
        ("audit_pos", AUDIT_POS),
        ("audit_rba", AUDIT_RBA),
        ("format", FROM_LOG),
        ("record_count", 1),
    ):
        model[field] = value
    row = np.concatenate([model.view(np.uint8), np.frombuffer(name, np.uint8)])
    matrix = np.tile(row, (len(lengths), 1))
    head = np.ndarray(
        (len(lengths),), RECORD_HEAD, matrix, strides=(len(row),)
    )  # the same bytes, without the name
    head["g_length"] = lengths
    head["data_length"] = data_sizes
    head["io_type"] = group.io_type
    head["io_time"] = group.block.op_ts + JULIAN_EPOCH
    head["trans_ind"] = group.trans_ind
    return matrix


def _data_pieces(group: Group) -> Pieces:
    block, table = group.block, group.block.table
    pieces = Pieces(len(group.order))
    if group.image == "before":
        _add_cells(pieces, table, block.before, range(len(table.columns)))
    elif group.image == "after":
        _add_cells(pieces, table, block.after, range(len(table.columns)))
    elif group.image == "key":
        keys = Pieces(len(group.order))
        _add_cells(keys, table, block.before, table.keys)
        sizes = keys.total()
        _check_lengths(group, sizes)
        pieces.fixed(sizes.astype(">u2").view(np.uint8).reshape(-1, KEY_LENGTH))
        pieces.extend(keys)
        _add_cells(pieces, table, block.after, range(len(table.columns)))
    return pieces


def _add_cells(pieces: Pieces, table: Table, image: Image, columns: Iterable[int]) -> None:
    for index in columns:
        state = image[index]
        if state.values is None:
            continue
        _add_cell(pieces, Target(table.name, table.columns[index], index), state)


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


def _tokens(group: Group) -> pa.Array:
    """Return T: LOGCSN and TRANID on a transaction's first record, elsewhere empty (notes 8)."""
    block = group.block
    rows = np.flatnonzero(group.first)
    empty = pa.array([EMPTY_TOKENS], pa.binary())
    if not len(rows):
        return empty.take(pa.array(np.zeros(len(group.order), np.int64)))
    inner = Pieces(len(rows))
    for code, values in ((LOGCSN, block.csn), (TRANID, block.tx_id)):
        _add_token(inner, code, values.take(pa.array(rows)))
    pieces = Pieces(len(rows))
    sizes = inner.total()
    _check_lengths(group, sizes)
    pieces.fixed(_frames(GGS_TOKENS, 0, sizes))
    pieces.extend(inner)
    filled = pieces.joined()
    if len(rows) == len(group.order):
        return filled
    slots = np.zeros(len(group.order), np.int64)
    slots[rows] = np.arange(1, len(rows) + 1)
    return pa.concat_arrays([empty, filled]).take(pa.array(slots))


def _add_token(pieces: Pieces, code: int, values: pa.Array) -> None:
    """Add a token to the records that have a value for it."""
    present = values.is_valid().to_numpy(zero_copy_only=False)
    texts = values.fill_null("").view(pa.binary())
    frames = _frames(code, 0, pc.binary_length(texts).to_numpy().astype(np.int64))
    if present.all():
        pieces.fixed(frames)
    else:
        pieces.where(present, frames)
    pieces.variable(texts)
