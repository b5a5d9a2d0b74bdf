"""A capture into a store beside one into a folder: CPU of the process that captures, its peak of memory, and requests.

The store is moto's server of S3's protocol in another process, so what it needs itself is not counted. The wall clock of a real
store depends on where it is.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.capture_job import write_messages
from benchmarks.delimited import PLAIN
from benchmarks.memory import peak
from benchmarks.report import Figure, Target

from trailgate.jobs.capture.job import plan_capture, run_local
from trailgate.jobs.capture.loading import load_capture
from trailgate.jobs.capture.plan import CaptureOptions
from trailgate.storage.stores.s3 import S3Store

FLAT: Final = Target(1.2, at_most=True)
BUCKET: Final = "benchmark"
FILE_BYTES: Final = 20_000_000


@dataclass(frozen=True, slots=True)
class Captured:
    """Seconds of CPU, MB at the peak, requests, files, and MB of messages."""

    seconds: float
    peak: float
    requests: int
    files: int
    megabytes: float


def run(*, quick: bool) -> list[Figure]:
    """Return the figures of a capture into a store."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415  an extra

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ.update(
        AWS_ENDPOINT_URL=f"http://{host}:{port}",
        AWS_ACCESS_KEY_ID="benchmark",
        AWS_SECRET_ACCESS_KEY="benchmark",
        AWS_DEFAULT_REGION="us-east-1",
    )
    try:
        return _figures((100, 300) if quick else (300, 1500))
    finally:
        server.stop()


def _figures(sizes: tuple[int, int]) -> list[Figure]:
    stored, local = ([_measured(size, where=where) for size in sizes] for where in ("s3", "disk"))
    small, large = stored
    name = f"capturing {large.megabytes:,.0f} MB into S3"
    fewer, files = f"{small.files} files", f"{large.files} files"
    each = (large.requests - small.requests) / (large.files - small.files)
    return [
        Figure(name, large.seconds, "s of CPU", "into a folder", local[1].seconds),
        Figure(
            name=name,
            figure=large.peak,
            unit="MB peak",
            yardstick=f"{small.megabytes:,.0f} MB",
            yardstick_figure=small.peak,
            target=FLAT,
        ),
        Figure(name, large.peak, "MB peak", "into a folder", local[1].peak),
        Figure(f"{name}, {files}", large.requests, "requests", fewer, small.requests),
        Figure("requests for one more file of 20 MB", each, "requests", "one", 1),
    ]


def _measured(megabytes: int, *, where: str) -> Captured:
    """Return what a fresh process needs."""
    with tempfile.TemporaryDirectory(prefix="trailgate-bench-") as folder:
        messages, properties = write_messages(Path(folder), PLAIN, megabytes)
        target = f"s3://{BUCKET}/{megabytes}/ot" if where == "s3" else f"{folder}/trail/ot"
        command = [sys.executable, "-m", "benchmarks.stores", str(messages), str(properties)]
        root = Path(__file__).parents[1]
        done = subprocess.run(
            [*command, target], check=True, capture_output=True, text=True, cwd=root
        )
    seconds, most, requests, files, size = done.stdout.split()
    return Captured(float(seconds), float(most), int(requests), int(files), float(size))


def main(messages: str, properties: str, target: str) -> None:
    """Capture in this process, and print what it needed."""
    sent: list[str] = []
    real = S3Store.call

    def counting(self: S3Store, operation: str, key: str = "", **arguments: Any) -> Any:
        sent.append(operation)
        return real(self, operation, key, **arguments)

    if target.startswith("s3:"):
        from trailgate.storage.stores.writable_stores import writable_store  # noqa: PLC0415

        store: Any = writable_store(target, "a trail")[0]
        store.call("create_bucket")
        setattr(S3Store, "call", counting)  # noqa: B010  a method, to count its calls
    else:
        Path(target).parent.mkdir()
    options = CaptureOptions(message_per_line=True, max_bytes=FILE_BYTES)
    started = time.process_time()
    done = run_local(plan_capture(load_capture(properties), messages, target, options))
    seconds = time.process_time() - started
    size = Path(messages).stat().st_size / 1e6
    print(seconds, peak(), len(sent), len(done.files), size)


if __name__ == "__main__":
    main(*sys.argv[1:])
