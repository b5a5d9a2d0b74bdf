"""``trailgate show``: the operations or the records of a trail as a table, JSON lines or CSV."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trailgate.cli.options import (
    DefinitionsFile,
    Format,
    RowFormat,
    RowsFile,
    Threads,
    TrailPath,
    Wide,
)
from trailgate.errors import DefinitionError, OptionError
from trailgate.model.table_patterns import TablePatterns

if TYPE_CHECKING:
    from trailgate.storage.files.trail_files import TrailFiles
    from trailgate.storage.reading.options import ReadOptions


class Level(StrEnum):
    """What is printed: operations, or all records."""

    OPERATIONS = "operations"
    ALL = "all"


class Undo(StrEnum):
    """Whether operations are shown that back out an earlier one."""

    SHOW = "show"
    EXCLUDE = "exclude"


class OpenTransactions(StrEnum):
    """What is done with the last operation of a transaction that is open at the trail's end."""

    HOLD = "hold"
    SHOW = "show"


Text = str | None
SHORTEST: Final = 20  # digits of a position in its long form
NAMED: Final = 8  # tables in a note


def command(  # noqa: PLR0913  one parameter an option
    path: TrailPath,
    *,
    table: Annotated[
        list[str] | None,
        typer.Option(metavar="SCHEMA.TABLE", help="Only this table's operations; repeatable."),
    ] = None,
    tables: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERNS", help="Only these tables, as HR.*,SALES.ORD?; repeatable."),
    ] = None,
    records: Annotated[
        Level, typer.Option(help="All: every record with its header, instead of operations.")
    ] = Level.OPERATIONS,
    format: RowFormat = Format.TABLE,  # noqa: A002  the option's name
    to: RowsFile = None,
    definitions: DefinitionsFile = None,
    charset: Annotated[
        Text, typer.Option(metavar="NAME", help="The character set of the source's texts.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, help="The maximum number of operations (a table: 100).")
    ] = None,
    after: Annotated[
        Text,
        typer.Option(metavar="POSITION", help="Only operations after this position, as 0:679."),
    ] = None,
    from_position: Annotated[
        Text, typer.Option(metavar="POSITION", help="Only operations at this position or after it.")
    ] = None,
    to_position: Annotated[
        Text,
        typer.Option(metavar="POSITION", help="Only operations at this position or before it."),
    ] = None,
    from_csn: Annotated[
        Text, typer.Option(metavar="CSN", help="Only transactions of this CSN or a later one.")
    ] = None,
    to_csn: Annotated[
        Text, typer.Option(metavar="CSN", help="Only transactions of this CSN or an earlier one.")
    ] = None,
    undo: Annotated[
        Undo, typer.Option(help="Exclude: no operations that back out an earlier one (NonStop).")
    ] = Undo.SHOW,
    open_transactions: Annotated[
        OpenTransactions,
        typer.Option(
            help="Show: also the last operation of a transaction that is open at the trail's end."
        ),
    ] = OpenTransactions.HOLD,
    threads: Threads = None,
    wide: Wide = False,
) -> None:
    """Show the operations or the records of a trail."""
    from trailgate.cli import trail_output
    from trailgate.cli.files import check_target, write_and_count
    from trailgate.cli.rows import print_batches
    from trailgate.storage.files.trail_files import find_trail
    from trailgate.storage.reading.options import ReadOptions
    from trailgate.storage.reading.trails import read_chosen

    trail = find_trail(path, definitions)
    options = ReadOptions.of(
        {
            "records": str(records),
            "charset": charset,
            "after": _position(trail, after),
            "from_position": _position(trail, from_position),
            "to_position": _position(trail, to_position),
            "from_csn": from_csn,
            "to_csn": to_csn,
            "undo": None if undo is Undo.SHOW else str(undo),
            "open_transactions": str(open_transactions),
        }
    )
    for_people = format is Format.TABLE and to is None
    options = _with_tables(options, trail, table or [], tables or [], typed=not for_people)
    if for_people or limit is not None:
        threads = threads or 1  # few rows are printed: nothing is read ahead
    if to is not None:
        check_target(to, format)  # before anything is read
    rows = read_chosen(trail, options, threads=threads)
    if to is not None:
        write_and_count(to, rows, limit)
        return
    form = trail_output.FORMS[options.records is not None, wide]
    printed = print_batches(rows, rows.schema.names, form, format=format, limit=limit, wide=wide)
    if not printed and limit != 0:
        with suppress(OSError):  # stderr may be closed
            print(_nothing(trail, options), file=sys.stderr)


def _with_tables(
    options: ReadOptions, trail: TrailFiles, table: list[str], tables: list[str], *, typed: bool
) -> ReadOptions:
    """Return the options for these tables: one alone is read in the types of its columns, if ``typed``."""
    from trailgate.storage.reading.trail_file import find_table

    if typed and len(table) == 1 and not tables and options.records is None:
        try:
            find_table(trail, table[0])
        except DefinitionError as error:
            more = f"--tables {table[0]} gives operations without definitions"
            error.hint = f"{error.hint}. {more}" if error.hint else more
            raise
        return replace(options, table=table[0])
    patterns = [_name(trail, name) for name in table]
    for text in tables:
        patterns += TablePatterns.read(text).patterns
    return replace(options, tables=TablePatterns(tuple(patterns))) if patterns else options


def _position(trail: TrailFiles, text: str | None) -> str | None:
    """Return a position; a number alone is a byte offset in the trail's only file."""
    if text is None or not (text.isascii() and text.isdigit()) or len(text) >= SHORTEST:
        return text
    if len(trail.files) > 1:
        first, last = trail.files[0].number, trail.files[-1].number
        problem = f"{text} is a byte offset, and the trail has the files {first} to {last}"
        raise OptionError(problem, hint=f"Name the file too: {first}:{text}")
    return f"{trail.begin.number}:{text}"


def _nothing(trail: TrailFiles, options: ReadOptions) -> str:
    """Return a note on what was not found."""
    from trailgate.storage.reading.trail_file import defined_tables

    what = "records" if options.records else "operations"
    if options.tables is None:
        return f"note: the trail has no such {what}"
    names = defined_tables(trail)
    patterns = ", ".join(options.tables.patterns)
    if not names:
        return f"note: no {what} of {patterns}; the trail defines no tables"
    shown = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
    return f"note: no {what} of {patterns}; the trail defines {shown}"


def _name(trail: TrailFiles, table: str) -> str:
    """Return the name of a table; without definitions any name may be in the trail."""
    from trailgate.storage.reading.trail_file import find_table

    try:
        return find_table(trail, table).name
    except DefinitionError:
        if len(trail.definitions):
            raise
        return table
