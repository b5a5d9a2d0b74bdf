"""``trailgate logdump``: inspect trail files with Logdump's commands.

Reads commands from a prompt with completion, from ``--command``, or from standard input.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

import trailgate
from trailgate.options import Flag
from trailgate.terminal import output
from trailgate.terminal.flags import JsonLines, takes
from trailgate.terminal.output import fold, show_in_pager

if TYPE_CHECKING:
    from trailgate.logdump.conversation import Conversation

BANNER = f"Trailgate {trailgate.__version__}, commands of Logdump. HELP lists them, Tab completes, EXIT ends."
HELP_INDENT = " " * 22  # the column of the descriptions in HELP
HISTORY = "~/.trailgate_logdump_history"


@takes
def command(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A trail file to open first.")
    ] = None,
    *,
    commands: Annotated[
        list[str] | None,
        Flag("COMMAND", "--command -c"),
        "Run this command and exit; repeatable.",
    ] = None,
    as_json: JsonLines = False,
) -> None:
    """Inspect trail files with Logdump's commands."""
    from trailgate.logdump.conversation import Conversation

    conversation = Conversation(lambda: datetime.now(UTC), as_values=as_json)
    interactive = commands is None and sys.stdin.isatty()
    lines = _prompt(conversation) if interactive else iter(commands or _convert_type(sys.stdin))
    with output.quiet_pipe():
        try:
            if interactive:
                print(BANNER)
            if file is not None:
                _answer(conversation, f"OPEN {_quote(file)}")
            _converse(conversation, lines, interactive=interactive)
        finally:
            conversation.close()
    if conversation.failed and not interactive:
        raise typer.Exit(1)


def _converse(conversation: Conversation, lines: Iterator[str], *, interactive: bool) -> None:
    while not conversation.over:
        line = next(lines, None)
        if line is None:
            return
        try:
            if line.strip():
                with show_in_pager() if interactive and _asks_help(line) else nullcontext():
                    _answer(conversation, line)
        except KeyboardInterrupt:
            if not interactive:
                raise
            print("interrupted")  # the command ends, the session continues


def _answer(conversation: Conversation, line: str) -> None:
    indent = HELP_INDENT if _asks_help(line) else None
    for text in conversation.answer(line):
        print(text if indent is None else "\n".join(fold(text, indent)))


def _asks_help(line: str) -> bool:
    """Return whether a Logdump command line asks for help, whose output is long enough for the pager."""
    return line.split(maxsplit=1)[0].upper() in ("HELP", "?")


def _quote(file: str) -> str:
    """Quote the path of a trail file for Logdump's OPEN if it contains separators of commands or words."""
    if not set(file) & set(";'\""):
        return file
    return f"'{file}'" if '"' in file else f'"{file}"'


def _convert_type(stream: Iterable[str]) -> Iterator[str]:
    return (line.rstrip("\r\n") for line in stream)


def _prompt(conversation: Conversation) -> Iterator[str]:
    """Yield the Logdump command lines typed at a terminal until the input ends."""
    from trailgate.logdump.completion import make_completer
    from trailgate.terminal.prompt import read_typed_lines

    return read_typed_lines(
        HISTORY,
        lambda: conversation.prompt,
        default=lambda: conversation.edit,
        complete=make_completer(conversation.session),
    )
