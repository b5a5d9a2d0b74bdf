"""Recognize the repaired messages of a trail's own quarantine, so that each is captured once.

The trail is captured from files. A line of its quarantine that is captured, repaired or not, has
the quarantine's ``source``, ``position`` and ``reason``. Their digests are in the trail's manifest
(``repaired``). If the repaired copy is bad again, it is quarantined as a message of its own file,
and stands for the first one from then on, so that one's digest is in the manifest too.

A run that repeats such a message is refused before anything is written, and so is a run that
repairs only a part of a transaction (``repaired_units.py``). Message files may have lines of other
quarantines, which are like other messages.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from trailgate.capture.capture import Capture
from trailgate.errors import DecodeError, StorageError, shown_source
from trailgate.jobs.capture.repaired_units import Candidate, check_repaired_units
from trailgate.messages.units import TransactionState
from trailgate.storage.reading.message_files import MessageFile
from trailgate.storage.reading.quarantine_lines import (
    DIGEST,
    QuarantineLine,
    find_quarantine_lines,
)

NAMED: Final = 10  # stretches of lines that an error lists
UNKNOWN: Final = "Restore the file: without it, lines that were captured before are not recognized. If they are lines of another trail's quarantine, --again captures them without this check"

_Faults = Mapping[tuple[str, str], DecodeError]


@dataclass(frozen=True, slots=True)
class TrailQuarantine:
    """The quarantine of a trail that is captured from files, in a file for all runs or for each.

    ``repaired`` are the digests of the messages that were repaired and captured before, as in the
    manifest. With ``again``, they may be captured once more. ``check`` raises StorageError if the
    files are not as the capture has written them.
    """

    files: Sequence[MessageFile]
    check: Callable[[], None]
    repaired: str = ""
    again: bool = False

    def known(self) -> Counter[str]:
        """Count the messages that were captured before by digest."""
        begins = range(0, len(self.repaired), DIGEST)
        return Counter(self.repaired[begin : begin + DIGEST] for begin in begins)

    def count(self, digests: Iterable[str]) -> Counter[str]:
        """Count the quarantine's messages with these digests.

        There are several with one digest if a file was replaced by another of its name, and both
        have the same fault at the same place.
        """
        wanted = {*digests}
        lines = (line for file in self.files for line in find_quarantine_lines(file))
        return Counter(line.digest for line in lines if line.digest in wanted)

    def candidates(
        self, repaired: Mapping[str, Sequence[QuarantineLine]], faults: _Faults
    ) -> Iterator[Candidate]:
        """Yield the messages that were not captured before, with the lines that repair them."""
        known = Counter[str]() if self.again else self.known()
        passed: Counter[str] = Counter()
        for file in self.files:
            is_apart = True  # the first message of a file continues nothing in the file before it
            for line in find_quarantine_lines(file):
                if line.fault is not None:
                    continue
                if known[line.digest]:
                    known[line.digest] -= 1
                    is_apart = True
                    continue
                own = repaired.get(line.digest)
                if own is None:
                    fault = faults.get((line.source, line.position)) or faults.get(("", ""))
                    yield Candidate(line, is_repaired=False, is_apart=is_apart, fault=fault)
                else:
                    at = min(passed[line.digest], len(own) - 1)
                    passed[line.digest] += 1
                    yield Candidate(own[at], is_repaired=True, is_apart=is_apart)
                is_apart = False


def check_repaired_files(
    capture: Capture,
    files: Iterable[MessageFile],
    quarantine: TrailQuarantine,
    state: TransactionState,
) -> str:
    """Check the lines of message files that repair messages of the trail's quarantine.

    Returns the digests of these messages, to add to the manifest. Raises DecodeError if a message
    was captured before or is in the files twice, TransactionError if only some messages of a
    transaction are repaired, and StorageError if the quarantine was deleted or edited. `state` is
    the state at the end of the trail.
    """
    lines: list[QuarantineLine] = []
    faults: dict[tuple[str, str], DecodeError] = {}
    for line in (line for file in files if file.json for line in find_quarantine_lines(file)):
        if line.fault is not None:
            key = (line.source, line.position)
            faults.setdefault(key if all(key) else ("", ""), line.fault)
        if line.digest:
            # The messages themselves are only needed to find transactions.
            lines.append(line if capture.spans_messages else replace(line, body=b"", headers={}))
    if not lines:
        return ""
    if not quarantine.again:
        _check_unchanged(quarantine)
    own = quarantine.count(line.digest for line in lines)
    added = _check_repeats(lines, own, quarantine)
    if capture.spans_messages and own:
        repaired: defaultdict[str, list[QuarantineLine]] = defaultdict(list)
        for line in lines:
            if line.fault is None:
                repaired[line.digest].append(line)
        candidates = quarantine.candidates(repaired, faults)
        check_repaired_units(capture, candidates, state)
    return "".join(sorted(added.elements()))


def _check_unchanged(quarantine: TrailQuarantine) -> None:
    """Raise StorageError if the quarantine was deleted or edited: nobody knows then which lines repair its messages."""
    try:
        quarantine.check()
    except StorageError as error:
        error.hint = UNKNOWN
        raise


def _check_repeats(
    lines: Iterable[QuarantineLine], own: Counter[str], quarantine: TrailQuarantine
) -> Counter[str]:
    """Raise DecodeError if lines repeat messages of the quarantine, or return the digests to add, counted.

    `own` counts the quarantine's messages by digest.
    """
    known = quarantine.known()
    most = own | known  # with --again, the quarantine may have been deleted since
    before = Counter[str]() if quarantine.again else known
    first: dict[str, QuarantineLine] = {}
    passed: Counter[str] = Counter()
    repeats: list[QuarantineLine] = []
    for line in lines:
        if not most[line.digest]:
            continue  # of another quarantine
        passed[line.digest] += 1
        if passed[line.digest] + before[line.digest] > most[line.digest]:
            if not before[line.digest]:
                raise _duplicate(line, first[line.digest])
            # Some of several messages with this digest were captured, and not all.
            if before[line.digest] < most[line.digest]:
                raise _ambiguous(line, first[line.digest])
            repeats.append(line)
        first.setdefault(line.digest, line)
    if repeats:
        raise _repeated(repeats)
    return ((known + passed) & most) - known


def _duplicate(line: QuarantineLine, first: QuarantineLine) -> DecodeError:
    problem = f"the quarantined message that this line repairs is also in {shown_source(first.path)}, line {first.number}"
    return DecodeError(problem, where=line.where, hint="Keep only the line that is right")


def _ambiguous(line: QuarantineLine, first: QuarantineLine) -> DecodeError:
    """Build the error of two lines of which one was captured before. Both have the same source, position and reason."""
    problem = f"this line repairs a message with the same source, position and reason as {shown_source(first.path)}, line {first.number}, and one of the two was captured before"
    hint = "Remove the one that was captured: only its contents tell which it is"
    return DecodeError(problem, where=line.where, hint=hint)


def _repeated(lines: Sequence[QuarantineLine]) -> DecodeError:
    """Build the error of lines that repeat messages. It is located at the first line, and lists all lines of that file."""
    first = lines[0]
    problem = f"a copy of this message was captured or quarantined again before: it is the quarantine's message of {first.source} at position {first.position}"
    numbers = [line.number for line in lines if line.path == first.path]
    noun = "line" if len(numbers) == 1 else "lines"
    hint = f"Remove {noun} {_stretches(numbers)} of this file. If a copy was quarantined again, repair that copy's own line; --again captures messages once more"
    return DecodeError(problem, where=first.where, hint=hint)


def _stretches(numbers: Iterable[int]) -> str:
    """Format ascending numbers of lines: 1, 2, 3 and 7 as ``1-3, 7``."""
    stretches: list[tuple[int, int]] = []
    for number in numbers:
        if stretches and stretches[-1][1] == number - 1:
            stretches[-1] = (stretches[-1][0], number)
        else:
            stretches.append((number, number))
    texts = [str(begin) if begin == end else f"{begin}-{end}" for begin, end in stretches[:NAMED]]
    return ", ".join(texts) + (" and more" if len(stretches) > NAMED else "")
