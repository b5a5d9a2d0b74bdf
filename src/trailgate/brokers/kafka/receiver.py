"""A receiver for Kafka: one partition from an offset on, without a consumer group."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from trailgate.brokers.address import BrokerAddress
from trailgate.brokers.kafka.messages import received_messages
from trailgate.brokers.receiver import Window
from trailgate.brokers.tls_files import check_tls_files
from trailgate.errors import BrokerError, BrokerRefusedError, MissingDependencyError, Where

WINDOW: Final = 4096  # messages of a batch, at most
CONNECT_SECONDS: Final = 30.0
FIRST_SECONDS: Final = 2.0  # of the first question, which is asked again
ASK_SECONDS: Final = 5.0
_LOG: Final = logging.getLogger("trailgate.brokers")


class KafkaReceiver:
    """Receives one partition; its offsets are the positions, and nothing is acknowledged."""

    def __init__(self, address: BrokerAddress) -> None:
        check_tls_files(address)
        self._address, self._where = address, Where(source=str(address))
        self._limit = address.number("window", WINDOW)
        self._kafka = _library()
        self._consumer: Any = None
        self._place: Any = None
        self._refusal: str | None = None
        self.next = 0

    @property
    def partition(self) -> int:
        """Return the partition's number; known when it is opened."""
        return int(self._place.partition)

    def connect(self) -> None:
        """Find the partition; raises BrokerError."""
        settings = {**_settings(self._address), "error_cb": self._note}
        self._consumer = self._kafka.Consumer(settings, logger=_LOG)
        self._place = self._kafka.TopicPartition(self._address.destination, self._partition())

    def known_end(self) -> int:
        """Return the offset after the last message as the broker reported it last."""
        _, high = self._consumer.get_watermark_offsets(self._place, cached=True)
        return max(self.next, int(high))

    def open(self, offset: int | None) -> None:
        """Begin at an offset, or at the first message that is there; raises BrokerError."""
        low, high = self.bounds(CONNECT_SECONDS)
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
            raise self._error(error) from error
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
        offsets = np.array([message.offset() for message in messages], np.int64)
        self.next = int(offsets[-1]) + 1
        return Window(received_messages(messages, offsets, time.time_ns() // 1000), offsets)

    def close(self) -> None:
        """Let go of the broker."""
        if self._consumer is not None:
            self._consumer.close()

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
        known = self._asked(topic)
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

    def _asked(self, topic: str) -> Any:
        """Return what the broker states of a topic; raises BrokerError, at once where the login or the certificate is refused."""
        until = time.monotonic() + CONNECT_SECONDS
        while True:
            try:
                return self._consumer.list_topics(topic, timeout=FIRST_SECONDS).topics[topic]
            except self._kafka.KafkaException as error:
                self._consumer.poll(0)  # calls _note
                if self._refusal is not None:
                    problem = f"Kafka: {self._refusal}"
                    raise BrokerRefusedError(problem, where=self._where) from error
                if time.monotonic() > until:
                    raise self._error(error) from error

    def _note(self, error: Any) -> None:
        """Note why the broker is not reached: librdkafka tries again for ever, and only reports that it could not."""
        codes, text = self._kafka.KafkaError, error.str()
        distrust = error.code() == codes._SSL and "certificate" in text  # noqa: SLF001  the library's public name
        if distrust or error.code() == codes._AUTHENTICATION:  # noqa: SLF001  as above
            self._refusal = text

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
