"""200,000 messages to a trail while all that can fail does: each operation once, in order, in whole transactions.

``TRAILGATE_KILLS`` is the number of rounds, ``TRAILGATE_SEED`` repeats those of a seed, which is printed.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pytest

from brokers.artemis import LOGIN, Artemis
from brokers.cut_connection import Proxy
from brokers.live_place import LivePlace, messages, transactions
from brokers.small_disk import LimitedFiles, MountedDisk, small_disk
from brokers.stomp_sender import Sender
from trailgate.storage.reading.trail.trails import read_trail

ROUNDS: Final = int(os.environ.get("TRAILGATE_KILLS", "20"))
SEED: Final = int(os.environ.get("TRAILGATE_SEED", random.randrange(1 << 32)))
MESSAGES: Final = 200_000
OPERATIONS: Final = 500_000  # about as many as these messages have
CHUNK: Final = 500  # messages that are sent at once
QUEUE: Final = "killed.live"
FULL: Final = 3  # the exit code of a receiver that cannot write
WAIT: Final = 150.0


class Feeding(threading.Thread):
    """Sends messages, and knows how many the broker has confirmed."""

    def __init__(self, broker: Artemis, bodies: list[str]) -> None:
        super().__init__(daemon=True)
        self._broker, self._bodies = broker, bodies
        self.confirmed = 0
        self.start()

    def run(self) -> None:
        sender = Sender(self._broker.stomp, QUEUE, LOGIN, **{"destination-type": "ANYCAST"})
        for begin in range(0, len(self._bodies), CHUNK):
            part = self._bodies[begin : begin + CHUNK]
            sender.send(part)
            self.confirmed += len(part)
        sender.close()

    def wait_for(self, count: int) -> None:
        """Wait until so many are confirmed."""
        until = time.monotonic() + WAIT
        while self.confirmed < count:
            assert time.monotonic() < until, "messages are not confirmed"
            time.sleep(0.005)

    def wait(self) -> None:
        """Wait until all are confirmed."""
        self.wait_for(len(self._bodies))
        self.join(WAIT)


class Scene:
    """Broker, connection, disk and receiver, and what happens to them."""

    def __init__(
        self,
        broker: Artemis,
        place: LivePlace,
        disk: MountedDisk | LimitedFiles,
        chance: random.Random,
    ) -> None:
        self.broker, self.place, self.disk, self.chance = broker, place, disk, chance
        self.proxy = Proxy(broker.stomp)
        place.prefix, place.enter = disk.inside / "ot", tuple(disk.enter)
        own = broker.address(QUEUE, heart_beat=2, window=500)
        self.address = own.replace(f":{broker.stomp}/", f":{self.proxy.port}/")
        self.feeding = Feeding(broker, [])
        self.receiver = self.start()

    def start(self) -> subprocess.Popen[str]:
        arguments = ["--from", self.address, "--follow", "--max-size", "4MB"]
        return self.place.start(*arguments, output=subprocess.DEVNULL)

    def wait_for_connection(self) -> None:
        self.place.wait("receiving from", WAIT)

    def kill_receiver(self) -> None:
        self.place.kill(self.receiver)
        self.receiver = self.start()

    def kill_broker(self) -> None:
        self.feeding.wait()  # what a sender had not confirmed would be sent twice
        time.sleep(self.chance.uniform(0.0, 0.3))
        self.broker.process.kill()
        self.broker.process.start()

    def silence(self) -> None:
        self.proxy.silence()

    def reset(self) -> None:
        self.proxy.reset()

    def fill_disk(self) -> None:
        self.disk.fill(self.chance.randrange(1 << 16), self.receiver.pid)
        until = time.monotonic() + WAIT
        while self.receiver.poll() is None:
            assert time.monotonic() < until, "the receiver does not stop"
            time.sleep(0.05)
        assert self.receiver.returncode == FULL, self.place.log.read_text()[-3000:]
        self.disk.free()
        self.receiver = self.start()

    def happenings(self) -> list[Callable[[], None]]:
        """Return what happens in the rounds: each as often, in any order."""
        kinds: list[Callable[[], None]] = [
            self.kill_receiver,
            self.kill_broker,
            self.silence,
            self.reset,
            self.fill_disk,
        ]
        found = [kinds[number % len(kinds)] for number in range(ROUNDS)]
        self.chance.shuffle(found)
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LivePlace]:
    with closing(LivePlace(tmp_path)) as made:
        yield made


def captured(prefix: Path) -> tuple[np.ndarray, str]:
    """Return the numbers of the operations in a trail, and their indicators."""
    numbers, letters = [np.zeros(0, np.int64)], []
    for batch in read_trail(prefix):
        after = batch["after"]
        names = np.asarray(after.keys.to_numpy(zero_copy_only=False)) == "NAME"
        numbers.append(after.items.filter(pa.array(names)).cast(pa.int64()).to_numpy())
        letters.append("".join(batch["tx_ind"].to_pylist()))
    return np.concatenate(numbers), "".join(letters)


@pytest.mark.timeout(600 + 60 * ROUNDS)
def test_each_operation_is_captured_once_whatever_fails(
    artemis: Artemis, place: LivePlace, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    sys.stdout.write(f"seed {SEED}\n")
    wanted = transactions(chance, OPERATIONS)
    bodies = list(messages(chance, wanted))
    assert len(bodies) >= MESSAGES * 0.95
    size = -(-len(bodies) // ROUNDS)
    mounted = tmp_path / "disk"
    mounted.mkdir()
    with small_disk(mounted) as disk:
        scene = Scene(artemis, place, disk, chance)
        happened: Counter[str] = Counter()
        for number, happening in enumerate(scene.happenings()):
            scene.feeding = Feeding(artemis, bodies[number * size : (number + 1) * size])
            if happening != scene.kill_receiver or chance.random() < 0.7:
                scene.wait_for_connection()  # else a start is killed too
            scene.feeding.wait_for(chance.randrange(size // 2))
            happening()
            happened[happening.__name__] += 1
            if happening != scene.kill_receiver and chance.random() < 0.2:
                scene.kill_receiver()
            scene.feeding.wait()
        place.kill(scene.receiver)
        place.run("--from", scene.address, "--max-size", "4MB", seconds=300)
        numbers, letters = captured(disk.outside / "ot")
        scene.proxy.close()

    sys.stdout.write(f"{dict(happened)}\n")
    assert letters == "".join(letter for transaction in wanted for _, letter in transaction), SEED
    assert (numbers == np.arange(OPERATIONS)).all(), SEED
