"""From a real Artemis to a trail, by the command line: each operation once, in order, whatever is killed."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from brokers.artemis import LOGIN, Artemis
from brokers.live_place import LivePlace, messages, row, transactions
from brokers.stomp_sender import Sender

ROUNDS = int(os.environ.get("TRAILGATE_KILLS", "6"))
OPERATIONS = 10_000 * ROUNDS
QUEUE = {"destination-type": "ANYCAST"}


@pytest.fixture
def place(tmp_path: Path) -> LivePlace:
    return LivePlace(tmp_path)


def sent(broker: Artemis, queue: str, bodies: list[str], **headers: str) -> None:
    sender = Sender(broker.stomp, queue, LOGIN, **QUEUE)
    sender.send(bodies, **headers)
    sender.close()


def test_messages_of_a_jms_client_become_operations(artemis: Artemis, place: LivePlace) -> None:
    artemis.produce("jms", [row(1, "B") + "\n" + row(2, "M"), row(3, "E")])
    reports = place.run("--from", artemis.address("jms"))

    assert place.captured() == [(1, "B"), (2, "M"), (3, "E")]
    assert sum(report["messages"] for report in reports) == 2
    assert sum(report["transactions"] for report in reports) == 1
    last = reports[-1]
    assert (last["lag_messages"], last["number"]) == (0, 2)
    assert 0 <= last["lag_seconds"] < 300
    assert (place.folder / f"ot{last['trail_file']:09}").stat().st_size == last["trail_offset"]


def test_each_operation_is_captured_once_whatever_is_killed(
    artemis: Artemis, place: LivePlace
) -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    wanted = transactions(chance, OPERATIONS)
    bodies = list(messages(chance, wanted))
    address = artemis.address("killed")
    killed = [0, 0]
    process = place.start("--from", address, "--follow")
    for begin in range(0, len(bodies), len(bodies) // ROUNDS + 1):
        part = bodies[begin : begin + len(bodies) // ROUNDS + 1]
        sending = threading.Thread(target=sent, args=(artemis, "killed", part))
        sending.start()
        sending.join(60)
        time.sleep(chance.uniform(0.0, 2.5))
        if chance.random() < 0.4:
            artemis.process.kill()
            killed[1] += 1  # the receiver tries it again
            if chance.random() < 0.5:
                place.kill(process)
                process = place.start("--from", address, "--follow")
                killed[0] += 1
            artemis.process.start()
        else:
            place.kill(process)
            process = place.start("--from", address, "--follow")
            killed[0] += 1
    place.kill(process)
    place.run("--from", address)

    sys.stdout.write(f"seed {seed}, killed receivers and brokers: {killed}\n")
    assert place.captured() == [one for transaction in wanted for one in transaction], seed


def test_a_stop_is_graceful_and_leaves_nothing_unacknowledged(
    artemis: Artemis, place: LivePlace
) -> None:
    address = artemis.address("stopped")
    process = place.start("--from", address, "--follow")
    place.wait("receiving from")
    sent(artemis, "stopped", [row(1, "W"), row(2, "B")])
    assert process.stdout is not None
    assert process.stdout.readline()

    assert place.kill(process, signal.SIGTERM) == 0
    assert "has not ended" in place.log.read_text()
    assert artemis.waiting("stopped") == 0
    sent(artemis, "stopped", [row(3, "E")])
    place.run("--from", address)
    assert place.captured() == [(1, "W"), (2, "B"), (3, "E")]
