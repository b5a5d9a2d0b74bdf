"""Publishing to real brokers that have no room: nothing is lost, the cause is logged, and it continues when there is room."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from brokers import kafka as kafka_broker
from brokers.artemis import ROOM, Artemis
from brokers.classic import Classic
from brokers.kafka import Kafka
from brokers.published import consumed, received
from brokers.rabbitmq import RabbitMQ
from brokers.real_brokers import OneBroker
from brokers.receivers import PATIENCE
from brokers.small_disk import small_disk
from brokers.test_publish_jms import BOTH
from sample_trail import Op, write_trail
from trailgate.errors import BrokerError, BrokerFullError, EncodeError
from trailgate.publish.job import PublishSummary, publish_trail

COUNT = 3000  # messages of more than 200 bytes
OF_A_TRANSACTION = 3
FULL = ("is full", "may be full", "no room")


def trail_of(path: Path, count: int = COUNT) -> Path:
    keys = range(count)
    return write_trail(
        path,
        [
            [
                [Op("I", key) for key in keys[at : at + OF_A_TRANSACTION]]
                for at in keys[::OF_A_TRANSACTION]
            ]
        ],
    )


def keys_of(found: list[tuple[dict[str, str], str]]) -> list[int]:
    return [json.loads(body)["after"]["ID"] for _, body in found]


@contextmanager
def publishing(trail: Path, address: str) -> Iterator[Future[PublishSummary]]:
    """Publish in a thread."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(publish_trail, trail, address, "json")


def wait_for(is_there: Callable[[], bool], running: Future[Any]) -> None:
    """Wait until something is there, while a run continues."""
    until = time.monotonic() + PATIENCE
    while not is_there():
        assert not running.done(), running.result()
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Make a broker that takes nothing count as full after seconds, not half a minute."""
    monkeypatch.setattr("trailgate.live.brokers.stomp.connection.NOTED_SECONDS", 1.0)
    monkeypatch.setattr("trailgate.live.brokers.stomp.connection.SEND_SECONDS", 4.0)
    monkeypatch.setattr("trailgate.publish.senders.amqp.SECONDS", 4.0)
    caplog.set_level(logging.WARNING, "trailgate.brokers")


@pytest.mark.parametrize(
    ("policy", "scheme"), [("FAIL", "stomp"), ("FAIL", "amqp"), ("BLOCK", "amqp")]
)
@pytest.mark.usefixtures("quick")
def test_a_full_address_of_artemis_loses_nothing(
    artemis: Artemis, tmp_path: Path, scheme: str, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    if scheme == "amqp":
        pytest.importorskip("proton", reason="AMQP needs the extra amqp")
    trail = trail_of(tmp_path / f"full-{policy}-{scheme}")
    queue = f"full.{policy}.{scheme}"
    with publishing(trail, artemis.address(queue, scheme, patience=120)) as running:
        wait_for(lambda: any(one in caplog.text for one in FULL), running)
        found = received(artemis.address(queue, "stomp"), COUNT)
        assert running.result(PATIENCE).messages == COUNT

    assert keys_of(found) == list(range(COUNT))


@pytest.mark.parametrize(
    ("policy", "scheme"), [("PAGE", "stomp"), ("PAGE", "amqp"), ("BLOCK", "stomp")]
)
def test_an_address_of_artemis_takes_all(
    artemis: Artemis, tmp_path: Path, scheme: str, policy: str
) -> None:
    """Paging has no limit but the disk, and by STOMP 2.44.0 does not obey BLOCK."""
    if scheme == "amqp":
        pytest.importorskip("proton", reason="AMQP needs the extra amqp")
    queue = f"full.{policy}.all.{scheme}"
    trail = trail_of(tmp_path / queue)
    assert publish_trail(trail, artemis.address(queue, scheme), "json").messages == COUNT
    assert keys_of(received(artemis.address(queue, "stomp"), COUNT)) == list(range(COUNT))


@BOTH
@pytest.mark.usefixtures("quick")
def test_a_run_that_finds_no_room_in_time_ends_with_the_reason(
    artemis: Artemis, tmp_path: Path, scheme: str
) -> None:
    trail, queue = trail_of(tmp_path / f"late-{scheme}"), f"full.FAIL.late.{scheme}"
    address = artemis.address(queue, scheme, patience=1)
    with pytest.raises(BrokerFullError, match=rf"{queue}.*may be full: let consumers take"):
        publish_trail(trail, address, "json")
    first = received(artemis.address(queue, "stomp"), 1)
    assert 0 < len(first) < COUNT
    with publishing(trail, artemis.address(queue, scheme, patience=120)) as running:
        rest = received(artemis.address(queue, "stomp"), COUNT - len(first))
        running.result(PATIENCE)
    assert keys_of(first + rest) == list(range(COUNT))


def test_an_address_of_artemis_that_drops_is_noted(
    artemis: Artemis, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "trailgate.brokers")
    trail = trail_of(tmp_path / "drop")
    publish_trail(trail, artemis.address("full.DROP.stomp"), "json")
    assert "the address full.DROP.stomp loses messages when it is full" in caplog.text
    found = received(artemis.address("full.DROP.stomp"), 1)
    assert len(found) < COUNT
    assert sum(len(body) for _, body in found) < ROOM


def test_a_message_that_classic_does_not_take_is_named(classic: Classic, tmp_path: Path) -> None:
    transactions = [[Op("I", number) for number in range(1000)], [Op("I", 1000)]]
    trail = write_trail(tmp_path / "long", [[[Op("I", 1001)], *transactions]])
    address = classic.address("long").replace(f":{classic.stomp}/", f":{classic.short}/")
    options = {"max_message_bytes": 100_000}
    with pytest.raises(
        EncodeError, match=r"largest message of the batch has \d+ bytes .operation at \d{20}"
    ):
        publish_trail(trail, address, "delimited", options=options, content="transaction")
    assert received(classic.address("long"), 0) == []


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("most", [1, 100])
def test_a_queue_of_rabbitmq_that_refuses_messages_loses_nothing(
    rabbitmq: RabbitMQ, tmp_path: Path, most: int, caplog: pytest.LogCaptureFixture
) -> None:
    queue = f"full.{most}"
    rabbitmq.limit(rf"^full\.{most}$", most, "reject-publish")
    trail, count = (
        write_trail(tmp_path / f"rabbit-{most}", [[[Op("I", key)] for key in range(500)]]),
        500,
    )
    address = rabbitmq.address(queue, "stomp", virtual_host="%2F", patience="120")
    with publishing(trail, address) as running:
        wait_for(lambda: "has not confirmed" in caplog.text, running)
        found: dict[str, str] = {}
        while len(found) < count:
            found |= {one["amqp-message-id"]: body for one, body in received(address, 0)}
        running.result(PATIENCE)
    assert sorted(json.loads(body)["after"]["ID"] for body in found.values()) == list(range(count))


def test_a_full_disk_of_kafka_loses_nothing(
    one_broker: OneBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka stops when its disk is full. The run ends, and the next one sends everything when there is room."""
    pytest.importorskip("confluent_kafka", reason="Kafka needs the extra kafka")
    monkeypatch.setattr("trailgate.publish.senders.kafka.TRANSACTION_SECONDS", 5)
    one_broker.close()
    mounted, folder = tmp_path / "disk", tmp_path / "kafka"
    mounted.mkdir()
    folder.mkdir()
    trail = trail_of(tmp_path / "stopped")
    with small_disk(mounted) as disk, kafka_broker.running(folder, disk=disk) as broker:
        publish_trail(trail_of(tmp_path / "before", 30), broker.address("full", "?create"), "json")
        disk.fill(100_000, broker.process.pid)
        with pytest.raises(BrokerError, match="Kafka"):
            publish_trail(trail, broker.address("full", "?patience=1"), "json")
        assert not broker.process.runs
        disk.free()
        broker.process.start()
        assert publish_trail(trail, broker.address("full"), "json").messages == COUNT
        found = [one.value["after"]["ID"] for one in consumed(broker, "full")]
    assert found == [*range(30), *range(COUNT)]


def test_a_slow_quota_of_kafka_loses_nothing(
    kafka: Kafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "trailgate.brokers")
    quota = ("--entity-type", "clients", "--entity-default", "--alter")
    kafka.tool("kafka.admin.ConfigCommand", *quota, "--add-config", "producer_byte_rate=100000")
    try:
        trail = trail_of(tmp_path / "quota", 3 * COUNT)
        summary = publish_trail(trail, kafka.address("quota", "?create&patience=60"), "json")
    finally:
        kafka.tool("kafka.admin.ConfigCommand", *quota, "--delete-config", "producer_byte_rate")
    assert summary.messages == 3 * COUNT
    assert "Kafka has not accepted the batch yet; waiting until " in caplog.text
    found = [one.value["after"]["ID"] for one in consumed(kafka, "quota")]
    assert found == list(range(3 * COUNT))
