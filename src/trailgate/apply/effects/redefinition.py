"""A table whose definition changes in the middle of a trail: what its target follows, and what stops the run.

A column that is new is added, one that is gone is missing from then on, an integer may get other bytes. Any other change of a type, and another key, stop the run: what the target has was made by the earlier
definition, and nobody but the user knows what becomes of it. Columns are compared as MAP gives them to the target, by name without case.
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
    "Give the target's column a type that holds both, as text, and name it by --column {}=text; "
    "or apply what follows by another --group to another target"
)
KEY_HINT: Final = "KEYCOLS of a parameter file names a key that is logged before and after; or apply what follows by another --group to another target"
STRICT_HINT: Final = "--schema-changes evolve follows what can be followed"


def check_redefinition(
    old: Table,
    new: Table,
    held: TargetTable,
    chosen: Collection[str],
    *,
    strict: bool = False,
    keyed: bool = True,
) -> None:
    """Raise DefinitionError where a target table does not follow from one definition to the next.

    ``chosen`` are the columns, in lower case, whose types the user states; a table that is not ``keyed`` may have any key. With ``strict`` no change is followed.
    """
    own = {column.name.casefold(): column for column in held.columns}
    before = {column.name.casefold(): column for column in old.columns}
    after = {column.name.casefold(): column for column in new.columns}
    for name, column in after.items():
        earlier = before.get(name)
        if earlier is None or name in chosen or _follows(earlier, column, own.get(name)):
            continue
        there = f", and the target's is of {own[name].type}" if name in own else ""
        problem = f"the column was {_shown(earlier)}, and is {_shown(column)} from here on{there}"
        where = Where(table=str(held), field=column.name)
        raise DefinitionError(problem, where=where, hint=TYPE_HINT.format(f"{held}.{column.name}"))
    keys = [[one.columns[at].name for at in one.marked_keys] for one in (old, new)]
    changed = before.keys() ^ after.keys()
    if keyed and ({*map(str.casefold, keys[0])} != {*map(str.casefold, keys[1])}):
        was, now = (", ".join(names) or "none" for names in keys)
        problem = f"the key was {was}, and is {now} from here on"
        raise DefinitionError(problem, where=Where(table=str(held)), hint=KEY_HINT)
    if keyed and changed and not keys[1]:
        problem = f"the table has no key, and other columns from here on: {_named(changed)}"
        raise DefinitionError(problem, where=Where(table=str(held)), hint=KEY_HINT)
    if strict and (changed or any(_shown(after[one]) != _shown(before[one]) for one in after)):
        differing = changed or {one for one in after if _shown(after[one]) != _shown(before[one])}
        problem = f"the trail defines the table anew; other columns: {_named(differing)}"
        raise DefinitionError(problem, where=Where(table=str(held)), hint=STRICT_HINT)


def find_widened_columns(old: Table, new: Table, held: TargetTable) -> tuple[str, ...]:
    """Return the names of the target's integer columns that are narrower than the new definition's, which has more bytes than the old one."""
    before = {column.name.casefold(): column for column in old.columns}
    after = {column.name.casefold(): column for column in new.columns}
    found = []
    for one in held.columns:
        earlier, column = before.get(one.name.casefold()), after.get(one.name.casefold())
        if earlier is None or column is None or one.type not in NARROW:
            continue
        grown = (column.type_row.width or 0) > (earlier.type_row.width or 0)
        if grown and created_type(column) == pa.int64():
            found.append(one.name)
    return tuple(found)


def _follows(old: Column, new: Column, held: TargetColumn | None) -> bool:
    """Return whether a column that was defined otherwise stays in the target as it is, or is one of the new definition that the user made of it."""
    if all(one.family in INTEGERS and not one.scale for one in (old, new)):
        return True
    if old.family is new.family and created_type(old) == created_type(new):
        return True
    is_number = new.family is TypeFamily.NUMBER_TEXT
    return held is not None and held.type == created_type(new) and held.number == is_number


def _shown(column: Column) -> str:
    """Return a column's type as an error has it: ``ASCII_V(20)``, ``BIN32_S``, ``ASCII_V(38), a number``."""
    row, scale = column.type_row, f", scale {column.scale}" if column.scale else ""
    length = f"({column.external_length})" if row.width is None else ""
    number = ", a number" if column.family is TypeFamily.NUMBER_TEXT else ""
    binary = ", bytes" if column.family is TypeFamily.BYTES else ""
    return f"{row.name}{length}{scale}{number}{binary}"


def _named(names: Collection[str]) -> str:
    return ", ".join(sorted(names))
