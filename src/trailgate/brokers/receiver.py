"""What every receiver does: it yields windows of messages, and acknowledges them when that is asked for.

``Reconnecting`` is the loop of receivers that acknowledge: receive, and connect again where the connection is lost, after waits that grow (``Backoff``).
Sockets are encrypted where the broker's address asks for that.
"""

from __future__ import annotations

import logging
import math
import random
import re
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from trailgate.brokers.address import BrokerAddress
from trailgate.errors import BrokerError, BrokerRefusedError, Where


@dataclass(frozen=True, slots=True)
class Window:
    """Messages that arrived together (``messages/received.py``), and what acknowledging them needs."""

    messages: pa.RecordBatch
    token: Any = None


class Receiver(Protocol):
    """A connection to one queue or topic; it is made when it is first used, and again after it is lost."""

    @property
    def is_connected(self) -> bool:
        """Return whether there is a connection: only then does nothing coming mean that there is nothing."""
        ...

    @property
    def connections(self) -> int:
        """Return how many connections were made."""
        ...

    def receive(self, seconds: float) -> Window | None:
        """Return what has arrived, after waiting so long for a first message at most; None where nothing came.

        A connection that is lost is made again meanwhile. Raises BrokerRefusedError where that is in vain, and
        BrokerError where nothing was ever reached, or, unless the receiver is lasting, nothing for as long as the address states.
        """
        ...

    def acknowledge(self, window: Window) -> None:
        """Ask the broker to forget a window and all before it; ``settle`` returns when it has.

        A window of a connection that is lost is not acknowledged: the broker gives its messages again.
        """
        ...

    def settle(self, seconds: float) -> bool:
        """Return whether the broker has confirmed every acknowledgement, waiting so long at most."""
        ...

    def close(self) -> None:
        """Let go of the broker; what was not acknowledged it gives to somebody again."""
        ...


# Seconds. A broker needs a moment until what a lost consumer had is in its queue again: somebody who comes earlier gets
# later messages first.
FIRST: Final = 1.0
LONGEST: Final = 30.0
FACTOR: Final = 2.0
PATIENCE: Final = 30  # seconds in which a broker has to answer for the first time


class Backoff:
    """Waits longer from trial to trial, with some chance in it so that many clients do not come at once.

    A broker that was reached is tried again for ever if the receiver is ``lasting``, else for ``patience`` seconds again.
    """

    def __init__(self, patience: float = PATIENCE, *, lasting: bool = True) -> None:
        self._seconds, self._due = FIRST, 0.0
        self._patience, self._lasting = patience, lasting
        self._reached, self._end = False, time.monotonic() + patience
        self._chance = random.Random()  # noqa: S311  it spreads trials, nothing is secret

    def reached(self) -> None:
        """Note that the broker answered."""
        self._reached, self._end = True, math.inf

    def reset(self) -> None:
        """Note that the connection works."""
        self._seconds = FIRST

    def lost(self, owned: float) -> None:
        """Note that the broker may keep what the lost consumer had until a moment of ``time.monotonic``."""
        self._due = max(self._due, owned)

    def failed(self, error: BrokerError) -> None:
        """Note that a trial failed; raises its error where another one is in vain, or the broker did not answer in time."""
        now = time.monotonic()
        if self._reached and not self._lasting:
            self._end = min(self._end, now + self._patience)
        if not error.retriable or now > self._end:
            raise error
        self._due = max(self._due, now + self._seconds * self._chance.uniform(1.0, 1.5))
        self._seconds = min(LONGEST, self._seconds * FACTOR)

    def is_due(self, until: float) -> bool:
        """Return whether it is time for another trial, waiting until a moment of ``time.monotonic`` at most."""
        time.sleep(max(0.0, min(self._due, until) - time.monotonic()))
        return time.monotonic() >= self._due


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
                window = self._receive(max(0.0, until - time.monotonic()))
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
    def _receive(self, seconds: float) -> Window | None:
        """Connect if there is no connection, and return what has arrived; raises BrokerError."""

    def _lost(self, error: BrokerError) -> None:
        """Note an error, and forget the connection."""
        _LOG.warning("%s", error)
        self._forget(error)

    @abstractmethod
    def _forget(self, error: BrokerError) -> None:
        """Forget a connection after an error."""


CONNECT_SECONDS: Final = 10.0
_ALERT: Final = re.compile(r"alert.*(certificate|unknown ca|access denied)", re.IGNORECASE)


def connect(address: BrokerAddress) -> socket.socket:
    """Return a socket that does not block; raises BrokerError where there is none, BrokerRefusedError where there never will be."""
    where = Where(source=str(address))
    place = (address.host, address.port)
    try:
        plain = socket.create_connection(place, CONNECT_SECONDS)
    except OSError as error:
        raise BrokerError(f"the broker cannot be reached: {error}", where=where) from error
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        opened = _encrypt(plain, address) if address.tls else plain
        opened.setblocking(False)
    except (OSError, ValueError) as error:
        plain.close()
        kind = BrokerError if _may_help(error) else BrokerRefusedError
        raise kind(f"no encrypted connection: {error}", where=where) from error
    return opened


def received_into(
    opened: socket.socket, room: memoryview, failed: Callable[..., BrokerError]
) -> int | None:
    """Return how many bytes were there, 0 where the connection is closed, None where nothing was there.

    Raises the error that ``failed`` makes of a problem; ``refused`` is set where the broker refuses the client's certificate.
    """
    try:
        return opened.recv_into(room)
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return None
    except ConnectionError:
        return 0
    except OSError as error:
        # By TLS 1.3 that comes with the broker's first answer.
        refused = isinstance(error, ssl.SSLError) and _ALERT.search(str(error)) is not None
        what = "the broker refuses the certificate" if refused else "the connection is lost"
        raise failed(f"{what}: {error}", refused=refused) from error


def _may_help(error: Exception) -> bool:
    """Return whether trying again may help where an encrypted connection fails: the broker may be being stopped."""
    ended = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
    return isinstance(error, ended) or not isinstance(error, (ssl.SSLError, ValueError))


def _encrypt(plain: socket.socket, address: BrokerAddress) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=address.options.get("ca"))
    if "cert" in address.options:
        context.load_cert_chain(address.options["cert"], address.options.get("key"))
    return context.wrap_socket(plain, server_hostname=address.host)
