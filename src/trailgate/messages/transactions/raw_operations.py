"""Operations as a parser gives them, before their transactions are worked out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.messages.transactions.borders import Borders
from trailgate.model.changes import ChangeBlock

NO_TEXT: Final = pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class RawOperations:
    """Operations before their transactions are worked out; members have one slot an operation.

    ``blocks`` hold one operation type each, or inserts and updates without before values; their ids and indicators are still to
    be set. An operation that is not captured is in no block. With ``by_id`` operations of one transaction follow one another and have
    one ``seq_id``, that of the transaction; of ``tx_ind`` only the ends count. ``excluded`` is 1 for those of users and
    transactions that are left out, -1 for those that have
    no name of their own. ``tx_ids_generated`` is one value for all operations, or one for each. ``notes`` are what a run notes once about its messages.
    ``segments`` is the number of an operation's message in its transaction, from 1 on, where messages have one.
    """

    blocks: tuple[ChangeBlock, ...]
    message: Longs
    tx_ind: Octets | None
    tx_id: pa.Array
    seq_id: pa.Array
    tx_ids_generated: bool | Mask
    excluded: Longs | None = None
    notes: frozenset[str] = frozenset()
    by_id: bool = False
    segments: Longs | None = None
    borders: Borders | None = None

    @staticmethod
    def joined(
        parts: Sequence[RawOperations], *, indicated: bool, by_id: bool = False
    ) -> RawOperations:
        """Return parts as one, in the order of their messages.

        ``indicated`` is whether operations have indicators, for where there are none; ``by_id`` likewise.
        """
        if len(parts) == 1:
            return parts[0]
        if not parts:
            none = np.zeros(0, np.int64)
            marked = np.zeros(0, np.uint8) if indicated else None
            return RawOperations((), none, marked, NO_TEXT, NO_TEXT, True, by_id=by_id)
        blocks, before, borders = [], 0, []
        for raw in parts:
            borders += [] if raw.borders is None else [(raw.borders, before)]
            blocks += [replace(b, order=b.order + before) for b in raw.blocks]
            before += len(raw.message)
        marks = [raw.tx_ind for raw in parts if raw.tx_ind is not None]
        segments = [raw.segments for raw in parts if raw.segments is not None]
        excluded = [raw.excluded for raw in parts if raw.excluded is not None]
        return RawOperations(
            tuple(blocks),
            np.concatenate([raw.message for raw in parts]),
            np.concatenate(marks) if marks else None,
            pa.concat_arrays([raw.tx_id for raw in parts]),
            pa.concat_arrays([raw.seq_id for raw in parts]),
            _generated([raw.tx_ids_generated for raw in parts]),
            np.concatenate(excluded) if excluded else None,
            frozenset().union(*(raw.notes for raw in parts)),
            parts[0].by_id,
            np.concatenate(segments) if segments else None,
            Borders.joined(borders) if borders else None,
        )


def _generated(parts: Sequence[bool | Mask]) -> bool | Mask:
    """Return whether ids are generated, of parts that come after one another."""
    masks = [part for part in parts if not isinstance(part, bool)]
    return np.concatenate(masks) if masks else parts[0]
