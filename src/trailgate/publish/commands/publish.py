"""``trailgate publish``: publish the operations of a trail as messages."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from trailgate.errors import OptionError, count_noun
from trailgate.live.brokers.address import is_address
from trailgate.options import TEXT, Flag
from trailgate.terminal.flags import (
    After,
    AsJson,
    DefinitionsFile,
    Tables,
    TrailPath,
    complete_position_flag,
    named_fields,
    named_values,
    takes,
)
from trailgate.terminal.output import NOT_ALL, log_to_stderr, progress_bar, report_finished, say

if TYPE_CHECKING:
    from trailgate.storage.files.trail_files import TrailFiles

# Artemis does not show a message that a consumer holds.
NO_POSITION: Final = "no position was found: nothing has been published, or a running publication holds the position of its queue"
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
        "Where the messages go: a folder, or a topic such as kafka://host/NAME, in which NAME may contain ${schema} and ${table}.",
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
    follow: Annotated[bool, "Keep publishing to a broker as the trail grows, until stopped."] = (
        False
    )
    status: Annotated[bool, "Show up to which position the trail is published."] = False
    metrics: Annotated[
        str | None,
        TEXT,
        Flag("PORT|FILE"),
        "With --follow: metrics for Prometheus, a port to serve them at, or a .prom file.",
    ] = None
    as_json: AsJson = False


@takes
def command(trail: TrailPath, given: PublishArguments) -> None:
    """Publish the operations of a trail as messages."""
    publish(trail, given)


def publish(trail: str, given: PublishArguments) -> None:
    """Publish a trail, or only show the state of its publication, and print the result."""
    from trailgate.publish.commands.follow import follow_trail
    from trailgate.publish.commands.output import print_guarantee, print_summary
    from trailgate.publish.job import Publication, PublicationSettings
    from trailgate.storage.files.trail_files import find_trail

    if given.follow and given.status:
        raise OptionError("--follow and --status exclude each other")
    if given.follow and not is_address(given.target):
        raise OptionError("--follow publishes to brokers, not to folders")
    if given.metrics is not None and not given.follow:
        raise OptionError("--metrics needs --follow", hint="Add --follow")
    files = find_trail(trail, given.definitions)
    named = named_fields(
        given, "target", "definitions", "option", "as_json", "follow", "status", "metrics"
    )
    named["after"] = complete_position_flag(files.files, given.after)
    named["options"] = named_values(given.option or [])
    settings = PublicationSettings(**named)
    if given.status:
        settings.of_format()  # wrong options are errors here too
        _show_status(given, files)
        return
    if is_address(given.target):
        log_to_stderr(logging.getLogger("trailgate.brokers"))
    if given.follow:
        summary, lacks_operations = follow_trail(
            trail,
            given.target,
            settings,
            given.definitions,
            metrics=given.metrics,
            as_json=given.as_json,
        )
    else:
        with Publication(files, given.target, settings) as publication:
            if is_address(given.target) and not given.as_json:
                print_guarantee(publication.guarantee, given.target)
            with progress_bar("publishing", unit="operations", show=not given.as_json) as progress:
                publication.run(progress)
        summary, lacks_operations = publication.summary(), publication.lacks_operations
    with report_finished():
        if given.as_json:
            print(json.dumps(asdict(summary), ensure_ascii=False))
        else:
            print_summary(summary)
    if lacks_operations:
        raise typer.Exit(NOT_ALL)


def _show_status(given: PublishArguments, files: TrailFiles) -> None:
    """Print the state of a publication."""
    from trailgate.model.positions import short_position
    from trailgate.publish.job import read_status

    state = read_status(files, given.target, given.group)
    if given.as_json:
        print(json.dumps(None if state is None else asdict(state), ensure_ascii=False))
    elif state is None:
        say(NO_POSITION if is_address(given.target) else "nothing is published")
    else:
        counts = (
            f"{count_noun(state.messages, 'message')}, {count_noun(state.operations, 'operation')}"
        )
        say(
            f"published up to {short_position(state.position)}: {counts}"
            if state.position
            else counts
        )
