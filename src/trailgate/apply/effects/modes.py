"""The modes of a target table: current rows, soft-deleted rows, all versions, or all operations.

Each mode is one row of ``MODES``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.apply.effects.append import COLUMNS, appended, appending_table
from trailgate.apply.effects.batch import Effects, Fetch, effects_of
from trailgate.apply.effects.collisions import Collisions
from trailgate.apply.effects.faults import Faults
from trailgate.apply.effects.history import COLUMNS as VERSIONS
from trailgate.apply.effects.history import historic_table, versions, with_version_key
from trailgate.apply.effects.meta import meta_table, with_meta
from trailgate.apply.effects.operations import Operations
from trailgate.apply.effects.soft_delete import COLUMNS as MARKS
from trailgate.apply.effects.soft_delete import soft_deleted, soft_deleting_table
from trailgate.apply.effects.tables import TargetColumn, TargetTable

EffectsOf = Callable[[Operations, Fetch, Collisions, Faults], Sequence[Effects]]


def _as_it_is(table: TargetTable) -> TargetTable:
    return table


def _as_they_are(operations: Operations) -> Operations:
    return operations


class Mode(NamedTuple):
    """How one mode keeps tables.

    ``table`` adds the mode's ``columns`` to a source's table. ``effects`` computes the changes that
    a batch of operations makes. ``folds`` is true if operations on one key may be combined before
    that. ``stored`` returns the table with the key of its stored rows, if that is not the key by
    which operations find rows. ``logged`` sets operations' values of columns that the source lacks.
    """

    table: Callable[[TargetTable], TargetTable]
    effects: EffectsOf
    columns: tuple[TargetColumn, ...]
    folds: bool
    stored: Callable[[TargetTable], TargetTable] = _as_it_is
    logged: Callable[[Operations], Operations] = _as_they_are


def _current(
    operations: Operations, fetch: Fetch, policy: Collisions, faults: Faults
) -> Sequence[Effects]:
    return (effects_of(operations, fetch, policy, faults),)


MODES: Final[Mapping[str, Mode]] = MappingProxyType(
    {
        "current": Mode(_as_it_is, _current, (), folds=True),
        "soft-delete": Mode(soft_deleting_table, soft_deleted, MARKS, folds=False),
        "history": Mode(historic_table, versions, VERSIONS, folds=False, stored=with_version_key),
        "append": Mode(appending_table, appended, COLUMNS, folds=False),
    }
)
# Current rows with --meta. A folded operation has the position of the first, not of the last one.
WITH_META: Final = Mode(meta_table, _current, (), folds=False, logged=with_meta)
