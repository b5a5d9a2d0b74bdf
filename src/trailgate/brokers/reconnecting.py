"""The loop of every receiver that acknowledges: receive, and connect again where the connection is lost."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from trailgate.brokers.backoff import Backoff
from trailgate.brokers.receiver import Window
from trailgate.errors import BrokerError


class Reconnecting(ABC):
    """Receives windows; a protocol connects, receives and forgets a connection that is lost."""

    def __init__(self) -> None:
        self._backoff = Backoff()

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
                self._lost(error)
                self._backoff.failed(error)
                continue
            if window is not None:
                self._backoff.reset()
            if window is not None or time.monotonic() >= until:
                return window
        return None

    @abstractmethod
    def _received(self, seconds: float) -> Window | None:
        """Connect if there is no connection, and return what has arrived; raises BrokerError."""

    @abstractmethod
    def _lost(self, error: BrokerError) -> None:
        """Forget a connection after an error."""
