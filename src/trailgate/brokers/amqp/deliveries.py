"""Deliveries of a link: the bytes of whole messages, one after the other, until a window is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs
from trailgate.brokers.amqp.library import proton_functions

LONGEST: Final = 1 << 30  # bytes of a message: what one column of bodies has room for, twice


class Delivered(NamedTuple):
    """Encoded messages: where each begins in the data, and the end; and what accepting them needs."""

    data: bytes
    places: Longs
    deliveries: Sequence[Any]


class Deliveries:
    """Takes what has come from a link. What is partly there is taken too, so that the session's window never closes."""

    def __init__(self, link: Any, ahead: int) -> None:
        self._link, self._ahead = link, ahead
        self._functions = proton_functions()
        self._data = bytearray()
        self._sizes: list[int] = []
        self._deliveries: list[Any] = []
        self._open = 0  # bytes at the end of the data, of a message that is not whole

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def waiting(self) -> int:
        """Return how many bytes were taken, and are in no window."""
        return len(self._data)

    @property
    def is_too_long(self) -> bool:
        """Return whether a message has more bytes than there may be."""
        return self._open > LONGEST

    def ask(self) -> None:
        """Let the broker send more, once half of what it may send ahead has come."""
        link = self._link._impl  # noqa: SLF001  the library's
        credit = self._functions.pn_link_credit(link)
        if 2 * credit <= self._ahead:
            self._functions.pn_link_flow(link, self._ahead - credit)

    def take(self) -> None:
        """Take the bytes that have come."""
        link, known = self._link._impl, self._functions  # noqa: SLF001  the library's
        current, advance, receive = known.pn_link_current, known.pn_link_advance, known.pn_link_recv
        while delivery := current(link):
            if known.pn_delivery_aborted(delivery):
                # AMQP 1.0, 2.7.5: what was transferred of it is to be discarded.
                del self._data[len(self._data) - self._open :]
                self._open = 0
                known.pn_delivery_settle(delivery)
                continue
            size, raw = receive(link, known.pn_delivery_pending(delivery))
            if size > 0:
                self._data += raw
                self._open += size
            if known.pn_delivery_partial(delivery):
                return
            self._sizes.append(self._open)
            self._deliveries.append(delivery)
            self._open = 0
            advance(link)

    def window(self, limit: int) -> Delivered:
        """Return the first messages, so many at most."""
        sizes, deliveries = self._sizes[:limit], self._deliveries[:limit]
        places = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=places[1:])
        data = bytes(memoryview(self._data)[: places[-1]])
        del self._sizes[:limit], self._deliveries[:limit], self._data[: places[-1]]
        return Delivered(data, places, deliveries)

    def accept(self, delivered: Delivered) -> None:
        """Accept and settle messages; they are forgotten by the broker once that has reached it."""
        known = self._functions
        for delivery in delivered.deliveries:
            known.pn_delivery_update(delivery, known.PN_ACCEPTED)
            known.pn_delivery_settle(delivery)
