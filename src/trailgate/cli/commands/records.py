"""``trailgate records``: files of fixed-width records, shown or written as Parquet, by a copybook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from trailgate.cli.options import Format, RowFormat, Wide, named_values
from trailgate.cli.output import done_already
from trailgate.cli.standard_input import is_stream, kept_input
from trailgate.errors import OptionError, mask_logins

if TYPE_CHECKING:
    from trailgate.jobs.record_files import CopybookOptions

TABLE_ROWS: Final = 20  # that a table shows by default


def command(  # noqa: PLR0913  one parameter an option
    path: Annotated[
        list[str],
        typer.Argument(help="Files of records, folders of such files, patterns, or - (stdin)."),
    ],
    *,
    copybook: Annotated[str, typer.Option(metavar="FILE", help="The layout of the records.")],
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="NAME=VALUE",
            help="An option of the copybook format, as recordFormat=rdw or codePage=1140.",
        ),
    ] = None,
    format: RowFormat = Format.TABLE,  # noqa: A002  the option's name
    limit: Annotated[
        int | None, typer.Option(min=0, help="The maximum number of records (a table: 20).")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="Write them there as Parquet, instead of printing them."
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(help="With --to: run on Spark, as local[2] or a cluster's address."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="The folder that relative paths are from."),
    ] = None,
    wide: Wide = False,
) -> None:
    """Show files of fixed-width records, or write them as Parquet."""
    from trailgate.cobol.records.decoding import Shape
    from trailgate.jobs.record_files import CopybookOptions
    from trailgate.storage.files.addresses import absolute

    # A tree does not fit in a line of a table or of CSV; JSON and Parquet can hold it.
    shape = Shape.TREE if to is not None or format is Format.JSON else Shape.FLAT
    options = CopybookOptions.of(
        {"copybook": copybook, **named_values(option or [])}, shape=shape, base=base
    )
    if to is None and master is not None:
        raise OptionError("--master applies only to writing", hint="Add --to FOLDER")
    if base is not None:
        path = [one if is_stream(one) else absolute(one, base) for one in path]
        to = None if to is None else absolute(to, base)
    with kept_input(path) as kept:
        if to is not None:
            _write(kept, to, options, master)
            return
        _print(kept, options, format, limit, wide=wide)


def _print(
    path: list[str],
    options: CopybookOptions,
    form: Format,
    limit: int | None,
    *,
    wide: bool,
) -> None:
    from trailgate.cli.rows import RowForm, print_batches
    from trailgate.jobs.record_files import read_all_records

    first = limit if limit is not None else TABLE_ROWS if form is Format.TABLE else 0
    rows = read_all_records(path, options, first)
    shape = RowForm.of_columns(rows.schema.names, TABLE_ROWS)
    print_batches(rows, rows.schema.names, shape, format=form, limit=limit, wide=wide)


def _write(path: list[str], to: str, options: CopybookOptions, master: str | None) -> None:
    from trailgate.jobs.parquet import prepare_parquet, run_local

    job = prepare_parquet(path, to, options)
    if master is None:
        rows = run_local(job)
    else:
        from trailgate.spark.jobs import run_parquet

        rows = run_parquet(master, job)
    with done_already():
        print(f"{rows:,} records in {len(job.parts)} files: {mask_logins(to)}")
