"""Where metrics go: a port that Prometheus asks, or a file that node_exporter's textfile collector reads."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, Protocol

from trailgate.errors import OptionError
from trailgate.jobs.receive.watching.metrics import CONTENT_TYPE, as_text
from trailgate.jobs.receive.watching.statistics import Statistics
from trailgate.storage.files.durable import write_whole

LOCAL: Final = "127.0.0.1"
FILE_SECONDS: Final = 1.0  # between two writes of the file
FILE_ENDING: Final = ".prom"  # node_exporter reads files of this ending only
PATHS: Final = frozenset({"/", "/metrics"})
_ENDPOINT: Final = re.compile(r"(?:(?P<host>[^/\s]*):)?(?P<port>\d+)")
_FORM: Final = "Give a port as 9464, an address as 0.0.0.0:9464, or a file as trailgate.prom"


class MetricsOutput(Protocol):
    """Gives metrics to whoever asks for them."""

    def show(self, statistics: Statistics) -> None:
        """Note what was done so far; cheap."""
        ...


class _File:
    def __init__(self, path: Path, trail: str) -> None:
        self._path, self._trail, self._due = path, trail, 0.0
        self._last, self._written = Statistics(), None

    _written: Statistics | None

    def show(self, statistics: Statistics) -> None:
        self._last = statistics
        if statistics is not self._written and time.monotonic() >= self._due:
            self.write()

    def write(self) -> None:
        """Replace the file by what is known."""
        write_whole(self._path, as_text(self._last, self._trail).encode())
        self._due, self._written = time.monotonic() + FILE_SECONDS, self._last


class _Endpoint:
    def __init__(self, trail: str) -> None:
        self._trail, self._last = trail, Statistics()

    def show(self, statistics: Statistics) -> None:
        self._last = statistics  # frozen: a request sees one moment

    def text(self) -> bytes:
        return as_text(self._last, self._trail).encode()


@contextmanager
def metrics_output(target: str, trail: str) -> Iterator[MetricsOutput]:
    """Yield where metrics go: PORT, HOST:PORT or a file whose name ends in ``.prom``.

    Raises OptionError for another target or a port that cannot be had, and WriteError for a file that cannot be written.
    """
    endpoint = _ENDPOINT.fullmatch(target)
    if endpoint is not None:
        with _served(endpoint["host"] or LOCAL, int(endpoint["port"]), trail) as served:
            yield served
        return
    if not target.endswith(FILE_ENDING):
        problem = (
            f"metrics cannot go to {target!r}: it is not a port, and does not end in {FILE_ENDING}"
        )
        raise OptionError(problem, hint=_FORM)
    file = _File(Path(target), trail)
    file.write()
    try:
        yield file
    finally:
        file.write()


@contextmanager
def _served(host: str, port: int, trail: str) -> Iterator[_Endpoint]:
    endpoint = _Endpoint(trail)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path.partition("?")[0] in PATHS
            body = endpoint.text() if found else b"metrics are at /metrics\n"
            self.send_response(HTTPStatus.OK if found else HTTPStatus.NOT_FOUND)
            self.send_header("Content-Type", CONTENT_TYPE if found else "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Note nothing of a request."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except (OSError, OverflowError) as error:
        raise OptionError(
            f"metrics cannot be given at {host}:{port}: {error}", hint=_FORM
        ) from None
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
