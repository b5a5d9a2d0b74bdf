"""``trailgate sql``: a SELECT statement over trails."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from trailgate.cli.options import (
    DefinitionsFile,
    Format,
    Limit,
    RowFormat,
    RowsFile,
    Wide,
    takes,
)

ROWS: Final = 100  # of a table
EXAMPLES: Final = (
    "trailgate sql \"SELECT op_type, count(*) FROM 'dirdat/ot' GROUP BY 1\"",
    "trailgate sql \"SELECT * FROM 'dirdat/ot:HR.JOBS'\" --to jobs.csv",
)


@takes
def command(
    statement: Annotated[
        str,
        typer.Argument(
            metavar="SELECT",
            help="The statement, such as SELECT count(*) FROM 'dirdat/ot'. 'dirdat/ot:HR.JOBS' is one table of the trail, with its own columns.",
        ),
    ],
    *,
    format: RowFormat = Format.TABLE,  # noqa: A002  the option's name
    to: RowsFile = None,
    definitions: DefinitionsFile = None,
    limit: Limit = None,
    wide: Wide = False,
) -> None:
    """Show what a SELECT statement gives over trails, by DuckDB."""
    from trailgate.cli.files import check_target, write_and_count
    from trailgate.cli.rows import RowForm, print_batches
    from trailgate.jobs.query import query

    if to is not None:
        check_target(to, format)  # before anything is read
    rows = query(statement, definitions=definitions)
    if to is not None:
        write_and_count(to, rows, limit)
        return
    names = rows.schema.names
    form = RowForm.of_columns(names, ROWS)
    print_batches(rows, names, form, format=format, limit=limit, wide=wide)
