"""Compare repaired messages with the quarantine of their live trail.

A position alone does not identify a message, because every trail's quarantine has the same ones. So
the quarantine must have a message at the position, from the same source and with the same id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trailgate.capture.capture import Capture
from trailgate.errors import DecodeError, StorageError, Where
from trailgate.jobs.capture.repaired_units import Candidate, check_repaired_units
from trailgate.messages.message_ids import JMS_MESSAGE_ID
from trailgate.messages.units import TransactionState
from trailgate.storage.reading.quarantine_lines import QuarantineLine, read_quarantine

OWN: Final = (
    "Pass lines of {}, and change only their bodies; capture other messages into another trail"
)
GONE: Final = "Restore the file, because repaired messages are compared with it; the capture from the broker needs it too"


@dataclass(frozen=True, slots=True)
class LiveQuarantine:
    """The quarantine of a live trail: the first ``size`` bytes of the file, as its last commit states."""

    path: str
    size: int

    def lines(self) -> Iterator[QuarantineLine]:
        """Yield the quarantine's lines. Raises StorageError if it was deleted or has become shorter."""
        path = Path(self.path)
        size = path.stat().st_size if path.exists() else 0
        if size < self.size:
            problem = (
                f"the quarantine has {size} bytes, but the trail's last commit states {self.size}"
            )
            raise StorageError(problem, where=Where(source=self.path), hint=GONE)
        yield from read_quarantine(self.path, self.size)

    def check_lines(self, lines: Sequence[QuarantineLine]) -> None:
        """Raise DecodeError for the first repaired message that is not one of this quarantine."""
        wanted = {line.position for line in lines}
        own = {line.position: line for line in self.lines() if line.position in wanted}
        for line in lines:
            problem = self._difference(line, own.get(line.position))
            if problem is not None:
                raise DecodeError(problem, where=line.where, hint=OWN.format(self.path))

    def check_transactions(
        self,
        capture: Capture,
        repaired: Mapping[str, QuarantineLine],
        known: Collection[str],
        state: TransactionState,
    ) -> None:
        """Raise TransactionError if a transaction is repaired in part.

        ``repaired`` are the messages by position. The trail has those at the positions ``known``
        already, and its end is ``state``.
        """
        positions = {line.position for line in self.lines()}
        if positions <= {*repaired, *known}:
            return  # nothing is missing
        check_repaired_units(capture, self._candidates(repaired, known), state)

    def _candidates(
        self, repaired: Mapping[str, QuarantineLine], known: Collection[str]
    ) -> Iterator[Candidate]:
        apart = False
        for line in self.lines():
            if line.position in known:
                apart = True
                continue
            own = repaired.get(line.position)
            yield Candidate(own or line, own is not None, apart)
            apart = False

    @staticmethod
    def _difference(line: QuarantineLine, own: QuarantineLine | None) -> str | None:
        """Return why a repaired line is not the message ``own`` of the quarantine, or None if it is."""
        if own is None:
            return f"the trail's quarantine has no message at position {line.position}"
        if not line.source:
            return f"the line has no source, which at position {line.position} is {own.source}"
        if line.source != own.source:
            return f"the message was received from {line.source}, but the one at position {line.position} of the trail's quarantine from {own.source}"
        ids = [one.headers.get(JMS_MESSAGE_ID) for one in (line, own)]
        if None not in ids and ids[0] != ids[1]:
            return f"the message has the id {ids[0]}, but the one at position {line.position} of the trail's quarantine {ids[1]}"
        return None
