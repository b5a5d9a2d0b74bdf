"""Messages to a trail, the trail to a broker, and back to a trail, while all three processes are killed: each operation once, in order.

Each process is killed once by each protocol, in any order, and the format is drawn; with ``TRAILGATE_KILLS`` each is killed so often, in every format.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from brokers.artemis import Artemis, sent
from brokers.kafka import Kafka
from brokers.live_place import LivePlace, messages, transactions
from brokers.published import PublishPlace
from brokers.receivers import PATIENCE
from brokers.test_live_killed import HELD
from brokers.test_publish_jms import BOTH
from brokers.test_round_trip import ALL_COLUMNS, FORMATS
from capture_place import DEFINITIONS
from laws import KILLS, chance, kills
from trailgate.capture.formats import find_publication_format

OPERATIONS: Final = 400  # sent before each kill
LATEST: Final = 1.0  # seconds from sending to a kill
Starting = Callable[[], subprocess.Popen[str]]


class Chain:
    """A capture from one queue or topic, a publication of its trail to another, and a capture from there."""

    def __init__(self, folder: Path, name: str, addresses: tuple[str, str, str]) -> None:
        self.broker: Any = None
        (folder / "first").mkdir()
        (folder / "last").mkdir()
        self.first, self.last = LivePlace(folder / "first"), LivePlace(folder / "last")
        parser, options = find_publication_format(name).parser, FORMATS[name]
        definitions = folder / "last" / "orders.def"
        definitions.write_text(DEFINITIONS)
        self.last.properties.write_text(
            f"parser.type={parser}\n{parser}.sourcedefs={definitions}\n{options.properties}"
        )
        self.publishing = PublishPlace(self.first.prefix)
        source, to, back = addresses
        self._receive, self._return = ("--from", source), ("--from", back, *ALL_COLUMNS)
        given = [part for pair in options.options.items() for part in ("--option", "=".join(pair))]
        group = f"chain-{name}-{folder.name}"
        self._publish = ("--to", to, "--format", name, "--group", group, *given)

    def close(self) -> None:
        self.publishing.__exit__()
        self.first.close()
        self.last.close()

    def starts(self) -> list[Starting]:
        """Return what starts each of the three processes, in their order."""
        nowhere = subprocess.DEVNULL
        return [
            lambda: self.first.start(*self._receive, "--follow", output=nowhere),
            lambda: self.publishing.start(*self._publish, "--follow"),
            lambda: self.last.start(*self._return, "--follow", output=nowhere),
        ]

    def wait_for_trail(self) -> None:
        """Wait until the first capture has begun its trail."""
        until = time.monotonic() + PATIENCE
        while not Path(f"{self.first.prefix}000000000").exists():
            assert time.monotonic() < until, self.first.log.read_text()[-3000:]
            time.sleep(0.05)

    def finish(self, operations: int, least: int) -> None:
        """Run all three to the end."""
        self._capture(self.first, self._receive, operations)
        self.publishing.finish(self.broker, *self._publish)
        self._capture(self.last, self._return, least)

    def _capture(self, place: LivePlace, arguments: tuple[str, ...], operations: int) -> None:
        """Capture until the trail has so many operations; start a broker again that holds a message (docs/brokers.md)."""
        until = time.monotonic() + 2 * PATIENCE
        while True:
            code = place.start(*arguments, output=subprocess.DEVNULL).wait(PATIENCE)
            if code and place.has_logged(HELD):
                self.broker.process.kill()
                self.broker.process.start()
            else:
                assert code == 0, place.log.read_text()[-3000:]
            if not code and place.count() >= operations:
                return
            assert time.monotonic() < until, (place.count(), operations)


def check_chain(
    chain: Chain, drawn: random.Random, broker: Any, send: Callable[[list[str]], None]
) -> None:
    """Kill the processes of a chain while messages come, and compare what has arrived."""
    chain.broker = broker
    kinds = [0, 1, 2] * kills(1)
    drawn.shuffle(kinds)
    wanted = transactions(drawn, OPERATIONS * (len(kinds) + 1))
    bodies = list(messages(drawn, wanted))
    size = -(-len(bodies) // (len(kinds) + 1))
    parts = [bodies[at : at + size] for at in range(0, len(bodies), size)]
    starts = chain.starts()
    running = [starts[0]()]
    send(parts[0])
    chain.wait_for_trail()
    running += [start() for start in starts[1:]]
    chain.publishing.wait_for_output(running[1])  # it is connected
    for kind, part in zip(kinds, parts[1:], strict=True):
        send(part)
        time.sleep(drawn.uniform(0.0, LATEST))
        for process in (running[kind],):
            process.kill()
            process.wait(PATIENCE)
        running[kind] = starts[kind]()
    for process in running:
        process.kill()
        process.wait(PATIENCE)
    flat = [one for transaction in wanted for one in transaction]
    # A transaction that is known by its id alone ends when the next one begins.
    least = len(flat) - len(wanted[-1])
    chain.finish(len(flat), least)

    assert chain.first.captured() == flat
    found = chain.last.captured()
    assert found == flat[: len(found)]
    assert len(found) >= least


def names(drawn: random.Random) -> list[str]:
    """Return the formats that a run tries."""
    return list(FORMATS) if KILLS else [drawn.choice(list(FORMATS))]


@pytest.mark.timeout(600 + 240 * KILLS)
@BOTH
def test_a_round_trip_over_queues_survives_all_kills(
    artemis: Artemis, tmp_path: Path, scheme: str
) -> None:
    drawn = chance(f"round trip killed {scheme}")
    for name in names(drawn):
        source, to = (f"chain.{one}.{name}.{scheme}" for one in ("in", "out"))
        address = artemis.address(to, scheme)
        (tmp_path / f"{scheme}-{name}").mkdir()
        chain = Chain(
            tmp_path / f"{scheme}-{name}",
            name,
            (artemis.address(source, scheme), address, address),
        )
        with closing(chain):
            check_chain(chain, drawn, artemis, lambda part: sent(artemis, source, part, scheme))  # noqa: B023


@pytest.mark.timeout(600 + 240 * KILLS)
def test_a_round_trip_over_topics_survives_all_kills(kafka: Kafka, tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka", reason="Kafka needs the extra kafka")
    drawn = chance("round trip killed kafka")
    for name in names(drawn):
        source, to = (f"chain.{one}.{name}" for one in ("in", "out"))
        kafka.create(source)
        kafka.create(to)
        (tmp_path / f"kafka-{name}").mkdir()
        chain = Chain(
            tmp_path / f"kafka-{name}",
            name,
            (kafka.address(source), kafka.address(to, "?create"), kafka.address(to)),
        )
        with closing(chain):
            check_chain(chain, drawn, kafka, lambda part: kafka.send(source, part))  # noqa: B023
