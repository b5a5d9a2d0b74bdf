"""``trailgate redact``: a trail without its data, to be shown to somebody."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from trailgate.cli.capture_output import many
from trailgate.cli.options import DefinitionsFile, SummaryAsJson, TrailPath
from trailgate.cli.output import done_already, say


def command(  # noqa: PLR0913  one argument an option
    *,
    trail: TrailPath,
    target: Annotated[
        str, typer.Option("--to", metavar="PREFIX", help="The trail to write, as sample/ot.")
    ],
    names: Annotated[
        bool, typer.Option("--names", help="Replace the names of tables and columns too.")
    ] = False,
    key: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Same key, same replacements; default: a new one."),
    ] = None,
    records: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="At most so many records of a file.")
    ] = None,
    definitions: DefinitionsFile = None,
    as_json: SummaryAsJson = False,
) -> None:
    """Write a trail with other values, of the same lengths and forms."""
    from trailgate.jobs.redacting import redact_trail

    summary = redact_trail(
        trail, target, names=names, key=key, records=records, definitions=definitions
    )
    with done_already():
        if as_json:
            print(json.dumps(asdict(summary), ensure_ascii=False))
            return
        say(f"{many(summary.records, 'record')} with other values: {', '.join(summary.files)}")
        for reason, count in summary.left_out.items():
            say(f"left out: {many(count, 'record')}, {reason}")
        for name, count in summary.zeros.items():
            say(f"zeros in place of what is not understood: {count:,} x {name}")
        say("Look before you send it: trailgate show, trailgate analyze")
