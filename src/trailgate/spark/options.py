"""Parse the options of Spark's readers and writers, including those of a table in a catalog.

Spark passes every option as a string. Relative paths in options are made absolute.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

from pyspark.sql.types import StructField, StructType

from trailgate.errors import OptionError
from trailgate.options import COUNT, PATH, Option, Options
from trailgate.options import PATHS as MANY_PATHS
from trailgate.storage.files.addresses import (
    absolute,
    addresses_of,
    is_absolute,
    make_addresses_absolute,
)
from trailgate.storage.reading.options import DEFINITIONS

PATHS: Final = ("path", "paths")
MaxFiles = Annotated[int | None, COUNT, "the maximum number of files in a batch of a stream"]
MaxBytes = Annotated[
    int | None,
    COUNT,
    "the maximum size of a batch of a stream in bytes; files and transactions are never split",
]
BASE: Final = Option("base", PATH, "the folder that relative paths start from")
OF_FILES: Final = (PATH, MANY_PATHS, DEFINITIONS)  # kinds of options that name files
OF_CATALOG: Final = ("owner", "provider")  # options that together only a catalog's table has
GIVEN: Final = "option."  # Spark repeats the OPTIONS of CREATE TABLE with this prefix
TABLE: Final = (
    "Use CREATE TABLE ... USING without a list of columns (with one, Spark passes no options to the format), "
    "and with absolute paths or the option base"
)
KEPT: Final = "trailgate.options"  # the key of the options in the metadata of a column
OF_STREAMS: Final = ("max_files_per_trigger", "max_bytes_per_trigger", "starting_position")


def read_with_paths(
    options: Options, given: Mapping[str, Any], example: str, folder: str | None = None
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Parse the paths and all options of a Spark format. Raises OptionError.

    Relative paths are made absolute here, because tasks run in other working folders. They start at
    the option ``base``, or at ``folder``, or at the working folder of the process that plans the
    query.
    """
    named = options_of_table(given)
    others = {name: value for name, value in named.items() if name.casefold() not in PATHS}
    paths = named.get("path") or _list(named.get("paths"))
    if not paths:
        raise OptionError(
            f"the format {options.what} needs a path", hint=f"As in {example}. {TABLE}"
        )
    values = options.read(others)
    # ``options_of_table`` returns the same object unless the options come from a catalog.
    if named is not given and not is_absolute(values["base"] or "."):
        _check_absolute(options, addresses_of(paths), values)
    base = values["base"] = absolute(values["base"] or ".", folder)
    for row in options:
        if row.kind in OF_FILES:
            values[row.name] = make_addresses_absolute(values[row.name], base)
    return tuple(absolute(path, base) for path in addresses_of(paths)), values


def _check_absolute(options: Options, paths: Sequence[str], values: Mapping[str, Any]) -> None:
    """Raise OptionError for a relative path in the options of a table in Spark's catalog.

    Other sessions that read the table have different working folders.
    """
    named: list[tuple[str, str | os.PathLike[str]]] = [("LOCATION", path) for path in paths]
    for row in options:
        if row.kind in OF_FILES and row is not BASE:
            value = values[row.name]
            values_of_row = value if isinstance(value, tuple) else (value,)
            named += [
                (row.spelling, path)
                for path in values_of_row
                if isinstance(path, str | os.PathLike)
            ]
    for name, path in named:
        if not is_absolute(path):
            raise OptionError(f"{name} of a table is the relative path {path}", hint=TABLE)


def refuse_misplaced(
    given: Mapping[str, Any], options: Options, names: Iterable[str], why: str
) -> None:
    """Raise OptionError if one of the Spark options ``names`` is set; ``why`` is the reason for the error."""
    stated = options.match_names(
        {name: value for name, value in given.items() if options.knows(name)}
    )
    for name in names:
        if name in stated:
            raise OptionError(f"the option {options.row(name).spelling} {why}")


def one_path(paths: tuple[str, ...], what: str) -> str:
    """Return the only path of a Spark format. Raises OptionError if Spark passed several; ``what`` names the format."""
    if len(paths) > 1:
        raise OptionError(f"{what} takes one path, not {len(paths)}")
    return paths[0]


def store_table_options(schema: StructType, given: Mapping[str, Any]) -> StructType:
    """Store the options of CREATE TABLE in Spark's catalog, as metadata of the table's schema.

    When a table of a catalog is read, Spark passes a Python data source only its schema, and not
    all of its options.
    """
    named = options_of_table(given)
    if named is given or not schema.fields:
        return schema
    # Only the columns of a Spark schema have metadata, so the first column carries the options.
    first, *rest = schema.fields
    metadata = {**(first.metadata or {}), KEPT: json.dumps(named)}
    kept = StructField(first.name, first.dataType, first.nullable, metadata)
    return StructType([kept, *rest])


def restore_table_options(given: Mapping[str, Any], schema: StructType) -> dict[str, Any]:
    """Return Spark's options together with those of CREATE TABLE, which are stored in the schema of a catalog's table."""
    for field in schema.fields:
        if KEPT in (field.metadata or {}):
            return {**json.loads(field.metadata[KEPT]), **given}
    return dict(given)


def options_of_table(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of CREATE TABLE among Spark's, without TBLPROPERTIES and without options that the catalog adds.

    Options that do not come from a catalog are returned unchanged.
    """
    if not all(name in given for name in OF_CATALOG):
        return given
    named = {
        name.removeprefix(GIVEN): value for name, value in given.items() if name.startswith(GIVEN)
    }
    path = given.get("path") or given.get("location")
    return {**named, **({"path": path} if path else {})}


def refuse_stream_options(given: Mapping[str, Any], options: Options) -> None:
    """Raise OptionError if an option for streams is set in a batch read or write.

    This does not apply to a table of a catalog, because it may be used in streams too.
    """
    names = [name for name in OF_STREAMS if options.knows(name)]
    refuse_misplaced(given, options, names, "applies only to streams, not to a batch")


def _list(paths: Any) -> Any:
    """Return the paths of ``load([...])``, which Spark passes as JSON."""
    if not isinstance(paths, str):
        return paths
    try:
        parsed = json.loads(paths)
    except ValueError:
        parsed = None
    if not isinstance(parsed, list) or not all(isinstance(path, str) for path in parsed):
        raise OptionError(f"paths must be a list of paths as JSON, not {paths!r}")
    return parsed
