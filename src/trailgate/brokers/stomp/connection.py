"""One connection of STOMP 1.2: a socket, frames both ways, and heart-beats while nothing else is sent.

What brokers do differently (names of queues, flow control, what recognises a message) is one row a broker. Other consumers of a queue are reported by
brokers in messages of their own, which a second connection receives.
"""

from __future__ import annotations

import logging
import select
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.brokers.address import QUEUE, TOPIC, BrokerAddress
from trailgate.brokers.receiver import CONNECT_SECONDS, connect, received_into
from trailgate.brokers.stomp import kernels
from trailgate.brokers.stomp.frames import FrameReader, Frames, encode_frame
from trailgate.errors import BrokerError, BrokerRefusedError, OptionError, Where

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


class Dialect(NamedTuple):
    """One broker. ``server`` is how the server header of CONNECTED begins.

    ``kinds`` are the forms of a destination. ``ahead`` is the header for what is sent ahead, by the option of an address, with its default. ``id_tail``: the broker's own id of a message is what
    follows a comma in message-id, and the part before it is the consumer's. ``keeps_ids``: a message that is given again has the id that it had. ``consumers`` is None where the broker is not known to
    report them.
    """

    name: str
    server: str
    kinds: Mapping[str, str]
    kind_headers: Mapping[str, Mapping[str, str]]
    ahead: Mapping[str, tuple[str, int]]
    durable: str
    keeps_ids: bool = False
    id_tail: bool = False
    surrogates: bool = False
    consumers: Consumers | None = None


_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_SLASHES: Final = MappingProxyType({QUEUE: "/queue/{}", TOPIC: "/topic/{}"})

DIALECTS: Final = (
    Dialect(
        "Artemis",
        "ActiveMQ-Artemis/",
        MappingProxyType({QUEUE: "{}", TOPIC: "{}"}),
        MappingProxyType(
            {
                QUEUE: MappingProxyType({"subscription-type": "ANYCAST"}),
                TOPIC: MappingProxyType({"subscription-type": "MULTICAST"}),
            }
        ),
        MappingProxyType({"prefetch-bytes": ("consumer-window-size", AHEAD_BYTES)}),
        "durable-subscription-name",
        keeps_ids=True,
        id_tail=True,
        consumers=Consumers(
            MappingProxyType(
                {
                    "destination": "activemq.notifications",
                    "subscription-type": "MULTICAST",
                    "selector": "_AMQ_NotifType IN ('CONSUMER_CREATED', 'CONSUMER_CLOSED') AND _AMQ_RoutingName = '{}'",
                }
            ),
            "_AMQ_ConsumerCount",
        ),
    ),
    Dialect(
        "ActiveMQ Classic",
        "ActiveMQ/",
        _SLASHES,
        MappingProxyType({QUEUE: _NONE, TOPIC: _NONE}),
        MappingProxyType({"prefetch": ("activemq.prefetchSize", AHEAD)}),
        "activemq.subscriptionName",
        keeps_ids=True,
        surrogates=True,
        consumers=Consumers(
            MappingProxyType({"destination": "/topic/ActiveMQ.Advisory.Consumer.Queue.{}"}),
            "consumerCount",
        ),
    ),
    Dialect(
        "RabbitMQ",  # docs/stomp.html: message-id is of the session, and amqp-message-id the sender's
        "RabbitMQ/",
        _SLASHES,
        MappingProxyType({QUEUE: _NONE, TOPIC: _NONE}),
        MappingProxyType({"prefetch": ("prefetch-count", AHEAD)}),
        "x-queue-name",
    ),
    Dialect(
        "an unknown broker",
        "",
        _SLASHES,
        MappingProxyType({QUEUE: _NONE, TOPIC: _NONE}),
        MappingProxyType({"prefetch": ("prefetch-count", AHEAD)}),
        "durable-subscription-name",
    ),
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
        **dialect.kind_headers[address.kind],
    }
    for option in ("prefetch", "prefetch-bytes"):
        if option in options and option not in dialect.ahead:
            other = ", ".join(dialect.ahead)
            problem = f"{dialect.name} does not have the option {option}"
            raise OptionError(problem, hint=f"It has {other}")
    for option, (header, default) in dialect.ahead.items():
        headers[header] = str(address.number(option, default))
    if "selector" in options:
        headers["selector"] = options["selector"]
    if "durable" in options:
        if address.kind != TOPIC or "client-id" not in options:
            problem = "a durable subscription is one to a topic, by a client id"
            raise OptionError(problem, hint="stomp://host/topic/NAME?durable=NAME&client-id=ID")
        headers[dialect.durable] = options["durable"]
    return headers


WINDOW_BYTES: Final = 4 << 20  # bytes that are received before a window is made of them
SEND_SECONDS: Final = 30.0  # a broker that takes no bytes for so long is lost
BEAT: Final = 10  # seconds between heart-beats, both ways, as they are offered
GRACE: Final = 3.0  # heart-beats of the broker that may be missing before it is taken for dead


class StompConnection:
    """A connection that is logged in. All errors are BrokerErrors; after one it is of no more use."""

    def __init__(self, address: BrokerAddress) -> None:
        self._where = Where(source=str(address))
        self._socket = connect(address)
        self._reader = FrameReader()
        self._sending, self._closed = threading.Lock(), threading.Event()
        self._last_sent = self.last_received = time.monotonic()
        self._silence, self.is_closed_by_broker = 0.0, False
        self._offered = float(address.number("heart-beat", BEAT))
        try:
            self.server, beat = self._log_in(address)
        except BaseException:
            self._socket.close()
            raise
        if beat:
            threading.Thread(target=self._beat, args=(beat,), daemon=True).start()

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
            if self.is_closed_by_broker:
                raise self.error("the broker has closed the connection")
            left = until - time.monotonic()
            if left <= 0:
                return None
            self._check_silence()
            self._wait(min(left, self._offered))

    def close(self) -> None:
        """Close the socket; the broker gives what was not acknowledged to somebody again."""
        self._closed.set()
        self._socket.close()

    def owned_until(self) -> float:
        """Return until when the broker may take this consumer for alive, as a moment of ``time.monotonic``.

        It has closed the connection itself, or waits for two heart-beats that do not come.
        """
        return 0.0 if self.is_closed_by_broker else self._last_sent + 2 * self._offered + 1

    def error(self, problem: str, *, refused: bool = False, hint: str = "") -> BrokerError:
        """Return an error of this connection."""
        kind = BrokerRefusedError if refused else BrokerError
        return kind(problem, where=self._where, hint=hint)

    def _log_in(self, address: BrokerAddress) -> tuple[str, float]:
        """Return who the server is, and after how many seconds a heart-beat is due."""
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
        ours, theirs = _beats(known.get("heart-beat", "0,0"))
        self._silence = GRACE * max(self._offered, ours) if ours else 0.0
        return known.get("server", ""), max(self._offered, theirs) / 2 if theirs else 0.0

    def _fill(self) -> None:
        """Receive what is there without waiting, up to what one window may hold."""
        while True:
            room = self._reader.room()
            size = received_into(self._socket, room, self.error)
            if size is None:
                return
            if not size:
                self.is_closed_by_broker = True  # what it sent before, as an ERROR frame, counts
                return
            self.last_received = time.monotonic()
            self._reader.received(size)
            if self._reader.waiting >= WINDOW_BYTES:
                return

    def _wait(self, seconds: float) -> None:
        try:
            select.select([self._socket], [], [], seconds)
        except (OSError, ValueError) as error:
            raise self.error(f"the connection is lost: {error}") from error

    def _check_silence(self) -> None:
        silent = time.monotonic() - self.last_received
        if self._silence and silent > self._silence:
            raise self.error(f"nothing came from the broker for {silent:.0f} seconds")

    def _send(self, data: bytes) -> None:
        until, rest = time.monotonic() + SEND_SECONDS, memoryview(data)
        with self._sending:
            while rest:
                try:
                    rest = rest[self._socket.send(rest) :]
                except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                    if time.monotonic() > until:
                        raise self.error("the broker takes no more bytes") from None
                    select.select([], [self._socket], [], 1.0)
                except OSError as error:
                    self.is_closed_by_broker = isinstance(error, ConnectionError)
                    raise self.error(f"the connection is lost: {error}") from error
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
        self._address = replace(address, options=_without(address))
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
            self._note(connection, connection.frames(CONNECT_SECONDS, FRAMES), watched.number)
            self._ready.set()
            while not self._closed.is_set():
                found = connection.frames(POLL_SECONDS, FRAMES)
                self._note(connection, found, watched.number)
        finally:
            connection.close()

    def _note(self, connection: StompConnection, found: Frames | None, header: str) -> None:
        """Warn where there are more consumers than before, and more than one."""
        for at in range(0 if found is None else len(found)):
            assert found is not None
            if found.kinds[at] == kernels.ERROR:
                raise connection.error(report(found, at))
            text = found.headers(at).get(header, "")
            if not text.isdecimal():
                continue
            if int(text) > max(1, self._count):
                _LOG.warning(SECOND, self._address, int(text))
            self._count = int(text)


def _without(address: BrokerAddress) -> dict[str, str]:
    """Return the options of a connection that only watches."""
    kept = ("ca", "cert", "key", "virtual-host")
    return {name: text for name, text in address.options.items() if name in kept}
