"""``trailgate init``: propose properties for a first capture from sample messages."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trailgate.errors import OptionError, Where
from trailgate.jobs.capture.options import MessagePer
from trailgate.options import Flag
from trailgate.storage.files.durable import convert_write_errors, replace_whole_file
from trailgate.terminal.flags import takes
from trailgate.terminal.output import quiet_pipe, report_finished, say
from trailgate.terminal.standard_input import buffer_input, is_standard_input_or_pipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trailgate.jobs.proposals import Proposal
    from trailgate.jobs.proposals.proposal import Sample

PROPERTIES: Final = "dirprm"
TRAIL: Final = "dirdat/ot"
UNNAMED: Final = "capture"  # the name of the properties if messages come from standard input
EXIT_CODES: Final = (
    "0 a capture with the properties succeeds",
    "1 it stops until something is filled in, or the format is not recognized",
    "2 wrong usage, or the file exists already",
    "3 a file cannot be written",
)
EXAMPLES: Final = (
    "trailgate init --from messages",
    "trailgate init --from messages --to .",
    "trailgate init --from export.csv --message-per line > dirprm/export.properties",
)


@takes
def command(
    *,
    source: Annotated[
        list[str],
        Flag("PATH", "--from"),
        "A folder of messages, a file, a pattern, or - (stdin); repeatable.",
    ],
    to: Annotated[
        Path | None,
        Flag("FOLDER"),
        "Write dirprm/NAME.properties below this folder; default stdout.",
    ] = None,
    message_per: MessagePer = "file",
) -> None:
    """Propose the properties of a capture from messages."""
    from trailgate.jobs.proposals.proposal import read_sample
    from trailgate.live.jobs.source import broker_address

    if broker_address(source, {}) is not None:
        hint = "Save some messages of the broker as files, and name their folder"
        raise OptionError("init reads files, not brokers", hint=hint)
    path = (to or Path()) / PROPERTIES / f"{_name(source)}.properties"
    if to is not None and path.exists():
        hint = "Name another folder, or move the file away"
        raise OptionError("the file exists already", where=Where(source=str(path)), hint=hint)
    with buffer_input(source) as sources:
        sample = read_sample(sources, per_line=message_per == "line")
    proposal = sample.propose()
    if to is None:
        with quiet_pipe():
            print(proposal.text, end="")
    else:
        with convert_write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_whole_file(path, proposal.text.encode())
    trying = ["--properties", str(path), "--from", *_between(source)]
    trying += ["--to", str((to or Path()) / TRAIL), "--dry-run"]
    trying += ["--message-per", "line"] if message_per == "line" else []
    with report_finished():
        _print_state(proposal, path, sample, to_file=to is not None)
        # The command is printed on one line, so that it can be copied.
        print(f"  trailgate capture {shlex.join(trying)}", file=sys.stderr if to is None else None)
    if proposal.error is not None:
        raise typer.Exit(1)


def _name(source: Sequence[str]) -> str:
    """Derive a name for the properties from the first folder or file of messages."""
    if is_standard_input_or_pipe(source[0]):
        return UNNAMED
    plain = Path(source[0].rpartition("://")[2])
    parts = [part for part in plain.parts if not set(part) & set("*?[")]
    name = re.sub(r"[^\w-]+", "_", Path(parts[-1]).stem).strip("_") if parts else ""
    return name or UNNAMED  # no letter is left of "." and ".."


def _between(source: Sequence[str]) -> list[str]:
    """Return the addresses for the command line, with ``--from`` before each but the first."""
    return [word for one in source for word in ("--from", one)][1:]


def _print_state(proposal: Proposal, path: Path, sample: Sample, *, to_file: bool) -> None:
    """Print notes on the messages, the values that the user has to fill in, and the next step.

    They are printed to stderr if the properties themselves are printed to stdout.
    """
    to_stderr = not to_file
    if to_file:
        say(f"properties: {path}")
    if sample.empty_note:
        say(f"note: {sample.empty_note}", stderr=True)
    if sample.cut:
        say("only the first megabytes of the messages were examined", stderr=to_stderr)
    for sentence in proposal.open:
        say(f"to fill in: {sentence}", stderr=to_stderr)
    say("Try it:" if to_file else f"Save it as {path}, and try it:", stderr=to_stderr)
