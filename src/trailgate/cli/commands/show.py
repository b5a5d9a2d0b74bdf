"""``trailgate show``: show the operations or the records of a trail as a table, JSON lines or CSV."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, Literal

from trailgate.errors import DefinitionError, OptionError
from trailgate.model.table_names import TablePatterns
from trailgate.options import Flag
from trailgate.terminal.flags import (
    After,
    DefinitionsFile,
    FromPosition,
    Limit,
    OutputFormat,
    RowFormat,
    RowsFile,
    Tables,
    Threads,
    ToPosition,
    TrailPath,
    Wide,
    complete_position_flag,
    takes,
)

if TYPE_CHECKING:
    from trailgate.storage.files.trail_files import TrailFiles
    from trailgate.storage.reading.options import ReadOptions


NAMED: Final = 8  # the most tables named in a note
POSITIONS: Final = ("after", "from_position", "to_position")
# Options of reading that are passed through unchanged.
NAMED_OPTIONS: Final = ("records", "charset", "from_csn", "to_csn", "undo", "open_transactions")
EXAMPLES: Final = (
    "trailgate show dirdat/ot --limit 3",
    "trailgate show dirdat/ot --table HR.JOBS --to jobs.parquet",
    "trailgate show dirdat/ot --from-csn 4711 --format json",
)
PANELS: Final = {
    "Which operations": (
        "after",
        "from_position",
        "to_position",
        "from_csn",
        "to_csn",
        "undo",
        "open_transactions",
    ),
    "How they are read": ("definitions", "charset", "times", "threads"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowArguments:
    """The arguments of ``trailgate show``: each field is a flag, in the order of the help."""

    table: Annotated[
        list[str],
        Flag("SCHEMA.TABLE"),
        "Only this table; a single one is shown with its own columns. Repeatable.",
    ] = field(default_factory=list)
    tables: Tables = None
    records: Annotated[
        Literal["operations", "all"], "Show operations, or all records with their headers."
    ] = "operations"
    format: RowFormat = OutputFormat.TABLE
    to: RowsFile = None
    definitions: DefinitionsFile = None
    charset: Annotated[str | None, Flag("NAME"), "The character set of the source database."] = None
    limit: Limit = None
    after: After = None
    from_position: FromPosition = None
    to_position: ToPosition = None
    from_csn: Annotated[str | None, Flag("CSN"), "Start at transactions with this CSN."] = None
    to_csn: Annotated[str | None, Flag("CSN"), "End at transactions with this CSN."] = None
    times: Annotated[
        Literal["timestamp", "text"],
        "Show date times of a single table as timestamps, or as text with all digits.",
    ] = "timestamp"
    undo: Annotated[
        Literal["show", "exclude"],
        "Show or exclude operations that back out earlier ones (NonStop).",
    ] = "show"
    open_transactions: Annotated[
        Literal["hold", "show"],
        "Hold back or show the last operation of a transaction that is still open at the end of the trail.",
    ] = "hold"
    threads: Threads = None
    wide: Wide = False


@partial(takes, panels=PANELS)
def command(path: TrailPath, arguments: ShowArguments) -> None:
    """Show the operations or the records of a trail."""
    from trailgate.cli import show_rows
    from trailgate.storage.files.trail_files import find_trail
    from trailgate.storage.reading.options import ReadOptions
    from trailgate.storage.reading.trails import pointing_to_check, read_with_options
    from trailgate.terminal.batches import print_batches

    trail = find_trail(path, arguments.definitions, empty=True)
    positions = {
        name: complete_position_flag(trail.files, getattr(arguments, name)) for name in POSITIONS
    }
    named = {name: getattr(arguments, name) for name in NAMED_OPTIONS}
    for_people = arguments.format is OutputFormat.TABLE and arguments.to is None
    # A table for people has the same columns for all tables, so values stay text.
    options = ReadOptions.of(named | positions)
    with pointing_to_check(trail):
        options = _with_tables(options, trail, arguments, typed=not for_people)
    threads = arguments.threads
    if for_people or arguments.limit is not None:
        threads = threads or 1  # few rows are printed, so do not read ahead
    if arguments.to is not None:
        from trailgate.terminal.files import check_target, write_and_count

        check_target(arguments.to, arguments.format, wide=arguments.wide)  # before anything is read
        rows = read_with_options(trail, options, threads=threads)
        write_and_count(arguments.to, rows, arguments.limit)
        return
    rows = read_with_options(trail, options, threads=threads)
    form = show_rows.FORMS[options.records is not None, arguments.wide]
    printed = print_batches(
        rows,
        rows.schema.names,
        form,
        format=arguments.format,
        limit=arguments.limit,
        wide=arguments.wide,
    )
    if not printed and arguments.limit != 0:
        with suppress(OSError), pointing_to_check(trail):  # stderr may be closed
            print(_nothing(trail, options), file=sys.stderr)


def _with_tables(
    options: ReadOptions, trail: TrailFiles, arguments: ShowArguments, *, typed: bool
) -> ReadOptions:
    """Add the tables that the user has chosen to the options of reading a trail.

    With ``typed``, a single table is read with its own columns in their types.
    """
    from trailgate.storage.reading.options import AS_TEXT
    from trailgate.storage.reading.trail_definitions import find_table

    table, tables, text_times = arguments.table, arguments.tables, arguments.times == AS_TEXT
    if typed and len(table) == 1 and not tables and options.records is None:
        # Fail before anything is read, with a hint for trails without definitions.
        try:
            find_table(trail, table[0])
        except DefinitionError as error:
            more = f"--tables {table[0]} shows its operations without definitions"
            raise error.add_hint(more) from None
        return replace(options, table=table[0], times=arguments.times if text_times else None)
    if text_times and options.records is not None:
        problem = "--times text applies only to operations"
        raise OptionError(problem, hint="Omit --records all, or --times text")
    if text_times and typed:
        raise OptionError(
            "--times text applies only to a single table: name it with --table",
            hint="Otherwise date times are always shown as text with all their digits",
        )
    patterns = [_name(trail, name) for name in table]
    for text in tables or ():
        patterns += TablePatterns.read(text).patterns
    return replace(options, tables=TablePatterns(tuple(patterns))) if patterns else options


def _nothing(trail: TrailFiles, options: ReadOptions) -> str:
    """Return a note that no operation was found, with the tables that the trail defines."""
    from trailgate.storage.reading.trail_definitions import list_defined_tables

    what = "records" if options.records else "operations"
    if options.tables is None:
        return f"note: the trail has no such {what}"
    names = list_defined_tables(trail)
    patterns = ", ".join(options.tables.patterns)
    if not names:
        return f"note: no {what} of {patterns}; the trail defines no tables"
    shown = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
    return f"note: no {what} of {patterns}; the trail defines {shown}"


def _name(trail: TrailFiles, table: str) -> str:
    """Return the full name of a trail's table, or ``table`` if the trail has no definitions."""
    from trailgate.storage.reading.trail_definitions import find_table

    try:
        return find_table(trail, table).name
    except DefinitionError:
        if len(trail.definitions):
            raise
        return table
