"""SQL over trails, by DuckDB: what is named after FROM is a trail, or one of its tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from threading import Event, Lock, Thread
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from trailgate.errors import OptionError, StorageError, TrailgateError, Where
from trailgate.options import check_arguments
from trailgate.storage.files.addresses import Address
from trailgate.storage.files.trail_files import find_trail
from trailgate.storage.reading.trail_file import find_table
from trailgate.storage.reading.trails import read_trail
from trailgate.targets.target import is_target, table_rows

ROWS: Final = 16_384  # of a batch of the answer
# DuckDB loads extensions when a statement needs one, for example sqlite_scanner for sqlite_scan(). It would download them, and
# those that are installed already (httpfs) can use the network too.
CLOSED_NETWORK: Final[dict[str, Any]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
NO_EXTENSIONS: Final = "DuckDB's extensions are not used here, so that no query uses the network"
INTERRUPT_EVERY: Final = 0.05  # seconds
NONE_MISSING: Final[Mapping[str, TrailgateError]] = MappingProxyType({})
OTHERS: Final = "FROM 'dirdat/ot' is a trail, FROM 'dirdat/ot:HR.JOBS' a table of it in the types of its columns, FROM 'delta:lake/hr/jobs' a Delta table, FROM 'duckdb:shop.duckdb/hr/jobs' one of a DuckDB file; DuckDB reads Parquet, CSV and JSON files"


@check_arguments
def query(sql: str, *, definitions: Address | None = None) -> pa.RecordBatchReader:
    """Return a reader of what a SELECT statement gives.

    ``FROM 'dirdat/ot'`` are the operations of a trail, ``FROM 'dirdat/ot:HR.JOBS'`` those of a table in the types of its columns; a prefix may be
    an address of a store. All else is DuckDB's: files of Parquet, CSV and JSON, its functions. A trail is read anew wherever the statement names
    it. ``FROM 'delta:lake/hr/jobs'`` and ``FROM 'duckdb:shop.duckdb/hr/jobs'`` are tables that changes were applied to. ``definitions`` are those of all trails, as ``read_trail`` takes them.

    Raises OptionError for a statement that is not a SELECT, or that DuckDB refuses, and TrailgateError for a trail that cannot be read.
    """
    return answer(sql, partial(_found, definitions=definitions))


class Cancellation:
    """Ends a query from another thread."""

    def __init__(self) -> None:
        self.reason = ""
        self._lock = Lock()
        self._asked, self._ended = Event(), Event()

    def cancel(self, reason: str) -> None:
        """End the query, or refuse to begin it. It raises OptionError with the reason; the first reason counts."""
        with self._lock:
            self.reason = self.reason or reason
        self._asked.set()

    def check(self) -> None:
        """Raise OptionError if the query was canceled."""
        if self._asked.is_set():
            raise OptionError(self.reason)

    def watch(self, connection: Any) -> None:
        """Interrupt what a connection runs once the query is canceled."""
        Thread(target=self._interrupt, args=(connection,), daemon=True).start()

    def end(self) -> None:
        """Stop watching. The connection can be closed after that."""
        with self._lock:
            self._ended.set()
        self._asked.set()

    def _interrupt(self, connection: Any) -> None:
        self._asked.wait()
        # Again and again: DuckDB forgets an interrupt that comes between two steps of a query.
        while not self._ended.is_set():
            with self._lock:
                if not self._ended.is_set():
                    connection.interrupt()
            self._ended.wait(INTERRUPT_EVERY)


def answer(
    sql: str,
    find: Callable[[str], Rows | None],
    *,
    closed: bool = False,
    cancellation: Cancellation | None = None,
) -> pa.RecordBatchReader:
    """Return a reader of what a SELECT statement gives; ``find`` returns the rows of a name, or None where DuckDB knows it.

    With ``closed`` there is nothing else: no file is read. Raises as ``query`` does, and OptionError if the query is canceled.
    """
    import duckdb  # noqa: PLC0415  20 ms, and nothing else needs it

    connection, named = duckdb.connect(config=CLOSED_NETWORK), list[Rows]()
    missing: dict[str, TrailgateError] = {}
    if cancellation is not None:
        cancellation.watch(connection)
    else:
        cancellation = Cancellation()
    try:
        cancellation.check()
        for name in dict.fromkeys(_relations(_tree(connection, sql))):
            try:
                found = find(name)
            except StorageError as error:  # DuckDB may know a file of that name
                missing[name] = error
                continue
            if found is not None:
                named.append(found)
                connection.register(name, found)
        if closed:
            connection.execute("SET enable_external_access = false")
        reader = connection.sql(sql).to_arrow_reader(ROWS)
    except duckdb.Error as error:
        _close(connection, cancellation)
        raise _problem(error, named, cancellation, missing) from None
    except BaseException:
        _close(connection, cancellation)
        raise
    batches = _batches(connection, reader, named, cancellation)
    return pa.RecordBatchReader.from_batches(reader.schema, batches)


def _close(connection: Any, cancellation: Cancellation) -> None:
    cancellation.end()
    connection.close()


class Rows:
    """Rows that DuckDB asks for wherever a statement names them, by Arrow's PyCapsule interface; ``read`` begins to read them."""

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
        """Yield rows. Keep an error, because DuckDB passes on only its text."""
        try:
            yield from rows
        except TrailgateError as error:
            self.error = error
            raise


def _tree(connection: Any, sql: str) -> dict[str, Any]:
    """Return the syntax tree of a SELECT statement."""
    ((text,),) = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    tree: dict[str, Any] = json.loads(text)
    if tree.get("error"):
        problem = "the statement is not a SELECT"
        if tree.get("error_type") != "not implemented":
            problem = f"the statement cannot be understood: {tree.get('error_message', '')}"
        raise OptionError(problem, hint=OTHERS)
    if len(tree["statements"]) != 1:
        raise OptionError(f"one statement is answered, and there are {len(tree['statements'])}")
    return tree


def _relations(tree: object) -> Iterator[str]:
    """Yield the names of relations that have no schema before them."""
    if isinstance(tree, dict):
        if tree.get("type") == "BASE_TABLE" and not tree.get("schema_name"):
            yield str(tree["table_name"])
        for below in tree.values():
            yield from _relations(below)
    elif isinstance(tree, list):
        for below in tree:
            yield from _relations(below)


def _found(name: str, definitions: Address | None) -> Rows | None:
    """Return the rows of a trail, of a table of it, or of a target's table; raises StorageError if there is no such trail."""
    if is_target(name):
        return Rows(partial(table_rows, name))
    prefix, colon, table = name.rpartition(":")
    named = bool(colon) and not {"/", "@"} & {*table}  # not a colon of an address
    trail = find_trail(prefix if named else name, definitions)
    if named:
        find_table(trail, table)  # raises for one that nothing defines
    return Rows(partial(read_trail, trail, table=table if named else None))


def _batches(
    connection: Any,
    reader: pa.RecordBatchReader,
    trails: Sequence[Rows],
    cancellation: Cancellation,
) -> Iterator[pa.RecordBatch]:
    """Yield the answer; the connection lives as long."""
    try:
        for batch in reader:
            cancellation.check()
            yield batch
    except (pa.ArrowException, OSError, RuntimeError) as error:
        raise _problem(error, trails, cancellation) from None
    finally:
        _close(connection, cancellation)


NO_FILES: Final = re.compile(r'No files found that match the pattern "(.*)"')


def _problem(
    error: Exception,
    trails: Sequence[Rows],
    cancellation: Cancellation,
    missing: Mapping[str, TrailgateError] = NONE_MISSING,
) -> TrailgateError:
    """Return the error of the trail that could not be read or found, or DuckDB's in one line."""
    if cancellation.reason:
        return OptionError(cancellation.reason)
    own = next((one.error for one in trails if one.error is not None), None)
    if own is not None:
        return own
    line = " ".join(str(error).partition("\n")[0].split()).rstrip("!.")
    absent = next((one for name, one in missing.items() if f" {name} " in f"{line} "), None)
    if absent is not None and "does not exist" in line:
        hint = f"DuckDB knows no table or file of this name either. {OTHERS}"
        return StorageError(absent.problem, where=absent.where, hint=hint)
    unmatched = NO_FILES.search(line)
    if unmatched is not None:
        name = unmatched[1]
        problem = "no file matches the pattern" if set("*?[") & set(name) else "no such file"
        return OptionError(problem, where=Where(source=name), hint=OTHERS)
    hint = OTHERS if "does not exist" in line else NO_EXTENSIONS if " extension" in line else ""
    return OptionError(f"DuckDB refuses the statement: {line}", hint=hint)
