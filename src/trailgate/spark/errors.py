"""Report errors in Spark's workers as one line, and convert batches to exactly the schema that Spark expects.

PySpark's worker sends the traceback of an exception to the driver. The text of our errors already
contains the file, the place and the cause, so ``brief_errors`` omits the traceback.
``cast_batches`` converts batches to the names and types that Spark expects, and reports the first
value that does not fit.
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
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructType

from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.model.positions import short_position

# If this variable is set when PySpark's worker reports an error, the traceback is left out. The worker
# ends after that, so setting it affects no other task.
HIDE: Final = "SPARK_HIDE_TRACEBACK"
HELP: Final = "give absolute paths, or the option base, or call trailgate.spark.register(spark), which sends yours"
WORKER_DAEMON: Final = "trailgate.spark.worker_daemon"  # the module of our daemon
POSITIONS: Final = ("_position", "position")  # columns with the position of a row in a trail
C = TypeVar("C", bound=type)


@contextmanager
def brief_errors() -> Iterator[None]:
    """Make Spark report our errors as one line without a traceback. TRAILGATE_DEBUG=1 keeps the traceback."""
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


Batches = Iterator[pa.RecordBatch]


def brief_rows(function: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """Decorate a function for ``mapInArrow`` so that it reports our errors without a traceback."""

    @wraps(function)
    def run(batches: Batches) -> Batches:
        return _briefly(function(batches))

    return run


def _name_folder(error: TrailgateError) -> None:
    """Add a hint to an error about a relative path if the worker's folder was created by Spark.

    The user does not know that folder.
    """
    folder = str(Path.cwd())
    if _in_worker() and folder != os.environ.get("PWD") and folder in str(error):
        here = f"{folder} is a folder of Spark's: {HELP}"
        error.add_hint(here)


def _in_worker() -> bool:
    """Return whether this process is a worker of PySpark, started by its daemon or by ours."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return main is not None and main.name.startswith(("pyspark.", WORKER_DAEMON))


def arrow_schema(schema: StructType, zone: str = "UTC") -> Any:
    """Convert a Spark schema to Arrow.

    PySpark 4.1 expects all timestamps in UTC. Later releases expect the session's time zone if rows
    pass through a DataFrame.
    """
    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone=zone)
    return to_arrow_schema(schema)


def cast_batches(
    batches: Iterable[pa.RecordBatch], schema: StructType, zone: str = "UTC"
) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches with the names and types of Spark's schema.

    Their columns must already be in its order.
    """
    exact = arrow_schema(schema, zone)
    for batch in batches:
        named = batch.rename_columns(exact.names)
        try:
            yield named.cast(exact)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise _unfit(named, exact) from None


def _unfit(batch: pa.RecordBatch, schema: pa.Schema) -> DecodeError:
    """Build the error for the first value that cannot be converted to the schema's type."""
    # Cast the values one by one to find the first that fails. This runs only to report an error.
    at, row = next(
        (at, row)
        for at, field in enumerate(schema)
        for row in range(len(batch))
        if not _fits(batch.column(at).slice(row, 1), field.type)
    )
    field, column = schema.field(at), batch.column(at)
    place = next((batch[name] for name in POSITIONS if name in batch.schema.names), None)
    source = None if place is None else f"position {short_position(place[row].as_py())}"
    problem = (
        f"{field.name} is {column.type}, and {column[row].as_py()!r} cannot be read as {field.type}"
    )
    hint = f"Read it as {from_arrow_type(column.type).simpleString()}, and cast it in Spark"
    return DecodeError(problem, where=Where(source=source, field=field.name), hint=hint)


def _fits(value: pa.Array, kind: pa.DataType) -> bool:
    try:
        value.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True
