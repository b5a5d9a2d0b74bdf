"""What a capture prints: its progress, the properties without effect, and its summary."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from trailgate.terminal.counts import counts_table, many
from trailgate.terminal.layout import print_rows
from trailgate.terminal.output import painter, printable, say, terminal_width

if TYPE_CHECKING:
    from trailgate.jobs.capture.job import CaptureSummary
    from trailgate.jobs.capture.loading import Loaded

# What was captured before, by the summary's names.
BEFORE: Final = {
    "skipped_files": "skipped: captured before (--again captures them once more)",
    "skipped_operations": "skipped: the trail has their sequence ids",
    "repeated_operations": "skipped: they came before in the same messages",
    "duplicate_messages": "skipped: their message ids (jms.id) came before",
    "continued_files": "grown since captured: only the new lines were taken",
    "changed_files": "captured whole: captured before with other content under the same name",
    "copied_files": "captured whole: captured before under another name",
    "late_operations": "captured with sequence ids lower than the highest in the trail",
}
# Of a bad message's place, by the summary's names.
PLACES: Final = {
    "message": "message",
    "record": "record",
    "line": "line",
    "offset": "byte",
    "table": "table",
    "field": "field",
}
SHOWN: Final = 60  # characters of a bad value
BESIDE: Final = "the trail's files hold none, so move it with them (--format-release 12.2 writes them into the files)"


def print_ignored(loaded: Loaded) -> None:
    """Print on stderr which parameters would change what is captured and are ignored as asked."""
    if loaded.extract is not None:
        for line, text, why in loaded.extract.ignored:
            print(f"ignored: line {line}, {text}: {why}", file=sys.stderr)


def print_notes(loaded: Loaded) -> None:
    """Print on stderr which properties and parameters have no effect, and which defaults are taken."""
    lines = [f"{name}: {reason}" for name, reason in loaded.notes]
    if loaded.extract is not None:
        lines += [f"line {line}, {text}: {why}" for line, text, why in loaded.extract.unused]
    for line in lines:
        say(f"note: {line}", "dim", stderr=True)


def print_summary(summary: CaptureSummary) -> None:
    """Print operations by table and kind, and what was written; on stderr what is worth a note."""
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


def is_bad(summary: CaptureSummary, max_bad: int | None, *, stop: bool) -> bool:
    """Return whether a run's exit code is that of bad input: most is, or, of a dry run, the run would stop."""
    most = 0 if stop and max_bad is None else max_bad
    over = summary.dry_run and most is not None and summary.quarantined > most
    return over or summary.mostly_bad


def _problem(problem: Mapping[str, Any]) -> str:
    """Return a bad message: its place, the value, and what is wrong with it."""
    place = [str(problem.get("source", ""))]
    for name, word in PLACES.items():
        if name in problem:
            place.append(f"{word} {problem[name]}")
    text = problem.get("text")
    shown = "" if text is None else f"{text[:SHOWN]!r}{'...' if len(text) > SHOWN else ''}: "
    hint = f". {problem['hint']}" if "hint" in problem else ""
    return f"{', '.join(place)}: {shown}{problem['problem']}{hint}"


def _print_reasons(reasons: Mapping[str, int]) -> None:
    """Print how often messages are bad for each reason, which is folded between words."""
    rows = [("bad", "reason"), *((f"{count:,}", text) for text, count in reasons.items())]
    size = max(len(count) for count, _ in rows)
    for count, text in rows:
        line, indent = f"{count:>{size}}  {printable(text)}", " " * (size + 2)
        lines = textwrap.wrap(
            line, terminal_width(), subsequent_indent=indent, break_on_hyphens=False
        )
        print("\n".join(painter()(one, "bold") if count == "bad" else one for one in lines))


def _sentences(summary: CaptureSummary) -> Iterator[str]:
    yield (
        f"{many(summary.messages, 'message')}, {many(summary.transactions, 'transaction')}, "
        f"{many(summary.operations, 'operation')}"
    )
    if summary.quarantined:
        target = "" if summary.quarantine is None else f": {summary.quarantine}"
        yield f"quarantined: {_bad_messages(summary)}{target}"
    for name, sentence in BEFORE.items():
        count = getattr(summary, name)
        if count:
            yield f"{many(count, name.rpartition('_')[2].removesuffix('s'))} {sentence}"
    if summary.definitions is not None and summary.files:
        yield f"definitions: {summary.definitions}; {BESIDE}"
    if summary.dry_run:
        yield "dry run: nothing was written"
    elif len(summary.files) > 1:
        yield f"trail: {summary.files[0]} to {summary.files[-1]} of {summary.target}"
    else:
        yield f"trail: {summary.files[0] if summary.files else 'no new file'} of {summary.target}"


def _bad_messages(summary: CaptureSummary) -> str:
    """Return how many messages are bad, and of how many if they are most: a wrong property may be the reason."""
    if not summary.mostly_bad:
        return many(summary.quarantined, "message")
    whole = many(summary.messages, "message")
    if summary.quarantined < summary.messages:
        return f"{summary.quarantined:,} of {whole}, which is most of them"
    return f"{whole}, which is all"
