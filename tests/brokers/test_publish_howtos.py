"""The commands of the guides about publishing run as they are printed, with real brokers, and send what the guides say."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from brokers.artemis import Artemis
from brokers.kafka import Kafka
from brokers.published import consumed, received
from document_commands import blocks, obeyed, statements
from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run

HOWTO = Path(__file__).parents[2] / "docs/howto"


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
