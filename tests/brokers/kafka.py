"""Apache Kafka: one broker that is its own controller, from the jars of its package."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from brokers.real_brokers import Process, fetched_jars, free_ports, limited_brokers, run
from brokers.small_disk import LimitedFiles, MountedDisk

COORDINATES: Final = (
    "org.apache.kafka:kafka_2.13:4.3.0",
    "org.apache.kafka:kafka-tools:4.3.0",
    "org.slf4j:slf4j-nop:1.7.36",
)
QUEUED: Final = 50_000  # the library holds at most twice as many
PROPERTIES: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={logs}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""


class Kafka:
    """A broker at ``port``. ``listeners`` are further ones: a security protocol for each port; ``more`` are properties of theirs.

    ``scram`` are logins, as ``SCRAM-SHA-256=[name=me,password=word]``. Topics are stored on ``disk``, if one is given.
    """

    def __init__(
        self,
        jars: Path,
        folder: Path,
        listeners: Mapping[str, int] = MappingProxyType({}),
        more: str = "",
        scram: Sequence[str] = (),
        disk: MountedDisk | LimitedFiles | None = None,
    ) -> None:
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415  an extra

        self.port, controller = free_ports(2)
        properties = folder / "server.properties"
        logs = (folder if disk is None else disk.inside) / "logs"
        text = PROPERTIES.format(broker=self.port, controller=controller, logs=logs)
        also = "".join(f",{name}://127.0.0.1:{port}" for name, port in listeners.items())
        text = re.sub("(?m)^(listeners|advertised.listeners)=.*$", rf"\g<0>{also}", text)
        properties.write_text(text + more)
        enter = () if disk is None else disk.enter
        self.java = [*enter, "java", "-Xms128m", "-Xmx384m", "-cp", f"{jars}/*"]
        storage = [*self.java, "kafka.tools.StorageTool"]
        number = run([*storage, "random-uuid"]).split()[-1]
        logins = [part for login in scram for part in ("--add-scram", login)]
        run([*storage, "format", "-t", number, "-c", properties, *logins])
        self._client = {"bootstrap.servers": f"127.0.0.1:{self.port}", "log_level": 0}
        self._admin = AdminClient(self._client)
        self.process = Process([*self.java, "kafka.Kafka", properties], folder / "log", self._ready)
        self.process.start()

    def _ready(self) -> bool:
        from confluent_kafka import KafkaException  # noqa: PLC0415  an extra

        try:
            return bool(self._admin.list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def address(self, topic: str, query: str = "") -> str:
        return f"kafka://127.0.0.1:{self.port}/{topic}{query}"

    def create(
        self, topic: str, partitions: int = 1, settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        from confluent_kafka.admin import NewTopic  # noqa: PLC0415  an extra

        new = NewTopic(topic, partitions, 1, config=dict(settings))
        for done in self._admin.create_topics([new]).values():
            done.result(30)

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until it is gone."""
        for done in self._admin.delete_topics([topic]).values():
            done.result(30)
        until = time.monotonic() + 60
        while topic in self._admin.list_topics(timeout=30).topics:
            assert time.monotonic() < until, "the topic is still there"
            time.sleep(0.05)

    def add_partitions(self, topic: str, count: int) -> None:
        """Add partitions to a topic, so that it has so many."""
        from confluent_kafka.admin import NewPartitions  # noqa: PLC0415  an extra

        for done in self._admin.create_partitions([NewPartitions(topic, count)]).values():
            done.result(30)

    def configure(self, topic: str, settings: Mapping[str, str]) -> None:
        """Set settings of a topic."""
        from confluent_kafka.admin import (  # noqa: PLC0415  an extra
            AlterConfigOpType,
            ConfigEntry,
            ConfigResource,
        )

        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        for done in self._admin.incremental_alter_configs([resource]).values():
            done.result(30)

    def tool(self, name: str, *arguments: object) -> str:
        """Return what one of Kafka's own programs prints."""
        server = ("--bootstrap-server", f"127.0.0.1:{self.port}")
        return run([*self.java, name, *server, *arguments])

    def remove_before(self, topic: str, offset: int) -> None:
        """Remove the first messages of a topic, as its retention does."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415  an extra

        for done in self._admin.delete_records([TopicPartition(topic, 0, offset)]).values():
            done.result(30)

    def send(
        self,
        topic: str,
        values: Sequence[str | bytes | None],
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> None:
        """Send messages to the first partition; they are stored when this returns."""
        from confluent_kafka import Producer  # noqa: PLC0415  an extra

        producer = Producer({**self._client, "enable.idempotence": True, "linger.ms": 5})
        failed: list[object] = []
        for number, value in enumerate(values):
            if number % QUEUED == 0:
                assert producer.flush(60) == 0
            producer.produce(
                topic,
                value,
                key=key,
                partition=0,
                headers=list((headers or {}).items()),
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
            producer.poll(0)
        assert producer.flush(60) == 0
        assert not failed

    def console_producer(self, topic: str, lines: Sequence[str], folder: Path) -> None:
        """Send lines by Kafka's own command line producer."""
        path = folder / "lines"
        path.write_text("".join(f"{line}\n" for line in lines))
        tool = [*self.java, "org.apache.kafka.tools.ConsoleProducer"]
        tool += ["--bootstrap-server", f"127.0.0.1:{self.port}", "--topic", topic]
        run(["sh", "-c", 'exec "$@" < "$0"', path, *tool])


@contextmanager
def running(
    folder: Path,
    listeners: Mapping[str, int] = MappingProxyType({}),
    more: str = "",
    scram: Sequence[str] = (),
    disk: MountedDisk | LimitedFiles | None = None,
) -> Iterator[Kafka]:
    """Yield a running broker."""
    jars = fetched_jars(*COORDINATES)
    with limited_brokers():
        broker = Kafka(jars, folder, listeners, more, scram, disk)
        try:
            yield broker
        finally:
            broker.process.stop()
