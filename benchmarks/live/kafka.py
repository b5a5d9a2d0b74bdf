"""From a topic of a real Kafka to the trail, beside Spark's way from Kafka to Parquet on two cores."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from benchmarks.live import latency
from benchmarks.live.places import body, captured, made
from benchmarks.report import Figure, Target

from brokers import kafka
from brokers.live_place import LivePlace
from brokers.real_brokers import copied_jars

MESSAGES: Final = {1: 200_000, 100: 20_000}  # by operations of one message
TARGETS: Final = {1: Target(0.5)}
QUICK: Final = 4
ROUNDS: Final = 3
SPARK_SECONDS: Final = 300
ROOT: Final = Path(__file__).parents[2]
# The connector of the running Spark cannot be had everywhere; this one works with Spark 4.3.
CONNECTORS: Final = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}",
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
)
BESIDE: Final = (
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.0",
    "org.apache.commons:commons-pool2:2.12.0",
)


def figures(folder: Path, *, quick: bool) -> Iterator[Figure]:
    """Yield messages a second; beside a bare consumer where Spark's connector cannot be had."""
    if importlib.util.find_spec("confluent_kafka") is None:
        print("no benchmark of Kafka: it needs the extra kafka")
        return
    with kafka.running(folder) as broker:
        place = LivePlace(folder)
        for operations, most in MESSAGES.items():
            count = most // QUICK if quick else most
            topic = f"orders{operations}"
            broker.create(topic)
            broker.send(topic, [body(operations)] * count)
            own, bare = [], []
            for turn in range(ROUNDS + 1):
                seconds = captured(broker.address(topic), place, f"{topic}x{turn}", count)
                own.append(seconds)
                bare.append(_consumed(broker, topic, count))
            name = f"a Kafka topic of messages of {operations} operation{'s' * (operations > 1)} to the trail"
            rate = count / min(own[1:]) / 1000
            other = count / min(bare[1:]) / 1000
            beside = "a consumer that only receives"
            yield Figure(name, rate, "k messages/s", beside, other, TARGETS.get(operations))
            yield from _beside_spark(name, rate, broker, topic, count)
        yield from latency.figures(
            "kafka", broker, LivePlace(made(folder / "latency")), quick=quick
        )


def _consumed(broker: kafka.Kafka, topic: str, count: int) -> float:
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415  an extra

    started, seen = time.perf_counter(), 0
    servers = {"bootstrap.servers": f"127.0.0.1:{broker.port}", "group.id": "bare"}
    consumer = Consumer({**servers, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    while seen < count:
        seen += len(consumer.consume(1000, timeout=1.0))
    seconds = time.perf_counter() - started
    consumer.close()
    return seconds


def _beside_spark(
    name: str, rate: float, broker: kafka.Kafka, topic: str, count: int
) -> Iterator[Figure]:
    try:
        jars, version = _connector()
    except pytest.skip.Exception as reason:
        print(f"Spark's Kafka to Parquet is not measured: {reason}")
        return
    command = [sys.executable, "-m", "benchmarks.live.spark_process", jars, str(broker.port), topic]
    try:
        done = subprocess.run(
            [*command, str(count)],
            check=True,
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=SPARK_SECONDS,
        )
    except subprocess.TimeoutExpired:
        print(f"Spark's Kafka to Parquet took more than {SPARK_SECONDS} seconds")
        return
    seconds = float(done.stdout.split()[-1])
    beside = f"Spark's Kafka to Parquet, local[2] (connector {version})"
    yield Figure(name, rate, "k messages/s", beside, count / seconds / 1000)


def _connector() -> tuple[str, str]:
    """Return the connector's jars, with a comma between, and its version; skips where there is none."""
    import pyspark  # noqa: PLC0415  an extra

    problems: list[str] = []
    for coordinates in CONNECTORS:
        chosen = coordinates.format(spark=pyspark.__version__)
        try:
            folder = copied_jars(chosen, *BESIDE)
        except pytest.skip.Exception as reason:
            problems.append(str(reason))
        else:
            return ",".join(map(str, sorted(folder.glob("*.jar")))), chosen.rpartition(":")[2]
    raise pytest.skip.Exception("; ".join(problems))
