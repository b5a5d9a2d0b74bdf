"""The result of an apply: counts for each target table, the position reached, and the reasons for operations that were not applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from trailgate.apply.targets.target import AppliedPosition


@dataclass(frozen=True, slots=True)
class TableReport:
    """The changes to one target table: the number of applied operations, and of rows that were inserted, updated and so on.

    ``emptied`` counts truncates, whether they remove all rows, mark them as deleted or close their
    versions. ``replayed`` operations were processed row by row, because their keys collide.
    ``ignored`` operations had no effect because of ``on_collision``, and ``discarded`` operations
    could not be applied.
    """

    operations: int = 0
    inserted: int = 0
    updated: int = 0
    replaced: int = 0
    deleted: int = 0
    emptied: int = 0
    replayed: int = 0
    ignored: int = 0
    discarded: int = 0

    def __add__(self, other: TableReport) -> TableReport:
        return TableReport(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """The result of a batch or a run: the changes to each target table, and the position reached.

    ``reasons`` counts the operations that could not be applied, by reason. ``notices`` are
    sentences about everything that was not applied, such as an open transaction or missing first
    files.
    """

    tables: Mapping[str, TableReport] = field(default_factory=lambda: MappingProxyType({}))
    batches: int = 0
    position: AppliedPosition | None = None
    reasons: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    notices: tuple[str, ...] = ()

    @property
    def operations(self) -> int:
        """The number of operations that apply has applied to all target tables."""
        return sum(one.operations for one in self.tables.values())

    def __add__(self, other: ApplyReport) -> ApplyReport:
        names = dict.fromkeys((*self.tables, *other.tables))
        nothing = TableReport()
        tables = {
            name: self.tables.get(name, nothing) + other.tables.get(name, nothing) for name in names
        }
        position = other.position or self.position
        reasons = Counter(self.reasons) + Counter(other.reasons)
        notices = tuple(dict.fromkeys((*self.notices, *other.notices)))
        return ApplyReport(tables, self.batches + other.batches, position, reasons, notices)
