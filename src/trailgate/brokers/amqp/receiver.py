"""A receiver for AMQP 1.0: deliveries are accepted and settled; brokers do not confirm that (rcv-settle-mode first)."""

from __future__ import annotations

import time

from trailgate.brokers.address import BrokerAddress
from trailgate.brokers.amqp.connection import AmqpConnection, Delivered, proton
from trailgate.brokers.amqp.messages import find_messages, received_messages
from trailgate.brokers.receiver import Reconnecting, Window
from trailgate.errors import BrokerError


class AmqpReceiver(Reconnecting[AmqpConnection]):
    """Receives from one queue or topic; see ``Receiver``."""

    def __init__(self, address: BrokerAddress, *, lasting: bool = True) -> None:
        super().__init__(address, lasting=lasting)
        proton()

    def _open(self) -> AmqpConnection:
        return AmqpConnection(self._address)

    def _subscribe(self, connection: AmqpConnection) -> None:
        connection.subscribe(self._limit)

    def _is_refused(self, connection: AmqpConnection, _error: BrokerError) -> bool:
        return connection.is_detached

    def _receive(self, connection: AmqpConnection, seconds: float) -> Window | None:
        found = connection.deliveries
        if not connection.work(seconds, lambda: len(found) > 0):
            return None
        delivered = found.window(self._limit)
        messages = find_messages(delivered.data, delivered.places)
        rows = received_messages(messages, time.time_ns() // 1000)
        return Window(rows, (connection, delivered))

    def _acknowledge(self, connection: AmqpConnection, token: Delivered) -> None:
        connection.deliveries.accept(token)
        connection.work(0.0)

    def _settle(self, connection: AmqpConnection, seconds: float) -> bool:
        # AMQP's receivers settle first, so there is nothing to wait for once all is sent.
        return connection.work(seconds, lambda: connection.is_sent)
