"""Many records in columns, and what is wrong with which of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.trail.checking import findings as kinds
from trailgate.trail.checking.findings import Kind, Severity
from trailgate.trail.records.record_view import RecordView

UNNAMED: Final = -1
UNKNOWN: Final = 0xFF  # a TransInd


@dataclass(frozen=True, slots=True)
class Inspected:
    """Records, and their faults. A record of a fault that is an error is ``bad``.

    ``trans_ind`` is ``UNKNOWN`` where it cannot be known. ``name`` is an index into ``names``, ``index`` a table index of
    the file's metadata; -1 where a record has none. ``csn`` and ``tx`` are the ids that records carry.
    """

    view: RecordView
    trans_ind: Octets
    name: Longs
    names: list[str]
    index: Longs
    csn: tuple[Longs, list[str]]
    tx: tuple[Longs, list[str]]
    faults: list[tuple[Kind, Longs]] = field(default_factory=list)
    details: dict[int, str] = field(default_factory=dict)  # of faults, by record

    def __len__(self) -> int:
        return len(self.view)

    @property
    def bad(self) -> Mask:
        """Return which records have an error of their own."""
        bad = np.zeros(len(self), bool)
        for kind, rows in self.faults:
            # Where a transaction is not ended it is the one before the record that is not whole.
            # Records of types that readers refuse are whole.
            if kind.severity is Severity.ERROR and kind not in (kinds.UNENDED, kinds.NOT_READ):
                bad[rows] = True
        return bad

    def note(self, kind: Kind, found: Any) -> None:
        """Add a fault, given as a mask or as rows."""
        rows = np.asarray(found)
        rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        if len(rows):
            self.faults.append((kind, rows))
