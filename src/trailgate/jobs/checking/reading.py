"""Read checked records as readers do, so that a check finds whatever these refuse.

``trail.checking`` looks for what is wrong with many records at once. What remains after that is read: without
values only their indicators and lengths are looked at, with them they are decoded and brought to the columns' types.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from trailgate.arrays import Longs
from trailgate.errors import TrailgateError
from trailgate.model.tables import Definitions
from trailgate.operations.typed_shape import check_types
from trailgate.trail.checking import findings as kinds
from trailgate.trail.checking.inspected import Inspected
from trailgate.trail.checking.transactions import Followed
from trailgate.trail.format.record_types import Role
from trailgate.trail.reading.reader import ReaderState, decode
from trailgate.trail.reading.wanted import Wanted
from trailgate.trail.records.metadata import TrailTables
from trailgate.trail.records.record_problems import REFUSED
from trailgate.trail.records.record_view import RecordView
from trailgate.trail.records.trail_bytes import TrailBytes

# Bad transactions of a portion that are sought one by one; where there are more, as with the definitions of other tables,
# whole parts of the portion count as bad.
SOUGHT: Final = 16


@dataclass(frozen=True, slots=True)
class Reading:
    """How records are read: the definitions, the character set of texts, and whether values are decoded."""

    definitions: Definitions = field(default_factory=lambda: Definitions(()))
    charset: str = "utf-8"
    values: bool = False

    def accepts(self, source: TrailBytes, view: RecordView, tables: TrailTables) -> bool:
        """Return whether readers take all of these records; ``tables`` are those known before them."""
        try:
            self.read(source, view, tables)
        except TrailgateError:
            return False
        return True

    def check(
        self, found: Inspected, followed: Followed, source: TrailBytes, tables: TrailTables
    ) -> None:
        """Note records that readers refuse, of those that do not take all of them."""
        _Work(self, found, source, tables, _numbered_groups(found, followed)).run()

    def read(self, source: TrailBytes, view: RecordView, tables: TrailTables) -> None:
        """Read records; raises TrailgateError where readers do."""
        wanted = Wanted(values=self.values, positions=False)
        state = ReaderState(tables=tables, order=source.order, charset=self.charset, wanted=wanted)
        found = decode(
            source.buffer,
            self.definitions,
            file_number=0,
            base_offset=source.base,
            state=state,
            finish=True,
            records=view,
        )
        if self.values:
            for block in found.batch.blocks:
                check_types(block)


def _numbered_groups(found: Inspected, followed: Followed) -> Longs:
    """Return the group of each record to be read, -1 for others; 0 is the group that the records before these began.

    Not read are groups with a bad record, which is found already, and what a restart undid, with the restart.
    """
    group = np.cumsum(followed.starts)
    skipped = np.zeros(len(group) + 1, bool)
    rows = followed.rows
    known = found.bad | (found.view.problems & REFUSED != 0)
    skipped[group[known[rows]]] = True
    restarts = np.flatnonzero(found.view.role[rows] == Role.ABEND)
    skipped[group[restarts]] = True
    undone = restarts[(restarts > 0) & ~followed.closed[restarts - 1]]
    skipped[group[undone] - 1] = True
    numbered = np.full(len(found), -1, np.int64)
    numbered[rows] = np.where(skipped[group], -1, group)
    return numbered


@dataclass(frozen=True, slots=True)
class _Work:
    """Records to be read group by group; ``groups`` is the group of each, -1 for those left out."""

    reading: Reading
    found: Inspected
    source: TrailBytes
    tables: TrailTables
    groups: Longs

    def run(self) -> None:
        """Read all groups; those that fail are tried in halves, and noted."""
        numbers = np.unique(self.groups)
        waiting = [numbers[numbers >= 0]]
        errors = 0
        while waiting:
            part = waiting.pop()
            if not len(part):
                continue
            try:
                self._read(part)
            except TrailgateError as error:
                if len(part) == 1 or errors >= SOUGHT:
                    errors += 1
                    self._note(part, error)
                    continue
                half = len(part) // 2
                waiting += [part[half:], part[:half]]

    def _read(self, part: Longs) -> None:
        view = self.found.view
        within = (self.groups >= part[0]) & (self.groups <= part[-1])
        stop = int(np.flatnonzero(within)[-1])
        metadata = view.role == Role.METADATA
        if metadata.any():
            metadata[stop:] = False
            within |= metadata & ~self.found.bad
        self.reading.read(self.source, view.take(np.flatnonzero(within)), self.tables)

    def _note(self, part: Longs, error: TrailgateError) -> None:
        """Note the record that the error is about, or else the first of each group."""
        rows = np.flatnonzero(np.isin(self.groups, part))
        first = rows[np.unique(self.groups[rows], return_index=True)[1]]
        offset = error.where.offset
        if offset is not None and len(part) == 1:
            row = (
                int(np.searchsorted(self.found.view.offsets, offset - self.source.base, "right"))
                - 1
            )
            if row in rows:
                first = np.array([row])
        self.found.note(kinds.READING, first)
        self.found.details[int(first[0])] = (
            error.problem
            if not error.where.field
            else (f"{error.problem} (field {error.where.field})")
        )
