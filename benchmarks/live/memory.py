"""The memory of a live capture over many messages: it must not grow."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.live.places import SENT_AT_ONCE, body, following
from benchmarks.report import Figure, Target

from brokers.artemis import LOGIN, Artemis
from brokers.live_place import LivePlace
from brokers.stomp_sender import Sender

MESSAGES: Final = int(os.environ.get("TRAILGATE_LIVE_MESSAGES", "1000000"))
QUICK_MESSAGES: Final = 60_000
# Where it is looked at. Ids are remembered up to a number, and what is left in between by allocators: it is steady from here.
SHARES: Final = {"two fifths": 0.4, "seven tenths": 0.7, "all": 1.0}
TARGET: Final = Target(1.1, at_most=True)
LIMIT: Final = 3600  # seconds


def figures(broker: Artemis, place: LivePlace, *, quick: bool) -> Iterator[Figure]:
    """Yield the resident memory later, beside that at two fifths of the messages."""
    count = QUICK_MESSAGES if quick else MESSAGES
    taken = _memory(broker, place, count)
    first, *later = SHARES
    for name, resident in zip(later, taken[1:], strict=True):
        text = f"a live capture after {name} of {count:,} messages"
        yield Figure(
            name=text,
            figure=resident,
            unit="MB resident",
            yardstick=f"after {first}",
            yardstick_figure=taken[0],
            target=TARGET,
        )


def _memory(broker: Artemis, place: LivePlace, count: int) -> list[float]:
    sending = threading.Thread(target=_send, args=(broker, count), daemon=True)
    found: list[float] = []
    with following(place, broker.address("memory")) as process:
        sending.start()
        until = time.monotonic() + LIMIT
        for share in SHARES.values():
            while _captured(place) < share * count:
                assert process.poll() is None, place.log.read_text()
                assert time.monotonic() < until
                time.sleep(0.1)
            found.append(_resident(process.pid))
    sending.join()
    return found


def _send(broker: Artemis, count: int) -> None:
    sender = Sender(broker.stomp, "memory", LOGIN, **{"destination-type": "ANYCAST"})
    for _ in range(0, count, SENT_AT_ONCE):
        sender.send([body(1)] * SENT_AT_ONCE)
    sender.close()


def _captured(place: LivePlace) -> int:
    """Return how many messages the trail's commit states."""
    path = Path(f"{place.prefix}.checkpoint.json")
    found = path.read_text().partition('\\"number\\": ')[2] if path.exists() else ""
    return int(found.partition(",")[0] or 0)


def _resident(process: int) -> float:
    """Return the megabytes of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024
