"""GGS tokens of many records at once, one token of every record a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.logdump.records.transaction_numbers import BEFORE, NONE, Numbers
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.tokens import FRAME, LOGCSN, TRANID

Spans = tuple[Longs, Longs]
UNKNOWN: Final = (b"", b"")


@dataclass(frozen=True, slots=True)
class Transactions:
    """TRANID and LOGCSN of the transactions; ``number[i]`` is that of record i.

    Number 0 is the transaction that began in front of the records; ``last`` is the one that is open
    behind them.
    """

    number: Longs
    ids: tuple[tuple[bytes, bytes], ...]
    last: tuple[bytes, bytes]

    def which(self, good: Callable[[tuple[bytes, bytes]], bool]) -> Mask:
        """Tell which records belong to a transaction that is good."""
        chosen = np.array([good(one) for one in self.ids], bool)
        found: Mask = chosen[self.number]
        return found


def read_transactions(
    data: Octets,
    numbers: Numbers,
    tokens: Spans,
    order: ByteOrder,
    before: Callable[[], tuple[bytes, bytes]],
) -> Transactions:
    """Return the transactions of records; ``before`` tells the one open in front of them.

    trail format §8: only the first record of a transaction carries both tokens.
    """
    named = numbers.firsts[~numbers.orphan]
    tokens = tokens[0][named], tokens[1][named]
    codes = [payloads(data, tokens, order, code) for code in (TRANID, LOGCSN)]
    found = iter(zip(*codes, strict=True))
    ids = [UNKNOWN if orphan else next(found) for orphan in numbers.orphan.tolist()]
    asked = numbers.open == BEFORE or bool((numbers.number == BEFORE).any())
    whole = (before() if asked else UNKNOWN, *ids)
    last = UNKNOWN if numbers.open == NONE else whole[numbers.open]
    return Transactions(numbers.number, whole, last)


def payloads(data: Octets, tokens: Spans, order: ByteOrder, code: int) -> list[bytes]:
    """Return the payload of each record's first token of an id; empty where there is none."""
    count = len(tokens[0])
    starts, ends = np.full(count, -1), np.zeros(count, np.int64)
    for rows, place, stop in steps(data, tokens, order, code):
        new = starts[rows] < 0
        starts[rows[new]], ends[rows[new]] = place[new], stop[new]
    whole = data.tobytes() if count * 64 > len(data) else data
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    return [bytes(whole[start:end]) if start >= 0 else b"" for start, end in pairs]


def steps(
    data: Octets, tokens: Spans, order: ByteOrder, code: int
) -> Iterator[tuple[Longs, Longs, Longs]]:
    """Yield the rows, starts and ends of the payloads of one id, a token of each record a step."""
    frames = order.frames(data)
    place, stop = tokens[0].copy(), tokens[1]
    rows = np.flatnonzero(place + FRAME <= stop)
    while len(rows):
        frame = frames[place[rows]]
        start = place[rows] + FRAME
        end = start + order.lengths(frame).astype(np.int64)
        hit = (order.codes(frame) == code) & (end <= stop[rows])
        if hit.any():
            yield rows[hit], start[hit], end[hit]
        place[rows] = end
        rows = rows[end + FRAME <= stop[rows]]
