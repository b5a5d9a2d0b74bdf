"""Run PySpark's daemon for Python workers, without a traceback if Spark stops reading rows.

After ``limit``, ``first`` or ``show`` Spark has its rows and closes the connection while a worker
may still be sending. PySpark's daemon prints a traceback of BrokenPipeError for each such worker.
Nothing is lost by then, and if the connection breaks for another reason, Spark reports the failed
task itself. So this worker exits silently.

Local sessions name this module in ``spark.python.daemon.module``.
"""

from __future__ import annotations

import socket

from pyspark import daemon

run_task = daemon.worker
CLOSED = 1  # any exit code but 0: the daemon waits until Spark has closed the socket, then ends


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Run one task of a Python worker and return its exit code, or ``CLOSED`` if Spark stopped reading."""
    try:
        return int(run_task(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        return CLOSED


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
