"""``trailgate explain``: show the matches of the rules for XML messages in one message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trailgate.errors import OptionError, StorageError, TrailgateError, Where, count_noun
from trailgate.terminal.flags import JsonLines, Properties, takes
from trailgate.terminal.output import printable, quiet_pipe, say
from trailgate.terminal.standard_input import STANDARD, standard_input

if TYPE_CHECKING:
    from trailgate.capture.capture import Parsed
    from trailgate.formats.xml.coverage import ExplainedMatch, Explanation

NOTHING: Final = "nothing found"


@takes
def command(
    *,
    message: Annotated[
        str, typer.Argument(metavar="MESSAGE", help="A file with one message, or - (stdin).")
    ],
    properties: Properties,
    as_json: JsonLines = False,
) -> None:
    """Show which rules match in an XML message, and the values that they find."""
    from trailgate.formats.xml.coverage import explain_message
    from trailgate.formats.xml.options import XmlOptions
    from trailgate.jobs.capture.loading import load_with_notes
    from trailgate.messages.message_batch import messages_from

    capture = load_with_notes(properties).capture
    if not isinstance(capture.options, XmlOptions):
        hint = "trailgate capture --dry-run checks messages of the other parsers"
        raise OptionError("rules exist only for parser.type=xml", hint=hint)
    body = _read(message)
    try:
        explanation = explain_message(capture.options, body)
    except TrailgateError as error:
        raise error.with_place(source=message) from None
    parsed = capture.parse(messages_from([body], message))
    with quiet_pipe():
        if as_json:
            print(json.dumps(_as_json(explanation, parsed), ensure_ascii=False))
        else:
            _print(explanation, parsed)


def _read(path: str) -> bytes:
    if path == STANDARD:
        return standard_input().read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        problem = f"the message cannot be read: {error.strerror}"
        raise StorageError(problem, where=Where(source=path)) from None


def _as_json(explanation: Explanation, parsed: Parsed) -> dict[str, object]:
    from trailgate.terminal.plain_values import row_dictionaries

    return {
        **asdict(explanation),
        "operations": row_dictionaries(parsed.operations()),
        "problems": [str(problem.error) for problem in parsed.problems],
    }


def _print(explanation: Explanation, parsed: Parsed) -> None:
    from trailgate.terminal.plain_values import row_dictionaries

    for match in explanation.matches:
        for line, style in _lines(match, ""):
            say(line, style, indent="    ")
    for rule in explanation.unmatched:
        near = f"; the message has {', '.join(rule.like)}" if rule.like else ""
        say(f"{rule.rule}: no match of {rule.match}{near}", "yellow")
    for problem in parsed.problems:
        say(f"error: {problem.error}", "red")
    for row in row_dictionaries(parsed.operations()):
        images = (f"{name} {_image(row[name])}" for name in ("before", "after") if row[name])
        parts = [row["tx_ind"], row["op_type"], row["table"], *images]
        say("  ".join(parts), indent="    ")
    count = parsed.batch.rows
    say(count_noun(count, "operation"))


def _lines(match: ExplainedMatch, indent: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of an XML rule's match, and of the matches inside it, with their styles."""
    yield f"{indent}{match.rule}  {match.element}  line {match.line}", "bold"
    width = max((len(value.name) for value in match.values), default=0)
    for value in match.values:
        shown = NOTHING if value.value is None else printable(value.value)
        style = "dim" if value.value is None else ""
        yield f"{indent}  {value.name:{width}}  {shown}  ({value.source})", style
    for below in match.below:
        yield from _lines(below, indent + "  ")


def _image(values: dict[str, str | None]) -> str:
    shown = (f"{k}={'NULL' if v is None else printable(v)}" for k, v in values.items())
    return ", ".join(shown)
