"""What publications have sent to a real broker, read by clients that are not ours."""

from __future__ import annotations

import json
import time
from typing import Any, NamedTuple

from brokers.kafka import Kafka
from brokers.receivers import PATIENCE


class Published(NamedTuple):
    """A message of a topic; the value is parsed JSON, or None for a tombstone."""

    key: str | None
    value: Any
    headers: dict[str, str]
    partition: int = 0


def consumed(kafka: Kafka, topic: str, *, parse: Any = json.loads) -> list[Published]:
    """Return the committed messages of a topic, partition by partition."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition  # noqa: PLC0415  an extra

    settings = {
        "bootstrap.servers": f"127.0.0.1:{kafka.port}",
        "group.id": "reading",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        found = []
        for number in sorted(partitions):
            consumer.assign([TopicPartition(topic, number, 0)])
            until = time.monotonic() + PATIENCE
            while (message := consumer.poll(1.0)) is None or message.error() is None:
                assert time.monotonic() < until, "no end of the topic"
                if message is not None:
                    headers = {name: raw.decode() for name, raw in message.headers() or ()}
                    key = None if message.key() is None else message.key().decode()
                    value = None if message.value() is None else parse(message.value())
                    found.append(Published(key, value, headers, number))
            assert message.error().code() == KafkaError._PARTITION_EOF
    finally:
        consumer.close()
    return found
