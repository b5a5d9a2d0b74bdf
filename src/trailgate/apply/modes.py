"""What a batch of operations makes of a target table: a row of a table for each mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.apply.append import COLUMNS, appended, appending_table
from trailgate.apply.batch import Effects, Fetch, effects_of
from trailgate.apply.collisions import Collisions
from trailgate.apply.faults import Faults
from trailgate.apply.operations import Operations
from trailgate.apply.tables import TargetColumn, TargetTable


class Mode(NamedTuple):
    """A mode: the table that it writes, the columns which that has beside the source's, what operations write to it, and whether these may be folded first."""

    table: Callable[[TargetTable], TargetTable]
    effects: Callable[[Operations, Fetch, Collisions, Faults], Effects]
    columns: tuple[TargetColumn, ...]
    folds: bool


def _as_it_is(table: TargetTable) -> TargetTable:
    return table


MODES: Final[Mapping[str, Mode]] = MappingProxyType(
    {
        "current": Mode(_as_it_is, effects_of, (), folds=True),
        "append": Mode(appending_table, appended, COLUMNS, folds=False),
    }
)
