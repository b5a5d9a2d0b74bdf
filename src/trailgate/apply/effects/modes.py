"""What a batch of operations makes of a target table: a row of a table for each mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.apply.effects.append import COLUMNS, append_changes, build_append_table
from trailgate.apply.effects.batch import FetchRows, TableChanges, compute_changes
from trailgate.apply.effects.collisions import CollisionPolicy
from trailgate.apply.effects.faults import OperationErrors
from trailgate.apply.effects.history import COLUMNS as VERSIONS
from trailgate.apply.effects.history import add_version_columns, compute_versions, with_version_key
from trailgate.apply.effects.meta import add_meta_columns, set_meta_values
from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.soft_delete import COLUMNS as MARKS
from trailgate.apply.effects.soft_delete import add_delete_marks, compute_soft_deletes
from trailgate.apply.effects.tables import TargetColumn, TargetTable

ComputeChanges = Callable[
    [TargetOperations, FetchRows, CollisionPolicy, OperationErrors], Sequence[TableChanges]
]


def _as_it_is(table: TargetTable) -> TargetTable:
    return table


def _as_they_are(operations: TargetOperations) -> TargetOperations:
    return operations


class ApplyMode(NamedTuple):
    """A way of keeping tables: what its table is, what operations write to it, and whether these may be folded first.

    ``columns`` are those that the table has beside the source's, ``stored`` gives the table with the key of its rows, where that is not the one by which operations find them. ``logged`` gives operations the
    values of columns that the source lacks.
    """

    table: Callable[[TargetTable], TargetTable]
    effects: ComputeChanges
    columns: tuple[TargetColumn, ...]
    folds: bool
    stored: Callable[[TargetTable], TargetTable] = _as_it_is
    logged: Callable[[TargetOperations], TargetOperations] = _as_they_are


def _current(
    operations: TargetOperations, fetch: FetchRows, policy: CollisionPolicy, faults: OperationErrors
) -> Sequence[TableChanges]:
    return (compute_changes(operations, fetch, policy, faults),)


MODES: Final[Mapping[str, ApplyMode]] = MappingProxyType(
    {
        "current": ApplyMode(_as_it_is, _current, (), folds=True),
        "soft-delete": ApplyMode(add_delete_marks, compute_soft_deletes, MARKS, folds=False),
        "history": ApplyMode(
            add_version_columns, compute_versions, VERSIONS, folds=False, stored=with_version_key
        ),
        "append": ApplyMode(build_append_table, append_changes, COLUMNS, folds=False),
    }
)
WITH_META: Final = ApplyMode(add_meta_columns, _current, (), folds=False, logged=set_meta_values)
