"""Print a capture's progress, its properties without effect, and its summary."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from trailgate.errors import count_noun
from trailgate.terminal.layout import counts_table, print_rows
from trailgate.terminal.output import make_painter, printable, say, terminal_width

if TYPE_CHECKING:
    from trailgate.jobs.capture.loading import LoadedCapture
    from trailgate.jobs.capture.summary import CaptureSummary

# Further counts of the input, by the summary's names, each with its sentence for one and for several.
COUNTED: Final = {
    "skipped_files": (
        "skipped: captured before (--again captures it once more)",
        "skipped: captured before (--again captures them once more)",
    ),
    "skipped_operations": (
        "skipped: the trail has its sequence id",
        "skipped: the trail has their sequence ids",
    ),
    "repeated_operations": (
        "skipped: it is repeated in the same messages",
        "skipped: they are repeated in the same messages",
    ),
    "duplicate_messages": (
        "skipped: its message id (jms.id) was seen before",
        "skipped: their message ids (jms.id) were seen before",
    ),
    "skipped_messages": (
        "skipped: it contains no operation",
        "skipped: they contain no operation",
    ),
    "continued_files": ("grown since the last capture: only the new lines were captured",) * 2,
    "changed_files": (
        "captured completely: captured before with other content under the same name",
    )
    * 2,
    "copied_files": ("captured completely: captured before under another name",) * 2,
    "late_operations": (
        "captured with a sequence id lower than the highest in the trail",
        "captured with sequence ids lower than the highest in the trail",
    ),
}
# The members of a bad message's place, by the summary's names, each with its label.
PLACES: Final = {
    "begin": "message at byte",
    "message": "message",
    "record": "record",
    "line": "line",
    "offset": "byte",
    "table": "table",
    "field": "field",
}
SHOWN: Final = 60  # the most characters shown of a bad value
BESIDE: Final = "the trail's files contain none, so move this file with them (--format-release 12.2 writes them into the files)"


def print_ignored(loaded: LoadedCapture) -> None:
    """Print on stderr the parameters that would change the result of a capture, but are ignored at the user's request."""
    if loaded.extract is not None:
        for line, text, why in loaded.extract.ignored:
            print(f"ignored: line {line}, {text}: {why}", file=sys.stderr)


def print_notes(loaded: LoadedCapture) -> None:
    """Print on stderr the properties and parameters of a capture that have no effect, and the defaults used."""
    lines = [f"{name}: {reason}" for name, reason in loaded.notes]
    if loaded.extract is not None:
        lines += [f"line {line}, {text}: {why}" for line, text, why in loaded.extract.unused]
    for line in lines:
        say(f"note: {line}", "dim", stderr=True)


def print_summary(summary: CaptureSummary) -> None:
    """Print the summary of a capture: operations by table and type, and the files written.

    Notes are printed on stderr.
    """
    for problem in summary.problems:
        print(printable(_problem(problem)))
    if summary.reasons:
        _print_reasons(summary.reasons)
    if summary.counts:
        print_rows(*counts_table(summary.counts))
    for line in _sentences(summary):
        say(line)
    for note in summary.notes:
        say(f"note: {note}", stderr=True)


def _problem(problem: Mapping[str, Any]) -> str:
    """Format a bad message of a dry run: its location, the value, the problem and a hint."""
    parts = [str(problem.get("source", ""))]
    for name, word in PLACES.items():
        if name in problem:
            parts.append(f"{word} {problem[name]}")
    text = problem.get("text")
    shown = "" if text is None else f"{text[:SHOWN]!r}{'...' if len(text) > SHOWN else ''}: "
    hint = f". {problem['hint']}" if "hint" in problem else ""
    return f"{', '.join(parts)}: {shown}{problem['problem']}{hint}"


def _print_reasons(reasons: Mapping[str, int]) -> None:
    """Print how many messages of a capture are bad for each reason. Long reasons are folded."""
    rows = [("bad", "reason"), *((f"{count:,}", text) for text, count in reasons.items())]
    size = max(len(count) for count, _ in rows)
    for count, text in rows:
        line, indent = f"{count:>{size}}  {printable(text)}", " " * (size + 2)
        lines = textwrap.wrap(
            line, terminal_width(), subsequent_indent=indent, break_on_hyphens=False
        )
        print("\n".join(make_painter()(one, "bold") if count == "bad" else one for one in lines))


def _sentences(summary: CaptureSummary) -> Iterator[str]:
    yield (
        f"{count_noun(summary.messages, 'message')}, {count_noun(summary.transactions, 'transaction')}, "
        f"{count_noun(summary.operations, 'operation')}"
    )
    if summary.quarantined:
        target = "" if summary.quarantine is None else f": {summary.quarantine}"
        yield f"quarantined: {_bad_messages(summary)}{target}"
    for name, (of_one, of_several) in COUNTED.items():
        count = getattr(summary, name)
        if count:
            # the noun is the last word of the count's name: skipped_files → file
            counted = count_noun(count, name.rpartition("_")[2].removesuffix("s"))
            yield f"{counted} {of_one if count == 1 else of_several}"
    if summary.definitions is not None and summary.files:
        yield f"definitions: {summary.definitions}; {BESIDE}"
    if summary.dry_run:
        yield "dry run: nothing was written"
    elif len(summary.files) > 1:
        yield f"trail: {summary.files[0]} to {summary.files[-1]} of {summary.target}"
    else:
        yield f"trail: {summary.files[0] if summary.files else 'no new file'} of {summary.target}"


def _bad_messages(summary: CaptureSummary) -> str:
    """Return the number of bad messages of a capture in words, with the total if most are bad.

    In that case a wrong property is the likely reason.
    """
    if not summary.mostly_bad:
        return count_noun(summary.quarantined, "message")
    if summary.skipped_messages:
        return f"{count_noun(summary.quarantined, 'message')}, which is more than were captured"
    total = count_noun(summary.messages, "message")
    if summary.quarantined < summary.messages:
        return f"{summary.quarantined:,} of {total}, which is most of them"
    return f"{total}, which is all"
