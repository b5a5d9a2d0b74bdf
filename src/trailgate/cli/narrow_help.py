"""The help of commands in a narrow terminal: each option on a line of its own, its meaning below.

typer prints a table of options, whose first columns are cut (``--copy…``) if the terminal is
narrower than ``NARROW`` columns (``cli.main``). There the plain help of Click is printed instead, with its list of
definitions changed to two lines or more for each option::

  --copybook FILE
      The layout of the records.
      [required]
"""

from __future__ import annotations

from typing import Any, Final

_INDENT: Final = 4  # columns before the meaning of an option
_LEAST: Final = 20  # columns: no word of the help is longer than this, apart from examples


def print_narrow_help(command: Any, width: int) -> None:
    """Change a command and its subcommands so that they print their help in ``width`` columns."""
    context: Any = command.context_class
    formatter: Any = context.formatter_class

    class NarrowFormatter(formatter):  # type: ignore[misc]  # of typer's own copy of Click, or of Click
        """Formats the help of a command: options below each other, and lines of text unchanged."""

        def write_dl(self, rows: Any, col_max: int = 30, col_spacing: int = 2) -> None:
            """Write a list of options or commands, each with its meaning below."""
            del col_max, col_spacing
            super().write_dl(rows, 1, _INDENT - 1)

        def write_text(self, text: str) -> None:
            """Write a text line by line, because Click would join the lines of examples."""
            for line in text.splitlines():
                super().write_text(line)

    class NarrowContext(context):  # type: ignore[misc]
        """The context of a command that is printed by ``NarrowFormatter``."""

        formatter_class = NarrowFormatter

    for one in (command, *getattr(command, "commands", {}).values()):
        one.context_class = NarrowContext
        one.short_help = one.help  # in a list of commands Click cuts the help, but not this
        one.context_settings = {**one.context_settings, "terminal_width": max(width, _LEAST)}
