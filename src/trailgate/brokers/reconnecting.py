"""The loop of every receiver that acknowledges: receive, and connect again where the connection is lost."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from typing import Final

from trailgate.brokers.address import BrokerAddress
from trailgate.brokers.backoff import PATIENCE, Backoff
from trailgate.brokers.receiver import Window
from trailgate.errors import BrokerError

_LOG: Final = logging.getLogger("trailgate.brokers")


class Reconnecting(ABC):
    """Receives windows; a protocol connects, receives and forgets a connection that is lost; see ``Receiver``."""

    def __init__(self, address: BrokerAddress, *, lasting: bool) -> None:
        self._backoff = Backoff(address.number("patience", PATIENCE), lasting=lasting)
        self.connections = 0

    def _reached(self) -> None:
        """Note a connection that works."""
        self.connections += 1
        self._backoff.reached()

    @property
    @abstractmethod
    def is_connected(self) -> bool:
        """Return whether there is a connection; see ``Receiver``."""

    def receive(self, seconds: float) -> Window | None:
        """Return what has arrived; see ``Receiver``."""
        until = time.monotonic() + seconds
        while self.is_connected or self._backoff.is_due(until):
            try:
                window = self._received(max(0.0, until - time.monotonic()))
            except BrokerError as error:
                self._forget(error)
                self._backoff.failed(error)
                _LOG.warning("%s", error)
                continue
            if window is not None:
                self._backoff.reset()
            if window is not None or time.monotonic() >= until:
                return window
        return None

    @abstractmethod
    def _received(self, seconds: float) -> Window | None:
        """Connect if there is no connection, and return what has arrived; raises BrokerError."""

    def _lost(self, error: BrokerError) -> None:
        """Note an error, and forget the connection."""
        _LOG.warning("%s", error)
        self._forget(error)

    @abstractmethod
    def _forget(self, error: BrokerError) -> None:
        """Forget a connection after an error."""
