"""``trailgate records``: files of fixed-width records, shown or written as Parquet, by a copybook."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trailgate.cli.options import Base, FewRows, Format, RowFormat, Wide, named_values, takes
from trailgate.cli.output import done_already, say
from trailgate.cli.standard_input import is_stream, kept_input
from trailgate.errors import OptionError, mask_logins
from trailgate.options import Flag

if TYPE_CHECKING:
    from trailgate.jobs.record_files import CopybookOptions

TABLE_ROWS: Final = 20  # that a table shows by default


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsArguments:
    """What is shown or written: each field is a flag of ``trailgate records``, in the order of its help."""

    copybook: Annotated[str, Flag("FILE"), "The layout of the records."]
    option: Annotated[
        list[str],
        Flag("NAME=VALUE", "--option -o"),
        "An option of the copybook format, as recordFormat=rdw or codePage=1140.",
    ] = field(default_factory=list)
    format: RowFormat = Format.TABLE
    limit: FewRows = None
    to: Annotated[
        str | None,
        Flag("FOLDER"),
        "Write them there as Parquet, a folder for each of several kinds, instead of printing them.",
    ] = None
    master: Annotated[
        str | None, Flag("MASTER"), "With --to: run on Spark, as local[2] or a cluster's address."
    ] = None
    base: Base = None
    wide: Wide = False


@takes
def command(
    path: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH", help="Files of records, folders of such files, patterns, or - (stdin)."
        ),
    ],
    given: RecordsArguments,
) -> None:
    """Show files of fixed-width records, or write them as Parquet."""
    from trailgate.cobol.records.decoding import Shape
    from trailgate.jobs.record_files import CopybookOptions
    from trailgate.storage.files.addresses import absolute

    # A tree does not fit in a line of a table or of CSV; JSON and Parquet can hold it.
    to, base = given.to, given.base
    shape = Shape.TREE if to is not None or given.format is Format.JSON else Shape.FLAT
    named = {"copybook": given.copybook, **named_values(given.option)}
    options = CopybookOptions.of(named, shape=shape, base=base)
    if to is None and given.master is not None:
        raise OptionError("--master applies only to writing", hint="Add --to FOLDER")
    if base is not None:
        path = [one if is_stream(one) else absolute(one, base) for one in path]
        to = None if to is None else absolute(to, base)
    with kept_input(path) as kept:
        if to is not None:
            _write(kept, to, options, given.master)
        else:
            _print(kept, options, given)


def _print(path: list[str], options: CopybookOptions, given: RecordsArguments) -> None:
    from trailgate.cli.rows import RowForm, print_batches
    from trailgate.cobol.records.fields import Tally
    from trailgate.jobs.record_files import read_all_records

    first = given.limit
    if first is None:
        first = TABLE_ROWS if given.format is Format.TABLE else 0
    tally = Tally()
    rows = read_all_records(path, options, first, tally)
    names = rows.schema.names
    shape = RowForm.of_columns(names, TABLE_ROWS)
    print_batches(rows, names, shape, format=given.format, limit=given.limit, wide=given.wide)
    for line in tally.lines():
        say(line, stderr=True)


def _write(path: list[str], to: str, options: CopybookOptions, master: str | None) -> None:
    from trailgate.cobol.records.fields import Tally
    from trailgate.jobs.parquet import prepare_parquet, run_local

    tally = Tally()
    job = prepare_parquet(path, to, options)
    if master is None:
        rows = run_local(job, tally)
    else:
        from trailgate.spark.jobs import run_parquet

        rows = run_parquet(master, job, tally)
    with done_already():
        print(f"{rows:,} records in {len(job.parts)} files: {mask_logins(to)}")
        for line in tally.lines():
            print(line)
