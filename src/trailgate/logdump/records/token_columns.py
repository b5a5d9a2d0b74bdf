"""The ids of transactions, from the GGS tokens of many records at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.columnar.gather import gather
from trailgate.logdump.records.transaction_numbers import BEFORE, NONE, Numbers
from trailgate.trail.format.tokens import LOGCSN, TRANID
from trailgate.trail.records.token_places import find_token
from trailgate.trail.records.trail_bytes import Spans, TrailBytes

UNKNOWN: Final = (b"", b"")


@dataclass(frozen=True, slots=True)
class Transactions:
    """TRANID and LOGCSN of the transactions; ``number[i]`` is that of record i.

    Number 0 is the transaction that began before the records; ``last`` is the one that is open
    after them.
    """

    number: Longs
    ids: tuple[tuple[bytes, bytes], ...]
    last: tuple[bytes, bytes]

    def which(self, good: Callable[[tuple[bytes, bytes]], bool]) -> Mask:
        """Return which records belong to a transaction that is good."""
        chosen = np.array([good(one) for one in self.ids], bool)
        found: Mask = chosen[self.number]
        return found


def read_transactions(
    source: TrailBytes, tokens: Spans, numbers: Numbers, before: Callable[[], tuple[bytes, bytes]]
) -> Transactions:
    """Return the transactions of records; ``before`` returns the one open before them.

    trail format §8: only the first record of a transaction carries both tokens.
    """
    areas = tokens.take(numbers.firsts[~numbers.orphan])
    found = iter(zip(*(payloads(source, areas, code) for code in (TRANID, LOGCSN)), strict=True))
    ids = [UNKNOWN if orphan else next(found) for orphan in numbers.orphan.tolist()]
    asked = numbers.open == BEFORE or bool((numbers.number == BEFORE).any())
    whole = (before() if asked else UNKNOWN, *ids)
    last = UNKNOWN if numbers.open == NONE else whole[numbers.open]
    return Transactions(numbers.number, whole, last)


def payloads(source: TrailBytes, areas: Spans, code: int) -> list[bytes]:
    """Return the payload of each area's first token of an id; empty where there is none."""
    spans = find_token(source, areas, code).spans
    there = spans.starts >= 0
    starts, ends = np.where(there, spans.starts, 0), np.where(there, spans.ends, 0)
    values: list[bytes] = gather(source.buffer, starts, ends).to_pylist()
    return values
