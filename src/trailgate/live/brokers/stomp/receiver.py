"""A receiver for STOMP 1.2: windows of messages from one queue or topic, acknowledged by one frame each."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from typing import Final

import numpy as np

from trailgate.errors import BrokerError
from trailgate.live.brokers.address import QUEUE, BrokerAddress
from trailgate.live.brokers.receiver import CONNECT_SECONDS, Reconnecting, Window
from trailgate.live.brokers.stomp import kernels
from trailgate.live.brokers.stomp.connection import (
    ConsumerWatch,
    StompConnection,
    report,
    subscription,
)
from trailgate.live.brokers.stomp.frames import Frames
from trailgate.live.brokers.stomp.messages import received_messages

CLOSE_SECONDS: Final = 5.0
TOO_SLOW: Final = "AMQ229014"  # Artemis missed heart-beats, which is about the moment
_BYE: Final = "disconnected"


class StompReceiver(Reconnecting[StompConnection]):
    """Receives from one destination; see ``Receiver``."""

    def __init__(self, address: BrokerAddress, *, lasting: bool = True) -> None:
        super().__init__(address, lasting=lasting)
        self._receipts = 0
        self._is_reported = False  # an error, by the broker
        self._unconfirmed: set[str] = set()
        self._waiting: deque[Window] = deque()
        self._watch: ConsumerWatch | None = None

    def close(self) -> None:
        """Disconnect; see ``Receiver``."""
        if self._watch is not None:
            self._watch.close()
        super().close()

    def _open(self) -> StompConnection:
        connection = StompConnection(self._address)
        self._unconfirmed.clear()
        self._waiting.clear()  # messages of the connection before come again
        self._is_reported = False
        return connection

    def _subscribe(self, connection: StompConnection) -> None:
        if self._watch is None and self._address.kind == QUEUE:
            self._watch = ConsumerWatch(self._address)
            self._watch.wait()  # the broker reports those that come later, with the number of all
        headers = subscription(connection.dialect, self._address)
        connection.send("SUBSCRIBE", {**headers, "receipt": "subscribed"})
        if not self._take(connection, CONNECT_SECONDS):  # messages may come before the receipt
            raise connection.error("the broker does not answer to SUBSCRIBE")

    def _is_refused(self, _connection: StompConnection, error: BrokerError) -> bool:
        return self._is_reported and TOO_SLOW not in error.problem

    def _receive(self, connection: StompConnection, seconds: float) -> Window | None:
        if not self._waiting:
            self._take(connection, seconds)
        return self._waiting.popleft() if self._waiting else None

    def _acknowledge(self, connection: StompConnection, token: str) -> None:
        self._receipts += 1
        receipt = f"ack-{self._receipts}"
        connection.send("ACK", {"id": token, "receipt": receipt})
        self._unconfirmed.add(receipt)

    def _settle(self, connection: StompConnection, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while self._unconfirmed:
            left = until - time.monotonic()
            if left <= 0 or not self._take(connection, left):
                return False
        return True

    def _disconnect(self, connection: StompConnection) -> None:
        with suppress(BrokerError):
            # With its receipt, what was not acknowledged is in the queue again, in its order.
            connection.send("DISCONNECT", {"receipt": _BYE})
            self._unconfirmed.add(_BYE)
            until = time.monotonic() + CLOSE_SECONDS
            while _BYE in self._unconfirmed and self._take(connection, until - time.monotonic()):
                self._waiting.clear()

    def _take(self, connection: StompConnection, seconds: float) -> bool:
        """Note receipts, and make a window of the messages that have come; return whether anything has."""
        found = connection.frames(seconds, self._limit)
        if found is None:
            return False
        self._control(connection, found)
        rows = np.flatnonzero(found.kinds == kernels.MESSAGE)
        if len(rows):
            last = found.headers(int(rows[-1]))
            if "ack" not in last:
                problem = "the broker sent a message without an ack header"
                raise connection.error(problem, refused=True)
            named = self._address.options.get("id-header")
            messages = received_messages(found, connection.dialect, time.time_ns() // 1000, named)
            self._waiting.append(Window(messages, (connection, last["ack"])))
        return True

    def _control(self, connection: StompConnection, found: Frames) -> None:
        """Note receipts; raise BrokerError for an error of the broker."""
        if found.kinds.min() == found.kinds.max() == kernels.MESSAGE:
            return
        for at in np.flatnonzero(found.kinds != kernels.MESSAGE).tolist():
            kind = found.kinds[at]
            if kind == kernels.RECEIPT:
                self._unconfirmed.discard(found.headers(at).get("receipt-id", ""))
            elif kind == kernels.ERROR:
                self._is_reported = True
                raise connection.error(f"the broker reports an error: {report(found, at)}")
            else:
                raise connection.error("the broker sent a frame that no subscriber gets")
