"""Report errors of Spark, and errors in its workers, as one line.

PySpark's worker sends the traceback of an exception to the driver. The text of our errors already
contains the file, the place and the cause, so ``brief_errors`` omits the traceback. ``find_cause_line`` finds the cause in
an error that Spark raises in the driver.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa

from trailgate.errors import TrailgateError

# If this variable is set when PySpark's worker reports an error, the traceback is omitted. The worker
# ends after that, so setting it affects no other task.
HIDE: Final = "SPARK_HIDE_TRACEBACK"
HELP: Final = "use absolute paths, set the option base, or call trailgate.spark.register(spark), which passes your folder on to Spark"
WORKER_DAEMON: Final = "trailgate.spark.worker_daemon"  # the module of our daemon
C = TypeVar("C", bound=type)
Batches = Iterator[pa.RecordBatch]
CAUSE: Final = "Caused by: "


@contextmanager
def brief_errors() -> Iterator[None]:
    """Context manager: Spark reports our errors as one line without a traceback. TRAILGATE_DEBUG=1 keeps the traceback."""
    try:
        yield
    except TrailgateError as error:
        _name_folder(error)
        if _in_worker() and os.environ.get("TRAILGATE_DEBUG") != "1":
            os.environ[HIDE] = "1"
        raise


def with_brief_errors(source: C) -> C:
    """Decorate a Spark data source's class so that its methods report our errors without a traceback."""
    for name, member in list(vars(source).items()):
        if callable(member) and (name == "__init__" or not name.startswith("_")):
            setattr(source, name, _brief(member))
    return source


def _brief(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def calling(*given: Any, **named: Any) -> Any:
        # a generator's errors are raised later, while it is iterated
        with brief_errors():
            result = method(*given, **named)
        return _briefly(result) if isinstance(result, Iterator) else result

    return calling


def _briefly(items: Iterator[Any]) -> Iterator[Any]:
    with brief_errors():
        yield from items


def brief_rows(function: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """Decorate a function for ``mapInArrow`` so that it reports our errors without a traceback."""

    @wraps(function)
    def run(batches: Batches) -> Batches:
        return _briefly(function(batches))

    return run


def _name_folder(error: TrailgateError) -> None:
    """Add a hint to an error that names the working folder of a Spark worker, if Spark has created that folder.

    A relative path starts there, and the user does not know the folder.
    """
    folder = str(Path.cwd())
    if _in_worker() and folder != os.environ.get("PWD") and folder in str(error):
        here = f"{folder} is the working folder of Spark's process: {HELP}"
        error.add_hint(here)


def _in_worker() -> bool:
    """Return whether this process is a worker of PySpark, started by its daemon or by ours."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return main is not None and main.name.startswith(("pyspark.", WORKER_DAEMON))


def find_cause_line(error: Exception) -> str:
    """Return the line of a Spark or Java error that names its cause, or the first line if no line does."""
    java = getattr(error, "java_exception", None)
    lines = (str(error) if java is None else str(java.toString())).splitlines()
    causes = [line for line in str(error).splitlines() if line.startswith(CAUSE)]
    candidates = [
        line.removeprefix(CAUSE).strip() for line in (*causes[-1:], *lines) if line.strip()
    ]
    return candidates[0] if candidates else type(error).__name__
