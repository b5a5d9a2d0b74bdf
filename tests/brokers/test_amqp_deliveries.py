"""Deliveries of AMQP by the library's own engine, without a socket: in parts, aborted, in windows, and accepted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

proton = pytest.importorskip("proton", reason="AMQP needs the extra amqp")

from trailgate.live.brokers.amqp.receiver import EncodedWindow, LinkDeliveries  # noqa: E402  it needs the extra

AHEAD = 10


class Pair:
    """A sender and a receiver, whose bytes are moved from one to the other in chunks."""

    def __init__(self) -> None:
        self._ends = []
        for mode in (proton.Transport.SERVER, proton.Transport.CLIENT):
            transport, connection = proton.Transport(mode), proton.Connection()
            transport.bind(connection)
            connection.open()
            self._ends.append((transport, connection))
        session = self._ends[1][1].session()
        session.open()
        self.link = session.receiver("link")
        self.link.open()
        self.found: LinkDeliveries | None = None
        self.move()
        server = self._ends[0][1]
        server.session_head(proton.Endpoint.LOCAL_UNINIT).open()
        self.sender = server.link_head(proton.Endpoint.LOCAL_UNINIT)
        self.sender.open()
        self.move()
        self.found = LinkDeliveries(self.link, AHEAD)
        self.found.ask()
        self.move()

    def move(self, chunk: int = 1 << 16) -> None:
        """Move all bytes that wait, both ways; what has come is taken after each chunk."""
        moved = True
        while moved:
            moved = False
            for (sends, _), (takes, _) in (self._ends, self._ends[::-1]):
                while (size := min(sends.pending(), takes.capacity(), chunk)) > 0:
                    takes.push(sends.peek(size))
                    sends.pop(size)
                    moved = True
                    if self.found is not None:
                        self.found.take()

    def send(self, raw: bytes, *, whole: bool = True) -> Any:
        """Send a message, or its beginning; return its delivery."""
        delivery = self.sender.delivery(str(id(raw)))
        self.sender.stream(raw)
        if whole:
            self.sender.advance()
        return delivery


def window(found: LinkDeliveries | None, limit: int = 100) -> tuple[EncodedWindow, list[bytes]]:
    """Return the messages that wait, and their bytes."""
    assert found is not None
    delivered = found.window(limit)
    places = delivered.places.tolist()
    return delivered, [delivered.data[begin:end] for begin, end in pairwise(places)]


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=AHEAD), st.integers(1, 200))
def test_messages_are_whole_however_their_bytes_come(raws: Sequence[bytes], chunk: int) -> None:
    pair = Pair()
    for raw in raws:
        pair.send(raw)
    pair.move(chunk)

    assert window(pair.found)[1] == list(raws)


def test_a_message_longer_than_what_a_session_buffers_is_whole() -> None:
    pair, raw = Pair(), bytes(range(256)) * (1 << 14)
    pair.send(raw)
    pair.send(b"next")
    pair.move()

    assert window(pair.found)[1] == [raw, b"next"]


def test_what_has_come_of_an_aborted_delivery_is_discarded() -> None:
    pair = Pair()
    pair.send(b"first")
    begun = pair.send(b"x" * 100_000, whole=False)
    pair.move()
    assert len(pair.found or ()) == 1
    begun.abort()
    pair.move()
    pair.send(b"last")
    pair.move()

    assert window(pair.found)[1] == [b"first", b"last"]


def test_a_window_has_so_many_messages_at_most_and_the_next_one_the_rest() -> None:
    pair = Pair()
    for number in range(5):
        pair.send(b"%d" % number)
    pair.send(b"begun", whole=False)
    pair.move()

    assert window(pair.found, 3)[1] == [b"0", b"1", b"2"]
    assert window(pair.found, 3)[1] == [b"3", b"4"]
    assert pair.found is not None
    assert (len(pair.found), pair.found.waiting) == (0, len(b"begun"))


def test_the_sender_infers_what_was_accepted_and_that_more_may_come() -> None:
    pair = Pair()
    sent = [pair.send(b"%d" % number) for number in range(AHEAD)]
    pair.move()
    delivered, _ = window(pair.found, AHEAD - 1)
    assert pair.found is not None
    assert pair.sender.credit == 0
    pair.found.accept(delivered)
    pair.found.ask()
    pair.move()

    states = [one.remote_state for one in sent]
    assert states[:-1] == [proton.Delivery.ACCEPTED] * (AHEAD - 1)
    assert states[-1] != proton.Delivery.ACCEPTED
    assert pair.sender.credit == AHEAD
