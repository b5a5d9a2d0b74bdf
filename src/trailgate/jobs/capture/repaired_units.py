"""Find transactions of which a repair would capture only some messages.

All messages of a bad message's transaction are quarantined. If some of them are repaired and others
are omitted, the messages alone may not show it: of begin, middle and end, the middle can be
missing. So the quarantine is parsed with the repaired messages in place of the original ones, and
each unit (``messages/units.py``) has to be repaired completely or not at all.

`check_repaired_files` does this for a trail that is captured from files, whose quarantine is the only
record of a repair. Message files may have lines of other quarantines, which are like other messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, NamedTuple

from trailgate.capture.capture import Capture
from trailgate.errors import TransactionError
from trailgate.messages.units import TransactionState
from trailgate.storage.reading.message_files import MessageFile
from trailgate.storage.reading.quarantine_lines import (
    QuarantineLine,
    find_quarantine_lines,
    messages_of_lines,
)

PART: Final = 1 << 13  # messages parsed at once
HINT: Final = "Repair that line too: the messages of a transaction are captured together. If that message has nothing to capture, empty its body (of formats that skip empty messages)"


class Candidate(NamedTuple):
    """A quarantined message that is not in the trail yet, with its repaired contents if it ``is_repaired``.

    ``is_apart`` is set if the message before it in the quarantine is in the trail, so that this one
    does not continue a transaction.
    """

    line: QuarantineLine
    is_repaired: bool
    is_apart: bool = False


@dataclass(slots=True)
class _Unit:
    """The first repaired message of a unit, and the first one that is missing.

    ``is_bad`` is set if a repaired message is still bad, which has an error of its own.
    """

    repaired: QuarantineLine | None = None
    missing: QuarantineLine | None = None
    is_bad: bool = False

    def add(self, candidate: Candidate, *, bad: bool) -> None:
        """Add a message to the unit."""
        if candidate.is_repaired:
            self.repaired = self.repaired or candidate.line
            self.is_bad |= bad
        else:
            self.missing = self.missing or candidate.line

    def check(self) -> None:
        """Raise TransactionError if the unit is repaired in part."""
        if self.repaired is None or self.missing is None or self.is_bad:
            return
        missing = self.missing
        problem = f"a message of its transaction is missing: position {missing.position}, which is line {missing.number} of {missing.path}"
        raise TransactionError(problem, where=self.repaired.where, hint=HINT)


def check_repaired_units(
    capture: Capture, candidates: Iterable[Candidate], state: TransactionState
) -> None:
    """Raise TransactionError if only some messages of a transaction are repaired.

    `candidates` are the messages of a quarantine in its order, and `state` precedes the first one.
    Messages without operations do not count.
    """
    capture, unit = replace(capture), _Unit()  # a parser of its own
    rest = iter(candidates)
    while part := list(islice(rest, PART)):
        parsed = capture.parse(messages_of_lines([one.line for one in part]), state)
        state = parsed.state
        bad = {*parsed.problems.message.tolist()}
        skipped = {*parsed.skipped.message.tolist()}
        for row, (candidate, starts) in enumerate(zip(part, parsed.starts_unit, strict=True)):
            if starts or candidate.is_apart:
                unit.check()
                unit = _Unit()
            if row not in skipped:
                unit.add(candidate, bad=row in bad)
    unit.check()


def check_repaired_files(
    capture: Capture,
    files: Iterable[MessageFile],
    quarantine: Iterable[MessageFile],
    state: TransactionState,
) -> None:
    """Raise TransactionError if message files have only some messages of a transaction in a trail's `quarantine`.

    `state` is the state at the end of the trail. The quarantine has a file for all runs or for each.
    """
    lines = (line for file in files if file.json for line in find_quarantine_lines(file))
    repaired = {_key(line): line for line in lines}
    if not repaired:
        return

    def candidates() -> Iterator[Candidate]:
        for file in quarantine:
            for at, line in enumerate(find_quarantine_lines(file)):
                own = repaired.get(_key(line))
                # The first message of a file continues nothing in the file before it.
                yield Candidate(own or line, own is not None, is_apart=at == 0)

    check_repaired_units(capture, candidates(), state)


def _key(line: QuarantineLine) -> tuple[str, str, str]:
    """Return what identifies a quarantined message: a file can be replaced, so its place is not enough."""
    return line.source, line.position, line.reason
