"""How fast the journal stores windows of messages, beside writing and syncing the same bytes."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import pyarrow as pa
from benchmarks.live.places import body
from benchmarks.report import Figure

from received_messages import received
from trailgate.live.files.journal_writer import Journal

WINDOWS: Final = {
    1: 4096,
    100: 1100,
}  # messages of a window, by the operations of one: as they come from a full queue
COUNT: Final = 24
QUICK_COUNT: Final = 8
ROUNDS: Final = 5
HEADERS: Final = {
    "JMSDestination": "orders",
    "JMSTimestamp": "1795344000000",
    "JMSPriority": "4",
    "JMSDeliveryMode": "2",
    "JMSExpiration": "0",
    "JMSRedelivered": "false",
}


def figures(*, quick: bool) -> Iterator[Figure]:
    """Yield megabytes of bodies a second, and the CPU."""
    count = QUICK_COUNT if quick else COUNT
    for operations, messages in WINDOWS.items():
        windows = [_window(operations, messages, number) for number in range(count)]
        megabytes = count * messages * len(body(operations)) / 1e6
        own: list[tuple[float, float]] = []
        plain: list[tuple[float, float]] = []
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory(prefix="trailgate-bench-") as folder:
                with Journal(Path(folder, "journal")) as journal:
                    own.append(_measured(lambda: [journal.append(one) for one in windows]))  # noqa: B023  called here
                sizes = _sizes(Path(folder, "journal"), count)
                plain.append(_measured(lambda: _write(Path(folder, "plain"), sizes)))  # noqa: B023  called here
        name = f"windows of {messages:,} messages of {operations} operation{'s' * (operations > 1)} into the journal"
        for at, unit in enumerate(("MB/s", "MB/s of CPU")):
            yield Figure(
                name,
                megabytes / min(one[at] for one in own),
                unit,
                "write and fsync of the same bytes",
                megabytes / min(one[at] for one in plain),
            )


def _window(operations: int, messages: int, number: int) -> pa.RecordBatch:
    ids = [f"{number}:{at}@1795344000000" for at in range(messages)]
    return received([body(operations)] * messages, ids, [HEADERS] * messages)


def _measured(act: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds and the seconds of CPU."""
    started, cpu = time.perf_counter(), time.process_time()
    act()
    return time.perf_counter() - started, time.process_time() - cpu


def _sizes(folder: Path, count: int) -> list[int]:
    """Return about the sizes of a journal's frames."""
    whole = sum(path.stat().st_size for path in folder.iterdir())
    return [whole // count] * count


def _write(path: Path, sizes: list[int]) -> None:
    data = os.urandom(1 << 16) * (max(sizes) // (1 << 16) + 1)
    with path.open("wb", buffering=0) as file:
        for size in sizes:
            file.write(memoryview(data)[:size])
            os.fsync(file.fileno())
