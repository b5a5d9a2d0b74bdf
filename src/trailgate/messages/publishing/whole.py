"""The messages of whole transactions: those of one that has not ended are held back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trailgate.messages.publishing.messages import Messages, MessageWriter
from trailgate.model.changes import END, WHOLE, ChangeBatch


class WholeTransactions:
    """Gives the messages of consecutive batches, as soon as their transactions have ended."""

    def __init__(self, writer: MessageWriter) -> None:
        self._writer = writer
        self._held: list[Messages] = []
        self._open = False

    def write(self, batch: ChangeBatch) -> Iterator[Messages]:
        """Yield the messages of transactions that have ended with this batch."""
        messages = self._writer.write(batch)
        marks = batch.tx_indicators()
        ends = np.flatnonzero((marks == END) | (marks == WHOLE))
        if batch.rows:
            self._open = int(marks[-1]) not in (END, WHOLE)
        if not len(ends):
            self._held.append(messages)
            return
        yield from self._held
        safe = int(np.searchsorted(messages.order, int(ends[-1]) + 1))
        yield messages.slice(0, safe)
        self._held = [messages.slice(safe, len(messages))]

    def finish(self, *, give_open: bool = False) -> Iterator[Messages]:
        """Yield what is left, of a transaction that has not ended too if asked."""
        rest = self._writer.finish()
        if give_open or not self._open:
            yield from self._held
            yield rest
        self._held = []
