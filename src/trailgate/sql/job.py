"""Query trails with SQL. DuckDB runs the query.

A quoted name after FROM is a trail (``'dirdat/ot'``), one table of it (``'dirdat/ot:HR.JOBS'``), or
a table that changes were applied to (``'delta:lake/hr/jobs'``). DuckDB parses the statement first.
The names in its syntax tree are registered as relations that produce Arrow batches; all other names
are resolved by DuckDB. Extensions are disabled, so that no query uses the network.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from threading import Event, Lock, Thread
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from trailgate.apply.targets.target import is_target_address, table_rows
from trailgate.errors import (
    MissingDependencyError,
    OptionError,
    StorageError,
    TrailgateError,
    Where,
)
from trailgate.options import check_arguments
from trailgate.storage.files.addresses import Address
from trailgate.storage.files.trail_files import find_trail
from trailgate.storage.reading.trail_definitions import find_table
from trailgate.storage.reading.trails import read_trail

ROWS: Final = 16_384  # rows in a batch of the result
# DuckDB loads extensions when a statement needs one, for example sqlite_scanner for sqlite_scan(). It
# would download them, and an installed one such as httpfs can use the network too.
CLOSED_NETWORK: Final[dict[str, Any]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
NO_EXTENSIONS: Final = "DuckDB's extensions are not used here, so that no query uses the network"
# Types whose values DuckDB changes when it exports them to Arrow: a time loses its zone, and of large
# numbers and bits only DuckDB's own bytes are exported.
NOT_IN_ARROW: Final = frozenset({"time with time zone", "uhugeint", "bignum", "varint", "bit"})
INTERRUPT_EVERY: Final = 0.05  # seconds
NONE_MISSING: Final[Mapping[str, TrailgateError]] = MappingProxyType({})
OTHERS: Final = "FROM 'dirdat/ot' is a trail, FROM 'dirdat/ot:HR.JOBS' a table of it in the types of its columns, FROM 'delta:lake/hr/jobs' a Delta table, FROM 'duckdb:shop.duckdb/hr/jobs' one of a DuckDB file; DuckDB reads Parquet, CSV and JSON files"
NO_FILES: Final = re.compile(r'No files found that match the pattern "(.*)"')
NO_READER: Final = re.compile(r'No extension found that is capable of reading the file "(.*)"')


@check_arguments
def query(sql: str, *, definitions: Address | None = None) -> pa.RecordBatchReader:
    """Run a SELECT statement over trails, and return a reader of its result.

    ``FROM 'dirdat/ot'`` selects from the operations of a trail, and ``FROM 'dirdat/ot:HR.JOBS'``
    from the operations of one table, with columns in their types. A prefix may be an address in a
    store. ``FROM 'delta:lake/hr/jobs'`` and ``FROM 'duckdb:shop.duckdb/hr/jobs'`` are tables that
    changes were applied to. Everything else is DuckDB's: its functions, and Parquet, CSV and JSON
    files. A trail is read each time that the statement names it. ``definitions`` apply to all
    trails, as in ``read_trail``.

    Raises OptionError if the statement is not a SELECT or DuckDB refuses it, MissingDependencyError
    if DuckDB is not installed, and TrailgateError if a trail cannot be read.
    """
    named = list[str]()

    def find(name: str) -> QueryRows | None:
        if not is_target_address(name):
            named.append(name)
        return _rows_named(name, definitions)

    rows = run_query(sql, find)
    if definitions is not None and not named:
        rows.close()
        problem = "--definitions (definitions) applies only to trails, but the statement names none"
        raise OptionError(problem, hint="Omit it, or name a trail after FROM: 'dirdat/ot'")
    return rows


class QueryCancellation:
    """Cancels a running SQL query over trails from another thread."""

    def __init__(self) -> None:
        self.reason = ""
        self._lock = Lock()
        self._asked, self._ended = Event(), Event()

    def cancel(self, reason: str) -> None:
        """Cancel the SQL query, or prevent its start.

        The query raises OptionError with the reason of the first call.
        """
        with self._lock:
            self.reason = self.reason or reason
        self._asked.set()

    def check(self) -> None:
        """Raise OptionError if the SQL query was cancelled."""
        if self._asked.is_set():
            raise OptionError(self.reason)

    def watch(self, connection: Any) -> None:
        """Start a thread that interrupts the statement of a DuckDB connection when the query is cancelled."""
        Thread(target=self._interrupt, args=(connection,), daemon=True).start()

    def end(self) -> None:
        """Stop watching the query. After that the DuckDB connection can be closed."""
        # Once this lock is free, the watching thread no longer interrupts, so the connection can be
        # closed. `_asked` only wakes it up, in case the query was never cancelled.
        with self._lock:
            self._ended.set()
        self._asked.set()

    def _interrupt(self, connection: Any) -> None:
        self._asked.wait()
        # Interrupt repeatedly, because DuckDB forgets an interrupt between two steps of a query.
        while not self._ended.is_set():
            with self._lock:
                if not self._ended.is_set():
                    connection.interrupt()
            self._ended.wait(INTERRUPT_EVERY)


def run_query(
    sql: str,
    find: Callable[[str], QueryRows | None],
    *,
    closed: bool = False,
    cancellation: QueryCancellation | None = None,
) -> pa.RecordBatchReader:
    """Run a SELECT statement over trails with a way to cancel it, and return a reader of its result.

    ``find`` returns the rows for a name after FROM, or None for names that DuckDB knows. With
    ``closed`` DuckDB may not read any file, and ``find`` is also called for qualified names such as
    HR.JOBS. Raises the same errors as ``query``, and OptionError if the query is cancelled.
    """
    duckdb = _import_duckdb()
    connection, named = duckdb.connect(config=CLOSED_NETWORK), list[QueryRows]()
    missing: dict[str, TrailgateError] = {}
    if cancellation is not None:
        cancellation.watch(connection)
    else:
        cancellation = QueryCancellation()
    try:
        cancellation.check()
        # DuckDB's syntax tree gives the names, so names in strings and comments do not count.
        for path in dict.fromkeys(_relations(_tree(connection, sql))):
            # Elsewhere a qualified name is one of DuckDB's own, such as information_schema.tables.
            # In a closed query DuckDB's own names are not wanted, so that a trail's table may be
            # called SCHEMA.NAME.
            if len(path) > 1 and not closed:
                continue
            name = ".".join(path)
            try:
                rows = find(name)
            except StorageError as error:  # the name may be a file that DuckDB can read
                missing[name] = error
                continue
            if rows is not None:
                named.append(rows)
                connection.register(name, rows)
                if len(path) > 1:
                    _create_view(connection, path, name)
        # Only after the views are made, since making one may attach a database; from here on the
        # user's statement runs.
        if closed:
            connection.execute("SET enable_external_access = false")
        reader = _exported(connection.sql(sql)).to_arrow_reader(ROWS)
    except duckdb.Error as error:
        _close(connection, cancellation)
        raise _problem(error, named, cancellation, missing) from None
    except BaseException:
        _close(connection, cancellation)
        raise
    batches = _batches(connection, reader, named, cancellation)
    return pa.RecordBatchReader.from_batches(reader.schema, batches)


def _import_duckdb() -> Any:
    """Import DuckDB, which takes 20 ms and which nothing else needs. Raises MissingDependencyError."""
    try:
        import duckdb  # noqa: PLC0415
    except ModuleNotFoundError:
        raise MissingDependencyError.of_extra("SQL needs the package duckdb", "duckdb") from None
    return duckdb


def _create_view(connection: Any, path: tuple[str, ...], name: str) -> None:
    """Create a DuckDB view of the registered relation ``name`` under its qualified name.

    ``path`` has the parts of that name, such as ("HR", "JOBS"). The schema, and a catalog if there
    is one, are created too.
    """
    *outer, relation = path
    if len(outer) > 1:
        connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {_quoted(outer[0])}")
    schema = ".".join(map(_quoted, outer))
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    connection.execute(
        f"CREATE VIEW IF NOT EXISTS {schema}.{_quoted(relation)} AS FROM memory.main.{_quoted(name)}"
    )


def _exported(relation: Any) -> Any:
    """Cast the columns of a query's result to text if DuckDB exports values of their types to Arrow incorrectly."""
    types = [_exported_type(kind) for kind in relation.types]
    if types == [str(kind) for kind in relation.types]:
        return relation
    # By position, because several columns may have the same name.
    columns = [
        f"#{at}::{kind} AS {_quoted(name)}"
        for at, (kind, name) in enumerate(zip(types, relation.columns, strict=True), 1)
    ]
    return relation.project(", ".join(columns))


def _exported_type(kind: Any) -> str:
    """Return the DuckDB type as which a column of a query's result is exported to Arrow: ``BIT[]`` becomes ``VARCHAR[]``."""
    if kind.id in NOT_IN_ARROW:
        return "VARCHAR"
    if kind.id not in ("list", "array", "struct", "map"):
        return str(kind)
    inner = dict(kind.children)
    if kind.id in ("list", "array"):
        return f"{_exported_type(inner['child'])}[{inner.get('size', '')}]"
    if kind.id == "map":
        return f"MAP({_exported_type(inner['key'])}, {_exported_type(inner['value'])})"
    parts = ", ".join(f"{_quoted(name)} {_exported_type(one)}" for name, one in inner.items())
    return f"STRUCT({parts})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _close(connection: Any, cancellation: QueryCancellation) -> None:
    cancellation.end()
    connection.close()


class QueryRows:
    """Rows of a trail, or of a target's table, for DuckDB, which reads them through Arrow's PyCapsule interface.

    ``read`` is called each time that a statement names the rows. ``error`` is the error of a
    failed reading, or None.
    """

    def __init__(self, read: Callable[[], pa.RecordBatchReader]) -> None:
        self._read = read
        self.error: TrailgateError | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        try:
            rows = self._read()
        except TrailgateError as error:
            self.error = error
            raise
        noted = pa.RecordBatchReader.from_batches(rows.schema, self._note(rows))
        return noted.__arrow_c_stream__(requested_schema)

    def _note(self, rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """Yield rows of a trail to DuckDB, and remember an error, because DuckDB returns only the text of errors."""
        try:
            yield from rows
        except TrailgateError as error:
            self.error = error
            raise


def _tree(connection: Any, sql: str) -> dict[str, Any]:
    """Return the syntax tree of a SELECT statement, as DuckDB serializes it."""
    ((text,),) = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    tree: dict[str, Any] = json.loads(text)
    if tree.get("error"):
        problem = "the statement is not a SELECT"
        if tree.get("error_type") != "not implemented":
            problem = f"the statement cannot be understood: {tree.get('error_message', '')}"
        raise OptionError(problem, hint=OTHERS)
    if not tree["statements"]:
        raise OptionError("there is no statement", hint=OTHERS)
    if len(tree["statements"]) != 1:
        raise OptionError(f"only one statement is run at a time, not {len(tree['statements'])}")
    return tree


def _relations(tree: object) -> Iterator[tuple[str, ...]]:
    """Yield the names of the relations in a syntax tree of DuckDB.

    A name is a tuple such as ("dirdat/ot",) or ("HR", "JOBS"): the table, after its catalog and
    schema if the statement states them.
    """
    if isinstance(tree, dict):
        if tree.get("type") == "BASE_TABLE":
            parts = (tree.get(part) for part in ("catalog_name", "schema_name", "table_name"))
            yield tuple(str(part) for part in parts if part)
        for below in tree.values():
            yield from _relations(below)
    elif isinstance(tree, list):
        for below in tree:
            yield from _relations(below)


def _rows_named(name: str, definitions: Address | None) -> QueryRows | None:
    """Return the rows for a name after FROM: a trail, a table of it, or a target's table.

    Raises StorageError if there is no such trail.
    """
    if is_target_address(name):
        return QueryRows(partial(table_rows, name))
    prefix, colon, table = name.rpartition(":")
    # The colon separates a table only if no / or @ follows it, as in an address.
    named = bool(colon) and not {"/", "@"} & {*table}
    trail = find_trail(prefix if named else name, definitions, empty=True)
    if named:
        find_table(trail, table)  # raises DefinitionError for an unknown table
    return QueryRows(partial(read_trail, trail, table=table if named else None))


def _batches(
    connection: Any,
    reader: pa.RecordBatchReader,
    trails: Sequence[QueryRows],
    cancellation: QueryCancellation,
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a SQL query's result, and close the DuckDB connection after the last one."""
    try:
        for batch in reader:
            cancellation.check()
            yield batch
    except (pa.ArrowException, OSError, RuntimeError) as error:
        raise _problem(error, trails, cancellation) from None
    finally:
        _close(connection, cancellation)


def _problem(
    error: Exception,
    trails: Sequence[QueryRows],
    cancellation: QueryCancellation,
    missing: Mapping[str, TrailgateError] = NONE_MISSING,
) -> TrailgateError:
    """Return the error with which a SQL query ends: the reason of its cancellation, or the error of a trail that could not be read or found.

    Otherwise return DuckDB's error in one line. ``missing`` has the errors of names that were not
    found as trails.
    """
    if cancellation.reason:
        return OptionError(cancellation.reason)
    of_trail = next((one.error for one in trails if one.error is not None), None)
    if of_trail is not None:
        return of_trail
    line = " ".join(str(error).partition("\n")[0].split()).rstrip("!.")
    # Between blanks: a name may be a part of another one.
    not_found = next((one for name, one in missing.items() if f" {name} " in f"{line} "), None)
    if not_found is not None and "does not exist" in line:
        hint = f"DuckDB knows no table or file of this name either. {OTHERS}"
        name = next(name for name, one in missing.items() if one is not_found)
        source = "" if not_found.where is None else not_found.where.source or ""
        # A file of the trail is at fault, so the trail exists.
        if source.startswith(name) and source != name:
            hint = f"trailgate check {name} lists the damage"
        return StorageError(not_found.problem, where=not_found.where, hint=hint)
    unmatched = NO_FILES.search(line)
    if unmatched is not None:
        name = unmatched[1]
        problem = "no file matches the pattern" if set("*?[") & set(name) else "no such file"
        return OptionError(problem, where=Where(source=name), hint=OTHERS)
    unknown = NO_READER.search(line)
    if unknown is not None:
        problem = "this is neither a trail nor a file of a kind that DuckDB reads"
        return OptionError(problem, where=Where(source=unknown[1]), hint=OTHERS)
    hint = OTHERS if "does not exist" in line else NO_EXTENSIONS if " extension" in line else ""
    return OptionError(f"DuckDB refuses the statement: {line}", hint=hint)
