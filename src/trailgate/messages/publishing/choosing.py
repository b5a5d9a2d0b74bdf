"""The operations of some tables, with indicators that fit: what remains of a transaction has a first and a last operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from trailgate.arrays import Mask
from trailgate.model.changes import BEGIN, END, WHOLE, ChangeBatch, ChangeBlock, indicators

Wanted = Callable[[ChangeBatch], Mask]


class ChosenOperations:
    """Takes the wanted operations of consecutive batches.

    Where a transaction continues in the next batch its last one is held, until it is known whether another one follows.
    """

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._held: ChangeBlock | None = None
        self._begun = False  # an operation of the open transaction was taken

    def take(self, batch: ChangeBatch) -> ChangeBatch:
        """Return what is wanted of the next operations, and what was held of those before."""
        keep, marks = self._wanted(batch), batch.tx_indicators()
        begins = (marks == BEGIN) | (marks == WHOLE)
        ended = np.zeros(int(begins.sum()) + 1, bool)  # transaction 0 was open before
        own = np.cumsum(begins)
        ended[own[(marks == END) | (marks == WHOLE)]] = True
        ended[0] |= bool(len(begins) and begins[0])
        rows = np.flatnonzero(keep)
        number = own[rows]
        first, last = np.ones(len(rows), bool), np.ones(len(rows), bool)
        first[1:] = last[:-1] = number[1:] != number[:-1]
        continues = bool(len(rows) and number[0] == 0)
        if continues:
            first[0] = not self._begun
        last &= ended[number]
        letters = indicators(first, last)
        released = self._released(continues=continues, ended=bool(ended[0]))
        kept = _marked(batch.where(keep), letters)
        if not ended[-1]:
            self._begun = (self._begun and len(ended) == 1) or bool(
                len(rows) and number[-1] == len(ended) - 1
            )
            if len(rows) and number[-1] == len(ended) - 1:
                kept = self._hold(kept)
        else:
            self._begun = False
        return _after(released, kept)

    def finish(self) -> ChangeBatch:
        """Return nothing: what is held belongs to a transaction that has not ended."""
        return ChangeBatch((), 0)

    def _released(self, *, continues: bool, ended: bool) -> ChangeBlock | None:
        """Return what was held, if it is known now whether another operation follows."""
        held = self._held
        if held is None or not (continues or ended):
            return None
        self._held = None
        if continues:
            return held
        whole = int(held.tx_ind[0]) in (BEGIN, WHOLE)
        return replace(held, tx_ind=np.full(1, WHOLE if whole else END, np.uint8))

    def _hold(self, kept: ChangeBatch) -> ChangeBatch:
        block, row = kept.find(kept.rows - 1)
        self._held = block.take(np.array([row]))
        keep = np.ones(kept.rows, bool)
        keep[-1] = False
        return kept.where(keep)


def _marked(batch: ChangeBatch, letters: np.ndarray) -> ChangeBatch:
    blocks = [replace(block, tx_ind=letters[block.order]) for block in batch.blocks]
    return ChangeBatch(blocks, batch.rows)


def _after(released: ChangeBlock | None, kept: ChangeBatch) -> ChangeBatch:
    if released is None:
        return kept
    first = replace(released, order=np.zeros(1, np.int64))
    moved = [replace(block, order=block.order + 1) for block in kept.blocks]
    return ChangeBatch([first, *moved], kept.rows + 1)
