"""``trailgate journal``: show the messages that a live capture stored before acknowledging them."""

from __future__ import annotations

import sys
from itertools import islice
from typing import Annotated, Final, Literal

import typer

from trailgate.errors import OptionError
from trailgate.options import Flag
from trailgate.terminal.flags import FewRows, OutputFormat, RowFormat, takes

MESSAGES: Final = 20  # messages of a table by default


@takes
def command(
    action: Annotated[
        Literal["list", "show", "replay"],
        typer.Argument(
            metavar="ACTION",
            help="List its files, show its messages, or print its messages as lines to capture again. Values: list, show, replay.",
        ),
    ],
    path: Annotated[
        str,
        typer.Argument(
            metavar="JOURNAL", help="The journal's folder, or the prefix of its trail (dirdat/ot)."
        ),
    ],
    *,
    from_message: Annotated[
        int, Flag("NUMBER", least=0), "Start at the message with this number."
    ] = 0,
    limit: FewRows = None,
    format: RowFormat = OutputFormat.TABLE,  # noqa: A002  the option's name
) -> None:
    """Show the messages of a journal, or write them as JSON lines."""
    from trailgate.live.files.journal_reader import (
        find_journal,
        list_journal_files,
        read_journal_lines,
        read_journal_messages,
    )
    from trailgate.terminal.batches import RowForm, print_batches

    folder = find_journal(path)
    if action == "list":
        if from_message or limit is not None:
            raise OptionError("--from-message and --limit apply only to messages, not to files")
        rows = list_journal_files(folder)
        form = RowForm.of_columns(rows.schema.names, len(rows))
        print_batches([rows], rows.schema.names, form, format=format)
    elif action == "show":
        names = ["number", "id", "received", "headers", "body", "fault"]
        form = RowForm.of_columns(names, MESSAGES)
        print_batches(
            read_journal_messages(folder, from_message), names, form, format=format, limit=limit
        )
    else:
        if format is not OutputFormat.TABLE:
            raise OptionError("replay writes JSON lines: it has no other format")
        for line in islice(read_journal_lines(folder, from_message), limit):
            sys.stdout.buffer.write(line)
