"""``trailgate show``: the operations of a trail as a table, JSON lines or CSV."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Final

import pyarrow as pa
import pyarrow.compute as pc
import typer

from trailgate.cli import output
from trailgate.storage.trails import find_trail, read_trail

TABLE_ROWS: Final = 100  # what a terminal shows unless told otherwise


class Format(StrEnum):
    """How operations are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def command(
    path: Annotated[str, typer.Argument(help="The trail: its prefix (dirdat/ot), file or folder.")],
    *,
    table: Annotated[
        str | None, typer.Option(metavar="SCHEMA.TABLE", help="Only this table's operations.")
    ] = None,
    format: Annotated[  # noqa: A002  the option's name
        Format, typer.Option(help="JSON is an object a line.")
    ] = Format.TABLE,
    definitions: Annotated[
        str | None, typer.Option(metavar="FILE", help="Definitions, if not in PATH.def.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, help="At most so many operations (a table: 100).")
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="POSITION", help="Only what is behind this position.")
    ] = None,
) -> None:
    """Show the operations of a trail."""
    trail = find_trail(path, definitions)
    batches = read_trail(trail, after=after)
    if table is not None:
        batches = _of_table(batches, trail.definitions.table(table).name)
    with output.quiet_pipe():
        if format is Format.TABLE:
            output.print_table(batches, TABLE_ROWS if limit is None else limit)
        elif format is Format.JSON:
            output.print_json(output.limited(batches, limit))
        else:
            output.print_csv(output.limited(batches, limit))


def _of_table(batches: Iterator[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
    return (batch.filter(pc.equal(batch["table"], name)) for batch in batches)
