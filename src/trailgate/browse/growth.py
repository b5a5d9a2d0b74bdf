"""Keep the index of a growing trail up to date: check for new bytes every second, and read them.

Reading continues after the last valid record, with the state that the check had there. But if the
trail ended inside a header or between the two images of an update, this part may have been counted
wrongly. Then the index is rebuilt from the start.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from trailgate.browse.index import IndexedFile, StoppedError, TrailIndex
from trailgate.errors import TrailgateError
from trailgate.jobs.check_steps import (
    CheckedChunk,
    FileBeginning,
    FileEnd,
    Step,
    UnreadableGap,
    check_steps,
    resume_steps,
)
from trailgate.jobs.trail_check import FileTotals, add_step_findings, check_header, files_to_check
from trailgate.storage.files.trail_files import StoredTrail, TrailFile, find_stored_trail
from trailgate.trail.findings import FindingCollector

LOOK_EVERY: Final = 1.0  # seconds
LOOKS: Final = 31  # the number of looks over which the rate is measured


@dataclass(slots=True)
class TrailGrowth:
    """How fast a trail has grown recently.

    ``looks`` are the last times (``time.monotonic()``) at which it was read, each with the number
    of operations that had been added since the time before.
    """

    looks: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=LOOKS))

    def note(self, operations: int) -> None:
        """Record that the trail was read now, and that so many operations were added since the last time."""
        self.looks.append((monotonic(), operations))

    @property
    def rate(self) -> float:
        """The number of operations per second that were added to the growing trail recently."""
        if len(self.looks) < 2:
            return 0.0
        seconds = self.looks[-1][0] - self.looks[0][0]
        return sum(number for _, number in list(self.looks)[1:]) / max(seconds, 1e-3)


class GrowingIndex(TrailIndex):
    """A trail index that is kept up to date. Call ``follow`` after it is built."""

    def __init__(self, path: str, definitions: str | None = None) -> None:
        super().__init__(path, definitions)
        self._growth = TrailGrowth()
        # The file whose header must still be compared with its records.
        self._unchecked: FileBeginning | None = None

    @property
    def rate(self) -> float:
        """The number of operations per second that were added to the trail recently."""
        return self._growth.rate

    def follow(self) -> None:
        """Read records as they are added to the trail, until the index is stopped."""
        # ``wait`` returns True as soon as the index is stopped, so that ends the pause too.
        while not self.problem and not self._stop.wait(LOOK_EVERY):
            try:
                self.read_on()
            except (TrailgateError, OSError) as error:
                self.find_gone_files()
                self.problem = f"the trail is no longer followed: {error}"
            except StoppedError:
                return

    def read_on(self) -> None:
        """Index the records that were added to the trail since the last call."""
        listed = find_stored_trail(*self._asked)
        known = {file.number: file for file in self._sources}
        # Files that were purged meanwhile keep their positions in the lists of the index.
        present = {file.number: file.size for file in listed.files}
        with self.lock:
            self.gone |= known.keys() - present.keys()
        is_shorter = any(present.get(file.number, file.size) < file.size for file in known.values())
        now = known | {file.number: file for file in files_to_check(listed, FindingCollector())}
        sources = tuple(now[number] for number in sorted(now))
        if not is_shorter and all(
            number in known and known[number].size == file.size for number, file in now.items()
        ):
            self._growth.note(0)
            return
        # What was counted of a torn end, or of a file that was replaced, cannot be corrected.
        if self._torn or is_shorter:
            with self.lock:
                self._begin()
                self._unchecked = None
            self.build()
            return
        before, self._has_grown = self.operations, True
        self._add_files(listed, sources)
        ended = self._ended
        if ended is not None and sources[ended.number].size > ended.file.size:
            # Unreadable bytes at the end may be complete records now: continue with the state
            # before them.
            self._state = self._sound or self._state
            for step in resume_steps(sources[ended.number], ended):
                self._take(step)
        added = sources[0 if self._ended is None else self._ended.number + 1 :]
        for step in check_steps(listed, added, after=self._ended):
            self._take(step)
        with self.lock:
            self.transactions.finish(is_open=self._is_open)
        self._growth.note(self.operations - before)

    def _add_files(self, trail: StoredTrail, sources: tuple[TrailFile, ...]) -> None:
        """Update the index's list of files and their sizes from a new listing of the trail."""
        known = {file.number for file in self._sources}
        with self.lock:
            self.found, self._sources = trail, sources
            self.files += [IndexedFile(file) for file in sources if file.number not in known]
            self.bytes = sum(file.size for file in sources)
            for facts, file in zip(self.files, sources, strict=True):
                facts.file = file

    def _take(self, step: Step) -> None:
        """Add a step of the check to the index: a chunk, damage, or the beginning or end of a file."""
        self._watch(step)
        with self.lock:
            if isinstance(step, FileBeginning):
                self._unchecked = step
                # The last CSN is carried over, since the CSNs of the next file must not be lower.
                self._totals = FileTotals(step.file, self._totals.csn if self._totals else None)
            assert self._totals is not None
            if isinstance(step, CheckedChunk):
                self._totals.add(step)
            if isinstance(step, CheckedChunk | UnreadableGap):
                add_step_findings(step, self._sources[step.number], self._findings)
            if isinstance(step, FileEnd) and self._unchecked is not None:
                check_header(self._unchecked, self._totals, self._findings)
                self._unchecked = None
            self.files[step.number].report = self._totals.report()
