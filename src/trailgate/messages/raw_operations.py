"""Operations as a parser returns them, before they are grouped into transactions.

`RawOperations` contains the blocks of a batch, and for each operation its message, its indicator
and its ids as stated in the message. `by_indicators.py` and `by_id.py` group them. The sequence ids
of transactions become commit sequence numbers, so `check_lengths` first checks that they all have
the same length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.strings import find_row_without_mark, text_view
from trailgate.errors import TransactionError
from trailgate.messages.message_numbers import MessageBoundaries
from trailgate.messages.problems import ProblemCollector
from trailgate.messages.skipped import NOT_SKIPPED, SkippedMessages
from trailgate.model.changes import ChangeBlock

NO_TEXT: Final = pa.array([], pa.string())
# Separates the ordered part of a transaction's sequence id from the transaction's own id.
POINT: Final = "."


@dataclass(frozen=True, slots=True)
class RawOperations:
    """Operations before they are grouped into transactions, as arrays with one element per operation.

    `message` is the number of each operation's message. Each of the `blocks` has one operation
    type, or inserts and updates without before values; ids and indicators are filled in later. An
    operation that is not captured is in no block. With `by_id`, operations of one transaction are
    consecutive and have the same `seq_id`, and only the end marks of `tx_ind` are used.

    `excluded` are the flags of `find_excluded`, or None if nothing is excluded. `tx_ids_generated` states whether transaction ids
    were generated instead of read: one value for all operations, or one for each. `notes` are
    warnings that a run reports once. `segments` is the number, from 1, of an operation's message in
    its transaction, if messages are numbered. `skipped` are the messages without operations.
    """

    blocks: tuple[ChangeBlock, ...]
    message: Longs
    tx_ind: Octets | None
    tx_id: pa.Array
    seq_id: pa.Array
    tx_ids_generated: bool | Mask
    excluded: Octets | None = None
    notes: frozenset[str] = frozenset()
    by_id: bool = False
    segments: Longs | None = None
    boundaries: MessageBoundaries | None = None
    skipped: SkippedMessages = NOT_SKIPPED

    @staticmethod
    def join(
        parts: Sequence[RawOperations], *, indicated: bool, by_id: bool = False
    ) -> RawOperations:
        """Concatenate raw operations in the order of their messages.

        If there are no parts, the result is empty: `tx_ind` is None unless `indicated`, and `by_id`
        is as passed.
        """
        if len(parts) == 1:
            return parts[0]
        if not parts:
            none = np.zeros(0, np.int64)
            marked = np.zeros(0, np.uint8) if indicated else None
            return RawOperations(
                blocks=(),
                message=none,
                tx_ind=marked,
                tx_id=NO_TEXT,
                seq_id=NO_TEXT,
                tx_ids_generated=True,
                by_id=by_id,
            )
        blocks, before, boundaries = [], 0, []
        # Orders are positions in the joined operations: after a part of 5 operations, 0 becomes 5.
        for raw in parts:
            boundaries += [] if raw.boundaries is None else [(raw.boundaries, before)]
            blocks += [replace(b, order=b.order + before) for b in raw.blocks]
            before += len(raw.message)
        marks = [raw.tx_ind for raw in parts if raw.tx_ind is not None]
        segments = [raw.segments for raw in parts if raw.segments is not None]
        excluded = [raw.excluded for raw in parts if raw.excluded is not None]
        return RawOperations(
            blocks=tuple(blocks),
            message=np.concatenate([raw.message for raw in parts]),
            tx_ind=np.concatenate(marks) if marks else None,
            tx_id=pa.concat_arrays([raw.tx_id for raw in parts]),
            seq_id=pa.concat_arrays([raw.seq_id for raw in parts]),
            tx_ids_generated=_are_generated([raw.tx_ids_generated for raw in parts]),
            excluded=np.concatenate(excluded) if excluded else None,
            notes=frozenset().union(*(raw.notes for raw in parts)),
            by_id=parts[0].by_id,
            segments=np.concatenate(segments) if segments else None,
            boundaries=MessageBoundaries.join(boundaries) if boundaries else None,
            skipped=SkippedMessages.join([raw.skipped for raw in parts]),
        )


def _are_generated(parts: Sequence[bool | Mask]) -> bool | Mask:
    """Concatenate the `tx_ids_generated` of consecutive parts."""
    masks = [part for part in parts if not isinstance(part, bool)]
    return np.concatenate(masks) if masks else parts[0]


def kept_operations(raw: RawOperations, bad: ProblemCollector) -> Mask:
    """Return a mask of the raw operations of a batch whose messages have no problem in `bad`."""
    if not bad:
        return np.ones(len(raw.message), bool)
    return ~np.isin(raw.message, bad.messages)


def check_lengths(
    raw: RawOperations,
    bad: ProblemCollector,
    length: int | None,
    *,
    operation_ids: bool = False,
) -> int | None:
    """Add a problem to the message of every raw operation with a sequence id that is not `length` characters long.

    Ids are compared as text, which is correct only if they all have the same length. If `length` is
    None, the length of the first id is required. Returns the required length, or None if there are
    no ids. If ids identify transactions (`by_id` without `operation_ids`), only the part before the
    first point is measured.
    """
    if not len(raw.message):
        return length
    if raw.by_id and not operation_ids:
        # Fast path: one kernel call checks that every id has a point at this width.
        width = raw.seq_id[0].as_py().find(POINT) if length is None else length
        if width >= 0 and find_row_without_mark(raw.seq_id, width, POINT) < 0:
            return int(width)
        lengths = np.asarray(ordered_lengths(raw.seq_id))
    else:
        offsets = text_view(raw.seq_id)[0]
        lengths = offsets[1:] - offsets[:-1]
    length = int(lengths[0]) if length is None else length
    for i in (lengths != length).nonzero()[0].tolist():
        error = TransactionError(
            f"sequence id {raw.seq_id[i].as_py()} has {lengths[i]} characters, but those before have {length}",
            hint="seqid must have a fixed length, because ids are compared as text",
        )
        bad.add(int(raw.message[i]), error)
    return length


def ordered_lengths(ids: pa.Array) -> pa.Array:
    """Return the length of the ordered part of each raw operation's sequence id: the characters before the first point.

    The rest, after the point, is the transaction's own id, whose length may vary.
    """
    points = pc.find_substring(ids, POINT)
    return pc.if_else(pc.less(points, 0), pc.binary_length(ids), points)


def ordered_length(own: str, *, by_id: bool) -> int:
    """Return the length of the part of a raw operation's sequence id that is compared.

    With `by_id`, this part ends before the first point; otherwise it is the whole id.
    """
    return len(own.partition(POINT)[0]) if by_id else len(own)
