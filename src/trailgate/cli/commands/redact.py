"""``trailgate redact``: write a copy of a trail with replaced values, which may be shared."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Annotated

from trailgate.errors import count_noun, mask_logins
from trailgate.options import Flag
from trailgate.terminal.flags import AsJson, DefinitionsFile, TrailPath, named_fields, takes
from trailgate.terminal.output import report_finished, say


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactArguments:
    """The arguments of ``trailgate redact``: each field is a flag, in the order of the help."""

    target: Annotated[str, Flag("PREFIX", "--to"), "The trail to write, such as sample/ot."]
    names: Annotated[bool, "Also replace the names of tables and columns."] = False
    key: Annotated[
        str | None, Flag("TEXT"), "The same key gives the same replacements; default a random one."
    ] = None
    records: Annotated[
        int | None, Flag("N", "--limit", least=1), "The maximum number of records per file."
    ] = None
    definitions: DefinitionsFile = None
    as_json: AsJson = False


@takes
def command(trail: TrailPath, arguments: RedactArguments) -> None:
    """Write a copy of a trail whose values are replaced by others of the same length and format."""
    from trailgate.jobs.redacting import redact_trail

    summary = redact_trail(trail, arguments.target, **named_fields(arguments, "target", "as_json"))
    with report_finished():
        if arguments.as_json:
            print(json.dumps(asdict(summary), ensure_ascii=False))
            return
        say(
            f"{count_noun(summary.records, 'record')} with other values: {', '.join(summary.files)}"
        )
        for reason, count in summary.left_out.items():
            say(f"skipped: {count_noun(count, 'record')}, {reason}")
        for name, count in summary.zeros.items():
            say(f"replaced by zeros, because not understood: {count:,} x {name}")
        for notice in summary.notices:
            say(
                f"note: {notice}. trailgate check {mask_logins(trail)} lists the damage",
                stderr=True,
            )
        say("Check the result before you send it: trailgate show, trailgate analyze")
