"""``trailgate assumptions``: what is assumed about formats, with reason, place in the code and test."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from trailgate.cli import output
from trailgate.errors import OptionError
from trailgate.model.assumptions import ASSUMPTIONS, Area, as_markdown


def command(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="An object a line.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="The page docs/assumptions.md.")
    ] = False,
) -> None:
    """List what is assumed about formats."""
    if as_json and markdown:
        raise OptionError("--json and --markdown are two forms: choose one")
    with output.quiet_pipe():
        if as_json:
            for row in ASSUMPTIONS:
                print(json.dumps({**row._asdict(), "area": row.area.value}, ensure_ascii=False))
        elif markdown:
            print(as_markdown(), end="")
        else:
            _print()


def _print() -> None:
    console = output.console()
    for area in Area:
        table = output.plain_table(title=area.value)
        for name in ("name", "assumption", "why", "where", "tests"):
            table.add_column(name, overflow="fold")
        for row in (row for row in ASSUMPTIONS if row.area is area):
            why = f"{row.why} ({row.source})" if row.source else row.why
            tests = "\n".join(row.tests) or "none yet"
            cells = (row.name, row.statement, why, "\n".join(row.where), tests)
            table.add_row(*output.as_cells(*cells))
        console.print(table)
    open_ones = [row.name for row in ASSUMPTIONS if not row.tests]
    if open_ones:
        console.print(f"without a test: {', '.join(open_ones)}", style="yellow")
