"""Sequence ids that the messages carry: they ascend through a run, and what the trail has is skipped (decision 0022)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.errors import TransactionError
from trailgate.jobs.capture.content_numbers import content_numbers
from trailgate.jobs.capture.range_reader import OwnedBatch, located, place_of
from trailgate.jobs.capture.repeats import Repeats
from trailgate.messages.transactions.bounds import ordered_length
from trailgate.model.changes import BEGIN, WHOLE, ChangeBatch
from trailgate.storage.reading.messages.files import MessageFiles, MessagePlace
from trailgate.storage.reading.trail.trails import read_trail

HINT: Final = (
    "Sequence ids (seqid) must ascend from message to message: capture the messages in their order, or repeated ones in a run "
    "of their own, which skips what the trail has. --unordered-ids captures them as they are"
)


@dataclass(frozen=True)
class IdRule:
    """What sequence ids are compared with: each other where they are ``ordered``, and those of the trail.

    ``last`` is the highest one in the trail; None where nothing is to be compared with it. ``by_id``: transactions are known by
    their ids alone.
    """

    prefix: str
    last: str | None
    ordered: bool = True
    by_id: bool = False

    def width(self, own: str) -> int:
        """Return how many characters an id's order follows from, see ``ordered_lengths``."""
        return ordered_length(own, by_id=self.by_id)

    @cached_property
    def of_trail(self) -> pa.Array:
        """Return the ids of all transactions in the trail."""
        found = read_trail(self.prefix, columns="csn").read_all()["csn"]
        return pc.unique(found.combine_chunks())


@dataclass(frozen=True, slots=True)
class IdSpan:
    """The first, the last and the highest id of a range; ``place`` is that of the first one's message."""

    first: str
    last: str
    highest: str
    place: MessagePlace


class IdCheck:
    """Compares the ids of one range, batch by batch; ``skipped`` and ``late`` count operations.

    Late ones have a lower id than the highest of the trail, which does not have them: they are captured.
    """

    def __init__(self, rule: IdRule, files: MessageFiles) -> None:
        self._rule, self._files = rule, files
        self.span: IdSpan | None = None
        self.skipped = self.late = 0
        self._repeats = Repeats()

    @property
    def repeated(self) -> int:
        """Return how many operations came before in this run, and were left out."""
        return self._repeats.dropped

    def fresh(self, batch: OwnedBatch, before: MessagePlace) -> Mask:
        """Return the operations that the trail does not have; raises TransactionError for ids out of order.

        ``before`` is the place of an operation whose message was in a batch before.
        """
        csn = _in_order(batch.operations)
        fresh = self._unknown(csn)
        if self._rule.by_id and self._rule.ordered:
            fresh &= self._once(batch, csn, before)
        rows = np.flatnonzero(fresh)
        if not len(rows):
            return fresh
        if len(rows) < len(csn):
            csn = csn.take(pa.array(rows))
        if self._rule.ordered:
            self._check_order(batch, csn, rows, before)
        highest = str(pc.max(csn))
        first, last = csn[0].as_py(), csn[-1].as_py()
        if self.span is None:
            place = _place(batch, int(batch.message[rows[0]]), before)
            self.span = IdSpan(first, last, highest, place)
        else:
            own = self.span
            self.span = IdSpan(own.first, last, max(own.highest, highest), own.place)
        return fresh

    def _once(self, batch: OwnedBatch, csn: pa.Array, before: MessagePlace) -> Mask:
        """Return which operations did not come before in this run."""
        begins = np.isin(batch.operations.tx_indicators(), (BEGIN, WHOLE))
        try:
            return self._repeats.fresh(csn, begins, content_numbers(batch.operations))
        except TransactionError as error:
            row = error.where.record or 0
            raise located(
                error, self._files, _place(batch, int(batch.message[row]), before)
            ) from None

    def _unknown(self, csn: pa.Array) -> Mask:
        """Return which ids the trail does not have; it is read only where an id is not above its highest."""
        last = self._rule.last
        if last is None or not len(csn):
            return np.ones(len(csn), bool)
        width = self._rule.width(last)
        if self._rule.width(csn[0].as_py()) != width:
            problem = f"the sequence id {csn[0].as_py()} has not the {width} characters of those in the trail ({last})"
            raise TransactionError(problem, hint="--again captures without comparing them")
        low = _mask(pc.less_equal(csn, last))
        if not low.any():
            return ~low
        known = low & _mask(pc.is_in(csn, self._rule.of_trail))
        self.skipped += int(known.sum())
        self.late += int((low & ~known).sum())
        return ~known

    def _check_order(
        self, batch: OwnedBatch, csn: pa.Array, rows: Longs, where: MessagePlace
    ) -> None:
        """Check that each transaction has a higher id than the one before; within one message it may be the same."""
        begun = np.isin(batch.operations.tx_indicators()[rows], (BEGIN, WHOLE))
        message = batch.message[rows]
        wrong = np.zeros(len(rows), bool)
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
        raise located(out_of_order(csn[row].as_py(), before), self._files, place)


def _place(batch: OwnedBatch, message: int, last: MessagePlace) -> MessagePlace:
    return last if message < 0 else place_of(batch.messages, message)


def check_spans(spans: Iterable[IdSpan], files: MessageFiles) -> None:
    """Check across ranges what each range checked within; raises TransactionError."""
    before: IdSpan | None = None
    for span in spans:
        if before is not None and span.first <= before.last:
            raise located(out_of_order(span.first, before.last), files, span.place)
        before = span


def out_of_order(own: str, before: str) -> TransactionError:
    """Return the error of an id that is not above the one before."""
    what = "repeats" if own == before else f"follows the higher {before}"
    return TransactionError(f"the sequence id {own} {what}", hint=HINT)


def _in_order(operations: ChangeBatch) -> pa.Array:
    """Return the sequence id of each operation's transaction, in the order of operations."""
    blocks = operations.blocks
    if not blocks:
        return pa.array([], pa.string())
    order = np.concatenate([block.order for block in blocks])
    return pa.concat_arrays([block.csn for block in blocks]).take(pa.array(np.argsort(order)))


def _mask(values: pa.Array) -> Mask:
    found: Mask = values.to_numpy(zero_copy_only=False)
    return found
