"""``trailgate sql``: a SELECT statement over trails."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from trailgate.cli.options import DefinitionsFile, Format, RowFormat, Wide
from trailgate.cli.output import done_already
from trailgate.cli.row_files import ending_of, write_rows
from trailgate.cli.row_output import RowForm, print_batches
from trailgate.errors import OptionError, masked
from trailgate.jobs.querying.sql import query

ROWS: Final = 100  # of a table


def command(
    statement: Annotated[
        str,
        typer.Argument(
            metavar="SELECT",
            help="As SELECT count(*) FROM 'dirdat/ot'; 'dirdat/ot:HR.JOBS' is a table of it in the types of its columns.",
        ),
    ],
    *,
    format: RowFormat = Format.TABLE,  # noqa: A002  the option's name
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Write the rows to a new file: .parquet, .csv or .jsonl."
        ),
    ] = None,
    definitions: DefinitionsFile = None,
    limit: Annotated[
        int | None, typer.Option(min=0, help="The maximum number of rows (a table: 100).")
    ] = None,
    wide: Wide = False,
) -> None:
    """Show what a SELECT statement gives over trails, by DuckDB."""
    if to is not None:
        ending_of(to)  # before anything is read
        if format is not Format.TABLE:
            raise OptionError("--format is for printing", hint="The ending of --to is the format")
    rows = query(statement, definitions=definitions)
    names = rows.schema.names
    if to is None:
        form = RowForm.of_columns(names, ROWS)
        print_batches(rows, names, form, format=format, limit=limit, wide=wide)
        return
    count = write_rows(to, rows, rows.schema, limit)
    with done_already():
        print(f"{count:,} rows: {masked(to)}")
