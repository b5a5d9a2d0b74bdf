"""``trailgate analyze``: every byte of a trail file with its meaning, in TrailAnalyzer's form."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from trailgate.cli import output
from trailgate.errors import OptionError
from trailgate.storage.files.listing import stored_file
from trailgate.storage.reading.trail_file import TrailFileReader
from trailgate.trail.annotation.elements import Damage, Element, problems
from trailgate.trail.annotation.listing import Line, as_values, lines
from trailgate.trail.annotation.walk import analyze
from trailgate.trail.format.tokens import RECORD


def command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A trail file; it may be damaged.")],
    *,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="OFFSET",
            help="Start at the first record from this byte on; 0x for hex.",
        ),
    ] = "0",
    records: Annotated[
        int | None, typer.Option(min=0, help="The maximum number of records.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one object a record, one a line.")
    ] = False,
) -> None:
    """Show every byte of a trail file with its meaning."""
    damaged = False  # also if the reader of the output stops early
    with TrailFileReader(stored_file(file)) as reader, output.quiet_pipe():
        found = analyze(reader.read, reader.file.size, _offset(start))
        damaged = _print(_limited(found, records), as_json=as_json)
    if damaged:
        raise typer.Exit(1)


def _offset(text: str) -> int:
    try:
        offset = int(text, 0)
    except ValueError:
        offset = -1
    if offset < 0:
        raise OptionError(f"{text!r} is not an offset", hint="Give a number as 1066 or 0x42A")
    return offset


def _limited(found: Iterator[Element | Damage], records: int | None) -> Iterator[Element | Damage]:
    left = records
    for one in found:
        if isinstance(one, Element) and one.path == (RECORD,) and left is not None:
            if left == 0:
                return
            left -= 1
        yield one


def _print(found: Iterator[Element | Damage], *, as_json: bool) -> bool:
    """Print everything, and return whether there is damage."""
    damaged = False
    show = _json_line if as_json else _painter() if sys.stdout.isatty() else _plain
    for one in found:
        damaged |= isinstance(one, Damage) or any(problems(one))
        show(one)
    return damaged


def _json_line(found: Element | Damage) -> None:
    print(json.dumps(as_values(found), ensure_ascii=False))


def _plain(found: Element | Damage) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines(found))


def _painter() -> Callable[[Element | Damage], None]:
    """Return a function that prints in colours, for a terminal."""
    console = output.console(wrap=False)

    def show(found: Element | Damage) -> None:
        for line in lines(found):
            console.print(_styled(line))

    return show


def _styled(line: Line) -> Any:
    from rich.text import Text  # noqa: PLC0415  only a terminal needs it

    text = str(line)
    content, comment = text[: len(line.content)], text[len(line.content) :]
    tag = content.lstrip().startswith("<")
    styled = Text(content, style="cyan" if tag else "")
    return styled.append(comment, style="bold red" if line.bad else "green")
