"""``trailgate copybook``: the layout of a copybook's records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import typer

from trailgate.cli import output
from trailgate.cli.options import takes
from trailgate.cobol.copybook.layouts import BinarySizes, Dialect, Field, Layout, Sign, SourceFormat
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.options import Flag


@takes
def command(
    path: Annotated[str, typer.Argument(help="The copybook.", metavar="FILE")],
    *,
    format: Annotated[Literal["table", "json"], "JSON is an object a line."] = "table",  # noqa: A002  the option's name
    copy_path: Annotated[
        list[str] | None, Flag("FOLDER"), "Where COPY members are searched; repeatable."
    ] = None,
    source_format: Annotated[
        SourceFormat, "Fixed: columns 8 to 72. Free: the whole line."
    ] = SourceFormat.AUTO,
    binary_sizes: Annotated[
        BinarySizes, "Bytes of binary numbers: 2, 4 or 8, or as few as hold them."
    ] = BinarySizes.IBM,
) -> None:
    """Show the layout of a copybook's records."""
    from trailgate.storage.files.found_files import copy_members, folder_of, read_source

    dialect = Dialect(source_format=source_format, binary_sizes=binary_sizes)
    folders = [*(copy_path or ()), folder_of(path)]
    layouts = read_copybook(
        read_source(path), source=path, dialect=dialect, member=copy_members(folders)
    )
    with output.quiet_pipe():
        if format == "json":
            for layout in layouts:
                for field in layout.root.walk():
                    print(json.dumps(_facts(layout, field)))
        else:
            _print(layouts)


def _facts(layout: Layout, field: Field) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "record": layout.name,
        "level": field.level,
        "name": field.name,
        "picture": field.picture or None,
        "type": _type(field),
        "offset": field.offset,
        "length": field.size,
        "occurs": _occurs(field) or None,
        "redefines": field.redefines,
        "key": field.key,
    }
    if field.number is not None:
        facts |= {"digits": field.number.digits, "scale": field.number.scale}
    if field.conditions:
        facts["conditions"] = {c.name: [list(v) for v in c.values] for c in field.conditions}
    return facts


def _print(layouts: list[Layout]) -> None:
    from trailgate.cli.rows import plain_row, print_rows

    rows = [
        plain_row(
            (
                f"{'  ' * depth}{field.level:02d}",
                field.name,
                field.picture,
                _type(field),
                f"{field.offset:>6}",
                f"{field.size:>6}",
                "key" if field.key else "",
            ),
            [output.printable(remark) for remark in _remarks(field)],
        )
        for layout in layouts
        for depth, field in _walk(layout.root, 0)
    ]
    print_rows(("level", "name", "picture", "type", "offset", "length", "key"), "remarks", rows)


def _walk(field: Field, depth: int) -> Iterator[tuple[int, Field]]:
    yield depth, field
    for child in field.children:
        yield from _walk(child, depth + 1)


def _type(field: Field) -> str:
    number = field.number
    if number is None:
        return field.usage.value
    form = f"({number.digits},{number.scale})" if number.scale else f"({number.digits})"
    signed = " signed" if number.signed else ""
    return f"{field.usage.value}{form}{signed}"


def _occurs(field: Field) -> str:
    if field.occurs is None:
        return ""
    if field.occurs.counter:
        return f"{field.occurs.least} to {field.occurs.most} by {field.occurs.counter}"
    return str(field.occurs.most)


def _remarks(field: Field) -> Iterator[str]:
    if field.occurs is not None:
        yield f"occurs {_occurs(field)}"
    if field.number is not None and field.number.sign not in (Sign.NONE, Sign.TRAILING):
        yield f"sign {field.number.sign.value}"
    if field.redefines:
        yield f"redefines {field.redefines}"
    if field.date_format:
        yield f"date {field.date_format}"
    for condition in field.conditions:
        yield f"{condition.name} if " + ", ".join(
            f"{low} to {high}" if high else low for low, high in condition.values
        )
