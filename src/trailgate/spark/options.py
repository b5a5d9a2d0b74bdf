"""Spark's options, which are strings; the paths among them; and those of tables that a catalog keeps."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

from pyspark.sql.types import StructField, StructType

from trailgate.errors import OptionError
from trailgate.options import COUNT, PATH, Option, Options
from trailgate.options import PATHS as MANY_PATHS
from trailgate.storage.files.addresses import absolute, absolute_value, is_absolute
from trailgate.storage.files.found_files import addresses_of
from trailgate.storage.reading.options import DEFINITIONS

PATHS: Final = ("path", "paths")
MaxFiles = Annotated[int | None, COUNT, "a stream's batch: at most so many files"]
MaxBytes = Annotated[
    int | None, COUNT, "a stream's batch: at most so many bytes, of whole files or transactions"
]
BASE: Final = Option("base", PATH, "the folder that relative paths are from")
OF_FILES: Final = (PATH, MANY_PATHS, DEFINITIONS)  # kinds of options that name files
OF_CATALOG: Final = ("owner", "provider")  # are both given with a table of a catalog alone
GIVEN: Final = "option."  # before the names of OPTIONS of CREATE TABLE, which are given twice
TABLE: Final = (
    "CREATE TABLE ... USING takes no list of columns (with one, Spark gives the format no options), "
    "and absolute paths, or the option base"
)
KEPT: Final = "trailgate.options"  # in the metadata of a column


def read_with_paths(
    options: Options, given: Mapping[str, Any], example: str, folder: str | None = None
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the paths, and the values of all options of a format; raises OptionError.

    Relative paths are made absolute here, once: tasks run in other working folders. They are from the option ``base``, else
    from ``folder``, else from the working folder of the process that plans.
    """
    named = _of_table(given)
    others = {name: value for name, value in named.items() if name.casefold() not in PATHS}
    paths = named.get("path") or _list(named.get("paths"))
    if not paths:
        raise OptionError(
            f"the format {options.what} needs a path", hint=f"As in {example}. {TABLE}"
        )
    values = options.read(others)
    if named is not given and not is_absolute(values["base"] or "."):
        _check_absolute(options, addresses_of(paths), values)
    base = values["base"] = absolute(values["base"] or ".", folder)
    for row in options:
        if row.kind in OF_FILES:
            values[row.name] = absolute_value(values[row.name], base)
    return tuple(absolute(path, base) for path in addresses_of(paths)), values


def _check_absolute(options: Options, paths: Sequence[str], values: Mapping[str, Any]) -> None:
    """Raise OptionError for a relative path of a table of a catalog: sessions that read it have other working folders."""
    named: list[tuple[str, str | os.PathLike[str]]] = [("LOCATION", path) for path in paths]
    for row in options:
        if row.kind in OF_FILES and row is not BASE:
            value = values[row.name]
            found = value if isinstance(value, tuple) else (value,)
            named += [(row.spelling, path) for path in found if isinstance(path, str | os.PathLike)]
    for name, path in named:
        if not is_absolute(path):
            raise OptionError(f"{name} of a table is the relative path {path}", hint=TABLE)


def refuse_misplaced(
    given: Mapping[str, Any], options: Options, names: Iterable[str], why: str
) -> None:
    """Raise OptionError where one of these options is given which are about something else, as ``why`` states."""
    found = options.match_names(
        {name: value for name, value in given.items() if options.knows(name)}
    )
    for name in names:
        if name in found:
            raise OptionError(f"the option {options.row(name).spelling} {why}")


def one_path(paths: tuple[str, ...], what: str) -> str:
    """Return the only path; raises OptionError where there are several."""
    if len(paths) > 1:
        raise OptionError(f"{what} takes one path, not {len(paths)}")
    return paths[0]


def kept_in(schema: StructType, given: Mapping[str, Any]) -> StructType:
    """Return a schema that keeps the options of CREATE TABLE: a catalog gives a Python data source its schema back alone."""
    named = _of_table(given)
    if named is given or not schema.fields:
        return schema
    first, *rest = schema.fields
    metadata = {**(first.metadata or {}), KEPT: json.dumps(named)}
    kept = StructField(first.name, first.dataType, first.nullable, metadata)
    return StructType([kept, *rest])


def with_kept(given: Mapping[str, Any], schema: StructType) -> dict[str, Any]:
    """Return options with those that a catalog keeps in the schema of its table."""
    for field in schema.fields:
        if KEPT in (field.metadata or {}):
            return {**json.loads(field.metadata[KEPT]), **given}
    return dict(given)


def _of_table(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of CREATE TABLE without what the catalog adds and without TBLPROPERTIES; others as they are."""
    if not all(name in given for name in OF_CATALOG):
        return given
    named = {
        name.removeprefix(GIVEN): value for name, value in given.items() if name.startswith(GIVEN)
    }
    path = given.get("path") or given.get("location")
    return {**named, **({"path": path} if path else {})}


OF_STREAMS: Final = ("max_files_per_trigger", "max_bytes_per_trigger", "starting_position")


def refuse_stream_options(given: Mapping[str, Any], options: Options) -> None:
    """Raise OptionError where an option of streams is given with a batch; a table of a catalog, which may be streamed too, keeps its own."""
    own = [name for name in OF_STREAMS if options.knows(name)]
    refuse_misplaced(given, options, own, "is about streams, and this is a batch")


def _list(paths: Any) -> Any:
    """Return the paths of ``load([...])``, which Spark gives as JSON."""
    if not isinstance(paths, str):
        return paths
    try:
        found = json.loads(paths)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(path, str) for path in found):
        raise OptionError(f"paths must be a list of paths as JSON, not {paths!r}")
    return found


def checked_frame(frame: Any) -> Any:
    """Return a DataFrame, of Spark Connect too; raises OptionError for anything else."""
    if isinstance(frame, type) or not (hasattr(frame, "mapInArrow") and hasattr(frame, "schema")):
        raise OptionError(f"frame must be a DataFrame of Spark, not {type(frame).__name__}")
    return frame


def checked_session(spark: Any) -> Any:
    """Return a session, of Spark Connect too; raises OptionError for anything else."""
    # The class of Spark Connect's sessions is another one, whose packages may not be installed.
    if isinstance(spark, type) or not (
        hasattr(spark, "createDataFrame") and hasattr(spark, "conf")
    ):
        raise OptionError(f"spark must be a session, not {type(spark).__name__}")
    return spark
