"""One connection of AMQP 1.0: a socket, and the library's engine, which knows the protocol and does no input or output."""

from __future__ import annotations

import select
import ssl
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from trailgate.brokers.address import BrokerAddress
from trailgate.brokers.amqp.deliveries import LONGEST, Deliveries
from trailgate.brokers.amqp.library import proton
from trailgate.brokers.amqp.source import name_source
from trailgate.brokers.sockets import CONNECT_SECONDS, connected, received_into
from trailgate.errors import BrokerError, BrokerRefusedError, Where

ROOM: Final = 1 << 18  # bytes that are received at once
WINDOW_BYTES: Final = 4 << 20  # bytes of messages that are received before a window is made of them
AHEAD: Final = 1000  # messages that the broker sends ahead
HEARTBEAT: Final = 10  # seconds
CLOSE_SECONDS: Final = 5.0
REASON_SECONDS: Final = 1.0  # in which a broker that refuses a link gives the reason
SILENT: Final = "idle-timeout"  # in the engine's error where nothing came for so long
# After which a broker gives up that does not announce it: Artemis by default.
OWNED_SECONDS: Final = 61.0
LOGIN_REFUSED: Final = "amqp:unauthorized-access"
REFUSALS: Final = frozenset(
    {
        LOGIN_REFUSED,
        "amqp:not-found",
        "amqp:not-allowed",
        "amqp:invalid-field",
    }
)


class AmqpConnection:
    """A connection that is logged in, with one link at most. All errors are BrokerErrors; after one it is of no more use."""

    def __init__(self, address: BrokerAddress) -> None:
        self._address, self._where = address, Where(source=str(address))
        self._proton = proton()
        self._socket = connected(address)
        self._room = memoryview(bytearray(ROOM))
        self._is_ended, self.is_detached = False, False
        self._session: Any = None
        self._link: Any = None
        self._deliveries: Deliveries | None = None
        self._limit = 1
        try:
            self._transport, self._engine = self._engines()
            self._engine.open()
            self._answer(self._engine)
        except BaseException:
            self._socket.close()
            raise

    @property
    def product(self) -> str:
        """Return the name that the broker gives itself."""
        return str((self._engine.remote_properties or {}).get("product", "unnamed"))

    @property
    def is_sent(self) -> bool:
        """Return whether all that was to be sent has left this process."""
        return not self._transport.pending() > 0

    def subscribe(self, limit: int) -> Deliveries:
        """Return the deliveries of the address's queue or topic; no more are received while so many wait."""
        session = self._engine.session()
        session.open()
        link = session.receiver(self._address.options.get("durable") or str(uuid.uuid4()))
        name_source(link.source, self._address, self._engine.remote_properties or {})
        self._session, self._link, self._limit = session, link, limit
        deliveries = Deliveries(link, self._address.number("prefetch", AHEAD))
        link.open()
        self._answer(link)
        if link.source.address != link.remote_source.address:
            # AMQP 1.0, 2.6.3: a link that is refused is attached without a source, and detached with the reason.
            self.work(REASON_SECONDS)
            raise self.error("the broker attached another source than the one asked for")
        self._deliveries = deliveries
        return deliveries

    def work(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Receive and send for so long, or until something has happened; return whether it has."""
        end = time.monotonic() + seconds
        while True:
            due = self._exchange()
            if until():
                return True
            now = time.monotonic()
            if now >= end:
                return False
            self._wait((min(end, due) if due else end) - now)

    def close(self) -> None:
        """Close the connection: what was not accepted is in the queue again, in its order, when this returns."""
        self._session = self._link = self._deliveries = None  # what comes now is for somebody else
        with suppress(BrokerError, self._proton.ProtonException):
            self._engine.close()
            self.work(CLOSE_SECONDS)
        self._socket.close()

    def owned_until(self) -> float:
        """Return until when the broker may take this consumer for alive, as a moment of ``time.monotonic``.

        It has closed the connection itself, or announces half of the time after which it gives up (AMQP 1.0, 2.4.5).
        """
        if self._is_ended:
            return 0.0
        announced = float(self._transport.remote_idle_timeout)
        return time.monotonic() + (2 * announced + 1 if announced else OWNED_SECONDS)

    def error(self, problem: str, *, refused: bool = False) -> BrokerError:
        """Return an error of this connection."""
        kind = BrokerRefusedError if refused else BrokerError
        return kind(problem, where=self._where)

    def _engines(self) -> tuple[Any, Any]:
        """Return the engine of the transport and that of the connection, which is not open yet."""
        address, options = self._address, self._address.options
        transport, engine = self._proton.Transport(), self._proton.Connection()
        engine.container = options.get("client-id") or str(uuid.uuid4())
        engine.hostname = options.get("virtual-host", address.host)
        if address.user is not None:
            engine.user, engine.password = address.user, address.password or ""
        sasl = transport.sasl()
        # The engine does not see that the socket is encrypted; where it is not, the address asked for that.
        sasl.allow_insecure_mechs = True
        sasl.allowed_mechs("ANONYMOUS" if address.user is None else "PLAIN")
        transport.idle_timeout = float(address.number("heart-beat", HEARTBEAT))
        transport.bind(engine)
        return transport, engine

    def _answer(self, endpoint: Any) -> None:
        """Wait until the broker has answered to a connection or link that is opened; raises BrokerError."""
        waits = self._proton.Endpoint.REMOTE_UNINIT
        if not self.work(CONNECT_SECONDS, lambda: not endpoint.state & waits):
            raise self.error("the broker does not answer")

    def _exchange(self) -> float:
        """Receive what is there, and send what waits, without waiting; return when the engine is due again, 0 for never."""
        try:
            self._fill()
            if self._deliveries is not None:
                self._deliveries.ask()
            due = float(self._transport.tick(time.monotonic()))
            self._send()
        except self._proton.ProtonException as error:
            raise self.error(f"the connection is lost: {error}") from error
        self._check()
        return due

    def _fill(self) -> None:
        while not (self._is_ended or self._is_full()):
            size = received_into(self._socket, self._room, self.error)
            if size is None:
                return
            if size:
                self._push(self._room[:size])
            else:
                self._is_ended = True
                self._transport.close_tail()

    def _is_full(self) -> bool:
        found = self._deliveries
        return found is not None and (len(found) >= self._limit or found.waiting >= WINDOW_BYTES)

    def _push(self, data: memoryview) -> None:
        """Give the engine what came; messages are taken from it as they become whole."""
        while data and (capacity := self._transport.capacity()) > 0:
            self._transport.push(data[:capacity])
            data = data[capacity:]
            if self._deliveries is not None:
                self._deliveries.take()
                if self._deliveries.is_too_long:
                    problem = f"the broker sends a message of more than {LONGEST} bytes"
                    raise self.error(problem, refused=True)

    def _send(self) -> None:
        while (size := self._transport.pending()) > 0 and not self._is_ended:
            try:
                sent = self._socket.send(self._transport.peek(min(size, ROOM)))
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return
            except ConnectionError:
                self._is_ended = True
                return
            except OSError as error:
                raise self.error(f"the connection is lost: {error}") from error
            self._transport.pop(sent)

    def _wait(self, seconds: float) -> None:
        writes = [] if self.is_sent else [self._socket]
        try:
            select.select([self._socket], writes, [], max(0.0, seconds))
        except (OSError, ValueError) as error:
            raise self.error(f"the connection is lost: {error}") from error

    def _check(self) -> None:
        """Raise BrokerError where the broker has ended the link or the connection, or the engine has given up."""
        closed = self._proton.Endpoint.REMOTE_CLOSED
        endpoints = {"link": self._link, "session": self._session, "connection": self._engine}
        for what, endpoint in endpoints.items():
            if endpoint is not None and endpoint.state & closed:
                self.is_detached = endpoint is not self._engine
                self._is_ended |= not self.is_detached
                raise self._condition_error(
                    f"the broker closes the {what}", endpoint.remote_condition
                )
        condition = self._transport.condition
        if condition is not None and not self._is_ended:
            refused = condition.name == LOGIN_REFUSED
            what = "the broker refuses the login" if refused else "the connection is lost"
            raise self._condition_error(what, condition)
        if self._is_ended:
            raise self.error("the connection is lost: the broker has closed it")

    def _condition_error(self, problem: str, condition: Any) -> BrokerError:
        """Return an error with what the broker or the engine gives as the reason."""
        if condition is None:
            return self.error(problem)
        text = f"{problem}: {condition.name}: {condition.description or 'no reason given'}"
        return self.error(text, refused=condition.name in REFUSALS)
