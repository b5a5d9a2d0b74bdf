"""Find transactions of which a repair would capture only some messages.

All messages of a bad message's transaction are quarantined. If some of them are repaired and others
are omitted, the messages alone may not show it: of begin, middle and end, the middle can be
missing. So the quarantine is parsed with the repaired messages in place of the original ones, and
each unit (``messages/units.py``) has to be repaired completely or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, NamedTuple

from trailgate.capture.capture import Capture
from trailgate.errors import DecodeError, TransactionError
from trailgate.messages.units import TransactionState
from trailgate.storage.reading.quarantine_lines import QuarantineLine, messages_of_lines

PART: Final = 1 << 13  # messages parsed at once
HINT: Final = "Repair that line too: the messages of a transaction are captured together. If that message has nothing to capture, empty its body (of formats that skip empty messages)"


class Candidate(NamedTuple):
    """A quarantined message that is not in the trail yet, with its repaired contents if it ``is_repaired``.

    ``is_apart`` is set if the message before it in the quarantine is in the trail, so that this one
    does not continue a transaction. ``fault`` is the error of its repaired copy if that cannot be
    read.
    """

    line: QuarantineLine
    is_repaired: bool
    is_apart: bool = False
    fault: DecodeError | None = None


@dataclass(slots=True)
class _Unit:
    """The first repaired message of a unit, and the first one that is missing.

    ``is_bad`` is set if a repaired message is still bad, which has an error of its own. ``fault`` is
    the error of the first repaired copy that cannot be read.
    """

    repaired: QuarantineLine | None = None
    missing: QuarantineLine | None = None
    is_bad: bool = False
    fault: DecodeError | None = None

    def add(self, candidate: Candidate, *, bad: bool) -> None:
        """Add a message to the unit."""
        if candidate.is_repaired:
            self.repaired = self.repaired or candidate.line
            self.is_bad |= bad
        else:
            self.missing = self.missing or candidate.line
            self.fault = self.fault or candidate.fault

    def check(self) -> None:
        """Raise TransactionError if the unit is repaired in part, or the error of a copy that cannot be read."""
        if self.repaired is None or self.missing is None or self.is_bad:
            return
        if self.fault is not None:
            raise self.fault
        missing = self.missing
        problem = f"a message of its transaction is missing: position {missing.position}, which is line {missing.number} of {missing.path}"
        raise TransactionError(problem, where=self.repaired.where, hint=HINT)


def check_repaired_units(
    capture: Capture, candidates: Iterable[Candidate], state: TransactionState
) -> None:
    """Raise TransactionError if only some messages of a transaction are repaired.

    If the missing ones cannot be read, raises their error.

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
