"""Whether operations continue the transactions of those before them, from batch to batch and from part to part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from trailgate.arrays import Octets
from trailgate.errors import TransactionError, Where
from trailgate.model.changes import BEGIN, END, WHOLE, ChangeBatch

HINT: Final = "Were rows of a transaction left out, or is their order another one?"


def inside_after(indicators: Octets, *, inside: bool, row: int = 0) -> bool:
    """Return whether operations end inside a transaction, if they begin ``inside`` one or not.

    Raises TransactionError where one begins inside another, or continues that did not begin; ``row`` is the first one's.
    """
    begins = np.isin(indicators, (BEGIN, WHOLE))
    closed = np.concatenate([[not inside], np.isin(indicators, (END, WHOLE))])
    wrong = begins != closed[:-1]
    if wrong.any():
        at = int(np.argmax(wrong))
        raise TransactionError(
            f"a transaction {_problem(begins=bool(begins[at]))}", where=Where(record=row + at)
        )
    return not closed[-1]


def _problem(*, begins: bool) -> str:
    return "begins inside another one" if begins else "continues that did not begin"


@dataclass(frozen=True, slots=True)
class Ends:
    """The transactions that a part continues and leaves open, by their ids; None where it begins or ends between two.

    ``seq_id`` is the last operation's sequence id, that of its transaction where it has none of its own.
    """

    continues: str | None
    leaves: str | None
    seq_id: str | None = None


class Chain:
    """Follows the transactions through the batches of one part; ``ends`` is None while there was no operation."""

    def __init__(self) -> None:
        self.ends: Ends | None = None
        self._rows = 0

    def follow(self, batch: ChangeBatch) -> None:
        """Take the next operations; raises TransactionError where they do not continue those before."""
        if not batch.rows:
            return
        indicators = batch.tx_indicators()
        if self.ends is None:
            begins = int(indicators[0]) in (BEGIN, WHOLE)
            self.ends = Ends(None if begins else _tx_id(batch, 0), None)
            inside = not begins
        else:
            inside = self.ends.leaves is not None
        inside = inside_after(indicators, inside=inside, row=self._rows)
        leaves = _tx_id(batch, batch.rows - 1) if inside else None
        self.ends = Ends(self.ends.continues, leaves, _seq_id(batch) or self.ends.seq_id)
        self._rows += batch.rows


def _tx_id(batch: ChangeBatch, order: int) -> str:
    block, row = batch.find(order)
    return str(block.tx_id[row].as_py())


def _seq_id(batch: ChangeBatch) -> str | None:
    block, row = batch.find(batch.rows - 1)
    for column in (block.seq_id, block.csn):
        if column is not None and column[row].is_valid:
            return str(column[row].as_py())
    return None


def chained(open_transaction: str | None, parts: list[Ends]) -> str | None:
    """Return the transaction that is open after the parts, None for none; raises TransactionError where they do not meet."""
    for ends in parts:
        if ends.continues != open_transaction:
            if ends.continues is None:
                problem = f"a transaction begins inside {open_transaction}"
            elif open_transaction is None:
                problem = f"the transaction {ends.continues} continues, but did not begin"
            else:
                problem = f"the transaction {ends.continues} continues inside {open_transaction}"
            raise TransactionError(problem, hint=HINT)
        open_transaction = ends.leaves
    return open_transaction
