"""``trailgate analyze``: show every byte of trail files with its meaning, in TrailAnalyzer's format."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from trailgate.errors import OptionError, Where, mask_logins
from trailgate.options import Flag
from trailgate.terminal import output
from trailgate.terminal.flags import (
    FromPosition,
    JsonLines,
    Records,
    ToPosition,
    complete_position_flag,
    takes,
)
from trailgate.terminal.output import show_in_pager

if TYPE_CHECKING:
    from trailgate.storage.files.trail_files import TrailFile
    from trailgate.trail.annotation.elements import DamagedSpan, ExplainedToken


@takes
def command(
    path: Annotated[
        str,
        typer.Argument(metavar="PATH", help="A trail file, or a trail's prefix; may be damaged."),
    ],
    *,
    from_position: FromPosition = None,
    to_position: ToPosition = None,
    records: Records = None,
    header: Annotated[bool, Flag(name="--header/--no-header"), "Show the file header too."] = True,
    as_json: JsonLines = False,
) -> None:
    """Show every byte of a trail file with its meaning."""
    from trailgate.model.positions import parse_position
    from trailgate.storage.files.trail_files import find_files_at
    from trailgate.storage.reading.trail_file import TrailFileReader
    from trailgate.storage.reading.trail_file_checks import describe_wrong_size
    from trailgate.trail.annotation.elements import DamagedSpan, find_problems
    from trailgate.trail.annotation.trail_file import explain_trail
    from trailgate.trail.format.tokens import FILE_HEADER, RECORD

    files = find_files_at(path)
    begin, end = (
        None if text is None else parse_position(complete_position_flag(files, text) or "")
        for text in (from_position, to_position)
    )
    wrong_sizes: list[str] = []
    damaged = False  # also if the reader of the output stops early
    left = records
    with output.quiet_pipe(), show_in_pager():
        show = _json_line if as_json else _listing()
        for file, start in _starts(files, begin):
            name = mask_logins(file.path) if len(files) > 1 else ""
            if name and not as_json:
                print(f"# {name}")
            with TrailFileReader(file) as reader:
                wrong_sizes += describe_wrong_size(reader)
                for found in explain_trail(reader.read, file.size, start):
                    kind = getattr(found, "path", ())
                    # the file header does not count as a record
                    if (left == 0 and kind == (RECORD,)) or (
                        end and (file.number, found.offset) > end
                    ):
                        break
                    if kind == (RECORD,) and left is not None:
                        left -= 1
                    if header or kind != (FILE_HEADER,):
                        damaged |= isinstance(found, DamagedSpan) or any(find_problems(found))
                        show(found, name)
            if left == 0:
                break
    for problem in wrong_sizes:
        output.say(
            f"note: {problem}. trailgate check {mask_logins(path)} lists the damage", stderr=True
        )
    if damaged:
        raise typer.Exit(1)


def _starts(
    files: Sequence[TrailFile], begin: tuple[int, int] | None
) -> Iterator[tuple[TrailFile, int]]:
    """Yield the trail files from a position on, each with the offset to start at.

    Raises OptionError if the trail does not have the position.
    """
    number, offset = begin or (files[0].number, 0)
    first = next((file for file in files if file.number == number), None)
    if first is None:
        raise OptionError(f"the trail has no file {number}", where=Where(source=files[0].path))
    if offset >= first.size > 0:
        problem = f"the offset {offset} is not in the file, which has {first.size} bytes"
        raise OptionError(problem, where=Where(source=first.path))
    for file in files:
        if file.number >= number:
            yield file, offset if file is first else 0


def _json_line(element: ExplainedToken | DamagedSpan, file: str) -> None:
    from trailgate.trail.annotation.output import part_to_json

    named = {"file": file} if file else {}
    print(json.dumps(named | part_to_json(element), ensure_ascii=False))


def _listing() -> Callable[[ExplainedToken | DamagedSpan, str], None]:
    """Return a function that prints the lines of an analyzed element of a trail file.

    On a terminal they are coloured and folded.
    """
    from trailgate.trail.annotation.output import format_listing

    paint, width = output.make_painter(), output.terminal_width()
    if not sys.stdout.isatty():
        return lambda found, _: sys.stdout.writelines(f"{line}\n" for line in format_listing(found))

    def show(element: ExplainedToken | DamagedSpan, _: str) -> None:
        for line in format_listing(element):
            style = "red" if line.bad else "green"
            content, comment = line.content, str(line)[len(line.content) :]
            if content.lstrip().startswith("<"):
                content = paint(content, "blue")
            if len(str(line)) <= width:
                print(content + paint(comment, style))
                continue
            indent = " " * (len(line.content) - len(line.content.lstrip()) + 2)
            if line.content.strip():
                print("\n".join(output.fold(line.content.rstrip(), indent)))
            if comment:
                output.say(f"{indent}# {line.comment}", style, indent=f"{indent}  ")

    return show
