"""``trailgate show``: the operations or the records of a trail as a table, JSON lines or CSV."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Final

import pyarrow as pa
import typer

from trailgate.cli import output, record_output
from trailgate.errors import DefinitionError
from trailgate.model.table_patterns import TablePatterns
from trailgate.storage.reading.options import ReadOptions
from trailgate.storage.reading.tables import find_table
from trailgate.storage.reading.trails import TrailFiles, find_trail, read_chosen

TABLE_ROWS: Final = 100  # what a terminal shows unless told otherwise


class Format(StrEnum):
    """How operations are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class Level(StrEnum):
    """What is printed."""

    OPERATIONS = "operations"
    ALL = "all"


Text = str | None


def command(  # noqa: PLR0913  one parameter an option
    path: Annotated[str, typer.Argument(help="The trail: its prefix (dirdat/ot), file or folder.")],
    *,
    table: Annotated[
        Text, typer.Option(metavar="SCHEMA.TABLE", help="Only this table's operations.")
    ] = None,
    tables: Annotated[
        Text, typer.Option(metavar="PATTERNS", help="Only these tables, as HR.*,SALES.ORD?.")
    ] = None,
    records: Annotated[
        Level, typer.Option(help="All: every record with its header, instead of operations.")
    ] = Level.OPERATIONS,
    format: Annotated[  # noqa: A002  the option's name
        Format, typer.Option(help="JSON is an object a line.")
    ] = Format.TABLE,
    definitions: Annotated[
        Text, typer.Option(metavar="FILE", help="Definitions, if not in PATH.def.")
    ] = None,
    charset: Annotated[
        Text, typer.Option(metavar="NAME", help="The character set of the source's texts.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, help="At most so many operations (a table: 100).")
    ] = None,
    after: Annotated[
        Text, typer.Option(metavar="POSITION", help="Only what is behind this position.")
    ] = None,
    from_position: Annotated[
        Text, typer.Option(metavar="POSITION", help="Only what is here or behind it.")
    ] = None,
    to_position: Annotated[
        Text, typer.Option(metavar="POSITION", help="Only what is here or in front of it.")
    ] = None,
    from_csn: Annotated[
        Text, typer.Option(metavar="CSN", help="Only transactions of this CSN or a later one.")
    ] = None,
    to_csn: Annotated[
        Text, typer.Option(metavar="CSN", help="Only transactions of this CSN or an earlier one.")
    ] = None,
) -> None:
    """Show the operations or the records of a trail."""
    options = ReadOptions.of(
        {
            "tables": tables,
            "records": str(records),
            "charset": charset,
            "after": after,
            "from_position": from_position,
            "to_position": to_position,
            "from_csn": from_csn,
            "to_csn": to_csn,
        }
    )
    trail = find_trail(path, definitions)
    if table is not None:
        options = replace(options, tables=TablePatterns((_name(trail, table),)))
    _show(read_chosen(trail, options), format, limit)


def _name(trail: TrailFiles, table: str) -> str:
    """Return the name of a table; where nothing is defined, any name may be in the trail."""
    try:
        return find_table(trail, table).name
    except DefinitionError:
        if len(trail.definitions):
            raise
        return table


def _show(rows: pa.RecordBatchReader, form: Format, limit: int | None) -> None:
    names, most = rows.schema.names, TABLE_ROWS if limit is None else limit
    with output.quiet_pipe():
        if form is Format.JSON:
            output.print_json(output.limited(rows, limit))
        elif form is Format.CSV:
            output.print_csv(output.limited(rows, limit), names)
        elif "io_type" in names:
            record_output.print_table(rows, most)
        else:
            output.print_table(rows, most)
