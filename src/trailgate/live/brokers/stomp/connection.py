"""A connection of STOMP 1.2: a socket, frames in both directions, and heart-beats.

Brokers differ in the names of queues, in flow control, and in whether a redelivered message keeps
its id. Each broker is one row of ``DIALECTS``. ``consumers.py`` reads what a broker reports about
the consumers of a queue.
"""

from __future__ import annotations

import logging
import select
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.errors import BrokerError, BrokerFullError, OptionError, Where
from trailgate.live.brokers.address import QUEUE, TOPIC, BrokerAddress
from trailgate.live.brokers.receiver import CONNECT_SECONDS, BrokerConnection
from trailgate.live.brokers.stomp import kernels
from trailgate.live.brokers.stomp.frames import FrameReader, StompFrames, encode_frame, error_text

AHEAD_BYTES: Final = 8 << 20  # Artemis sends this much ahead: its default, 10 KiB, is 8 messages
AHEAD: Final = 1000  # messages that Classic sends ahead, the default of its JMS clients
_KEPT: Final = (
    "Receive by AMQP (amqp://), or name a header whose id stays the same, such as ?id-header=amqp-message-id, which RabbitMQ sets if "
    "the sender does (docs/brokers.md)"
)
# For brokers that put the kind of a destination into its name.
_SLASHES: Final = MappingProxyType({QUEUE: "/queue/{}", TOPIC: "/topic/{}"})
_ANYCAST: Final = MappingProxyType({QUEUE: "ANYCAST", TOPIC: "MULTICAST"})
TYPE: Final = "subscription-type"
WINDOW_BYTES: Final = 4 << 20  # stop reading once this many bytes wait for a window
SEND_SECONDS: Final = 30.0  # a broker that accepts no bytes for this long is lost, or full
NOTED_SECONDS: Final = 3.0  # after which that is logged
BEAT: Final = 10  # seconds between heart-beats in both directions, as we offer them
GRACE: Final = 3.0  # the broker is lost after this many missing heart-beats
DISCONNECT_SECONDS: Final = 5.0  # in which a broker ends a session
FRAMES: Final = 64  # the most frames taken at once, where they are few
BYE: Final = "disconnected"  # the receipt of DISCONNECT
BLOCKED: Final = "the broker accepts no more bytes"
STILL_BLOCKED: Final = "%s: it may be full; waiting for up to %.0f s (%s)"
_LOG: Final = logging.getLogger("trailgate.brokers")


class ConsumerNotifications(NamedTuple):
    """How a STOMP broker notifies subscribers of a queue's consumers.

    ``subscribe`` are the headers of SUBSCRIBE to receive the notifications, in which ``{}`` is
    replaced by the queue's name. A notification's header ``number`` has the number of consumers.
    """

    subscribe: Mapping[str, str]
    number: str


class PrefetchOption(NamedTuple):
    """How to limit what a STOMP broker sends before any of it is acknowledged: messages, or bytes.

    ``option`` sets the limit in the broker's URL, ``header`` passes it to the broker in SUBSCRIBE,
    and ``default`` applies if the URL does not set it.
    """

    option: str
    header: str
    default: int


class StompDialect(NamedTuple):
    """A broker's dialect of STOMP.

    - ``name``: the broker's name in errors, and in the tables of senders.
    - ``server``: the start of the server header in its CONNECTED frames.
    - ``durable``: the header of SUBSCRIBE that names a durable subscription.
    - ``ahead``: how to limit the messages that the broker sends ahead.
    - ``kinds``: the templates of destinations, such as ``/queue/{}``, for a queue and for a topic.
    - ``types``: the values of SUBSCRIBE's header subscription-type for a queue and a topic, if the
      broker uses this header.
    - ``keeps_ids``: a redelivered message has the same id as before.
    - ``id_tail``: a message-id consists of the consumer's id, a comma, and the message's id.
    - ``surrogates``: the broker may write CESU-8 instead of UTF-8.
    - ``consumers``: how the broker reports other consumers; None if it is not known to do so.
    - ``exclusive``: headers of SUBSCRIBE to a queue with which the broker delivers to one consumer at
      a time, so that messages of a lost consumer are redelivered before later ones.
    - ``is_managed``: the broker answers requests about a queue (``artemis.py``).
    """

    name: str
    server: str
    durable: str = "durable-subscription-name"
    ahead: PrefetchOption = PrefetchOption("prefetch", "prefetch-count", AHEAD)
    kinds: Mapping[str, str] = _SLASHES
    types: Mapping[str, str] | None = None
    keeps_ids: bool = False
    id_tail: bool = False
    surrogates: bool = False
    consumers: ConsumerNotifications | None = None
    exclusive: Mapping[str, str] = MappingProxyType({})
    is_managed: bool = False


DIALECTS: Final = (
    StompDialect(
        "Artemis",
        "ActiveMQ-Artemis/",
        ahead=PrefetchOption("prefetch-bytes", "consumer-window-size", AHEAD_BYTES),
        kinds=MappingProxyType({QUEUE: "{}", TOPIC: "{}"}),
        types=_ANYCAST,
        keeps_ids=True,
        id_tail=True,
        consumers=ConsumerNotifications(
            MappingProxyType(
                {
                    "destination": "activemq.notifications",
                    TYPE: _ANYCAST[TOPIC],
                    "selector": "_AMQ_NotifType IN ('CONSUMER_CREATED', 'CONSUMER_CLOSED') AND _AMQ_RoutingName = '{}'",
                }
            ),
            "_AMQ_ConsumerCount",
        ),
        is_managed=True,
    ),
    StompDialect(
        "ActiveMQ Classic",
        "ActiveMQ/",
        "activemq.subscriptionName",
        PrefetchOption("prefetch", "activemq.prefetchSize", AHEAD),
        keeps_ids=True,
        surrogates=True,
        consumers=ConsumerNotifications(
            MappingProxyType({"destination": "/topic/ActiveMQ.Advisory.Consumer.Queue.{}"}),
            "consumerCount",
        ),
        exclusive=MappingProxyType({"activemq.exclusive": "true"}),
    ),
    # docs/stomp.html: message-id is valid in one session only; amqp-message-id is the sender's
    StompDialect("RabbitMQ", "RabbitMQ/", "x-queue-name"),
    StompDialect("an unknown broker", ""),
)


def find_dialect(server: str) -> StompDialect:
    """Return the STOMP dialect of a broker from the server header of its CONNECTED frame."""
    return next(dialect for dialect in DIALECTS if server.startswith(dialect.server))


def subscribe_headers(dialect: StompDialect, address: BrokerAddress) -> dict[str, str]:
    """Return the headers with which a STOMP connection subscribes to a broker address, in the broker's dialect.

    Raises OptionError for an option that the broker does not support.
    """
    options = address.options
    if not dialect.keeps_ids and "id-header" not in options:
        problem = f"{dialect.name} is not known to keep a message's id: a redelivered message would be captured twice"
        raise OptionError(problem, where=Where(source=str(address)), hint=_KEPT)
    headers = {
        "id": "0",
        "destination": dialect.kinds[address.kind].format(address.destination),
        # "client": an ACK also acknowledges all messages before it.
        "ack": "client",
        dialect.ahead.header: str(address.number(dialect.ahead.option, dialect.ahead.default)),
    }
    if address.kind == QUEUE:
        headers |= dialect.exclusive
    if dialect.types is not None:
        headers[TYPE] = dialect.types[address.kind]
    for option in ("prefetch", "prefetch-bytes"):
        if option in options and option != dialect.ahead.option:
            problem = f"{dialect.name} does not support the option {option}"
            raise OptionError(problem, hint=f"It supports {dialect.ahead.option}")
    if "selector" in options:
        headers["selector"] = options["selector"]
    if "durable" in options:
        headers[dialect.durable] = options["durable"]
    return headers


class StompConnection(BrokerConnection):
    """A STOMP 1.2 connection after login."""

    @property
    def product(self) -> str:
        """The broker's name, from STOMP's CONNECTED frame."""
        return self.server or "unnamed"

    @property
    def dialect(self) -> StompDialect:
        """The broker's dialect of STOMP."""
        return find_dialect(self.server)

    def send(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send one STOMP frame, and return when it has left this process."""
        self._send(encode_frame(command, headers, body))

    def send_bytes(self, frames: bytes) -> None:
        """Send encoded STOMP frames, and return when they have left this process."""
        self._send(frames)

    def frames(self, seconds: float, limit: int) -> StompFrames | None:
        """Return the STOMP frames that have arrived, at most ``limit``, or None if none came within ``seconds``."""
        until = time.monotonic() + seconds
        while True:
            self._fill()
            try:
                found = self._reader.take(limit)
            except BrokerError as error:
                raise error.with_place(source=self._where.source) from None
            # Frames that arrived before the broker closed the connection are returned first. Its
            # end is only an error once nothing is left to read.
            if len(found):
                return found
            if self._is_ended:
                raise self.error("the broker has closed the connection")
            left = until - time.monotonic()
            if left <= 0:
                return None
            self._check_silence()
            # Wake up at least this often, to notice that the broker has been silent for too long.
            self._wait(min(left, self._offered))

    def disconnect(self) -> None:
        """Ask the STOMP broker to end the session.

        Waits a limited time until the broker has put unacknowledged messages back in their order.
        """
        until = time.monotonic() + DISCONNECT_SECONDS
        with suppress(BrokerError):
            self.send("DISCONNECT", {"receipt": BYE})
            while (left := until - time.monotonic()) > 0:
                found = self.frames(left, FRAMES)
                if found is not None and any(
                    found.headers(at).get("receipt-id") == BYE for at in range(len(found))
                ):
                    return

    def close(self) -> None:
        """Close the STOMP connection's socket and stop the heart-beats; see ``BrokerConnection``."""
        self._closed.set()
        super().close()

    def owned_until(self, error: BrokerError) -> float:
        """Return the time until which a STOMP broker may hold this consumer's messages; see ``BrokerConnection``.

        A broker gives up after two missing heart-beats.
        """
        del error
        return 0.0 if self._is_ended else self._last_sent + 2 * self._offered + 1

    def _log_in(self) -> None:
        address = self._address
        self._reader = FrameReader()
        self._sending, self._closed = threading.Lock(), threading.Event()
        self._last_sent = self._last_received = time.monotonic()
        self._silence = 0.0
        self._offered = float(address.number("heart-beat", BEAT))
        beat = str(int(self._offered * 1000))
        host = address.options.get("virtual-host", address.host)
        headers = {"accept-version": "1.2", "host": host, "heart-beat": f"{beat},{beat}"}
        if address.user is not None:
            headers |= {"login": address.user, "passcode": address.password or ""}
        if "client-id" in address.options:
            headers["client-id"] = address.options["client-id"]
        self.send("CONNECT", headers)
        answer = self.frames(CONNECT_SECONDS, 1)
        if answer is None:
            raise self.error("the broker does not answer to CONNECT")
        known = answer.headers(0)
        if answer.kinds[0] != kernels.CONNECTED:
            raise self.error(f"the broker refuses the login: {error_text(answer, 0)}", refused=True)
        if known.get("version") != "1.2":
            problem = f"the broker speaks STOMP {known.get('version', '1.0')}, not 1.2"
            raise self.error(problem, refused=True)
        self.server = known.get("server", "")
        # Each direction uses the longer of the two offered intervals; 0 means no heart-beats.
        ours, theirs = _beats(known.get("heart-beat", "0,0"))
        if ours:
            self._silence = GRACE * max(self._offered, ours)
        if theirs:
            every = max(self._offered, theirs) / 2
            threading.Thread(target=self._beat, args=(every,), daemon=True).start()

    def _fill(self) -> None:
        """Read the STOMP bytes that have arrived, without waiting, up to about WINDOW_BYTES."""
        while True:
            size = self._receive_into(self._reader.room())
            if not size:
                return  # frames received before the broker closed, such as ERROR, are still used
            self._last_received = time.monotonic()
            self._reader.extend(size)
            if self._reader.waiting >= WINDOW_BYTES:
                return

    def _check_silence(self) -> None:
        silent = time.monotonic() - self._last_received
        # `_silence` is 0 if the broker sends no heart-beats; then silence is normal.
        if self._silence and silent > self._silence:
            raise self.error(f"nothing came from the broker for {silent:.0f} seconds")

    def _send(self, data: bytes) -> None:
        rest, since, is_noted = memoryview(data), time.monotonic(), False
        with self._sending:
            # The socket does not block, so it may accept only a part; wait until it can take more.
            while rest:
                if sent := self._send_some(rest):
                    rest, since = rest[sent:], time.monotonic()
                    continue
                waited = time.monotonic() - since
                if waited > SEND_SECONDS:
                    raise BrokerFullError(BLOCKED, where=self._where)
                if waited > NOTED_SECONDS and not is_noted:
                    is_noted = True
                    left = SEND_SECONDS - waited
                    _LOG.warning(STILL_BLOCKED, BLOCKED, left, self._address)
                select.select([], [self._socket], [], 1.0)
            self._last_sent = time.monotonic()

    def _beat(self, seconds: float) -> None:
        """Send STOMP heart-beats in a thread: a line feed whenever nothing was sent for ``seconds``."""
        # Looking twice per interval keeps the pause below one and a half intervals.
        while not self._closed.wait(seconds / 2):
            if time.monotonic() - self._last_sent < seconds:
                continue
            try:
                self._send(b"\n")
            except (BrokerError, ValueError):
                return  # receiving fails too, and reports it


def _beats(text: str) -> tuple[float, float]:
    """Parse STOMP's header heart-beat: how often the server sends one, and how often it expects one.

    The result is in seconds; 0 means never. For example, ``5000,0`` is parsed as 5.0 and 0.0.
    """
    sends, _, wants = text.partition(",")
    return tuple(int(part) / 1000 if part.strip().isdecimal() else 0.0 for part in (sends, wants))  # type: ignore[return-value]


def queue_name(address: BrokerAddress) -> str:
    """Return the name of the queue of a STOMP connection's address. Artemis also accepts the form ``ADDRESS::QUEUE``."""
    return address.destination.rpartition("::")[2]
