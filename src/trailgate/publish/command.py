"""``trailgate publish``: publish the operations of a trail as messages."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

from trailgate.live.brokers.address import is_address
from trailgate.options import TEXT, Flag
from trailgate.terminal.counts import count_noun, counts_table
from trailgate.terminal.layout import print_rows
from trailgate.terminal.options import (
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
from trailgate.terminal.output import progress_bar, report_finished, say

if TYPE_CHECKING:
    from trailgate.publish.job import PublishSummary
EXAMPLES: Final = (
    "trailgate publish dirdat/ot --to out/ --format json",
    "trailgate publish dirdat/ot --to 'kafka://host/${table}' --format debezium",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishArguments:
    """The arguments of ``trailgate publish``: each field is a flag, in the order of the help."""

    target: Annotated[
        str,
        Flag("FOLDER|ADDRESS", "--to"),
        "Where the messages go: a folder, or a broker such as kafka://host/shop.${schema}.${table}.",
    ]
    format: Annotated[
        str,
        Flag("FORMAT"),
        "IBM event publications (delimited, xml), or the JSON of GoldenGate or Debezium. Values: delimited, xml, json, debezium.",
    ] = "delimited"
    definitions: DefinitionsFile = None
    tables: Tables = None
    after: After = None
    content: Annotated[
        Literal["transaction", "row"] | None,
        "Whether a message holds a transaction or a row; default transaction.",
    ] = None
    max_message_bytes: Annotated[
        int | None, Flag("N", least=1), "The maximum size of a message in bytes; default 1048576."
    ] = None
    group: Annotated[
        str | None,
        TEXT,
        Flag("NAME"),
        "The name under which a broker keeps the position; default the trail's name.",
    ] = None
    option: Annotated[
        list[str] | None, Flag("NAME=VALUE"), "An option of the format; repeatable."
    ] = None
    message_per: Annotated[
        Literal["json", "line"], "Write each message as a JSON object with a body, or as a line."
    ] = "json"
    as_json: AsJson = False


@takes
def command(trail: TrailPath, given: PublishArguments) -> None:
    """Publish the operations of a trail as messages."""
    from trailgate.publish.job import publish_trail
    from trailgate.storage.files.trail_files import find_trail

    files = find_trail(trail, given.definitions)

    with progress_bar("publishing", unit="operations", show=not given.as_json) as progress:
        named = named_fields(given, "target", "definitions", "option", "as_json")
        named["after"] = position_in(files.files, given.after)
        named["options"] = named_values(given.option or [])
        summary = publish_trail(files, given.target, **named, progress=progress)
    with report_finished():
        if given.as_json:
            print(json.dumps(asdict(summary), ensure_ascii=False))
        else:
            _print(summary)


def _print(summary: PublishSummary) -> None:
    if summary.counts:
        print_rows(*counts_table(summary.counts))
    sentence = (
        f"{count_noun(summary.messages, 'message')}, {count_noun(summary.transactions, 'transaction')}, "
        f"{count_noun(summary.operations, 'operation')}"
    )
    say(sentence)
    for pattern in summary.unmatched:
        say(f"note: no table in the data matches {pattern}", stderr=True)
    if summary.open_operations:
        left = count_noun(summary.open_operations, "operation")
        say(f"left for a later run: {left} of an open transaction")
    if is_address(summary.target):
        say(f"sent {summary.guarantee}: {summary.target}")
        return
    files = summary.files
    what = "no new file" if not files else files[0]
    if len(files) > 1:
        what += f" to {files[-1]}"
    say(f"messages: {what} in {summary.target}")
