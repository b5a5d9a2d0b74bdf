"""``trailgate publish``: the operations of a trail as messages."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from trailgate.cli.capture_output import counts_table, many
from trailgate.cli.options import DefinitionsFile, SummaryAsJson, TrailPath, named_values
from trailgate.cli.output import console, done_already, progress_bar, say

if TYPE_CHECKING:
    from trailgate.jobs.publishing import PublishSummary


class PublishPer(StrEnum):
    """What a line of the files is."""

    JSON = "json"
    LINE = "line"


class Content(StrEnum):
    """What a message holds."""

    TRANSACTION = "transaction"
    ROW = "row"


def command(  # noqa: PLR0913  one argument an option
    *,
    trail: TrailPath,
    target: Annotated[
        str, typer.Option("--to", metavar="FOLDER", help="The folder of the messages' files.")
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="delimited or xml, IBM's publications; json, GoldenGate's; debezium.",
        ),
    ] = "delimited",
    definitions: DefinitionsFile = None,
    tables: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERNS", help="Only these tables, as HR.*; repeatable."),
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="POSITION", help="Begin after this position.")
    ] = None,
    content: Annotated[
        Content | None, typer.Option(help="What a message holds; default transaction.")
    ] = None,
    max_message_bytes: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The most bytes of a message; default 1048576."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of the format; repeatable."),
    ] = None,
    message_per: Annotated[
        PublishPer, typer.Option(help="Lines are JSON objects with a body, or the messages.")
    ] = PublishPer.JSON,
    as_json: SummaryAsJson = False,
) -> None:
    """Publish the operations of a trail as messages."""
    from trailgate.jobs.publishing import publish_trail

    with progress_bar("publishing", unit="operations", show=not as_json) as progress:
        summary = publish_trail(
            trail,
            target,
            form,
            tables=tables,
            after=after,
            definitions=definitions,
            message_per=message_per.value,
            content=None if content is None else content.value,
            max_message_bytes=max_message_bytes,
            options=named_values(option or []),
            progress=progress,
        )
    with done_already():
        if as_json:
            print(json.dumps(asdict(summary), ensure_ascii=False))
        else:
            _print(summary)


def _print(summary: PublishSummary) -> None:
    if summary.counts:
        console().print(counts_table(summary.counts))
    sentence = (
        f"{many(summary.messages, 'message')}, {many(summary.transactions, 'transaction')}, "
        f"{many(summary.operations, 'operation')}"
    )
    say(sentence)
    for pattern in summary.unmatched:
        say(f"note: no table that was read is {pattern}", stderr=True)
    if summary.open_operations:
        left = many(summary.open_operations, "operation")
        say(f"left for a later run: {left} of an open transaction")
    files = summary.files
    what = "no new file" if not files else files[0]
    if len(files) > 1:
        what += f" to {files[-1]}"
    say(f"messages: {what} in {summary.target}")
