"""A receiver for STOMP 1.2: windows of messages from one queue or topic, acknowledged by one frame each."""

from __future__ import annotations

import logging
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np

from trailgate.brokers.address import QUEUE, BrokerAddress, check_tls_files
from trailgate.brokers.receiver import CONNECT_SECONDS, Reconnecting, Window
from trailgate.brokers.stomp import kernels
from trailgate.brokers.stomp.connection import ConsumerWatch, StompConnection, report, subscription
from trailgate.brokers.stomp.frames import Frames
from trailgate.brokers.stomp.messages import received_messages
from trailgate.errors import BrokerError

WINDOW: Final = 4096  # messages that are acknowledged at once, at most
CLOSE_SECONDS: Final = 5.0
TOO_SLOW: Final = "AMQ229014"  # Artemis missed heart-beats, which is about the moment
_BYE: Final = "disconnected"
_LOG: Final = logging.getLogger("trailgate.brokers")


@dataclass(frozen=True, slots=True)
class _Token:
    """The last message of a window: the connection that it came by, and what ACK names it by."""

    connection: StompConnection
    ack: str


class StompReceiver(Reconnecting):
    """Receives from one destination; see ``Receiver``."""

    def __init__(self, address: BrokerAddress, *, lasting: bool = True) -> None:
        super().__init__(address, lasting=lasting)
        check_tls_files(address)
        self._address = address
        self._connection: StompConnection | None = None
        self._limit = address.number("window", WINDOW)
        self._receipts = 0
        self._reported, self._was_subscribed = False, False
        self._unconfirmed: set[str] = set()
        self._waiting: deque[Window] = deque()
        self._watch: ConsumerWatch | None = None

    @property
    def is_connected(self) -> bool:
        """Return whether there is a connection; see ``Receiver``."""
        return self._connection is not None

    def acknowledge(self, window: Window) -> None:
        """Send one ACK for a window and all before it; see ``Receiver``."""
        token: _Token = window.token
        if token.connection is not self._connection:
            return
        self._receipts += 1
        receipt = f"ack-{self._receipts}"
        try:
            token.connection.send("ACK", {"id": token.ack, "receipt": receipt})
        except BrokerError as error:
            self._lost(error)
            return
        self._unconfirmed.add(receipt)

    def settle(self, seconds: float) -> bool:
        """Return whether all acknowledgements are confirmed; see ``Receiver``."""
        until = time.monotonic() + seconds
        try:
            while self._unconfirmed and self._connection is not None:
                left = until - time.monotonic()
                if left <= 0 or not self._take(self._connection, left):
                    return False
        except BrokerError as error:
            self._lost(error)
        return not self._unconfirmed

    def close(self) -> None:
        """Disconnect; see ``Receiver``."""
        if self._watch is not None:
            self._watch.close()
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with suppress(BrokerError):
            # With its receipt, what was not acknowledged is in the queue again, in its order.
            connection.send("DISCONNECT", {"receipt": _BYE})
            self._unconfirmed.add(_BYE)
            until = time.monotonic() + CLOSE_SECONDS
            while _BYE in self._unconfirmed and self._take(connection, until - time.monotonic()):
                self._waiting.clear()
        connection.close()

    def _receive(self, seconds: float) -> Window | None:
        connection = self._connection or self._subscribe()
        if not self._waiting:
            self._take(connection, seconds)
        if not self._waiting:
            return None
        return self._waiting.popleft()

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
            self._waiting.append(Window(messages, _Token(connection, last["ack"])))
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
                self._reported = True
                raise connection.error(f"the broker reports an error: {report(found, at)}")
            else:
                raise connection.error("the broker sent a frame that no subscriber gets")

    def _subscribe(self) -> StompConnection:
        """Return a new connection that is subscribed."""
        connection = StompConnection(self._address)
        self._reported = False
        if self._watch is None and self._address.kind == QUEUE:
            self._watch = ConsumerWatch(self._address)
            self._watch.wait()  # the broker reports those that come later, with the number of all
        try:
            headers = subscription(connection.dialect, self._address)
            connection.send("SUBSCRIBE", {**headers, "receipt": "subscribed"})
            self._check_subscribed(connection)
        except BaseException:
            connection.close()
            raise
        _LOG.info("receiving from %s (%s)", self._address, connection.server or "unnamed")
        self._connection, self._was_subscribed = connection, True
        self._reached()
        return connection

    def _check_subscribed(self, connection: StompConnection) -> None:
        """Return when the broker has confirmed the subscription; messages may come before that."""
        try:
            answered = self._take(connection, CONNECT_SECONDS)
        except BrokerError as error:
            problem = f"the subscription fails: {error.problem}"
            # A broker that accepted it before may be starting up, or still have the consumer that was lost.
            refused = self._reported and not self._was_subscribed and TOO_SLOW not in problem
            raise connection.error(problem, refused=refused) from error
        if not answered:
            raise connection.error("the broker does not answer to SUBSCRIBE")

    def _forget(self, _error: BrokerError) -> None:
        connection, self._connection = self._connection, None
        self._unconfirmed.clear()
        self._waiting.clear()  # its messages come again
        if connection is not None:
            self._backoff.lost(connection.owned_until())
            connection.close()
