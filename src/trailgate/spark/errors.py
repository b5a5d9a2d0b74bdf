"""Our own errors in Spark's workers: their line alone, since it names whose fault it is and where.

Batches as Spark expects them: exactly its schema, names and types.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from trailgate.errors import TrailgateError

# PySpark's worker omits the traceback where this variable is set when it reports an error, and ends after that.
HIDE: Final = "SPARK_HIDE_TRACEBACK"
HELP: Final = "give absolute paths, or the option base, or call trailgate.spark.register(spark), which sends yours"
C = TypeVar("C", bound=type)


@contextmanager
def brief_errors() -> Iterator[None]:
    """Let Spark report errors of ours by their line, not after a traceback; TRAILGATE_DEBUG=1 keeps that."""
    try:
        yield
    except TrailgateError as error:
        _name_folder(error)
        if _in_worker() and os.environ.get("TRAILGATE_DEBUG") != "1":
            os.environ[HIDE] = "1"
        raise


def with_brief_errors(source: C) -> C:
    """Return a class of a data source whose methods report errors of ours by their line."""
    for name, member in list(vars(source).items()):
        if callable(member) and (name == "__init__" or not name.startswith("_")):
            setattr(source, name, _brief(member))
    return source


def _brief(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def calling(*given: Any, **named: Any) -> Any:
        with brief_errors():
            result = method(*given, **named)
        return _briefly(result) if isinstance(result, Iterator) else result

    return calling


def _briefly(items: Iterator[Any]) -> Iterator[Any]:
    with brief_errors():
        yield from items


def _name_folder(error: TrailgateError) -> None:
    """Add to an error what helps where relative paths are from a folder of Spark's own, which the user does not know."""
    folder = str(Path.cwd())
    if _in_worker() and folder != os.environ.get("PWD") and folder in str(error):
        here = f"{folder} is a folder of Spark's: {HELP}"
        error.hint = here if not error.hint else f"{error.hint}. {here}"


def _in_worker() -> bool:
    """Return whether this process is one of PySpark's, which exists to run what it is sent."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return main is not None and main.name.startswith("pyspark.")


def arrow_schema(schema: StructType, zone: str = "UTC") -> Any:
    """Return a schema of Spark as Arrow's.

    PySpark 4.1 expects all timestamps in UTC. Later releases expect the session's zone where rows pass through a DataFrame.
    """
    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone=zone)
    return to_arrow_schema(schema)


def as_expected(
    batches: Iterable[pa.RecordBatch], schema: StructType, zone: str = "UTC"
) -> Iterator[pa.RecordBatch]:
    """Yield batches, whose columns are those of a schema in its order, with its names and types."""
    exact = arrow_schema(schema, zone)
    for batch in batches:
        yield batch.rename_columns(exact.names).cast(exact)
