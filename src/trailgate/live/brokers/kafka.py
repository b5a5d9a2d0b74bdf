"""A receiver for Kafka: one partition from an offset on, without a consumer group; nothing is acknowledged.

confluent-kafka connects and fetches; offsets are the numbers of messages and their ids. Its messages become rows of ``RECEIVED`` here, with headers in the JMS meaning. Errors
that trying again does not help are raised, others are logged and the library tries again.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

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
from trailgate.jobs.backoff import PATIENCE
from trailgate.live.brokers.address import BrokerAddress, check_tls_files
from trailgate.live.brokers.headers import (
    BAD_HEADER,
    MESSAGE_ID,
    PERSISTENT,
    HeaderLines,
    header_maps,
    last_of_each,
    repeat,
)
from trailgate.live.brokers.receiver import WINDOW, Window
from trailgate.messages.messages import RECEIVED, TOMBSTONE

KEY: Final = "kafka.key"
OFFSET_WIDTH: Final = 20  # digits of an offset in an id, so that ids have one width


def received_messages(messages: Sequence[Any], offsets: Longs, now: int) -> pa.RecordBatch:
    """Return confluent_kafka's messages of one partition as rows of ``RECEIVED``."""
    values = pa.array([message.value() for message in messages], pa.binary())
    ids = pa.array(offsets).cast(pa.string())
    lines = _own_lines(messages, ids)
    more, not_text = _header_lines(messages)
    if len(more.messages):
        lines = [last_of_each([*lines, more])]  # as Kafka's own clients have it
    faults = pc.if_else(values.is_null(), pa.scalar(TOMBSTONE), pa.scalar(None, pa.string()))
    if not_text:
        wrong = np.isin(np.arange(len(messages)), not_text)
        faults = pc.coalesce(faults, pc.if_else(pa.array(wrong), BAD_HEADER, None))
    columns = [
        ids,
        pa.repeat(now, len(messages)),
        header_maps(lines, len(messages)),
        pc.fill_null(values, b""),
        faults,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RECEIVED)


def _own_lines(messages: Sequence[Any], ids: pa.Array) -> list[HeaderLines]:
    """Return what every message has: its place, and its time where it has one."""
    every = np.arange(len(messages))
    topic, partition = messages[0].topic(), messages[0].partition()
    digits = pc.utf8_lpad(ids, OFFSET_WIDTH, "0")
    times = np.array([message.timestamp() for message in messages], np.int64).reshape(-1, 2)
    timed = np.flatnonzero(times[:, 0])
    return [
        repeat(
            MESSAGE_ID, every, pc.binary_join_element_wise(f"ID:{topic}:{partition}:", digits, "")
        ),
        repeat("JMSDestination", every, topic),
        repeat("JMSRedelivered", every, "false"),
        repeat("JMSDeliveryMode", every, PERSISTENT),
        repeat("JMSTimestamp", timed, pa.array(times[timed, 1]).cast(pa.string())),
    ]


def _header_lines(messages: Sequence[Any]) -> tuple[HeaderLines, list[int]]:
    """Return keys and headers that have values, and the messages of which one is not UTF-8: those values are shown with escapes."""
    keys = [message.key() for message in messages]
    every = [message.headers() for message in messages]
    found = [
        (at, *pair)
        for at, (key, headers) in enumerate(zip(keys, every, strict=True))
        if key is not None or headers
        for pair in chain(((KEY, key),), headers or ())
        if pair[1] is not None
    ]
    numbers, names, raws = zip(*found, strict=True) if found else ((), (), ())
    strings, wrong = [], []
    for at, raw in zip(numbers, raws, strict=True):
        try:
            strings.append(raw.decode() if isinstance(raw, bytes) else str(raw))
        except UnicodeDecodeError:
            strings.append(raw.decode("utf-8", "backslashreplace"))
            wrong.append(at)
    rows = np.array(numbers, np.int64)
    return HeaderLines(rows, pa.array(names, pa.string()), pa.array(strings, pa.string())), wrong


FIRST_SECONDS: Final = 2.0  # of the first question, which is asked again
ASK_SECONDS: Final = 5.0
LOGGED: Final = 2  # syslog's level "critical"
_LOG: Final = logging.getLogger("trailgate.brokers")


class KafkaReceiver:
    """Receives one partition; its offsets are the positions, and nothing is acknowledged."""

    def __init__(self, address: BrokerAddress, *, lasting: bool = True) -> None:
        check_tls_files(address)
        self._address, self._where = address, Where(source=str(address))
        self._limit = address.number("window", WINDOW)
        self._kafka = _library()
        self._consumer: Any = None
        self._place: Any = None
        self._refusal: str | None = None
        self._trouble: str | None = None
        self._patience = address.number("patience", PATIENCE)
        self.silence = math.inf if lasting else self._patience  # seconds that it may last
        self.is_reached, self.connections = False, 0
        self.next = 0

    @property
    def partition(self) -> int:
        """Return the partition's number; known when it is opened."""
        return int(self._place.partition)

    def connect(self) -> None:
        """Find the partition; raises BrokerError."""
        settings = {**_settings(self._address), "error_cb": self._note}
        try:
            self._consumer = self._kafka.Consumer(settings, logger=_LOG)
        except (self._kafka.KafkaException, TypeError, ValueError) as error:
            reason = error.args[0] if error.args else error
            text = reason.str() if isinstance(reason, self._kafka.KafkaError) else str(reason)
            raise OptionError(
                f"Kafka's library refuses the address: {text}", where=self._where
            ) from error
        self._place = self._kafka.TopicPartition(self._address.destination, self._partition())

    def known_end(self) -> int:
        """Return the offset after the last message as the broker reported it last."""
        _, high = self._consumer.get_watermark_offsets(self._place, cached=True)
        return max(self.next, int(high))

    def open(self, offset: int | None) -> None:
        """Begin at an offset, or at the first message that is there; raises BrokerError."""
        low, high = self.bounds(self._patience)
        self.next = low if offset is None else offset
        if not low <= self.next <= high:
            problem = f"messages {low} to {high} are there, not {self.next} with which the trail continues"
            hint = "The broker has removed messages that were not captured, or the topic is another one"
            raise BrokerRefusedError(problem, where=self._where, hint=hint)
        self._place.offset = self.next
        self._consumer.assign([self._place])
        _LOG.info("receiving from %s, partition %d", self._address, self.partition)

    def bounds(self, seconds: float = ASK_SECONDS) -> tuple[int, int]:
        """Return the offsets of the first message and after the last one; raises BrokerError."""
        try:
            low, high = self._consumer.get_watermark_offsets(self._place, timeout=seconds)
        except self._kafka.KafkaException as error:
            self.is_reached = False
            raise self._error(error) from error
        self._note_reached()
        return int(low), int(high)

    def receive(self, seconds: float) -> Window | None:
        """Return the next messages, after waiting so long at most; None where nothing came."""
        # The library waits until all are there that are asked for.
        found = self._consumer.consume(1, timeout=seconds)
        if found:
            found += self._consumer.consume(self._limit - 1, timeout=0.0)
        messages = [message for message in found if message.error() is None]
        if len(messages) < len(found):
            self._check(found)
        if not messages:
            return None
        self._note_reached()
        offsets = np.array([message.offset() for message in messages], np.int64)
        self.next = int(offsets[-1]) + 1
        return Window(received_messages(messages, offsets, time.time_ns() // 1000), offsets)

    def close(self) -> None:
        """Let go of the broker."""
        if self._consumer is not None:
            self._consumer.close()

    def _note_reached(self) -> None:
        if not self.is_reached:
            self.is_reached, self.connections = True, self.connections + 1

    def _check(self, found: Sequence[Any]) -> None:
        """Report the errors among what came; raises BrokerError for one that trying again does not help."""
        for error in (message.error() for message in found):
            if error is None:
                continue
            if error.fatal() or error.code() in self._fatal():
                raise self._error(self._kafka.KafkaException(error))
            _LOG.warning("%s (%s)", error.str(), self._address)

    def _partition(self) -> int:
        """Return the partition that is received; raises BrokerRefusedError where none is chosen among several."""
        topic = self._address.destination
        known = self._ask(topic)
        if known.error is not None:
            raise self._error(self._kafka.KafkaException(known.error))
        numbers = sorted(known.partitions)
        asked = self._address.options.get("partition")
        if asked is None and len(numbers) > 1:
            problem = f"the topic has {len(numbers)} partitions, which have no order among them"
            hint = "Receive each into a trail of its own: ?partition=0"
            raise BrokerRefusedError(problem, where=self._where, hint=hint)
        number = numbers[0] if asked is None else int(asked)
        if number not in numbers:
            problem = f"the topic has no partition {number}"
            raise BrokerRefusedError(problem, where=self._where)
        return number

    def _ask(self, topic: str) -> Any:
        """Return what the broker states of a topic; raises BrokerError, at once where the login or the certificate is refused."""
        until = time.monotonic() + self._patience
        while True:
            try:
                return self._consumer.list_topics(topic, timeout=FIRST_SECONDS).topics[topic]
            except self._kafka.KafkaException as error:
                self._consumer.poll(0)  # calls _note
                if self._refusal is not None:
                    problem = f"Kafka: {self._refusal}"
                    raise BrokerRefusedError(problem, where=self._where) from error
                if time.monotonic() > until:
                    if self._trouble is not None:
                        problem = f"the broker cannot be reached: {self._trouble}"
                        raise BrokerError(problem, where=self._where) from error
                    raise self._error(error) from error

    def _note(self, error: Any) -> None:
        """Note why the broker is not reached: librdkafka tries again for ever, and only reports that it could not."""
        codes, text = self._kafka.KafkaError, error.str()
        distrust = error.code() == codes._SSL and "certificate" in text  # noqa: SLF001  the library's public name
        if distrust or error.code() == codes._AUTHENTICATION:  # noqa: SLF001  as above
            self._refusal = text
        self._trouble = self._trouble or text
        if self._place is not None:
            _LOG.warning("%s (%s)", text, self._address)

    def _fatal(self) -> frozenset[int]:
        """Return the codes of errors that trying again does not help."""
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


def _settings(address: BrokerAddress) -> dict[str, Any]:
    """Return librdkafka's settings; the group is needed and not used."""
    settings: dict[str, Any] = {
        "bootstrap.servers": f"{address.host}:{address.port}",
        "group.id": "trailgate",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # Messages of transactions that were given up are not there.
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "log_level": LOGGED,  # what it cannot do it also reports to error_cb
        "reconnect.backoff.ms": 500,
        "reconnect.backoff.max.ms": 10_000,
    }
    if "prefetch" in address.options:
        settings["queued.min.messages"] = address.number("prefetch", 0)
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


def _library() -> Any:
    try:
        import confluent_kafka  # noqa: PLC0415  an extra
    except ImportError:
        problem = "Kafka needs confluent-kafka"
        raise MissingDependencyError.of_extra(problem, "kafka") from None
    return confluent_kafka
