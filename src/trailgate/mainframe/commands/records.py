"""``trailgate records``: show, convert, verify or edit files of fixed-width records.

A copybook describes the records. They can be converted to Parquet and back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trailgate.errors import OptionError, count_noun, mask_logins
from trailgate.options import Flag
from trailgate.terminal.flags import (
    Base,
    FewRows,
    OutputFormat,
    RowFormat,
    Wide,
    named_values,
    takes,
)
from trailgate.terminal.output import progress_bar, quiet_pipe, report_finished, say
from trailgate.terminal.standard_input import buffer_input, is_standard_input_or_pipe

if TYPE_CHECKING:
    from trailgate.mainframe.jobs.copybook_options import CopybookOptions
    from trailgate.mainframe.jobs.writing import WritingOptions

TABLE_ROWS: Final = 20  # rows of a table by default
EXAMPLES: Final = (
    "trailgate records data/ --copybook ACCOUNT.cpy --limit 5",
    "trailgate records data/ --copybook A.cpy -o recordFormat=rdw --to accounts/",
    "trailgate records data/ --copybook ACCOUNT.cpy --verify",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsArguments:
    """The arguments of ``trailgate records``: each field is a flag, in the order of the help."""

    copybook: Annotated[str, Flag("FILE"), "The layout of the records."]
    option: Annotated[
        list[str],
        Flag("NAME=VALUE", "--option -o"),
        "An option of the copybook format, such as recordFormat=rdw or codePage=1140; repeatable.",
    ] = field(default_factory=list)
    format: RowFormat = OutputFormat.TABLE
    limit: FewRows = None
    to: Annotated[
        str | None,
        Flag("FOLDER"),
        "Write the records to this folder as Parquet, one folder per kind of record.",
    ] = None
    write: Annotated[
        bool,
        "With --to: write the rows of .parquet or .jsonl files to a new file of records.",
    ] = False
    set: Annotated[
        list[str],
        Flag("FIELD=EXPRESSION"),
        "With --to: write the records with this value in a field and all other bytes unchanged; repeatable.",
    ] = field(default_factory=list)
    verify: Annotated[
        bool,
        "Count bad fields by reason and list the first ones; exit code 1 if there are any.",
    ] = False
    master: Annotated[
        str | None,
        Flag("MASTER"),
        "With --to or --verify: run on Spark, such as local[2] or the address of a cluster.",
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
    arguments: RecordsArguments,
) -> None:
    """Show files of fixed-width records, convert them to and from Parquet, verify or edit them."""
    _check_printing(arguments)
    if arguments.write or arguments.set:
        if arguments.verify:
            raise OptionError("--verify writes nothing", hint="Omit --write and --set")
        _write_records(path, arguments)
        return
    from trailgate.cobol.records.record_options import ColumnShape
    from trailgate.mainframe.jobs.copybook_options import CopybookOptions
    from trailgate.storage.files.addresses import absolute

    to, base = arguments.to, arguments.base
    named = {"copybook": arguments.copybook, **named_values(arguments.option)}
    # Nested records (a tree) do not fit into a line of CSV or the columns of a table, so these are
    # flat. Records of several types have no common columns, so a table shows them as a tree.
    stated = {name.lower() for name in named}
    several = (
        "kinds" in stated and "segment" not in stated and arguments.format is OutputFormat.TABLE
    )
    is_tree = several or to is not None or arguments.format is OutputFormat.JSON
    shape = ColumnShape.TREE if is_tree else ColumnShape.FLAT
    options = CopybookOptions.of(named, shape=shape, base=base)
    if arguments.verify and (to is not None or arguments.format is OutputFormat.CSV):
        problem = "--verify writes nothing, and prints a table or JSON"
        raise OptionError(problem, hint="Omit --to and --format csv")
    if to is None and arguments.master is not None and not arguments.verify:
        problem = "--master applies only to writing and verifying"
        raise OptionError(problem, hint="Add --to FOLDER, or --verify")
    if base is not None:
        path = [one if is_standard_input_or_pipe(one) else absolute(one, base) for one in path]
        to = None if to is None else absolute(to, base)
    with buffer_input(path) as sources:
        if arguments.verify:
            _verify(sources, options, arguments)
        elif to is not None:
            _write(sources, to, options, arguments.master)
        else:
            _print(sources, options, arguments)


def _check_printing(arguments: RecordsArguments) -> None:
    """Raise OptionError for an option of printing if nothing is printed."""
    writes = arguments.to is not None
    if arguments.wide and (writes or arguments.verify):
        raise OptionError("--wide applies only to printing records", hint="Omit it")
    if writes and arguments.format is not OutputFormat.TABLE and not arguments.verify:
        raise OptionError("--format applies only to printing", hint="Omit it, or --to")
    if (
        writes
        and arguments.limit is not None
        and not (arguments.write or arguments.set or arguments.verify)
    ):
        raise OptionError("--limit applies only to printing, --verify and --write", hint="Omit it")


def _write_records(path: list[str], arguments: RecordsArguments) -> None:
    from trailgate.mainframe.jobs.writing import WritingOptions
    from trailgate.storage.files.addresses import absolute

    flag = "--set" if arguments.set else "--write"
    if arguments.to is None or arguments.master is not None or (arguments.write and arguments.set):
        problem = f"{flag} needs --to, and excludes --master and {'--write' if arguments.set else '--set'}"
        raise OptionError(problem, hint='On Spark, use df.write.format("copybook")')
    named = {"copybook": arguments.copybook, **named_values(arguments.option)}
    options = WritingOptions.of(named, arguments.base, in_place=bool(arguments.set))
    # The file's extension determines how rows are read; stdin has none.
    path = ["-.jsonl" if one == "-" and arguments.write else one for one in path]
    to = arguments.to
    if arguments.base is not None:
        path = [
            one if is_standard_input_or_pipe(one) else absolute(one, arguments.base) for one in path
        ]
        to = absolute(to, arguments.base)
    with buffer_input(path) as sources:
        done = (
            _set_fields(sources, to, arguments, options)
            if arguments.set
            else _new_file(sources, to, arguments, options)
        )
    with report_finished():
        print(f"{done}: {mask_logins(arguments.to)}")


def _new_file(
    path: list[str], to: str, arguments: RecordsArguments, options: WritingOptions
) -> str:
    from trailgate.mainframe.jobs.writing import read_rows_to_write, write_record_file
    from trailgate.terminal.batches import limit_rows

    rows = limit_rows(read_rows_to_write(path, options), arguments.limit)
    count = write_record_file(rows, to, options)
    return count_noun(count, "record")


def _set_fields(
    path: list[str], to: str, arguments: RecordsArguments, options: WritingOptions
) -> str:
    from trailgate.mainframe.jobs.editing import edit_records

    if arguments.limit is not None:
        raise OptionError("--limit cannot be combined with --set, which writes complete files")
    records, files = edit_records(path, to, arguments.set, options)
    return f"{count_noun(records, 'record')} in {count_noun(files, 'file')}"


def _print(path: list[str], options: CopybookOptions, arguments: RecordsArguments) -> None:
    from trailgate.cobol.records.kinds_decoding import KindsDecoder
    from trailgate.cobol.records.policy_counts import PolicyTally
    from trailgate.mainframe.commands.output import record_types_form
    from trailgate.mainframe.jobs.reading import read_all_records
    from trailgate.terminal.batches import RowForm, print_batches

    first = arguments.limit
    if first is None:
        first = TABLE_ROWS if arguments.format is OutputFormat.TABLE else 0
    tally = PolicyTally()
    rows = read_all_records(path, options, first, tally)
    names = rows.schema.names
    shape = RowForm.of_columns(names, TABLE_ROWS)
    decoder = options.decoder()
    if isinstance(decoder, KindsDecoder):
        shape = record_types_form(names, decoder.names, TABLE_ROWS)
    print_batches(
        rows, names, shape, format=arguments.format, limit=arguments.limit, wide=arguments.wide
    )
    for line in tally.lines():
        say(line, stderr=True)


def _verify(path: list[str], options: CopybookOptions, arguments: RecordsArguments) -> None:
    """Verify the files and print the report. Exits with 1 if it contains errors."""
    from trailgate.mainframe.commands.output import print_report, report_values
    from trailgate.mainframe.jobs.verifying import SHOWN, prepare_verify, verify_files

    as_json = arguments.format is OutputFormat.JSON
    examples = SHOWN if arguments.limit is None else arguments.limit
    if arguments.master is not None:
        from trailgate.mainframe.spark.jobs import run_verify

        report = run_verify(arguments.master, prepare_verify(path, options, examples))
    else:
        with progress_bar("verifying", show=not as_json) as progress:
            report = verify_files(path, options, examples=examples, progress=progress)
    with quiet_pipe():
        if as_json:
            print(json.dumps(report_values(report), ensure_ascii=False))
        else:
            print_report(report)
    if not report.is_good:
        raise typer.Exit(1)


def _write(path: list[str], to: str, options: CopybookOptions, master: str | None) -> None:
    from trailgate.cobol.records.policy_counts import PolicyTally
    from trailgate.mainframe.jobs.parquet import prepare_parquet, run_local

    tally = PolicyTally()
    job = prepare_parquet(path, to, options)
    if master is None:
        rows = run_local(job, tally)
    else:
        from trailgate.mainframe.spark.jobs import run_parquet

        rows = run_parquet(master, job, tally)
    with report_finished():
        print(
            f"{count_noun(rows, 'record')} in {count_noun(len(job.parts), 'part')}: {mask_logins(to)}"
        )
        for line in tally.lines():
            print(line)
