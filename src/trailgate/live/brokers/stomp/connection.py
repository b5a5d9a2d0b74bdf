"""One connection of STOMP 1.2: a socket, frames both ways, and heart-beats while nothing else is sent.

What brokers do differently (names of queues, flow control, what recognises a message) is one row a broker. Other consumers of a queue are reported by
brokers in messages of their own, which a second connection receives.
"""

from __future__ import annotations

import logging
import select
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.errors import BrokerError, OptionError, Where
from trailgate.live.brokers.address import QUEUE, TOPIC, BrokerAddress
from trailgate.live.brokers.receiver import CONNECT_SECONDS, Connection
from trailgate.live.brokers.stomp import kernels
from trailgate.live.brokers.stomp.frames import FrameReader, Frames, encode_frame

AHEAD_BYTES: Final = 8 << 20  # what Artemis sends ahead: its own default, 10 KiB, is eight messages
AHEAD: Final = 1000  # messages that Classic sends ahead, as its JMS clients have it
_KEPT: Final = (
    "Receive by AMQP (amqp://), or name a header with an id that a message keeps, as ?id-header=amqp-message-id, which RabbitMQ gives where "
    "senders set it (docs/brokers.md)"
)


class Consumers(NamedTuple):
    """How a broker reports the consumers of a queue: the headers of a SUBSCRIBE, with the queue's name in them, and the header that has their number."""

    subscribe: Mapping[str, str]
    number: str


class Ahead(NamedTuple):
    """What is sent ahead: the option of an address, the header of a SUBSCRIBE, and its default."""

    option: str
    header: str
    default: int


_SLASHES: Final = MappingProxyType({QUEUE: "/queue/{}", TOPIC: "/topic/{}"})
_ANYCAST: Final = MappingProxyType({QUEUE: "ANYCAST", TOPIC: "MULTICAST"})
_TYPE: Final = "subscription-type"


class Dialect(NamedTuple):
    """One broker. ``server`` is how the server header of CONNECTED begins.

    ``kinds`` are the forms of a destination, ``types`` what a broker calls them in a header of SUBSCRIBE. ``durable`` is the header of a durable subscription's name. ``keeps_ids``: a message that is
    given again has the id that it had. ``id_tail``: the broker's own id of a message is what follows a comma in message-id, and the part before it is the consumer's. ``consumers`` is None where the
    broker is not known to report them.
    """

    name: str
    server: str
    durable: str = "durable-subscription-name"
    ahead: Ahead = Ahead("prefetch", "prefetch-count", AHEAD)
    kinds: Mapping[str, str] = _SLASHES
    types: Mapping[str, str] | None = None
    keeps_ids: bool = False
    id_tail: bool = False
    surrogates: bool = False
    consumers: Consumers | None = None


DIALECTS: Final = (
    Dialect(
        "Artemis",
        "ActiveMQ-Artemis/",
        ahead=Ahead("prefetch-bytes", "consumer-window-size", AHEAD_BYTES),
        kinds=MappingProxyType({QUEUE: "{}", TOPIC: "{}"}),
        types=_ANYCAST,
        keeps_ids=True,
        id_tail=True,
        consumers=Consumers(
            MappingProxyType(
                {
                    "destination": "activemq.notifications",
                    _TYPE: _ANYCAST[TOPIC],
                    "selector": "_AMQ_NotifType IN ('CONSUMER_CREATED', 'CONSUMER_CLOSED') AND _AMQ_RoutingName = '{}'",
                }
            ),
            "_AMQ_ConsumerCount",
        ),
    ),
    Dialect(
        "ActiveMQ Classic",
        "ActiveMQ/",
        "activemq.subscriptionName",
        Ahead("prefetch", "activemq.prefetchSize", AHEAD),
        keeps_ids=True,
        surrogates=True,
        consumers=Consumers(
            MappingProxyType({"destination": "/topic/ActiveMQ.Advisory.Consumer.Queue.{}"}),
            "consumerCount",
        ),
    ),
    # docs/stomp.html: message-id is of the session, and amqp-message-id the sender's
    Dialect("RabbitMQ", "RabbitMQ/", "x-queue-name"),
    Dialect("an unknown broker", ""),
)


def dialect_of(server: str) -> Dialect:
    """Return the dialect of a broker by the server header of its CONNECTED frame."""
    return next(dialect for dialect in DIALECTS if server.startswith(dialect.server))


def subscription(dialect: Dialect, address: BrokerAddress) -> dict[str, str]:
    """Return the headers of SUBSCRIBE; raises OptionError for an option that the broker does not have."""
    options = address.options
    if not dialect.keeps_ids and "id-header" not in options:
        problem = f"{dialect.name} is not known to give a message its id again: one that comes again would be captured twice"
        raise OptionError(problem, where=Where(source=str(address)), hint=_KEPT)
    headers = {
        "id": "0",
        "destination": dialect.kinds[address.kind].format(address.destination),
        "ack": "client",
        dialect.ahead.header: str(address.number(dialect.ahead.option, dialect.ahead.default)),
    }
    if dialect.types is not None:
        headers[_TYPE] = dialect.types[address.kind]
    for option in ("prefetch", "prefetch-bytes"):
        if option in options and option != dialect.ahead.option:
            problem = f"{dialect.name} does not have the option {option}"
            raise OptionError(problem, hint=f"It has {dialect.ahead.option}")
    if "selector" in options:
        headers["selector"] = options["selector"]
    if "durable" in options:
        headers[dialect.durable] = options["durable"]
    return headers


WINDOW_BYTES: Final = 4 << 20  # bytes that are received before a window is made of them
SEND_SECONDS: Final = 30.0  # a broker that takes no bytes for so long is lost
BEAT: Final = 10  # seconds between heart-beats, both ways, as they are offered
GRACE: Final = 3.0  # heart-beats of the broker that may be missing before it is taken for dead


class StompConnection(Connection):
    """A connection that is logged in."""

    @property
    def product(self) -> str:
        """Return the name that the broker gives itself."""
        return self.server or "unnamed"

    @property
    def dialect(self) -> Dialect:
        """Return which broker this is."""
        return dialect_of(self.server)

    def send(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send one frame; it has left this process when this returns."""
        self._send(encode_frame(command, headers, body))

    def frames(self, seconds: float, limit: int) -> Frames | None:
        """Return what is there, all of it that fits into a window, after waiting so long for the first frame."""
        until = time.monotonic() + seconds
        while True:
            self._fill()
            found = self._reader.take(limit)
            if len(found):
                return found
            if self._is_ended:
                raise self.error("the broker has closed the connection")
            left = until - time.monotonic()
            if left <= 0:
                return None
            self._check_silence()
            self._wait(min(left, self._offered))

    def close(self) -> None:
        """Close the socket, and end the heart-beats; see ``Connection``."""
        self._closed.set()
        super().close()

    def owned_until(self, error: BrokerError) -> float:
        """Return until when the broker may take this consumer for alive: it waits for two heart-beats that do not come; see ``Connection``."""
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
        found = self.frames(CONNECT_SECONDS, 1)
        if found is None:
            raise self.error("the broker does not answer to CONNECT")
        known = found.headers(0)
        if found.kinds[0] != kernels.CONNECTED:
            raise self.error(f"the broker refuses the login: {report(found, 0)}", refused=True)
        if known.get("version") != "1.2":
            problem = f"the broker speaks STOMP {known.get('version', '1.0')}, not 1.2"
            raise self.error(problem, refused=True)
        self.server = known.get("server", "")
        ours, theirs = _beats(known.get("heart-beat", "0,0"))
        if ours:
            self._silence = GRACE * max(self._offered, ours)
        if theirs:
            every = max(self._offered, theirs) / 2
            threading.Thread(target=self._beat, args=(every,), daemon=True).start()

    def _fill(self) -> None:
        """Receive what is there without waiting, up to what one window may hold."""
        while True:
            size = self._receive_into(self._reader.room())
            if not size:
                return  # what the broker sent before it closed, as an ERROR frame, counts
            self._last_received = time.monotonic()
            self._reader.extend(size)
            if self._reader.waiting >= WINDOW_BYTES:
                return

    def _check_silence(self) -> None:
        silent = time.monotonic() - self._last_received
        if self._silence and silent > self._silence:
            raise self.error(f"nothing came from the broker for {silent:.0f} seconds")

    def _send(self, data: bytes) -> None:
        until, rest = time.monotonic() + SEND_SECONDS, memoryview(data)
        with self._sending:
            while rest:
                rest = rest[self._send_some(rest) :]
                if rest and time.monotonic() > until:
                    raise self.error("the broker takes no more bytes")
                if rest:
                    select.select([], [self._socket], [], 1.0)
            self._last_sent = time.monotonic()

    def _beat(self, seconds: float) -> None:
        """Send a line feed where nothing was sent for so long (STOMP 1.2, Heart-beating)."""
        while not self._closed.wait(seconds / 2):
            if time.monotonic() - self._last_sent < seconds:
                continue
            try:
                self._send(b"\n")
            except (BrokerError, ValueError):
                return  # whoever receives sees it too


def report(frames: Frames, frame: int) -> str:
    """Return the text of an ERROR frame."""
    known, body = frames.headers(frame), frames.body(frame).decode("utf-8", "replace").strip()
    text = known.get("message", "").strip()
    first = body.partition("\n")[0].strip()
    return text if not first or first in text else f"{text} {first}".strip()


def _beats(text: str) -> tuple[float, float]:
    """Return the seconds of a heart-beat header: how often the server sends, how often it wants to hear."""
    sends, _, wants = text.partition(",")
    return tuple(int(part) / 1000 if part.strip().isdecimal() else 0.0 for part in (sends, wants))  # type: ignore[return-value]


READY_SECONDS: Final = 2.0  # that a subscription waits for the second connection, at most
POLL_SECONDS: Final = 0.2
RETRY_SECONDS: Final = 30.0
FRAMES: Final = 64  # at once
SECOND: Final = "%s has %d consumers: each gets some of the messages, and their order is lost (docs/guarantees.md)"
UNKNOWN: Final = "whether %s has other consumers is not known: %s"
_LOG: Final = logging.getLogger("trailgate.brokers")


class ConsumerWatch:
    """Logs a warning where a queue has another consumer. Whatever fails here, messages are received all the same."""

    def __init__(self, address: BrokerAddress) -> None:
        kept = ("ca", "cert", "key", "virtual-host")
        options = {name: text for name, text in address.options.items() if name in kept}
        self._address = replace(address, options=options)
        self._ready, self._closed = threading.Event(), threading.Event()
        self._count, self._is_known = 0, True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until consumers that come from now on are seen, or that fails."""
        self._ready.wait(READY_SECONDS)

    def close(self) -> None:
        """Close the second connection."""
        self._closed.set()
        self._thread.join(READY_SECONDS)

    def _run(self) -> None:
        known = ""
        while not self._closed.is_set():
            try:
                self._watch()
            except BrokerError as error:
                if error.problem != known:
                    _LOG.info(UNKNOWN, self._address, error.problem)
                known = error.problem
            self._ready.set()
            if not self._is_known:
                return
            self._closed.wait(RETRY_SECONDS)

    def _watch(self) -> None:
        """Receive what the broker reports until this is closed; raises BrokerError."""
        connection = StompConnection(self._address)
        try:
            watched = connection.dialect.consumers
            if watched is None:
                self._is_known = False  # asking again is in vain
                raise connection.error(f"{connection.dialect.name} is not known to report them")
            # A name with its address, as Artemis takes it; and in a selector quotes are doubled.
            name = self._address.destination.rpartition("::")[2].replace("'", "''")
            headers = {key: text.format(name) for key, text in watched.subscribe.items()}
            connection.send("SUBSCRIBE", {"id": "consumers", "receipt": "watching", **headers})
            seconds = CONNECT_SECONDS
            while not self._closed.is_set():
                found = connection.frames(seconds, FRAMES)
                if found is not None:
                    self._note(connection, found, watched.number)
                self._ready.set()
                seconds = POLL_SECONDS
        finally:
            connection.close()

    def _note(self, connection: StompConnection, found: Frames, header: str) -> None:
        """Warn where there are more consumers than before, and more than one."""
        for at in range(len(found)):
            if found.kinds[at] == kernels.ERROR:
                raise connection.error(report(found, at))
            text = found.headers(at).get(header, "")
            if not text.isdecimal():
                continue
            if int(text) > max(1, self._count):
                _LOG.warning(SECOND, self._address, int(text))
            self._count = int(text)
