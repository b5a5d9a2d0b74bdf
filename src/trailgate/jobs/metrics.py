"""Metrics for Prometheus: their text, and where it goes.

The text is Prometheus' text format, version 0.0.4, at a port that Prometheus asks, or in a file that node_exporter's textfile collector reads.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from trailgate.errors import OptionError
from trailgate.storage.files.durable import write_whole

S = TypeVar("S")
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
COUNTER, GAUGE = "counter", "gauge"
# Text format, Comments, help text, and type information: a label's value has these escaped.
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Metric(NamedTuple):
    """One metric: its name, the value that it is, and what it means. A counter is a sum of all batches, a gauge a value of the last one."""

    name: str
    of: str
    help: str

    def lines(self, kind: str, values: Iterable[tuple[Mapping[str, str], float]]) -> Iterator[str]:
        """Yield the lines of its values, each with its labels."""
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {kind}"
        for labels, value in values:
            shown = int(value) if isinstance(value, bool) else value
            own = ",".join(f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels.items())
            yield f"{self.name}{{{own}}} {shown}"


LOCAL: Final = "127.0.0.1"
FILE_SECONDS: Final = 1.0  # between two writes of the file
FILE_ENDING: Final = ".prom"  # node_exporter reads files of this ending only
PATHS: Final = frozenset({"/", "/metrics"})
_ENDPOINT: Final = re.compile(r"(?:(?P<host>[^/\s]*):)?(?P<port>\d+)")
_FORM: Final = "Give a port as 9464, an address as 0.0.0.0:9464, or a file as trailgate.prom"


class MetricsOutput(Generic[S]):
    """Gives metrics to whoever asks for them: ``as_text`` makes them of statistics, and ``first`` are those before any are shown."""

    def __init__(self, as_text: Callable[[S], str], first: S) -> None:
        self._as_text, self._last = as_text, first

    def show(self, statistics: S) -> None:
        """Set the statistics. Cheap, since their text is made when somebody asks."""
        self._last = statistics  # frozen: a request sees one moment

    def text(self) -> bytes:
        """Return the metrics of the moment."""
        return self._as_text(self._last).encode()


class _File(MetricsOutput[S]):
    _written: S | None = None
    _due = 0.0

    def __init__(self, path: Path, as_text: Callable[[S], str], first: S) -> None:
        super().__init__(as_text, first)
        self._path = path

    def show(self, statistics: S) -> None:
        super().show(statistics)
        if statistics != self._written and time.monotonic() >= self._due:
            self.write()

    def write(self) -> None:
        """Replace the file by what is known."""
        write_whole(self._path, self.text())
        self._due, self._written = time.monotonic() + FILE_SECONDS, self._last


@contextmanager
def metrics_output(
    target: str, as_text: Callable[[S], str], first: S
) -> Iterator[MetricsOutput[S]]:
    """Yield where metrics go: PORT, HOST:PORT or a file whose name ends in ``.prom``.

    Raises OptionError for another target or a port that cannot be had, and WriteError for a file that cannot be written.
    """
    endpoint = _ENDPOINT.fullmatch(target)
    if endpoint is not None:
        output = MetricsOutput(as_text, first)
        with _serve(endpoint["host"] or LOCAL, int(endpoint["port"]), output):
            yield output
        return
    if not target.endswith(FILE_ENDING):
        problem = (
            f"metrics cannot go to {target!r}: it is not a port, and does not end in {FILE_ENDING}"
        )
        raise OptionError(problem, hint=_FORM)
    file = _File(Path(target), as_text, first)
    file.write()
    try:
        yield file
    finally:
        file.write()


@contextmanager
def _serve(host: str, port: int, endpoint: MetricsOutput[S]) -> Iterator[None]:
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
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
