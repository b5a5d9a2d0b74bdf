"""Publishers in processes of their own, and what they have sent to a real broker, read by clients that are not ours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from brokers.kafka import Kafka
from brokers.receivers import PATIENCE
from sample_trail import Op, write_trail
from trailgate.errors import StorageError
from trailgate.live.brokers.address import parse_address
from trailgate.live.brokers.stomp.connection import StompConnection
from trailgate.publish.job import publish_trail
from trailgate.publish.senders.sender import PublishedState, StoredState


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


def received(address: str, count: int, **headers: str) -> list[tuple[dict[str, str], str]]:
    """Return headers and bodies of the messages in a queue, taken from it by STOMP; at least ``count`` of them."""
    connection = StompConnection(parse_address(address))
    name = connection.dialect.kinds["queue"].format(parse_address(address).destination)
    kind = {"subscription-type": "ANYCAST"} if connection.dialect.name == "Artemis" else {}
    connection.send("SUBSCRIBE", {"id": "0", "destination": name, "ack": "auto", **kind, **headers})
    found: list[tuple[dict[str, str], str]] = []
    until = time.monotonic() + PATIENCE
    try:
        # One more second shows whether there are too many.
        while (frames := connection.frames(1.0, 1000)) or len(found) < count:
            assert time.monotonic() < until, f"{len(found)} of {count} messages"
            for at in range(0 if frames is None else len(frames)):
                assert frames is not None
                found.append((frames.headers(at), frames.body(at).decode()))
    finally:
        connection.close()
    return found


def state_of(name: str) -> str:
    """Return a state that a run of this name has stored."""
    return StoredState(name, PublishedState("ot"), ()).encode()


def check_missing_files(trail: Path, address: str) -> None:
    """Check that a later run names the files that were removed before they were read, and else continues."""
    files = [[[Op("I", 10 * number + one)] for one in range(3)] for number in range(4)]
    write_trail(trail, files[:2])
    first = publish_trail(trail, address, "json")
    write_trail(trail, files[:3])
    Path(f"{trail}{0:09}").unlink()
    second = publish_trail(trail, address, "json")
    write_trail(trail, files)
    for number in range(3):
        Path(f"{trail}{number:09}").unlink()

    assert (first.messages, second.messages) == (6, 3)
    with pytest.raises(StorageError, match=r"file number 2 is missing.*another --group"):
        publish_trail(trail, address, "json")
    again = publish_trail(trail, address, "json", group=f"{trail.name}-again")
    assert again.messages == 3


class PublishPlace:
    """Runs of ``trailgate publish`` for one trail; those that still run at the end are killed."""

    def __init__(self, trail: Path) -> None:
        self.trail, self.log = trail, trail.parent / "log"
        self._started: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=PATIENCE)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a run."""
        root = Path(__file__).parents[2]
        with self.log.open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "trailgate", "publish", str(self.trail), *arguments],
                env={**os.environ, "PYTHONPATH": str(root / "src"), "PYTHONUNBUFFERED": "1"},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._started.append(process)
        return process

    def wait_for_output(self, process: subprocess.Popen[str]) -> str:
        """Return the first line of a run's output, which comes when it has sent something or ends."""
        assert process.stdout is not None
        return process.stdout.readline()

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run until the end, and return the output."""
        process = self.start(*arguments)
        output = process.communicate(timeout=PATIENCE)[0]
        assert process.returncode == code, (output, self.log.read_text()[-3000:])
        return output

    def finish(self, broker: Any, *arguments: str) -> None:
        """Run until the end; start a broker again that has lost track of the restart message (docs/brokers.md)."""
        process = self.start(*arguments)
        process.communicate(timeout=PATIENCE)
        if process.returncode and "a lost connection still holds" in self.log.read_text():
            broker.process.kill()
            broker.process.start()
        elif process.returncode == 0:
            return
        self.run(*arguments)

    def kill(self, process: subprocess.Popen[str], number: int = signal.SIGKILL) -> str:
        """End a run, and return the rest of its output."""
        process.send_signal(number)
        return process.communicate(timeout=PATIENCE)[0]
