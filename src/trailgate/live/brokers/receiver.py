"""What every receiver does: it yields windows of messages, and acknowledges them when that is asked for.

``Reconnecting`` is the loop of receivers that acknowledge: receive, and connect again where the connection is lost, after waits that grow (``backoff.py``).
``Connection`` is the socket that they have, which is encrypted where the broker's address asks for that. A protocol adds how it logs in, subscribes,
receives and acknowledges.
"""

from __future__ import annotations

import logging
import re
import select
import socket
import ssl
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import pyarrow as pa

from trailgate.errors import BrokerError, BrokerRefusedError, Where
from trailgate.jobs.backoff import PATIENCE, Backoff
from trailgate.live.brokers.address import PROTOCOLS, BrokerAddress, check_tls_files


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


CONNECT_SECONDS: Final = 10.0
WINDOW: Final = 4096  # messages that are acknowledged at once, at most
_ALERT: Final = re.compile(r"alert.*(certificate|unknown ca|access denied)", re.IGNORECASE)
_NO_TLS: Final = re.compile(r"wrong.version.number|http.request|record layer", re.IGNORECASE)
WAITING: Final = "{} does not answer as it should: it is tried again"
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_LOG: Final = logging.getLogger("trailgate.brokers")


class Connection(ABC):
    """A socket to a broker, which does not block. All errors are BrokerErrors; after one it is of no more use."""

    def __init__(self, address: BrokerAddress) -> None:
        self._address, self._where = address, Where(source=str(address))
        self._is_ended = False  # the broker has closed it
        self._socket = _connect(address)
        try:
            self._log_in()
        except BaseException:
            self._socket.close()
            raise

    @property
    @abstractmethod
    def product(self) -> str:
        """Return the name that the broker gives itself."""

    @abstractmethod
    def owned_until(self, error: BrokerError) -> float:
        """Return until when the broker may take this consumer for alive after an error, as a moment of ``time.monotonic``."""

    @abstractmethod
    def _log_in(self) -> None:
        """Open the connection, and raise BrokerError where the broker does not answer, or refuses it."""

    def close(self) -> None:
        """Close the socket; the broker gives what was not acknowledged to somebody again."""
        self._socket.close()

    def error(self, problem: str, *, refused: bool = False, hint: str = "") -> BrokerError:
        """Return an error of this connection."""
        kind = BrokerRefusedError if refused else BrokerError
        return kind(problem, where=self._where, hint=hint)

    def _receive_into(self, room: memoryview) -> int | None:
        """Return how many bytes were there, 0 where the broker has closed the connection, None where nothing was there."""
        try:
            size = self._socket.recv_into(room)
        except _NOT_NOW:
            return None
        except ConnectionError:
            size = 0
        except OSError as error:
            # By TLS 1.3 that comes with the broker's first answer.
            refused = isinstance(error, ssl.SSLError) and _ALERT.search(str(error)) is not None
            what = "the broker refuses the certificate" if refused else "the connection is lost"
            raise self.error(f"{what}: {error}", refused=refused) from error
        self._is_ended |= not size
        return size

    def _send_some(self, data: bytes | memoryview) -> int:
        """Return how many bytes were sent, 0 where the socket takes none now."""
        try:
            return self._socket.send(data)
        except _NOT_NOW:
            return 0
        except OSError as error:
            self._is_ended = isinstance(error, ConnectionError)
            raise self.error(f"the connection is lost: {error}") from error

    def _wait(self, seconds: float, *, to_send: bool = False) -> None:
        """Wait until bytes have come, or can be sent if that is asked for, so long at most."""
        try:
            writes = [self._socket] if to_send else []
            select.select([self._socket], writes, [], max(0.0, seconds))
        except (OSError, ValueError) as error:
            raise self.error(f"the connection is lost: {error}") from error


def _connect(address: BrokerAddress) -> socket.socket:
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
        # Trying again may help: the broker may be being stopped.
        ended = isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
        in_vain = isinstance(error, (ssl.SSLError, ValueError)) and not ended
        kind = BrokerRefusedError if in_vain else BrokerError
        raise kind(
            f"no encrypted connection: {error}", where=where, hint=_plain_hint(address, error)
        ) from error
    return opened


def _plain_hint(address: BrokerAddress, error: Exception) -> str:
    """Return what to try where the port may be one without TLS: it closes the connection, sends nothing, or answers in its own protocol."""
    unlike_tls = isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
    closed = not isinstance(error, (ssl.SSLError, ValueError))
    if not unlike_tls and not closed and _NO_TLS.search(str(error)) is None:
        return ""
    plain = next(
        name for name, one in PROTOCOLS.items() if one.family is address.family and not one.tls
    )
    return f"The port may be one without TLS, which is {plain}://"


def _encrypt(plain: socket.socket, address: BrokerAddress) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=address.options.get("ca"))
    if "cert" in address.options:
        context.load_cert_chain(address.options["cert"], address.options.get("key"))
    return context.wrap_socket(plain, server_hostname=address.host)


C = TypeVar("C", bound=Connection)


class Reconnecting(ABC, Generic[C]):
    """Receives from one queue or topic; see ``Receiver``. The token of a window is its connection, and what acknowledging it needs."""

    def __init__(self, address: BrokerAddress, *, lasting: bool = True) -> None:
        check_tls_files(address)
        self._address, self._limit = address, address.number("window", WINDOW)
        self._backoff = Backoff(address.number("patience", PATIENCE), lasting=lasting)
        self._connection: C | None = None
        self._warned: str | None = None
        self.connections = 0

    @property
    def is_connected(self) -> bool:
        """Return whether there is a connection; see ``Receiver``."""
        return self._connection is not None

    def receive(self, seconds: float) -> Window | None:
        """Return what has arrived; see ``Receiver``."""
        until = time.monotonic() + seconds
        while self.is_connected or self._backoff.is_due(until):
            try:
                connection = self._connection or self._connect()
                window = self._receive(connection, max(0.0, until - time.monotonic()))
            except BrokerError as error:
                self._forget(error)
                self._backoff.note_failure(error)
                self._warn(error)
                continue
            if window is not None:
                self._backoff.reset()
            if window is not None or time.monotonic() >= until:
                return window
        return None

    def _warn(self, error: BrokerError) -> None:
        """Log why there is no connection, unless that was logged last.

        Before the first connection the reason ends the run if it lasts, so that only the waiting is noted.
        """
        text = str(error) if self.connections else WAITING.format(self._address)
        if text != self._warned:
            _LOG.warning("%s", text)
        self._warned = text

    def acknowledge(self, window: Window) -> None:
        """Acknowledge a window and all before it; see ``Receiver``."""
        connection, token = window.token
        if self._connection is None or connection is not self._connection:
            return
        try:
            self._acknowledge(self._connection, token)
        except BrokerError as error:
            _LOG.warning("%s", error)
            self._forget(error)

    def settle(self, seconds: float) -> bool:
        """Return whether all acknowledgements are confirmed; none waits where the connection is lost. See ``Receiver``."""
        try:
            return self._connection is None or self._settle(self._connection, seconds)
        except BrokerError as error:
            _LOG.warning("%s", error)
            self._forget(error)
        return True

    def close(self) -> None:
        """Disconnect; see ``Receiver``."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._disconnect(connection)
            connection.close()

    def _connect(self) -> C:
        """Return a new connection that is subscribed."""
        connection = self._open()
        try:
            self._subscribe(connection)
        except BrokerError as error:
            # A broker that accepted it before may be starting up, or still have the consumer that was lost.
            refused = self._is_refused(connection, error) and not self.connections
            connection.close()
            problem = f"the subscription fails: {error.problem}"
            raise connection.error(problem, refused=refused or not error.retriable) from error
        except BaseException:
            connection.close()
            raise
        _LOG.info("receiving from %s (%s)", self._address, connection.product)
        self._connection, self._warned = connection, None
        self.connections += 1
        self._backoff.note_answer()
        return connection

    def _forget(self, error: BrokerError) -> None:
        """Forget the connection after an error."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._backoff.note_loss(connection.owned_until(error))
            connection.close()

    @abstractmethod
    def _open(self) -> C:
        """Return a new connection that is logged in."""

    @abstractmethod
    def _subscribe(self, connection: C) -> None:
        """Return when the broker has confirmed the subscription."""

    @abstractmethod
    def _is_refused(self, connection: C, error: BrokerError) -> bool:
        """Return whether an error of a subscription was the broker's own answer."""

    @abstractmethod
    def _receive(self, connection: C, seconds: float) -> Window | None:
        """Return what has arrived."""

    @abstractmethod
    def _acknowledge(self, connection: C, token: Any) -> None:
        """Acknowledge a window."""

    @abstractmethod
    def _settle(self, connection: C, seconds: float) -> bool:
        """Return whether the broker has confirmed every acknowledgement."""

    def _disconnect(self, connection: C) -> None:
        """Do what the protocol asks for before a connection is closed."""
