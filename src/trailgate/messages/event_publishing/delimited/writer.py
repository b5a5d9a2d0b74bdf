"""Operations to delimited publications: the mirror of ``reading``."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets
from trailgate.columnar.templates import MeasuredRows, measure
from trailgate.errors import EncodeError
from trailgate.messages.event_publishing.delimited.record_pieces import (
    SEGMENT,
    SEGMENT_DIGITS,
    RecordPieces,
)
from trailgate.messages.event_publishing.delimited.writer_options import DelimitedPublishOptions
from trailgate.messages.publishing.bodies import bodies_of
from trailgate.messages.publishing.cutting import Cut, cut_messages
from trailgate.messages.publishing.messages import BEFORE, NO_MESSAGES, Messages
from trailgate.messages.publishing.options import ROW
from trailgate.model.changes import BEGIN, END, WHOLE, ChangeBatch, ChangeBlock

MOST_SEGMENTS: Final = 10**SEGMENT_DIGITS
_NOTHING: Final = np.zeros(0, np.uint8)


class DelimitedWriter:
    """Writes delimited publications; the message of an open transaction is held until it is full or the transaction ends."""

    def __init__(self, options: DelimitedPublishOptions) -> None:
        self.options = options
        self._pieces = RecordPieces(options)
        self._held, self._number = _NOTHING, 0

    def write(self, batch: ChangeBatch) -> Messages:
        """Return the messages that are complete with this batch; raises EncodeError for what the format cannot hold."""
        if not batch.rows:
            return NO_MESSAGES
        measured = [(block.order, self._measured(block)) for block in batch.blocks if len(block)]
        sizes = np.empty(batch.rows, np.int64)
        for order, rows in measured:
            sizes[order] = rows.sizes
        marks = batch.tx_indicators()
        held = len(self._held)
        cut = cut_messages(
            sizes,
            (marks == BEGIN) | (marks == WHOLE),
            self.options,
            held=held or -1,
            number=self._number,
        )
        starts = np.cumsum(sizes) - sizes + held
        out = np.empty(held + int(sizes.sum()), np.uint8)
        out[:held] = self._held
        self._number_segments(cut, measured, batch.rows)
        for order, rows in measured:
            rows.write(starts[order], out)
        ended = self.options.content == ROW or int(marks[-1]) in (END, WHOLE)
        return self._taken(out, cut, starts, ended=ended)

    def finish(self) -> Messages:
        """Return the message that was held."""
        if not len(self._held):
            return NO_MESSAGES
        bodies = bodies_of(self._held, np.array([0, len(self._held)]))
        self._held = _NOTHING
        return Messages(bodies, np.array([BEFORE]))

    def _measured(self, block: ChangeBlock) -> MeasuredRows:
        marks = self._pieces.delimiters
        pieces = self._pieces.of(block)
        return measure(pieces, marks.recorddelim, len(block), marks.quote[0])

    def _number_segments(
        self, cut: Cut, measured: list[tuple[Longs, MeasuredRows]], rows: int
    ) -> None:
        """Write the number of each record's message in its transaction, where one has more than a message."""
        first = np.append(cut.first, rows)
        numbers = np.repeat(cut.segment, np.diff(first))
        numbers = np.concatenate([np.full(int(first[0]), self._number), numbers])
        if not numbers.any():
            return
        if int(numbers.max()) >= MOST_SEGMENTS:
            problem = f"a transaction has more than {MOST_SEGMENTS} messages, whose numbers have {SEGMENT_DIGITS} digits"
            raise EncodeError(problem, hint="Set a higher max-message-bytes")
        powers = 10 ** np.arange(SEGMENT_DIGITS - 1, -1, -1)
        digits = (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)
        for order, of_block in measured:
            of_block.fixed(SEGMENT, SEGMENT_DIGITS)[:] = digits[order]

    def _taken(self, out: Octets, cut: Cut, starts: Longs, *, ended: bool) -> Messages:
        """Return the messages that are complete, and hold the last one where its transaction continues."""
        held = len(self._held) > 0
        begins = np.append(starts[cut.first], len(out))
        if len(cut.segment):
            self._number = int(cut.segment[-1])
        order = cut.first
        if held:
            begins, order = np.append(0, begins), np.append(BEFORE, order)
        if ended:
            self._held = _NOTHING
        else:
            self._held = out[begins[-2] :].copy()
            begins, order = begins[:-1], order[:-1]
        return Messages(bodies_of(out, begins), order.astype(np.int64))
