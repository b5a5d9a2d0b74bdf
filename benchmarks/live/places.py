"""Where a live capture is measured: a broker, a working folder, and queues that are full."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from brokers.artemis import LOGIN, Artemis
from brokers.live_place import LivePlace, row
from brokers.real_brokers import Process
from brokers.stomp_sender import Sender
from trailgate.jobs.capture.loading import load_capture
from trailgate.live.brokers.address import parse_address
from trailgate.live.jobs.run import ReceiveOptions, open_live

SENT_AT_ONCE: Final = 1000


def body(operations: int) -> str:
    """Return a message of so many operations of one transaction."""
    letters = ["W"] if operations == 1 else ["B", *"M" * (operations - 2), "E"]
    return "\n".join(row(at, letter) for at, letter in enumerate(letters))


def fill(broker: Artemis, queue: str, text: str, count: int) -> None:
    """Put so many persistent messages into a queue."""
    sender = Sender(broker.stomp, queue, LOGIN, **{"destination-type": "ANYCAST"})
    for _ in range(0, count, SENT_AT_ONCE):
        sender.send([text] * min(SENT_AT_ONCE, count))
    sender.close()


def captured(address: str, place: LivePlace, name: str, count: int) -> float:
    """Return the seconds from the connection until the last message is in the trail."""
    capture = load_capture(place.properties)
    options = ReceiveOptions(until_empty=True)
    started = time.perf_counter()
    seen, last = 0, 0.0
    with open_live(capture, parse_address(address), f"{place.prefix}.{name}", options) as live:
        for report in live.run():
            seen, last = seen + report.messages, time.perf_counter()
    assert seen == count, (seen, count)
    return last - started


@contextmanager
def following(place: LivePlace, address: str) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that captures until it is killed; what it prints is read and left out."""
    process = place.start("--json", "--from", address, "--follow")
    drain = threading.Thread(target=lambda: process.stdout and process.stdout.read(), daemon=True)
    drain.start()
    try:
        place.wait("receiving from")
        yield process
    finally:
        process.kill()
        drain.join()
        place.close()


def cpu_of(process: Process) -> float:
    """Return the seconds of CPU that a broker has taken so far, where the system has /proc."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def made(folder: Path) -> Path:
    """Return a folder that was made."""
    folder.mkdir()
    return folder
