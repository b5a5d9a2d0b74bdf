"""A receiver for AMQP 1.0: deliveries are accepted and settled; brokers do not confirm that (rcv-settle-mode first)."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from trailgate.brokers.address import TOPIC, BrokerAddress
from trailgate.brokers.amqp.messages import received_messages
from trailgate.brokers.receiver import Window
from trailgate.brokers.reconnecting import Reconnecting
from trailgate.brokers.tls_files import check_tls_files
from trailgate.errors import BrokerError, BrokerRefusedError, MissingDependencyError, Where

WINDOW: Final = 1000  # messages that are accepted at once, at most
AHEAD: Final = 1000  # messages that the broker sends ahead
CONNECT_SECONDS: Final = 10.0
GATHER_SECONDS: Final = 0.005  # of silence that end a window
HEARTBEAT: Final = 10  # seconds
SILENT: Final = "idle-timeout"  # in the library's error where nothing came for so long
OWNED_SECONDS: Final = (
    61.0  # after which a broker gives up that does not announce it: Artemis by default
)
REFUSALS: Final = (
    "amqp:unauthorized-access",
    "amqp:not-found",
    "amqp:not-allowed",
    "amqp:invalid-field",
    # OpenSSL's reasons; others, as an end in the middle, may be a broker that is being stopped.
    "certificate verify failed",
    "bad certificate",
    "certificate required",
    "unknown ca",
    "wrong version number",
)
NO_TLS: Final = "Does the broker speak TLS at this port?"
BY_NAME: Final = "The certificate must be signed by one in the file of ?ca=, and name the host: AMQP's library knows names only, no addresses"
_LOG: Final = logging.getLogger("trailgate.brokers")


@dataclass(frozen=True, slots=True, eq=False)
class _Link:
    """A connection and its receiving link."""

    connection: Any
    receiver: Any


class AmqpReceiver(Reconnecting):
    """Receives from one queue or topic; see ``Receiver``."""

    def __init__(self, address: BrokerAddress) -> None:
        super().__init__()
        check_tls_files(address)
        self._proton = _library()
        self._address, self._where = address, Where(source=str(address))
        self._limit = address.number("window", WINDOW)
        self._link: _Link | None = None
        self._was_subscribed = False

    @property
    def is_connected(self) -> bool:
        """Return whether there is a connection; see ``Receiver``."""
        return self._link is not None

    def acknowledge(self, window: Window) -> None:
        """Accept the messages of a window; see ``Receiver``."""
        link: _Link = window.token[0]
        deliveries = window.token[1]
        if link is not self._link:
            return
        for delivery in deliveries:
            delivery.update(self._proton.Delivery.ACCEPTED)
            delivery.settle()
        try:
            self._work(link, 0.0)
        except BrokerError as error:
            self._lost(error)

    def settle(self, seconds: float) -> bool:
        """Return whether all was sent; AMQP's receivers settle first, so there is nothing to wait for. See ``Receiver``."""
        until = time.monotonic() + seconds
        try:
            while self._link is not None and self._link.connection.conn.transport.pending() > 0:
                if time.monotonic() > until:
                    return False
                self._work(self._link, 0.1)
        except BrokerError as error:
            self._lost(error)
        return self._link is not None

    def close(self) -> None:
        """Close the connection; see ``Receiver``."""
        link, self._link = self._link, None
        if link is not None:
            with suppress(self._proton.ProtonException):
                link.connection.close()

    def _received(self, seconds: float) -> Window | None:
        link = self._link or self._opened()
        fetcher = link.receiver.fetcher
        if not fetcher.has_message:
            self._work(link, seconds, lambda: fetcher.has_message)
        self._gather(link)
        messages: list[Any] = []
        deliveries: list[Any] = []
        while fetcher.has_message and len(messages) < self._limit:
            message, delivery = fetcher.incoming.popleft()
            messages.append(message)
            deliveries.append(delivery)
        if not messages:
            return None
        return Window(received_messages(messages, time.time_ns() // 1000), (link, deliveries))

    def _gather(self, link: _Link) -> None:
        """Receive what follows a first message closely: the library wakes up for each one."""
        incoming = link.receiver.fetcher.incoming
        found = 0
        while found < len(incoming) < self._limit:
            found = len(incoming)
            self._work(link, GATHER_SECONDS, lambda: len(incoming) > found)  # noqa: B023  called here

    def _work(self, link: _Link, seconds: float, until: Any = lambda: False) -> None:
        """Send and receive for so long; raises BrokerError."""
        try:
            with suppress(self._proton.Timeout):
                link.connection.wait(until, timeout=seconds)
        except self._proton.ProtonException as error:
            raise self._error("the connection is lost", error) from error

    def _opened(self) -> _Link:
        """Return a new connection with its link."""
        from proton import utils  # noqa: PLC0415  an extra

        address = self._address
        login = {} if address.user is None else {"user": address.user, "password": address.password}
        try:
            connection = utils.BlockingConnection(
                f"{'amqps' if address.tls else 'amqp'}://{address.host}:{address.port}",
                timeout=CONNECT_SECONDS,
                heartbeat=float(address.number("heart-beat", HEARTBEAT)),
                ssl_domain=self._domain(),
                allowed_mechs="PLAIN" if login else "ANONYMOUS",
                **login,
                **self._client(),
            )
        except (self._proton.ProtonException, OSError) as error:
            raise self._error("the broker cannot be reached", error) from error
        try:
            receiver = connection.create_receiver(
                self._source(connection.conn),
                credit=address.number("prefetch", AHEAD),
                name=address.options.get("durable"),
                options=self._options(),
            )
        except self._proton.ProtonException as error:
            with suppress(self._proton.ProtonException):
                connection.close()
            # A broker that accepted it before may be starting up, or still have the consumer that was lost.
            refused = isinstance(error, utils.LinkDetached) and not self._was_subscribed
            raise self._error("the subscription fails", error, refused=refused) from error
        product = (connection.conn.remote_properties or {}).get("product", "unnamed")
        _LOG.info("receiving from %s (%s)", address, product)
        self._link, self._was_subscribed = _Link(connection, receiver), True
        self._backoff.reached()
        return self._link

    def _client(self) -> dict[str, Any]:
        """Return the client's id as an argument, where there is one: durable subscriptions belong to it."""
        from proton.reactor import Container  # noqa: PLC0415  an extra

        container = Container()
        if "client-id" in self._address.options:
            container.container_id = self._address.options["client-id"]
        return {"container": container}

    def _source(self, connection: Any) -> str:
        """Return the destination's name with the prefix that the broker asks for (as Qpid's JMS client does)."""
        known = connection.remote_properties or {}
        prefix = known.get(f"{self._address.kind}-prefix") or ""
        return f"{prefix}{self._address.destination}"

    def _options(self) -> list[Any]:
        """Return what the link asks for: queue or topic, a selector, a subscription that lasts."""
        from proton import symbol  # noqa: PLC0415  an extra
        from proton.reactor import (  # noqa: PLC0415  an extra
            DurableSubscription,
            ReceiverOption,
            Selector,
        )

        kind = self._address.kind

        class Kind(ReceiverOption):  # type: ignore[misc]  # the library has no types
            """The kind of destination, as a capability of the source."""

            def apply(self, receiver: Any) -> None:
                receiver.source.capabilities.put_object(symbol(kind))

        options: list[Any] = [Kind()]
        if "selector" in self._address.options:
            options.append(Selector(self._address.options["selector"]))
        if "durable" in self._address.options:
            if kind != TOPIC or "client-id" not in self._address.options:
                problem = "a durable subscription is one to a topic, by a client id"
                hint = "amqp://host/topic/NAME?durable=NAME&client-id=ID"
                raise BrokerRefusedError(problem, where=self._where, hint=hint)
            options.append(DurableSubscription())
        return options

    def _domain(self) -> Any:
        """Return the certificates for TLS."""
        if not self._address.tls:
            return None
        proton, options = self._proton, self._address.options
        domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
        if "ca" in options:
            domain.set_trusted_ca_db(options["ca"])
        domain.set_peer_authentication(proton.SSLDomain.VERIFY_PEER_NAME)
        if "cert" in options:
            domain.set_credentials(options["cert"], options.get("key", options["cert"]), None)
        return domain

    def _error(self, problem: str, error: Exception, *, refused: bool = False) -> BrokerError:
        text = str(error).strip() or type(error).__name__
        refused = refused or any(name in text for name in REFUSALS)
        kind = BrokerRefusedError if refused else BrokerError
        hint = ""
        if self._address.tls:
            hint = BY_NAME if "verify failed" in text else NO_TLS if "timed out" in text else ""
        return kind(f"{problem}: {text}", where=self._where, hint=hint)

    def _lost(self, error: BrokerError) -> None:
        _LOG.warning("%s", error)
        link, self._link = self._link, None
        if link is not None:
            if SILENT in str(error):
                self._backoff.lost(_owned_until(link.connection.conn.transport))
            with suppress(self._proton.ProtonException, OSError):
                link.connection.close()


def _owned_until(transport: Any) -> float:
    """Return until when a broker may take a silent consumer for alive, as a moment of ``time.monotonic``.

    It announces half of the time after which it gives up (AMQP 1.0, 2.4.5).
    """
    announced = float(getattr(transport, "remote_idle_timeout", 0.0) or 0.0)
    return time.monotonic() + (2 * announced + 1 if announced else OWNED_SECONDS)


def _library() -> Any:
    try:
        import proton  # noqa: PLC0415  an extra
    except ImportError:
        raise MissingDependencyError(
            "AMQP needs python-qpid-proton", hint="pip install 'trailgate[amqp]'"
        ) from None
    return proton
