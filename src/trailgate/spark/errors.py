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
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructType

from trailgate.columnar.digits import short_position
from trailgate.errors import DecodeError, TrailgateError, Where

# PySpark's worker omits the traceback where this variable is set when it reports an error, and ends after that.
HIDE: Final = "SPARK_HIDE_TRACEBACK"
HELP: Final = "give absolute paths, or the option base, or call trailgate.spark.register(spark), which sends yours"
POSITIONS: Final = ("_position", "position")  # columns that state where a row is from
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


Batches = Iterator[pa.RecordBatch]


def brief_rows(function: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """Return a function of ``mapInArrow`` that reports errors of ours by their line."""

    @wraps(function)
    def run(batches: Batches) -> Batches:
        return _briefly(function(batches))

    return run


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
        named = batch.rename_columns(exact.names)
        try:
            yield named.cast(exact)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise _unfit(named, exact) from None


def _unfit(batch: pa.RecordBatch, schema: pa.Schema) -> DecodeError:
    """Return the error of the first value that is not one of the type which a schema of the user asks for."""
    at, row = next(
        (at, row)
        for at, field in enumerate(schema)
        for row in range(len(batch))
        if not _fits(batch.column(at).slice(row, 1), field.type)
    )
    field, column = schema.field(at), batch.column(at)
    place = next((batch[name] for name in POSITIONS if name in batch.schema.names), None)
    source = None if place is None else f"position {short_position(place[row].as_py())}"
    problem = f"{field.name} is {column.type}, and {column[row].as_py()!r} is no {field.type}"
    hint = f"Read it as {from_arrow_type(column.type).simpleString()}, and cast it in Spark"
    return DecodeError(problem, where=Where(source=source, field=field.name), hint=hint)


def _fits(value: pa.Array, kind: pa.DataType) -> bool:
    try:
        value.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True
