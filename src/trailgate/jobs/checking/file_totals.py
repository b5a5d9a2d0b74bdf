"""What the records of one file come to: counts, and the facts that its header has as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from trailgate.jobs.checking.file_walk import Portion
from trailgate.storage.files.addresses import name_of
from trailgate.storage.files.trail_files import TrailFile
from trailgate.trail.format.record_types import IO_UPDATE, Role, type_name
from trailgate.trail.records.transactions import begins_of


@dataclass(frozen=True, slots=True)
class FileReport:
    """What one file holds; ``by_type`` counts records by Logdump's names."""

    name: str
    bytes: int
    records: int = 0
    transactions: int = 0
    operations: int = 0
    by_type: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is in the records of a file and in its header too. Times are microseconds since 1970."""

    first_csn: str | None = None
    last_csn: str | None = None
    first_time: int | None = None
    last_time: int | None = None


@dataclass(slots=True)
class FileTotals:
    """Counts of one file, as they grow; ``csn`` is carried over from earlier files."""

    file: TrailFile
    csn: str | None = None
    facts: Facts = Facts()
    records: int = 0
    transactions: int = 0
    operations: int = 0
    types: Any = field(default_factory=lambda: np.zeros(256, np.int64))

    def add(self, step: Portion) -> None:
        """Count the records of a portion."""
        found, followed = step.found, step.followed
        view = found.view
        change = view.role == Role.CHANGE
        self.records += len(found)
        self.operations += int((change & ~(view.is_before & (view.io_type == IO_UPDATE))).sum())
        readable = view.readable[followed.rows]
        begins = begins_of(found.trans_ind[followed.rows]) & readable
        begins &= view.role[followed.rows] != Role.ABEND
        self.transactions += int(begins.sum())
        self.types += np.bincount(view.io_type[view.readable], minlength=256)
        self._add_facts(step, change)

    def _add_facts(self, step: Portion, change: Any) -> None:
        found, facts = step.found, self.facts
        rows, texts = found.csn
        at = np.flatnonzero(change)
        if len(at):
            first, last = int(at[0]), int(at[-1])
            if facts.first_time is None:
                own = [text for row, text in zip(rows.tolist(), texts, strict=True) if row <= first]
                csn = own[-1] if own else self.csn
                facts = replace(facts, first_csn=csn, first_time=int(found.view.io_time[first]))
            here = int(np.searchsorted(rows, last, "right"))
            csn = texts[here - 1] if here else self.csn
            facts = replace(facts, last_csn=csn, last_time=int(found.view.io_time[last]))
        self.csn = texts[-1] if texts else self.csn
        self.facts = facts

    def report(self) -> FileReport:
        """Return the counts as a value."""
        counts = {
            type_name(code): int(self.types[code]) for code in np.flatnonzero(self.types).tolist()
        }
        return FileReport(
            name_of(self.file.path),
            self.file.size,
            self.records,
            self.transactions,
            self.operations,
            counts,
        )
