"""What consumers that are not ours read of a publication: Kafka's console consumer, and kcat where it is installed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brokers.kafka import Kafka
from brokers.published import consumed
from brokers.real_brokers import run
from sample_trail import Op, write_trail
from trailgate.publish.job import publish_trail

pytest.importorskip("confluent_kafka", reason="Kafka needs the extra kafka")
# Texts of all sorts, updates, a change of a key, and deletes with their tombstones.
TEXTS = ("plain", "", 'with\ttab and "quotes"', "Grüße, 世界 🎉", "line\nbreak", "a|b:c,d", None)
TRANSACTIONS = [
    [Op("I", number, text) for number, text in enumerate(TEXTS)],
    [Op("U", number, "new", text) for number, text in enumerate(TEXTS[:2])],
    [Op("D", 3, ..., TEXTS[3])],
]
Line = tuple[str, str, Any]


def console(kafka: Kafka, topic: str, count: int) -> list[Line]:
    """Return the position, key and value of messages as Kafka's own consumer prints them."""
    tool = [*kafka.java, "org.apache.kafka.tools.consumer.ConsoleConsumer"]
    tool += ["--bootstrap-server", f"127.0.0.1:{kafka.port}", "--topic", topic, "--from-beginning"]
    tool += ["--isolation-level", "read_committed", "--timeout-ms", "60000"]
    tool += ["--max-messages", str(count)]
    for name in ("print.key", "print.headers"):
        tool += ["--formatter-property", f"{name}=true"]
    lines = [line.split("\t", 2) for line in run(tool).splitlines()]
    return [
        (headers.partition(",")[0].partition(":")[2], key, value) for headers, key, value in lines
    ]


def kcat(kafka: Kafka, topic: str, count: int) -> list[Line]:
    """Return the same as kcat prints it."""
    if shutil.which("kcat") is None:
        pytest.skip("no other consumer: kcat is not installed")
    server = f"127.0.0.1:{kafka.port}"
    tool = ["kcat", "-b", server, "-C", "-q", "-t", topic, "-e", "-o", "beginning", "-f"]
    lines = [line.split("\t", 2) for line in run([*tool, r"%h\t%k\t%s\n"]).splitlines()]
    assert len(lines) == count
    return [
        (headers.partition(",")[0].partition("=")[2], key, value) for headers, key, value in lines
    ]


@pytest.mark.parametrize("reader", [console, kcat])
@pytest.mark.parametrize("form", ["json", "debezium"])
def test_other_consumers_read_what_was_sent(
    kafka: Kafka, tmp_path: Path, form: str, reader: Callable[[Kafka, str, int], list[Line]]
) -> None:
    trail = write_trail(tmp_path / f"{form}-{reader.__name__}", [TRANSACTIONS])
    topic = f"foreign.{form}.{reader.__name__}"
    publish_trail(trail, kafka.address(topic, "?create"), form)

    wanted = consumed(kafka, topic)
    found = reader(kafka, topic, len(wanted))
    assert [(place, key) for place, key, _ in found] == [
        (one.headers["trailgate.position"], one.key) for one in wanted
    ]
    # A tombstone is "null" to one, and nothing to the other.
    values = [None if value in ("null", "") else json.loads(value) for _, _, value in found]
    assert values == [one.value for one in wanted]
    rows = [value["after"] for value in values if value is not None and value.get("after")]
    assert {row["NAME"] for row in rows} == {*TEXTS, "new"}
