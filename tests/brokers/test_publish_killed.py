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

ROUNDS = kills(1)
TRANSACTIONS = 400 * ROUNDS


def random_transactions(drawn: random.Random) -> list[list[Op]]:
    """Return transactions of inserts with keys of their own, of two tables."""
    sizes = [drawn.randint(1, 9) for _ in range(TRANSACTIONS)]
    numbers = iter(range(sum(sizes)))
    return [
        [Op("I", next(numbers), table=drawn.choice((ORDERS, NOTES))) for _ in range(size)]
        for size in sizes
    ]


def kill_at_random(place: PublishPlace, broker: Any, drawn: random.Random, *to: str) -> None:
    """Kill publishers and the broker as often as asked, and let a last run finish."""
    for number in range(2 * ROUNDS):
        process = place.start(*to, "--follow")
        place.wait_for_output(process)
        time.sleep(drawn.uniform(0.0, 0.5))
        if number % 2:
            broker.process.kill()
            time.sleep(drawn.uniform(0.0, 0.5))
            broker.process.start()
        place.kill(process)
    place.run(*to)


@pytest.mark.timeout(300 + 60 * ROUNDS)
def test_kafka_has_each_message_once(kafka: Kafka, tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka", reason="Kafka needs the extra kafka")
    drawn = chance("killed publishers to kafka")
    wanted = random_transactions(drawn)
    trail = write_trail(tmp_path / "killed", [wanted])
    with PublishPlace(trail) as place:
        to = ("--to", kafka.address("k.${table}", "?create=2"), "--format", "json")
        kill_at_random(place, kafka, drawn, *to)

    for table in (ORDERS, NOTES):
        found = consumed(kafka, f"k.{table.name.partition('.')[2]}")
        keys = [message.value["after"]["ID"] for message in found]
        assert keys == [op.key for ops in wanted for op in ops if op.table is table]


@BOTH
@pytest.mark.timeout(300 + 60 * ROUNDS)
def test_a_queue_has_each_message_once(artemis: Artemis, tmp_path: Path, scheme: str) -> None:
    drawn = chance(f"killed publishers by {scheme}")
    wanted = random_transactions(drawn)
    trail = write_trail(tmp_path / f"killed-{scheme}", [wanted])
    address, reading = (artemis.address(f"killed.{scheme}", one) for one in (scheme, "stomp"))
    with PublishPlace(trail) as place:
        kill_at_random(place, artemis, drawn, "--to", address, "--format", "json")

    keys = [op.key for ops in wanted for op in ops]
    found = received(reading, len(keys))
    assert [json.loads(body)["after"]["ID"] for _, body in found] == keys
