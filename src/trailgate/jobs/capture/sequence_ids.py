"""Check that sequence ids ascend, and skip operations that are already in the trail (decision 0022).

Ids must ascend through a run. Each range of messages is checked separately (`SequenceIdCheck`), and
`check_spans` compares the first and last ids of consecutive ranges.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.errors import TransactionError
from trailgate.jobs.capture.repeated_transactions import RepeatedTransactions, hash_operations
from trailgate.messages.raw_operations import ordered_length
from trailgate.model.transactions import mask_begins
from trailgate.storage.reading.message_files import MessageFiles, position_of, with_message_place
from trailgate.storage.reading.message_lines import MessagePosition

if TYPE_CHECKING:
    from trailgate.jobs.capture.owned_batch import OwnedBatch

HINT: Final = (
    "Sequence ids (seqid) must ascend from message to message: capture the messages in order, or repeated ones in a separate run, "
    "which skips ids that the trail has. --unordered-ids captures them as they are"
)


@dataclass(frozen=True)
class SequenceIdRule:
    """How a capture checks sequence ids: against each other if `ordered`, and against the trail.

    `prefix` is the trail's. `last` is the highest id in the trail, or None if ids are not compared
    with the trail. `by_id` is set if only transaction ids show where a transaction begins
    (`messages/by_id.py`).
    """

    prefix: str
    last: str | None
    ordered: bool = True
    by_id: bool = False

    def width(self, own: str) -> int:
        """Return the number of leading characters that determine an id's order; see `ordered_lengths`."""
        return ordered_length(own, by_id=self.by_id)

    @cached_property
    def of_trail(self) -> pa.Array:
        """The ids of all transactions in the trail. Reads the trail once."""
        from trailgate.storage.reading.trails import read_trail  # noqa: PLC0415  seldom needed

        found = read_trail(self.prefix, columns="csn").read_all()["csn"]
        return pc.unique(found.combine_chunks())


@dataclass(frozen=True, slots=True)
class SequenceIdSpan:
    """The first, last and highest sequence id of a range.

    `place` is the position of the message with the first id.
    """

    first: str
    last: str
    highest: str
    place: MessagePosition


class SequenceIdCheck:
    """Checks the sequence ids of one range, batch by batch. `skipped` and `late` count operations.

    Late operations have an id below the highest in the trail, but the trail does not contain them.
    They are captured.
    """

    def __init__(self, rule: SequenceIdRule, files: MessageFiles) -> None:
        self._rule, self._files = rule, files
        self.span: SequenceIdSpan | None = None
        self.skipped = self.late = 0
        self._repeats = RepeatedTransactions()

    def report(self) -> dict[str, Any]:
        """Return the fields of a RangeReport that are about sequence ids."""
        return {
            "ids": self.span,
            "skipped_operations": self.skipped,
            "repeated_operations": self._repeats.dropped,
            "late_operations": self.late,
        }

    def select_new(self, batch: OwnedBatch, before: MessagePosition) -> Mask:
        """Return a mask of the operations that are new: their sequence ids are not in the trail.

        Operations of a transaction that was sent twice in this run are not new either.

        Raises TransactionError if ids are out of order. `before` is the position to state in errors
        about an operation whose message was in an earlier batch.
        """
        csn = batch.operations.in_order("csn")
        fresh = self._is_unknown(csn)
        if self._rule.by_id and self._rule.ordered:
            fresh &= self._select_unrepeated(batch, csn, before)
        rows = np.flatnonzero(fresh)
        if not len(rows):
            return fresh
        if len(rows) < len(csn):
            csn = csn.take(pa.array(rows))
        if self._rule.ordered:
            self._check_order(batch, csn, rows, before)
        highest = str(pc.max(csn))
        first, last = csn[0].as_py(), csn[-1].as_py()
        # The first id's position is needed to report an order error across ranges.
        if self.span is None:
            place = _place(batch, int(batch.message[rows[0]]), before)
            self.span = SequenceIdSpan(first, last, highest, place)
        else:
            own = self.span
            self.span = SequenceIdSpan(own.first, last, max(own.highest, highest), own.place)
        return fresh

    def _select_unrepeated(self, batch: OwnedBatch, csn: pa.Array, before: MessagePosition) -> Mask:
        """Return a mask of the operations whose transaction has not occurred earlier in this run."""
        begins = mask_begins(batch.operations.tx_indicators())
        try:
            return self._repeats.select_new(csn, begins, hash_operations(batch.operations))
        except TransactionError as error:
            row = error.where.record or 0
            raise with_message_place(
                error, self._files, _place(batch, int(batch.message[row]), before)
            ) from None

    def _is_unknown(self, csn: pa.Array) -> Mask:
        """Return a mask of the ids that are not in the trail.

        The trail is read only if an id is not above its highest one.
        """
        last = self._rule.last
        if last is None or not len(csn):
            return np.ones(len(csn), bool)
        width = self._rule.width(last)
        if self._rule.width(csn[0].as_py()) != width:
            own_width = self._rule.width(csn[0].as_py())
            problem = f"the sequence id {csn[0].as_py()} has {own_width} characters, but those in the trail have {width} ({last})"
            raise TransactionError(problem, hint="--again captures without comparing them")
        # Ids ascend, so ids above the trail's highest are new. Only lower ones need a look into the
        # trail.
        low = _mask(pc.less_equal(csn, last))
        if not low.any():
            return ~low
        known = low & _mask(pc.is_in(csn, self._rule.of_trail))
        self.skipped += int(known.sum())
        self.late += int((low & ~known).sum())
        return ~known

    def _check_order(
        self, batch: OwnedBatch, csn: pa.Array, rows: Longs, where: MessagePosition
    ) -> None:
        """Raise TransactionError unless each transaction's sequence id is above the previous one's.

        Transactions in one message may share an id. `rows` are the rows of the batch with the ids
        `csn`.
        """
        begun = mask_begins(batch.operations.tx_indicators()[rows])
        message = batch.message[rows]
        wrong = np.zeros(len(rows), bool)
        # Rows that begin a transaction in another message than the row before: they need a higher
        # id. All other rows may repeat the id of the row before.
        other = begun[1:] & (message[1:] != message[:-1])
        wrong[1:] = _mask(pc.less(csn[1:], csn[:-1])) | (other & _mask(pc.equal(csn[1:], csn[:-1])))
        if self.span is not None:
            first = csn[0].as_py()
            wrong[0] = first < self.span.last or (bool(begun[0]) and first == self.span.last)
        if not wrong.any():
            return
        row = int(np.argmax(wrong))
        before = csn[row - 1].as_py() if row else self.span.last if self.span else ""
        place = _place(batch, int(message[row]), where)
        raise with_message_place(out_of_order(csn[row].as_py(), before), self._files, place)


def _place(batch: OwnedBatch, message: int, last: MessagePosition) -> MessagePosition:
    return last if message < 0 else position_of(batch.messages, message)


def check_spans(spans: Iterable[SequenceIdSpan], files: MessageFiles) -> None:
    """Check the order of sequence ids from one range to the next. Raises TransactionError.

    Within a range, the order was already checked when it was captured.
    """
    before: SequenceIdSpan | None = None
    for span in spans:
        if before is not None and span.first <= before.last:
            raise with_message_place(out_of_order(span.first, before.last), files, span.place)
        before = span


def out_of_order(own: str, before: str) -> TransactionError:
    """Build the error for a sequence id that is not above the previous id."""
    what = "repeats" if own == before else f"follows the higher {before}"
    return TransactionError(f"the sequence id {own} {what}", hint=HINT)


def _mask(values: pa.Array) -> Mask:
    found: Mask = values.to_numpy(zero_copy_only=False)
    return found
