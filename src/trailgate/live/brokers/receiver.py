"""The common part of all receivers: receive windows of messages, acknowledge them, and reconnect.

``Receiver`` is the interface that a live capture uses. ``ReconnectingReceiver`` is the loop of the
protocols that acknowledge messages (STOMP and AMQP): receive, and if the connection is lost,
connect again after pauses that grow (``jobs/retries.py``). ``BrokerConnection`` is their
non-blocking socket, encrypted if the address requires TLS. A protocol adds the login, the
subscription, and how messages are received and acknowledged.

Kafka's library reconnects by itself, so its receiver does not use the loop.
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
from trailgate.jobs.retries import PATIENCE, Backoff
from trailgate.live.brokers.address import PROTOCOLS, BrokerAddress, check_tls_files, tls_hint
from trailgate.messages.message_batch import HeaderColumns

CONNECT_SECONDS: Final = 10.0
WINDOW: Final = 4096  # the most messages that are acknowledged at once

# OpenSSL's texts of a broker that refuses our certificate, and of a port that does not speak TLS.
_ALERT: Final = re.compile(r"alert.*(certificate|unknown ca|access denied)", re.IGNORECASE)
# [SSL: WRONG_VERSION_NUMBER] wrong version number
_NO_TLS: Final = re.compile(r"wrong.version.number|http.request|record layer", re.IGNORECASE)
WAITING: Final = "{}: no connection yet, retrying for {} s"
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_LOG: Final = logging.getLogger("trailgate.brokers")


@dataclass(frozen=True, slots=True)
class MessageWindow:
    """Messages that arrived from a broker together (rows of ``RECEIVED``), and the token to acknowledge them with.

    ``headers`` are their headers if the rows have no column for them.
    """

    messages: pa.RecordBatch
    token: Any = None
    headers: HeaderColumns | None = None


class Receiver(Protocol):
    """The interface of receivers: a connection to one queue or topic.

    The receiver connects on first use, and again after the connection is lost.
    """

    @property
    def is_connected(self) -> bool:
        """Whether the receiver is connected to its broker.

        If it is not, an empty result of ``receive`` does not mean that the queue is empty.
        """
        ...

    @property
    def connections(self) -> int:
        """The number of connections that the receiver has made so far."""
        ...

    def receive(self, seconds: float) -> MessageWindow | None:
        """Wait up to ``seconds`` for a first message, and return all that have arrived, or None.

        Reopens a lost connection during the wait. Raises BrokerRefusedError if a retry cannot
        succeed. Raises BrokerError if the broker has not answered within the seconds of the
        address's option patience: always before the first connection, later only if the receiver
        was not created as ``lasting``.
        """
        ...

    def acknowledge(self, window: MessageWindow) -> None:
        """Acknowledge a window's messages and all messages before them, so that the broker removes them.

        Does not wait for the broker: ``settle`` does. Does nothing if the window's connection is
        lost, because the broker then redelivers its messages.
        """
        ...

    def settle(self, seconds: float) -> bool:
        """Wait until the broker has confirmed every acknowledgement, and return whether it did so in time."""
        ...

    def close(self) -> None:
        """Disconnect. The broker redelivers unacknowledged messages to the next consumer."""
        ...


class BrokerConnection(ABC):
    """A non-blocking socket to a broker, the common part of STOMP and AMQP connections.

    Every failure is a BrokerError, after which the connection cannot be used any more.
    """

    def __init__(self, address: BrokerAddress) -> None:
        self._address, self._where = address, Where(source=str(address))
        self._is_ended = False  # True once the broker has closed the connection
        self._socket = _connect(address)
        try:
            self._log_in()
        except BaseException:
            self._socket.close()
            raise

    @property
    @abstractmethod
    def product(self) -> str:
        """The broker's name, such as "ActiveMQ-Artemis/2.31.2"."""

    @abstractmethod
    def owned_until(self, error: BrokerError) -> float:
        """Return the time until which the broker may hold this consumer's messages after an error.

        These are the unacknowledged messages. The result is in seconds of ``time.monotonic()``, or
        0 if the broker knows that the connection is lost and has released the messages.
        """

    @abstractmethod
    def _log_in(self) -> None:
        """Log in by the connection's protocol (STOMP or AMQP).

        Raises BrokerError if the broker does not answer or refuses the login.
        """

    def close(self) -> None:
        """Close the socket. The broker redelivers unacknowledged messages to the next consumer."""
        self._socket.close()

    def error(self, problem: str, *, refused: bool = False, hint: str = "") -> BrokerError:
        """Build a BrokerError with the address of this connection's broker.

        ``refused`` makes it a BrokerRefusedError: a retry cannot succeed.
        """
        kind = BrokerRefusedError if refused else BrokerError
        return kind(problem, where=self._where, hint=hint)

    def _receive_into(self, room: memoryview) -> int | None:
        """Receive bytes from the broker's socket into a buffer, without waiting.

        Returns the number of bytes, 0 if the broker has closed the connection, or None if nothing
        has arrived.
        """
        try:
            size = self._socket.recv_into(room)
        except _NOT_NOW:
            return None
        except ConnectionError:
            size = 0
        except OSError as error:
            # In TLS 1.3 a refused client certificate shows only here, with the broker's first answer.
            refused = isinstance(error, ssl.SSLError) and _ALERT.search(str(error)) is not None
            what = "the broker refuses the certificate" if refused else "the connection is lost"
            raise self.error(f"{what}: {error}", refused=refused) from error
        self._is_ended |= not size
        return size

    def _send_some(self, data: bytes | memoryview) -> int:
        """Send bytes to the broker without waiting. Returns how many, 0 if the buffer is full."""
        try:
            return self._socket.send(data)
        except _NOT_NOW:
            return 0
        except OSError as error:
            self._is_ended = isinstance(error, ConnectionError)
            raise self.error(f"the connection is lost: {error}") from error

    def _wait(self, seconds: float, *, to_send: bool = False) -> None:
        """Wait up to ``seconds`` until the broker's socket has bytes or (``to_send``) takes bytes."""
        try:
            writes = [self._socket] if to_send else []
            select.select([self._socket], writes, [], max(0.0, seconds))
        except (OSError, ValueError) as error:
            raise self.error(f"the connection is lost: {error}") from error


def _connect(address: BrokerAddress) -> socket.socket:
    """Open a non-blocking socket to a broker, encrypted if the address requires TLS.

    Raises BrokerError, or BrokerRefusedError if a retry cannot succeed.
    """
    where = Where(source=str(address))
    place = (address.host, address.port)
    try:
        plain = socket.create_connection(place, CONNECT_SECONDS)
    except ConnectionRefusedError as error:
        usual = PROTOCOLS[address.protocol].port
        hint = f"Is the broker running? {address.protocol}:// usually has port {usual}"
        problem = f"the broker cannot be reached: connection refused at port {address.port}"
        raise BrokerError(problem, where=where, hint=hint) from error
    except OSError as error:
        raise BrokerError(f"the broker cannot be reached: {error}", where=where) from error
    # Frames are small and wait for answers: Nagle's algorithm would delay each one by up to 40 ms.
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        opened = _encrypt(plain, address) if address.tls else plain
        # Only now: the handshake needs a blocking socket.
        opened.setblocking(False)
    except (OSError, ValueError) as error:
        plain.close()
        # A connection that is closed during the handshake may be a broker that is stopping: retry.
        ended = isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
        in_vain = isinstance(error, (ssl.SSLError, ValueError)) and not ended
        kind = BrokerRefusedError if in_vain else BrokerError
        raise kind(
            f"no encrypted connection: {error}", where=where, hint=_plain_hint(address, error)
        ) from error
    return opened


def _plain_hint(address: BrokerAddress, error: Exception) -> str:
    """Return a hint if a failed TLS handshake suggests that the broker's port has no TLS, or "".

    Such a port closes the connection, sends nothing, or answers in its own protocol.
    """
    unlike_tls = isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
    closed = not isinstance(error, (ssl.SSLError, ValueError))
    if not unlike_tls and not closed and _NO_TLS.search(str(error)) is None:
        return ""
    return tls_hint(address)


def _encrypt(plain: socket.socket, address: BrokerAddress) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=address.options.get("ca"))
    if "cert" in address.options:
        context.load_cert_chain(address.options["cert"], address.options.get("key"))
    return context.wrap_socket(plain, server_hostname=address.host)


C = TypeVar("C", bound=BrokerConnection)


class ReconnectingReceiver(ABC, Generic[C]):
    """Receives from one queue or topic, and reconnects after failures; implements ``Receiver``.

    A window's token consists of its connection and the protocol's own acknowledgement token.
    """

    def __init__(self, address: BrokerAddress, *, lasting: bool = True) -> None:
        check_tls_files(address)
        self._address, self._limit = address, address.number("window", WINDOW)
        self._patience = address.number("patience", PATIENCE)
        self._backoff = Backoff(self._patience, lasting=lasting)
        self._connection: C | None = None
        self._warned: str | None = None
        self.connections = 0

    @property
    def is_connected(self) -> bool:
        """Whether the receiver is connected now.

        If it is not, ``receive`` reconnects. See ``Receiver``.
        """
        return self._connection is not None

    def receive(self, seconds: float) -> MessageWindow | None:
        """Return the messages that have arrived, after reconnecting if the connection was lost; see ``Receiver``."""
        until = time.monotonic() + seconds
        # ``is_due`` waits between attempts, so this does not spin while the broker is away.
        while self.is_connected or self._backoff.is_due(until):
            try:
                connection = self._connection or self._connect()
                window = self._receive(connection, max(0.0, until - time.monotonic()))
            except BrokerError as error:
                self._forget(error)
                self._backoff.record_failure(error)
                self._warn(error)
                continue
            if window is not None:
                # A connection alone proves nothing: a broker may accept the login and then close,
                # or send what cannot be read. Messages are.
                self._backoff.record_answer()
                self._backoff.reset()
            if window is not None or time.monotonic() >= until:
                return window
        return None

    def _warn(self, error: BrokerError) -> None:
        """Log why there is no connection to the broker, unless the last log message was the same.

        Before the first connection, only the waiting is logged: if the fault lasts, it becomes the
        error that ends the run.
        """
        waiting = WAITING.format(self._address, self._patience)
        text = str(error) if self.connections else waiting
        if text != self._warned:
            _LOG.warning("%s", text)
        self._warned = text

    def acknowledge(self, window: MessageWindow) -> None:
        """Acknowledge a window, and all windows before it, unless its connection was lost; see ``Receiver``."""
        connection, token = window.token
        if self._connection is None or connection is not self._connection:
            return
        try:
            self._acknowledge(self._connection, token)
        except BrokerError as error:
            _LOG.warning("%s", error)
            self._forget(error)

    def settle(self, seconds: float) -> bool:
        """Wait for confirmations of acknowledgements, and return whether all have arrived; see ``Receiver``.

        If the connection is lost, no acknowledgement is pending, so the result is True.
        """
        try:
            return self._connection is None or self._settle(self._connection, seconds)
        except BrokerError as error:
            _LOG.warning("%s", error)
            self._forget(error)
        return True

    def close(self) -> None:
        """Disconnect from the broker; see ``Receiver``."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._disconnect(connection)
            connection.close()

    def _connect(self) -> C:
        """Open a connection to the broker and subscribe to the queue or topic.

        Raises BrokerError, or BrokerRefusedError if a retry cannot help. A rejected subscription is
        retried if an earlier one was accepted.
        """
        connection = self._open()
        try:
            self._subscribe(connection)
        except BrokerError as error:
            # If an earlier subscription was accepted, this refusal may pass: the broker may be
            # starting up, or may still count the lost consumer (an exclusive or durable one).
            refused = self._is_refused(connection, error) and not self.connections
            connection.close()
            problem = f"the subscription fails: {error.problem}"
            raise connection.error(problem, refused=refused or not error.retriable) from error
        except BaseException:
            connection.close()
            raise
        _LOG.info("receiving from %s (%s)", self._address, connection.product)
        self._connection, self._warned = connection, None
        if not self.connections:
            self._backoff.record_answer()
        self.connections += 1
        return connection

    def _forget(self, error: BrokerError) -> None:
        """Close the connection to the broker after an error.

        The next connection is delayed until the broker no longer holds the unacknowledged messages
        of this one.
        """
        connection, self._connection = self._connection, None
        if connection is not None:
            self._backoff.record_loss(connection.owned_until(error))
            connection.close()

    @abstractmethod
    def _open(self) -> C:
        """Open a connection of the protocol (STOMP or AMQP) and log in."""

    @abstractmethod
    def _subscribe(self, connection: C) -> None:
        """Subscribe to the address's queue or topic, and wait until the broker has confirmed it."""

    @abstractmethod
    def _is_refused(self, connection: C, error: BrokerError) -> bool:
        """Return whether a failed subscription was rejected by the broker, and did not fail otherwise."""

    @abstractmethod
    def _receive(self, connection: C, seconds: float) -> MessageWindow | None:
        """Wait up to ``seconds`` for messages on a connection. Returns a window of them, or None."""

    @abstractmethod
    def _acknowledge(self, connection: C, token: Any) -> None:
        """Send the acknowledgement of a window to the broker; ``token`` is the protocol's own."""

    @abstractmethod
    def _settle(self, connection: C, seconds: float) -> bool:
        """Wait until the broker has confirmed every acknowledgement. Returns whether it has."""

    def _disconnect(self, connection: C) -> None:
        """End the protocol's session before a connection is closed. The default does nothing."""
