"""Keys of before images: a row is found by them, so a key that is NULL is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import numpy as np

from trailgate.arrays import Mask
from trailgate.errors import TrailgateError
from trailgate.messages.parsing.record_groups import RecordGroup
from trailgate.messages.parsing.records import Records
from trailgate.model.changes import Image, StateColumn

R = TypeVar("R", bound=Records)
_HINT: Final = "No row is found by such a key. Are before values sent with this record?"


def check_keys(group: RecordGroup[R], before: Image) -> None:
    """Add the error of each record whose before image has a NULL key (decision 0008).

    A marked column that is not nullable must have a value. Definitions of Oracle call all columns nullable
    (capture properties §9.2), so of nullable key columns one at least must have a value.
    """
    nulls = {key: _nulls(before[key], len(group.rows)) for key in group.table.marked_keys}
    if not any(mask.any() for mask in nulls.values()):
        return
    whole = np.logical_and.reduce(list(nulls.values()))
    for key, mask in nulls.items():
        column = group.table.columns[key]
        group.add(group.rows[whole if column.nullable else mask], _error(group, column.name))


def _nulls(column: StateColumn, rows: int) -> Mask:
    values = column.values
    if values is None or not values.null_count:
        return np.zeros(rows, bool)
    nulls: Mask = values.is_null().to_numpy(zero_copy_only=False)
    return nulls if column.missing is None else nulls & ~column.missing


def _error(group: RecordGroup[R], name: str) -> Callable[[int], TrailgateError]:
    problem = f"the before value of key column {name} is NULL"
    return lambda row: group.records.error(row, problem, _HINT, table=group.table.name, field=name)
