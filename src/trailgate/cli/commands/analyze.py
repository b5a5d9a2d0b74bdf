"""``trailgate analyze``: every byte of trail files with its meaning, in TrailAnalyzer's form."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from trailgate.cli import output
from trailgate.cli.output import show_in_pager
from trailgate.errors import OptionError, Where, mask_logins

if TYPE_CHECKING:
    from trailgate.trail.annotation.elements import Damage, Element


def command(
    path: Annotated[
        str,
        typer.Argument(metavar="PATH", help="A trail file, or a trail's prefix; may be damaged."),
    ],
    *,
    start: Annotated[
        str,
        typer.Option(
            "--offset",
            metavar="OFFSET",
            help="Start at the first record from this byte on; 0x for hex.",
        ),
    ] = "0",
    records: Annotated[
        int | None, typer.Option(min=0, help="The maximum number of records.")
    ] = None,
    header: Annotated[bool, typer.Option(help="Show the file header too.")] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one object a record, one a line.")
    ] = False,
) -> None:
    """Show every byte of a trail file with its meaning."""
    from trailgate.storage.files.listing import files_at
    from trailgate.storage.reading.trail_file import TrailFileReader
    from trailgate.trail.annotation.walk import analyze

    files = files_at(path)
    begin = _offset(start)
    if begin and len(files) > 1:
        problem = f"the offset is of one file, and the trail has {len(files)}"
        raise OptionError(problem, hint=f"Name the file, as {files[-1].path}")
    if begin >= files[0].size > 0:
        problem = f"the offset {begin} is not in the file, which has {files[0].size} bytes"
        raise OptionError(problem, where=Where(source=files[0].path))
    damaged = False  # also if the reader of the output stops early
    left = records
    with output.quiet_pipe(), show_in_pager():
        for file in files:
            if len(files) > 1 and not as_json:
                print(f"# {mask_logins(file.path)}")
            with TrailFileReader(file) as reader:
                shown = _Limited(analyze(reader.read, file.size, begin), left, header=header)
                name = mask_logins(file.path) if len(files) > 1 else ""
                damaged |= _print(shown, name, as_json=as_json)
            left = shown.left
            if left == 0:
                break
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


class _Limited:
    """Gives what was found, up to a number of records; ``left`` is how many more there may be. ``header``: that of the file too."""

    def __init__(
        self, found: Iterator[Element | Damage], left: int | None, *, header: bool
    ) -> None:
        self._found, self.left, self._header = found, left, header

    def __iter__(self) -> Iterator[Element | Damage]:
        from trailgate.trail.annotation.elements import Element
        from trailgate.trail.format.tokens import FILE_HEADER, RECORD

        for one in self._found:
            if isinstance(one, Element) and one.path == (FILE_HEADER,) and not self._header:
                continue
            if isinstance(one, Element) and one.path == (RECORD,) and self.left is not None:
                if self.left == 0:
                    return
                self.left -= 1
            yield one


def _print(found: Iterable[Element | Damage], name: str, *, as_json: bool) -> bool:
    """Print everything, and return whether there is damage."""
    from trailgate.trail.annotation.elements import Damage, problems

    damaged = False
    show = partial(_json_line, name) if as_json else _painter() if output.in_colours() else _plain
    for one in found:
        damaged |= isinstance(one, Damage) or any(problems(one))
        show(one)
    return damaged


def _json_line(file: str, found: Element | Damage) -> None:
    from trailgate.trail.annotation.elements import as_values

    named = {"file": file} if file else {}
    print(json.dumps(named | as_values(found), ensure_ascii=False))


def _plain(found: Element | Damage) -> None:
    from trailgate.trail.annotation.elements import lines

    sys.stdout.writelines(f"{line}\n" for line in lines(found))


def _painter() -> Callable[[Element | Damage], None]:
    """Return a function that prints in colours, for a terminal."""
    from trailgate.trail.annotation.elements import Line, lines

    paint = output.painter()

    def style(line: Line) -> str:
        text = str(line)
        content, comment = text[: len(line.content)], text[len(line.content) :]
        if content.lstrip().startswith("<"):
            content = paint(content, "blue")
        return content + paint(comment, "red" if line.bad else "green")

    return lambda found: sys.stdout.writelines(f"{style(line)}\n" for line in lines(found))
