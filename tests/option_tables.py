"""The options of commands, and the tables of options that the pages have."""

from __future__ import annotations

import re
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, NamedTuple, get_args

from typer.models import OptionInfo

from trailgate.cli.main import import_command
from trailgate.options import Options

DOCS = Path(__file__).parent.parent / "docs"
ROW = re.compile(r"^\| (`.*?) \| (.*) \|$", re.MULTILINE)
CELLS = re.compile(r" \| ")


class Documented(NamedTuple):
    """One row of a table of options: its names, what its value is called, and the text of the other cells."""

    names: tuple[str, ...]
    value: str
    rest: tuple[str, ...]


class CommandOption(NamedTuple):
    """An option of a command as its function declares it."""

    names: tuple[str, ...]
    value: str
    default: Any


def command_options(command: str) -> list[CommandOption]:
    """Return the options of a command, without ``--help``."""
    function = import_command(command).command
    found = []
    for one in signature(function).parameters.values():
        _, info = get_args(one.annotation)
        if isinstance(info, OptionInfo):
            # Of an annotation the first name is what a default value would be.
            words = (info.default, *(info.param_decls or ()))
            names = tuple(name for word in words for name in str(word).split("/"))
            default = one.default
            if default is Parameter.empty:
                default = "required"
            elif default is True:
                default = names[0]
            found.append(CommandOption(names, _choices(info.help) or info.metavar or "", default))
    return found


def options_of(command: str) -> list[str]:
    """Return the long options of a command, as its help would list them."""
    names = [name for option in command_options(command) for name in option.names]
    return [name for name in (*names, "--help") if name.startswith("--")]


def _choices(meaning: str | None) -> str:
    """Return the values that the end of an option's help lists, as the pages write them: ``stop|overlay``."""
    listed = re.search(r"Values: ([^.]*)\.$", meaning or "")
    return listed[1].replace(", ", "|") if listed else ""


def section(page: str, heading: str) -> str:
    """Return the part of a page below a heading."""
    after = (DOCS / page).read_text().split(f"{heading}", 1)[1]
    return re.split(r"^## ", after, flags=re.MULTILINE)[0]


def table_in(text: str) -> list[Documented]:
    """Return the rows of the tables of options in a text."""
    found = []
    for first, rest in ROW.findall(text):
        named = re.findall(r"`([^` ]+) ?([^`]*)`", first.replace("\\|", "|"))
        value = next((value for _, value in named if value), "")
        found.append(Documented(tuple(name for name, _ in named), value, tuple(CELLS.split(rest))))
    return found


def shown(default: Any) -> str:
    """Return a default value as pages show it, empty for one that does nothing."""
    if default is None or default is False or default in ("", [], (), {}):
        return ""
    value = getattr(default, "value", default)
    return str(value).lower() if isinstance(value, bool) else str(value)


def table_of(options: Options) -> str:
    """Return the table that states the options in the documentation."""
    lines = ["| option | value | default | meaning |", "| --- | --- | --- | --- |"]
    for row in options:
        given = str(row.default).lower() if isinstance(row.default, bool) else str(row.default)
        default = "" if row.default in (None, "") else f"`{given}`".replace("\n", "\\n")
        lines.append(f"| `{row.name}` | {row.kind.words} | {default} | {row.meaning} |")
    return "\n".join(lines)
