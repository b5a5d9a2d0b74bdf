"""Receive one Kafka partition from an offset on, without a consumer group and without acknowledging.

confluent-kafka connects, fetches and reconnects. The trail itself records the offset to continue
from, so nothing is committed to Kafka. A message's id contains topic, partition and offset, for
example ``ID:orders:0:00000000000000000042``. Messages become rows of ``RECEIVED`` with JMS headers;
the key becomes the header ``kafka.key``, and a message without a value (a tombstone) has a fault.
Headers are built only if a capture uses one.

Errors that a retry cannot fix are raised; others are logged, and the library retries by itself.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.errors import (
    BrokerError,
    BrokerRefusedError,
    MissingDependencyError,
    OptionError,
    Where,
)
from trailgate.jobs.retries import PATIENCE
from trailgate.live.brokers.address import BrokerAddress, check_tls_files, tls_hint
from trailgate.live.brokers.headers import (
    BAD_HEADER,
    MESSAGE_ID,
    PERSISTENT,
    HeaderLines,
    header_maps,
    keep_last_headers,
    repeat_header,
)
from trailgate.live.brokers.kafka_topic import (
    TopicWatch,
    check_compaction,
    several_partitions_error,
)
from trailgate.live.brokers.receiver import WINDOW, MessageWindow
from trailgate.messages.message_batch import TOMBSTONE, HeaderColumns, HeaderPart

KEY: Final = "kafka.key"
BAD_KEY: Final = (
    "the key of the message is not UTF-8 (message-key=hex in the address converts keys to text)"
)
OFFSET_WIDTH: Final = 20  # digits of an offset in an id, so that all ids have the same width
FIRST_SECONDS: Final = 2.0  # timeout of one request for the topic, which is repeated
ASK_SECONDS: Final = 5.0  # timeout of a request for offsets
# Messages that are taken from the library at once, and whose fields are read: so few that they stay in the
# processor's cache. With 4096 a message takes three times as long.
FETCHED: Final = 1024
BACKOFF_MS: Final = 5
LOGGED: Final = 2  # syslog's level "critical": other errors reach _note as well
# OpenSSL's texts of an answer that is not TLS, and librdkafka's two texts of a port that closes the connection.
_NO_TLS: Final = re.compile(r"wrong version number|http request|record layer")
_CLOSED_TLS: Final = re.compile(r"connecting to a PLAINTEXT broker listener|in state SSL_HANDSHAKE")
_CLOSED: Final = "it closes the connection without an answer"
NO_POLICY: Final = "messages that the broker removes by compaction will not be noticed"
NO_TOPIC_ID: Final = "it will not be noticed if the topic is created again"
_LOG: Final = logging.getLogger("trailgate.brokers")


class MessageFields(NamedTuple):
    """The fields of consecutive Kafka messages of one partition, each with one element per message.

    ``times`` is a table with a row for each message: the type of its timestamp (0 if it has none),
    and the milliseconds since 1970 UTC. A value, key or list of headers may be null.
    """

    offsets: Longs
    times: Longs
    values: pa.BinaryArray
    keys: list[bytes | str | None]
    headers: list[list[tuple[str, Any]] | None]

    @classmethod
    def of(cls, messages: Sequence[Any], *, hex_keys: bool = False) -> MessageFields:
        """Copy the fields of Kafka messages from the objects of confluent-kafka.

        With ``hex_keys``, keys are converted to text in hex.
        """
        keys = [message.key() for message in messages]
        if hex_keys:
            keys = [
                key if key is None else (key.encode() if isinstance(key, str) else key).hex()
                for key in keys
            ]
        times = chain.from_iterable([message.timestamp() for message in messages])
        return cls(
            np.array([message.offset() for message in messages], np.int64),
            np.fromiter(times, np.int64, 2 * len(messages)).reshape(-1, 2),
            pa.array([message.value() for message in messages], pa.binary()),
            keys,
            [message.headers() for message in messages],
        )

    def slice(self, begin: int, end: int) -> MessageFields:
        """Return the fields of the Kafka messages [begin, end)."""
        part = slice(begin, end)
        return MessageFields(
            self.offsets[part],
            self.times[part],
            self.values.slice(begin, end - begin),
            self.keys[part],
            self.headers[part],
        )

    @classmethod
    def join(cls, parts: Sequence[MessageFields]) -> MessageFields:
        """Join the fields of consecutive Kafka messages."""
        if len(parts) == 1:
            return parts[0]
        offsets, times, values, keys, headers = zip(*parts, strict=True)
        return cls(
            np.concatenate(offsets),
            np.concatenate(times),
            pa.concat_arrays(values),
            list(chain.from_iterable(keys)),
            list(chain.from_iterable(headers)),
        )


def received_window(fields: MessageFields, place: Any, now: int) -> MessageWindow:
    """Convert Kafka messages to a window: rows of the schema ``RECEIVED`` without its column of ids, and the messages' headers.

    ``place`` is their topic and partition, and ``now`` the time of receipt in microseconds.
    """
    values, count = fields.values, len(fields.offsets)
    faults = pc.if_else(values.is_null(), pa.scalar(TOMBSTONE), pa.scalar(None, pa.string()))
    if not _is_text(fields):
        # A tombstone keeps its own fault.
        wrong = _header_lines(fields)[1]
        faults = pc.coalesce(faults, pa.array(map(wrong.get, range(count)), pa.string()))
    columns = {
        "received": pa.repeat(now, count),
        "body": pc.fill_null(values, b"") if values.null_count else values,
        "fault": faults,
    }
    part = HeaderPart(lambda begin, end: _headers(fields.slice(begin, end), place), 0, count)
    return MessageWindow(pa.record_batch(columns), fields.offsets, HeaderColumns([part]))


def _headers(fields: MessageFields, place: Any) -> pa.MapArray:
    """Build the JMS headers of Kafka messages. ``place`` is their topic and partition."""
    lines, (more, _) = _own_lines(fields, place), _header_lines(fields)
    if len(more.messages):
        lines = [
            keep_last_headers([*lines, more])
        ]  # the last of repeated headers wins, as in Kafka
    return header_maps(lines, len(fields.offsets))


def _is_text(fields: MessageFields) -> bool:
    """Return whether all keys and header values of Kafka messages are UTF-8."""
    # Usual, and known without a look at each message.
    count = len(fields.keys)
    if fields.keys.count(None) == count and fields.headers.count(None) == count:
        return True
    pairs = chain.from_iterable(headers for headers in fields.headers if headers)
    raws = chain(fields.keys, (value for _, value in pairs))
    try:
        # A line feed between two values keeps their bytes apart.
        b"\n".join(raw for raw in raws if isinstance(raw, bytes)).decode()
    except UnicodeDecodeError:
        return False
    return True


def _own_lines(fields: MessageFields, place: Any) -> list[HeaderLines]:
    """Build the JMS headers that every Kafka message gets: its id, destination and time.

    A message without a timestamp gets no JMSTimestamp. ``place`` is the topic and partition.
    """
    ids = pa.array(fields.offsets).cast(pa.string())
    every = np.arange(len(ids))
    digits = pc.utf8_lpad(ids, OFFSET_WIDTH, "0")
    begin = f"ID:{place.topic}:{place.partition}:"
    # The type of a time is 0 if the message has none.
    timed = np.flatnonzero(fields.times[:, 0])
    return [
        repeat_header(MESSAGE_ID, every, pc.binary_join_element_wise(begin, digits, "")),
        repeat_header("JMSDestination", every, place.topic),
        repeat_header("JMSRedelivered", every, "false"),
        repeat_header("JMSDeliveryMode", every, PERSISTENT),
        repeat_header("JMSTimestamp", timed, pa.array(fields.times[timed, 1]).cast(pa.string())),
    ]


def _header_lines(fields: MessageFields) -> tuple[HeaderLines, dict[int, str]]:
    """Convert the keys and headers of Kafka messages to JMS headers. Null values are skipped.

    Also returns the faults, by number, of the messages with a key or a header value that is not
    UTF-8. Its wrong bytes are stored as escapes.
    """
    pairs = [
        (at, *pair)
        for at, (key, headers) in enumerate(zip(fields.keys, fields.headers, strict=True))
        if key is not None or headers
        for pair in chain(((KEY, key),), headers or ())
        if pair[1] is not None
    ]
    numbers, names, raws = zip(*pairs, strict=True) if pairs else ((), (), ())
    strings: list[str] = []
    wrong: dict[int, str] = {}
    for at, name, raw in zip(numbers, names, raws, strict=True):
        try:
            strings.append(raw.decode() if isinstance(raw, bytes) else str(raw))
        except UnicodeDecodeError:
            strings.append(raw.decode("utf-8", "backslashreplace"))
            wrong.setdefault(at, BAD_KEY if name == KEY else BAD_HEADER)
    rows = np.array(numbers, np.int64)
    return HeaderLines(rows, pa.array(names, pa.string()), pa.array(strings, pa.string())), wrong


class ConnectionTrouble:
    """Collects the reasons why a Kafka broker cannot be reached.

    librdkafka retries for ever and reports a failure only through a callback, which calls ``add``.
    ``refusal`` is a reason that a retry cannot cure, or None: a refused login, an untrusted
    certificate, or an answer that is not TLS.
    """

    def __init__(self, address: BrokerAddress, kafka: Any) -> None:
        self._address, self._codes = address, kafka.KafkaError
        self._reported: str | None = None
        self._closes = False
        self.refusal: str | None = None

    def add(self, error: Any) -> None:
        """Add an error that librdkafka reports."""
        text = error.str()
        if error.code() == self._codes._ALL_BROKERS_DOWN:  # noqa: SLF001  the library's public name
            # "1/1 brokers are down" follows other errors, but nothing precedes it if the broker
            # closes the connection: the library does not report that.
            self._closes = True
            return
        # _SSL also covers failures that a retry can cure; an untrusted certificate is not one of
        # them.
        distrust = error.code() == self._codes._SSL and "certificate" in text  # noqa: SLF001  as above
        refused = distrust or error.code() == self._codes._AUTHENTICATION  # noqa: SLF001  as above
        if refused or _NO_TLS.search(text):
            self.refusal = text
        self._reported = self._reported or text

    @property
    def reason(self) -> str | None:
        """The first reason why the Kafka broker cannot be reached, or None if none was reported."""
        return self._reported or (_CLOSED if self._closes else None)

    @property
    def hint(self) -> str:
        """A hint if Kafka's port seems to use TLS and the address does not, or the reverse; else ""."""
        text = self.refusal or self.reason or ""
        differs = text == _CLOSED or _CLOSED_TLS.search(text) or _NO_TLS.search(text)
        return tls_hint(self._address) if differs else ""

    @property
    def refused(self) -> BrokerRefusedError | None:
        """The error to raise for ``refusal``, or None if Kafka has refused nothing."""
        if self.refusal is None:
            return None
        where = Where(source=str(self._address))
        return BrokerRefusedError(f"Kafka: {self.refusal}", where=where, hint=self.hint)

    def clear(self) -> None:
        """Forget all reported errors of Kafka, before a new attempt to connect."""
        self._reported = self.refusal = None
        self._closes = False


class KafkaReceiver:
    """Receives one Kafka partition. Positions are offsets, and nothing is acknowledged.

    Call ``connect``, then ``open`` with an offset, then ``receive``. ``next`` is the offset at
    which the next message is expected. ``is_reached`` is whether the broker answered the last
    request, and ``silence`` the number of seconds after which a broker that does not answer is an
    error (infinite for a ``lasting`` receiver).
    """

    def __init__(self, address: BrokerAddress, *, lasting: bool = True) -> None:
        check_tls_files(address)
        self._address, self._where = address, Where(source=str(address))
        self._limit = address.number("window", WINDOW)
        self._has_hex_keys = address.options.get("message-key") == "hex"
        self._kafka = import_kafka()
        self._consumer: Any = None
        self._place: Any = None
        self._topic: TopicWatch | None = None
        self._trouble = ConnectionTrouble(address, self._kafka)
        self._patience = address.number("patience", PATIENCE)
        self.silence = math.inf if lasting else self._patience  # seconds without an answer
        self.is_reached, self.connections = False, 0
        self._passed = 0  # the offset after the last message and marker, as far as it is known
        self.next = 0

    @property
    def partition(self) -> int:
        """The number of the Kafka partition, known after ``connect``."""
        return int(self._place.partition)

    @property
    def topic_id(self) -> str | None:
        """The broker's id of the Kafka topic, or None if it gives none. Known after ``connect``."""
        return None if self._topic is None else self._topic.id

    def connect(self) -> None:
        """Create the Kafka consumer, and find the number of the partition and the topic's id.

        Raises BrokerError, or OptionError if the library rejects the address.
        """
        settings = {
            **consumer_settings(self._address),
            "error_cb": self._note,
            "enable.partition.eof": True,
        }
        try:
            self._consumer = self._kafka.Consumer(settings, logger=_LOG)
        except (self._kafka.KafkaException, TypeError, ValueError) as error:
            reason = error.args[0] if error.args else error
            text = reason.str() if isinstance(reason, self._kafka.KafkaError) else str(reason)
            raise OptionError(
                f"Kafka's library refuses the address: {text}", where=self._where
            ) from error
        self._place = self._kafka.TopicPartition(self._address.destination, self._partition())
        # Nothing polls the second client, so it gets no function that is called for errors.
        admin = import_admin()(client_settings(self._address))
        self._topic = TopicWatch(self._address, admin, self._kafka)
        reason = self._topic.begin(ASK_SECONDS)
        if reason:
            _LOG.warning("%s: %s (%s)", NO_TOPIC_ID, reason, self._address)
        reason = check_compaction(self._address, admin, ASK_SECONDS)
        if reason:
            _LOG.warning("%s: %s (%s)", NO_POLICY, reason, self._address)

    def known_end(self) -> int:
        """Return the end offset of the partition that the broker reported last (the offset after the last message)."""
        # cached=True: no request, the value came with the last fetch.
        _, high = self._consumer.get_watermark_offsets(self._place, cached=True)
        return max(self.next, int(high))

    def open(self, offset: int | None) -> int:
        """Start reading the Kafka partition at an offset; None is the first retained message.

        Returns the offset after the partition's last message. Raises BrokerRefusedError if the
        offset is not retained.
        """
        low, high = self.bounds(self._patience)
        self.next, self._passed = low if offset is None else offset, 0
        # `high` is the offset of the next message to come, from which a caught-up trail continues.
        if not low <= self.next <= high:
            held = f"messages {low} to {high - 1}" if low < high else f"no messages before {high}"
            problem = f"the broker has {held}, but the trail continues at {self.next}"
            hint = "The broker has removed messages that were not captured, or this is a different topic"
            raise BrokerRefusedError(problem, where=self._where, hint=hint)
        self._place.offset = self.next
        self._consumer.assign([self._place])
        _LOG.info("receiving from %s, partition %d", self._address, self.partition)
        return high

    def bounds(self, seconds: float = ASK_SECONDS) -> tuple[int, int]:
        """Request the Kafka partition's first offset and end offset. Raises BrokerError."""
        try:
            low, high = self._consumer.get_watermark_offsets(self._place, timeout=seconds)
        except self._kafka.KafkaException as error:
            self.is_reached = False
            raise self._error(error) from error
        self._note_reached()
        return int(low), int(high)

    def receive(self, seconds: float) -> MessageWindow | None:
        """Wait up to ``seconds`` for a first Kafka message, and return all that have arrived.

        These are at most as many as the address's option window. Returns None if none has arrived.
        Raises BrokerRefusedError if the topic was deleted, created again or given more partitions.
        """
        if self._topic is not None:
            self._topic.check()
        # consume(n) waits until n messages have arrived, so first wait for one, then take the rest.
        fetched, fields = self._fetch(1, seconds)
        parts, left = [fields], self._limit - 1
        while fetched and left:
            wanted = min(left, FETCHED)
            fetched, fields = self._fetch(wanted, 0.0)
            parts.append(fields)
            left = left - fetched if fetched == wanted else 0
        messages = MessageFields.join(parts)
        if not len(messages.offsets):
            self.next = max(self.next, self._passed)
            return None
        self._note_reached()
        self.next = max(int(messages.offsets[-1]) + 1, self._passed)
        return received_window(messages, self._place, time.time_ns() // 1000)

    def _fetch(self, most: int, seconds: float) -> tuple[int, MessageFields]:
        """Fetch up to ``most`` Kafka messages, waiting for at most ``seconds``.

        Returns the number of messages and errors that the library returned, and the fields of the
        messages.
        """
        fetched = self._consumer.consume(most, timeout=seconds)
        messages = [message for message in fetched if message.error() is None]
        if len(messages) < len(fetched):
            self._check(fetched)
        return len(fetched), MessageFields.of(messages, hex_keys=self._has_hex_keys)

    def close(self) -> None:
        """Close the Kafka consumer."""
        self._topic = None
        if self._consumer is not None:
            self._consumer.close()

    def _note_reached(self) -> None:
        if not self.is_reached:
            self.is_reached, self.connections = True, self.connections + 1

    def _check(self, fetched: Sequence[Any]) -> None:
        """Log the errors that librdkafka returned among fetched messages.

        An end of the partition is not an error: its offset is stored in ``_passed``. Raises
        BrokerError for an error that a retry cannot fix.
        """
        for message in fetched:
            error = message.error()
            if error is None:
                continue
            if error.code() == self._kafka.KafkaError._PARTITION_EOF:  # noqa: SLF001  the library's public name
                # Markers of transactions have offsets too, and no message comes for them. After
                # messages 0 to 4 and a marker the end is 6, and the next message has the offset 6.
                self._passed = int(message.offset())
                continue
            if error.fatal() or error.code() in self._fatal():
                raise self._error(self._kafka.KafkaException(error))
            _LOG.warning("%s (%s)", error.str(), self._address)

    def _partition(self) -> int:
        """Return the number of the Kafka partition to receive from.

        Raises BrokerRefusedError if it does not exist, or if the topic has several and the URL does
        not choose one.
        """
        topic = self._address.destination
        known = self._ask(topic)
        if known.error is not None:
            raise self._error(self._kafka.KafkaException(known.error))
        numbers = sorted(known.partitions)
        wanted = self._address.options.get("partition")
        if wanted is None and len(numbers) > 1:
            raise several_partitions_error(self._address, len(numbers))
        number = numbers[0] if wanted is None else int(wanted)
        if number not in numbers:
            problem = f"the topic has no partition {number}"
            raise BrokerRefusedError(problem, where=self._where)
        return number

    def _ask(self, topic: str) -> Any:
        """Request a Kafka topic's metadata until the broker answers or the time for retries ends.

        Raises BrokerError, at once if the login or the certificate is rejected.
        """
        until = time.monotonic() + self._patience
        while True:
            try:
                return self._consumer.list_topics(topic, timeout=FIRST_SECONDS).topics[topic]
            except self._kafka.KafkaException as error:
                self._consumer.poll(0)  # calls _note
                if self._trouble.refused is not None:
                    raise self._trouble.refused from error
                # librdkafka retries by itself, and reports only a timeout here. The cause is known
                # from `_note`.
                if time.monotonic() > until:
                    if self._trouble.reason is not None:
                        problem = f"the broker cannot be reached: {self._trouble.reason}"
                        hint = self._trouble.hint
                        raise BrokerError(problem, where=self._where, hint=hint) from error
                    raise self._error(error) from error

    def _note(self, error: Any) -> None:
        """Record an error that librdkafka reports; once the partition is known, log it."""
        self._trouble.add(error)
        # Until the partition is known, `_ask` raises the trouble, so do not log it too.
        if self._place is not None:
            _LOG.warning("%s (%s)", error.str(), self._address)

    def _fatal(self) -> frozenset[int]:
        """Return the codes of Kafka errors that a retry cannot fix."""
        codes = self._kafka.KafkaError
        return frozenset(
            {
                codes._AUTO_OFFSET_RESET,  # noqa: SLF001  the library's public name
                codes.OFFSET_OUT_OF_RANGE,
                codes.UNKNOWN_TOPIC_OR_PART,
                codes.TOPIC_AUTHORIZATION_FAILED,
                codes._AUTHENTICATION,  # noqa: SLF001  as above
            }
        )

    def _error(self, error: Any) -> BrokerError:
        reason = error.args[0]
        refused = reason.code() in self._fatal()
        kind = BrokerRefusedError if refused else BrokerError
        return kind(f"Kafka: {reason.str()}", where=self._where)


def consumer_settings(address: BrokerAddress) -> dict[str, Any]:
    """Return librdkafka's settings of a consumer. It requires a group id, which is not used otherwise."""
    settings: dict[str, Any] = {
        **client_settings(address),
        "group.id": "trailgate",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # Skip the messages of aborted transactions.
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        # The library stops fetching while 100,000 messages wait, and looks again after this time: by default a second.
        "fetch.queue.backoff.ms": BACKOFF_MS,
    }
    if "prefetch" in address.options:
        settings["queued.min.messages"] = address.number("prefetch", 0)
    return settings


def client_settings(address: BrokerAddress) -> dict[str, Any]:
    """Return the settings that every client of librdkafka has: the broker, the login and TLS."""
    settings: dict[str, Any] = {
        "bootstrap.servers": f"{address.host}:{address.port}",
        "log_level": LOGGED,
        # Half of it passes before the first request, too. The pauses grow.
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 10_000,
    }
    protocol = "SSL" if address.tls else "PLAINTEXT"
    if address.user is not None:
        protocol = f"SASL_{protocol}"
        settings |= {
            "sasl.mechanism": address.options.get("mechanism", "PLAIN"),
            "sasl.username": address.user,
            "sasl.password": address.password or "",
        }
    settings["security.protocol"] = protocol
    names = {"ca": "ssl.ca.location", "cert": "ssl.certificate.location", "key": "ssl.key.location"}
    settings |= {names[name]: text for name, text in address.options.items() if name in names}
    return settings


def import_admin() -> Any:
    """Import the class of clients that ask for Kafka's topics. Call it after ``import_kafka``."""
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415  an extra

    return AdminClient


def import_kafka() -> Any:
    """Import confluent-kafka. Raises MissingDependencyError if it is not installed."""
    try:
        import confluent_kafka  # noqa: PLC0415  an extra
    except ImportError:
        problem = "Kafka needs confluent-kafka"
        raise MissingDependencyError.of_extra(problem, "kafka") from None
    return confluent_kafka
