"""From a trail to a real Kafka: messages a second, latency and memory, beside a bare transactional producer."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any, Final

import numpy as np
from benchmarks.report import Figure, Target

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from brokers import kafka
from sample_trail import Op, changes, write_trail
from trailgate.publish.job import publish_trail
from trailgate.publish.senders.broker_sink import BATCH_MESSAGES
from trailgate.trail.writing.writer import encode

OPERATIONS: Final = 200_000
QUICK: Final = 10
OF_A_TRANSACTION: Final = 10
AT_ONCE: Final = BATCH_MESSAGES  # messages of a transaction of the bare producer, as many as ours
ROUNDS: Final = 3
RATE: Final = 1000  # operations a second of a trail that grows
STEP: Final = 0.01  # seconds between writes to it
TRANSACTIONS: Final = "transactions=false"  # a message for each operation, and no more
Row = tuple[bytes, bytes, list[tuple[str, bytes]]]


def run(*, quick: bool) -> list[Figure]:
    """Measure all."""
    if importlib.util.find_spec("confluent_kafka") is None:
        print("no benchmark of publishing: it needs the extra kafka")
        return []
    with (
        tempfile.TemporaryDirectory(prefix="trailgate-") as name,
        kafka.running(Path(name)) as broker,
    ):
        return list(_figures(broker, Path(name), quick=quick))


def _figures(broker: kafka.Kafka, folder: Path, *, quick: bool) -> Iterator[Figure]:
    count = OPERATIONS // QUICK if quick else OPERATIONS
    trail = _trail(folder / "many", count)
    own = [_published(broker, trail, turn, count) for turn in range(ROUNDS + 1)]
    rows = _rows(broker, "own1.orders", count)
    bare = [_produced(broker, turn, rows) for turn in range(ROUNDS + 1)]
    yield Figure(
        "a trail to Kafka in Debezium's format",
        count / min(own[1:]) / 1000,
        "k messages/s",
        "a transactional producer of the same messages",
        count / min(bare[1:]) / 1000,
        Target(0.7),
    )
    small, large = (
        _memory(broker, _trail(folder / f"memory{share}", count // share), f"memory{share}")
        for share in (10, 1)
    )
    yield Figure(
        f"publishing {count:,} operations",
        large,
        "MB",
        f"{count // 10:,} operations",
        small,
        Target(1.2, at_most=True),
    )
    latencies = np.array(_latencies(broker, folder / "growing", 3 if quick else 15)) * 1000
    for name, percentile, target in (("median", 50, 20), ("99th percentile", 99, 60)):
        yield Figure(
            f"from a trail that grows by {RATE:,} operations/s to a consumer, {name}",
            float(np.percentile(latencies, percentile)),
            "ms",
            "the goal",
            float(target),
            Target(1.0, at_most=True),
        )


def _trail(prefix: Path, count: int) -> Path:
    """Write inserts of one table, some of each transaction."""
    return write_trail(prefix, [_transactions(count)])


def _transactions(count: int) -> list[list[Op]]:
    operations = [Op("I", number, f"a customer of {number:08} orders") for number in range(count)]
    cuts = range(0, count, OF_A_TRANSACTION)
    return [operations[at : at + OF_A_TRANSACTION] for at in cuts]


def _published(broker: kafka.Kafka, trail: Path, turn: int, count: int) -> float:
    broker.create(f"own{turn}.orders")
    to = broker.address(f"own{turn}.orders")
    started = time.perf_counter()
    found = publish_trail(
        trail, to, "debezium", options={"transactions": "false"}, group=f"own{turn}"
    )
    seconds = time.perf_counter() - started
    assert found.messages == count, found
    return seconds


def _consumer(broker: kafka.Kafka, topic: str) -> Any:
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415  an extra

    servers = {"bootstrap.servers": f"127.0.0.1:{broker.port}", "group.id": "bare"}
    consumer = Consumer({**servers, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def _rows(broker: kafka.Kafka, topic: str, count: int) -> list[Row]:
    """Return the messages of a topic."""
    consumer, found = _consumer(broker, topic), list[Row]()
    while len(found) < count:
        for one in consumer.consume(10_000, 1.0):
            found.append((one.key(), one.value(), one.headers()))
    consumer.close()
    return found


def _produced(broker: kafka.Kafka, turn: int, rows: list[Row]) -> float:
    """Return the seconds in which a bare producer sends messages in transactions."""
    from confluent_kafka import Producer  # noqa: PLC0415  an extra

    topic = f"bare{turn}"
    broker.create(topic)
    started = time.perf_counter()
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{broker.port}",
            "transactional.id": topic,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.init_transactions()
    for begin in range(0, len(rows), AT_ONCE):
        producer.begin_transaction()
        for key, value, headers in rows[begin : begin + AT_ONCE]:
            producer.produce(topic, value, key, headers=headers)
        producer.commit_transaction()
    return time.perf_counter() - started


def _memory(broker: kafka.Kafka, trail: Path, group: str) -> float:
    """Return the most megabytes that a process needs to publish a trail."""
    to = broker.address(group, "?create")
    options = ["--format", "debezium", "--option", TRANSACTIONS, "--group", group]
    command = [sys.executable, "-m", "trailgate", "publish", str(trail), "--to", to, *options]
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command], check=True, capture_output=True, text=True
    )
    return int(done.stdout) / 1000


def _latencies(broker: kafka.Kafka, prefix: Path, seconds: int) -> list[float]:
    """Return the seconds from the write of an operation to its message, at a steady rate."""
    at_once = round(RATE * STEP)
    turns = round(seconds / STEP)
    encoded = encode(changes(_transactions(turns * at_once)))
    body, starts = bytes(encoded.body), [*encoded.starts.tolist()[::at_once], len(encoded.body)]
    # The file begins with its header alone.
    path = Path(f"{write_trail(prefix, [[]])}000000000")
    broker.create("growing")
    to = broker.address("growing")
    options = ["--format", "debezium", "--option", TRANSACTIONS, "--follow"]
    command = [sys.executable, "-m", "trailgate", "publish", str(prefix), "--to", to, *options]
    written: list[float] = []
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        path.open("ab", 0) as file,
    ):
        consumer = _consumer(broker, "growing")
        found: list[float] = []
        assert process.stdout is not None
        process.stdout.readline()  # it is connected
        Thread(target=process.stdout.read, daemon=True).start()
        begun = time.perf_counter() + 1
        for turn in range(turns):
            while (now := time.perf_counter()) < begun + turn * STEP:
                found += _arrived(consumer, begun + turn * STEP - now)
            file.write(body[starts[turn] : starts[turn + 1]])
            written += [time.perf_counter()] * at_once
        until = time.perf_counter() + 60
        while len(found) < len(written) and time.perf_counter() < until:
            found += _arrived(consumer, 0.1)
        process.terminate()
        consumer.close()
    assert len(found) == len(written), (len(found), len(written))
    # The first second is that of a process that starts.
    return [later - at for at, later in zip(written, found, strict=True)][RATE:]


def _arrived(consumer: Any, seconds: float) -> list[float]:
    """Return the time of each message that arrives next, if one does within some seconds."""
    # consume() waits for all messages or the whole time, so only poll() tells when one arrives.
    first = consumer.poll(max(seconds, 0.0005))
    messages = [] if first is None else [first, *consumer.consume(1000, 0)]
    return [time.perf_counter()] * sum(one.error() is None for one in messages)
