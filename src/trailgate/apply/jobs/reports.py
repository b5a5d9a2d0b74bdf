"""The result of an apply: counts for each target table, the position reached, and the reasons for operations that were not applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.table_changes import TableChanges
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


def count_discarded(report: ApplyReport) -> int:
    """Return the number of operations in an apply report that could not be applied: discarded and ignored ones."""
    return sum(one.discarded for one in report.tables.values())


def report_to_json(report: ApplyReport, faults: Mapping[str, int]) -> dict[str, Any]:
    """Convert an apply report to JSON values. ``faults`` counts the target's failures by reason."""
    return {
        "operations": report.operations,
        "batches": report.batches,
        "discarded": count_discarded(report),
        "tables": {name: asdict(one) for name, one in report.tables.items()},
        "position": None if report.position is None else report.position.position,
        "csn": None if report.position is None else report.position.csn,
        "reasons": dict(report.reasons),
        "notices": list(report.notices),
        "faults": dict(faults),
    }


def count_changes(
    operations: TargetOperations, steps: Sequence[TableChanges], failed: int = 0
) -> TableReport:
    """Count the applied operations and the changed rows of one table.

    ``failed`` is the number of ``operations`` that could not be applied.
    """
    # Folded operations stand for several operations of the trail, which are counted.
    done = TableReport(operations=int(operations.weight.sum()) - failed)
    for one in steps:
        counts = one.counts
        done += TableReport(
            inserted=counts["insert"],
            updated=counts["patch"],
            replaced=counts["replace"],
            deleted=counts["delete"],
            emptied=int(one.emptied or one.closing is not None),
            replayed=one.replayed,
            ignored=one.ignored,
        )
    return done
