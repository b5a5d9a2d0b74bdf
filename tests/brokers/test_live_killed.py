"""Messages to a trail while all that can fail does: each operation once, in order, in whole transactions.

Each of what can fail does so once by each protocol, in any order; ``TRAILGATE_KILLS`` is another number of rounds.
"""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest

from brokers.artemis import LOGIN, Artemis
from brokers.cut_connection import Proxy
from brokers.live_place import LivePlace, messages, transactions
from brokers.small_disk import LimitedFiles, MountedDisk, small_disk
from brokers.stomp_sender import Sender
from laws import WHOLE, chance, kills
from trailgate.storage.reading.trails import read_trail

ROUNDS: Final = kills(5)
MESSAGES: Final = 10_000 if WHOLE else 4_000  # of one round
OPERATIONS: Final = MESSAGES * 5 // 2  # about as many as these messages have
CHUNK: Final = 500  # messages that are sent at once
QUEUE: Final = "killed.live.{}.{}"  # of a protocol and a try, so that a second try has its own
HELD: Final = (
    "a lost connection still holds"  # of the error about messages that Artemis lost track of
)
FULL: Final = 3  # the exit code of a receiver that cannot write
WAIT: Final = 150.0


@contextmanager
def sending_by_stomp(broker: Artemis, queue: str) -> Iterator[Callable[[Sequence[str]], None]]:
    sender = Sender(broker.stomp, queue, LOGIN, **{"destination-type": "ANYCAST"})
    yield sender.send
    sender.close()


@contextmanager
def sending_by_amqp(broker: Artemis, queue: str) -> Iterator[Callable[[Sequence[str]], None]]:
    from brokers.amqp_sender import send  # noqa: PLC0415  an extra

    yield lambda bodies: send(broker.amqp, LOGIN, queue, bodies)


SENDERS: Final = {"stomp": sending_by_stomp, "amqp": sending_by_amqp}


class Feeding(threading.Thread):
    """Sends messages, and knows how many the broker has confirmed."""

    def __init__(self, broker: Artemis, scheme: str, queue: str, bodies: list[str]) -> None:
        super().__init__(daemon=True)
        self._broker, self._scheme, self._bodies = broker, scheme, bodies
        self._queue = queue
        self.confirmed = 0
        self.start()

    def run(self) -> None:
        with SENDERS[self._scheme](self._broker, self._queue) as send:
            for begin in range(0, len(self._bodies), CHUNK):
                part = self._bodies[begin : begin + CHUNK]
                send(part)
                self.confirmed += len(part)

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
        scheme: str,
    ) -> None:
        self.broker, self.place, self.disk, self.chance = broker, place, disk, chance
        port = {"stomp": broker.stomp, "amqp": broker.amqp}[scheme]
        self.proxy = Proxy(port)
        place.prefix, place.enter = disk.inside / "ot", tuple(disk.enter)
        self.queue = QUEUE.format(scheme, uuid4().hex)
        own = broker.address(self.queue, scheme, heart_beat=2, window=500)
        self.address = own.replace(f":{port}/", f":{self.proxy.port}/")
        self.feeding = Feeding(broker, scheme, self.queue, [])
        self.receiver = self.start()

    def start(self) -> subprocess.Popen[str]:
        arguments = ["--from", self.address, "--follow", "--max-size", "4MB"]
        return self.place.start(*arguments, output=subprocess.DEVNULL)

    def wait_for_connection(self) -> None:
        until = time.monotonic() + WAIT
        while not self.place.has_logged("receiving from"):
            assert time.monotonic() < until, self.place.log.read_text()[-3000:]
            self.free_held_messages()
            time.sleep(0.05)

    def free_held_messages(self) -> None:
        """Start broker and receiver again if the receiver has ended because Artemis holds a message (docs/brokers.md)."""
        if self.receiver.poll() is not None and self.place.has_logged(HELD):
            self.restart_broker()
            self.receiver = self.start()

    def restart_broker(self) -> None:
        self.feeding.wait()  # what a sender had not confirmed would be sent twice
        self.broker.process.kill()
        self.broker.process.start()

    def receive_all(self, operations: int) -> None:
        """Run receivers until the trail has so many operations, as long as more arrive."""
        arguments = ("--from", self.address, "--max-size", "4MB")
        reached, until = -1, 0.0
        while (count := self.place.count()) < operations:
            if count > reached:
                reached, until = count, time.monotonic() + WAIT
            assert time.monotonic() < until, f"{count} of {operations} operations"
            process = self.place.start(*arguments, output=subprocess.DEVNULL)
            code = process.wait(WAIT)
            if code and self.place.has_logged(HELD):
                self.restart_broker()
            else:
                assert code == 0, self.place.log.read_text()[-3000:]

    def kill_receiver(self) -> None:
        self.place.kill(self.receiver)
        self.receiver = self.start()

    def kill_broker(self) -> None:
        self.feeding.wait()
        time.sleep(self.chance.uniform(0.0, 0.3))
        self.restart_broker()

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

    def happenings(self, rounds: int) -> list[Callable[[], None]]:
        """Return what happens in so many rounds: each as often, in any order."""
        kinds: list[Callable[[], None]] = [
            self.kill_receiver,
            self.kill_broker,
            self.silence,
            self.reset,
            self.fill_disk,
        ]
        found = [kinds[number % len(kinds)] for number in range(rounds)]
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
@pytest.mark.parametrize("scheme", SENDERS)
def test_each_operation_is_captured_once_whatever_fails(
    artemis: Artemis, place: LivePlace, tmp_path: Path, scheme: str
) -> None:
    if scheme == "amqp":
        pytest.importorskip("proton", reason="AMQP needs the extra amqp")
    drawn = chance(f"killed {scheme}")
    operations = OPERATIONS * ROUNDS
    wanted = transactions(drawn, operations)
    bodies = list(messages(drawn, wanted))
    assert len(bodies) >= MESSAGES * ROUNDS * 0.95
    size = -(-len(bodies) // ROUNDS)
    mounted = tmp_path / "disk"
    mounted.mkdir()
    with small_disk(mounted) as disk:
        scene = Scene(artemis, place, disk, drawn, scheme)
        happened: Counter[str] = Counter()
        for number, happening in enumerate(scene.happenings(ROUNDS)):
            part = bodies[number * size : (number + 1) * size]
            scene.feeding = Feeding(artemis, scheme, scene.queue, part)
            if happening != scene.kill_receiver or drawn.random() < 0.7:
                scene.wait_for_connection()  # else a start is killed too
            scene.feeding.wait_for(drawn.randrange(size // 2))
            happening()
            happened[happening.__name__] += 1
            if happening != scene.kill_receiver and drawn.random() < 0.2:
                scene.kill_receiver()
            scene.feeding.wait()
        place.kill(scene.receiver)
        place.outside = disk.outside / "ot"
        scene.receive_all(operations)
        numbers, letters = captured(disk.outside / "ot")
        scene.proxy.close()

    assert letters == "".join(letter for transaction in wanted for _, letter in transaction), (
        happened
    )
    assert (numbers == np.arange(operations)).all(), happened
