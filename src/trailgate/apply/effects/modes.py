"""The modes of a target table: what its rows stand for.

- ``current``: each row of the source
- ``soft-delete``: each row of the source, and deleted rows with a mark
- ``history`` and ``scd2``: each version of each row
- ``append``: each operation

Each mode is one entry of ``MODES``, with the functions that implement it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.apply.effects.collisions import CollisionPolicy
from trailgate.apply.effects.history import COLUMNS as VERSIONS
from trailgate.apply.effects.history import (
    SCD2_COLUMNS,
    add_version_columns,
    compute_versions,
    with_version_key,
)
from trailgate.apply.effects.meta_columns import (
    COLUMNS,
    META_COLUMNS,
    add_meta_columns,
    append_changes,
    build_append_table,
    set_meta_values,
)
from trailgate.apply.effects.operation_errors import OperationErrors
from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.soft_delete import COLUMNS as MARKS
from trailgate.apply.effects.soft_delete import add_delete_marks, compute_soft_deletes
from trailgate.apply.effects.table_changes import TableChanges, compute_table_changes
from trailgate.apply.effects.tables import FetchRows, TargetColumn, TargetTable

ComputeChanges = Callable[
    [TargetOperations, FetchRows, CollisionPolicy, OperationErrors], Sequence[TableChanges]
]


def _as_it_is(table: TargetTable) -> TargetTable:
    return table


def _as_they_are(operations: TargetOperations) -> TargetOperations:
    return operations


class ApplyMode(NamedTuple):
    """One value of ``--mode``: how operations become rows of target tables.

    - ``table`` adds the mode's ``columns`` to a source's table.
    - ``effects`` computes the changes that a batch of operations makes.
    - ``folds`` is true if operations on one key may be combined before ``effects`` is called.
    - ``stored`` returns the table with the key of its stored rows, if this differs from the key by
      which operations find rows.
    - ``logged`` sets the values of the ``--meta`` columns in the operations, as if the source had
      logged them. Other modes leave the operations unchanged here.
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
    return (compute_table_changes(operations, fetch, policy, faults),)


# By the name in --mode.
MODES: Final[Mapping[str, ApplyMode]] = MappingProxyType(
    {
        "current": ApplyMode(_as_it_is, _current, (), folds=True),
        "soft-delete": ApplyMode(add_delete_marks, compute_soft_deletes, MARKS, folds=False),
        "history": ApplyMode(
            add_version_columns, compute_versions, VERSIONS, folds=False, stored=with_version_key
        ),
        "scd2": ApplyMode(
            partial(add_version_columns, columns=SCD2_COLUMNS),
            compute_versions,
            SCD2_COLUMNS,
            folds=False,
            stored=with_version_key,
        ),
        "append": ApplyMode(build_append_table, append_changes, COLUMNS, folds=False),
    }
)
# The modes that keep every version of a row.
VERSIONED: Final = frozenset({"history", "scd2"})
# Current rows with --meta. A folded operation has the position of the first, not of the last one.
WITH_META: Final = ApplyMode(
    add_meta_columns, _current, META_COLUMNS, folds=False, logged=set_meta_values
)
