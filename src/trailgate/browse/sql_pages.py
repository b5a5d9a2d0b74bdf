"""The page for SQL over the trail, run by DuckDB, and the download of a result."""

from __future__ import annotations

from functools import partial
from itertools import islice
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final

import pyarrow as pa

from trailgate.browse.answers import FILE_TYPES, WRITERS, row_texts
from trailgate.browse.index import TrailIndex
from trailgate.browse.pages import Query, link_to
from trailgate.browse.statements import FILE_SECONDS, PAGE_SECONDS, StatementRunner
from trailgate.errors import OptionError, TrailgateError
from trailgate.sql.job import QueryCancellation, QueryRows, run_query
from trailgate.storage.reading.trails import read_trail

SHOWN: Final = 500  # the most rows on a page
OPERATIONS: Final = "operations"  # the name of the table of all operations
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
    shown: dict[str, Any] = {"columns": [], "rows": [], "more": False, "problem": ""}
    if text:
        try:
            with statements.run(text, cancellation, PAGE_SECONDS):
                shown |= _first_rows(rows_of(index, text, cancellation))
        except TrailgateError as error:
            shown["problem"] = str(error)
    first = names[0].replace("'", "''") if names else OPERATIONS
    return {
        "sql": text or query.get("draft", "") or EXAMPLE.format(first),
        "asked": bool(text),
        "names": names[:SHOWN],
        "downloads": [(kind, link_to("answer", sql=text, to=kind)) for kind in WRITERS],
        "running": statements.running,
        "limits": (int(PAGE_SECONDS), int(FILE_SECONDS) // 60),
        **shown,
    }


def rows_of(index: TrailIndex, text: str, cancellation: QueryCancellation) -> pa.RecordBatchReader:
    """Run a statement and return its rows. Raises OptionError if it is refused or cancelled."""
    return run_query(text, partial(_rows_named, index), closed=True, cancellation=cancellation)


def _rows_named(index: TrailIndex, name: str) -> QueryRows | None:
    """Return the rows of all operations, or of one table in the types of its columns.

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
        # one more than is shown, to know whether there are more
        first = list(islice(rows, SHOWN + 1))
    return {
        "columns": [(field.name, str(field.type)) for field in reader.schema],
        "rows": first[:SHOWN],
        "more": len(first) > SHOWN,
    }


def answer_file(
    index: TrailIndex, statements: StatementRunner, query: Query, cancellation: QueryCancellation
) -> tuple[BinaryIO, str]:
    """Return the result of a statement as an unnamed temporary file, and its media type.

    Raises OptionError.
    """
    kind = query.get("to", "")
    if kind not in WRITERS:
        raise OptionError(f"to={kind!r} is not one of {', '.join(WRITERS)}")
    file = TemporaryFile()  # noqa: SIM115  the response closes it after sending
    try:
        text = query.get("sql", "")
        with (
            statements.run(text, cancellation, FILE_SECONDS),
            rows_of(index, text, cancellation) as reader,
        ):
            WRITERS[kind](file, reader)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file, FILE_TYPES[kind]
