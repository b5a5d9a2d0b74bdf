"""The page for SQL over the trail, run by DuckDB, and the download of a result."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import pyarrow as pa
from markupsafe import escape

from trailgate.browse.exports import WRITERS, RowsFile, write_rows
from trailgate.browse.index import TrailIndex
from trailgate.browse.operation_search import CHARACTERS
from trailgate.browse.pages import Query, link_to
from trailgate.browse.shown_operations import LONGEST
from trailgate.browse.statements import FILE_SECONDS, PAGE_SECONDS, StatementRunner
from trailgate.errors import OptionError, TrailgateError, did_you_mean
from trailgate.model.changes import OPERATIONS_SCHEMA
from trailgate.model.tables import Column
from trailgate.sql.job import OTHERS, QueryCancellation, QueryRows, run_query
from trailgate.storage.reading.trails import read_trail
from trailgate.terminal.plain_values import row_texts

SHOWN: Final = 500  # the most rows on a page, and the most tables listed
WIDEST: Final = 500  # the most columns of an answer on a page
NAMED: Final = 2000  # the most columns listed, of all tables together
OPERATIONS: Final = "operations"  # the name of the table of all operations
SHOW_TABLES: Final = re.compile(r"\s*show\s+(all\s+)?tables\s*;?\s*", re.IGNORECASE)
MISSING: Final = re.compile(r"Table with name (\S+) does not exist")
NO_FILES: Final = "file system operations are disabled"
EXAMPLES: Final[Mapping[str, str]] = {
    "Changes per hour": 'SELECT time_bucket(INTERVAL 1 hour, op_ts) AS hour, "table", count(*) AS changes '
    "FROM operations GROUP BY ALL ORDER BY hour",
    "Changes per owner": "SELECT tx_owner, op_type, count(*) AS changes FROM operations GROUP BY ALL ORDER BY changes DESC",
    "Largest transactions": "SELECT tx_id, min(op_ts) AS first, max(op_ts) AS last, count(*) AS changes, "
    "min(position) AS position FROM operations GROUP BY tx_id ORDER BY changes DESC LIMIT 100",
    "Tables": "SHOW TABLES",
}
MOST_CHANGED: Final = (
    "SELECT {key}, count(*) AS changes FROM '{table}' GROUP BY ALL ORDER BY changes DESC LIMIT 100"
)
CELL: Final = 80  # characters of HTML around a value, about
EXAMPLE: Final = "SELECT * FROM '{}' LIMIT 100"


def sql_page(
    index: TrailIndex, statements: StatementRunner, query: Query, cancellation: QueryCancellation
) -> dict[str, Any]:
    """Run the statement in the query's ``sql``, and return the template values of the SQL page.

    If the statement fails, the value ``problem`` is its error. The query's ``draft`` is a statement
    that is shown but not run.
    """
    text = query.get("sql", "")
    with index.lock:
        names = sorted(index.tables)
        tables = [(name, _columns(index, name)) for name in names[:SHOWN]]
        busiest = sorted(names, key=lambda name: -index.tables[name].operations)[:SHOWN]
    # Few tables are listed with many columns each, many tables with few.
    each = max(1, NAMED // max(1, len(tables)))
    shown: dict[str, Any] = {
        "columns": [],
        "more_columns": 0,
        "rows": [],
        "more": False,
        "problem": "",
    }
    if text:
        try:
            with statements.run(text, cancellation, PAGE_SECONDS):
                shown |= _first_rows(statement_rows(index, text, cancellation))
        except TrailgateError as error:
            shown["problem"] = str(error)
    first = names[0].replace("'", "''") if names else OPERATIONS
    return {
        "sql": text or query.get("draft", "") or EXAMPLE.format(first),
        "asked": bool(text),
        "tables": [
            (name, [one.name for one in columns[:each]], max(0, len(columns) - each))
            for name, columns in tables
        ],
        "more_tables": len(names) - len(tables),
        "own_columns": OPERATIONS_SCHEMA.names,
        "examples": [
            (title, link_to("sql", sql=statement))
            for title, statement in _examples(busiest, dict(tables))
        ],
        "downloads": [(kind, link_to("answer", sql=text, to=kind)) for kind in WRITERS],
        "running": statements.running,
        "limits": (int(PAGE_SECONDS), int(FILE_SECONDS) // 60),
        **shown,
    }


def statement_rows(
    index: TrailIndex, text: str, cancellation: QueryCancellation
) -> pa.RecordBatchReader:
    """Run the statement of the SQL page and return its rows.

    Raises OptionError if the statement is not allowed or was canceled.
    """
    if SHOW_TABLES.fullmatch(text):
        return _table_list(index).to_reader()
    try:
        return run_query(text, partial(_rows_named, index), closed=True, cancellation=cancellation)
    except OptionError as error:
        if error.hint != OTHERS and NO_FILES not in error.problem:
            raise
        hint = _hint(index, error.problem)
        raise OptionError(error.problem, where=error.where, hint=hint) from None


def _hint(index: TrailIndex, problem: str) -> str:
    """Return a hint for a failed SQL statement: the names that can be selected from."""
    if NO_FILES in problem:
        return "Files cannot be read on this page; trailgate sql can read them"
    with index.lock:
        names = [OPERATIONS, *index.tables]
    missing = MISSING.search(problem)
    near = did_you_mean(missing[1], names) if missing else ""
    shown = names[-1].replace("'", "''")
    return f"FROM {OPERATIONS} has all operations, FROM '{shown}' those of a table; SHOW TABLES lists the tables. {near}".strip()


def _table_list(index: TrailIndex) -> pa.Table:
    """Return the answer to SHOW TABLES: the names of tables with their numbers of operations."""
    with index.lock:
        counts = {name: totals.operations for name, totals in sorted(index.tables.items())}
    names = [OPERATIONS, *counts]
    return pa.table({"name": names, "operations": [sum(counts.values()), *counts.values()]})


def _columns(index: TrailIndex, name: str) -> tuple[Column, ...]:
    """Return the columns of a table of the index by its latest definition, or () if it is not defined."""
    versions = [one for _, one in index.tables[name].versions] or [
        one for one in index.definitions if one.name == name
    ]
    return versions[-1].columns if versions else ()


def _examples(
    names: Sequence[str], tables: Mapping[str, Sequence[Column]]
) -> Iterator[tuple[str, str]]:
    """Yield example questions about the trail, each with an SQL statement that answers it.

    The last one is about the first of the tables ``names`` that has a key.
    """
    yield from EXAMPLES.items()
    for name in names:
        columns = tables.get(name, ())
        keys = ['"' + one.name.replace('"', '""') + '"' for one in columns if one.key]
        if keys:
            table = name.replace("'", "''")
            yield (
                f"Rows of {name} that changed most",
                MOST_CHANGED.format(key=", ".join(keys), table=table),
            )
            return


def _rows_named(index: TrailIndex, name: str) -> QueryRows | None:
    """Return the rows for a name after FROM: all operations of the trail, or one table in the types of its columns.

    Returns None for an unknown name.
    """
    with index.lock:
        table = next((one for one in index.tables if one.casefold() == name.casefold()), None)
    if table is None and name.casefold() != OPERATIONS:
        return None
    definitions = index.found.definitions
    return QueryRows(partial(read_trail, index.found.prefix, table=table, definitions=definitions))


def _first_rows(reader: pa.RecordBatchReader) -> dict[str, Any]:
    with reader:
        rows = (row for batch in reader for row in row_texts(batch))
        first: list[tuple[str | None, ...]] = []
        size, more = 0, False
        for row in rows:
            shown = row[:WIDEST]
            size += sum(len(escape((text or "")[:LONGEST])) + CELL for text in shown)
            # at least one row, however long it is
            more = len(first) == SHOWN or (bool(first) and size > CHARACTERS)
            if more:
                break
            first.append(shown)
    return {
        "columns": [(field.name, str(field.type)) for field in reader.schema][:WIDEST],
        "more_columns": max(0, len(reader.schema) - WIDEST),
        "rows": first,
        "more": more,
    }


def answer_file(
    index: TrailIndex, statements: StatementRunner, query: Query, cancellation: QueryCancellation
) -> RowsFile:
    """Run the SQL statement in the query's ``sql``, and write its result to a temporary file, to download.

    Raises the same errors as ``write_rows``, and OptionError for the statement.
    """
    text = query.get("sql", "")

    @contextmanager
    def rows() -> Iterator[pa.RecordBatchReader]:
        with (
            statements.run(text, cancellation, FILE_SECONDS),
            statement_rows(index, text, cancellation) as reader,
        ):
            yield reader

    return write_rows(query.get("to", ""), rows)
