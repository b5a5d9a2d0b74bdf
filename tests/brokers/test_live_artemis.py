"""From a real Artemis to a trail, by the command line: each operation once, in order, whatever is killed."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest

from brokers.artemis import LOGIN, Artemis, sent
from brokers.live_place import LivePlace, row

BY_AMQP = pytest.param(
    "amqp",
    marks=pytest.mark.skipif(find_spec("proton") is None, reason="AMQP needs the extra amqp"),
)
BOTH = pytest.mark.parametrize("scheme", ["stomp", BY_AMQP])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LivePlace]:
    with closing(LivePlace(tmp_path)) as made:
        yield made


@BOTH
def test_messages_of_a_jms_client_become_operations(
    artemis: Artemis, place: LivePlace, scheme: str
) -> None:
    queue = f"jms.{scheme}"
    artemis.produce(queue, [row(1, "B") + "\n" + row(2, "M"), row(3, "E")])
    reports = place.run("--from", artemis.address(queue, scheme))

    assert place.captured() == [(1, "B"), (2, "M"), (3, "E")]
    assert sum(report["messages"] for report in reports) == 2
    assert sum(report["transactions"] for report in reports) == 1
    last = reports[-1]
    assert (last["lag_messages"], last["number"]) == (0, 2)
    assert 0 <= last["lag_seconds"] < 300
    assert (place.folder / f"ot{last['trail_file']:09}").stat().st_size == last["trail_offset"]


@BOTH
def test_a_stop_is_graceful_and_leaves_nothing_unacknowledged(
    artemis: Artemis, place: LivePlace, scheme: str
) -> None:
    queue = f"stopped.{scheme}"
    address = artemis.address(queue, scheme)
    process = place.start("--from", address, "--follow", "--json")
    place.wait("receiving from")
    sent(artemis, queue, [row(1, "W"), row(2, "B")], scheme)
    assert process.stdout is not None
    count = 0
    while count < 2:
        count += json.loads(process.stdout.readline())["messages"]

    assert place.kill(process, signal.SIGTERM) == 0
    assert "has not ended" in place.log.read_text()
    assert artemis.waiting(queue) == 0
    sent(artemis, queue, [row(3, "E")], scheme)
    place.run("--from", address)
    assert place.captured() == [(1, "W"), (2, "B"), (3, "E")]


def test_the_adapters_own_properties_name_broker_queue_and_login(
    artemis: Artemis, place: LivePlace
) -> None:
    sent(artemis, "named", [row(1, "W")])
    connection = [
        f"java.naming.provider.url=stomp://127.0.0.1:{artemis.stomp}",
        "java.naming.factory.initial=org.apache.activemq.jndi.ActiveMQInitialContextFactory",
        "jms.connectionFactory=ConnectionFactory",
        "jms.destination=dynamicQueues/named",
        f"jms.user={LOGIN[0]}",
        f"jms.password={LOGIN[1]}",
        "jms.report.records=1",
    ]
    place.properties.write_text(place.properties.read_text() + "\n".join(connection) + "\n")
    reports = place.run()

    assert place.captured() == [(1, "W")]
    assert [one["jms_report"]["messages"] for one in reports if "jms_report" in one] == [1]


def test_a_quarantined_transaction_is_repaired_into_its_trail(
    artemis: Artemis, place: LivePlace
) -> None:
    address = artemis.address("repaired")
    sent(artemis, "repaired", [row(1, "B"), row(2, "X"), row(3, "E"), row(4, "W")])
    reports = place.run("--from", address, "--on-error", "quarantine", code=1)
    lines = (place.folder / "ot.quarantine.jsonl").read_text()
    repaired = place.folder / "repaired.jsonl"
    repaired.write_text(lines.replace(row(2, "X"), row(2, "M")))
    (first,) = place.run("--from", str(repaired))
    (second,) = place.run("--from", str(repaired))
    sent(artemis, "repaired", [row(5, "W")])
    place.run("--from", address)

    assert sum(report["quarantined"] for report in reports) == 3
    assert (first["messages"], first["operations"], first["skipped"]) == (3, 3, 0)
    assert (second["messages"], second["skipped"]) == (0, 3)
    assert place.captured() == [(4, "W"), (1, "B"), (2, "M"), (3, "E"), (5, "W")]
