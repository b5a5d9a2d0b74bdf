"""A working folder of a live capture: numbered operations in transactions, receivers that are killed, and what the trail holds."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from brokers.receivers import PATIENCE
from capture_place import DEFINITIONS, PROPERTIES
from trailgate.storage.reading.trails import read_trail

ROOT = Path(__file__).parents[2]
LARGEST = 50  # operations of a transaction


class LivePlace:
    """Properties of messages whose transactions may span them, and the trail ``ot``."""

    def __init__(self, folder: Path, more: str = "") -> None:
        self.folder, self.prefix = folder, folder / "ot"
        (folder / "orders.def").write_text(DEFINITIONS)
        text = PROPERTIES.format(sourcedefs=folder / "orders.def", more=",ind")
        self.properties = folder / "p.properties"
        self.properties.write_text(text + "delim.txind=ind\n" + more)
        self.log = folder / "log"
        self.seen: dict[str, int] = {}
        self.started: list[subprocess.Popen[str]] = []
        self.enter: tuple[str, ...] = ()  # before a command: how it sees the disk of the trail
        self.outside: Path | None = (
            None  # the trail as this process sees it, where that is another path
        )

    def start(self, *arguments: str, output: int = subprocess.PIPE) -> subprocess.Popen[str]:
        """Start the command line in a process of its own; somebody must read its output, or it is to have none."""
        command = [
            *self.enter,
            sys.executable,
            "-m",
            "trailgate",
            "capture",
            "--properties",
            str(self.properties),
        ]
        command += ["--to", str(self.prefix), *arguments]
        with self.log.open("a") as log:
            process = subprocess.Popen(
                command,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
                stdout=output,
                stderr=log,
                text=True,
            )
        self.started.append(process)
        return process

    def close(self) -> None:
        """End what was started and still runs."""
        for process in self.started:
            if process.poll() is None:
                self.kill(process)
            if process.stdout is not None:
                process.stdout.close()

    def run(
        self, *arguments: str, seconds: float = PATIENCE, code: int = 0
    ) -> list[dict[str, Any]]:
        """Run the command line until it ends with an exit code; return its reports, without the total."""
        process = self.start("--json", *arguments)
        output = process.communicate(timeout=seconds)[0]
        assert process.returncode == code, self.log.read_text()[-3000:]
        reports = [json.loads(line) for line in output.splitlines()]
        return [report for report in reports if "total" not in report]

    def run_until(self, operations: int, *arguments: str) -> None:
        """Run the command line until its trail has so many operations: a broker may give what it had given to a consumer that is gone later."""
        until = time.monotonic() + PATIENCE
        self.run(*arguments)
        while time.monotonic() < until and self.count() < operations:
            self.run(*arguments)

    def count(self) -> int:
        """Return how many operations the trail has."""
        return sum(batch.num_rows for batch in read_trail(self.outside or self.prefix))

    def wait(self, text: str, seconds: float = PATIENCE) -> None:
        """Wait until the log has a text once more than when this was asked last."""
        until = time.monotonic() + seconds
        while not self.has_logged(text):
            assert time.monotonic() < until, self.log.read_text()[-3000:]
            time.sleep(0.05)

    def has_logged(self, text: str) -> bool:
        """Return whether the log has a text once more than when this was last true."""
        count = self.log.read_text().count(text)
        is_new = count > self.seen.get(text, 0)
        self.seen[text] = count
        return is_new

    def kill(self, process: subprocess.Popen[str], number: int = signal.SIGKILL) -> int:
        process.send_signal(number)
        process.communicate(timeout=PATIENCE)
        return process.returncode

    def column(self, name: str) -> list[str]:
        """Return a column of the operations in the trail."""
        return [value for batch in read_trail(self.prefix) for value in batch[name].to_pylist()]

    def captured(self) -> list[tuple[int, str]]:
        """Return number and indicator of every operation in the trail."""
        return [
            (int(dict(after)["NAME"]), indicator)
            for batch in read_trail(self.prefix)
            for after, indicator in zip(
                batch["after"].to_pylist(), batch["tx_ind"].to_pylist(), strict=True
            )
        ]


def row(number: int, indicator: str) -> str:
    return f"I,MY.ORDERS,2026-01-01,{indicator},{number % 1000},{number}"


def transactions(chance: random.Random, operations: int) -> list[list[tuple[int, str]]]:
    """Return numbered operations with their indicators, in transactions."""
    found: list[list[tuple[int, str]]] = []
    number = 0
    while number < operations:
        size = min(chance.randint(1, LARGEST), operations - number)
        letters = ["W"] if size == 1 else ["B", *"M" * (size - 2), "E"]
        found.append(list(zip(range(number, number + size), letters, strict=True)))
        number += size
    return found


def messages(chance: random.Random, of: list[list[tuple[int, str]]]) -> Iterator[str]:
    """Yield messages of one to four operations, none of two transactions."""
    for transaction in of:
        place = 0
        while place < len(transaction):
            size = chance.randint(1, 4)
            yield "\n".join(row(*one) for one in transaction[place : place + size])
            place += size
