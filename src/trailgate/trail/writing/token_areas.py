"""The token areas of many records at once: GGS tokens (T), and user tokens behind them (U).

LOGCSN and TRANID stand on a transaction's first record alone; what an operation's tokens map holds stands on each of its
images, as printed ROWIDs do (trail format §8, §9 and §14).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask
from trailgate.model.changes import ChangeBlock
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.tokens import GGS_TOKENS, LOGCSN, TRANID, USER_TOKENS
from trailgate.trail.writing.operation_tokens import check_size, own_payloads
from trailgate.trail.writing.record_builder import Pieces, frames

# Assumed: a data record without tokens has an empty T group. Every public dump of one has T,
# on later records for the ROWID alone (trail format §9), which messages do not know.
EMPTY_TOKENS: Final = bytes((GGS_TOKENS, 0, 0, 0))


def token_areas(block: ChangeBlock, first: Mask, order: ByteOrder) -> pa.Array:
    """Return T, and U where there are user tokens, of every record, with their frames."""
    if block.tokens is None:
        return _without_own(block, first, order)
    ggs, user = token_payloads(block, first, order)
    pieces = Pieces(len(block))
    _add_area(pieces, block, (GGS_TOKENS, ggs), order)
    if user is not None:
        _add_area(pieces, block, (USER_TOKENS, user), order)
    return pieces.joined()


def token_payloads(
    block: ChangeBlock, first: Mask, order: ByteOrder
) -> tuple[pa.Array, pa.Array | None]:
    """Return what stands in T and in U of every record; None where none has user tokens."""
    pieces, user = Pieces(len(block)), None
    if block.tokens is not None:
        own, user = own_payloads(block, order)
        pieces.variable(own)
    every, null = bool(first.all()), pa.scalar(None, pa.string())
    for code, values in ((LOGCSN, block.csn), (TRANID, block.tx_id)):
        shown = values if every else pc.if_else(pa.array(first), values, null)
        _add_token(pieces, code, shown, order)
    return pieces.joined(), user


def _without_own(block: ChangeBlock, first: Mask, order: ByteOrder) -> pa.Array:
    """Return T: LOGCSN and TRANID on a transaction's first record, elsewhere empty."""
    rows = np.flatnonzero(first)
    empty = pa.array([EMPTY_TOKENS], pa.binary())
    if not len(rows):
        return empty.take(pa.array(np.zeros(len(first), np.int64)))
    inner = Pieces(len(rows))
    for code, values in ((LOGCSN, block.csn), (TRANID, block.tx_id)):
        _add_token(inner, code, values.take(pa.array(rows)), order)
    pieces = Pieces(len(rows))
    sizes = inner.total()
    check_size(block, sizes)
    pieces.fixed(frames(order, GGS_TOKENS, sizes))
    pieces.extend(inner)
    filled = pieces.joined()
    if len(rows) == len(first):
        return filled
    slots = np.zeros(len(first), np.int64)
    slots[rows] = np.arange(1, len(rows) + 1)
    return pa.concat_arrays([empty, filled]).take(pa.array(slots))


def _add_area(
    pieces: Pieces, block: ChangeBlock, area: tuple[int, pa.Array], order: ByteOrder
) -> None:
    """Add an area: T to every record, U to those that have any."""
    code, payloads = area
    sizes = pc.binary_length(payloads).to_numpy()
    check_size(block, sizes)
    if code == GGS_TOKENS:
        pieces.fixed(frames(order, code, sizes))
    else:
        pieces.where(sizes > 0, frames(order, code, sizes))
    pieces.variable(payloads)


def _add_token(pieces: Pieces, code: int, values: pa.Array, order: ByteOrder) -> None:
    """Add a token to the records that have a value for it."""
    present = values.is_valid().to_numpy(zero_copy_only=False)
    texts = values.fill_null("").view(pa.binary())
    sizes = pc.binary_length(texts).to_numpy()
    heads = frames(order, code, sizes)
    if present.all():
        pieces.fixed(heads)
    else:
        pieces.where(present, heads)
    pieces.variable(texts)
