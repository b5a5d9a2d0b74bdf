"""``trailgate records``: files of fixed-width records, shown or written as Parquet, by a copybook."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import typer

from trailgate.cli import output
from trailgate.cobol.records.decoding import Shape
from trailgate.errors import OptionError
from trailgate.jobs.record_files.options import CopybookOptions
from trailgate.jobs.record_files.parquet import prepare_parquet, run_local
from trailgate.jobs.record_files.reading import read_all_records

TABLE_ROWS: Final = 20  # what a terminal shows unless told otherwise


class Format(StrEnum):
    """How records are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def command(  # noqa: PLR0913  one parameter an option
    path: Annotated[str, typer.Argument(help="A file of records, or a folder of such files.")],
    *,
    copybook: Annotated[str, typer.Option(metavar="FILE", help="What the records look like.")],
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="NAME=VALUE",
            help="An option of the format copybook, as recordFormat=rdw or codePage=1140.",
        ),
    ] = None,
    format: Annotated[  # noqa: A002  the option's name
        Format, typer.Option(help="JSON is an object a line.")
    ] = Format.TABLE,
    limit: Annotated[
        int | None, typer.Option(min=0, help="At most so many records (a table: 20).")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="Write them there as Parquet, instead of showing them."
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(help="With --to: run on Spark, as local[2] or a cluster's address."),
    ] = None,
) -> None:
    """Show files of fixed-width records, or write them as Parquet."""
    # A line has no room for a tree; JSON and Parquet have.
    shape = Shape.TREE if to is not None or format is Format.JSON else Shape.FLAT
    options = CopybookOptions.of({"copybook": copybook, **_named(option or [])}, shape=shape)
    if to is not None:
        _write(path, to, options, master)
        return
    if master is not None:
        raise OptionError("--master is for writing", hint="Add --to FOLDER")
    rows = read_all_records(path, options)
    names = rows.schema.names
    with output.quiet_pipe():
        if format is Format.JSON:
            output.print_json(output.limited(rows, limit))
        elif format is Format.CSV:
            output.print_csv(output.limited(rows, limit), names)
        else:
            output.print_rows(rows, TABLE_ROWS if limit is None else limit, names)


def _named(given: list[str]) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise OptionError(f"NAME=VALUE was expected, not {text!r}")
        found[name] = value
    return found


def _write(path: str, to: str, options: CopybookOptions, master: str | None) -> None:
    job = prepare_parquet(path, to, options)
    if master is None:
        rows = run_local(job)
    else:
        from trailgate.spark.jobs.copybook import run_parquet  # noqa: PLC0415  only with Spark

        rows = run_parquet(master, job)
    print(f"{rows:,} records in {len(job.parts)} files: {to}")
