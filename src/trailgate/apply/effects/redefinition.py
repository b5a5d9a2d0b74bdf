"""Decide whether a target table can follow a change of its source's definition within a trail.

A new column is added, a dropped column is missing from then on, and an integer may become wider.
Any other change of a type, and a change of the key, stop the run: the target's rows have the
earlier definition, and only the user knows how to convert them. Columns are compared after MAP, by
name, ignoring case.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from trailgate.apply.effects.tables import TargetColumn, TargetTable, created_type
from trailgate.errors import DefinitionError, Where
from trailgate.model.tables import Column, Table
from trailgate.model.types import TypeFamily

INTEGERS: Final = frozenset({TypeFamily.INTEGER, TypeFamily.UNSIGNED})
NARROW: Final = (pa.int8(), pa.int16(), pa.int32())
TYPE_HINT: Final = (
    "Give the target's column a type that can hold both, such as text, and name it with --column {}=text; "
    "or apply the rest to another target with another --group"
)
KEY_HINT: Final = "With KEYCOLS in a parameter file, name a key that is logged before and after the change; or apply the rest to another target with another --group"
STRICT_HINT: Final = "--schema-changes evolve follows such changes if possible"


def check_redefinition(
    old: Table,
    new: Table,
    target: TargetTable,
    chosen: Collection[str],
    *,
    strict: bool = False,
    keyed: bool = True,
) -> None:
    """Raise DefinitionError if a target table cannot follow a change from one definition to the next.

    ``chosen`` are the columns, in lower case, whose types the user chose (``--column``). If
    ``strict`` is true, every change is an error. If ``keyed`` is false (``--mode append``), the key
    may change; otherwise a table without a key cannot follow a change of its columns either.
    """
    target_columns = {column.name.casefold(): column for column in target.columns}
    before = {column.name.casefold(): column for column in old.columns}
    after = {column.name.casefold(): column for column in new.columns}
    for name, column in after.items():
        earlier = before.get(name)
        if earlier is None or name in chosen or _follows(earlier, column, target_columns.get(name)):
            continue
        stored = (
            f", and the target's column has type {target_columns[name].type}"
            if name in target_columns
            else ""
        )
        problem = f"the column was {_shown(earlier)}, but is {_shown(column)} from here on{stored}"
        where = Where(table=str(target), field=column.name)
        raise DefinitionError(
            problem, where=where, hint=TYPE_HINT.format(f"{target}.{column.name}")
        )
    keys = [[one.columns[at].name for at in one.marked_keys] for one in (old, new)]
    # The columns of only one of the two definitions: those added, and those dropped.
    changed = before.keys() ^ after.keys()
    if keyed and ({*map(str.casefold, keys[0])} != {*map(str.casefold, keys[1])}):
        was, now = (", ".join(names) or "none" for names in keys)
        problem = f"the key was {was}, but is {now} from here on"
        raise DefinitionError(problem, where=Where(table=str(target)), hint=KEY_HINT)
    if keyed and changed and not keys[1]:
        problem = f"the table has no key, and its columns change here: {_join_names(changed)}"
        raise DefinitionError(problem, where=Where(table=str(target)), hint=KEY_HINT)
    if strict and (changed or any(_shown(after[one]) != _shown(before[one]) for one in after)):
        differing = changed or {one for one in after if _shown(after[one]) != _shown(before[one])}
        problem = f"the trail redefines the table; changed columns: {_join_names(differing)}"
        raise DefinitionError(problem, where=Where(table=str(target)), hint=STRICT_HINT)


def find_widened_columns(old: Table, new: Table, target: TargetTable) -> tuple[str, ...]:
    """Return the target's integer columns that are too narrow for the new definition.

    These are 8 to 32 bits wide, and their source column has more bytes than in the old definition.
    """
    before = {column.name.casefold(): column for column in old.columns}
    after = {column.name.casefold(): column for column in new.columns}
    names = []
    for one in target.columns:
        earlier, column = before.get(one.name.casefold()), after.get(one.name.casefold())
        if earlier is None or column is None or one.type not in NARROW:
            continue
        is_wider = (column.type_row.width or 0) > (earlier.type_row.width or 0)
        if is_wider and created_type(column) == pa.int64():
            names.append(one.name)
    return tuple(names)


def _follows(old: Column, new: Column, target: TargetColumn | None) -> bool:
    """Return whether a target column can follow its source column from one definition to the next.

    It can if the same type suits both definitions, or if it already has the type of the new one.
    """
    if all(one.family in INTEGERS and not one.scale for one in (old, new)):
        return True
    if old.family is new.family and created_type(old) == created_type(new):
        return True
    is_number = new.family is TypeFamily.NUMBER_TEXT
    return target is not None and target.type == created_type(new) and target.number == is_number


def _shown(column: Column) -> str:
    """Format a column's type for an error, such as ``ASCII_V(20)`` or ``ASCII_V(38), a number``."""
    row, scale = column.type_row, f", scale {column.scale}" if column.scale else ""
    length = f"({column.external_length})" if row.width is None else ""
    number = ", a number" if column.family is TypeFamily.NUMBER_TEXT else ""
    binary = ", bytes" if column.family is TypeFamily.BYTES else ""
    return f"{row.name}{length}{scale}{number}{binary}"


def _join_names(names: Collection[str]) -> str:
    return ", ".join(sorted(names))
