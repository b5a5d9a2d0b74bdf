"""Publishers and brokers that are killed at any moment: each message is sent once, in order."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from brokers.artemis import Artemis
from brokers.kafka import Kafka
from brokers.published import PublishPlace, consumed, received
from brokers.test_publish_jms import BOTH
from laws import chance, kills
from sample_trail import NOTES, ORDERS, Op, write_trail

ROUNDS = 2 * kills(1)  # of publishers; the broker is killed in every second one
TRANSACTIONS = 300  # of each round


def random_transactions(drawn: random.Random, first: int) -> list[list[Op]]:
    """Return transactions of inserts of two tables, with keys from ``first`` on."""
    sizes = [drawn.randint(1, 9) for _ in range(TRANSACTIONS)]
    numbers = iter(range(first, first + sum(sizes)))
    return [
        [Op("I", next(numbers), table=drawn.choice((ORDERS, NOTES))) for _ in range(size)]
        for size in sizes
    ]


def kill_at_random(trail: Path, broker: Any, drawn: random.Random, *to: str) -> list[Op]:
    """Kill publishers and the broker while the trail grows, let a last run finish, and return all operations."""
    files = [random_transactions(drawn, 0)]
    write_trail(trail, files)
    with PublishPlace(trail) as place:
        for number in range(ROUNDS):
            process = place.start(*to, "--follow")
            place.wait_for_output(process)  # it is connected
            files.append(random_transactions(drawn, (number + 1) * 10 * TRANSACTIONS))
            # A file of a trail appears whole.
            write_trail(trail.with_name("next"), files)
            last = f"{number + 1:09}"
            trail.with_name(f"next{last}").replace(f"{trail}{last}")
            time.sleep(drawn.uniform(0.0, 0.5))
            if number % 2:
                broker.process.kill()
                time.sleep(drawn.uniform(0.0, 0.5))
                broker.process.start()
            place.kill(process)
        place.finish(broker, *to)
    return [op for file in files for transaction in file for op in transaction]


@pytest.mark.timeout(300 + 60 * ROUNDS)
def test_kafka_has_each_message_once(kafka: Kafka, tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka", reason="Kafka needs the extra kafka")
    drawn = chance("killed publishers to kafka")
    to = ("--to", kafka.address("k.${table}", "?create=2"), "--format", "json")
    operations = kill_at_random(tmp_path / "killed", kafka, drawn, *to)

    for table in (ORDERS, NOTES):
        found = consumed(kafka, f"k.{table.name.partition('.')[2]}")
        keys = [message.value["after"]["ID"] for message in found]
        assert keys == [op.key for op in operations if op.table is table]


@BOTH
@pytest.mark.timeout(300 + 60 * ROUNDS)
def test_a_queue_has_each_message_once(artemis: Artemis, tmp_path: Path, scheme: str) -> None:
    drawn = chance(f"killed publishers by {scheme}")
    address, reading = (artemis.address(f"killed.{scheme}", one) for one in (scheme, "stomp"))
    to = ("--to", address, "--format", "json")
    operations = kill_at_random(tmp_path / f"killed-{scheme}", artemis, drawn, *to)

    found = received(reading, len(operations))
    keys = [json.loads(body)["after"]["ID"] for _, body in found]
    assert keys == [op.key for op in operations]
