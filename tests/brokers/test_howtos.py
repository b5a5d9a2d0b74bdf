"""The commands of the how-to pages that need a broker run as they are printed, with real ones, and do what the pages say."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from brokers.artemis import Artemis, sent
from brokers.kafka import Kafka
from brokers.published import consumed, received
from brokers.rabbitmq import LOGIN, PLUGINS, RabbitMQ
from brokers.receivers import PATIENCE
from brokers.stomp_sender import Sender
from document_commands import (
    blocks,
    obeyed,
    obeyed_elsewhere,
    program_of,
    server_statements,
    statements,
)
from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run
from trailgate.errors import StorageError
from trailgate.storage.reading.trails import read_trail

HOWTO: Final = Path(__file__).parents[2] / "docs/howto"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a new folder with the trail of the demo, which is the working folder."""
    monkeypatch.chdir(tmp_path)
    unpack(Path("demo"))
    assert run(["demo", "--no-spark"]) == 0
    return tmp_path


def follow_guide(name: str, addresses: Mapping[str, str]) -> list[str]:
    """Run the commands of a guide that publish to these addresses or to a folder, and return them."""
    found = [
        statement
        for block in blocks(HOWTO / name)
        for statement in statements(block)
        if statement.startswith("trailgate publish")
        and ("--to look" in statement or any(one in statement for one in addresses))
    ]
    for statement in found:
        for printed, real in addresses.items():
            statement = statement.replace(printed, real)  # noqa: PLW2901  as it runs
        obeyed(statement)
    return found


def check_position(position: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that ``show`` finds the operation at a position."""
    capsys.readouterr()
    where = ["--from-position", position, "--limit", "1"]
    assert run(["show", "demo/dirdat/ot", *where, "--format", "json"]) == 0
    assert position in capsys.readouterr().out


@pytest.mark.usefixtures("folder")
def test_the_guide_to_kafka(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("confluent_kafka", reason="Kafka needs the extra kafka")
    done = follow_guide("publish-to-kafka.md", {"host:9092": f"127.0.0.1:{kafka.port}"})

    assert len(done) == 2
    orders = consumed(kafka, "shop.GG.SHOP_ORDERS")
    looked = Path("look/messages-000000001.jsonl").read_text()
    assert looked.count("GG.SHOP_ORDERS") >= len(orders) > 0
    check_position(orders[0].headers["trailgate.position"], capsys)


@pytest.mark.usefixtures("folder")
def test_the_guide_to_queues(artemis: Artemis, capsys: pytest.CaptureFixture[str]) -> None:
    schemes = ["stomp"] if find_spec("proton") is None else ["stomp", "amqp"]
    real = {scheme: artemis.address("orders", scheme) for scheme in schemes}
    ports = {"stomp": 61613, "amqp": 5672}
    printed = {f"{scheme}://host:{ports[scheme]}/orders": real[scheme] for scheme in schemes}
    done = follow_guide("publish-to-jms.md", printed)

    assert len(done) == 1 + len(schemes)
    count = len(Path("look/messages-000000001.jsonl").read_text().splitlines())
    found = received(real["stomp"], count * len(schemes))
    assert len(found) == count * len(schemes)
    assert {headers["GG_TABLE"] for headers, _ in found} == {
        headers["type"] for headers, _ in found
    }
    check_position(found[0][0]["GG_ID"], capsys)


@pytest.mark.usefixtures("folder")
def test_the_guide_to_queues_of_rabbitmq(
    rabbitmq: RabbitMQ, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = "stomp://user:password@host:61613/orders?virtual-host=%2F"
    real = rabbitmq.address("orders", "stomp", virtual_host="%2F")
    done = follow_guide("publish-to-jms.md", {printed: real})

    assert len(done) == 2
    assert "rabbitmq-plugins enable rabbitmq_stomp\n" in (HOWTO / "publish-to-jms.md").read_text()
    assert "rabbitmq_stomp" in PLUGINS
    count = len(Path("look/messages-000000001.jsonl").read_text().splitlines())
    found = received(real, count)
    assert len(found) == count
    check_position(found[0][0]["GG_ID"], capsys)


class Source(NamedTuple):
    """The address that a guide shows, the real one, and what sends messages there."""

    printed: str
    real: str
    send: Callable[[list[str]], None]


def from_artemis(request: pytest.FixtureRequest) -> Source:
    broker: Artemis = request.getfixturevalue("artemis")
    printed = "stomp://user:password@host:61613/orders"
    real = broker.address("howto.stomp")
    return Source(printed, real, lambda bodies: sent(broker, "howto.stomp", bodies))


def from_amqp(request: pytest.FixtureRequest) -> Source:
    """Return Artemis where the guide has IBM MQ, which no test has."""
    pytest.importorskip("proton", reason="AMQP needs the extra amqp")
    broker: Artemis = request.getfixturevalue("artemis")
    printed = "amqp://user:password@mqhost:5672/queue/ORDERS"
    real = broker.address("queue/howto.amqp", "amqp")
    return Source(printed, real, lambda bodies: sent(broker, "howto.amqp", bodies, "amqp"))


def from_kafka(request: pytest.FixtureRequest) -> Source:
    pytest.importorskip("confluent_kafka", reason="Kafka needs the extra kafka")
    broker: Kafka = request.getfixturevalue("kafka")
    broker.create("howto")
    real = broker.address("howto")
    return Source("kafka://host:9092/orders", real, lambda bodies: broker.send("howto", bodies))


def from_rabbitmq(request: pytest.FixtureRequest) -> Source:
    pytest.importorskip("proton", reason="AMQP needs the extra amqp")
    broker: RabbitMQ = request.getfixturevalue("rabbitmq")
    assert "rabbitmq-plugins enable rabbitmq_amqp1_0\n" in (HOWTO / "rabbitmq.md").read_text()
    assert "rabbitmq_amqp1_0" in PLUGINS

    def send(bodies: list[str]) -> None:
        sender = Sender(broker.stomp, "/queue/howto", LOGIN, host="/")
        for number, body in enumerate(bodies):
            sender.send([body], **{"amqp-message-id": f"{time.time_ns()}-{number}"})
        sender.close()

    printed = "amqp://user:password@host:5672/queue/orders"
    return Source(printed, broker.address("queue/howto", "amqp"), send)


RECEIVING: Final[Mapping[str, Callable[[pytest.FixtureRequest], Source]]] = {
    "artemis.md": from_artemis,
    "ibm-mq.md": from_amqp,
    "kafka.md": from_kafka,
    "rabbitmq.md": from_rabbitmq,
}


def images(prefix: str) -> list[tuple[object, ...]]:
    """Return the table and the columns of each operation of a trail; none of a trail that does not exist yet."""
    try:
        batches = list(read_trail(prefix))
    except StorageError:
        return []
    return [
        (row["table"], row["after"], row["before"]) for one in batches for row in one.to_pylist()
    ]


def followed(statement: str, prefix: str, count: int) -> None:
    """Run a command with ``--follow`` until its trail has so many operations, and end it as an operator does."""
    process = subprocess.Popen(program_of(statement), stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + PATIENCE
        while len(images(prefix)) < count:
            assert process.poll() is None, statement
            assert time.monotonic() < until, statement
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("name", RECEIVING)
def test_a_guide_to_receiving(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = RECEIVING[name](request)
    monkeypatch.chdir(tmp_path)
    obeyed_elsewhere(HOWTO / name)
    obeyed(
        "trailgate capture --properties dirprm/shop.properties --from messages --to dirdat/files"
    )
    bodies = [path.read_text() for path in sorted(Path("messages").iterdir())]
    expected: list[tuple[object, ...]] = []

    for statement in server_statements(HOWTO / name):
        command = statement.replace(source.printed, source.real)
        if "trailgate capture" not in statement:
            obeyed(command)
            continue
        assert source.printed in statement
        prefix = statement.partition(" --to ")[2].split()[0]
        source.send(bodies)
        expected += images("dirdat/files")
        if "--follow" in statement:
            followed(command, prefix, len(expected))
        else:
            obeyed(command)
        assert images(prefix) == expected
    assert expected


def test_each_guide_that_needs_a_server_is_run() -> None:
    """Those that send are run above, that to Delta's tables in a store by tests/apply/test_delta_stores.py, that to the pages by tests/browse/test_server.py."""
    needing = {path.name for path in HOWTO.glob("*.md") if [*server_statements(path)]}
    sending = {"publish-to-kafka.md", "publish-to-jms.md"}

    assert needing == {*RECEIVING, *sending, "delta.md", "browse.md"}
