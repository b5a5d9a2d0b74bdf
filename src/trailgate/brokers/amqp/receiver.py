"""A receiver for AMQP 1.0: deliveries are accepted and settled; brokers do not confirm that (rcv-settle-mode first)."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Final

from trailgate.brokers.address import BrokerAddress, check_tls_files
from trailgate.brokers.amqp.connection import SILENT, AmqpConnection, Delivered, Deliveries, proton
from trailgate.brokers.amqp.messages import find_messages, received_messages
from trailgate.brokers.receiver import Reconnecting, Window
from trailgate.errors import BrokerError

WINDOW: Final = 4096  # messages that are accepted at once, at most
_LOG: Final = logging.getLogger("trailgate.brokers")


@dataclass(frozen=True, slots=True, eq=False)
class _Link:
    """A connection, and what comes from its link."""

    connection: AmqpConnection
    deliveries: Deliveries


@dataclass(frozen=True, slots=True, eq=False)
class _Token:
    """The messages of a window, and the link that they came by."""

    link: _Link
    delivered: Delivered


class AmqpReceiver(Reconnecting):
    """Receives from one queue or topic; see ``Receiver``."""

    def __init__(self, address: BrokerAddress, *, lasting: bool = True) -> None:
        super().__init__(address, lasting=lasting)
        check_tls_files(address)
        proton()
        self._address = address
        self._limit = address.number("window", WINDOW)
        self._link: _Link | None = None
        self._was_subscribed = False

    @property
    def is_connected(self) -> bool:
        """Return whether there is a connection; see ``Receiver``."""
        return self._link is not None

    def acknowledge(self, window: Window) -> None:
        """Accept the messages of a window; see ``Receiver``."""
        token: _Token = window.token
        if token.link is not self._link:
            return
        token.link.deliveries.accept(token.delivered)
        try:
            token.link.connection.work(0.0)
        except BrokerError as error:
            self._lost(error)

    def settle(self, seconds: float) -> bool:
        """Return whether all was sent; AMQP's receivers settle first, so there is nothing to wait for. See ``Receiver``."""
        if self._link is None:
            return False
        connection = self._link.connection
        try:
            return connection.work(seconds, lambda: connection.is_sent)
        except BrokerError as error:
            self._lost(error)
        return False

    def close(self) -> None:
        """Close the connection; see ``Receiver``."""
        link, self._link = self._link, None
        if link is not None:
            link.connection.close()

    def _receive(self, seconds: float) -> Window | None:
        link = self._link or self._open()
        found = link.deliveries
        if not link.connection.work(seconds, lambda: len(found) > 0):
            return None
        delivered = found.window(self._limit)
        messages = find_messages(delivered.data, delivered.places)
        rows = received_messages(messages, time.time_ns() // 1000)
        return Window(rows, _Token(link, delivered))

    def _open(self) -> _Link:
        """Return a new connection with its link."""
        connection = AmqpConnection(self._address)
        try:
            link = _Link(connection, connection.subscribe(self._limit))
        except BrokerError as error:
            detached = connection.is_detached  # before the connection is closed too
            connection.close()
            # A broker that accepted it before may be starting up, or still have the consumer that was lost.
            refused = detached and not self._was_subscribed
            problem = f"the subscription fails: {error.problem}"
            raise connection.error(problem, refused=refused or not error.retriable) from error
        _LOG.info("receiving from %s (%s)", self._address, connection.product)
        self._link, self._was_subscribed = link, True
        self._reached()
        return link

    def _forget(self, error: BrokerError) -> None:
        link, self._link = self._link, None
        if link is not None:
            if SILENT in str(error):
                self._backoff.lost(link.connection.owned_until())
            link.connection.close()
