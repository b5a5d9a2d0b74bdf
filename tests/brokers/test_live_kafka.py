"""From a real Kafka to a trail, by the command line: each operation once, in order, whatever is killed."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from brokers.kafka import Kafka
from brokers.live_place import LivePlace, messages, row, transactions
from brokers.receivers import PATIENCE
from laws import chance, kills

pytest.importorskip("confluent_kafka", reason="Kafka needs the extra kafka")
ROUNDS = kills(3)
OPERATIONS = 10_000 * ROUNDS


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LivePlace]:
    with closing(LivePlace(tmp_path)) as made:
        yield made


def test_lines_of_kafkas_own_producer_become_operations(kafka: Kafka, place: LivePlace) -> None:
    kafka.create("lines")
    kafka.console_producer("lines", [row(1, "B"), row(2, "E")], place.folder)
    reports = place.run("--from", kafka.address("lines"))
    again = place.run("--from", kafka.address("lines"))

    assert place.captured() == [(1, "B"), (2, "E")]
    assert (reports[-1]["number"], reports[-1]["lag_messages"]) == (2, 0)
    assert again == []


def test_headers_arrive_by_their_jms_names(kafka: Kafka, place: LivePlace) -> None:
    text = place.properties.read_text().replace("delim.seqid=*seqid", "delim.seqid=$jmsid")
    place.properties.write_text(text.replace("delim.txid=*txid", "delim.txid=$Tx"))
    kafka.create("headers")
    kafka.send("headers", [row(7, "W")], {"Tx": "tx 1"}, key="k")
    place.run("--from", kafka.address("headers"))

    assert place.captured() == [(7, "W")]
    assert place.column("tx_id") == ["tx 1"]
    assert place.column("csn") == ["ID:headers:0:00000000000000000000"]


def test_messages_with_one_key_and_one_body_are_all_captured(
    kafka: Kafka, place: LivePlace
) -> None:
    kafka.create("alike")
    kafka.send("alike", [row(1, "W"), row(1, "W"), row(2, "W")], key="k")
    place.run("--from", kafka.address("alike"))
    place.run("--from", kafka.address("alike"))

    assert place.captured() == [(1, "W"), (1, "W"), (2, "W")]


@pytest.mark.timeout(300 + 20 * ROUNDS)
def test_each_operation_is_captured_once_whatever_is_killed(kafka: Kafka, place: LivePlace) -> None:
    drawn = chance("killed kafka")
    wanted = transactions(drawn, OPERATIONS)
    bodies = list(messages(drawn, wanted))
    kafka.create("killed")
    address = kafka.address("killed")
    process = place.start("--from", address, "--follow")
    killed = [0, 0]
    for begin in range(0, len(bodies), len(bodies) // ROUNDS + 1):
        kafka.send("killed", bodies[begin : begin + len(bodies) // ROUNDS + 1])
        time.sleep(drawn.uniform(0.0, 2.5))
        if begin and not killed[1]:
            kafka.process.kill()
            killed[1] += 1
            kafka.process.start()
        else:
            place.kill(process)
            process = place.start("--from", address, "--follow")
            killed[0] += 1
    place.kill(process)
    place.run("--from", address)

    assert place.captured() == [one for transaction in wanted for one in transaction], killed


def test_a_stop_is_graceful(kafka: Kafka, place: LivePlace) -> None:
    kafka.create("stopped")
    process = place.start("--from", kafka.address("stopped"), "--follow")
    place.wait("receiving from")

    assert place.kill(process, signal.SIGTERM) == 0


def test_messages_that_are_gone_are_an_error_and_never_passed_over(
    kafka: Kafka, place: LivePlace
) -> None:
    kafka.create("gone")
    kafka.send("gone", [row(1, "W")])
    place.run("--from", kafka.address("gone"))
    kafka.send("gone", [row(2, "W"), row(3, "W")])
    kafka.remove_before("gone", 2)
    process = place.start("--from", kafka.address("gone"))
    process.communicate(timeout=PATIENCE)

    assert process.returncode == 1
    assert "the broker has messages 2 to 2, but the trail continues at 1" in place.log.read_text()


def test_a_topic_that_is_created_again_is_an_error(kafka: Kafka, place: LivePlace) -> None:
    kafka.create("anew")
    kafka.send("anew", [row(number, "W") for number in range(3)])
    place.run("--from", kafka.address("anew"))
    kafka.delete("anew")
    kafka.create("anew")
    kafka.send("anew", [row(number, "W") for number in range(100, 108)])
    place.run("--from", kafka.address("anew"), code=1)

    assert "was deleted and created again" in place.log.read_text()
    assert [number for number, _ in place.captured()] == [0, 1, 2]


def test_a_topic_that_changes_while_it_is_followed_ends_the_run(
    kafka: Kafka, place: LivePlace
) -> None:
    for topic in ("grows", "ends"):
        kafka.create(topic)
        process = place.start("--from", kafka.address(topic), "--follow", output=subprocess.DEVNULL)
        place.wait("receiving from")
        if topic == "ends":
            kafka.delete(topic)
        else:
            kafka.add_partitions(topic, 2)

        assert process.wait(PATIENCE) == 1
        place.prefix = place.folder / "other"
    assert "the topic has 2 partitions" in place.log.read_text()
    assert re.search("the topic was deleted|Unknown topic", place.log.read_text())


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_topic_is_refused_unless_its_address_allows_it(
    kafka: Kafka, place: LivePlace, policy: str
) -> None:
    name = f"compacted-{policy.replace(',', '-')}"
    kafka.create(name, settings={"cleanup.policy": policy})

    place.run("--from", kafka.address(name), code=1)
    place.run("--from", kafka.address(name, "?compacted=allow"))

    log = place.log.read_text()
    assert f"the topic is compacted (cleanup.policy={policy})" in log
    assert "add compacted=allow to the address" in log


def test_a_topic_with_several_partitions_needs_one_named(kafka: Kafka, place: LivePlace) -> None:
    kafka.create("several", 2)
    kafka.send("several", [row(1, "W"), None])
    process = place.start("--from", kafka.address("several"))
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "has 2 partitions" in place.log.read_text()

    (report,) = place.run(
        "--from", kafka.address("several", "?partition=0"), "--on-error", "quarantine"
    )
    assert (report["operations"], report["quarantined"]) == (1, 1)
    assert place.captured() == [(1, "W")]
