"""Receive windows of messages from STOMP 1.2 brokers. One ACK frame acknowledges a window."""

from __future__ import annotations

import time
from collections import deque
from typing import Final

import numpy as np

from trailgate.errors import BrokerError
from trailgate.live.brokers.address import QUEUE, BrokerAddress
from trailgate.live.brokers.receiver import CONNECT_SECONDS, MessageWindow, ReconnectingReceiver
from trailgate.live.brokers.stomp import kernels
from trailgate.live.brokers.stomp.connection import StompConnection, queue_name, subscribe_headers
from trailgate.live.brokers.stomp.consumers import ConsumerWatch, wait_for_return
from trailgate.live.brokers.stomp.frames import StompFrames, error_text
from trailgate.live.brokers.stomp.messages import received_messages

NO_ACK: Final = (
    "The message cannot be acknowledged: receive it by AMQP (amqp://), if the broker has it"
)
TOO_SLOW: Final = "AMQ229014"  # Artemis's code for missing heart-beats, which is temporary


class StompReceiver(ReconnectingReceiver[StompConnection]):
    """Receives from one queue or topic by STOMP 1.2; see ``Receiver``."""

    def __init__(self, address: BrokerAddress, *, lasting: bool = True) -> None:
        super().__init__(address, lasting=lasting)
        self._receipts = 0
        self._is_reported = False  # True once the broker has sent an ERROR frame
        self._unconfirmed: set[str] = set()
        self._waiting: deque[MessageWindow] = deque()
        self._watch: ConsumerWatch | None = None

    def close(self) -> None:
        """Stop the watch for other consumers, and disconnect; see ``Receiver``."""
        if self._watch is not None:
            self._watch.close()
        super().close()

    def _open(self) -> StompConnection:
        connection = StompConnection(self._address)
        # Messages that a lost consumer held come back later, and after newer ones: reading must
        # wait for them.
        if self._address.kind == QUEUE:
            try:
                wait_for_return(connection, self._address, queue_name(self._address))
            except BaseException:
                connection.close()
                raise
        self._unconfirmed.clear()
        self._waiting.clear()  # the broker redelivers the lost connection's messages
        self._is_reported = False
        return connection

    def _subscribe(self, connection: StompConnection) -> None:
        if self._watch is None and self._address.kind == QUEUE:
            self._watch = ConsumerWatch(self._address)
            # The broker reports only consumers that come after the watch, so watch before
            # subscribing. Our own report then has the number of all consumers.
            self._watch.wait()
        headers = subscribe_headers(connection.dialect, self._address)
        connection.send("SUBSCRIBE", {**headers, "receipt": "subscribed"})
        if not self._take(connection, CONNECT_SECONDS):  # messages may come before the receipt
            raise connection.error("the broker does not answer to SUBSCRIBE")

    def _is_refused(self, _connection: StompConnection, error: BrokerError) -> bool:
        return self._is_reported and TOO_SLOW not in error.problem

    def _receive(self, connection: StompConnection, seconds: float) -> MessageWindow | None:
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
        # Every answer of the broker may confirm one receipt or bring messages, which are kept in
        # `_waiting`. Take as many answers as it needs until no receipt is open, or until the time
        # is over.
        while self._unconfirmed:
            left = until - time.monotonic()
            if left <= 0 or not self._take(connection, left):
                return False
        return True

    def _disconnect(self, connection: StompConnection) -> None:
        connection.disconnect()

    def _take(self, connection: StompConnection, seconds: float) -> bool:
        """Process the STOMP frames that have arrived: receipts, and messages, which become a waiting window.

        Returns whether any frame had arrived.
        """
        frames = connection.frames(seconds, self._limit)
        if frames is None:
            return False
        self._control(connection, frames)
        rows = np.flatnonzero(frames.kinds == kernels.MESSAGE)
        if len(rows):
            # Acknowledgements are cumulative, so only the last message's id is needed.
            last = frames.headers(int(rows[-1]))
            if "ack" not in last:
                problem = "the broker sent a message without an ack header"
                raise connection.error(problem, refused=True)
            undefined = frames.undefined_escape(int(rows[-1]), "ack")
            if undefined:
                problem = f"the ack header of the message {last.get('message-id', 'without an id')} has the escape {undefined}, which STOMP 1.2 does not have"
                raise connection.error(problem, refused=True, hint=NO_ACK)
            named = self._address.options.get("id-header")
            messages = received_messages(frames, connection.dialect, time.time_ns() // 1000, named)
            self._waiting.append(MessageWindow(messages, (connection, last["ack"])))
        return True

    def _control(self, connection: StompConnection, frames: StompFrames) -> None:
        """Process the STOMP frames that are not messages: receipts confirm acknowledgements.

        Raises BrokerError for an ERROR frame, and for one that a subscriber does not expect.
        """
        if frames.kinds.min() == frames.kinds.max() == kernels.MESSAGE:
            return
        for at in np.flatnonzero(frames.kinds != kernels.MESSAGE).tolist():
            kind = frames.kinds[at]
            if kind == kernels.RECEIPT:
                self._unconfirmed.discard(frames.headers(at).get("receipt-id", ""))
            elif kind == kernels.ERROR:
                self._is_reported = True
                raise connection.error(f"the broker reports an error: {error_text(frames, at)}")
            else:
                raise connection.error("the broker sent a frame that is not for subscribers")
