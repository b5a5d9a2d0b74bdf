"""``trailgate publish``: the operations of a trail as messages."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from trailgate.cli.capture_output import counts_table, many
from trailgate.cli.options import (
    After,
    AsJson,
    DefinitionsFile,
    Tables,
    TrailPath,
    named_fields,
    named_values,
    position_in,
    takes,
)
from trailgate.cli.output import console, done_already, progress_bar, say
from trailgate.options import Flag

if TYPE_CHECKING:
    from trailgate.jobs.publishing import PublishSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishArguments:
    """What a publication is given: each field is a flag of the command, in the order of its help."""

    target: Annotated[str, Flag("FOLDER", "--to"), "The folder of the messages' files."]
    format: Annotated[
        str,
        Flag("delimited|xml|json|debezium"),
        "The first two are IBM's publications, json is GoldenGate's.",
    ] = "delimited"
    definitions: DefinitionsFile = None
    tables: Tables = None
    after: After = None
    content: Annotated[
        Literal["transaction", "row"] | None, "What a message holds; default transaction."
    ] = None
    max_message_bytes: Annotated[
        int | None, Flag("N", least=1), "The most bytes of a message; default 1048576."
    ] = None
    option: Annotated[
        list[str] | None, Flag("NAME=VALUE"), "An option of the format; repeatable."
    ] = None
    message_per: Annotated[
        Literal["json", "line"], "Lines are JSON objects with a body, or the messages."
    ] = "json"
    as_json: AsJson = False


@takes
def command(trail: TrailPath, given: PublishArguments) -> None:
    """Publish the operations of a trail as messages."""
    from trailgate.jobs.publishing import publish_trail
    from trailgate.storage.files.trail_files import find_trail

    found = find_trail(trail, given.definitions)

    with progress_bar("publishing", unit="operations", show=not given.as_json) as progress:
        own = named_fields(given, "target", "definitions", "option", "as_json")
        own["after"] = position_in(found.files, given.after)
        own["options"] = named_values(given.option or [])
        summary = publish_trail(found, given.target, **own, progress=progress)
    with done_already():
        if given.as_json:
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
