"""Provide the metrics of a run to Prometheus: at a port that it polls, or in a file.

The format is Prometheus' text format, version 0.0.4. The file is for node_exporter's textfile
collector.
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

from trailgate.errors import OptionError, mask_logins
from trailgate.storage.files.addresses import absolute, is_stored
from trailgate.storage.files.durable import replace_whole_file

S = TypeVar("S")
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
COUNTER, GAUGE = "counter", "gauge"

# Characters that are escaped in the value of a label (text format, "Comments, help text, and type
# information").
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
LOCAL: Final = "127.0.0.1"
FILE_SECONDS: Final = 1.0  # the shortest time between two writes of the file
FILE_ENDING: Final = ".prom"  # node_exporter reads only files with this ending
PATHS: Final = frozenset({"/", "/metrics"})
# 9464, or 0.0.0.0:9464
_ENDPOINT: Final = re.compile(r"(?:(?P<host>[^/\s]*):)?(?P<port>\d+)")
_FORM: Final = (
    "Give a port such as 9464, an address such as 0.0.0.0:9464, or a file such as trailgate.prom"
)


class Metric(NamedTuple):
    """A Prometheus metric: its name, the attribute that contains its value, and its help text.

    The attribute `of` belongs to the statistics of a run. A counter is the sum over all batches, a
    gauge the value of the last one.
    """

    name: str
    of: str
    help: str

    def lines(self, kind: str, values: Iterable[tuple[Mapping[str, str], float]]) -> Iterator[str]:
        """Yield the metric in Prometheus's text format, a line for each value with its labels.

        ``kind`` is "counter" or "gauge".
        """
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {kind}"
        for labels, value in values:
            shown = int(value) if isinstance(value, bool) else value
            pairs = ",".join(
                f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels.items()
            )
            yield f"{self.name}{{{pairs}}} {shown}"


def known_lines(
    kind: str, rows: Iterable[Metric], source: object, labels: Mapping[str, str]
) -> Iterator[str]:
    """Yield the Prometheus lines of metrics whose values are attributes of ``source``.

    ``kind`` is "counter" or "gauge". Metrics whose value is missing or None are skipped.
    """
    for row in rows:
        value = getattr(source, row.of, None)
        if value is not None:
            yield from row.lines(kind, [(labels, value)])


class MetricsOutput(Generic[S]):
    """Provides the metrics of a run to Prometheus on request.

    ``as_text`` formats statistics. ``first`` are the statistics before the first update.
    """

    def __init__(self, as_text: Callable[[S], str], first: S) -> None:
        self._as_text, self._last = as_text, first

    def show(self, statistics: S) -> None:
        """Set the statistics of the run that are shown as metrics from now on.

        This is cheap, because they are formatted only on request.
        """
        self._last = statistics  # a frozen value, so that a request sees consistent statistics

    def text(self) -> bytes:
        """Format the current statistics of the run as metrics for Prometheus."""
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
        """Replace the content of the file for node_exporter by the current metrics."""
        replace_whole_file(self._path, self.text())
        self._due, self._written = time.monotonic() + FILE_SECONDS, self._last


def check_metrics(target: str) -> None:
    """Raise OptionError if metrics cannot be provided at ``target``: PORT, HOST:PORT or a ``.prom`` file."""
    if _ENDPOINT.fullmatch(target) is not None:
        return
    if is_stored(target):
        problem = f"metrics cannot go to {mask_logins(target)!r}: it is in a store"
        raise OptionError(problem, hint=_FORM)
    if not target.endswith(FILE_ENDING):
        problem = (
            f"metrics cannot go to {target!r}: it is not a port, and does not end in {FILE_ENDING}"
        )
        raise OptionError(problem, hint=_FORM)


def absolute_metrics(target: str, base: str) -> str:
    """Make the path of a file for metrics absolute, relative to ``base``. A port is returned unchanged."""
    return target if _ENDPOINT.fullmatch(target) is not None else absolute(target, base)


@contextmanager
def metrics_output(
    target: str, as_text: Callable[[S], str], first: S
) -> Iterator[MetricsOutput[S]]:
    """Yield the output of metrics for PORT, HOST:PORT, or a file that ends in ``.prom``.

    ``as_text`` formats statistics, and ``first`` are those before the first update. Raises
    OptionError for any other target or an unavailable port, and WriteError if the file cannot be
    written.
    """
    check_metrics(target)
    endpoint = _ENDPOINT.fullmatch(target)
    if endpoint is not None:
        output = MetricsOutput(as_text, first)
        with _serve(endpoint["host"] or LOCAL, int(endpoint["port"]), output):
            yield output
        return
    file = _File(Path(target), as_text, first)
    # write at once, so that a wrong path is an error now
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
            """Do not log the requests for metrics."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except (OSError, OverflowError) as error:
        raise OptionError(
            f"metrics cannot be served at {host}:{port}: {error}", hint=_FORM
        ) from None
    # An open connection must not keep the process from ending.
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        # This waits until the loop has ended. Only then may the socket be closed.
        server.shutdown()
        server.server_close()
        thread.join()
