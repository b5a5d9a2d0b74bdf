"""Receive from AMQP 1.0 brokers: a socket, and the protocol engine of python-qpid-proton.

The engine knows the protocol and does no I/O. ``AmqpConnection`` moves bytes between the socket and
the engine. ``LinkDeliveries`` collects the encoded messages of the link until they are returned as
a window, which ``messages`` decodes. Acknowledging accepts and settles messages; brokers do not
confirm that (rcv-settle-mode "first"). ``name_source`` sets the name of a queue or topic in the
same form as the broker's JMS clients.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs
from trailgate.errors import BrokerError, MissingDependencyError
from trailgate.live.brokers.address import QUEUE, TOPIC, BrokerAddress
from trailgate.live.brokers.amqp.messages import index_messages, received_messages
from trailgate.live.brokers.receiver import (
    CONNECT_SECONDS,
    BrokerConnection,
    MessageWindow,
    ReconnectingReceiver,
)

LONGEST: Final = 1 << 30  # bytes of a message: half of what an Arrow column of bodies can hold

# The prefixes of existing queues and topics for brokers that do not announce them. Without the
# prefix RabbitMQ would declare a new queue that is not durable.
PREFIXES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {"RabbitMQ": MappingProxyType({QUEUE: "/amq/queue/", TOPIC: "/topic/"})}
)
SELECTOR: Final = "apache.org:selector-filter:string"
ROOM: Final = 1 << 18  # bytes of the receive buffer
WINDOW_BYTES: Final = 4 << 20  # stop reading once this many bytes wait for a window
AHEAD: Final = 1000  # messages that the broker sends ahead
HEARTBEAT: Final = 10  # seconds
CLOSE_SECONDS: Final = 5.0
REASON_SECONDS: Final = 1.0  # a broker that refuses a link sends the reason within this time
SILENT: Final = "idle-timeout"  # contained in the engine's error after a heartbeat timeout

# The timeout of a broker that does not announce one: Artemis's default is 60 seconds.
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


def import_proton() -> Any:
    """Import python-qpid-proton. Raises MissingDependencyError if it is not installed."""
    try:
        import proton as library  # noqa: PLC0415  an extra
    except ImportError:
        problem = "AMQP needs python-qpid-proton"
        raise MissingDependencyError.of_extra(problem, "amqp") from None
    return library


def proton_functions() -> Any:
    """Return the functions of Proton C, which the library is built on.

    For each delivery, the library's objects take 13 µs and these functions 2 µs (decision 0044).
    """
    import cproton  # noqa: PLC0415  an extra

    return cproton


class EncodedWindow(NamedTuple):
    """A window of AMQP messages: message i is ``data[places[i]:places[i + 1]]``.

    ``deliveries`` are Proton's objects of the messages, with which they are accepted.
    """

    data: bytes
    places: Longs
    deliveries: Sequence[Any]


class LinkDeliveries:
    """Collects the bytes that arrive on an AMQP link. Its length is the number of complete messages.

    The bytes of an incomplete message are read too: unread bytes would fill the session's window,
    and the broker would stop sending. ``ahead`` is the number of messages that the broker may send
    before earlier ones have been read.
    """

    def __init__(self, link: Any, ahead: int) -> None:
        self._link, self._ahead = link, ahead
        self._functions = proton_functions()
        self._data = bytearray()
        self._sizes: list[int] = []
        self._deliveries: list[Any] = []
        self._open = 0  # bytes of the incomplete message at the end of the data

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def waiting(self) -> int:
        """The number of bytes that were read from the AMQP link and are not yet in a window."""
        return len(self._data)

    @property
    def is_too_long(self) -> bool:
        """Whether the incomplete AMQP message is already longer than messages may be."""
        return self._open > LONGEST

    def ask(self) -> None:
        """Restore the AMQP broker's credit to ``ahead`` messages, if at most half of it is left."""
        link = self._link._impl  # noqa: SLF001  the library's
        credit = self._functions.pn_link_credit(link)
        if 2 * credit <= self._ahead:
            self._functions.pn_link_flow(link, self._ahead - credit)

    def take(self) -> None:
        """Read the bytes that have arrived on the AMQP link, and note which messages are complete.

        The bytes of a delivery that the broker aborts are dropped.
        """
        link, known = self._link._impl, self._functions  # noqa: SLF001  the library's
        current, advance, receive = known.pn_link_current, known.pn_link_advance, known.pn_link_recv
        while delivery := current(link):
            if known.pn_delivery_aborted(delivery):
                # AMQP 1.0, 2.7.5: the bytes of an aborted delivery are discarded.
                del self._data[len(self._data) - self._open :]
                self._open = 0
                known.pn_delivery_settle(delivery)
                continue
            size, raw = receive(link, known.pn_delivery_pending(delivery))
            if size > 0:
                self._data += raw
                self._open += size
            if known.pn_delivery_partial(delivery):
                return
            self._sizes.append(self._open)
            self._deliveries.append(delivery)
            self._open = 0
            advance(link)

    def window(self, limit: int) -> EncodedWindow:
        """Remove the first complete AMQP messages, at most ``limit``, and return them as a window."""
        sizes, deliveries = self._sizes[:limit], self._deliveries[:limit]
        places = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=places[1:])
        data = bytes(memoryview(self._data)[: places[-1]])
        del self._sizes[:limit], self._deliveries[:limit], self._data[: places[-1]]
        return EncodedWindow(data, places, deliveries)

    def accept(self, delivered: EncodedWindow) -> None:
        """Accept and settle AMQP deliveries. The broker removes their messages when it receives this."""
        known = self._functions
        for delivery in delivered.deliveries:
            known.pn_delivery_update(delivery, known.PN_ACCEPTED)
            known.pn_delivery_settle(delivery)


def name_source(source: Any, address: BrokerAddress, broker: Mapping[str, str]) -> None:
    """Set the address, the selector and the durability of an AMQP link's source.

    ``broker`` contains the properties that the broker sent when the connection was opened.
    """
    library, options = import_proton(), address.options
    name_terminus(source, address.destination, address.kind, broker)
    if "selector" in options:
        described = library.Described(library.symbol(SELECTOR), options["selector"])
        source.filter.put_dict({library.symbol("selector"): described})
    if "durable" in options:
        source.durability = library.Terminus.DELIVERIES
        source.expiry_policy = library.Terminus.EXPIRE_NEVER


def name_terminus(terminus: Any, name: str, kind: str, broker: Mapping[str, str]) -> None:
    """Set the address of an AMQP link's source or target, with the prefix that the broker announces, as Qpid's JMS client does."""
    prefix = broker.get(f"{kind}-prefix") or ""
    if not name.startswith("/"):
        prefix = prefix or PREFIXES.get(broker.get("product", ""), {}).get(kind, "")
    terminus.address = f"{prefix}{name}"
    terminus.capabilities.put_object(import_proton().symbol(kind))


class AmqpConnection(BrokerConnection):
    """An AMQP 1.0 connection after login, with at most one link.

    ``deliveries`` belongs to that link. ``is_detached`` is True after the broker has closed the
    link or the session, but not the connection.
    """

    deliveries: LinkDeliveries

    def _log_in(self) -> None:
        self._proton = import_proton()
        self._room = memoryview(bytearray(ROOM))
        self.is_detached = self._is_subscribed = False
        self._session: Any = None
        self._link: Any = None
        self._limit = 1
        self._transport, self._engine = self._engines()
        self._engine.open()
        self._answer(self._engine)

    @property
    def product(self) -> str:
        """The broker's name, from AMQP's connection properties."""
        return str((self._engine.remote_properties or {}).get("product", "unnamed"))

    @property
    def is_sent(self) -> bool:
        """Whether everything to send to the AMQP broker has left this process."""
        return not self._transport.pending() > 0

    def subscribe(self, limit: int) -> None:
        """Open an AMQP link that receives from the address's queue or topic.

        Reading pauses while ``limit`` messages are waiting.
        """
        session = self._engine.session()
        session.open()
        link = session.receiver(self._address.options.get("durable") or str(uuid.uuid4()))
        name_source(link.source, self._address, self._engine.remote_properties or {})
        self._session, self._link, self._limit = session, link, limit
        self.deliveries = LinkDeliveries(link, self._address.number("prefetch", AHEAD))
        link.open()
        self._answer(link)
        if link.source.address != link.remote_source.address:
            # AMQP 1.0, 2.6.3: the broker answers a refused link with an attach without a source,
            # and then with a detach that has the reason.
            self.work(REASON_SECONDS)
            raise self.error("the broker attached a different source than requested")
        self._is_subscribed = True

    def work(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Exchange AMQP data until ``until()`` is true or ``seconds`` have passed.

        Returns whether ``until()`` is true. Raises BrokerError if the broker closes the link or
        connection.
        """
        end = time.monotonic() + seconds
        while True:
            due = self._exchange()
            if until():
                return True
            now = time.monotonic()
            if now >= end:
                return False
            # ``due`` is when the engine must send a heart-beat, even if nothing arrives.
            self._wait((min(end, due) if due else end) - now, to_send=not self.is_sent)

    def close(self) -> None:
        """Close the AMQP connection, and wait until the broker has put unaccepted messages back in order."""
        self._session = self._link = None
        self._is_subscribed = False  # messages that arrive now go to another consumer
        with suppress(BrokerError, self._proton.ProtonException):
            self._engine.close()
            self.work(CLOSE_SECONDS)
        super().close()

    def owned_until(self, error: BrokerError) -> float:
        """Return the time until which an AMQP broker may hold this consumer's messages; see ``BrokerConnection``.

        If the connection went silent, the broker holds the messages until its own timeout. This is
        twice the idle timeout that it has announced (AMQP 1.0, 2.4.5). In all other cases the
        result is 0: the broker closed the connection, or sees that it is closed.
        """
        if self._is_ended or SILENT not in str(error):
            return 0.0
        announced = float(self._transport.remote_idle_timeout)
        return time.monotonic() + (2 * announced + 1 if announced else OWNED_SECONDS)

    def _engines(self) -> tuple[Any, Any]:
        """Create Proton's objects of the transport and of the connection, which is not open yet."""
        address, options = self._address, self._address.options
        transport, engine = self._proton.Transport(), self._proton.Connection()
        engine.container = options.get("client-id") or str(uuid.uuid4())
        engine.hostname = options.get("virtual-host", address.host)
        if address.user is not None:
            engine.user, engine.password = address.user, address.password or ""
        sasl = transport.sasl()
        # Allow PLAIN: the engine cannot see that the socket is encrypted, and if it is not, the
        # address asked for that.
        sasl.allow_insecure_mechs = True
        sasl.allowed_mechs("ANONYMOUS" if address.user is None else "PLAIN")
        transport.idle_timeout = float(address.number("heart-beat", HEARTBEAT))
        transport.bind(engine)
        return transport, engine

    def _answer(self, endpoint: Any) -> None:
        """Wait until the AMQP broker has answered the opening of a connection or link.

        Raises BrokerError if it does not answer in time.
        """
        # The state is a set of bits, and this one is set until the peer has opened or closed its
        # side.
        waits = self._proton.Endpoint.REMOTE_UNINIT
        if not self.work(CONNECT_SECONDS, lambda: not endpoint.state & waits):
            raise self.error("the broker does not answer")

    def _exchange(self) -> float:
        """Exchange bytes between the AMQP broker's socket and the engine, without waiting.

        Returns the time (``time.monotonic()`` seconds) at which the engine must be called again,
        for example to send a heart-beat, or 0 if there is no such time.
        """
        try:
            self._fill()
            if self._is_subscribed:
                self.deliveries.ask()
            due = float(self._transport.tick(time.monotonic()))
            self._send()
        except self._proton.ProtonException as error:
            raise self.error(f"the connection is lost: {error}") from error
        self._check()
        return due

    def _fill(self) -> None:
        while not (self._is_ended or self._is_full()):
            size = self._receive_into(self._room)
            if size is None:
                return
            if size:
                self._push(self._room[:size])
            else:
                self._transport.close_tail()

    def _is_full(self) -> bool:
        return self._is_subscribed and (
            len(self.deliveries) >= self._limit or self.deliveries.waiting >= WINDOW_BYTES
        )

    def _push(self, data: memoryview) -> None:
        """Pass received AMQP bytes to the engine, and read the link's messages from it."""
        while data and (capacity := self._transport.capacity()) > 0:
            self._transport.push(data[:capacity])
            data = data[capacity:]
            if self._is_subscribed:
                self.deliveries.take()
                if self.deliveries.is_too_long:
                    problem = f"the broker sends a message of more than {LONGEST} bytes"
                    raise self.error(problem, refused=True)

    def _send(self) -> None:
        while (size := self._transport.pending()) > 0 and not self._is_ended:
            try:
                sent = self._send_some(self._transport.peek(min(size, ROOM)))
            except BrokerError:
                if self._is_ended:
                    return  # _check asks the engine for the reason
                raise
            if not sent:
                return
            self._transport.pop(sent)

    def _check(self) -> None:
        """Raise BrokerError if the AMQP broker closed the link or connection, or the engine failed."""
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
        """Build a BrokerError from an AMQP condition, such as amqp:not-found, of the broker or the engine."""
        if condition is None:
            return self.error(problem)
        text = f"{problem}: {condition.name}: {condition.description or 'no reason given'}"
        return self.error(text, refused=condition.name in REFUSALS)


class AmqpReceiver(ReconnectingReceiver[AmqpConnection]):
    """Receives from one queue or topic by AMQP 1.0; see ``Receiver``."""

    def __init__(self, address: BrokerAddress, *, lasting: bool = True) -> None:
        super().__init__(address, lasting=lasting)
        import_proton()

    def _open(self) -> AmqpConnection:
        return AmqpConnection(self._address)

    def _subscribe(self, connection: AmqpConnection) -> None:
        connection.subscribe(self._limit)

    def _is_refused(self, connection: AmqpConnection, _error: BrokerError) -> bool:
        return connection.is_detached

    def _receive(self, connection: AmqpConnection, seconds: float) -> MessageWindow | None:
        deliveries = connection.deliveries
        if not connection.work(seconds, lambda: len(deliveries) > 0):
            return None
        delivered = deliveries.window(self._limit)
        messages = index_messages(delivered.data, delivered.places)
        rows = received_messages(messages, time.time_ns() // 1000)
        return MessageWindow(rows, (connection, delivered))

    def _acknowledge(self, connection: AmqpConnection, token: EncodedWindow) -> None:
        connection.deliveries.accept(token)
        connection.work(0.0)

    def _settle(self, connection: AmqpConnection, seconds: float) -> bool:
        # We settle first (rcv-settle-mode), so there is no answer to wait for once all is sent.
        return connection.work(seconds, lambda: connection.is_sent)
